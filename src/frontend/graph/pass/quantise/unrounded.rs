//! Rounding that changes nothing is left out.
//!
//! ```text
//! R.quantize(R.dequantize(x, s, z), s, z)                        →    x
//! R.quantize(R.reshape(R.dequantize(x, s, z), …), s, z)          →    R.reshape(x, …)
//! R.quantize(R.nn.max_pool2d(R.dequantize(x, s, z), …), s, z)    →    R.nn.max_pool2d(x, …)
//! ```
//!
//! So are operators between that only move elements, or choose the largest: bytes are in the order of the floats that they stand for.

use super::floats::is_single;
use super::integers::known;
use crate::graph::function::{CallId, Callee, ValueId};
use crate::graph::infer::Args;
use crate::graph::pass::rewrite::Rewriter;

/// Operators of one tensor that move elements or choose among them.
const MOVES: [&str; 9] = [
    "broadcast_to",
    "expand_dims",
    "flatten",
    "nn.batch_flatten",
    "nn.max_pool1d",
    "nn.max_pool2d",
    "nn.max_pool3d",
    "permute_dims",
    "reshape",
];

/// Others, which have `x` or several tensors first.
const MORE_MOVES: [&str; 4] = ["concat", "max", "squeeze", "strided_slice"];

pub(super) fn removed(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let args = rw.args(c).filter(|args| args.op.name == "quantize")?;
    let (x, to) = (args.value("data")?, Scale::of(rw, &args)?);
    if let Some(bytes) = to.bytes_of(rw, x) {
        return rw.reproduced(c, bytes);
    }
    let call = rw.function.definition(x)?;
    let Callee::Op(op) = call.callee else { return None };
    if !MOVES.contains(&op.name) && !MORE_MOVES.contains(&op.name) {
        return None;
    }
    let mut all = call.args.clone();
    for v in all.first_mut()?.values_mut() {
        *v = to.bytes_of(rw, *v)?;
    }
    rw.add_call(op, all)
}

impl Rewriter<'_> {
    /// A value in place of a result; by another name if it is an output.
    fn reproduced(&mut self, c: CallId, v: ValueId) -> Option<ValueId> {
        let result = self.function.call(c).result;
        Some(if self.is_output(result) { self.add_alias(v) } else { v })
    }
}

/// A scale and a zero point for all elements.
struct Scale {
    scale: ValueId,
    zero: i64,
}

impl Scale {
    fn of(rw: &Rewriter<'_>, args: &Args<'_>) -> Option<Scale> {
        Some(Scale { scale: args.value("scale")?, zero: known(rw, args.value("zero_point")?)? })
    }

    /// The bytes that stand for a value by this scale.
    fn bytes_of(&self, rw: &Rewriter<'_>, v: ValueId) -> Option<ValueId> {
        let args = rw.defined_by(v, "dequantize")?;
        let other = Scale::of(rw, &args)?;
        let same = self.scale == other.scale
            || rw.scalar(self.scale).is_some() && rw.scalar(self.scale) == rw.scalar(other.scale);
        let fits = same && is_single(rw, self.scale);
        args.value("data").filter(|_| fits && self.zero == other.zero)
    }
}
