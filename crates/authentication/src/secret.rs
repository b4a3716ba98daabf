//! Secrets as people exchange them, `DHHC-1:00:…:`, and the keys that are made of them.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crc_fast::{CrcAlgorithm, checksum};
use zeroize::Zeroizing;

use crate::Hash;

/// First part of every secret.
const PREFIX: &str = "DHHC-1";
/// Salt of a secret's transformation, besides a name.
const TRANSFORM: &[u8] = b"NVMe-over-Fabrics";
/// Bytes of the checksum behind it.
const CHECKSUM_BYTES: usize = 4;

/// A secret that one side has, and the other knows. It is wiped when it is dropped, and shown as a fingerprint.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    bytes: Zeroizing<Vec<u8>>,
    transform: Option<Hash>,
}

/// Why a text is not a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Another form altogether.
    #[error(
        "it is not a DH-HMAC-CHAP secret, which looks like DHHC-1:00:…: (`selvedge key generate` makes one)"
    )]
    NotASecret,
    /// Another number than 00 to 03.
    #[error(
        "`{0}` is not a transformation: there are 00 (none), 01 (SHA-256), 02 (SHA-384) and 03 (SHA-512)"
    )]
    Transform(String),
    /// Something between the colons that is not Base64.
    #[error("the part between its colons is not Base64: it is truncated, or was changed")]
    Base64,
    /// A key of another length.
    #[error("its key has {0} bytes, and not 32, 48 or 64: it is cut off, or has been changed")]
    Length(usize),
    /// A wrong checksum.
    #[error("its checksum is {found:08x}, and that of its key {computed:08x}: a character has been changed")]
    Checksum {
        /// Checksum in the text.
        found: u32,
        /// Checksum of the key.
        computed: u32,
    },
}

impl Secret {
    /// A secret with this key.
    ///
    /// # Errors
    /// When the key has a length that none has.
    pub fn new(key: &[u8], transform: Option<Hash>) -> Result<Self, SecretError> {
        if !matches!(key.len(), 32 | 48 | 64) {
            return Err(SecretError::Length(key.len()));
        }
        Ok(Self { bytes: Zeroizing::new(key.to_vec()), transform })
    }

    /// The hash function that it is transformed with, if any.
    pub const fn transform(&self) -> Option<Hash> {
        self.transform
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

    /// Identifies the secret without revealing it.
    pub fn fingerprint(&self) -> String {
        let transform = [self.transform.map_or(0, Hash::id)];
        let hash = Hash::Sha256.hmac(&self.bytes, &[b"selvedge fingerprint", &transform]);
        let digits: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("hmac-sha256:{digits}")
    }

    /// The text that other programs take.
    pub fn reveal(&self) -> Zeroizing<String> {
        // Each buffer has its whole size from the start: one that grows would leave a copy behind that is not wiped.
        let mut bytes = Zeroizing::new(Vec::with_capacity(self.bytes.len() + CHECKSUM_BYTES));
        bytes.extend_from_slice(&self.bytes);
        bytes.extend_from_slice(&self.checksum().to_le_bytes());
        let key = Zeroizing::new(STANDARD.encode(&*bytes));
        let prefix = format!("{PREFIX}:{:02}:", self.transform.map_or(0, Hash::id));
        let mut text = Zeroizing::new(String::with_capacity(prefix.len() + key.len() + 1));
        text.push_str(&prefix);
        text.push_str(&key);
        text.push(':');
        text
    }

    /// The key, for the one whose secret it is, by its name.
    pub fn key(&self, nqn: &str) -> Zeroizing<Vec<u8>> {
        match self.transform {
            None => self.bytes.clone(),
            Some(hash) => hash.hmac(&self.bytes, &[nqn.as_bytes(), TRANSFORM]),
        }
    }

    /// The secret that has this one's key for a name, and is transformed once more when it is used: what `nvme gen-dhchap-key`
    /// before 3.0 printed.
    #[must_use]
    pub fn transformed(&self, nqn: &str) -> Self {
        Self { bytes: self.key(nqn), transform: self.transform }
    }
}

impl FromStr for Secret {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        let mut parts = text.trim().split(':');
        let mut next = || parts.next().ok_or(SecretError::NotASecret);
        let (prefix, transform, key) = (next()?, next()?, next()?);
        // The colon at the end is forgotten easily when a text is copied, and nothing is lost by it.
        if prefix != PREFIX || !matches!((parts.next(), parts.next()), (None | Some(""), None)) {
            return Err(SecretError::NotASecret);
        }
        let transform = match transform {
            "00" => None,
            "01" => Some(Hash::Sha256),
            "02" => Some(Hash::Sha384),
            "03" => Some(Hash::Sha512),
            other => return Err(SecretError::Transform(other.chars().take(8).collect())),
        };
        let bytes = Zeroizing::new(STANDARD.decode(key).map_err(|_| SecretError::Base64)?);
        let length = bytes.len().checked_sub(CHECKSUM_BYTES).ok_or(SecretError::Base64)?;
        let (key, found) = bytes.split_at(length);
        let secret = Self::new(key, transform)?;
        let found = found.iter().rev().fold(0, |all, byte| all << 8 | u32::from(*byte));
        let computed = secret.checksum();
        if found != computed {
            return Err(SecretError::Checksum { found, computed });
        }
        Ok(secret)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.fingerprint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_as_it_was_written() {
        for transform in [None, Some(Hash::Sha256), Some(Hash::Sha384), Some(Hash::Sha512)] {
            for length in [32, 48, 64] {
                let key: Vec<u8> = (0..length).collect();
                let secret = Secret::new(&key, transform).unwrap();
                let text = secret.reveal();
                assert_eq!(
                    text.len(),
                    text.capacity(),
                    "no smaller buffer with a part of it was left behind"
                );
                assert_eq!(text.parse(), Ok(secret.clone()));
                assert_eq!(text.trim_end_matches(':').parse(), Ok(secret.clone()));
                let shown = format!("{secret:?} {}", secret.fingerprint());
                assert!(!shown.contains(&text[10..20]), "{shown}");
            }
        }
    }

