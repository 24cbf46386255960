//! Sine, cosine and tangent.
//!
//! A magnitude `a` is reduced to `r` and a quadrant `k`, where `a = k * pi/2 + r` modulo whole turns and `|r| <= pi/4`.
//! There are two methods, and each lane selects the result of one:
//!
//! * below [`LARGE`], `a - k * pi/2` with pi/2 in three parts (Cody and Waite): the first product leaves an exact
//!   difference, the others add at most one rounding each;
//! * from there on, the fraction of `a / (2 pi)` in integers, modulo 2^64 (Payne and Hanek). With `a = m * 2^(8q - 8)`,
//!   `m` of 31 bits, only 96 bits of `2^(8q - 8) / (2 pi)` matter: higher bits are whole turns, lower ones add less
//!   than 2^-64. They are selected by the bits of `q`.
//!
//! The second method is exact enough for all floats: the float closest to a multiple of pi/2 differs from it by 2^-29,
//! and a precision of 2^-58 turns then leaves its leading bits correct.

use super::ops::Ops;
use crate::ir::CmpOp;
use crate::loopir::ExprId;

/// Magnitude from which numbers are reduced by integers.
const LARGE: f32 = 32768.0;

/// The biased exponent of [`LARGE`]: that of `m * 2^-8` for the smallest `m`.
const LARGE_EXPONENT: i32 = 142;

/// The biased exponent of a 24-bit integer whose lowest bit is 1.
const INTEGER_EXPONENT: i32 = 150;

/// Number of fraction bits.
const FRACTION: i32 = 23;

/// pi/2; the parts add up to it within 2^-75.
const HALF_PI: [f32; 3] = [std::f32::consts::FRAC_PI_2, -4.371_139e-8, -1.715_124_5e-15];

/// Adding this puts the nearest integer into the low bits.
const ROUND: f32 = 12_582_912.0;

/// 32-bit words of `1 / (2 pi)`, by `j`: `2^(8j + 24) / (2 pi)` modulo 2^32.
const TURNS: [u32; 23] = [
    0x0028_be60,
    0x28be_60db,
    0xbe60_db93,
    0x60db_9391,
    0xdb93_9105,
    0x9391_054a,
    0x9105_4a7f,
    0x054a_7f09,
    0x4a7f_09d5,
    0x7f09_d5f4,
    0x09d5_f47d,
    0xd5f4_7d4d,
    0xf47d_4d37,
    0x7d4d_3770,
    0x4d37_7036,
    0x3770_36d8,
    0x7036_d8a5,
    0x36d8_a566,
    0xd8a5_664f,
    0xa566_4f10,
    0x664f_10e4,
    0x4f10_e410,
    0x10e4_107f,
];

/// A magnitude reduced by whole quarters of a turn.
struct Reduced {
    /// The remainder in radians; NaN if the input is not finite.
    r: ExprId,
    /// Number of quarters, modulo 4.
    quadrant: ExprId,
}

fn reduced(o: &mut Ops<'_>, x: ExprId) -> Reduced {
    let a = o.abs(x);
    let a = o.named("a", a);
    // Compute the longer one first, while the other occupies no registers.
    let large = reduced_large(o, a);
    let small = reduced_small(o, a);
    let (limit, infinity, nan) = (o.c(LARGE), o.c(f32::INFINITY), o.c(f32::NAN));
    let is_large = o.compare(CmpOp::Ge, a, limit);
    let is_infinite = o.compare(CmpOp::Eq, a, infinity);
    let r = o.select(is_large, large.r, small.r);
    let r = o.select(is_infinite, nan, r);
    let quadrant = o.select(is_large, large.quadrant, small.quadrant);
    Reduced { r: o.named("r", r), quadrant: o.named("k", quadrant) }
}

fn reduced_small(o: &mut Ops<'_>, a: ExprId) -> Reduced {
    let (per_quarter, round) = (o.c(std::f32::consts::FRAC_2_PI), o.c(ROUND));
    let t = o.fma(a, per_quarter, round);
    let t = o.named("t", t);
    let n = o.sub(t, round);
    let n = o.named("n", n);
    let mut r = a;
    for part in HALF_PI {
        let part = o.c(-part);
        r = o.fma(n, part, r);
    }
    Reduced { r, quadrant: o.bits(t) }
}

