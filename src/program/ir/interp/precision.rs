//! Rounding modes of the interpreter, around the operations of [`scalar`](crate::ir::scalar).

use super::Precision;
use crate::ir::dtype::DType;
use crate::ir::mix::mixed;
use crate::ir::rounding::{DIVISION, FUNCTION, has_exact_reciprocal};
use crate::ir::scalar::{Exact, Rounding};

impl Rounding for Precision {
    #[inline]
    fn result(&self, dtype: DType, value: f64) -> f64 {
        match *self {
            Precision::Exact => Exact.result(dtype, value),
            Precision::Wide => value,
            Precision::Perturbed { seed, scale } if dtype == DType::Float64 || Exact.result(dtype, value) != value => {
                perturbed(dtype, value, seed, scale.into())
            }
            Precision::Perturbed { .. } => value,
        }
    }

    /// A quotient is exact only if the reciprocal is exact too.
    #[inline]
    fn quotient(&self, dtype: DType, quotient: f64, divisor: f64) -> f64 {
        match *self {
            Precision::Perturbed { seed, scale } if quotient != 0.0 && !has_exact_reciprocal(divisor) => {
                perturbed(dtype, quotient, seed, f64::from(scale) * DIVISION)
            }
            Precision::Exact | Precision::Wide | Precision::Perturbed { .. } => self.result(dtype, quotient),
        }
    }

    #[inline]
    fn function(&self, dtype: DType, value: f64) -> f64 {
        match *self {
            // Approximations are exact at zero.
            Precision::Perturbed { seed, scale } if value != 0.0 => {
                let units = if dtype.is_half() { 1.0 } else { FUNCTION };
                perturbed(dtype, value, seed, f64::from(scale) * units)
            }
            Precision::Exact | Precision::Wide | Precision::Perturbed { .. } => self.result(dtype, value),
        }
    }

    #[inline]
    fn fused(&self, dtype: DType, x: f64, y: f64, z: f64) -> f64 {
        match self {
            Precision::Exact => Exact.fused(dtype, x, y, z),
            Precision::Wide | Precision::Perturbed { .. } => self.result(dtype, x.mul_add(y, z)),
        }
    }

    #[inline]
    fn convert(&self, from: DType, to: DType, value: f64) -> f64 {
        // A conversion to a wider type does not round, although the wide value need not be a number of the narrower
        // type.
        let is_narrower = to.half_ulp() > from.half_ulp() || to.half_ulp() == from.half_ulp() && to != from;
        match self {
            Precision::Exact => Exact.convert(from, to, value),
            Precision::Perturbed { .. } if is_narrower => self.result(to, value),
            Precision::Wide | Precision::Perturbed { .. } => value,
        }
    }

    #[inline]
    fn of_int(&self, from: DType, to: DType, value: i64) -> f64 {
        // Wide values are `float64` already.
        let wide = Exact.of_int(from, DType::Float64, value);
        match self {
            Precision::Exact => Exact.of_int(from, to, value),
            Precision::Perturbed { .. } if to != DType::Float64 => self.result(to, wide),
            Precision::Wide | Precision::Perturbed { .. } => wide,
        }
    }
}

/// The value moved up or down by `units` halves of an ulp. The direction is a function of the seed and the value.
fn perturbed(dtype: DType, v: f64, seed: u64, units: f64) -> f64 {
    if !v.is_finite() {
        return v;
    }
    let is_up = mixed(seed ^ v.to_bits()) & 1 == 1;
    if v.abs() > dtype.max_value().err().unwrap_or(f64::MAX) {
        // Values of half precision are computed in float32, which does not overflow here.
        return if is_up { v } else { f64::INFINITY.copysign(v) };
    }
    // A sum in float64 cannot change by half an ulp.
    let unit = if dtype == DType::Float64 { 2.0 * dtype.half_ulp() } else { dtype.half_ulp() };
    let off = v.abs() * unit * units;
    if is_up { v + off } else { v - off }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Const;
    use crate::ir::op::{BinOp, Intrinsic};
    use crate::ir::scalar::{Trap, binary, call, cast};
    use Const::Float;

    fn exact(op: BinOp, t: DType, a: Const, b: Const) -> Result<Const, Trap> {
        binary(op, t, a, b, &Precision::Exact)
    }

    #[test]
    fn floats_round_to_their_type() {
        let big = Float(16777216.0);
        assert_eq!(exact(BinOp::Add, DType::Float32, big, Float(1.0)), Ok(big));
        assert_eq!(binary(BinOp::Add, DType::Float32, big, Float(1.0), &Precision::Wide), Ok(Float(16777217.0)));
        assert_eq!(exact(BinOp::Add, DType::Float16, Float(2048.0), Float(1.0)), Ok(Float(2048.0)));
        assert_eq!(exact(BinOp::Mul, DType::Float16, Float(300.0), Float(300.0)), Ok(Float(f64::INFINITY)));
        let nan = exact(BinOp::Max, DType::Float32, Float(f64::NAN), Float(1.0));
        assert_eq!(nan, Ok(Float(1.0)), "the second operand");
    }

    #[test]
    fn random_roundings_are_as_large_as_they_can_be() {
        let run = |seed, scale| Precision::Perturbed { seed, scale };
        let spread = |of: &dyn Fn(Precision) -> Const, scale| {
            let all: Vec<f64> = (0..64).map(|seed| of(run(seed, scale)).as_f64()).collect();
            let (least, greatest) = all.iter().fold((f64::MAX, f64::MIN), |(lo, hi), &v| (lo.min(v), hi.max(v)));
            greatest - least
        };
        let third = |p| binary(BinOp::Mul, DType::Float32, Float(1.0), Float(0.3), &p).expect("floats");
        let ulp = 0.3 * 2f64.powi(-23);
        assert!((spread(&third, 1) - ulp).abs() < 1e-12 && (spread(&third, 4) - 4.0 * ulp).abs() < 1e-12);
        // The quotient is computed with a reciprocal even if it is exact, unless the reciprocal is exact.
        let quotient = |y: f64| move |p| binary(BinOp::Div, DType::Float32, Float(6.0), Float(y), &p).expect("floats");
        assert!(spread(&quotient(3.0), 1) > 2f64.powi(-23) && spread(&quotient(4.0), 1) == 0.0);
        // A function is approximated, except at zero; exact functions stay exact.
        let function = |f: Intrinsic, x: f64| move |p| call(f, DType::Float32, &[Float(x)], &p).expect("a float");
        assert!(spread(&function(Intrinsic::Sqrt, 4.0), 1) > 2f64.powi(-21));
        for (f, x) in [(Intrinsic::Sqrt, 0.0), (Intrinsic::Floor, 0.3), (Intrinsic::Abs, -0.3)] {
            assert_eq!(spread(&function(f, x), 4), 0.0, "{f}");
        }
        let sum = |p| binary(BinOp::Add, DType::Float16, Float(0.25), Float(2.0), &p).expect("floats");
        assert_eq!(spread(&sum, 4), 0.0);
        // Conversions to a narrower type or another type of the same width round; those to a wider type do not.
        let to = |from, to| move |p| cast(from, to, Float(0.3), &p);
        assert!(spread(&to(DType::Float32, DType::Float16), 1) > 0.0);
        assert_eq!(spread(&to(DType::Float16, DType::Float32), 1), 0.0);
        // Too large for half precision, but not for the float32 in which it may be computed.
        let large = |p| binary(BinOp::Mul, DType::Float16, Float(300.0), Float(300.0), &p).expect("floats");
        assert_eq!(spread(&large, 1), f64::INFINITY);
    }
}
