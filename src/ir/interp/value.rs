//! Values and the operations on them: the semantics stated in [`expr`](crate::ir::expr).

use super::Precision;
use super::fault::Trap;
use crate::ir::dtype::DType;
use crate::ir::math::{erf, next_after};
use crate::ir::mix::mixed;
use crate::ir::op::{BinOp, CmpOp, Intrinsic};
use crate::ir::operators::fold_ints;
use crate::ir::rounding::{DIVISION, FUNCTION, has_exact_reciprocal};

/// A scalar. Its type is that of the expression it is the value of: integers are within its range (`uint64` by the
/// bits of the `i64`), floats are numbers of it unless they are carried wide.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// An integer or boolean.
    Int(i64),
    /// A float.
    Float(f64),
}

impl Value {
    /// The value as a float.
    pub fn as_f64(self) -> f64 {
        match self {
            Value::Int(v) => v as f64,
            Value::Float(v) => v,
        }
    }

    /// The value as an integer: floats truncate and saturate.
    pub fn as_i64(self) -> i64 {
        match self {
            Value::Int(v) => v,
            Value::Float(v) => v as i64,
        }
    }
}

/// Rounds the result of an operation. Half-width operations are those of `float32`, rounded.
pub(super) fn round(dtype: DType, v: f64, precision: Precision) -> f64 {
    match (precision, dtype) {
        (Precision::Wide, _) => v,
        (Precision::Perturbed { seed, scale }, _) if rounded(dtype, v) != v || dtype == DType::Float64 => {
            perturbed(dtype, v, seed, scale.into())
        }
        (Precision::Perturbed { .. }, _) => v,
        (Precision::Exact, _) => rounded(dtype, v),
    }
}

fn rounded(dtype: DType, v: f64) -> f64 {
    match dtype {
        DType::Float64 => v,
        DType::Float16 | DType::BFloat16 | DType::Float8(_) => dtype.round(f64::from(v as f32)),
        // The sum, difference, product, quotient and root of two float32 rounded twice, first to float64, are those
        // rounded once: 53 >= 2 * 24 + 2 (Figueroa, 1995).
        _ => f64::from(v as f32),
    }
}

/// The same for a quotient, which is exact only where that of the reciprocal is.
fn round_quotient(dtype: DType, quotient: f64, divisor: f64, precision: Precision) -> f64 {
    match precision {
        Precision::Perturbed { seed, scale } if quotient != 0.0 && !has_exact_reciprocal(divisor) => {
            perturbed(dtype, quotient, seed, f64::from(scale) * DIVISION)
        }
        _ => round(dtype, quotient, precision),
    }
}

/// The same for a function, which is approximated.
fn round_function(dtype: DType, v: f64, precision: Precision) -> f64 {
    match precision {
        // Zero is where approximations begin.
        Precision::Perturbed { seed, scale } if v != 0.0 => {
            let units = if dtype.is_half() { 1.0 } else { FUNCTION };
            perturbed(dtype, v, seed, f64::from(scale) * units)
        }
        _ => round(dtype, v, precision),
    }
}

/// The value moved up or down by so many halves of an ulp.
fn perturbed(dtype: DType, v: f64, seed: u64, units: f64) -> f64 {
    if !v.is_finite() {
        return v;
    }
    let is_up = mixed(seed ^ v.to_bits()) & 1 == 1;
    if v.abs() > dtype.max_value().err().unwrap_or(f64::MAX) {
        // Half precision that is carried in float32 does not overflow.
        return if is_up { v } else { f64::INFINITY.copysign(v) };
    }
    // A sum in float64 cannot be moved by half an ulp.
    let unit = if dtype == DType::Float64 { 2.0 * dtype.half_ulp() } else { dtype.half_ulp() };
    let off = v.abs() * unit * units;
    if is_up { v + off } else { v - off }
}

