//! Operations on integers and booleans.

use super::Trap;
use crate::ir::dtype::DType;
use crate::ir::expr::Const;
use crate::ir::op::{BinOp, CmpOp, Intrinsic};

/// `x op y` of integers of type `dtype`.
#[inline]
pub fn binary(op: BinOp, dtype: DType, x: i64, y: i64) -> Result<i64, Trap> {
    let is_unsigned = dtype == DType::UInt64;
    let value = match op {
        BinOp::Add => x.wrapping_add(y),
        BinOp::Sub => x.wrapping_sub(y),
        BinOp::Mul => x.wrapping_mul(y),
        BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod => return divide(op, dtype, x, y),
        BinOp::Min if is_unsigned => (x as u64).min(y as u64) as i64,
        BinOp::Max if is_unsigned => (x as u64).max(y as u64) as i64,
        BinOp::Min => x.min(y),
        BinOp::Max => x.max(y),
        BinOp::And => ((x != 0) && (y != 0)) as i64,
        BinOp::Or => ((x != 0) || (y != 0)) as i64,
    };
    Ok(dtype.wrap(value))
}

#[inline]
fn divide(op: BinOp, dtype: DType, x: i64, y: i64) -> Result<i64, Trap> {
    if y == 0 {
        return Err(Trap::DivisionByZero);
    }
    let is_quotient = matches!(op, BinOp::Div | BinOp::FloorDiv);
    if dtype == DType::UInt64 {
        let (x, y) = (x as u64, y as u64);
        return Ok(if is_quotient { x / y } else { x % y } as i64);
    }
    // All remaining divisions fit `i64`.
    if y == -1 && (x == i64::MIN || dtype.is_int() && dtype.min_value() == Ok(x)) {
        return Err(Trap::DivisionOverflow);
    }
    let rounds_down = matches!(op, BinOp::FloorDiv | BinOp::FloorMod) && x % y != 0 && (x < 0) != (y < 0);
    let value = match (is_quotient, rounds_down) {
        (true, true) => x / y - 1,
        (true, false) => x / y,
        (false, true) => x % y + y,
        (false, false) => x % y,
    };
    Ok(dtype.wrap(value))
}

/// The quotient rounded towards minus infinity; `None` for a zero divisor or on overflow.
pub fn floor_div(x: i64, y: i64) -> Option<i64> {
    binary(BinOp::FloorDiv, DType::Int64, x, y).ok()
}

/// `x op y` on unbounded integers; `None` if the operator is not numeric, for a zero divisor, or if the result does not
/// fit `i64`.
pub fn checked(op: BinOp, x: i64, y: i64) -> Option<i64> {
    match op {
        BinOp::Add => x.checked_add(y),
        BinOp::Sub => x.checked_sub(y),
        BinOp::Mul => x.checked_mul(y),
        BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod | BinOp::Min | BinOp::Max => {
            binary(op, DType::Int64, x, y).ok()
        }
        BinOp::And | BinOp::Or => None,
    }
}

/// Whether `x op y` holds for integers of type `dtype`.
#[inline]
pub fn compare(op: CmpOp, dtype: DType, x: i64, y: i64) -> bool {
    if dtype == DType::UInt64 { op.holds(x as u64, y as u64) } else { op.holds(x, y) }
}

