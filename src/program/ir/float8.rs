//! Floats of 8 bits.
//!
//! All but [`Float8::E8M0FNU`] have a sign, an exponent and a mantissa, and subnormal numbers where the exponent is 0.
//! They differ in the widths of these fields, the bias and the special values. The names are those of TVM (and
//! `ml_dtypes`): `fn` has no infinity and one NaN of each sign; `uz` has no negative zero, whose encoding is its only
//! NaN.
//!
//! Conversions round to nearest, ties to even, from the value as `float32`. Overflow gives infinity, or NaN in types
//! without infinity.

/// A type of 8 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "each variant is the type it names")]
pub enum Float8 {
    E3M4,
    E4M3,
    E4M3B11FNUZ,
    E4M3FN,
    E4M3FNUZ,
    E5M2,
    E5M2FNUZ,
    /// A power of two, from 2^-127 to 2^127, or NaN: the scale of a block of numbers.
    E8M0FNU,
}

/// The encodings of values that are not finite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Specials {
    /// The largest exponent: infinity, or NaN if the mantissa is not 0.
    Ieee,
    /// All bits of exponent and mantissa set: NaN.
    Nan,
    /// The encoding of negative zero: NaN.
    NanForNegativeZero,
}

impl Float8 {
    /// All types.
    pub const ALL: [Float8; 8] = [
        Float8::E3M4,
        Float8::E4M3,
        Float8::E4M3B11FNUZ,
        Float8::E4M3FN,
        Float8::E4M3FNUZ,
        Float8::E5M2,
        Float8::E5M2FNUZ,
        Float8::E8M0FNU,
    ];

