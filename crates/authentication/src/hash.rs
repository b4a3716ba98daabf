//! The hash functions, and HMAC with them.

use std::fmt;
use std::str::FromStr;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha384, Sha512};
use zeroize::Zeroizing;

/// A hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hash {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Hash {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sha256, Self::Sha384, Self::Sha512];

    /// The one with this identifier.
    pub fn of(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|hash| hash.id() == id)
    }

    /// Identifier in messages.
    pub const fn id(self) -> u8 {
        match self {
            Self::Sha256 => 1,
            Self::Sha384 => 2,
            Self::Sha512 => 3,
        }
    }

    /// Bytes of a hash.
    pub const fn length(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    /// Name, as nvmet writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
        }
    }

    /// The hash of these bytes.
    pub fn digest(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
            Self::Sha384 => Sha384::digest(bytes).to_vec(),
            Self::Sha512 => Sha512::digest(bytes).to_vec(),
        }
    }

    /// The HMAC of these parts, one behind the other. It may be a key, and is wiped when it is dropped.
    pub fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
        // By reference: the library wipes its own copy.
        Zeroizing::new(match self {
            Self::Sha256 => fed::<Hmac<Sha256>>(key, parts).finalize().as_bytes().to_vec(),
            Self::Sha384 => fed::<Hmac<Sha384>>(key, parts).finalize().as_bytes().to_vec(),
            Self::Sha512 => fed::<Hmac<Sha512>>(key, parts).finalize().as_bytes().to_vec(),
        })
    }

    /// True if the HMAC of the parts is `expected`, in a time that does not depend on where it
    /// differs.
    pub fn verifies(self, key: &[u8], parts: &[&[u8]], expected: &[u8]) -> bool {
        match self {
            Self::Sha256 => fed::<Hmac<Sha256>>(key, parts).verify_slice(expected).is_ok(),
            Self::Sha384 => fed::<Hmac<Sha384>>(key, parts).verify_slice(expected).is_ok(),
            Self::Sha512 => fed::<Hmac<Sha512>>(key, parts).verify_slice(expected).is_ok(),
        }
    }
}

fn fed<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> M {
    // HMAC takes keys of all lengths.
    #[allow(clippy::expect_used, reason = "there is no wrong length")]
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of all lengths");
    parts.iter().for_each(|part| mac.update(part));
    mac
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Hash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = text.strip_prefix("hmac(").and_then(|text| text.strip_suffix(')')).unwrap_or(text);
        let found = Self::ALL.into_iter().find(|hash| hash.name() == plain);
        found.ok_or_else(|| format!("`{text}` is not a hash function: there are sha256, sha384 and sha512"))
    }
}
