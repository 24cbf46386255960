//! Semantics of the scalar operations.
//!
//! Constant folding of both IRs, the interpreter and the evaluator of the loop IR all compute with the functions of
//! this module. Compiled code must give the same bits, except for approximated functions and the bits of a NaN.
//!
//! # Values
//! A value is a [`Const`], whose type is given separately. An integer lies in the range of its type; a `uint64` is the
//! `i64` of equal bits, `bool` is 0 or 1. A float is a number of its type, stored as `f64`. The bits of a NaN have no
//! meaning.
//!
//! # Integers ([`int`])
//! * Sums, differences and products wrap in two's complement to the width of the type. For `bool`, a result that is not
//!   0 is 1: a sum is `or`, a difference `xor`, a product `and`.
//! * `Div` and `Mod` round towards zero, `FloorDiv` and `FloorMod` towards minus infinity. The sign of a remainder is that
//!   of the dividend in the first case and that of the divisor in the second. Division by zero has no result, nor has any
//!   division of the smallest signed integer by -1, the remainder included.
//! * `uint64` compares, divides and shifts without a sign.
//! * A shift by less than 0, or by the width of the type or more, gives 0; to the right, a negative number gives -1. Shifts
//!   to the right copy the sign of signed types.
//! * `bool` is one bit wide, for shifts, `clz`, `popcount` and the complement.
//! * `abs` wraps: the smallest integer stays.
//!
//! # Floats ([`float`])
//! * Operators and functions round once, to nearest, ties to even. Types of less than 32 bits compute in `float32` and round
//!   the result: one operation, two roundings.
//! * `FloorDiv` is the floor of the rounded quotient, `FloorMod` is `a - floor(a / b) * b` with a rounding after each step;
//!   in types of less than 32 bits, the steps are those of `float32`. `Mod` is `fmod`: the remainder has the sign of the
//!   dividend and is exact. Division by zero gives infinity or NaN.
//! * `Min` is `a < b ? a : b` and `Max` is `a > b ? a : b`: the result is the second operand if one is NaN, and for 0
//!   and -0.
//! * Comparisons with NaN are false, except for `!=`, which is true. 0 and -0 are equal.
//! * `round` and `nearbyint` round halves to even. `nextafter` steps in the type of its operands. `fma` rounds once.
//! * Other functions are computed in `float64` and rounded; [`rounding`](super::rounding) has the maximum errors of
//!   implementations.
//!
//! # Conversions ([`cast()`])
//! * Conversions between integers wrap; a conversion to `bool` is `!= 0`, also for NaN.
//! * Conversions from float to integer truncate and saturate; NaN gives 0.
//! * Conversions from `float64` to `float16` and `bfloat16` round once; to 8-bit floats they go through `float32`.
//! * Conversions from integer to `float32` and `float64` round once; to smaller floats they go through `float32`.
//! * Overflow gives infinity, or NaN in the 8-bit floats without infinity.
//! * [`reinterpret`](bits) keeps the bits: `float16` has the 16 bits of IEEE 754, `bool` is a byte.

pub mod bits;
mod cast;
pub mod float;
pub mod int;
pub mod math;
pub mod round;

pub use cast::cast;
pub use round::{Exact, Rounding};

use super::dtype::DType;
use super::expr::Const;
use super::op::{BinOp, CmpOp, Intrinsic};

/// The reason why an operation has no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trap {
    /// An integer is divided by zero.
    DivisionByZero,
    /// The smallest integer is divided by -1.
    DivisionOverflow,
    /// The operation is not defined for values of this type.
    IllTyped,
}

/// `a op b` for operands of type `dtype`, both of which are evaluated.
#[inline]
pub fn binary(op: BinOp, dtype: DType, a: Const, b: Const, rounding: &impl Rounding) -> Result<Const, Trap> {
    match (a, b) {
        (Const::Int(x), Const::Int(y)) => int::binary(op, dtype, x, y).map(Const::Int),
        (Const::Float(x), Const::Float(y)) => float::binary(op, dtype, x, y, rounding).map(Const::Float),
        _ => Err(Trap::IllTyped),
    }
}

/// Whether `a op b` holds for operands of type `dtype`.
#[inline]
pub fn compare(op: CmpOp, dtype: DType, a: Const, b: Const) -> Result<bool, Trap> {
    match (a, b) {
        (Const::Int(x), Const::Int(y)) => Ok(int::compare(op, dtype, x, y)),
        (Const::Float(x), Const::Float(y)) => Ok(op.holds(x, y)),
        _ => Err(Trap::IllTyped),
    }
}

/// `not a` of a boolean.
#[inline]
pub fn not(a: Const) -> Result<Const, Trap> {
    match a {
        Const::Int(v) => Ok(Const::Int((v == 0).into())),
        Const::Float(_) => Err(Trap::IllTyped),
    }
}

/// A function of arguments of type `dtype`; their number must be its arity.
#[inline]
pub fn call(function: Intrinsic, dtype: DType, args: &[Const], rounding: &impl Rounding) -> Result<Const, Trap> {
    match args[0] {
        Const::Int(_) => int::call(function, dtype, args).map(Const::Int),
        Const::Float(_) => float::call(function, dtype, args, rounding),
    }
}
