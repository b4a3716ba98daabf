//! The two cipher suites that NVMe/TCP has (TP8011), and what follows from each. Keys are not here.

use std::fmt;

use crate::Hash;

/// A cipher suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Suite {
    /// TLS_AES_128_GCM_SHA256.
    Aes128Gcm,
    /// TLS_AES_256_GCM_SHA384.
    Aes256Gcm,
}

impl Suite {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Aes128Gcm, Self::Aes256Gcm];

    /// The one with this number.
    pub fn of(id: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.id() == id)
    }

    /// The one that a hash function belongs to: PSK identities name the suite by it.
    pub const fn with(hash: Hash) -> Self {
        match hash {
            Hash::Sha256 => Self::Aes128Gcm,
            Hash::Sha384 => Self::Aes256Gcm,
        }
    }

    /// Number in TLS.
    pub const fn id(self) -> u16 {
        match self {
            Self::Aes128Gcm => 0x1301,
            Self::Aes256Gcm => 0x1302,
        }
    }

    /// Hash function of the suite.
    pub const fn hash(self) -> Hash {
        match self {
            Self::Aes128Gcm => Hash::Sha256,
            Self::Aes256Gcm => Hash::Sha384,
        }
    }

    /// Bytes of its cipher's key.
    pub const fn key_bytes(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm => 32,
        }
    }

    /// Name in TLS.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes128Gcm => "TLS_AES_128_GCM_SHA256",
            Self::Aes256Gcm => "TLS_AES_256_GCM_SHA384",
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
