//! The two hash functions of TLS' suites, and HMAC with them. It does not know what the results are for.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Sha256, Sha384};
use zeroize::Zeroizing;

/// A hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hash {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
}

impl Hash {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Sha256, Self::Sha384];

    /// The one that NVMe gives this number.
    pub fn of(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|hash| hash.id() == id)
    }

    /// Its number in configured PSKs and PSK identities.
    pub const fn id(self) -> u8 {
        match self {
            Self::Sha256 => 1,
            Self::Sha384 => 2,
        }
    }

    /// Bytes of a hash.
    pub const fn length(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
        }
    }

    /// Its name, as people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "SHA-256",
            Self::Sha384 => "SHA-384",
        }
    }

    /// The HMAC of these parts, one behind the other.
    pub(crate) fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(match self {
            Self::Sha256 => fed::<Hmac<Sha256>>(key, parts).finalize().into_bytes().to_vec(),
            Self::Sha384 => fed::<Hmac<Sha384>>(key, parts).finalize().into_bytes().to_vec(),
        })
    }
}

fn fed<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> M {
    #[allow(clippy::expect_used, reason = "HMAC takes keys of all lengths")]
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of all lengths");
    parts.iter().for_each(|part| mac.update(part));
    mac
}
