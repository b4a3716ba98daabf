//! Configured PSKs as people exchange them, `NVMeTLSkey-1:01:…:` (TP8011, PSK interchange format), and the retained PSKs
//! that are made of them.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crc_fast::{CrcAlgorithm, checksum};
use zeroize::Zeroizing;

use crate::input_psk::{Derivation, InputPsk};
use crate::{Hash, Names, Suite};

/// First part of every configured PSK.
const PREFIX: &str = "NVMeTLSkey-1";
/// Bytes of the checksum behind it.
const CHECKSUM_BYTES: usize = 4;

/// A key that a host and a subsystem have been given. It is wiped when it is dropped, and shown as a fingerprint.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfiguredPsk {
    bytes: Zeroizing<Vec<u8>>,
    hash: Option<Hash>,
}

/// Why a text is not a configured PSK.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfiguredPskError {
    /// Another form altogether.
    #[error("it is not a TLS key of NVMe, which looks like NVMeTLSkey-1:01:…:")]
    NotAKey,
    /// Another number than 00 to 02.
    #[error("`{0}` is not a hash function of TLS keys: there are 00 (none), 01 (SHA-256) and 02 (SHA-384)")]
    Hash(String),
    /// Something between the colons that is not Base64.
    #[error("the part between its colons is not Base64: it is truncated, or was changed")]
    Base64,
    /// A key of another length than its hash function asks for.
    #[error("its key has {found} bytes, and not {expected}: it is cut off, or has been changed")]
    Length {
        /// Bytes of the key.
        found: usize,
        /// Expected form.
        expected: &'static str,
    },
    /// A wrong checksum.
    #[error("its checksum is {found:08x}, and that of its key {computed:08x}: a character has been changed")]
    Checksum {
        /// Checksum in the text.
        found: u32,
        /// Checksum of the key.
        computed: u32,
    },
}

impl ConfiguredPsk {
    /// A configured PSK with this key.
    ///
    /// # Errors
    /// When the key has another length than its hash function asks for.
    pub fn new(key: &[u8], hash: Option<Hash>) -> Result<Self, ConfiguredPskError> {
        let (is_right, expected) = match hash {
            None => (matches!(key.len(), 32 | 48), "32 or 48"),
            Some(Hash::Sha256) => (key.len() == 32, "32"),
            Some(Hash::Sha384) => (key.len() == 48, "48"),
        };
        if !is_right {
            return Err(ConfiguredPskError::Length { found: key.len(), expected });
        }
        Ok(Self { bytes: Zeroizing::new(key.to_vec()), hash })
    }

    /// The hash function that makes it a retained PSK, if any.
    pub const fn hash(&self) -> Option<Hash> {
        self.hash
    }

    /// Bytes of its key.
    pub fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of its key, for a hand-over to another process.
    pub fn expose(&self) -> &[u8] {
        &self.bytes
    }

    /// The checksum of its key.
    pub fn checksum(&self) -> u32 {
        checksum(CrcAlgorithm::Crc32IsoHdlc, &self.bytes) as u32
    }

    /// The suite that other programs use it with: they take the hash function with hashes as long as the key.
    pub fn usual_suite(&self) -> Suite {
        if self.length() == Hash::Sha384.length() { Suite::Aes256Gcm } else { Suite::Aes128Gcm }
    }

    /// Identifies the key without revealing it.
    pub fn fingerprint(&self) -> String {
        let hash = Hash::Sha256.hmac(&self.bytes, &[b"selvedge fingerprint", &[self.hash_id()]]);
        let digits: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("hmac-sha256:{digits}")
    }

