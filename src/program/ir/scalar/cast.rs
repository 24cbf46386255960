//! Conversions between types.

use super::Rounding;
use crate::ir::dtype::DType;
use crate::ir::expr::Const;

/// Converts a value from one type to another.
#[inline]
pub fn cast(from: DType, to: DType, value: Const, rounding: &impl Rounding) -> Const {
    match value {
        Const::Int(v) if to.is_float() => Const::Float(rounding.of_int(from, to, v)),
        Const::Int(v) => Const::Int(to.wrap(v)),
        Const::Float(v) if to.is_float() => Const::Float(rounding.convert(from, to, v)),
        Const::Float(v) => Const::Int(float_to_int(to, v)),
    }
}

/// Converts an integer to a float. The result is rounded once for `float32` and `float64`, although a conversion of 64
/// bits through `f64` would round twice; smaller types are converted through `float32`.
#[inline]
pub(super) fn int_to_float(from: DType, to: DType, value: i64) -> f64 {
    match (from == DType::UInt64, to == DType::Float64) {
        (true, true) => value as u64 as f64,
        (true, false) => to.round((value as u64 as f32).into()),
        (false, true) => value as f64,
        (false, false) => to.round((value as f32).into()),
    }
}

fn float_to_int(to: DType, value: f64) -> i64 {
    match to {
        DType::Int8 => (value as i8).into(),
        DType::Int16 => (value as i16).into(),
        DType::Int32 => (value as i32).into(),
        DType::Int64 | DType::Handle | DType::Str => value as i64,
        DType::UInt8 => (value as u8).into(),
        DType::UInt16 => (value as u16).into(),
        DType::UInt32 => (value as u32).into(),
        DType::UInt64 => value as u64 as i64,
        DType::Bool => (value != 0.0).into(),
        DType::Narrow(t) => {
            let (least, largest) = (to.min_value().unwrap_or(0), t.largest().unwrap_or(0));
            (value as i64).clamp(least, largest)
        }
        DType::Float16 | DType::BFloat16 | DType::Float32 | DType::Float64 | DType::Float8(_) => {
            unreachable!("{to} is no integer type")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Exact;
    use super::*;
    use crate::ir::narrow::Narrow;
    use Const::{Float, Int};

    #[test]
    fn casts() {
        for (from, to, value, expected) in [
            (DType::Float32, DType::Int8, Float(-300.7), Int(-128)),
            (DType::Float32, DType::UInt8, Float(-1.0), Int(0)),
            (DType::Float32, DType::Int32, Float(f64::NAN), Int(0)),
            (DType::Float32, DType::Int32, Float(-1.9), Int(-1)),
            (DType::Float32, DType::UInt64, Float(1e30), Int(-1)),
            (DType::Float32, DType::Bool, Float(0.5), Int(1)),
            (DType::Float32, DType::Bool, Float(f64::NAN), Int(1)),
            (DType::Float32, DType::Narrow(Narrow::Int4), Float(9.0), Int(7)),
            (DType::Int32, DType::Int8, Int(200), Int(-56)),
            (DType::Int32, DType::Bool, Int(256), Int(1)),
            (DType::UInt64, DType::Float32, Int(-1), Float(18446744073709551616.0)),
            (DType::Int64, DType::Float32, Int((1 << 25) + 1), Float(33554432.0)),
            // Through float64 these would be ties.
            (DType::Int64, DType::Float32, Int((1 << 54) + (1 << 30) + 1), Float(18014400656965632.0)),
            (DType::Int32, DType::BFloat16, Int((1 << 30) + (1 << 22) + 1), Float(1073741824.0)),
            (DType::Int32, DType::Float16, Int(65520), Float(f64::INFINITY)),
        ] {
            assert_eq!(cast(from, to, value, &Exact), expected, "{value:?} of {from} as {to}");
        }
    }
}
