//! Rounding of the results of float operations.

use super::cast::int_to_float;
use crate::ir::dtype::DType;
use half::{bf16, f16};

/// Rounds the results of operations. [`Exact`] is the definition; the interpreter has other modes for reference values.
pub trait Rounding {
    /// The result of an operation, given its exact result or the result in `f64`.
    fn result(&self, dtype: DType, value: f64) -> f64;

    /// The result of a division.
    fn quotient(&self, dtype: DType, quotient: f64, divisor: f64) -> f64;

    /// The result of an approximated function.
    fn function(&self, dtype: DType, value: f64) -> f64;

    /// `x * y + z`.
    fn fused(&self, dtype: DType, x: f64, y: f64, z: f64) -> f64;

    /// Converts a float from one type to another.
    fn convert(&self, from: DType, to: DType, value: f64) -> f64;

    /// Converts an integer to a float.
    fn of_int(&self, from: DType, to: DType, value: i64) -> f64;
}

/// Rounds every operation to its type.
#[derive(Clone, Copy, Debug)]
pub struct Exact;

impl Rounding for Exact {
    #[inline]
    fn result(&self, dtype: DType, value: f64) -> f64 {
        match dtype {
            DType::Float64 => value,
            DType::Float16 | DType::BFloat16 | DType::Float8(_) => dtype.round(f64::from(value as f32)),
            // The sum, difference, product, quotient and root of two float32 numbers, rounded to float64 first, round
            // to the same float32 as the exact result: 53 >= 2 * 24 + 2 (Figueroa, 1995).
            _ => f64::from(value as f32),
        }
    }

    #[inline]
    fn quotient(&self, dtype: DType, quotient: f64, _divisor: f64) -> f64 {
        self.result(dtype, quotient)
    }

    #[inline]
    fn function(&self, dtype: DType, value: f64) -> f64 {
        self.result(dtype, value)
    }

    #[inline]
    fn fused(&self, dtype: DType, x: f64, y: f64, z: f64) -> f64 {
        if dtype == DType::Float64 {
            return x.mul_add(y, z);
        }
        // A fused multiply-add needs more precision than float64 to be rounded once.
        self.result(dtype, f64::from((x as f32).mul_add(y as f32, z as f32)))
    }

    #[inline]
    fn convert(&self, _from: DType, to: DType, value: f64) -> f64 {
        to.round(value)
    }

    #[inline]
    fn of_int(&self, from: DType, to: DType, value: i64) -> f64 {
        int_to_float(from, to, value)
    }
}

/// The type in which operations of a float type are computed, before the result is rounded to it.
pub fn computed_in(dtype: DType) -> DType {
    if dtype == DType::Float64 { DType::Float64 } else { DType::Float32 }
}

/// The nearest `float16`, rounded once.
#[inline]
pub fn to_f16(value: f64) -> f16 {
    f16::from_f32(to_odd(value))
}

/// The nearest `bfloat16`, rounded once.
#[inline]
pub fn to_bf16(value: f64) -> bf16 {
    bf16::from_f32(to_odd(value))
}

/// A number as `float32`, rounded to odd: an inexact result is the neighbour whose last bit is 1. This neither creates
/// nor hides a tie of a narrower type, so a second rounding gives the same result as a single one (Boldo and Melquiond,
/// 2008).
#[inline]
fn to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    let error = f64::from(nearest) - value;
    if error == 0.0 || nearest.to_bits() & 1 == 1 || !value.is_finite() {
        return nearest;
    }
    // The neighbour on the other side of the value is odd.
    let is_above = (error > 0.0) == (value > 0.0);
    f32::from_bits(if is_above { nearest.to_bits() - 1 } else { nearest.to_bits() + 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_is_rounded_once() {
        // Just above and below the middle of 1 and the next number: `float32` cannot represent the difference.
        for tiny in [2f64.powi(-40), 2f64.powi(-52)] {
            assert_eq!(to_f16(1.0 + 2f64.powi(-11) + tiny).to_f64(), 1.0 + 2f64.powi(-10));
            assert_eq!(to_f16(-1.0 - 2f64.powi(-11) - tiny).to_f64(), -1.0 - 2f64.powi(-10));
            assert_eq!(to_f16(1.0 + 3.0 * 2f64.powi(-11) - tiny).to_f64(), 1.0 + 2f64.powi(-10));
            assert_eq!(to_bf16(1.0 + 2f64.powi(-8) + tiny).to_f64(), 1.0 + 2f64.powi(-7));
            assert_eq!(to_bf16(1.0 + 3.0 * 2f64.powi(-8) - tiny).to_f64(), 1.0 + 2f64.powi(-7));
        }
        assert_eq!(to_f16(1.0 + 2f64.powi(-11)).to_f64(), 1.0, "a tie goes to the even number");
        assert_eq!(to_f16(2f64.powi(-25)).to_f64(), 0.0);
        assert_eq!(to_f16(2f64.powi(-25) * (1.0 + f64::EPSILON)).to_f64(), 2f64.powi(-24));
        assert_eq!((to_f16(65519.999).to_f64(), to_f16(65520.0).to_f64()), (65504.0, f64::INFINITY));
        assert_eq!((to_bf16(1e300).to_f64(), to_bf16(f64::NEG_INFINITY).to_f64()), (f64::INFINITY, f64::NEG_INFINITY));
        assert_eq!(to_bf16(-1e-300).to_f64().to_bits(), (-0.0f64).to_bits());
        assert!(to_f16(f64::NAN).is_nan() && to_bf16(f64::NAN).is_nan());
    }

    #[test]
    fn numbers_of_half_precision_stay() {
        for bits in 0..=u16::MAX {
            let (x, y) = (f16::from_bits(bits), bf16::from_bits(bits));
            assert!(x.is_nan() || to_f16(x.to_f64()).to_bits() == bits, "{x}");
            assert!(y.is_nan() || to_bf16(y.to_f64()).to_bits() == bits, "{y}");
        }
    }
}
