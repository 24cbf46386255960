//! Scalar functions of compiled code, the same in this process and in exported objects.
//!
//! They are those of the crate `libm`, which needs no system library. Functions of `float32` are computed in `float64` and
//! rounded, so that they are nearly always the nearest number. The support code of objects (`export/support`) includes this
//! file, so it uses the core library only.

macro_rules! functions {
    ($($f32:ident $f64:ident ($($x:ident),*) $body:expr;)*) => {
        $(#[cfg_attr(tvmr_support, unsafe(no_mangle))]
          pub(crate) extern "C" fn $f64($($x: f64),*) -> f64 { $body }
          #[cfg_attr(tvmr_support, unsafe(no_mangle))]
          pub(crate) extern "C" fn $f32($($x: f32),*) -> f32 { $f64($(f64::from($x)),*) as f32 })*
    };
}

functions! {
    tvmr_exp_f32 tvmr_exp_f64 (x) libm::exp(x);
    tvmr_exp2_f32 tvmr_exp2_f64 (x) libm::exp2(x);
    tvmr_exp10_f32 tvmr_exp10_f64 (x) libm::pow(10.0, x);
    tvmr_log_f32 tvmr_log_f64 (x) libm::log(x);
    tvmr_log2_f32 tvmr_log2_f64 (x) libm::log2(x);
    tvmr_log10_f32 tvmr_log10_f64 (x) libm::log10(x);
    tvmr_log1p_f32 tvmr_log1p_f64 (x) libm::log1p(x);
    tvmr_tanh_f32 tvmr_tanh_f64 (x) libm::tanh(x);
    tvmr_sin_f32 tvmr_sin_f64 (x) libm::sin(x);
    tvmr_cos_f32 tvmr_cos_f64 (x) libm::cos(x);
    tvmr_tan_f32 tvmr_tan_f64 (x) libm::tan(x);
    tvmr_asin_f32 tvmr_asin_f64 (x) libm::asin(x);
    tvmr_acos_f32 tvmr_acos_f64 (x) libm::acos(x);
    tvmr_atan_f32 tvmr_atan_f64 (x) libm::atan(x);
    tvmr_sinh_f32 tvmr_sinh_f64 (x) libm::sinh(x);
    tvmr_cosh_f32 tvmr_cosh_f64 (x) libm::cosh(x);
    tvmr_asinh_f32 tvmr_asinh_f64 (x) libm::asinh(x);
    tvmr_acosh_f32 tvmr_acosh_f64 (x) acosh(x);
    tvmr_atanh_f32 tvmr_atanh_f64 (x) libm::atanh(x);
    tvmr_erf_f32 tvmr_erf_f64 (x) libm::erf(x);
    tvmr_sigmoid_f32 tvmr_sigmoid_f64 (x) sigmoid(x);
    tvmr_atan2_f32 tvmr_atan2_f64 (y, x) libm::atan2(y, x);
    tvmr_pow_f32 tvmr_pow_f64 (x, y) libm::pow(x, y);
    tvmr_fmod_f32 tvmr_fmod_f64 (x, y) fmod(x, y);
    tvmr_hypot_f32 tvmr_hypot_f64 (x, y) libm::hypot(x, y);
}

/// Inverse hyperbolic cosine. (The crate's is not NaN for all numbers below 1.)
fn acosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

/// 1 / (1 + exp(-x)), from the exponential that does not overflow.
fn sigmoid(x: f64) -> f64 {
    let e = libm::exp(-libm::fabs(x));
    if x < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) }
}

/// The remainder of a division towards zero, exactly: some bits of the quotient at a time. (The crate's needs 128-bit division,
/// which is a call of the compiler's library.)
fn fmod(x: f64, y: f64) -> f64 {
    const FRACTION: u64 = (1 << 52) - 1;
    if x.is_nan() || y.is_nan() || x.is_infinite() || y == 0.0 {
        return f64::NAN;
    }
    // Numbers are `significand * 2^exponent`, up to a common factor.
    let parts = |v: f64| {
        let bits = v.to_bits() & !(1 << 63);
        let exponent = bits >> 52;
        (if exponent == 0 { bits } else { bits & FRACTION | 1 << 52 }, exponent.max(1))
    };
    let ((dividend, exponent), (divisor, least)) = (parts(x), parts(y));
    if exponent < least {
        return x;
    }
    // Without the low bits that are zero in both, as in numbers of `float32`, more bits can be done at once.
    let unused = dividend.trailing_zeros().min(divisor.trailing_zeros());
    let (mut rest, divisor) = (dividend >> unused, divisor >> unused);
    rest %= divisor;
    let mut left = (exponent - least) as u32;
    while left > 0 && rest != 0 {
        // The rest is smaller than the divisor.
        let step = left.min(divisor.leading_zeros());
        rest = (rest << step) % divisor;
        left -= step;
    }
    // `rest * 2^least` as a float: normalised as far as the exponent goes.
    rest <<= unused;
    let up = u64::from(rest.leading_zeros().saturating_sub(11)).min(least - 1);
    let (rest, exponent) = (rest << up, least - up);
    let magnitude = if rest & (1 << 52) == 0 { rest } else { exponent << 52 | rest & FRACTION };
    f64::from_bits(magnitude | x.to_bits() & 1 << 63)
}

