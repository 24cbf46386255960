//! Bit representations of values.

use super::round::{to_bf16, to_f16};
use crate::ir::dtype::DType;
use crate::ir::expr::Const;

/// The bits of a value in memory, rounded or wrapped to the type. The bits above its width are 0 for floats and `bool`,
/// and arbitrary for integers.
#[inline]
pub fn bits_of(dtype: DType, value: Const) -> u64 {
    match dtype {
        DType::Float16 => to_f16(value.as_f64()).to_bits().into(),
        DType::BFloat16 => to_bf16(value.as_f64()).to_bits().into(),
        DType::Float32 => (value.as_f64() as f32).to_bits().into(),
        DType::Float64 => value.as_f64().to_bits(),
        DType::Float8(t) => t.encode(value.as_f64()).into(),
        DType::Bool => (value.as_i64() != 0).into(),
        DType::Int8
        | DType::Int16
        | DType::Int32
        | DType::Int64
        | DType::UInt8
        | DType::UInt16
        | DType::UInt32
        | DType::UInt64
        | DType::Narrow(_)
        | DType::Handle
        | DType::Str => value.as_i64() as u64,
    }
}

/// The value of a bit pattern in memory; bits above the width of the type are ignored.
#[inline]
pub fn value_of(dtype: DType, bits: u64) -> Const {
    match dtype {
        DType::Float16 => Const::Float(half::f16::from_bits(bits as u16).to_f64()),
        DType::BFloat16 => Const::Float(half::bf16::from_bits(bits as u16).to_f64()),
        DType::Float32 => Const::Float(f32::from_bits(bits as u32).into()),
        DType::Float64 => Const::Float(f64::from_bits(bits)),
        DType::Float8(t) => Const::Float(t.decode(bits as u8)),
        DType::Int8
        | DType::Int16
        | DType::Int32
        | DType::UInt8
        | DType::UInt16
        | DType::UInt32
        | DType::Int64
        | DType::UInt64
        | DType::Narrow(_)
        | DType::Handle
        | DType::Str => Const::Int(dtype.wrap(bits as i64)),
        DType::Bool => Const::Int((bits as u8 != 0).into()),
    }
}

/// The value of another type with the same bit pattern.
pub fn reinterpret(from: DType, to: DType, value: Const) -> Const {
    value_of(to, bits_of(from, value))
}
