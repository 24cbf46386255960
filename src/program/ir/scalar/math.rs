//! Scalar functions that the standard library lacks.

use super::bits::{bits_of, value_of};
use crate::ir::dtype::DType;
use crate::ir::expr::Const;
use crate::ir::float8::{Float8, Specials};

/// The error function, within 2 ulp.
///
/// Below 1 a polynomial in `x²`, from 1 to 6 `1 - exp(-x²) q(s)` with `s = (x - 3) / (x + 3)`, which maps `[1, 6]` to a
/// short interval (the substitution of Shepherd and Laframboise, 1981); from 6 on the result rounds to 1. Both
/// polynomials interpolate at Chebyshev nodes, with errors below 1e-18.
pub fn erf(x: f64) -> f64 {
    const P: [f64; 13] = [
        std::f64::consts::FRAC_2_SQRT_PI,
        -0.3761263890318375,
        0.11283791670954879,
        -0.026866170645076792,
        0.0052239776248180145,
        -0.000854832698083379,
        0.0001205533111164271,
        -1.4925595266831182e-05,
        1.6461000484121368e-06,
        -1.6350312701054695e-07,
        1.4659775274047436e-08,
        -1.1372848856791674e-09,
        5.957176147748911e-11,
    ];
    const Q: [f64; 17] = [
        0.17900115118138996,
        -0.3262335600430372,
        0.24560380171233093,
        -0.15011593650077582,
        0.07166583719797331,
        -0.024392499318790735,
        0.004269136333077869,
        0.0007077464435611972,
        -0.0005970619531815352,
        4.525520140579536e-05,
        6.405657794051666e-05,
        -1.2859347351455289e-05,
        -7.977696579644072e-06,
        2.1124428949403864e-06,
        1.2459620847174093e-06,
        -2.6915157592850126e-07,
        -2.035557564220086e-07,
    ];
    let a = x.abs();
    if a < 1.0 {
        x * horner(&P, x * x)
    } else if a < 6.0 {
        (1.0 - (-a * a).exp() * horner(&Q, (a - 3.0) / (a + 3.0))).copysign(x)
    } else if x.is_nan() {
        x
    } else {
        1f64.copysign(x)
    }
}

fn horner(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, &c| sum * x + c)
}

/// 10 to the power of `x`.
pub fn exp10(x: f64) -> f64 {
    // The formula `exp(x * ln(10))` would multiply the rounding error of the product by `x`.
    10f64.powf(x)
}

/// 1 / (1 + exp(-x)), computed with the exponential that does not overflow.
pub fn sigmoid(x: f64) -> f64 {
    let e = (-x.abs()).exp();
    if x < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) }
}

/// From here on the square root of `x² ± 1` rounds to `x`.
const LARGE: f64 = 268_435_456.0;

/// Inverse hyperbolic sine. (The standard library returns infinity for the largest numbers.)
pub fn asinh(x: f64) -> f64 {
    if x.abs() > LARGE && x.is_finite() {
        return (x.abs().ln() + std::f64::consts::LN_2).copysign(x);
    }
    x.asinh()
}

/// Inverse hyperbolic cosine. (The standard library loses digits near 1 and returns infinity for the largest numbers.)
pub fn acosh(x: f64) -> f64 {
    if x < 1.0 {
        return f64::NAN;
    }
    if x > LARGE {
        return x.ln() + std::f64::consts::LN_2;
    }
    let t = x - 1.0;
    (t + (2.0 * t + t * t).sqrt()).ln_1p()
}

/// Inverse hyperbolic tangent. (The standard library loses digits near -1.)
pub fn atanh(x: f64) -> f64 {
    let a = x.abs();
    (0.5 * (2.0 * a / (1.0 - a)).ln_1p()).copysign(x)
}

