//! What the operations on scalars mean.
//!
//! Constant folding of both IRs, the interpreter and the evaluator of the loop IR compute with the functions of this module
//! and have none of their own. Compiled code has to agree with them: bit for bit, but for approximated functions and for
//! the bits of a NaN.
//!
//! # Values
//! A value is a [`Const`] beside the type it belongs to. An integer lies in the range of its type; a `uint64` is the `i64` of
//! equal bits, `bool` is 0 or 1. A float is a number of its type, carried as `f64`. Which NaN a NaN is has no meaning.
//!
//! # Integers ([`int`])
//! * Sums, differences and products wrap in two's complement to the width of the type. Of `bool`, whatever is not 0 is 1: a
//!   sum is `or`, a difference `xor`, a product `and`.
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
//! * `Min` is `a < b ? a : b` and `Max` is `a > b ? a : b`: the second operand where one is NaN, and of 0 and -0.
//! * Comparisons with NaN do not hold, but for `!=`. 0 and -0 are equal.
//! * `round` and `nearbyint` take halves to the even integer. `nextafter` steps in the type of its operands. `fma` rounds once.
//! * Other functions are computed in `float64` and rounded; implementations may be off by what [`rounding`](super::rounding)
//!   says.
//!
//! # Conversions ([`cast()`])
//! * Between integers they wrap; to `bool` they are `!= 0`, of NaN too.
//! * From float to integer they truncate and saturate; NaN gives 0.
//! * From `float64` to `float16` and `bfloat16` they round once; to floats of 8 bits by way of `float32`.
//! * From integer to `float32` and `float64` they round once; to smaller floats by way of `float32`.
//! * Too large numbers become infinity, or NaN in the floats of 8 bits that have no infinity.
//! * [`reinterpret`](bits) keeps the bits: those of a `float16` are the 16 of IEEE 754, `bool` is a byte.

pub(crate) mod bits;
mod cast;
pub(crate) mod float;
pub(crate) mod int;
pub(crate) mod math;
pub(crate) mod round;

pub(crate) use cast::cast;
pub(crate) use round::{Exact, Rounding};

use super::dtype::DType;
use super::expr::Const;
use super::op::{BinOp, CmpOp, Intrinsic};

/// Why an operation has no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trap {
    /// An integer is divided by zero.
    DivisionByZero,
    /// The smallest integer is divided by -1.
    DivisionOverflow,
    /// The operation does not take values of this type.
    IllTyped,
}

/// `a op b` of operands of type `dtype`, both of which are evaluated.
#[inline]
pub(crate) fn binary(op: BinOp, dtype: DType, a: Const, b: Const, rounding: &impl Rounding) -> Result<Const, Trap> {
    match (a, b) {
        (Const::Int(x), Const::Int(y)) => int::binary(op, dtype, x, y).map(Const::Int),
        (Const::Float(x), Const::Float(y)) => float::binary(op, dtype, x, y, rounding).map(Const::Float),
        _ => Err(Trap::IllTyped),
    }
}

/// Does `a op b` hold for operands of type `dtype`?
#[inline]
pub(crate) fn compare(op: CmpOp, dtype: DType, a: Const, b: Const) -> Result<bool, Trap> {
    match (a, b) {
        (Const::Int(x), Const::Int(y)) => Ok(int::compare(op, dtype, x, y)),
        (Const::Float(x), Const::Float(y)) => Ok(op.holds(x, y)),
        _ => Err(Trap::IllTyped),
    }
}

/// `not a` of a boolean.
#[inline]
pub(crate) fn not(a: Const) -> Result<Const, Trap> {
    match a {
        Const::Int(v) => Ok(Const::Int((v == 0).into())),
        Const::Float(_) => Err(Trap::IllTyped),
    }
}

/// A function of arguments of type `dtype`, as many as it takes.
#[inline]
pub(crate) fn call(function: Intrinsic, dtype: DType, args: &[Const], rounding: &impl Rounding) -> Result<Const, Trap> {
    match args[0] {
        Const::Int(_) => int::call(function, dtype, args).map(Const::Int),
        Const::Float(_) => float::call(function, dtype, args, rounding),
    }
}
