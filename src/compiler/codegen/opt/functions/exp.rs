//! Exponentials, and functions computed from them.

use super::ops::Ops;
use crate::ir::CmpOp;
use crate::loopir::ExprId;

/// Adding this to a small number puts the nearest integer into its low bits, with the exponent bias 127 added, so that
/// a shift by [`FRACTION`] gives the power of two. Subtracting it again gives the integer as a float.
const ROUND: f32 = 12_582_912.0 + 127.0;

/// Number of fraction bits.
const FRACTION: i32 = 23;

/// A base, whose powers are computed as `p(r) * 2^m * 2^m` with `x = m * step + r` and `|r| <= step / 2`.
///
/// The step corresponds to two powers of two, and the result is scaled twice. So it overflows to infinity and
/// underflows through the subnormal numbers to zero with a single rounding, while both factors are normal.
pub(super) struct Base {
    /// Below this range the result rounds to zero, above it to infinity; `m` stays within ±127.
    limits: (f32, f32),
    per_step: f32,
    /// The step in two parts. The first has few enough bits for its multiples to be exact.
    step: (f32, f32),
    /// Coefficients of `p`, highest power first.
    coefficients: [f32; 8],
}

fn power(o: &mut Ops<'_>, base: &Base, x: ExprId) -> ExprId {
    power_of(o, base, x, None, 1.0)
}

/// The power of `x + low`, where `low` is much smaller than `x`.
pub(super) fn power_of_sum(o: &mut Ops<'_>, base: &Base, x: ExprId, low: ExprId) -> ExprId {
    power_of(o, base, x, Some(low), 1.0)
}

/// The power of `x`, or of a sum, times a power of two.
fn power_of(o: &mut Ops<'_>, base: &Base, x: ExprId, rest: Option<ExprId>, factor: f32) -> ExprId {
    let x = o.at_least(base.limits.0, x);
    let x = o.at_most(base.limits.1, x);
    let x = o.named("x", x);
    let per_step = o.c(base.per_step);
    let t = o.fma_c(x, per_step, ROUND);
    let t = o.named("t", t);
    let round = o.c(ROUND);
    let m = o.sub(t, round);
    let m = o.named("m", m);
    let (high, low) = (o.c(-base.step.0), o.c(-base.step.1));
    let r = o.fma(m, high, x);
    let r = if base.step.1 == 0.0 { r } else { o.fma(m, low, r) };
    let r = match rest {
        Some(rest) => o.add(r, rest),
        None => r,
    };
    let r = o.named("r", r);
    let p = o.horner(r, &base.coefficients.map(|c| c * factor));
    let scale = power_of_two(o, t);
    let scale = o.named("s", scale);
    let scaled = o.mul(p, scale);
    o.mul(scaled, scale)
}

/// `e^x` if subnormal numbers are flushed to zero: `p(r) * 2^n` with `x = n * ln 2 + r` and `0 <= r <= ln 2`.
///
/// As `p(r)` lies between 1 and 2, the factor overflows and underflows exactly where the result does, so a single
/// factor suffices, and the shorter interval needs a polynomial of two degrees less.
fn exp_of_normal(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    /// Outside this range, `n` is not an exponent.
    const LIMITS: (f32, f32) = (-87.9, 89.0);
    /// Slightly less than a half, to keep `x = 0` and the largest `x` on the right side of a rounding.
    const HALF: f32 = -0.5 + 1.0 / 262_144.0;
    const COEFFICIENTS: [f32; 6] = [0.011669389, 0.039062615, 0.16755491, 0.49987084, 1.000006, 1.0];
    let x = o.at_least(LIMITS.0, x);
    let x = o.at_most(LIMITS.1, x);
    let x = o.named("x", x);
    let (per_step, round) = (o.c(std::f32::consts::LOG2_E), o.c(ROUND));
    let floor = o.fma_c(x, per_step, HALF);
    let t = o.add(floor, round);
    let t = o.named("t", t);
    let r = remainder_of_ln_2(o, x, t, ROUND);
    let p = o.horner(r, &COEFFICIENTS);
    let scale = power_of_two(o, t);
    o.mul(p, scale)
}

