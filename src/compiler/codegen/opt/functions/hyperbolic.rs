//! Hyperbolic functions other than the tangent, and inverse ones.

use super::exp::half_exp;
use super::log::{log, log1p};
use super::ops::Ops;
use crate::ir::CmpOp;
use crate::loopir::ExprId;
use std::f32::consts::LN_2;

/// `cosh x = h + 1 / (4 h)` with `h = e^|x| / 2`.
pub(super) fn cosh(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    let a = o.abs(x);
    let (h, inverse) = halves(o, a);
    o.add(h, inverse)
}

/// `sinh x = h - 1 / (4 h)` with `h = e^|x| / 2`; a polynomial below 1, where that would cancel.
pub(super) fn sinh(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    /// Coefficients of `(sinh a - a) / a³` in the square of `a`.
    const COEFFICIENTS: [f32; 4] = [2.8174395e-6, 0.000_198_360_66, 0.008_333_351, 0.166_666_67];
    let a = o.abs(x);
    let a = o.named("a", a);
    let z = o.mul(a, a);
    let z = o.named("z", z);
    let p = o.horner(z, &COEFFICIENTS);
    let cube = o.mul(z, a);
    let small = o.fma(p, cube, a);
    let (h, inverse) = halves(o, a);
    let large = o.sub(h, inverse);
    let one = o.c(1.0);
    let is_large = o.compare(CmpOp::Ge, a, one);
    let magnitude = o.select(is_large, large, small);
    o.with_sign(magnitude, x)
}

/// `e^a / 2` and `e^-a / 2`.
fn halves(o: &mut Ops<'_>, a: ExprId) -> (ExprId, ExprId) {
    let h = half_exp(o, a);
    let h = o.named("h", h);
    let quarter = o.c(0.25);
    (h, o.div(quarter, h))
}

/// The number from which the square is negligible: `ln(2 a)` is the result.
const LARGE: f32 = 8192.0;

/// `ln(2 a)` of large numbers, else `ln(1 + u)`.
fn logarithm(o: &mut Ops<'_>, a: ExprId, u: ExprId) -> ExprId {
    let (large, unit) = (o.c(LARGE), o.c(LN_2));
    let is_large = o.compare(CmpOp::Gt, a, large);
    let of_large = log(o, a);
    let of_large = o.add(of_large, unit);
    let of_large = o.named("l", of_large);
    let of_small = log1p(o, u);
    o.select(is_large, of_large, of_small)
}

/// `asinh x = ln(1 + u)` of the magnitude, with `u = a + a² / (1 + sqrt(1 + a²))`.
pub(super) fn asinh(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    let a = o.abs(x);
    let a = o.named("a", a);
    let one = o.c(1.0);
    let square = o.mul(a, a);
    let square = o.named("q", square);
    let sum = o.add(square, one);
    let root = o.sqrt(sum);
    let denominator = o.add(root, one);
    let quotient = o.div(square, denominator);
    let u = o.add(a, quotient);
    let u = o.named("u", u);
    let magnitude = logarithm(o, a, u);
    o.with_sign(magnitude, x)
}

/// `acosh x = ln(1 + u)` with `u = t + sqrt(t² + 2 t)` and `t = x - 1`; NaN below 1.
pub(super) fn acosh(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    let (one, two) = (o.c(1.0), o.c(2.0));
    let t = o.sub(x, one);
    let t = o.named("t", t);
    let more = o.add(t, two);
    let square = o.mul(t, more);
    let root = o.sqrt(square);
    let u = o.add(t, root);
    let u = o.named("u", u);
    let value = logarithm(o, x, u);
    let (is_below, nan) = (o.compare(CmpOp::Lt, x, one), o.c(f32::NAN));
    o.select(is_below, nan, value)
}

/// `atanh x = ln(1 + u) / 2` of the magnitude, with `u = 2 a / (1 - a)`; NaN beyond 1.
pub(super) fn atanh(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    let a = o.abs(x);
    let a = o.named("a", a);
    let (one, half) = (o.c(1.0), o.c(0.5));
    let (twice, rest) = (o.add(a, a), o.sub(one, a));
    let u = o.div(twice, rest);
    let u = o.named("u", u);
    let value = log1p(o, u);
    let magnitude = o.mul(value, half);
    o.with_sign(magnitude, x)
}