/// A function of integers of type `dtype`.
pub(super) fn call(function: Intrinsic, dtype: DType, args: &[Const]) -> Result<i64, Trap> {
    let arg = |i: usize| match args[i] {
        Const::Int(v) => Ok(v),
        Const::Float(_) => Err(Trap::IllTyped),
    };
    let x = arg(0)?;
    let width = if dtype == DType::Bool { 1 } else { dtype.bits() };
    let pattern = x as u64 & (u64::MAX >> (64 - width));
    let shift = || arg(1).map(|n| u32::try_from(n).ok().filter(|&n| n < width));
    let value = match function {
        Intrinsic::Abs if dtype.is_int() => x.wrapping_abs(),
        Intrinsic::Abs => x,
        Intrinsic::PopCount => pattern.count_ones().into(),
        // The result is an `int32`, whatever the type of the argument.
        Intrinsic::Clz => return Ok((pattern.leading_zeros() - (64 - width)).into()),
        Intrinsic::BitAnd => x & arg(1)?,
        Intrinsic::BitOr => x | arg(1)?,
        Intrinsic::BitXor => x ^ arg(1)?,
        Intrinsic::BitNot if dtype == DType::Bool => x ^ 1,
        Intrinsic::BitNot => !x,
        Intrinsic::ShiftLeft => shift()?.map_or(0, |n| x << n),
        Intrinsic::ShiftRight if dtype.is_int() => x >> shift()?.unwrap_or(63),
        Intrinsic::ShiftRight => shift()?.map_or(0, |n| (pattern >> n) as i64),
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
    Ok(dtype.wrap(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_and_round_down() {
        for (op, dtype, x, y, expected) in [
            (BinOp::Add, DType::Int8, 127, 1, Ok(-128)),
            (BinOp::Mul, DType::UInt8, 16, 17, Ok(16)),
            (BinOp::FloorDiv, DType::Int32, -7, 2, Ok(-4)),
            (BinOp::FloorMod, DType::Int32, -7, 2, Ok(1)),
            (BinOp::FloorMod, DType::Int32, 7, -2, Ok(-1)),
            (BinOp::FloorMod, DType::Int64, i64::MIN, i64::MAX, Ok(i64::MAX - 1)),
            (BinOp::Div, DType::Int32, -7, 2, Ok(-3)),
            (BinOp::Mod, DType::Int32, -7, 2, Ok(-1)),
            (BinOp::FloorDiv, DType::UInt64, -1, 2, Ok(i64::MAX)),
            (BinOp::Max, DType::UInt64, -1, 2, Ok(-1)),
            (BinOp::Mod, DType::Int32, 1, 0, Err(Trap::DivisionByZero)),
            (BinOp::Sub, DType::Bool, 0, 1, Ok(1)),
            (BinOp::Sub, DType::Bool, 1, 1, Ok(0)),
            (BinOp::Add, DType::Bool, 1, 1, Ok(1)),
        ] {
            assert_eq!(binary(op, dtype, x, y), expected, "{x} {op:?} {y} of {dtype}");
        }
        for t in [DType::Int8, DType::Int16, DType::Int32, DType::Int64] {
            let least = t.min_value().expect("an integer");
            for op in [BinOp::Div, BinOp::Mod, BinOp::FloorDiv, BinOp::FloorMod] {
                assert_eq!(binary(op, t, least, -1), Err(Trap::DivisionOverflow), "{t}");
            }
        }
    }

    #[test]
    fn bits() {
        let of = |f, t, args: &[i64]| {
            let args: Vec<Const> = args.iter().map(|&v| Const::Int(v)).collect();
            call(f, t, &args).expect("well typed")
        };
        for (f, t, args, expected) in [
            (Intrinsic::PopCount, DType::Int8, &[-1][..], 8),
            (Intrinsic::Clz, DType::Int16, &[1], 15),
            (Intrinsic::Clz, DType::UInt64, &[0], 64),
            (Intrinsic::Clz, DType::Int64, &[-1], 0),
            (Intrinsic::Clz, DType::Bool, &[0], 1),
            (Intrinsic::Clz, DType::Bool, &[1], 0),
            (Intrinsic::ShiftLeft, DType::Int8, &[65, 1], -126),
            (Intrinsic::ShiftLeft, DType::Int8, &[1, 8], 0),
            (Intrinsic::ShiftLeft, DType::Int8, &[1, -1], 0),
            (Intrinsic::ShiftLeft, DType::Bool, &[1, 1], 0),
            (Intrinsic::ShiftRight, DType::Int32, &[-8, 1], -4),
            (Intrinsic::ShiftRight, DType::Int32, &[-8, 40], -1),
            (Intrinsic::ShiftRight, DType::Int32, &[8, 32], 0),
            (Intrinsic::ShiftRight, DType::UInt64, &[-1, 63], 1),
            (Intrinsic::ShiftRight, DType::UInt64, &[-1, -1], 0),
            (Intrinsic::BitNot, DType::Bool, &[1], 0),
            (Intrinsic::BitNot, DType::UInt8, &[1], 254),
            (Intrinsic::Abs, DType::Int8, &[-128], -128),
        ] {
            assert_eq!(of(f, t, args), expected, "{f} of {args:?}, {t}");
        }
    }
}