/// `x - n * ln 2`, where `t` is `n` in steps of its last bit, plus `round`.
fn remainder_of_ln_2(o: &mut Ops<'_>, x: ExprId, t: ExprId, round: f32) -> ExprId {
    /// ln 2; the first part has few bits.
    const STEP: (f32, f32) = (0.69314575, 1.4286068e-6);
    let round = o.c(round);
    let n = o.sub(t, round);
    let n = o.named("n", n);
    let (high, low) = (o.c(-STEP.0), o.c(-STEP.1));
    let r = o.fma(n, high, x);
    let r = o.fma(n, low, r);
    o.named("r", r)
}

/// `2^n`, where `t` is the integer `n` plus [`ROUND`].
fn power_of_two(o: &mut Ops<'_>, t: ExprId) -> ExprId {
    let bits = o.bits(t);
    let bits = o.shift_left(bits, FRACTION);
    o.float(bits)
}

/// `e^x` if subnormal numbers are flushed to zero and sixteen numbers fit a register: `p(r) * 2^(n/16)` with `x = n/16
/// * ln 2 + r` and `|r| <= ln 2 / 32`, which saves two degrees.
///
/// The largest factor is the one below 2^128, and covers twice the interval, at whose end results overflow. The
/// coefficients are for that interval.
fn exp_by_sixteenths(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    /// Like [`ROUND`], for the nearest sixteenth.
    const ROUND: f32 = 786_432.0 + 127.0;
    /// Below this value, the factor would be zero.
    const LEAST: f32 = -87.9;
    const COEFFICIENTS: [f32; 4] = [0.16847323, 0.50001323, 0.9999993, 1.0];
    let x = o.at_least(LEAST, x);
    let x = o.named("x", x);
    let per_octave = o.c(std::f32::consts::LOG2_E);
    let t = o.fma_c(x, per_octave, ROUND);
    let t = o.at_most(ROUND + 127.0 + 15.0 / 16.0, t);
    let t = o.named("t", t);
    let r = remainder_of_ln_2(o, x, t, ROUND);
    let p = o.horner(r, &COEFFICIENTS);
    let bits = o.bits(t);
    let bits = o.named("b", bits);
    let octave = o.shift_left(bits, FRACTION - 4);
    let sixteenth = o.lookup(&SIXTEENTHS, bits);
    let factor = o.plus(octave, sixteenth);
    let factor = o.float(factor);
    o.mul(p, factor)
}

/// The fraction bits of `2^(i/16)`, minus the bits of `i` after the shift to the lowest four bits of the exponent.
const SIXTEENTHS: [i32; 16] = [
    0, -152893, -289342, -408621, -509968, -592590, -655657, -698305, -719629, -718684, -694486, -646004, -572163,
    -471841, -343865, -187011,
];

/// `e^x`.
pub(super) fn exp(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    if !o.keeps_subnormals {
        return if o.looks_up == Some(SIXTEENTHS.len()) { exp_by_sixteenths(o, x) } else { exp_of_normal(o, x) };
    }
    power(o, &E, x)
}

/// Powers of e.
const E: Base = Base {
    limits: (-104.0, 89.5),
    per_step: 0.7213475,
    step: (1.3862915, 2.8572135e-6),
    coefficients: [0.00020107703, 0.0014129006, 0.008332572, 0.041659802, 0.16666673, 0.50000054, 1.0, 1.0],
};

/// `e^x / 2`, which is infinite only where that is.
pub(super) fn half_exp(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    power_of(o, &E, x, None, 0.5)
}

