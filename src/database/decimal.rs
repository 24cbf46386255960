//! 64-bit hashes as JSON strings, since many readers lose precision in large JSON numbers.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// A number written as a string of decimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Decimal(pub u64);

impl Decimal {
    /// Parses the output of [`Decimal`], and nothing else: no sign, no leading zeros.
    pub(super) fn parse(text: &str) -> Option<Decimal> {
        let canonical = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
        text.parse().ok().filter(|_| canonical).map(Decimal)
    }
}

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Decimal;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a 64-bit number as a text of decimal digits")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Decimal, E> {
                Decimal::parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_str(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_form_reads() {
        for n in [0, 7, u64::MAX] {
            let json = serde_json::to_string(&Decimal(n)).unwrap();
            assert_eq!(json, format!("\"{n}\""));
            assert_eq!(serde_json::from_str::<Decimal>(&json).unwrap(), Decimal(n));
        }
        for bad in ["7", "\"\"", "\"-1\"", "\"+1\"", "\"07\"", "\"18446744073709551616\"", "\"1.5\""] {
            assert!(serde_json::from_str::<Decimal>(bad).is_err(), "{bad}");
        }
    }
}
