//! Float literals.

/// A float as TVM prints it: whole numbers with all their digits and `.0`, others with 17 significant digits, as C's
/// `%.17g`. Infinities and NaN are texts, since Python has no literals for them.
pub(super) fn float(v: f64) -> String {
    if v.is_nan() {
        return "\"nan\"".into();
    }
    if v.is_infinite() {
        return if v > 0.0 { "\"inf\"".into() } else { "\"-inf\"".into() };
    }
    if v == v.trunc() {
        return format!("{v:.1}");
    }
    // Rust prints exact digits: one before the point and 16 after it are the 17 significant ones, correctly rounded.
    let scientific = format!("{v:.16e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..17).contains(&exponent) {
        let behind = usize::try_from(16 - exponent).unwrap_or(0);
        let plain = format!("{v:.behind$}");
        return plain.trim_end_matches('0').trim_end_matches('.').to_string();
    }
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::float;

    #[test]
    fn floats_print_as_in_tvm() {
        for (v, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.5, "1.5"),
            (0.1, "0.10000000000000001"),
            (1e-10, "1e-10"),
            (1e-5, "1.0000000000000001e-05"),
            (0.0001, "0.0001"),
            (0.00012345, "0.00012344999999999999"),
            (1e-45, "9.9999999999999998e-46"),
            (1e10, "10000000000.0"),
            (1e22, "10000000000000000000000.0"),
            (1e23, "99999999999999991611392.0"),
            (100000.5, "100000.5"),
            (123456.789, "123456.789"),
            (f32::MIN as f64, "-340282346638528859811704183484516925440.0"),
            (f64::INFINITY, "\"inf\""),
            (f64::NEG_INFINITY, "\"-inf\""),
            (f64::NAN, "\"nan\""),
        ] {
            assert_eq!(float(v), expected);
        }
    }

    #[test]
    fn printed_floats_read_back() {
        for bits in (0..20_000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
            let v = f64::from_bits(bits);
            if v.is_finite() {
                assert_eq!(float(v).parse::<f64>().map(f64::to_bits), Ok(v.to_bits()), "{v:e}");
            }
        }
    }
}