/// `a op b`; `and` and `or` are evaluated lazily elsewhere.
pub(super) fn binary(op: BinOp, dtype: DType, a: Value, b: Value, precision: Precision) -> Result<Value, Trap> {
    match (a, b) {
        (Value::Int(x), Value::Int(y)) => {
            if matches!(op, BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod) {
                if y == 0 {
                    return Err(Trap::DivisionByZero);
                }
                if dtype.is_int() && y == -1 && dtype.min_value() == Ok(x) {
                    return Err(Trap::DivisionOverflow);
                }
            }
            fold_ints(op, x, y, dtype).map(Value::Int).ok_or(Trap::DivisionOverflow)
        }
        (Value::Float(x), Value::Float(y)) => {
            let r = |v| round(dtype, v, precision);
            let quotient = || round_quotient(dtype, x / y, y, precision);
            let v = match op {
                BinOp::Add => r(x + y),
                BinOp::Sub => r(x - y),
                BinOp::Mul => r(x * y),
                BinOp::Div => quotient(),
                BinOp::Mod => r(x % y),
                BinOp::FloorDiv => quotient().floor(),
                BinOp::FloorMod => r(x - r(quotient().floor() * y)),
                BinOp::Min => {
                    if x < y {
                        x
                    } else {
                        y
                    }
                }
                BinOp::Max => {
                    if x > y {
                        x
                    } else {
                        y
                    }
                }
                BinOp::And | BinOp::Or => return Err(Trap::IllTyped),
            };
            Ok(Value::Float(v))
        }
        _ => Err(Trap::IllTyped),
    }
}

/// A comparison of operands of type `dtype`.
pub(super) fn compare(op: CmpOp, dtype: DType, a: Value, b: Value) -> Result<Value, Trap> {
    let holds = match (a, b) {
        (Value::Int(x), Value::Int(y)) if dtype == DType::UInt64 => op.holds(x as u64, y as u64),
        (Value::Int(x), Value::Int(y)) => op.holds(x, y),
        (Value::Float(x), Value::Float(y)) => op.holds(x, y),
        _ => return Err(Trap::IllTyped),
    };
    Ok(Value::Int(holds.into()))
}

/// Conversion from one type to another.
pub(super) fn cast(from: DType, to: DType, v: Value, precision: Precision) -> Value {
    match v {
        Value::Int(v) if to.is_float() => {
            let wide = if from == DType::UInt64 { v as u64 as f64 } else { v as f64 };
            if precision != Precision::Exact || to == DType::Float64 {
                // `float64` is what wide values are carried in already.
                let is_exact = precision == Precision::Wide || to == DType::Float64;
                return Value::Float(if is_exact { wide } else { round(to, wide, precision) });
            }
            // One rounding from the integer, not two.
            let narrow = if from == DType::UInt64 { v as u64 as f32 } else { v as f32 };
            Value::Float(to.round(narrow.into()))
        }
        Value::Int(v) => Value::Int(to.wrap(v)),
        Value::Float(v) => match to {
            DType::Float16 | DType::BFloat16 | DType::Float32 | DType::Float8(_) if precision == Precision::Exact => {
                Value::Float(to.round(v))
            }
            // What a wider type takes is not rounded, though it need not be a number of the narrower one.
            DType::Float16 | DType::BFloat16 | DType::Float32 | DType::Float8(_)
                if to.half_ulp() > from.half_ulp() || to.half_ulp() == from.half_ulp() && to != from =>
            {
                Value::Float(round(to, v, precision))
            }
            DType::Float16 | DType::BFloat16 | DType::Float32 | DType::Float64 | DType::Float8(_) => Value::Float(v),
            DType::Narrow(t) if t.is_float() => Value::Float(v),
            DType::Narrow(t) => Value::Int(t.wrap(v as i64)),
            DType::Int8 => Value::Int((v as i8).into()),
            DType::Int16 => Value::Int((v as i16).into()),
            DType::Int32 => Value::Int((v as i32).into()),
            DType::Int64 | DType::Handle | DType::Str => Value::Int(v as i64),
            DType::UInt8 => Value::Int((v as u8).into()),
            DType::UInt16 => Value::Int((v as u16).into()),
            DType::UInt32 => Value::Int((v as u32).into()),
            DType::UInt64 => Value::Int(v as u64 as i64),
            DType::Bool => Value::Int((v != 0.0).into()),
        },
    }
}

/// A function of scalars whose arguments are of type `dtype`.
pub(super) fn call(function: Intrinsic, dtype: DType, args: &[Value], precision: Precision) -> Result<Value, Trap> {
    match args[0] {
        Value::Int(_) => call_int(function, dtype, args),
        Value::Float(_) => call_float(function, dtype, args, precision),
    }
}

