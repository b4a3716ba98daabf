//! The second name that hosts know a namespace by. Linux and nvmetcli print it like a UUID, nvme-cli as 32 digits: both are read.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::Uuid;

use super::error::SettingError;

/// A Namespace Globally Unique Identifier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nguid([u8; 16]);

impl Nguid {
    /// Bytes, in the order of the Identify data.
    pub const fn into_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl From<Uuid> for Nguid {
    /// NGUID of a namespace of which only the UUID is known.
    fn from(uuid: Uuid) -> Self {
        Self(uuid.into_bytes())
    }
}

impl FromStr for Nguid {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        // The same digits as a UUID has, and nothing of its meaning.
        match Uuid::parse_str(text) {
            Ok(id) if id.is_nil() => Err(SettingError::NguidZero),
            Ok(id) => Ok(Self(id.into_bytes())),
            Err(_) => Err(SettingError::Nguid(text.to_owned())),
        }
    }
}

impl fmt::Display for Nguid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Nguid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Nguid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Nguid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_read_and_one_is_written() {
        let digits = "ef90689c6c46d44c89c14067801309a8";
        for text in [digits, "ef90689c-6c46-d44c-89c1-4067801309a8", "EF90689C6C46D44C89C14067801309A8"] {
            let nguid: Nguid = text.parse().unwrap();
            assert_eq!(nguid.to_string(), digits);
            assert_eq!(nguid.into_bytes()[..2], [0xef, 0x90]);
        }
        for (text, error) in [
            ("0".repeat(32), SettingError::NguidZero),
            ("ef90".to_owned(), SettingError::Nguid("ef90".to_owned())),
        ] {
            assert_eq!(text.parse::<Nguid>(), Err(error), "{text}");
        }
    }
}
