//! Signed bytes become unsigned ones, which differ in the sign bit.
//!
//! ```text
//! R.quantize(x, s, z, out_dtype="int8")    →    R.bitwise_xor(R.quantize(x, s, z + 128, out_dtype="uint8"), 128) as int8
//! R.dequantize(… as int8, s, z)            →    R.dequantize(R.quantize(x, s, z + 128, out_dtype="uint8"), s, z + 128)
//! ```
//!
//! Products of bytes have one unsigned factor. So that tensors are not converted before each, they are written with the other sign, and all
//! that reads them is changed. What the graph only returns stays as it is.

use super::integers::{is_byte, known};
use crate::graph::function::{Arg, CallId, ValueId};
use crate::graph::pass::rewrite::Rewriter;
use crate::ir::{AttrValue, DType};

/// The bytes with the other sign bit, by the other type.
pub(super) fn flipped(rw: &mut Rewriter<'_>, v: ValueId) -> Option<ValueId> {
    let to = if rw.dtype(v)? == DType::Int8 { DType::UInt8 } else { DType::Int8 };
    let unsigned = rw.converted(v, DType::UInt8)?;
    let bit = rw.add_integer(128, DType::UInt8)?;
    let flipped = rw.add_binary("bitwise_xor", unsigned, bit)?;
    rw.converted(flipped, to)
}

/// The bytes from which [`flipped`] made a value.
pub(super) fn with_other_sign(rw: &Rewriter<'_>, v: ValueId) -> Option<ValueId> {
    let flipped = match rw.dtype(v)? {
        DType::Int8 => rw.defined_by(v, "astype")?.value("x")?,
        _ => v,
    };
    let args = rw.defined_by(flipped, "bitwise_xor")?;
    let (x, bit) = (args.value("x1")?, args.value("x2")?);
    if known(rw, bit) != Some(128) {
        return None;
    }
    match rw.dtype(v)? {
        DType::Int8 => Some(x),
        _ => rw.defined_by(x, "astype")?.value("x").filter(|&x| rw.dtype(x) == Some(DType::Int8)),
    }
}

pub(super) fn made_unsigned(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let args = rw.args(c).filter(|args| args.op.name == "quantize")?;
    let (x, scale, zero) = (args.value("data")?, args.value("scale")?, args.value("zero_point")?);
    let axis = args.int("axis");
    let result = rw.function.call(c).result;
    let is_only_returned = rw.is_output(result) && rw.has_uses(result, 1);
    if rw.dtype(result) != Some(DType::Int8) || is_only_returned {
        return None;
    }
    let zero = rw.add_integer(known(rw, zero)? + 128, DType::UInt8)?;
    let bytes = rw.quantized(x, scale, zero, axis, DType::UInt8)?;
    flipped(rw, bytes)
}

pub(super) fn read_unsigned(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let args = rw.args(c).filter(|args| args.op.name == "dequantize")?;
    let (x, zero) = (args.value("data")?, args.value("zero_point")?);
    if rw.dtype(x) != Some(DType::Int8) || rw.is_invariant(x) {
        return None;
    }
    let mut args = args.args.to_vec();
    let op = rw.args(c)?.op;
    let bytes = with_other_sign(rw, x)?;
    let zero = rw.add_integer(known(rw, zero)? + 128, DType::UInt8)?;
    args[op.position("data")?] = Arg::Value(bytes);
    args[op.position("zero_point")?] = Arg::Value(zero);
    is_byte(rw.dtype(bytes)).then(|| rw.add_call(op, args))?
}

impl Rewriter<'_> {
    /// Adds a call of `R.quantize`.
    pub(super) fn quantized(
        &mut self,
        x: ValueId,
        scale: ValueId,
        zero: ValueId,
        axis: i64,
        dtype: DType,
    ) -> Option<ValueId> {
        let args = vec![
            ("data", Arg::Value(x)),
            ("scale", Arg::Value(scale)),
            ("zero_point", Arg::Value(zero)),
            ("axis", Arg::Attr(AttrValue::Int(axis))),
            ("out_dtype", Arg::Attr(AttrValue::Str(dtype.to_string().as_str().into()))),
        ];
        self.add_op("quantize", args)
    }
}
