//! Inverse trigonometric functions.

use super::ops::Ops;
use crate::ir::CmpOp;
use crate::loopir::ExprId;
use std::f32::consts::{FRAC_PI_2, FRAC_PI_4, PI};

/// π/2 minus the nearest float.
const HALF_PI_LOW: f32 = -4.371_139e-8;

/// The arc sine of a number up to 1/2, or that of `sqrt((1 - a) / 2)` of a larger one, which is half of the arc cosine of `a`.
struct ArcSine {
    value: ExprId,
    /// Whether the magnitude is larger than 1/2.
    is_large: ExprId,
}

fn arc_sine(o: &mut Ops<'_>, x: ExprId) -> ArcSine {
    /// Coefficients of `(asin s - s) / s³` in the square of `s`.
    const COEFFICIENTS: [f32; 6] = [0.037565213, 0.0144026, 0.03181761, 0.04451572, 0.07500511, 0.1666666];
    let a = o.abs(x);
    let a = o.named("a", a);
    let (half, one) = (o.c(0.5), o.c(1.0));
    let is_large = o.compare(CmpOp::Gt, a, half);
    let rest = o.sub(one, a);
    let (halved, square) = (o.mul(rest, half), o.mul(a, a));
    let z = o.select(is_large, halved, square);
    let z = o.named("z", z);
    let root = o.sqrt(z);
    let s = o.select(is_large, root, a);
    let s = o.named("s", s);
    let p = o.horner(z, &COEFFICIENTS);
    let cube = o.mul(s, z);
    let value = o.fma(p, cube, s);
    ArcSine { value: o.named("p", value), is_large }
}

/// π/2 minus a number.
fn complement(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    let (high, low) = (o.c(FRAC_PI_2), o.c(HALF_PI_LOW));
    let rest = o.sub(low, x);
    o.add(high, rest)
}

/// `asin x`; NaN outside of -1 … 1.
pub(super) fn asin(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    let ArcSine { value, is_large } = arc_sine(o, x);
    let twice = o.add(value, value);
    let large = complement(o, twice);
    let magnitude = o.select(is_large, large, value);
    o.with_sign(magnitude, x)
}

/// `acos x`; NaN outside of -1 … 1.
pub(super) fn acos(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    let ArcSine { value, is_large } = arc_sine(o, x);
    let twice = o.add(value, value);
    let twice = o.named("t", twice);
    let (zero, pi, low) = (o.c(0.0), o.c(PI), o.c(2.0 * HALF_PI_LOW));
    let rest = o.sub(low, twice);
    let of_negative = o.add(pi, rest);
    let is_negative = o.compare(CmpOp::Lt, x, zero);
    let large = o.select(is_negative, of_negative, twice);
    let signed = o.with_sign(value, x);
    let small = complement(o, signed);
    o.select(is_large, large, small)
}

/// `atan x`: with the angle of `(a - 1) / (a + 1)`, which is smaller by π/4, or `-1 / a`, smaller by π/2.
pub(super) fn atan(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    /// Coefficients of `(atan t - t) / t³` in the square of `t`.
    const COEFFICIENTS: [f32; 5] = [-0.060834523, 0.105_960_01, -0.142_438_49, 0.199_984_9, -0.333_333_16];
    /// The tangents of π/8 and 3π/8.
    const LIMITS: (f32, f32) = (0.414_213_57, 2.414_213_7);
    let a = o.abs(x);
    let a = o.named("a", a);
    let (one, minus_one, zero) = (o.c(1.0), o.c(-1.0), o.c(0.0));
    let (low, high) = (o.c(LIMITS.0), o.c(LIMITS.1));
    let (is_middle, is_large) = (o.compare(CmpOp::Gt, a, low), o.compare(CmpOp::Gt, a, high));
    let (less, more) = (o.sub(a, one), o.add(a, one));
    let numerator = o.select(is_middle, less, a);
    let numerator = o.select(is_large, minus_one, numerator);
    let denominator = o.select(is_middle, more, one);
    let denominator = o.select(is_large, a, denominator);
    let t = o.div(numerator, denominator);
    let t = o.named("t", t);
    let z = o.mul(t, t);
    let z = o.named("z", z);
    let p = o.horner(z, &COEFFICIENTS);
    let cube = o.mul(z, t);
    let cube = o.named("c", cube);
    let rest = o.mul(p, cube);
    // The angle that was left out, in two parts.
    let (quarter, half) = (o.c(FRAC_PI_4), o.c(FRAC_PI_2));
    let base = o.select(is_middle, quarter, zero);
    let base = o.select(is_large, half, base);
    let (quarter_low, half_low) = (o.c(HALF_PI_LOW / 2.0), o.c(HALF_PI_LOW));
    let base_low = o.select(is_middle, quarter_low, zero);
    let base_low = o.select(is_large, half_low, base_low);
    let rest = o.add(rest, base_low);
    let rest = o.add(t, rest);
    let magnitude = o.add(base, rest);
    o.with_sign(magnitude, x)
}
