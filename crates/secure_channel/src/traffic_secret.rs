//! Traffic secrets (RFC 8446, 7.1 to 7.3): what a handshake leaves for each direction, the key and the nonces that are made of
//! it, and the secret that follows.

use std::fmt;

use zeroize::Zeroizing;

use crate::Suite;
use crate::cipher::{self, AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use crate::nonces::{NONCE_BYTES, Nonces};
use crate::record::HEADER_BYTES;

/// The secret of one direction. It is wiped when it is dropped, and never shown.
#[derive(Clone)]
pub struct TrafficSecret {
    suite: Suite,
    bytes: Zeroizing<Vec<u8>>,
}

impl TrafficSecret {
    /// The one that a handshake left, if it is as long as the suite's secrets. `None` in builds without `ciphers`, too.
    pub fn new(suite: Suite, bytes: &[u8]) -> Option<Self> {
        let is_usable = cipher::ARE_HERE && bytes.len() == suite.hash().length();
        is_usable.then(|| Self { suite, bytes: Zeroizing::new(bytes.to_vec()) })
    }

    /// Suite of the secret.
    pub const fn suite(&self) -> Suite {
        self.suite
    }

    /// Bytes of the secret, for a hand-over of the channel to another process.
    pub fn expose(&self) -> &[u8] {
        &self.bytes
    }

    /// The secret behind the next KeyUpdate.
    pub(crate) fn next(&self) -> Self {
        let hash = self.suite.hash();
        let bytes = hash.expand_label(&self.bytes, "traffic upd", &[], hash.length());
        Self { suite: self.suite, bytes }
    }

    pub(crate) fn protection(&self) -> Protection {
        self.protection_from(0)
    }

    /// The key with its nonces from this record on: those before were used.
    pub(crate) fn protection_from(&self, records: u64) -> Protection {
        let hash = self.suite.hash();
        let key = hash.expand_label(&self.bytes, "key", &[], self.suite.key_bytes());
        let mut iv = Zeroizing::new([0; NONCE_BYTES]);
        iv.copy_from_slice(&hash.expand_label(&self.bytes, "iv", &[], NONCE_BYTES));
        Protection { key: cipher_key(self.suite, &key), nonces: Nonces::beginning_at(records, iv) }
    }
}

/// Key of the suite's cipher from `Suite::key_bytes` bytes.
pub(crate) fn cipher_key(suite: Suite, bytes: &[u8]) -> LessSafeKey {
    let algorithm = match suite {
        Suite::Aes128Gcm => &AES_128_GCM,
        Suite::Aes256Gcm => &AES_256_GCM,
    };
    #[allow(clippy::expect_used, reason = "the suite says how long a key is")]
    let key = UnboundKey::new(algorithm, bytes).expect("a key as long as the suite says");
    LessSafeKey::new(key)
}

impl fmt::Debug for TrafficSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TrafficSecret({})", self.suite)
    }
}

/// State of one direction of a channel, from which another process can continue it.
#[derive(Clone, Debug)]
pub struct DirectionState {
    /// The secret of the present key.
    pub secret: TrafficSecret,
    /// Records that the key was used for.
    pub records: u64,
    /// Number of key changes.
    pub updates: u64,
}

/// A key with its nonces. Whatever it does takes a nonce, whether it succeeds or not.
pub(crate) struct Protection {
    key: LessSafeKey,
    nonces: Nonces,
}

impl Protection {
    /// Records that it was used for.
    pub(crate) const fn records(&self) -> u64 {
        self.nonces.taken()
    }

    /// As if it had been used for this number of records.
    #[cfg(test)]
    pub(crate) const fn skip_to(&mut self, records: u64) {
        self.nonces.skip_to(records);
    }

    /// Seals `data` where it stands.
    pub(crate) fn seal(&mut self, header: [u8; HEADER_BYTES], data: &mut [u8], tag: &mut [u8]) -> Option<()> {
        let nonce = Nonce::assume_unique_for_key(self.nonces.take()?);
        self.key.seal_in_place_scatter(nonce, Aad::from(header), data, &[], tag).ok()
    }

    /// Seals `data` into `sealed`, and `kind` into what is behind it, before the tag.
    pub(crate) fn seal_from(
        &mut self,
        header: [u8; HEADER_BYTES],
        (data, kind): (&[u8], u8),
        (sealed, rest): (&mut [u8], &mut [u8]),
    ) -> Option<()> {
        let nonce = Nonce::assume_unique_for_key(self.nonces.take()?);
        self.key.seal_out_of_place_scatter(nonce, Aad::from(header), data, sealed, &[kind], rest).ok()
    }

    /// Opens `data` where it stands. `None` says that there are no further nonces, and `false` that the tag is wrong.
    pub(crate) fn open(&mut self, header: [u8; HEADER_BYTES], data: &mut [u8], tag: &[u8]) -> Option<bool> {
        let nonce = Nonce::assume_unique_for_key(self.nonces.take()?);
        Some(self.key.open_in_place_separate_tag(nonce, Aad::from(header), tag, data).is_ok())
    }

    /// Opens what is sealed into a place of the same length; the result is as that of `open`.
    pub(crate) fn open_into(
        &mut self,
        header: [u8; HEADER_BYTES],
        (sealed, tag): (&[u8], &[u8]),
        place: &mut [u8],
    ) -> Option<bool> {
        let nonce = Nonce::assume_unique_for_key(self.nonces.take()?);
        Some(self.key.open_separate_gather(nonce, Aad::from(header), sealed, tag, place).is_ok())
    }
}