    /// Output of `nvme gen-dhchap-key -s 000102… -n NQN` of nvme-cli 2.13 with libnvme 1.13.
    #[test]
    fn secrets_are_transformed_as_nvme_cli_transforms_them() {
        let printed = [
            "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
            "DHHC-1:01:eGOjOSJAEO/H5bDhWMzHdMAz5kyhHZlbqU1HWBl05iWbjbyw:",
            "DHHC-1:02:OSFRps5xBlJdGYl/2Q2ky5ZJh7qP0Jm4ohTgY1XEoBTafULsd2tno2kh2U1D6F9MVJpgFw==:",
            "DHHC-1:03:8F8lKumik69AkegfLCoXtKLOoohOebSUeYCrZ8OPiUBcjUK/ucQbSbOuYIao01rK4fDtbsyIE0OrKDbtGAOh2FOVcOM=:",
        ];
        for (id, (length, text)) in (0..).zip([32, 32, 48, 64].into_iter().zip(printed)) {
            let key: Vec<u8> = (0..length).collect();
            let secret = Secret::new(&key, Hash::of(id)).unwrap();
            assert_eq!(*secret.transformed("nqn.2014-08.org.example:host").reveal(), text);
        }
    }

    #[test]
    fn what_is_wrong_with_a_secret_is_said() {
        let good = Secret::new(&[7; 32], None).unwrap().reveal();
        let wrong = |text: &str| text.parse::<Secret>().unwrap_err();
        for text in ["", "DHHC-1", "DHHC-1:00", "hello", "NVMeTLSkey-1:01:abc:", &format!("{}x", &*good)] {
            assert_eq!(wrong(text), SecretError::NotASecret, "{text}");
        }
        assert_eq!(wrong(&good.replace(":00:", ":04:")), SecretError::Transform("04".to_owned()));
        assert_eq!(wrong("DHHC-1:00:!!!!:"), SecretError::Base64);
        assert_eq!(wrong("DHHC-1:00:AAAA:"), SecretError::Base64);
        assert_eq!(wrong("DHHC-1:00:AAAAAAAAAAAA:"), SecretError::Length(5));
        let flipped = good.replacen("BwcH", "BwcI", 1);
        assert!(matches!(wrong(&flipped), SecretError::Checksum { .. }));
    }
}
