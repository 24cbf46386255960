//! Zeros around the data of a convolution become its padding.
//!
//! ```text
//! R.nn.conv2d(R.nn.pad(x, (0, 0, 0, 0, 1, 1, 2, 2)), w, padding=[1, 0, 0, 0])    →    R.nn.conv2d(x, w, padding=[2, 2, 1, 2])
//! ```
//!
//! Only spatial dimensions may be padded. Transposed convolutions are left out, whose padding removes elements of the result; so are
//! pools, whose padding does not count as elements.

use crate::graph::function::{Arg, CallId, ValueId};
use crate::graph::op::Geometry;
use crate::graph::pass::rewrite::Rewriter;
use crate::ir::AttrValue;

pub(super) fn into_convolution(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let conv = rw.args(c).filter(|args| matches!(args.op.name, "nn.conv1d" | "nn.conv2d" | "nn.conv3d"))?;
    let pad = rw.only_use_of(conv.value("data")?, "nn.pad")?;
    if pad.opt_text("pad_mode").unwrap_or("constant") != "constant" || pad.float("pad_value") != 0.0 {
        return None;
    }
    let x = pad.value("data")?;
    let padding = sum(&Geometry::of(&conv)?, &pad.ints("pad_width"))?;
    let mut args = conv.args.to_vec();
    args[conv.op.position("data")?] = Arg::Value(x);
    args[conv.op.position("padding")?] = Arg::Attr(AttrValue::List(padding));
    rw.add_call(conv.op, args)
}

/// The padding of a convolution together with that of its data; `None` if other dimensions are padded, or elements taken away.
fn sum(conv: &Geometry, widths: &[i64]) -> Option<Vec<AttrValue>> {
    let fits = |(d, width): (usize, &[i64])| width.iter().all(|&w| w == 0 || w > 0 && conv.spatial.contains(&d));
    if !widths.chunks(2).enumerate().all(fits) {
        return None;
    }
    let added = |side: usize, own: &[i64]| -> Vec<AttrValue> {
        let of = |(&d, &own): (&usize, &i64)| AttrValue::Int(own + widths.get(2 * d + side).copied().unwrap_or(0));
        conv.spatial.iter().zip(own).map(of).collect()
    };
    Some([added(0, &conv.before), added(1, &conv.after)].concat())
}