/// The number of type `dtype` next to `x` in the direction of `y`; `y` if both are equal, NaN if one of them is.
pub fn next_after(dtype: DType, x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        return f64::NAN;
    }
    if x == y {
        return y;
    }
    let bits = bits_of(dtype, Const::Float(x));
    if dtype == DType::Float8(Float8::E8M0FNU) {
        return value_of(dtype, if y > x { bits + 1 } else { bits - 1 }).as_f64();
    }
    // Numbers of the same sign are ordered like their bits.
    let sign = 1 << (dtype.bits() - 1);
    let mut next = match (bits & !sign == 0, (y > x) == (bits & sign == 0)) {
        (true, _) => 1 | if y > x { 0 } else { sign },
        (false, true) => bits + 1,
        (false, false) => bits - 1,
    };
    if let DType::Float8(t) = dtype
        && t.specials() == Specials::NanForNegativeZero
        && next == sign
    {
        next = 0;
    }
    value_of(dtype, next).as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverse_hyperbolic_functions_are_within_four_ulp() {
        type Function = fn(f64) -> f64;
        // Computed with 60 digits.
        let known: [(Function, f64, f64); 12] = [
            (asinh, 0.5, 0.48121182505960347),
            (asinh, -3.0, -1.8184464592320668),
            (asinh, 1000000000.0, 21.416413017506358),
            (asinh, 1.7e+308, 710.4199840737882),
            (acosh, 1.0000001, 0.0004472135919037347),
            (acosh, 1.5, 0.9624236501192069),
            (acosh, 1000000000.0, 21.416413017506358),
            (acosh, 1.7e+308, 710.4199840737882),
            (atanh, 0.5, 0.5493061443340549),
            (atanh, -0.9, -1.4722194895832204),
            (atanh, -0.9999999, -8.40562139102231),
            (atanh, 0.9999999, 8.40562139102231),
        ];
        for (f, x, y) in known {
            assert!((f(x) - y).abs() <= 4.0 * f64::EPSILON * y.abs(), "of {x}: {y}, found {}", f(x));
        }
        assert!(acosh(0.5).is_nan() && acosh(-2.0).is_nan() && atanh(1.5).is_nan());
        assert_eq!((acosh(1.0), atanh(1.0), asinh(f64::NEG_INFINITY)), (0.0, f64::INFINITY, f64::NEG_INFINITY));
        assert_eq!((asinh(-0.0).to_bits(), atanh(-0.0).to_bits()), ((-0.0f64).to_bits(), (-0.0f64).to_bits()));
    }

    #[test]
    fn powers_of_ten_are_exact() {
        for n in 0..=22 {
            assert_eq!(exp10(f64::from(n)), format!("1e{n}").parse::<f64>().expect("a number"));
        }
    }

    #[test]
    fn neighbours_in_eight_bits() {
        let next = |t, x, y| next_after(DType::Float8(t), x, y);
        assert_eq!(next(Float8::E4M3FN, 1.0, 2.0), 1.125);
        assert_eq!(next(Float8::E4M3FN, 448.0, -1.0), 416.0);
        assert_eq!(next(Float8::E5M2, 57344.0, f64::INFINITY), f64::INFINITY);
        assert_eq!(next(Float8::E8M0FNU, 1.0, 4.0), 2.0);
        let least = Float8::E5M2FNUZ.decode(1);
        assert_eq!(next(Float8::E5M2FNUZ, 0.0, -1.0), -least);
        assert_eq!(next(Float8::E5M2FNUZ, -least, 1.0).to_bits(), 0f64.to_bits(), "there is no negative zero");
        for t in Float8::ALL {
            let mut numbers: Vec<f64> = (0..=255).map(|b| t.decode(b)).filter(|v| !v.is_nan()).collect();
            numbers.sort_by(f64::total_cmp);
            numbers.dedup_by(|a, b| a == b);
            for pair in numbers.windows(2) {
                assert_eq!((next(t, pair[0], pair[1]), next(t, pair[1], pair[0])), (pair[1], pair[0]), "{}", t.name());
            }
        }
    }

    #[test]
    fn neighbours() {
        let tiny = f64::from(f32::from_bits(1));
        for (x, y, expected) in [
            (0.0, 1.0, tiny),
            (-0.0, 1.0, tiny),
            (0.0, -1.0, -tiny),
            (tiny, 0.0, 0.0),
            (-tiny, 0.0, -0.0),
            (1.0, 2.0, f64::from(1.0 + f32::EPSILON)),
            (1.0, f64::NEG_INFINITY, f64::from(1.0 - f32::EPSILON / 2.0)),
            (-1.0, 2.0, f64::from(-1.0 + f32::EPSILON / 2.0)),
            (f64::from(f32::MAX), f64::INFINITY, f64::INFINITY),
            (f64::INFINITY, 0.0, f64::from(f32::MAX)),
            (0.0, -0.0, -0.0),
        ] {
            let found = next_after(DType::Float32, x, y);
            assert_eq!(found.to_bits(), expected.to_bits(), "from {x} to {y}: {found}");
        }
        assert!(next_after(DType::Float32, f64::NAN, 1.0).is_nan());
        assert_eq!(next_after(DType::Float64, 1.0, 2.0), 1.0 + f64::EPSILON);
        assert_eq!(next_after(DType::Float16, 1.0, 2.0), 1.0 + 1.0 / 1024.0);
        assert_eq!(next_after(DType::BFloat16, 1.0, 0.0), 1.0 - 1.0 / 256.0);
    }

    #[test]
    fn erf_is_within_two_ulp() {
        let known = [
            (0.1, 0.1124629160182849),
            (0.5, 0.5204998778130465),
            (0.99, 0.8385080695553698),
            (1.0, 0.8427007929497149),
            (1.5, 0.9661051464753108),
            (2.0, 0.9953222650189527),
            (3.0, 0.9999779095030014),
            (4.5, 0.9999999998033839),
            (5.9, 0.9999999999999999),
            (6.0, 1.0),
            (1e300, 1.0),
        ];
        for (x, y) in known {
            assert!((erf(x) - y).abs() <= 2.0 * f64::EPSILON * y, "erf({x}) is {y}, found {}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
        assert_eq!(erf(0.0), 0.0);
        assert_eq!(erf(f64::NEG_INFINITY), -1.0);
        assert!(erf(f64::NAN).is_nan());
        // The result does not jump where the formulas meet.
        assert!((erf(1.0) - erf(1.0 - f64::EPSILON)).abs() < 4.0 * f64::EPSILON);
    }
}
