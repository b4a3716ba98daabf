//! An option with several values, and the short ways to write them. What a value means is `bench`'s.

use serde::{Deserialize, Serialize};

/// The most values of one axis.
const VALUES_MAX: usize = 64;

/// An option of `bench` and what it shall be set to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Axis {
    /// Long name, without leading hyphens.
    pub(crate) option: String,
    /// At least one, none of them twice.
    pub(crate) values: Vec<String>,
}

impl Axis {
    /// An axis of what was typed: `1..16` stands for 1, 2, 4, 8, 16.
    ///
    /// # Errors
    /// The option, and what is wrong with its list.
    pub(crate) fn new(option: &str, typed: &[String]) -> Result<Self, String> {
        let mut values: Vec<String> = Vec::new();
        for value in typed {
            let several = match value.split_once("..") {
                Some((from, to)) => doubling(from, to).map_err(|reason| {
                    format!("--{option} {value}: {reason}; write a number, a list such as 1,8,32, or 1..32")
                })?,
                None => vec![value.trim().to_owned()],
            };
            for value in several {
                if !values.contains(&value) {
                    values.push(value);
                }
            }
        }
        match values.len() {
            0 => Err(format!("--{option} has no value")),
            1..=VALUES_MAX => Ok(Self { option: option.to_owned(), values }),
            count => Err(format!("--{option} has {count} values, and {VALUES_MAX} are the most")),
        }
    }

    /// True if the axis has several values.
    pub(crate) fn varies(&self) -> bool {
        self.values.len() > 1
    }
}

/// From `from` on, each twice the one before, up to `to`, which is always the last.
fn doubling(from: &str, to: &str) -> Result<Vec<String>, String> {
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is not a whole number"));
    let (from, to) = (number(from)?, number(to)?);
    if from == 0 || from > to {
        return Err(format!("{from} to {to} is not a range that can be doubled"));
    }
    let below =
        std::iter::successors(Some(from), |value| value.checked_mul(2)).take_while(|value| *value < to);
    Ok(below.chain([to]).map(|value| value.to_string()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(typed: &str) -> Result<Vec<String>, String> {
        let typed: Vec<String> = typed.split(',').map(str::to_owned).collect();
        Axis::new("iodepth", &typed).map(|axis| axis.values)
    }

    #[test]
    fn lists_and_ranges_are_read() {
        assert_eq!(values("1,8,32").unwrap(), ["1", "8", "32"]);
        assert_eq!(values("1..16").unwrap(), ["1", "2", "4", "8", "16"]);
        assert_eq!(values("3..20").unwrap(), ["3", "6", "12", "20"]);
        assert_eq!(values("4..4,4,8").unwrap(), ["4", "8"]);
        assert_eq!(values("1..2,2..4").unwrap(), ["1", "2", "4"]);
    }

    #[test]
    fn nonsense_is_named_with_what_is_taken() {
        for typed in ["0..4", "8..2", "a..4", "1..", "..", "1..9e9"] {
            let error = values(typed).unwrap_err();
            assert!(error.contains("--iodepth") && error.contains("1,8,32"), "{typed}: {error}");
        }
        // All powers of two, and the end.
        assert!(values("1..18446744073709551615").unwrap_err().contains("65 values"));
    }

    #[test]
    fn there_are_not_too_many() {
        let many: Vec<String> = (0..65).map(|value| value.to_string()).collect();
        assert!(Axis::new("bs", &many).unwrap_err().contains("64 are the most"));
        assert!(Axis::new("bs", &[]).unwrap_err().contains("no value"));
    }
}
