//! Header and data digests: CRC32C over the bytes as they pass (TCP 3.3.1.1).
//! Whether a connection uses them is decided by the handshake.

use crc_fast::{CrcAlgorithm, crc32_iscsi};

/// Length of a digest on the wire in bytes.
pub const DIGEST_LENGTH: usize = 4;

/// CRC32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32_iscsi(bytes)
}

/// A CRC32C that grows as data passes.
#[derive(Clone, Copy, Debug)]
pub struct Digest(crc_fast::Digest);

impl Default for Digest {
    fn default() -> Self {
        Self(crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi))
    }
}

impl Digest {
    /// Adds `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Resets the digest, which is much cheaper than a new one.
    pub fn reset(&mut self) {
        self.0.reset();
    }

    /// The digest of all that was added.
    pub fn value(&self) -> u32 {
        self.0.finalize() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_published_vectors() {
        // RFC 3720 B.4: 32 bytes of zeroes, of ones, and ascending.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        let ascending: [u8; 32] = core::array::from_fn(|i| i as u8);
        assert_eq!(crc32c(&ascending), 0x46dd_794e);
    }

    #[test]
    fn grows_to_the_same_value() {
        let bytes: [u8; 4096] = core::array::from_fn(|i| (i * 7) as u8);
        for cut in [0, 1, 63, 64, 1000, 4096] {
            let mut digest = Digest::default();
            digest.update(&bytes[..cut]);
            digest.update(&bytes[cut..]);
            assert_eq!(digest.value(), crc32c(&bytes));
        }
    }
}