fn call_float(function: Intrinsic, dtype: DType, args: &[Value], precision: Precision) -> Result<Value, Trap> {
    let arg = |i: usize| match args[i] {
        Value::Float(v) => Ok(v),
        Value::Int(_) => Err(Trap::IllTyped),
    };
    let x = arg(0)?;
    let v = match function {
        Intrinsic::Exp => x.exp(),
        Intrinsic::Exp2 => x.exp2(),
        Intrinsic::Exp10 => (x * std::f64::consts::LN_10).exp(),
        Intrinsic::Log => x.ln(),
        Intrinsic::Log2 => x.log2(),
        Intrinsic::Log10 => x.log10(),
        Intrinsic::Log1p => x.ln_1p(),
        Intrinsic::Sqrt => x.sqrt(),
        Intrinsic::Rsqrt => 1.0 / x.sqrt(),
        Intrinsic::Tanh => x.tanh(),
        Intrinsic::Sin => x.sin(),
        Intrinsic::Cos => x.cos(),
        Intrinsic::Tan => x.tan(),
        Intrinsic::Asin => x.asin(),
        Intrinsic::Acos => x.acos(),
        Intrinsic::Atan => x.atan(),
        Intrinsic::Sinh => x.sinh(),
        Intrinsic::Cosh => x.cosh(),
        Intrinsic::Asinh => x.asinh(),
        Intrinsic::Acosh => x.acosh(),
        Intrinsic::Atanh => x.atanh(),
        Intrinsic::Atan2 => x.atan2(arg(1)?),
        Intrinsic::Erf => erf(x),
        Intrinsic::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Intrinsic::Pow => x.powf(arg(1)?),
        // The remainder of two numbers is one.
        Intrinsic::Fmod => return Ok(Value::Float(round(dtype, x % arg(1)?, precision))),
        Intrinsic::Hypot => x.hypot(arg(1)?),
        Intrinsic::NextAfter => return Ok(Value::Float(next_after(dtype, x, arg(1)?))),
        Intrinsic::CopySign => return Ok(Value::Float(x.copysign(arg(1)?))),
        Intrinsic::Fma => {
            let (y, z) = (arg(1)?, arg(2)?);
            let sum = if precision != Precision::Exact || dtype == DType::Float64 {
                x.mul_add(y, z)
            } else {
                // The sum of a product needs more than float64 to be rounded once.
                f64::from((x as f32).mul_add(y as f32, z as f32))
            };
            return Ok(Value::Float(round(dtype, sum, precision)));
        }
        Intrinsic::Abs => return Ok(Value::Float(x.abs())),
        Intrinsic::Floor => return Ok(Value::Float(x.floor())),
        Intrinsic::Ceil => return Ok(Value::Float(x.ceil())),
        Intrinsic::Trunc => return Ok(Value::Float(x.trunc())),
        Intrinsic::Round | Intrinsic::NearbyInt => return Ok(Value::Float(x.round_ties_even())),
        Intrinsic::IsNan => return Ok(Value::Int(x.is_nan().into())),
        Intrinsic::IsInf => return Ok(Value::Int(x.is_infinite().into())),
        Intrinsic::IsFinite => return Ok(Value::Int(x.is_finite().into())),
        Intrinsic::PopCount
        | Intrinsic::Clz
        | Intrinsic::BitAnd
        | Intrinsic::BitOr
        | Intrinsic::BitXor
        | Intrinsic::BitNot
        | Intrinsic::ShiftLeft
        | Intrinsic::ShiftRight
        | Intrinsic::Likely
        | Intrinsic::Assume => return Err(Trap::IllTyped),
    };
    Ok(Value::Float(round_function(dtype, v, precision)))
}

