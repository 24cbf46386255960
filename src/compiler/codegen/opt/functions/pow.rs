//! Powers: `x^y = 2^(y * log2 |x|)` with the logarithm and the product as sums of two floats, and the sign by `y`.
//!
//! An absolute error of the exponent is a relative error of the result, so the exponent, up to 150, needs eight more
//! bits than a float has. Fused multiply-add computes the rounding error of a product exactly; without that instruction
//! there is no expansion.

use super::exp::{TWO, power_of_sum};
use super::log::{Split, normalized, split};
use super::ops::Ops;
use crate::ir::{BinOp, CmpOp, Const, DType, Intrinsic};
use crate::loopir::{Arena, ExprId};

/// A number as an unevaluated sum of two floats.
struct Pair {
    high: ExprId,
    low: ExprId,
}

/// `a + b` with its rounding error, where `a` is zero or not smaller than `b`.
fn fast_sum(o: &mut Ops<'_>, a: ExprId, b: ExprId) -> Pair {
    let high = o.add(a, b);
    let high = o.named("h", high);
    let back = o.sub(a, high);
    let low = o.add(back, b);
    Pair { high, low }
}

/// `a * b` with its rounding error.
fn product(o: &mut Ops<'_>, a: ExprId, b: ExprId) -> Pair {
    let high = o.mul(a, b);
    let high = o.named("p", high);
    let negated = o.neg(high);
    let low = o.fma(a, b, negated);
    Pair { high, low }
}

/// The binary logarithm of a positive, finite number: `e + 2 / ln 2 * (s + s³ / 3 + …)` with `s = f / (2 + f)`.
fn log2(o: &mut Ops<'_>, a: ExprId) -> Pair {
    /// 2 / ln 2.
    const SCALE: (f32, f32) = (2.88539, 3.851926e-8);
    /// Coefficients of the terms after `s`, divided by `s³`, as a polynomial in `s²`.
    const COEFFICIENTS: [f32; 4] = [0.3402377, 0.4117054, 0.5770829, 0.9617967];
    let (normal, offset) = normalized(o, a);
    let Split { f, e, .. } = split(o, normal, Some(offset));
    let (f, e) = (o.named("f", f), o.named("e", e));
    // `s`, and its rounding error.
    let (one, two) = (o.c(1.0), o.c(2.0));
    let d = o.add(f, two);
    let d = o.named("d", d);
    let back = o.sub(d, two);
    let d_low = o.sub(f, back);
    let inverse = o.div(one, d);
    let inverse = o.named("i", inverse);
    let s = o.mul(f, inverse);
    let s = o.named("s", s);
    let negated = o.neg(s);
    let negated = o.named("n", negated);
    let rest = o.fma(negated, d, f);
    let rest = o.fma(negated, d_low, rest);
    let s_low = o.mul(rest, inverse);
    let s_low = o.named("l", s_low);
    // The square of `s`, and the sum of the series after its first term.
    let square = product(o, s, s);
    let twice = o.add(s, s);
    let square_low = o.fma(twice, s_low, square.low);
    let series = o.horner(square.high, &COEFFICIENTS);
    let series = o.named("t", series);
    let added = product(o, square.high, series);
    let added_low = o.fma(square_low, series, added.low);
    let (scale, scale_low) = (o.c(SCALE.0), o.c(SCALE.1));
    let factor = fast_sum(o, scale, added.high);
    let rest = o.add(added_low, scale_low);
    let factor_low = o.add(factor.low, rest);
    let log = product(o, s, factor.high);
    let low = o.fma(s, factor_low, log.low);
    let low = o.fma(s_low, factor.high, low);
    let all = fast_sum(o, e, log.high);
    Pair { high: all.high, low: o.add(all.low, low) }
}