/// A binary floating-point format of IEEE 754's kind, narrower than `float64`.
#[derive(Clone, Copy)]
struct Format {
    exponent_bits: u32,
    fraction_bits: u32,
}

const F16: Format = Format { exponent_bits: 5, fraction_bits: 10 };
const BF16: Format = Format { exponent_bits: 8, fraction_bits: 7 };

impl Format {
    const fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    const fn infinity(self) -> u32 {
        ((1 << self.exponent_bits) - 1) << self.fraction_bits
    }

    /// Bits of the nearest number, rounded once, ties to even.
    fn nearest(self, value: f64) -> u32 {
        let bits = value.to_bits();
        let sign = ((bits >> 63) as u32) << (self.exponent_bits + self.fraction_bits);
        if value.is_nan() {
            return sign | self.infinity() | 1 << (self.fraction_bits - 1);
        }
        let exponent = (bits >> 52 & 0x7ff) as i32 - 1023 + self.bias();
        // Subnormal numbers of `float64` are far below the smallest of the format.
        let significand = bits & ((1 << 52) - 1) | 1 << 52;
        let shift = 52 - self.fraction_bits as i32 + (1 - exponent).max(0);
        if shift > 54 {
            return sign;
        }
        let (kept, rest, half) = (significand >> shift, significand & ((1 << shift) - 1), 1u64 << (shift - 1));
        let rounds_up = rest > half || (rest == half && kept & 1 == 1);
        // The leading bit of a normal number adds one to the exponent, and so does a carry.
        let exponent = (exponent - 1).max(0) as u64;
        let magnitude = (exponent << self.fraction_bits) + kept + u64::from(rounds_up);
        sign | magnitude.min(u64::from(self.infinity())) as u32
    }

    /// The number of these bits.
    fn number(self, bits: u32) -> f32 {
        let negative = bits >> (self.exponent_bits + self.fraction_bits) & 1 == 1;
        let fraction = bits & ((1 << self.fraction_bits) - 1);
        let exponent = (bits >> self.fraction_bits & ((1 << self.exponent_bits) - 1)) as i32;
        let magnitude = if bits & self.infinity() == self.infinity() {
            if fraction == 0 { f64::INFINITY } else { f64::NAN }
        } else {
            let significand = if exponent == 0 { fraction } else { fraction | 1 << self.fraction_bits };
            let scale = exponent.max(1) - self.bias() - self.fraction_bits as i32;
            // A power of two between 2^-133 and 2^120.
            f64::from(significand) * f64::from_bits(((scale + 1023) as u64) << 52)
        };
        (if negative { -magnitude } else { magnitude }) as f32
    }

    /// The number of the format next to `x` in the direction of `y`.
    fn next_after(self, x: f32, y: f32) -> f32 {
        if x.is_nan() || y.is_nan() {
            return f32::NAN;
        }
        if x == y {
            return y;
        }
        let sign = 1 << (self.exponent_bits + self.fraction_bits);
        let bits = self.nearest(x.into());
        self.number(neighbour(bits.into(), sign, x.is_sign_negative(), y > x) as u32)
    }
}

/// Bits of the next number: those of one sign are ordered as their bits are.
fn neighbour(bits: u64, sign: u64, is_negative: bool, up: bool) -> u64 {
    if bits & !sign == 0 {
        return 1 | if up { 0 } else { sign };
    }
    if up == is_negative { bits - 1 } else { bits + 1 }
}

/// Conversion of `float64` to `float16` bits, rounded once.
#[cfg_attr(tvmr_support, unsafe(no_mangle))]
pub(crate) extern "C" fn tvmr_f64_to_f16(x: f64) -> u32 {
    F16.nearest(x)
}

/// Conversion of `float64` to `bfloat16` bits, rounded once.
#[cfg_attr(tvmr_support, unsafe(no_mangle))]
pub(crate) extern "C" fn tvmr_f64_to_bf16(x: f64) -> u32 {
    BF16.nearest(x)
}

#[cfg_attr(tvmr_support, unsafe(no_mangle))]
pub(crate) extern "C" fn tvmr_nextafter_f16(x: f32, y: f32) -> f32 {
    F16.next_after(x, y)
}

#[cfg_attr(tvmr_support, unsafe(no_mangle))]
pub(crate) extern "C" fn tvmr_nextafter_bf16(x: f32, y: f32) -> f32 {
    BF16.next_after(x, y)
}

#[cfg_attr(tvmr_support, unsafe(no_mangle))]
pub(crate) extern "C" fn tvmr_nextafter_f32(x: f32, y: f32) -> f32 {
    if x.is_nan() || y.is_nan() {
        return f32::NAN;
    }
    if x == y { y } else { f32::from_bits(neighbour(x.to_bits().into(), 1 << 31, x.is_sign_negative(), y > x) as u32) }
}

