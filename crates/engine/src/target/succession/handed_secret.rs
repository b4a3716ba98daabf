//! A secret on its way to the next process. It is written as digits and read in one piece, so that no copy of it is left behind
//! in memory that was given back.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

/// Bytes that are wiped when they are dropped, and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct HandedSecret(Zeroizing<Vec<u8>>);

impl HandedSecret {
    /// A copy of these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(bytes.to_vec()))
    }

    /// The bytes.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for HandedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HandedSecret({} bytes)", self.0.len())
    }
}

impl Serialize for HandedSecret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut digits = Zeroizing::new(String::with_capacity(2 * self.0.len()));
        for byte in self.0.iter() {
            for half in [byte >> 4, byte & 0xf] {
                digits.push(char::from_digit(u32::from(half), 16).unwrap_or_default());
            }
        }
        serializer.serialize_str(&digits)
    }
}

impl<'de> Deserialize<'de> for HandedSecret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Digits)
    }
}

struct Digits;

impl Visitor<'_> for Digits {
    type Value = HandedSecret;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an even number of hexadecimal digits")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<HandedSecret, E> {
        let invalid = || E::invalid_length(text.len(), &self);
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if !rest.is_empty() {
            return Err(invalid());
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(pairs.len()));
        for pair in pairs {
            let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
            let (Some(high), Some(low)) = (high, low) else { return Err(invalid()) };
            bytes.push((high << 4 | low) as u8);
        }
        Ok(HandedSecret(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_comes_back_and_is_not_shown() {
        let secret = HandedSecret::new(&[0, 1, 0x7f, 0xff]);
        let text = serde_json::to_string(&secret).expect("text");
        assert_eq!(text, "\"00017fff\"");
        assert_eq!(serde_json::from_str::<HandedSecret>(&text).expect("a secret"), secret);
        assert_eq!(format!("{secret:?}"), "HandedSecret(4 bytes)");
        for wrong in ["\"0\"", "\"0g\"", "\"\u{e9}\"", "[1]", "7"] {
            let told = serde_json::from_str::<HandedSecret>(wrong).expect_err("no secret").to_string();
            assert!(told.contains("expected"), "{told}");
        }
    }
}
