//! Logarithms.

use super::ops::Ops;
use crate::ir::CmpOp;
use crate::loopir::ExprId;

/// Number of fraction bits.
const FRACTION: i32 = 23;

/// The bits of the square root of a half: the minimum of the fraction `m` in `x = m * 2^e`.
const LEAST_FRACTION: i32 = 0x3f35_04f3;

/// A positive number as `(1 + f) * 2^e`, with `1 + f` between the square roots of 1/2 and 2; `e` as a float, minus
/// `offset`.
pub(super) struct Split {
    pub f: ExprId,
    pub e: ExprId,
    /// `e` at the position of a float's exponent.
    shifted: ExprId,
}

pub(super) fn split(o: &mut Ops<'_>, x: ExprId, offset: Option<ExprId>) -> Split {
    let (bits, least) = (o.bits(x), o.i(LEAST_FRACTION));
    let bits = o.named("b", bits);
    let e = o.sub(bits, least);
    let mask = o.i(!((1 << FRACTION) - 1));
    let shifted = o.and(e, mask);
    let shifted = o.named("k", shifted);
    let fraction = o.sub(bits, shifted);
    let fraction = o.float(fraction);
    let one = o.c(1.0);
    let f = o.sub(fraction, one);
    let e = o.shift_right(shifted, FRACTION);
    let e = o.convert(e);
    let e = match offset {
        Some(offset) => o.sub(e, offset),
        None => e,
    };
    Split { f, e, shifted }
}

/// Scales subnormal numbers to normal ones; returns the number, and the offset to subtract from its exponent.
pub(super) fn normalized(o: &mut Ops<'_>, x: ExprId) -> (ExprId, ExprId) {
    let (least, large) = (o.c(f32::MIN_POSITIVE), o.c(8_388_608.0));
    let is_small = o.compare(CmpOp::Lt, x, least);
    let scaled = o.mul(x, large);
    let normal = o.select(is_small, scaled, x);
    let (zero, offset) = (o.c(0.0), o.c(FRACTION as f32));
    let offset = o.select(is_small, offset, zero);
    (o.named("n", normal), offset)
}

/// `ln(1 + f)` in two parts: `f - f²/2` and the rest.
fn series(o: &mut Ops<'_>, f: ExprId) -> (ExprId, ExprId) {
    /// Coefficients of `(ln(1 + f) - f + f²/2) / f³`.
    const COEFFICIENTS: [f32; 8] =
        [-0.07860215, 0.12881409, -0.13128403, 0.14181213, -0.16624597, 0.20002286, -0.25000808, 0.33333316];
    let p = o.horner(f, &COEFFICIENTS);
    let square = o.mul(f, f);
    let square = o.named("q", square);
    let cube = o.mul(square, f);
    let rest = o.mul(p, cube);
    let half = o.c(-0.5);
    (o.mul(square, half), rest)
}

/// Handles numbers without a finite logarithm; `value` is the result for all others.
fn special(o: &mut Ops<'_>, x: ExprId, value: ExprId) -> ExprId {
    let (zero, infinity, nan) = (o.c(0.0), o.c(f32::INFINITY), o.c(f32::NAN));
    let low = o.c(f32::NEG_INFINITY);
    let is_zero = o.compare(CmpOp::Eq, x, zero);
    let otherwise = o.select(is_zero, low, nan);
    let is_positive = o.compare(CmpOp::Gt, x, zero);
    let value = o.select(is_positive, value, otherwise);
    let is_infinite = o.compare(CmpOp::Eq, x, infinity);
    o.select(is_infinite, infinity, value)
}

/// `scale * ln(1 + f) + e * unit`, with the unit in two parts.
fn combined(o: &mut Ops<'_>, f: ExprId, e: ExprId, scale: f32, unit: (f32, f32)) -> ExprId {
    let f = o.named("f", f);
    let e = o.named("e", e);
    let (square, rest) = series(o, f);
    let (high, low) = (o.c(unit.0), o.c(unit.1));
    if scale == 1.0 {
        let rest = o.fma(e, low, rest);
        let rest = o.add(square, rest);
        let sum = o.add(f, rest);
        return o.fma(e, high, sum);
    }
    let rest = o.add(square, rest);
    let sum = o.add(f, rest);
    let scale = o.c(scale);
    let small = if unit.1 == 0.0 {
        o.mul(sum, scale)
    } else {
        let product = o.mul(sum, scale);
        o.fma(e, low, product)
    };
    o.fma(e, high, small)
}

fn logarithm(o: &mut Ops<'_>, x: ExprId, scale: f32, unit: (f32, f32)) -> ExprId {
    let (normal, offset) = normalized(o, x);
    let Split { f, e, .. } = split(o, normal, Some(offset));
    let value = combined(o, f, e, scale, unit);
    special(o, x, value)
}

/// `ln x`.
pub(super) fn log(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    logarithm(o, x, 1.0, LN_2)
}

/// ln 2 in two parts; the first has few enough bits for its multiples to be exact.
const LN_2: (f32, f32) = (0.69314575, 1.4286068e-6);

/// `log2 x`.
pub(super) fn log2(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    logarithm(o, x, std::f32::consts::LOG2_E, (1.0, 0.0))
}

/// `log10 x`.
pub(super) fn log10(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    logarithm(o, x, std::f32::consts::LOG10_E, (0.30103302, -3.0243555e-6))
}

/// `ln(1 + x)`. The rounding error of the sum is added, scaled, to its fraction.
pub(super) fn log1p(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    let one = o.c(1.0);
    let u = o.add(one, x);
    let u = o.named("u", u);
    let back = o.sub(u, one);
    let lost = o.sub(x, back);
    let Split { f, e, shifted } = split(o, u, None);
    // From 2^24 on there is no rounding error; the largest numbers would have no normal scale.
    let (bias, most) = (o.i(127 << FRACTION), o.i(126 << FRACTION));
    let shifted = o.min(shifted, most);
    let scale = o.sub(bias, shifted);
    let scale = o.float(scale);
    let correction = o.mul(lost, scale);
    let f = o.add(f, correction);
    let value = combined(o, f, e, 1.0, LN_2);
    special(o, u, value)
}
