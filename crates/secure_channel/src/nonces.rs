//! Nonces: a sequence number for each record of a key, and never one twice (RFC 8446, 5.3). With AES-GCM, a nonce that comes
//! twice gives away the key of the tags.

use zeroize::Zeroizing;

/// Bytes of a nonce.
pub(crate) const NONCE_BYTES: usize = 12;

/// The nonces of one key.
pub(crate) struct Nonces {
    iv: Zeroizing<[u8; NONCE_BYTES]>,
    next: u64,
}

impl Nonces {
    /// Nonces of a key of which this number were used: 0 of a new one.
    pub(crate) const fn beginning_at(taken: u64, iv: Zeroizing<[u8; NONCE_BYTES]>) -> Self {
        Self { iv, next: taken }
    }

    /// Number of nonces used.
    pub(crate) const fn taken(&self) -> u64 {
        self.next
    }

    /// As if this number had been taken.
    #[cfg(test)]
    pub(crate) const fn skip_to(&mut self, number: u64) {
        self.next = number;
    }

    /// The next one, unless all were taken.
    pub(crate) fn take(&mut self) -> Option<[u8; NONCE_BYTES]> {
        let number = self.next;
        self.next = number.checked_add(1)?;
        let mut nonce = *self.iv;
        for (byte, digit) in nonce[NONCE_BYTES - size_of::<u64>()..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= digit;
        }
        Some(nonce)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn nonces(next: u64) -> Nonces {
        Nonces { iv: Zeroizing::new([0xa5; NONCE_BYTES]), next }
    }

    #[test]
    fn no_nonce_comes_twice() {
        let mut seen = HashSet::new();
        // From the first on, and over each carry from one byte to the next.
        let firsts = (2..8).map(|bytes| (1_u64 << (8 * bytes)) - 300);
        for first in std::iter::once(0).chain(firsts) {
            let mut nonces = nonces(first);
            assert!((0..600).all(|_| seen.insert(nonces.take().unwrap())));
        }
    }

    #[test]
    fn the_last_number_ends_a_key() {
        let mut nonces = nonces(u64::MAX - 1);
        let last = nonces.take().unwrap();
        assert_eq!(&last[4..], ((u64::MAX - 1) ^ 0xa5a5_a5a5_a5a5_a5a5).to_be_bytes());
        assert_eq!((nonces.take(), nonces.take(), nonces.taken()), (None, None, u64::MAX));
    }
}
