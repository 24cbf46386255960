//! Scalar functions that the standard library lacks.

use super::dtype::DType;

/// The error function, within 2 ulp.
///
/// Below 1 a polynomial in `x²`, from there on `1 - exp(-x²) q(s)` with `s = (x - 3) / (x + 3)`, which maps `[1, 6]` to
/// a short interval (the substitution of Shepherd and Laframboise, 1981); from 6 on the result rounds to 1. Both
/// polynomials interpolate at Chebyshev nodes, with errors below 1e-18.
pub(crate) fn erf(x: f64) -> f64 {
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

/// The number of type `dtype` next to `x` in the direction of `y`; `y` where both are equal, NaN where one is.
pub(crate) fn next_after(dtype: DType, x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        return f64::NAN;
    }
    if x == y {
        return y;
    }
    // Numbers of one sign are ordered as their bits are.
    let step = |bits: u64, sign: u64| match (bits & !sign == 0, (y > x) == (bits & sign == 0)) {
        (true, _) => 1 | if y > x { 0 } else { sign },
        (false, true) => bits + 1,
        (false, false) => bits - 1,
    };
    match dtype {
        DType::Float16 => half::f16::from_bits(step(half::f16::from_f64(x).to_bits().into(), 1 << 15) as u16).to_f64(),
        DType::BFloat16 => {
            half::bf16::from_bits(step(half::bf16::from_f64(x).to_bits().into(), 1 << 15) as u16).to_f64()
        }
        DType::Float32 => f32::from_bits(step((x as f32).to_bits().into(), 1 << 31) as u32).into(),
        _ => f64::from_bits(step(x.to_bits(), 1 << 63)),
    }
}

#[cfg(test)]
mod tests {
    use super::{DType, erf, next_after};

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
        // No step where the formulas meet.
        assert!((erf(1.0) - erf(1.0 - f64::EPSILON)).abs() < 4.0 * f64::EPSILON);
    }
}