fn reduced_large(o: &mut Ops<'_>, a: ExprId) -> Reduced {
    let bits = o.bits(a);
    let first = o.i(LARGE_EXPONENT);
    let exponent = o.shift_right(bits, FRACTION);
    let e = o.sub(exponent, first);
    let e = o.named("e", e);

    // m: the fraction with another exponent, as an integer.
    let (seven, least) = (o.i(7), o.i(INTEGER_EXPONENT));
    let shift = o.and(e, seven);
    let new_exponent = o.add(shift, least);
    let new_exponent = o.shift_left(new_exponent, FRACTION);
    let fraction_mask = o.i((1 << FRACTION) - 1);
    let fraction = o.and(bits, fraction_mask);
    let scaled = o.or(fraction, new_exponent);
    let scaled = o.float(scaled);
    let m = o.truncate(scaled);
    let m = o.named("m", m);

    let [v0, v1, v2] = window(o, e);
    let (m_high, m_low) = halves(o, m);
    // Whole turns overflow out of the 32 bits.
    let product = o.mul(m, v0);
    let carried = high_product(o, (m_high, m_low), v1);
    let high = o.add(product, carried);
    let high = o.named("h", high);
    let low = o.mul(m, v1);
    let rest = high_product(o, (m_high, m_low), v2);

    // The nearest quarter, and the remainder in signed units of 2^-32 turns.
    let eighth = o.i(1 << 29);
    let k = o.add(high, eighth);
    let quadrant = o.shift_right(k, 30);
    let quadrant = o.named("q", quadrant);
    let quarters = o.shift_left(quadrant, 30);
    let high = o.sub(high, quarters);
    let high = o.named("h", high);
    // The upper part is exact as a float; the lower part, with further bits, is in units of 2^-58 turns.
    let (half_unit, units) = (o.i(16), o.i(!31));
    let upper = o.add(high, half_unit);
    let upper = o.and(upper, units);
    let upper = o.named("u", upper);
    let lower = o.sub(high, upper);
    let lower = o.shift_left(lower, 26);
    // Two bits stay free for the sum.
    let (low, rest) = (o.shift_right_zeros(low, 4), o.shift_right_zeros(rest, 4));
    let below = o.add(low, rest);
    let below = o.shift_right(below, 2);
    let lower = o.add(lower, below);
    let (upper, lower) = (o.convert(upper), o.convert(lower));
    let (of_upper, of_lower) =
        (o.c(std::f32::consts::TAU / 4_294_967_296.0), o.c(std::f32::consts::TAU / 288_230_376_151_711_744.0));
    let lower = o.mul(lower, of_lower);
    let r = o.fma(upper, of_upper, lower);
    Reduced { r: o.named("r", r), quadrant }
}

/// The three words of [`TURNS`] that matter for `q = e / 8`. Each is selected separately, by one bit of `q` at a time,
/// so that few words are live at once.
fn window(o: &mut Ops<'_>, e: ExprId) -> [ExprId; 3] {
    let zero = o.i(0);
    let conditions = [8, 16, 32, 64].map(|bit| {
        let bit = o.i(bit);
        let bit = o.and(e, bit);
        let bit = o.named("b", bit);
        o.compare(CmpOp::Ne, bit, zero)
    });
    [0, 4, 8].map(|first| {
        let word = word(o, &conditions, first, 1);
        o.named("v", word)
    })
}

/// The word selected by conditions, the first of which distinguishes `step` words.
fn word(o: &mut Ops<'_>, conditions: &[ExprId], first: usize, step: usize) -> ExprId {
    match conditions {
        [] => o.i(TURNS.get(first).map_or(0, |&w| w as i32)),
        [condition, rest @ ..] => {
            let (then, otherwise) = (word(o, rest, first + step, 2 * step), word(o, rest, first, 2 * step));
            o.select(*condition, then, otherwise)
        }
    }
}

/// The upper and the lower 16 bits.
fn halves(o: &mut Ops<'_>, word: ExprId) -> (ExprId, ExprId) {
    let mask = o.i(0xffff);
    let (high, low) = (o.shift_right_zeros(word, 16), o.and(word, mask));
    (o.named("h", high), o.named("l", low))
}

