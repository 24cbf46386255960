//! Operations on floats.

use super::math::{acosh, asinh, atanh, erf, exp10, next_after, sigmoid};
use super::round::computed_in;
use super::{Rounding, Trap};
use crate::ir::dtype::DType;
use crate::ir::expr::Const;
use crate::ir::op::{BinOp, Intrinsic};

/// `x op y` of floats of type `dtype`.
#[inline]
pub fn binary(op: BinOp, dtype: DType, x: f64, y: f64, rounding: &impl Rounding) -> Result<f64, Trap> {
    let inner = computed_in(dtype);
    Ok(match op {
        BinOp::Add => rounding.result(dtype, x + y),
        BinOp::Sub => rounding.result(dtype, x - y),
        BinOp::Mul => rounding.result(dtype, x * y),
        BinOp::Div => rounding.quotient(dtype, x / y, y),
        BinOp::Mod => rounding.result(dtype, x % y),
        BinOp::FloorDiv => rounding.result(dtype, rounding.quotient(inner, x / y, y).floor()),
        BinOp::FloorMod => {
            let quotient = rounding.quotient(inner, x / y, y).floor();
            rounding.result(dtype, x - rounding.result(inner, quotient * y))
        }
        // `f64::min` gives other results for NaN and zeros.
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
    })
}

/// A function of floats of type `dtype`.
pub(super) fn call(function: Intrinsic, dtype: DType, args: &[Const], rounding: &impl Rounding) -> Result<Const, Trap> {
    let arg = |i: usize| match args[i] {
        Const::Float(v) => Ok(v),
        Const::Int(_) => Err(Trap::IllTyped),
    };
    let x = arg(0)?;
    // Exact results are numbers of the type, except for some 8-bit types: those without 16, 0 or a sign.
    let exact = |v| Ok(Const::Float(if matches!(dtype, DType::Float8(_)) { rounding.result(dtype, v) } else { v }));
    let value = match function {
        Intrinsic::Exp => x.exp(),
        Intrinsic::Exp2 => x.exp2(),
        Intrinsic::Exp10 => exp10(x),
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
        Intrinsic::Asinh => asinh(x),
        Intrinsic::Acosh => acosh(x),
        Intrinsic::Atanh => atanh(x),
        Intrinsic::Atan2 => x.atan2(arg(1)?),
        Intrinsic::Erf => erf(x),
        Intrinsic::Sigmoid => sigmoid(x),
        Intrinsic::Pow => x.powf(arg(1)?),
        Intrinsic::Hypot => x.hypot(arg(1)?),
        // The remainder of two numbers is exact.
        Intrinsic::Fmod => return Ok(Const::Float(rounding.result(dtype, x % arg(1)?))),
        Intrinsic::Fma => return Ok(Const::Float(rounding.fused(dtype, x, arg(1)?, arg(2)?))),
        Intrinsic::NextAfter => return Ok(Const::Float(next_after(dtype, x, arg(1)?))),
        Intrinsic::CopySign => return exact(x.copysign(arg(1)?)),
        Intrinsic::Abs => return exact(x.abs()),
        Intrinsic::Floor => return exact(x.floor()),
        Intrinsic::Ceil => return exact(x.ceil()),
        Intrinsic::Trunc => return exact(x.trunc()),
        Intrinsic::Round | Intrinsic::NearbyInt => return exact(x.round_ties_even()),
        Intrinsic::IsNan => return Ok(Const::Int(x.is_nan().into())),
        Intrinsic::IsInf => return Ok(Const::Int(x.is_infinite().into())),
        Intrinsic::IsFinite => return Ok(Const::Int(x.is_finite().into())),
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
    Ok(Const::Float(rounding.function(dtype, value)))
}
