//! A secret on its way to the new process. It is read into memory that never moves, so that no copy
//! of it is left behind in memory that was given back.

use std::fmt;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

/// No key is longer.
const SECRET_BYTES_MAX: usize = 64;

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

/// As the first version wrote it: a list of numbers.
impl Serialize for HandedSecret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter())
    }
}

impl<'de> Deserialize<'de> for HandedSecret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Numbers)
    }
}

struct Numbers;

impl<'de> Visitor<'de> for Numbers {
    type Value = HandedSecret;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {SECRET_BYTES_MAX} bytes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<HandedSecret, A::Error> {
        // It has room at once, so that it never moves.
        let mut bytes = Zeroizing::new(Vec::with_capacity(SECRET_BYTES_MAX));
        while let Some(byte) = numbers.next_element()? {
            if bytes.len() == SECRET_BYTES_MAX {
                return Err(A::Error::invalid_length(bytes.len() + 1, &self));
            }
            bytes.push(byte);
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
        assert_eq!(text, "[0,1,127,255]");
        assert_eq!(serde_json::from_str::<HandedSecret>(&text).expect("a secret"), secret);
        assert_eq!(format!("{secret:?}"), "HandedSecret(4 bytes)");
        for wrong in ["\"00\"", "[1, 256]", "[1, \"a\"]", "7", &format!("{:?}", [1; 65])] {
            let error = serde_json::from_str::<HandedSecret>(wrong).expect_err("no secret").to_string();
            assert!(error.contains("expected"), "{error}");
        }
    }
}
