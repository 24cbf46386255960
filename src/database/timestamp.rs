//! Timestamps of records.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// Seconds since 1970-01-01T00:00:00Z, written as `2026-03-01T12:00:00Z`. The database reads no clock: callers pass the
/// time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp(pub u64);

const DAY: u64 = 86_400;
/// The last second of the year 9999, after which the text form would be longer.
const LAST: u64 = 253_402_300_799;

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.min(LAST);
        let (days, rest) = (seconds / DAY, seconds % DAY);
        let (year, month, day) = civil(days);
        let (h, m, s) = (rest / 3600, rest / 60 % 60, rest % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}Z")
    }
}

impl Timestamp {
    /// Parses a text of the form `2026-03-01T12:00:00Z`.
    pub fn parse(text: &str) -> Option<Timestamp> {
        let bytes = text.as_bytes();
        let fixed = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'Z')];
        if bytes.len() != 20 || fixed.iter().any(|&(i, c)| bytes[i] != c) {
            return None;
        }
        let number = |from: usize, to: usize| -> Option<u64> {
            let digits = &bytes[from..to];
            digits.iter().all(u8::is_ascii_digit).then(|| digits.iter().fold(0, |n, d| n * 10 + u64::from(d - b'0')))
        };
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (h, m, s) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        if !(1..=12).contains(&month) || h > 23 || m > 59 || s > 59 {
            return None;
        }
        let days = days_from_civil(year, month, day)?;
        // An invalid day such as February 30 maps to another date.
        (civil(days) == (year, month, day)).then_some(Timestamp(days * DAY + h * 3600 + m * 60 + s))
    }
}

/// Converts days since 1970-01-01 to year, month and day, by the 400-year cycle of the calendar counted from March, so
/// that the leap day comes last.
fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// The inverse of [`civil`]; `None` before 1970.
fn days_from_civil(year: u64, month: u64, day: u64) -> Option<u64> {
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day.checked_sub(1)?;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * 146_097 + day_of_era).checked_sub(719_468)
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Timestamp::parse(&text).ok_or_else(|| {
            de::Error::invalid_value(de::Unexpected::Str(&text), &"a time such as `2026-03-01T12:00:00Z`")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_772_366_400, "2026-03-01T12:00:00Z"),
            (LAST, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(Timestamp(seconds).to_string(), text);
            assert_eq!(Timestamp::parse(text), Some(Timestamp(seconds)));
        }
    }

    #[test]
    fn every_day_for_a_cycle_reads_back() {
        for day in (0..146_097 + 400).step_by(1) {
            let t = Timestamp(day * DAY + day % DAY);
            assert_eq!(Timestamp::parse(&t.to_string()), Some(t));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "2026-02-30T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "1969-12-31T23:59:59Z",
            "2026-01-01 00:00:00Z",
            "２０26-01-01T00:0Z",
            "0000-00-00T00:00:00Z",
            "2026-01-00T00:00:00Z",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }
}
