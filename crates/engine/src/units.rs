//! Sizes and times as fio writes them: `4k`, `16m`, `1g`; `10`, `500ms`, `2m`. It keeps no unit after parsing:
//! bytes and durations come out.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// Text that is not a size or a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Text that is not a number of bytes, with or without a unit.
    #[error("`{0}` is not a size: write 4096, 4k, 16m, 1g or 1GiB")]
    Size(String),
    /// Size of more bytes than 64 bits count.
    #[error("`{0}` is more than 16 EiB")]
    SizeMax(String),
    /// Text that is not a time, with or without a unit.
    #[error("`{0}` is not a time: write 10, 10s, 500ms or 2m")]
    Time(String),
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

const UNITS: [(&str, u32); 5] = [("k", 10), ("m", 20), ("g", 30), ("t", 40), ("p", 50)];

impl FromStr for Size {
    type Err = QuantityError;

    /// Units count in 1,024s however they are spelled: `k`, `kb`, `Ki` and `KiB` are the same. (fio takes `kib` for 1,000s.) A
    /// fraction of a unit, such as `1.5t`, has to be a whole number of bytes.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let text = text.trim();
        let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let (number, unit) = text.split_at(digits);
        let hint = || QuantityError::Size(text.to_owned());
        let (whole, fraction) = match number.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (number, None),
        };
        let whole: u64 = whole.parse().map_err(|_| hint())?;
        let unit = unit.trim().to_ascii_lowercase();
        let unit = unit.strip_suffix('b').unwrap_or(&unit);
        let unit = unit.strip_suffix('i').filter(|letter| !letter.is_empty()).unwrap_or(unit);
        let shift = if unit.is_empty() {
            0
        } else {
            UNITS.iter().find(|(name, _)| *name == unit).map(|(_, shift)| *shift).ok_or_else(hint)?
        };
        let bytes = whole.checked_shl(shift).filter(|bytes| bytes >> shift == whole);
        let bytes = bytes.ok_or_else(|| QuantityError::SizeMax(text.to_owned()))?;
        // Less than one unit, whose bits are free in the whole ones.
        let rest = fraction.map_or(Some(0), |fraction| fraction_of(shift, fraction)).ok_or_else(hint)?;
        Ok(Size(bytes | rest))
    }
}

/// Bytes in a decimal fraction of a unit, if that is a whole number of them.
fn fraction_of(shift: u32, fraction: &str) -> Option<u64> {
    const DIGITS_MAX: usize = 18;
    if fraction.is_empty() || fraction.len() > DIGITS_MAX || shift == 0 {
        return None;
    }
    let numerator: u128 = fraction.parse::<u64>().ok()?.into();
    let denominator = 10u128.pow(fraction.len() as u32);
    let bytes = numerator << shift;
    bytes.is_multiple_of(denominator).then(|| (bytes / denominator) as u64)
}

impl schemars::JsonSchema for Size {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "Bytes, as a number or as text such as 10g, where units count in 1,024s",
            "oneOf": [{ "type": "integer", "minimum": 0 }, { "type": "string" }],
        })
    }
}

impl fmt::Display for Size {
    /// In the largest unit that keeps it exact, or with two decimals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(&str, u32); 5] = [("PiB", 50), ("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        for (name, shift) in NAMES {
            let unit = 1u64 << shift;
            if self.0 >= unit {
                return if self.0.is_multiple_of(unit) {
                    write!(f, "{} {name}", self.0 / unit)
                } else {
                    write!(f, "{:.2} {name}", self.0 as f64 / unit as f64)
                };
            }
        }
        f.write_str(&counted(self.0, "byte"))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SizeVisitor;
        impl Visitor<'_> for SizeVisitor {
            type Value = Size;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"1g\" or a number of bytes")
            }

            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Size, E> {
                u64::try_from(bytes).map(Size).map_err(|_| E::custom("a size cannot be negative"))
            }

            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<Size, E> {
                Ok(Size(bytes))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(SizeVisitor)
    }
}

/// A number of things in words: `1 byte`, `2 bytes`.
pub fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Reads a field in bytes that is written as a size.
pub(crate) fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Size::deserialize(deserializer).map(|size| size.0)
}

/// The same for one that may be left out, or null.
pub(crate) fn optional_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Option::<Size>::deserialize(deserializer).map(|size| size.map(|size| size.0))
}

/// Parses a time: seconds without a unit, else `us`, `ms`, `s`, `m`, `h` or `d`.
///
/// # Errors
/// `QuantityError::Time`, which says how times are written.
pub fn parse_time(text: &str) -> Result<Duration, QuantityError> {
    let hint = || QuantityError::Time(text.to_owned());
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| hint())?;
    let seconds = match unit {
        "" | "s" => 1.0,
        "us" => 1e-6,
        "ms" => 1e-3,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(hint()),
    };
    Duration::try_from_secs_f64(number * seconds).map_err(|_| hint())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_fio_reads_them() {
        let cases = [
            ("512", 512),
            ("4k", 4096),
            ("4K", 4096),
            ("4kb", 4096),
            ("4KiB", 4096),
            ("16m", 16 << 20),
            ("1 GiB", 1 << 30),
            ("2t", 2 << 40),
            ("0", 0),
            ("100b", 100),
            ("10Gi", 10 << 30),
            ("1.5T", 3 << 39),
            ("0.5 KiB", 512),
            ("2.250m", 9 << 18),
        ];
        for (text, bytes) in cases {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            "k",
            "4x",
            "-1",
            "99999999999t",
            "4 kk",
            "4ib4",
            "4i",
            "4ib",
            "1.1g",
            "1.5",
            "1.g",
            ".5g",
            "1.2.5g",
            "1.+5g",
        ] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_refusal_says_how_quantities_are_written() {
        let size = |text: &str| text.parse::<Size>().map(drop);
        let time = |text: &str| parse_time(text).map(drop);
        for (refused, said) in [
            (size("4x"), "`4x` is not a size: write 4096, 4k, 16m, 1g or 1GiB"),
            (size("99999999999t"), "`99999999999t` is more than 16 EiB"),
            (time("10x"), "`10x` is not a time: write 10, 10s, 500ms or 2m"),
        ] {
            assert_eq!(refused.unwrap_err().to_string(), said);
        }
    }

    #[test]
    fn a_size_survives_being_shown() {
        for bytes in [0, 1, 512, 4096, 5 << 20, 256 << 20, 3 << 40] {
            let shown = Size(bytes).to_string();
            assert_eq!(shown.replace(" bytes", "").replace(" byte", "").parse(), Ok(Size(bytes)), "{shown}");
        }
        assert_eq!(
            [Size(0), Size(1), Size(2)].map(|size| size.to_string()),
            ["0 bytes", "1 byte", "2 bytes"]
        );
        assert_eq!(Size(1_500_000).to_string(), "1.43 MiB");
    }

    #[test]
    fn times_have_units() {
        assert_eq!(parse_time("10"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_time("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_time("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_time("2m"), Ok(Duration::from_secs(120)));
        for text in ["", "s", "-1", "10x", "1e400", "1..2"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }
}
