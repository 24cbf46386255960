//! The product of two matrices of integers less zero points becomes one of bytes.
//!
//! ```text
//! R.matmul(a - za, b - zb)    →    R.matmul(a, b, out_dtype="int32") - za * R.sum(b - zb, axis=-2) - zb * R.sum(a, axis=-1)
//! ```
//!
//! The sums of weights are the same in every call. One factor has unsigned bytes and the other one signed ones ([`signs`](super::signs)),
//! and both get zeros until the number of terms is a multiple of four, which is one instruction.

use super::integers::{Centred, Zero};
use crate::graph::function::{Arg, CallId, ValueId};
use crate::graph::pass::rewrite::Rewriter;
use crate::ir::{AttrValue, DType};

/// Terms of a dot product.
pub(super) const TERMS: i64 = 4;

pub(super) fn of_bytes(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let args = rw.args(c).filter(|args| args.op.name == "matmul")?;
    let (a, b) = (args.value("x1")?, args.value("x2")?);
    let (is_weight_a, is_weight_b) = (rw.is_invariant(a), rw.is_invariant(b));
    let (a, b) = (Centred::of(rw, a)?, Centred::of(rw, b)?);
    let (rank_a, rank_b) = (rw.shape(a.bytes)?.len(), rw.shape(b.bytes)?.len());
    if rw.dtype(rw.function.call(c).result) != Some(DType::Int32) || rank_a < 2 || rank_b < 2 {
        return None;
    }
    let (of_a, of_b) = (rank_a - 1, rank_b - 2);
    if !a.zero.is_single_along(rw, rank_a, of_a) || !b.zero.is_single_along(rw, rank_b, of_b) {
        return None;
    }
    let signed_first = is_weight_a && !is_weight_b;
    let types = if signed_first { [DType::Int8, DType::UInt8] } else { [DType::UInt8, DType::Int8] };
    let (a, b) = (a.of_type(rw, types[0])?, b.of_type(rw, types[1])?);
    let k = rw.shape(a.bytes)?[of_a];
    let missing = match rw.function.arena.as_int(k) {
        Some(k) => (TERMS - k % TERMS) % TERMS,
        None => 0,
    };
    let (x, y) = (extended(rw, a.bytes, of_a, missing)?, extended(rw, b.bytes, of_b, missing)?);
    let out_dtype = Arg::Attr(AttrValue::Str("int32".into()));
    let mut total =
        rw.add_op("matmul", vec![("x1", Arg::Value(x)), ("x2", Arg::Value(y)), ("out_dtype", out_dtype)])?;
    if a.zero != Zero::Known(0) {
        let b = b.value(rw)?;
        let sums = rw.summed(b, &[of_b])?;
        total = rw.less(total, a.zero, sums)?;
    }
    if b.zero != Zero::Known(0) {
        let a = rw.converted(a.bytes, DType::Int32)?;
        let sums = rw.summed(a, &[of_a])?;
        total = rw.less(total, b.zero, sums)?;
    }
    Some(total)
}

/// A tensor with so many zeros behind a dimension.
fn extended(rw: &mut Rewriter<'_>, v: ValueId, dim: usize, by: i64) -> Option<ValueId> {
    let mut widths = vec![0; 2 * rw.shape(v)?.len()];
    widths[2 * dim + 1] = by;
    rw.padded(v, &widths, 0)
}