fn call_int(function: Intrinsic, dtype: DType, args: &[Value]) -> Result<Value, Trap> {
    let arg = |i: usize| match args[i] {
        Value::Int(v) => Ok(v),
        Value::Float(_) => Err(Trap::IllTyped),
    };
    let x = arg(0)?;
    // A boolean counts as one bit.
    let bits = if dtype == DType::Bool { 1 } else { dtype.bits() };
    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    let pattern = x as u64 & mask;
    let v = match function {
        Intrinsic::Abs if dtype.is_int() => x.wrapping_abs(),
        Intrinsic::Abs => x,
        Intrinsic::PopCount => pattern.count_ones().into(),
        Intrinsic::Clz => return Ok(Value::Int((pattern.leading_zeros() - (64 - bits)).into())),
        Intrinsic::BitAnd => x & arg(1)?,
        Intrinsic::BitOr => x | arg(1)?,
        Intrinsic::BitXor => x ^ arg(1)?,
        Intrinsic::BitNot if dtype == DType::Bool => x ^ 1,
        Intrinsic::BitNot => !x,
        Intrinsic::ShiftLeft => match u32::try_from(arg(1)?) {
            Ok(n) if n < bits => x << n,
            _ => 0,
        },
        Intrinsic::ShiftRight => match u32::try_from(arg(1)?) {
            Ok(n) if n < bits && dtype.is_int() => x >> n,
            Ok(n) if n < bits => (pattern >> n) as i64,
            _ if dtype.is_int() && x < 0 => -1,
            _ => 0,
        },
        Intrinsic::Likely | Intrinsic::Assume => x,
        Intrinsic::Exp
        | Intrinsic::Exp2
        | Intrinsic::Exp10
        | Intrinsic::Log
        | Intrinsic::Log2
        | Intrinsic::Log10
        | Intrinsic::Log1p
        | Intrinsic::Sqrt
        | Intrinsic::Rsqrt
        | Intrinsic::Tanh
        | Intrinsic::Sin
        | Intrinsic::Cos
        | Intrinsic::Tan
        | Intrinsic::Asin
        | Intrinsic::Acos
        | Intrinsic::Atan
        | Intrinsic::Sinh
        | Intrinsic::Cosh
        | Intrinsic::Asinh
        | Intrinsic::Acosh
        | Intrinsic::Atanh
        | Intrinsic::Atan2
        | Intrinsic::Erf
        | Intrinsic::Sigmoid
        | Intrinsic::Pow
        | Intrinsic::Fmod
        | Intrinsic::Hypot
        | Intrinsic::NextAfter
        | Intrinsic::CopySign
        | Intrinsic::Fma
        | Intrinsic::Floor
        | Intrinsic::Ceil
        | Intrinsic::Trunc
        | Intrinsic::Round
        | Intrinsic::NearbyInt
        | Intrinsic::IsNan
        | Intrinsic::IsInf
        | Intrinsic::IsFinite => return Err(Trap::IllTyped),
    };
    Ok(Value::Int(dtype.wrap(v)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Value::{Float, Int};

    fn exact(op: BinOp, t: DType, a: Value, b: Value) -> Result<Value, Trap> {
        binary(op, t, a, b, Precision::Exact)
    }

    #[test]
    fn integers_wrap_and_round_down() {
        assert_eq!(exact(BinOp::Add, DType::Int8, Int(127), Int(1)), Ok(Int(-128)));
        assert_eq!(exact(BinOp::Mul, DType::UInt8, Int(16), Int(17)), Ok(Int(16)));
        assert_eq!(exact(BinOp::FloorDiv, DType::Int32, Int(-7), Int(2)), Ok(Int(-4)));
        assert_eq!(exact(BinOp::FloorMod, DType::Int32, Int(-7), Int(2)), Ok(Int(1)));
        assert_eq!(exact(BinOp::Div, DType::Int32, Int(-7), Int(2)), Ok(Int(-3)));
        assert_eq!(exact(BinOp::Mod, DType::Int32, Int(-7), Int(2)), Ok(Int(-1)));
        assert_eq!(exact(BinOp::FloorDiv, DType::UInt64, Int(-1), Int(2)), Ok(Int(i64::MAX)));
        assert_eq!(exact(BinOp::Mod, DType::Int32, Int(1), Int(0)), Err(Trap::DivisionByZero));
        for t in [DType::Int8, DType::Int16, DType::Int32, DType::Int64] {
            let least = Int(t.min_value().expect("an integer"));
            for op in [BinOp::Div, BinOp::Mod, BinOp::FloorDiv, BinOp::FloorMod] {
                assert_eq!(exact(op, t, least, Int(-1)), Err(Trap::DivisionOverflow), "{t}");
            }
        }
    }

    #[test]
    fn floats_round_to_their_type() {
        let big = Float(16777216.0);
        assert_eq!(exact(BinOp::Add, DType::Float32, big, Float(1.0)), Ok(big));
        assert_eq!(binary(BinOp::Add, DType::Float32, big, Float(1.0), Precision::Wide), Ok(Float(16777217.0)));
        assert_eq!(exact(BinOp::Add, DType::Float16, Float(2048.0), Float(1.0)), Ok(Float(2048.0)));
        assert_eq!(exact(BinOp::Mul, DType::Float16, Float(300.0), Float(300.0)), Ok(Float(f64::INFINITY)));
        let nan = exact(BinOp::Max, DType::Float32, Float(f64::NAN), Float(1.0));
        assert_eq!(nan, Ok(Float(1.0)), "the second operand");
    }

    #[test]
    fn random_roundings_are_as_large_as_they_can_be() {
        let run = |seed, scale| Precision::Perturbed { seed, scale };
        let spread = |of: &dyn Fn(Precision) -> Value, scale| {
            let all: Vec<f64> = (0..64).map(|seed| of(run(seed, scale)).as_f64()).collect();
            let (least, greatest) = all.iter().fold((f64::MAX, f64::MIN), |(lo, hi), &v| (lo.min(v), hi.max(v)));
            greatest - least
        };
        let third = |p| binary(BinOp::Mul, DType::Float32, Float(1.0), Float(0.3), p).expect("floats");
        let ulp = 0.3 * 2f64.powi(-23);
        assert!((spread(&third, 1) - ulp).abs() < 1e-12 && (spread(&third, 4) - 4.0 * ulp).abs() < 1e-12);
        // By a reciprocal, even where the quotient is a number; not where the reciprocal is one.
        let quotient = |y: f64| move |p| binary(BinOp::Div, DType::Float32, Float(6.0), Float(y), p).expect("floats");
        assert!(spread(&quotient(3.0), 1) > 2f64.powi(-23) && spread(&quotient(4.0), 1) == 0.0);
        // A function is approximated, but not at zero; what is exact stays so.
        let function = |f: Intrinsic, x: f64| move |p| call(f, DType::Float32, &[Float(x)], p).expect("a float");
        assert!(spread(&function(Intrinsic::Sqrt, 4.0), 1) > 2f64.powi(-21));
        for (f, x) in [(Intrinsic::Sqrt, 0.0), (Intrinsic::Floor, 0.3), (Intrinsic::Abs, -0.3)] {
            assert_eq!(spread(&function(f, x), 4), 0.0, "{f}");
        }
        let sum = |p| binary(BinOp::Add, DType::Float16, Float(0.25), Float(2.0), p).expect("floats");
        assert_eq!(spread(&sum, 4), 0.0);
        // To a narrower type or another of the same width, not to a wider one.
        let to = |from, to| move |p| cast(from, to, Float(0.3), p);
        assert!(spread(&to(DType::Float32, DType::Float16), 1) > 0.0);
        assert_eq!(spread(&to(DType::Float16, DType::Float32), 1), 0.0);
        // Too large for half precision, which may be carried in more.
        let large = |p| binary(BinOp::Mul, DType::Float16, Float(300.0), Float(300.0), p).expect("floats");
        assert_eq!(spread(&large, 1), f64::INFINITY);
    }

    #[test]
    fn casts() {
        let to = |to, v| cast(DType::Float32, to, v, Precision::Exact);
        assert_eq!(to(DType::Int8, Float(-300.7)), Int(-128));
        assert_eq!(to(DType::UInt8, Float(-1.0)), Int(0));
        assert_eq!(to(DType::Int32, Float(f64::NAN)), Int(0));
        assert_eq!(to(DType::Int32, Float(-1.9)), Int(-1));
        assert_eq!(to(DType::UInt64, Float(1e30)), Int(-1));
        assert_eq!(to(DType::Bool, Float(0.5)), Int(1));
        assert_eq!(cast(DType::Int32, DType::Int8, Int(200), Precision::Exact), Int(-56));
        assert_eq!(cast(DType::UInt64, DType::Float32, Int(-1), Precision::Exact), Float(18446744073709551616.0));
        let odd = (1i64 << 25) + 1;
        assert_eq!(cast(DType::Int64, DType::Float32, Int(odd), Precision::Exact), Float((1u64 << 25) as f64));
    }

    #[test]
    fn bits() {
        let of = |f, t, args: &[Value]| call(f, t, args, Precision::Exact).expect("well typed");
        assert_eq!(of(Intrinsic::PopCount, DType::Int8, &[Int(-1)]), Int(8));
        assert_eq!(of(Intrinsic::Clz, DType::Int16, &[Int(1)]), Int(15));
        assert_eq!(of(Intrinsic::ShiftLeft, DType::Int8, &[Int(65), Int(1)]), Int(-126));
        assert_eq!(of(Intrinsic::ShiftLeft, DType::Int8, &[Int(1), Int(8)]), Int(0));
        assert_eq!(of(Intrinsic::ShiftRight, DType::Int32, &[Int(-8), Int(1)]), Int(-4));
        assert_eq!(of(Intrinsic::ShiftRight, DType::Int32, &[Int(-8), Int(40)]), Int(-1));
        assert_eq!(of(Intrinsic::ShiftRight, DType::UInt64, &[Int(-1), Int(63)]), Int(1));
        assert_eq!(of(Intrinsic::BitNot, DType::Bool, &[Int(1)]), Int(0));
        assert_eq!(of(Intrinsic::Abs, DType::Int8, &[Int(-128)]), Int(-128));
    }
}