/// `x^y` for some constant `y` as products, a quotient or a root, with the special cases of C and errors of at most 2 ulp.
pub(super) fn by_products(arena: &mut Arena, x: ExprId, y: ExprId) -> Option<ExprId> {
    let (ty, Some(Const::Float(y))) = (arena.ty(x), arena.as_const(y)) else { return None };
    // Half-precision floats are rounded once.
    let wide = ty.with_dtype(if ty.dtype.is_half() { DType::Float32 } else { ty.dtype });
    let x = arena.cast(wide.dtype, x);
    let value = match y {
        1.0 => x,
        2.0 => arena.mul(x, x),
        3.0 => {
            let square = arena.mul(x, x);
            arena.mul(square, x)
        }
        4.0 => {
            let square = arena.mul(x, x);
            arena.mul(square, square)
        }
        -1.0 => {
            let one = arena.constant(1, wide);
            arena.binary(BinOp::Div, one, x)
        }
        0.5 => {
            let number = |arena: &mut Arena, v: f64| {
                let scalar = arena.float(v, wide.dtype);
                arena.broadcast(scalar, wide.lanes)
            };
            // The root of a negative zero would be one, and that of the lowest number NaN.
            let (zero, lowest, infinity) =
                (number(arena, 0.0), number(arena, f64::NEG_INFINITY), number(arena, f64::INFINITY));
            let magnitude = arena.call(Intrinsic::Abs, &[x]);
            let is_zero = arena.compare(CmpOp::Eq, x, zero);
            let of = arena.select(is_zero, magnitude, x);
            let root = arena.call(Intrinsic::Sqrt, &[of]);
            let is_lowest = arena.compare(CmpOp::Eq, x, lowest);
            arena.select(is_lowest, infinity, root)
        }
        _ => return None,
    };
    Some(arena.cast(ty.dtype, value))
}

/// `x^y`, with the special cases of C.
pub(super) fn pow(o: &mut Ops<'_>, x: ExprId, y: ExprId) -> ExprId {
    let (zero, one, infinity) = (o.c(0.0), o.c(1.0), o.c(f32::INFINITY));
    let a = o.abs(x);
    let a = o.named("a", a);
    let log = log2(o, a);
    // `x` is zero, infinite or NaN.
    let is_zero = o.compare(CmpOp::Eq, a, zero);
    let low = o.c(f32::NEG_INFINITY);
    let high = o.select(is_zero, low, log.high);
    let is_finite = o.compare(CmpOp::Lt, a, infinity);
    let high = o.select(is_finite, high, a);
    let high = o.named("l", high);
    // The exponent; outside the range its second part is irrelevant.
    let z = product(o, y, high);
    let z_low = o.fma(y, log.low, z.low);
    let (magnitude, most) = (o.abs(z.high), o.c(200.0));
    let counts = o.compare(CmpOp::Lt, magnitude, most);
    let z_low = o.select(counts, z_low, zero);
    let value = power_of_sum(o, &TWO, z.high, z_low);
    // The result is 1 if `x` is 1 or `y` is 0, even with NaN.
    let is_one = o.compare(CmpOp::Eq, a, one);
    let value = o.select(is_one, one, value);
    let is_even = o.compare(CmpOp::Eq, y, zero);
    let value = o.select(is_even, one, value);
    // `x` is negative: NaN unless `y` is an integer; negative if `y` is odd.
    let floor = o.floor(y);
    let is_fraction = o.compare(CmpOp::Ne, floor, y);
    let half = o.c(0.5);
    let half = o.mul(y, half);
    let half = o.named("h", half);
    let floor = o.floor(half);
    let is_odd = o.compare(CmpOp::Ne, floor, half);
    let (bits, mask, none) = (o.bits(x), o.i(i32::MIN), o.i(0));
    let sign = o.and(bits, mask);
    let sign = o.select(is_odd, sign, none);
    let sign = o.select(is_fraction, none, sign);
    let bits = o.bits(value);
    let signed = o.or(bits, sign);
    let signed = o.float(signed);
    let (lowest, nan) = (o.c(f32::NEG_INFINITY), o.c(f32::NAN));
    let lost = o.select(is_fraction, nan, signed);
    let is_negative = o.compare(CmpOp::Lt, x, zero);
    let is_lowest = o.compare(CmpOp::Eq, x, lowest);
    let lost = o.select(is_lowest, signed, lost);
    o.select(is_negative, lost, signed)
}
