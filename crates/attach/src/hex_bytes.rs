//! Bytes in what is handed over, as text: two digits for each.

use serde::de::{Deserialize as _, Deserializer, Error as _};
use serde::ser::Serializer;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Writes them.
pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    let digits = |byte: &u8| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    let text: String = bytes.iter().flat_map(digits).map(char::from).collect();
    serializer.serialize_str(&text)
}

/// Reads them.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
    bytes.ok_or_else(|| D::Error::custom("not a number of bytes in hexadecimal"))
}
