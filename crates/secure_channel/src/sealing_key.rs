//! Secrets at rest: sealed with a key that all targets of a group have, they may stand in a configuration that others read.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::Hash;
use crate::cipher::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

/// Bytes of a nonce, which no two texts may share: a random one is good for 2^32 of them.
pub const NONCE_BYTES: usize = 12;
/// Fewest bytes of a key's file, without what Base64 adds.
const KEY_BYTES_MIN: usize = 32;
/// Salt of the key's derivation, so that it opens nothing else that is encrypted with the same
/// file.
const SALT: &[u8] = b"selvedge sealed secrets";
/// The first byte of a sealed text.
const VERSION: u8 = 1;
const TIME_BYTES: usize = 8;
/// Bytes before what is encrypted: version, time and nonce.
const HEAD_BYTES: usize = 1 + TIME_BYTES + NONCE_BYTES;

/// Seals secrets, and opens them.
pub struct SealingKey(LessSafeKey);

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey")
    }
}

/// Why a sealed text cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsealError {
    /// The text is not a sealed one.
    #[error("its sealed form is damaged")]
    Damaged,
    /// The text was sealed with another key, or for another owner, or was changed.
    #[error("it was sealed with another encryption key, for another host or subsystem, or has been changed")]
    Foreign,
}

impl SealingKey {
    /// Reads a key's file: a private key in PEM, as gateways of ceph-nvmeof have it, or 32 bytes and more in Base64.
    ///
    /// # Errors
    /// Why it is neither.
    pub fn read(text: &str) -> Result<Self, &'static str> {
        let bytes = key_file(text)?;
        if bytes.len() < KEY_BYTES_MIN {
            return Err("it has less than 32 bytes; `openssl rand -base64 32` makes one");
        }
        let key = Hash::Sha256.hmac(SALT, &[&bytes[..]]);
        let key = UnboundKey::new(&AES_256_GCM, &key).map_err(|_| "its key cannot be used")?;
        Ok(Self(LessSafeKey::new(key)))
    }

    /// Seals a secret for those whom it is for, with the time in seconds since 1970.
    pub fn seal(&self, secret: &str, whose: &[&str], time_s: u64, nonce: [u8; NONCE_BYTES]) -> String {
        let mut bytes = vec![VERSION];
        bytes.extend(time_s.to_be_bytes());
        let associated = associated(&bytes, whose);
        bytes.extend(nonce);
        let mut secret = secret.as_bytes().to_vec();
        let sealed = self.0.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(associated),
            &mut secret,
        );
        sealed.expect("a secret is far shorter than 64 GiB");
        bytes.extend(secret);
        STANDARD.encode(bytes)
    }

    /// Opens what was sealed for the same.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn open(&self, sealed: &str, whose: &[&str]) -> Result<Zeroizing<String>, UnsealError> {
        let bytes = STANDARD.decode(sealed).map_err(|_| UnsealError::Damaged)?;
        let (head, inside) = bytes.split_at_checked(HEAD_BYTES).ok_or(UnsealError::Damaged)?;
        let (clear, nonce) = head.split_at(1 + TIME_BYTES);
        if clear[0] != VERSION {
            return Err(UnsealError::Damaged);
        }
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| UnsealError::Damaged)?;
        let mut inside = Zeroizing::new(inside.to_vec());
        let opened = self.0.open_in_place(nonce, Aad::from(associated(clear, whose)), &mut inside);
        let opened = opened.map_err(|_| UnsealError::Foreign)?;
        let text = std::str::from_utf8(opened).map_err(|_| UnsealError::Damaged)?;
        Ok(Zeroizing::new(text.to_owned()))
    }
}