/// The upper 32 bits of a product of unsigned words, the first of which is given in halves.
fn high_product(o: &mut Ops<'_>, (a_high, a_low): (ExprId, ExprId), b: ExprId) -> ExprId {
    let (b_high, b_low) = halves(o, b);
    let mask = o.i(0xffff);
    let lowest = o.mul(a_low, b_low);
    let carry = o.shift_right_zeros(lowest, 16);
    let middle = o.mul(a_high, b_low);
    let middle = o.add(middle, carry);
    let middle = o.named("m", middle);
    let (middle_high, middle_low) = (o.shift_right_zeros(middle, 16), o.and(middle, mask));
    let other = o.mul(a_low, b_high);
    let other = o.add(other, middle_low);
    let other = o.shift_right_zeros(other, 16);
    let highest = o.mul(a_high, b_high);
    let highest = o.add(highest, middle_high);
    let high = o.add(highest, other);
    o.named("p", high)
}

/// Sine and cosine of the remainder.
fn sin_and_cos(o: &mut Ops<'_>, r: ExprId) -> (ExprId, ExprId) {
    /// Coefficients of `(sin r - r) / r^3` in the square of `r`.
    const SIN: [f32; 3] = [-0.000_195_149_58, 0.008_332_158, -0.166_666_55];
    /// Coefficients of `(cos r - 1 + r^2 / 2) / r^4` in the square of `r`.
    const COS: [f32; 3] = [2.443_278_6e-5, -0.001_388_731_3, 0.041_666_646];
    let z = o.mul(r, r);
    let z = o.named("z", z);
    let p = o.horner(z, &SIN);
    let cube = o.mul(z, r);
    let sin = o.fma(p, cube, r);
    let (q, half) = (o.horner(z, &COS), o.c(-0.5));
    let q = o.fma(q, z, half);
    let cos = o.fma_c(q, z, 1.0);
    (o.named("s", sin), o.named("c", cos))
}

/// A bit of an integer, moved to the sign position.
fn sign(o: &mut Ops<'_>, k: ExprId, bit: i32) -> ExprId {
    let mask = o.i(1 << bit);
    let k = o.and(k, mask);
    o.shift_left(k, 31 - bit)
}

/// The sine of the angle, advanced by some quarters of a turn.
fn wave(o: &mut Ops<'_>, reduced: &Reduced, quarters: i32) -> ExprId {
    let (sin, cos) = sin_and_cos(o, reduced.r);
    let (quarters, one, zero) = (o.i(quarters), o.i(1), o.i(0));
    let k = o.add(reduced.quadrant, quarters);
    let k = o.named("k", k);
    let odd = o.and(k, one);
    let is_odd = o.compare(CmpOp::Ne, odd, zero);
    let value = o.select(is_odd, cos, sin);
    let (value, sign) = (o.bits(value), sign(o, k, 1));
    o.xor(value, sign)
}

/// The sign bit of a float.
fn sign_of(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    let (bits, mask) = (o.bits(x), o.i(i32::MIN));
    o.and(bits, mask)
}

/// `sin x`.
pub(super) fn sin(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    let reduced = reduced(o, x);
    let (value, sign) = (wave(o, &reduced, 0), sign_of(o, x));
    let value = o.xor(value, sign);
    o.float(value)
}

/// `cos x`.
pub(super) fn cos(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    let reduced = reduced(o, x);
    let value = wave(o, &reduced, 1);
    o.float(value)
}

/// `tan x`, which is the negated cotangent of the remainder in odd quadrants.
pub(super) fn tan(o: &mut Ops<'_>, x: ExprId) -> ExprId {
    let Reduced { r, quadrant } = reduced(o, x);
    let (sin, cos) = sin_and_cos(o, r);
    let (one, zero) = (o.i(1), o.i(0));
    let odd = o.and(quadrant, one);
    let is_odd = o.compare(CmpOp::Ne, odd, zero);
    let (above, below) = (o.select(is_odd, cos, sin), o.select(is_odd, sin, cos));
    let value = o.div(above, below);
    let value = o.bits(value);
    let (of_quadrant, of_x) = (sign(o, quadrant, 0), sign_of(o, x));
    let value = o.xor(value, of_quadrant);
    let value = o.xor(value, of_x);
    o.float(value)
}