#[cfg_attr(tvmr_support, unsafe(no_mangle))]
pub(crate) extern "C" fn tvmr_nextafter_f64(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        return f64::NAN;
    }
    if x == y { y } else { f64::from_bits(neighbour(x.to_bits(), 1 << 63, x.is_sign_negative(), y > x)) }
}

#[cfg(all(test, not(tvmr_support)))]
mod tests {
    use super::*;
    use crate::ir::DType;
    use crate::ir::scalar::math::next_after;
    use crate::ir::scalar::round::{to_bf16, to_f16};

    /// Numbers of all sizes, from a simple generator, and the special ones.
    fn numbers() -> Vec<f64> {
        let mut all = vec![
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            2.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            f64::MIN_POSITIVE,
            f64::MAX,
        ];
        all.extend([
            65504.0,
            65519.9,
            65520.0,
            2f64.powi(-24),
            2f64.powi(-25),
            3.5e38,
            1e-40,
            1.0 + 2f64.powi(-11),
            f64::from_bits(1),
        ]);
        let mut state = 1u64;
        for _ in 0..2000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let magnitude = 2f64.powi((state >> 58) as i32 - 32);
            all.push((f64::from((state >> 20) as u32) / 2f64.powi(31) - 1.0) * magnitude);
        }
        all
    }

    #[test]
    fn halves_are_rounded_as_elsewhere() {
        for x in numbers() {
            let (f16, bf16) = (tvmr_f64_to_f16(x), tvmr_f64_to_bf16(x));
            assert!(f16 == u32::from(to_f16(x).to_bits()) || x.is_nan(), "{x}: {f16:#x}");
            assert!(bf16 == u32::from(to_bf16(x).to_bits()) || x.is_nan(), "{x}: {bf16:#x}");
            assert!(!x.is_nan() || half::f16::from_bits(f16 as u16).is_nan());
        }
    }

    #[test]
    fn bits_of_halves_are_read_back() {
        for bits in 0..=u16::MAX {
            let (a, b) = (F16.number(bits.into()), half::f16::from_bits(bits).to_f32());
            assert!(a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(), "{bits:#x}");
            let (a, b) = (BF16.number(bits.into()), half::bf16::from_bits(bits).to_f32());
            assert!(a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(), "{bits:#x}");
        }
    }

    #[test]
    fn remainders_are_exact() {
        let numbers = numbers();
        let mut n = 0;
        for (i, &x) in numbers.iter().enumerate() {
            for &y in numbers.iter().skip(i % 7).step_by(31) {
                let (found, expected) = (fmod(x, y), x % y);
                assert!(
                    found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(),
                    "{x} % {y}: {found}"
                );
                n += 1;
            }
        }
        assert!(n > 10_000);
    }

    #[test]
    fn neighbours_are_those_of_the_type() {
        for x in numbers() {
            for y in [f64::INFINITY, f64::NEG_INFINITY, x, 0.0] {
                let same = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan();
                assert!(same(tvmr_nextafter_f64(x, y), next_after(DType::Float64, x, y)), "{x} to {y}");
                for (dtype, f) in [
                    (DType::Float32, tvmr_nextafter_f32 as extern "C" fn(f32, f32) -> f32),
                    (DType::Float16, tvmr_nextafter_f16),
                    (DType::BFloat16, tvmr_nextafter_bf16),
                ] {
                    let (x, y) = (dtype.round(x), dtype.round(y));
                    let found = f(x as f32, y as f32);
                    assert!(same(found.into(), next_after(dtype, x, y)), "{dtype}: {x} to {y}: {found}");
                }
            }
        }
    }

    #[test]
    fn functions_are_close_to_those_of_the_standard_library() {
        type Pair = (extern "C" fn(f64) -> f64, fn(f64) -> f64);
        let pairs: [Pair; 17] = [
            (tvmr_exp_f64, f64::exp),
            (tvmr_exp2_f64, f64::exp2),
            (tvmr_log_f64, f64::ln),
            (tvmr_log2_f64, f64::log2),
            (tvmr_log10_f64, f64::log10),
            (tvmr_log1p_f64, f64::ln_1p),
            (tvmr_tanh_f64, f64::tanh),
            (tvmr_sin_f64, f64::sin),
            (tvmr_cos_f64, f64::cos),
            (tvmr_tan_f64, f64::tan),
            (tvmr_asin_f64, f64::asin),
            (tvmr_acos_f64, f64::acos),
            (tvmr_atan_f64, f64::atan),
            (tvmr_sinh_f64, f64::sinh),
            (tvmr_cosh_f64, f64::cosh),
            (tvmr_erf_f64, crate::ir::scalar::math::erf),
            (tvmr_sigmoid_f64, crate::ir::scalar::math::sigmoid),
        ];
        for (i, (ours, theirs)) in pairs.into_iter().enumerate() {
            for x in numbers() {
                let (a, b) = (ours(x), theirs(x));
                let close = a == b || (a - b).abs() <= 4.0 * f64::EPSILON * b.abs() || a.is_nan() && b.is_nan();
                assert!(close, "function {i} of {x}: {a} and {b}");
            }
        }
    }
}
