//! The two hash functions of TLS' suites, and what is derived with them: HMAC, HKDF (RFC 5869) and HKDF-Expand-Label
//! (RFC 8446, 7.1). It does not know what the results are for.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha384};
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

    /// Number in configured PSKs and PSK identities.
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

    /// Name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "SHA-256",
            Self::Sha384 => "SHA-384",
        }
    }

    /// The hash of these bytes.
    pub(crate) fn digest(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
            Self::Sha384 => Sha384::digest(bytes).to_vec(),
        }
    }

    /// The HMAC of these parts, one behind the other.
    pub(crate) fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
        // By reference: the library wipes its own copy.
        Zeroizing::new(match self {
            Self::Sha256 => fed::<Hmac<Sha256>>(key, parts).finalize().as_bytes().to_vec(),
            Self::Sha384 => fed::<Hmac<Sha384>>(key, parts).finalize().as_bytes().to_vec(),
        })
    }

    /// True if the HMAC of the parts is `expected`, in a time that does not depend on where it
    /// differs.
    pub(crate) fn verifies(self, key: &[u8], parts: &[&[u8]], expected: &[u8]) -> bool {
        match self {
            Self::Sha256 => fed::<Hmac<Sha256>>(key, parts).verify_slice(expected).is_ok(),
            Self::Sha384 => fed::<Hmac<Sha384>>(key, parts).verify_slice(expected).is_ok(),
        }
    }

    /// HKDF-Extract with a salt of zeros, as for everything that begins with a PSK.
    pub(crate) fn extract(self, secret: &[u8]) -> Zeroizing<Vec<u8>> {
        self.hmac(&[0; 48][..self.length()], &[secret])
    }

    /// HKDF-Expand.
    pub(crate) fn expand(self, key: &[u8], info: &[&[u8]], length: usize) -> Zeroizing<Vec<u8>> {
        let mut output = Zeroizing::new(Vec::with_capacity(length.next_multiple_of(self.length())));
        let mut block = Zeroizing::new(Vec::new());
        for number in 1..=u8::MAX {
            if output.len() >= length {
                break;
            }
            let number = [number];
            let parts: Vec<&[u8]> = [&block[..]].iter().chain(info).chain(&[&number[..]]).copied().collect();
            block = self.hmac(key, &parts);
            output.extend_from_slice(&block);
        }
        output.truncate(length);
        output
    }

    /// HKDF-Expand-Label. No label or context is longer than the byte that counts it: those of this crate are constants,
    /// hashes, and identities whose length was checked.
    pub(crate) fn expand_label(
        self,
        key: &[u8],
        label: &str,
        context: &[u8],
        length: usize,
    ) -> Zeroizing<Vec<u8>> {
        let (counted, context_length) = ((LABEL_PREFIX.len() + label.len()) as u8, context.len() as u8);
        let length_field = (length as u16).to_be_bytes();
        let label = label.as_bytes();
        let info: [&[u8]; 6] =
            [&length_field, &[counted], LABEL_PREFIX.as_bytes(), label, &[context_length], context];
        self.expand(key, &info, length)
    }
}

/// Prefix of each label in TLS 1.3.
pub(crate) const LABEL_PREFIX: &str = "tls13 ";

fn fed<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> M {
    #[allow(clippy::expect_used, reason = "HMAC takes keys of all lengths")]
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of all lengths");
    parts.iter().for_each(|part| mac.update(part));
    mac
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{bytes, hex};

    /// RFC 5869, appendix A.1 and A.3 (test cases with SHA-256).
    #[test]
    fn keys_are_expanded_as_the_rfc_shows() {
        let key = bytes("077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5");
        let output = Hash::Sha256.expand(&key, &[&bytes("f0f1f2f3"), &bytes("f4f5f6f7f8f9")], 42);
        assert_eq!(
            hex(&output),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
        );
        let extracted = Hash::Sha256.extract(&[0x0b; 22]);
        assert_eq!(hex(&extracted), "19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04");
        let output = Hash::Sha256.expand(&extracted, &[], 42);
        assert_eq!(
            hex(&output),
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"
        );
    }
}