/// Powers of two.
pub(super) const TWO: Base = Base {
    limits: (-151.0, 129.0),
    per_step: 0.5,
    step: (2.0, 0.0),
    coefficients: [1.5031205e-5, 0.00015653636, 0.0013339478, 0.0096167205, 0.055503797, 0.24022673, 0.69314724, 1.0],
};

/// `2^x`.
pub(super) fn exp2(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    power(o, &TWO, x)
}

/// `10^x`.
pub(super) fn exp10(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    const BASE: Base = Base {
        limits: (-45.5, 38.75),
        per_step: 1.660964,
        step: (0.60206604, -6.048711e-6),
        coefficients: [
            0.067106955,
            0.21035601,
            0.53962123,
            1.1710837,
            2.0346673,
            2.6509514,
            std::f32::consts::LN_10,
            1.0,
        ],
    };
    power(o, &BASE, x)
}

/// `1 / (1 + e^-x)`, computed as `e^x / (1 + e^x)` for negative `x`, so that the exponential never overflows.
pub(super) fn sigmoid(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    let (zero, one) = (o.c(0.0), o.c(1.0));
    let magnitude = o.abs(x);
    let negated = o.sub(zero, magnitude);
    let e = exp(o, negated);
    let e = o.named("e", e);
    let is_negative = o.compare(CmpOp::Lt, x, zero);
    let numerator = o.select(is_negative, e, one);
    let denominator = o.add(e, one);
    o.div(numerator, denominator)
}

/// `e^x - 1` with a small relative error for -18.5 … 18.5, computed as `(e^r - 1) * 2^n + (2^n - 1)`.
fn exp_minus_1(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    /// Coefficients of `(e^r - 1 - r) / r²`.
    const COEFFICIENTS: [f32; 5] = [0.0013946416, 0.008366564, 0.041666284, 0.16666543, 0.5];
    let per_step = o.c(std::f32::consts::LOG2_E);
    let t = o.fma_c(x, per_step, ROUND);
    let t = o.named("t", t);
    let r = remainder_of_ln_2(o, x, t, ROUND);
    let p = o.horner(r, &COEFFICIENTS);
    let square = o.mul(r, r);
    let p = o.fma(p, square, r);
    let scale = power_of_two(o, t);
    let scale = o.named("s", scale);
    let one = o.c(1.0);
    let rest = o.sub(scale, one);
    o.fma(p, scale, rest)
}

/// `tanh x = (e^2x - 1) / (e^2x + 1)` of the magnitude; 1 from 9.01 on.
pub(super) fn tanh(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    let magnitude = o.abs(x);
    let twice = o.add(magnitude, magnitude);
    let y = o.at_most(18.25, twice);
    let y = o.named("y", y);
    let e = exp_minus_1(o, y);
    let e = o.named("e", e);
    let two = o.c(2.0);
    let denominator = o.add(e, two);
    let quotient = o.div(e, denominator);
    o.with_sign(quotient, x)
}

/// `erf x = 1 - e^-q(x)` of the magnitude, where `q = -ln(1 - erf)` is well approximated by a polynomial; 1 from 3.925
/// on.
pub(super) fn erf(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    /// Coefficients of `-q(x) / x`.
    const COEFFICIENTS: [f32; 9] = [
        9.256262e-6,
        -0.00011764125,
        0.0006328368,
        -0.0016670274,
        0.00016039601,
        0.019153064,
        -0.10277783,
        -0.6366194,
        -std::f32::consts::FRAC_2_SQRT_PI,
    ];
    let magnitude = o.abs(x);
    let a = o.at_most(3.925, magnitude);
    let a = o.named("a", a);
    let q = o.horner(a, &COEFFICIENTS);
    let y = o.mul(q, a);
    let y = o.named("y", y);
    let e = exp_minus_1(o, y);
    // The sign is set already unless the value is zero; then it is that of `x`.
    let magnitude = o.abs(e);
    o.with_sign(magnitude, x)
}