    /// The name as TVMScript writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Float8::E3M4 => "float8_e3m4",
            Float8::E4M3 => "float8_e4m3",
            Float8::E4M3B11FNUZ => "float8_e4m3b11fnuz",
            Float8::E4M3FN => "float8_e4m3fn",
            Float8::E4M3FNUZ => "float8_e4m3fnuz",
            Float8::E5M2 => "float8_e5m2",
            Float8::E5M2FNUZ => "float8_e5m2fnuz",
            Float8::E8M0FNU => "float8_e8m0fnu",
        }
    }

    /// The number of bits of the mantissa.
    pub fn mantissa_bits(self) -> u32 {
        match self {
            Float8::E3M4 => 4,
            Float8::E4M3 | Float8::E4M3B11FNUZ | Float8::E4M3FN | Float8::E4M3FNUZ => 3,
            Float8::E5M2 | Float8::E5M2FNUZ => 2,
            Float8::E8M0FNU => 0,
        }
    }

    /// The bias of the exponent.
    pub fn bias(self) -> i32 {
        match self {
            Float8::E3M4 => 3,
            Float8::E4M3 | Float8::E4M3FN => 7,
            Float8::E4M3B11FNUZ => 11,
            Float8::E4M3FNUZ => 8,
            Float8::E5M2 => 15,
            Float8::E5M2FNUZ => 16,
            Float8::E8M0FNU => 127,
        }
    }

    /// The encodings of values that are not finite.
    pub fn specials(self) -> Specials {
        match self {
            Float8::E3M4 | Float8::E4M3 | Float8::E5M2 => Specials::Ieee,
            Float8::E4M3FN | Float8::E8M0FNU => Specials::Nan,
            Float8::E4M3B11FNUZ | Float8::E4M3FNUZ | Float8::E5M2FNUZ => Specials::NanForNegativeZero,
        }
    }

    /// The bits of the largest finite number.
    pub fn largest(self) -> u8 {
        match (self, self.specials()) {
            (Float8::E8M0FNU, _) => 0xfe,
            (_, Specials::Ieee) => (0x7f >> self.mantissa_bits() << self.mantissa_bits()) - 1,
            (_, Specials::Nan) => 0x7e,
            (_, Specials::NanForNegativeZero) => 0x7f,
        }
    }

    /// The result of overflow: the bits of infinity, or of NaN in types without infinity.
    pub fn too_large(self) -> u8 {
        match (self, self.specials()) {
            (_, Specials::Ieee) => self.largest() + 1,
            _ => self.nan(),
        }
    }

    /// The bits of NaN.
    pub fn nan(self) -> u8 {
        match (self, self.specials()) {
            (Float8::E8M0FNU, _) => 0xff,
            (_, Specials::Ieee) => self.largest() + 1 + (1 << (self.mantissa_bits() - 1)),
            (_, Specials::Nan) => 0x7f,
            (_, Specials::NanForNegativeZero) => 0x80,
        }
    }

    /// The number with these bits.
    pub fn decode(self, bits: u8) -> f64 {
        if self == Float8::E8M0FNU {
            return if bits == 0xff { f64::NAN } else { 2f64.powi(i32::from(bits) - 127) };
        }
        let (sign, magnitude) = (if bits & 0x80 == 0 { 1.0 } else { -1.0 }, bits & 0x7f);
        let special = match self.specials() {
            Specials::Ieee if magnitude > self.largest() => {
                Some(if magnitude == self.largest() + 1 { f64::INFINITY } else { f64::NAN })
            }
            Specials::Nan if magnitude == 0x7f => Some(f64::NAN),
            Specials::NanForNegativeZero if bits == 0x80 => Some(f64::NAN),
            _ => None,
        };
        sign * special.unwrap_or_else(|| self.magnitude(magnitude))
    }

    /// The number with these bits, if no encoding were special.
    fn magnitude(self, bits: u8) -> f64 {
        let m = self.mantissa_bits();
        let (exponent, mantissa) = (i32::from(bits >> m), f64::from(bits & ((1 << m) - 1)));
        let scale = 2f64.powi(exponent.max(1) - self.bias() - m as i32);
        if exponent == 0 { mantissa * scale } else { (mantissa + f64::from(1 << m)) * scale }
    }

    /// The bits of the nearest number.
    pub fn encode(self, value: f64) -> u8 {
        let value = f64::from(value as f32);
        if value.is_nan() {
            return self.nan();
        }
        if self == Float8::E8M0FNU {
            return self.encode_power(value);
        }
        let magnitude = value.abs();
        // Find the largest code whose number does not exceed the value; numbers grow with their codes.
        let codes = self.largest();
        let (mut below, mut above) = (0, codes + 1);
        while above - below > 1 {
            let middle = below + (above - below) / 2;
            *(if self.magnitude(middle) <= magnitude { &mut below } else { &mut above }) = middle;
        }
        let (lo, hi) = (self.magnitude(below), self.above(below));
        let up = magnitude - lo > hi - magnitude || (magnitude - lo == hi - magnitude && below & 1 == 1);
        let code = if up { below + 1 } else { below };
        let sign = if value.is_sign_negative() { 0x80 } else { 0 };
        if code > codes || magnitude.is_infinite() {
            return self.too_large() | if self.specials() == Specials::NanForNegativeZero { 0 } else { sign };
        }
        if code == 0 && self.specials() == Specials::NanForNegativeZero { 0 } else { code | sign }
    }

    /// The number that would follow, even beyond the range of the type.
    fn above(self, code: u8) -> f64 {
        let m = self.mantissa_bits();
        let exponent = i32::from(code >> m).max(1);
        self.magnitude(code) + 2f64.powi(exponent - self.bias() - m as i32)
    }

    /// The nearest power of two; NaN if the value is not positive.
    fn encode_power(self, value: f64) -> u8 {
        if value <= 0.0 || value.is_infinite() {
            return 0xff;
        }
        let exponent = (value.log2().floor() as i32).clamp(-127, 127);
        let lo = 2f64.powi(exponent);
        // Ties round up to the next power.
        let up = value >= 1.5 * lo;
        u8::try_from((exponent + 127 + i32::from(up)).clamp(0, 255)).unwrap_or(0xff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_stay_through_numbers() {
        for t in Float8::ALL {
            for bits in 0..=255u8 {
                let v = t.decode(bits);
                if v.is_nan() {
                    assert!(t.decode(t.encode(v)).is_nan(), "{} {bits:#x}", t.name());
                } else {
                    assert_eq!(t.encode(v), bits, "{} {bits:#x} is {v}", t.name());
                }
            }
        }
    }

    #[test]
    fn known_numbers() {
        for (t, bits, value) in [
            (Float8::E4M3FN, 0x7e, 448.0),
            (Float8::E4M3FN, 0x01, 1.0 / 512.0),
            (Float8::E4M3FN, 0x38, 1.0),
            (Float8::E5M2, 0x7b, 57344.0),
            (Float8::E5M2, 0x7c, f64::INFINITY),
            (Float8::E5M2, 0xbc, -1.0),
            (Float8::E4M3, 0x77, 240.0),
            (Float8::E3M4, 0x6f, 15.5),
            (Float8::E4M3B11FNUZ, 0x7f, 30.0),
            (Float8::E4M3FNUZ, 0x7f, 240.0),
            (Float8::E5M2FNUZ, 0x7f, 57344.0),
            (Float8::E8M0FNU, 0x7f, 1.0),
        ] {
            assert_eq!(t.decode(bits), value, "{}", t.name());
        }
        assert_eq!(Float8::E4M3FN.encode(464.0), 0x7e, "a tie goes to the even number");
        assert_eq!(Float8::E4M3FN.encode(465.0), 0x7f, "there is no infinity");
        assert_eq!(Float8::E5M2.encode(61440.0), 0x7c);
        assert_eq!(Float8::E4M3FNUZ.encode(-0.0), 0);
        for (value, bits) in [(3.0, 0x81), (0.75, 0x7f), (1.4, 0x7f), (0.0, 0xff), (2f64.powi(-130), 0x00)] {
            assert_eq!(Float8::E8M0FNU.encode(value), bits, "{value}");
        }
    }
}