/// The bytes of a key's file: a private key in PEM, or its Base64 alone. Orchestrators turn line breaks into spaces.
///
/// # Errors
/// Why it is neither.
pub fn key_file(text: &str) -> Result<Zeroizing<Vec<u8>>, &'static str> {
    let text = text.trim();
    let body = match text.strip_prefix("-----BEGIN PRIVATE KEY-----") {
        Some(rest) => rest.strip_suffix("-----END PRIVATE KEY-----").ok_or("its last line is missing")?,
        None => text,
    };
    let body: Zeroizing<String> = Zeroizing::new(body.split_whitespace().collect());
    let wrong = "it is neither a PEM file that begins with -----BEGIN PRIVATE KEY----- nor Base64";
    STANDARD.decode(body.as_bytes()).map(Zeroizing::new).map_err(|_| wrong)
}

/// Time at which a text was sealed, in seconds since 1970. Not authenticated before the text is
/// opened.
pub fn sealed_at_s(sealed: &str) -> Option<u64> {
    let bytes = STANDARD.decode(sealed).ok().filter(|bytes| bytes.len() >= HEAD_BYTES)?;
    Some(u64::from_be_bytes(*bytes[1..].first_chunk()?))
}

/// Associated data of a sealed text: its part in clear, and its owner. Unique for each list of
/// names.
fn associated(clear: &[u8], whose: &[&str]) -> Vec<u8> {
    let mut associated = clear.to_vec();
    for name in whose {
        associated.extend((name.len() as u64).to_be_bytes());
        associated.extend(name.as_bytes());
    }
    associated
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOSE: [&str; 3] = ["dhchap_secret", "nqn.a", "nqn.host"];

    fn key(byte: u8) -> SealingKey {
        SealingKey::read(&STANDARD.encode([byte; 32])).unwrap()
    }

    #[test]
    fn a_secret_is_opened_by_its_key_for_those_whom_it_was_sealed_for() {
        let sealed = key(1).seal("DHHC-1:00:x:", &WHOSE, 1_700_000_000, [7; NONCE_BYTES]);
        assert!(!sealed.contains("DHHC"));
        assert_eq!(*key(1).open(&sealed, &WHOSE).unwrap(), "DHHC-1:00:x:");
        assert_eq!(sealed_at_s(&sealed), Some(1_700_000_000));
        assert_eq!(key(2).open(&sealed, &WHOSE), Err(UnsealError::Foreign));
        for other in [
            &["tls_key", "nqn.a", "nqn.host"][..],
            &["dhchap_secret", "nqn.b", "nqn.host"],
            &["dhchap_secret", "nqn.an", "qn.host"],
            &["dhchap_secret", "nqn.a"],
        ] {
            assert_eq!(key(1).open(&sealed, other), Err(UnsealError::Foreign), "{other:?}");
        }
    }

    #[test]
    fn no_byte_of_a_sealed_text_can_be_changed_or_left_out() {
        let sealed = key(1).seal("secret", &WHOSE, 5, [7; NONCE_BYTES]);
        let bytes = STANDARD.decode(&sealed).unwrap();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(key(1).open(&STANDARD.encode(&changed), &WHOSE).is_err(), "byte {at}");
            assert!(key(1).open(&STANDARD.encode(&bytes[..at]), &WHOSE).is_err(), "{at} bytes");
        }
        assert_eq!(key(1).open("not Base64", &WHOSE), Err(UnsealError::Damaged));
        assert_eq!(sealed_at_s("not Base64"), None);
    }

    #[test]
    fn a_key_is_a_private_key_or_32_bytes() {
        let base64 = STANDARD.encode([3; 48]);
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{base64}\n-----END PRIVATE KEY-----\n");
        let sealed = SealingKey::read(&pem).unwrap().seal("s", &[], 0, [0; NONCE_BYTES]);
        let spread = format!("{} {}\n", &base64[..20], &base64[20..]);
        assert_eq!(*SealingKey::read(&spread).unwrap().open(&sealed, &[]).unwrap(), "s");
        let refused = |text: &str| SealingKey::read(text).unwrap_err();
        assert!(refused("-----BEGIN PRIVATE KEY-----\nAAAA").contains("last line"));
        assert!(refused(&STANDARD.encode([3; 31])).contains("less than 32 bytes"));
        assert!(refused("no key!").contains("neither"));
    }
}