    /// The text that other programs take.
    pub fn reveal(&self) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(self.length() + CHECKSUM_BYTES));
        bytes.extend_from_slice(&self.bytes);
        bytes.extend_from_slice(&self.checksum().to_le_bytes());
        let key = Zeroizing::new(STANDARD.encode(&*bytes));
        // It has its whole size from the start: a text that grows would leave a copy behind that is not wiped.
        let prefix = format!("{PREFIX}:{:02}:", self.hash_id());
        let mut text = Zeroizing::new(String::with_capacity(prefix.len() + key.len() + 1));
        text.push_str(&prefix);
        text.push_str(&key);
        text.push(':');
        text
    }

    /// The retained PSK of the host of this pair.
    pub fn retained(&self, names: &Names, derivation: Derivation) -> InputPsk {
        let Some(hash) = self.hash else {
            return InputPsk::retained(self.bytes.clone(), derivation);
        };
        let extracted = hash.extract(&self.bytes);
        let context = names.host_nqn().as_bytes();
        let bytes = derivation.expand(hash, &extracted, "HostNQN", context, self.length());
        InputPsk::retained(bytes, derivation)
    }

    fn hash_id(&self) -> u8 {
        self.hash.map_or(0, Hash::id)
    }
}

impl FromStr for ConfiguredPsk {
    type Err = ConfiguredPskError;

    fn from_str(text: &str) -> Result<Self, ConfiguredPskError> {
        let mut parts = text.trim().split(':');
        let mut next = || parts.next().ok_or(ConfiguredPskError::NotAKey);
        let (prefix, hash, key) = (next()?, next()?, next()?);
        // The colon at the end is forgotten easily when a text is copied, and nothing is lost by it.
        if prefix != PREFIX || !matches!((parts.next(), parts.next()), (None | Some(""), None)) {
            return Err(ConfiguredPskError::NotAKey);
        }
        let hash = match hash {
            "00" => None,
            "01" => Some(Hash::Sha256),
            "02" => Some(Hash::Sha384),
            other => return Err(ConfiguredPskError::Hash(other.chars().take(8).collect())),
        };
        let bytes = Zeroizing::new(STANDARD.decode(key).map_err(|_| ConfiguredPskError::Base64)?);
        let (key, found) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(ConfiguredPskError::Base64)?;
        let psk = Self::new(key, hash)?;
        let (found, computed) = (u32::from_le_bytes(*found), psk.checksum());
        if found != computed {
            return Err(ConfiguredPskError::Checksum { found, computed });
        }
        Ok(psk)
    }
}

impl fmt::Debug for ConfiguredPsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConfiguredPsk({})", self.fingerprint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_written() {
        for (hash, length) in [(None, 32), (None, 48), (Some(Hash::Sha256), 32), (Some(Hash::Sha384), 48)] {
            let key: Vec<u8> = (0..length).collect();
            let psk = ConfiguredPsk::new(&key, hash).unwrap();
            let text = psk.reveal();
            assert_eq!(text.len(), text.capacity(), "no smaller buffer with a part of it was left behind");
            assert_eq!(text.parse(), Ok(psk.clone()));
            assert_eq!(text.trim_end_matches(':').parse(), Ok(psk.clone()));
            let shown = format!("{psk:?} {}", psk.fingerprint());
            assert!(!shown.contains(&text[16..26]), "{shown}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_key_is_said() {
        let good = ConfiguredPsk::new(&[7; 32], None).unwrap().reveal();
        let wrong = |text: &str| text.parse::<ConfiguredPsk>().unwrap_err();
        for text in ["", "NVMeTLSkey-1", "NVMeTLSkey-1:00", "DHHC-1:00:abc:", &format!("{}x", &*good)] {
            assert_eq!(wrong(text), ConfiguredPskError::NotAKey, "{text}");
        }
        assert_eq!(wrong(&good.replace(":00:", ":03:")), ConfiguredPskError::Hash("03".to_owned()));
        assert_eq!(wrong("NVMeTLSkey-1:00:!!!!:"), ConfiguredPskError::Base64);
        assert_eq!(wrong("NVMeTLSkey-1:00:AAA=:"), ConfiguredPskError::Base64);
        let short = ConfiguredPskError::Length { found: 5, expected: "32 or 48" };
        assert_eq!(wrong("NVMeTLSkey-1:00:AAAAAAAAAAAA:"), short);
        let other = ConfiguredPskError::Length { found: 32, expected: "48" };
        assert_eq!(wrong(&good.replace(":00:", ":02:")), other);
        let flipped = good.replacen("BwcH", "BwcI", 1);
        assert!(matches!(wrong(&flipped), ConfiguredPskError::Checksum { .. }));
    }
}
