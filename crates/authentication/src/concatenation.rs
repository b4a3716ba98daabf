//! Secure channel concatenation (TP8018): an exchange out of which comes the key of the TLS connections that follow. What TLS
//! makes of the key is not known here.

use std::fmt;

use zeroize::Zeroizing;

use crate::Hash;

/// Mode of secure channel concatenation (SC_C): the TLS key that an exchange generates, if any. All
/// responses cover it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Concatenation {
    /// None (NOSC).
    #[default]
    None,
    /// The first one of an association, on a connection in clear (NEWTLSPSK).
    New,
    /// Another one in place of the one that the connection has (REPLACETLSPSK).
    Replace,
}

impl Concatenation {
    /// Value in messages. 1 (SC) is obsolete, and never stood for a key.
    pub const fn id(self) -> u8 {
        match self {
            Self::None => 0,
            Self::New => 2,
            Self::Replace => 3,
        }
    }

    /// True if the exchange generates a key.
    pub const fn generates(self) -> bool {
        !matches!(self, Self::None)
    }

    /// True if the hash function can be used with it: each of the two cipher suites of NVMe's TLS
    /// goes with one function, and neither with SHA-512.
    pub const fn takes(self, hash: Hash) -> bool {
        !self.generates() || !matches!(hash, Hash::Sha512)
    }
}

/// A generated PSK (Base 8.3.5.5.9). It is wiped when it is dropped, and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct GeneratedPsk {
    hash: Hash,
    bytes: Zeroizing<Vec<u8>>,
}

impl GeneratedPsk {
    /// The key of an exchange with this session key (Ks) and both challenges.
    pub(crate) fn new(hash: Hash, session_key: &[u8], (first, second): (&[u8], &[u8])) -> Self {
        Self { hash, bytes: hash.hmac(session_key, &[first, second]) }
    }

    /// The hash function of the exchange, which decides on the cipher suite.
    pub const fn hash(&self) -> Hash {
        self.hash
    }

    /// The key itself, for the derivation of TLS keys.
    pub fn reveal(&self) -> &Zeroizing<Vec<u8>> {
        &self.bytes
    }
}

impl fmt::Debug for GeneratedPsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GeneratedPsk").field("hash", &self.hash).finish_non_exhaustive()
    }
}
