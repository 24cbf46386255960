//! Normalisation by the mean square over the last dimensions becomes one operator.
//!
//! ```text
//! x * rsqrt(mean(x * x, axis=-1, keepdims=True) + 1e-05) * weight    →    R.nn.rms_norm(x, weight, axes=[-1], epsilon=1e-05)
//! ```
//!
//! The square may be a `power` or `square`, and the root may be `1 / sqrt` or a `power`. Zhang and Sennrich, "Root Mean Square Layer
//! Normalization", 2019.

use super::root::{OverRoot, has_last_extents, last_axes, over_last, squared};
use crate::graph::function::{Arg, CallId, ValueId};
use crate::graph::pass::rewrite::Rewriter;
use crate::ir::AttrValue;

pub(super) fn recognise(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let OverRoot { factors, mean, epsilon } = OverRoot::of(rw, rw.function.call(c).result)?;
    let [a, b] = factors[..] else { return None };
    let (square, n_axes) = over_last(rw, &rw.only_use_of(mean, "mean")?)?;
    let (data, _) = squared(rw, square)?;
    let weight = if a == data { b } else { a };
    if (a != data && b != data) || !has_last_extents(rw, weight, n_axes, data) {
        return None;
    }
    let args = vec![
        ("data", Arg::Value(data)),
        ("weight", Arg::Value(weight)),
        ("axes", Arg::Attr(last_axes(n_axes))),
        ("epsilon", Arg::Attr(AttrValue::Float(epsilon))),
    ];
    rw.add_op("nn.rms_norm", args)
}
