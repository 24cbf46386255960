//! Normalisation by mean and variance over the last dimensions becomes one operator.
//!
//! ```text
//! d = x - mean(x, axis=-1, keepdims=True)
//! v = mean(d * d, axis=-1, keepdims=True)      →    R.nn.layer_norm(x, gamma, beta, axes=[-1], epsilon=1e-05)
//! d / sqrt(v + 1e-05) * gamma + beta
//! ```
//!
//! The square may be a `power` or `square`, `v` may be `R.variance`, and the root may be `rsqrt` or a `power`.

use super::root::{OverRoot, has_last_extents, last_axes, over_last, squared};
use crate::graph::function::{Arg, CallId, ValueId};
use crate::graph::pass::rewrite::Rewriter;
use crate::ir::AttrValue;

pub(super) fn recognise(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let sum = rw.args(c).filter(|args| args.op.name == "add")?;
    let (a, b) = (sum.value("x1")?, sum.value("x2")?);
    let (norm, beta) = match Normalised::of(rw, a) {
        Some(norm) => (norm, b),
        None => (Normalised::of(rw, b)?, a),
    };
    if !has_last_extents(rw, beta, norm.n_axes, norm.data) {
        return None;
    }
    let args = vec![
        ("data", Arg::Value(norm.data)),
        ("gamma", Arg::Value(norm.gamma)),
        ("beta", Arg::Value(beta)),
        ("axes", Arg::Attr(last_axes(norm.n_axes))),
        ("epsilon", Arg::Attr(AttrValue::Float(norm.epsilon))),
    ];
    rw.add_op("nn.layer_norm", args)
}

/// `(data - mean) / sqrt(variance + epsilon) * gamma` over the last dimensions.
struct Normalised {
    data: ValueId,
    gamma: ValueId,
    n_axes: usize,
    epsilon: f64,
}

impl Normalised {
    fn of(rw: &Rewriter<'_>, v: ValueId) -> Option<Normalised> {
        if !rw.has_uses(v, 1) {
            return None;
        }
        let OverRoot { factors, mean: variance, epsilon } = OverRoot::of(rw, v)?;
        let [a, b] = factors[..] else { return None };
        let with = |difference, gamma| {
            let (data, n_axes) = deviation(rw, difference, variance)?;
            has_last_extents(rw, gamma, n_axes, data).then_some(Normalised { data, gamma, n_axes, epsilon })
        };
        with(a, b).or_else(|| with(b, a))
    }
}

/// The tensor from which a difference subtracts its mean, if the variance is that of this tensor; and the number of last dimensions
/// over which both go.
fn deviation(rw: &Rewriter<'_>, difference: ValueId, variance: ValueId) -> Option<(ValueId, usize)> {
    let subtraction = rw.defined_by(difference, "subtract")?;
    let (data, mean) = (subtraction.value("x1")?, subtraction.value("x2")?);
    let of_mean = over_last(rw, &rw.only_use_of(mean, "mean")?)?;
    let (of_variance, n_reads) = match rw.only_use_of(variance, "variance") {
        Some(args) => (over_last(rw, &args)?, 0),
        None => {
            let (square, n_axes) = over_last(rw, &rw.only_use_of(variance, "mean")?)?;
            let (x, n_reads) = squared(rw, square)?;
            // The mean of the squared differences is the variance of the data.
            ((if x == difference { data } else { return None }, n_axes), n_reads)
        }
    };
    (of_mean == (data, of_variance.1) && of_variance == of_mean && rw.has_uses(difference, n_reads + 1))
        .then_some(of_mean)
}
