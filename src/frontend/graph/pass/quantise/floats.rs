//! The product of floats that bytes stand for becomes a product of integers.
//!
//! ```text
//! R.nn.conv2d(R.dequantize(x, sx, zx), R.dequantize(w, sw, zw, axis=0))
//!
//! // becomes
//! R.astype(R.nn.conv2d(x - zx, w - zw), "float32") * (sx * sw)
//! ```
//!
//! `x` has one scale, and `w` one or one for each output channel. The sums are exact: only products that cannot exceed 32 bits are taken.
//! They are rounded twice, as `float32` and by the scale, where a sum of floats is rounded after each addition.

use super::integers::{Centred, Zero, is_byte};
use crate::graph::function::{Arg, CallId, ValueId};
use crate::graph::infer::Args;
use crate::graph::pass::canonicalise::permute::axes;
use crate::graph::pass::rewrite::Rewriter;
use crate::ir::{AttrValue, DType};

/// The largest number of products of two differences of bytes whose sum is less than 2^31.
const MOST_TERMS: i64 = (i32::MAX as i64) / (255 * 255);

pub(super) fn to_integers(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let args = rw.args(c)?;
    let names = match args.op.name {
        "matmul" => ["x1", "x2"],
        "nn.conv1d" | "nn.conv2d" | "nn.conv3d" => ["data", "weight"],
        _ => return None,
    };
    let (op, mut all) = (args.op, args.args.to_vec());
    let (x, w) = (args.value(names[0])?, args.value(names[1])?);
    let is_matmul = op.name == "matmul";
    let (result, rank) = (rw.function.call(c).result, rw.shape(w)?.len());
    let is_plain = is_matmul || args.opt_text("kernel_layout").is_some_and(|t| t.starts_with("OI"));
    if is_matmul && (rw.shape(x)?.len() < 2 || rank < 2) {
        return None;
    }
    let (x, w) = (Dequantised::of(rw, x)?, Dequantised::of(rw, w)?);
    let channel = if is_matmul { rank.checked_sub(1)? } else { 0 };
    let is_scaled = x.axis.is_none() && w.axis.is_none_or(|axis| axis == channel);
    if rw.dtype(result) != Some(DType::Float32)
        || !is_plain
        || !is_scaled
        || n_terms(rw, &rw.args(c)?, rank)? > MOST_TERMS
    {
        return None;
    }
    // The scale of output channels is along the last dimension of a product, and along the second one of a convolution.
    let behind = if is_matmul { 0 } else { rank - 2 };
    let scale = scales(rw, &x, &w, behind)?;
    let (x, w) = (x.centred(rw)?, w.centred(rw)?);
    all[op.position(names[0])?] = Arg::Value(x);
    all[op.position(names[1])?] = Arg::Value(w);
    all[op.position("out_dtype")?] = Arg::Attr(AttrValue::Str("int32".into()));
    let sums = rw.add_call(op, all)?;
    let sums = rw.converted(sums, DType::Float32)?;
    rw.add_binary("multiply", sums, scale)
}

/// The number of products in a sum.
fn n_terms(rw: &Rewriter<'_>, args: &Args<'_>, rank: usize) -> Option<i64> {
    let is_matmul = args.op.name == "matmul";
    let shape = rw.shape(args.value(if is_matmul { "x2" } else { "weight" })?)?;
    let dims = if is_matmul { rank.checked_sub(2)?..rank - 1 } else { 1..rank };
    shape.get(dims)?.iter().try_fold(1i64, |n, &e| n.checked_mul(rw.function.arena.as_int(e)?))
}

/// The product of both scales, with so many dimensions of extent 1 behind that of channels.
fn scales(rw: &mut Rewriter<'_>, x: &Dequantised, w: &Dequantised, behind: usize) -> Option<ValueId> {
    let of_x = rw.reshaped(x.scale, Vec::new())?;
    let of_w = match w.axis {
        None => rw.reshaped(w.scale, Vec::new())?,
        Some(_) => {
            let channels = rw.shape(w.scale)?;
            rw.reshaped_with_ones(w.scale, channels, behind)?
        }
    };
    rw.add_binary("multiply", of_w, of_x)
}

/// `R.dequantize(bytes, scale, zero, axis)`, perhaps with its dimensions in another order.
pub(super) struct Dequantised {
    pub(super) bytes: ValueId,
    pub(super) scale: ValueId,
    pub(super) zero: ValueId,
    /// The dimension along which scales or zero points differ.
    axis: Option<usize>,
}

impl Dequantised {
    pub(super) fn of(rw: &mut Rewriter<'_>, v: ValueId) -> Option<Dequantised> {
        if let Some(moved) = rw.defined_by(v, "permute_dims") {
            let x = moved.value("x")?;
            let axes = axes(&moved, rw.shape(x)?.len())?;
            let inner = Dequantised::plain(rw, x)?;
            let bytes = rw.permuted(inner.bytes, &axes)?;
            let axis = inner.axis.map(|axis| axes.iter().position(|&d| d == axis));
            let axis = if let Some(found) = axis { Some(found?) } else { None };
            return Some(Dequantised { bytes, axis, ..inner });
        }
        Dequantised::plain(rw, v)
    }

    fn plain(rw: &Rewriter<'_>, v: ValueId) -> Option<Dequantised> {
        let args = rw.defined_by(v, "dequantize")?;
        let (bytes, scale, zero) = (args.value("data")?, args.value("scale")?, args.value("zero_point")?);
        let rank = rw.shape(bytes)?.len();
        let axis = match is_single(rw, scale) && is_single(rw, zero) {
            true => None,
            false => Some(args.axis(args.int("axis"), rank).ok()?),
        };
        let is_float = rw.dtype(scale) == Some(DType::Float32) && rw.dtype(v) == Some(DType::Float32);
        let fits = is_float && is_byte(rw.dtype(bytes)) && rw.is_invariant(scale);
        fits.then_some(Dequantised { bytes, scale, zero, axis })
    }

    /// The bytes less their zero point, as `int32`.
    fn centred(&self, rw: &mut Rewriter<'_>) -> Option<ValueId> {
        let rank = rw.shape(self.bytes)?.len();
        let zero = match Zero::of(rw, self.zero) {
            Zero::Value(v) => {
                let wide = rw.converted(v, DType::Int32)?;
                let extents = rw.shape(wide)?;
                match self.axis {
                    Some(axis) if !is_single(rw, wide) => {
                        Zero::Value(rw.reshaped_with_ones(wide, extents, rank - 1 - axis)?)
                    }
                    _ => Zero::Value(rw.reshaped(wide, Vec::new())?),
                }
            }
            known => known,
        };
        Centred { bytes: self.bytes, zero }.value(rw)
    }
}

/// Whether a tensor has one element.
pub(super) fn is_single(rw: &Rewriter<'_>, v: ValueId) -> bool {
    rw.shape(v).is_some_and(|shape| shape.iter().all(|&e| rw.function.arena.is_int(e, 1)))
}
