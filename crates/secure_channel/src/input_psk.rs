//! From a retained or generated PSK to the PSK of a TLS handshake (TP8011), by the specification's derivation and by the one
//! that libnvme had before it followed the specification.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::hash::LABEL_PREFIX;
use crate::{Hash, IdentityError, IdentityVersion, Names, Origin, PskIdentity, Suite};

/// The longest context of a label: one byte counts it.
const CONTEXT_BYTES_MAX: usize = 255;

/// Form of the labels by which keys are derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Derivation {
    /// As RFC 8446, 7.1 has it.
    Standard,
    /// As libnvme did until 2025, and hence most installed hosts do: the length is little-endian, and no bytes count label and
    /// context.
    Compat,
}

impl Derivation {
    /// Name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Compat => "compat",
        }
    }

    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Standard, Self::Compat];

    pub(crate) fn expand(
        self,
        hash: Hash,
        key: &[u8],
        label: &str,
        context: &[u8],
        length: usize,
    ) -> Zeroizing<Vec<u8>> {
        match self {
            Self::Standard => hash.expand_label(key, label, context, length),
            Self::Compat => {
                let length_field = (length as u16).to_le_bytes();
                let info: [&[u8]; 4] = [&length_field, LABEL_PREFIX.as_bytes(), label.as_bytes(), context];
                hash.expand(key, &info, length)
            }
        }
    }
}

impl fmt::Display for Derivation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A retained or generated PSK. It is wiped when it is dropped, and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct InputPsk {
    bytes: Zeroizing<Vec<u8>>,
    origin: Origin,
    derivation: Derivation,
}

impl InputPsk {
    pub(crate) const fn retained(bytes: Zeroizing<Vec<u8>>, derivation: Derivation) -> Self {
        Self { bytes, origin: Origin::Retained, derivation }
    }

    /// The PSK that an authentication has generated (Base 8.3.5.5.9). There is no other derivation of these: the hosts that
    /// derive wrongly cannot concatenate.
    pub const fn generated(bytes: Zeroizing<Vec<u8>>) -> Self {
        Self { bytes, origin: Origin::Generated, derivation: Derivation::Standard }
    }

    /// Form of the labels by which its keys are derived.
    pub const fn derivation(&self) -> Derivation {
        self.derivation
    }

    /// The PSK of a handshake of these two with this suite, and its identity.
    ///
    /// # Errors
    /// When the names are too long for an identity of version 0.
    pub fn tls_psk(
        &self,
        names: &Names,
        suite: Suite,
        version: IdentityVersion,
    ) -> Result<TlsPsk, IdentityError> {
        let hash = suite.hash();
        let digest = match version {
            IdentityVersion::Zero => None,
            IdentityVersion::One => Some(self.digest(names, hash)),
        };
        let identity = PskIdentity { origin: self.origin, suite, names: names.clone(), digest };
        let context = match &identity.digest {
            None => identity.to_string(),
            Some(digest) => format!("{:02} {digest}", hash.id()),
        };
        if context.len() > CONTEXT_BYTES_MAX {
            return Err(IdentityError::TooLong(context.len()));
        }
        let extracted = hash.extract(&self.bytes);
        let context = context.as_bytes();
        let bytes = self.derivation.expand(hash, &extracted, "nvme-tls-psk", context, hash.length());
        Ok(TlsPsk { identity, bytes, derivation: self.derivation })
    }

    /// Digest of the key for an identity of version 1.
    fn digest(&self, names: &Names, hash: Hash) -> String {
        let (host, subsystem) = (names.host_nqn().as_bytes(), names.subsystem_nqn().as_bytes());
        STANDARD.encode(&*hash.hmac(&self.bytes, &[host, b" ", subsystem, b" ", b"NVMe-over-Fabrics"]))
    }
}

impl fmt::Debug for InputPsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, derivation, .. } = self;
        f.debug_struct("InputPsk")
            .field("origin", origin)
            .field("derivation", derivation)
            .finish_non_exhaustive()
    }
}

/// The PSK of a handshake: what both ends have to have the same of. It is wiped when it is dropped, and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsPsk {
    identity: PskIdentity,
    bytes: Zeroizing<Vec<u8>>,
    derivation: Derivation,
}

impl TlsPsk {
    /// The one that another process had, if it is as long as the suite's are.
    pub fn restored(identity: PskIdentity, bytes: &[u8], derivation: Derivation) -> Option<Self> {
        let is_whole = bytes.len() == identity.suite.hash().length();
        is_whole.then(|| Self { identity, bytes: Zeroizing::new(bytes.to_vec()), derivation })
    }

    /// Identity of the key.
    pub const fn identity(&self) -> &PskIdentity {
        &self.identity
    }

    /// The suite that it is for.
    pub const fn suite(&self) -> Suite {
        self.identity.suite
    }

    /// Derivation of the key.
    pub const fn derivation(&self) -> Derivation {
        self.derivation
    }

    /// The key itself, for the library that does the handshake.
    pub fn reveal(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for TlsPsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsPsk({}, {})", self.identity, self.derivation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConfiguredPsk;
    use crate::tests::hex;

    /// Output of libnvme 1.16.2 for eight keys: of each with both derivations the retained PSK, and
    /// with both versions the TLS PSK and the identity. A program of a few lines that includes its
    /// `src/nvme/linux.c` printed them, by `nvme_export_tls_key_versioned`, `derive_retained_key`,
    /// `derive_retained_key_compat` and `derive_nvme_keys`:
    ///
    /// ```text
    /// pip download --no-binary :all: --no-deps libnvme==1.16.2; meson setup .build -Dopenssl=enabled; ninja -C .build
    /// ```
    const LIBNVME: &str = include_str!("libnvme_vectors.txt");

    #[test]
    fn keys_are_derived_as_libnvme_derives_them() {
        let (mut key, mut derivation, mut retained) = (None, Derivation::Standard, None);
        let mut count = 0;
        for line in LIBNVME.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[0] {
                "key" => {
                    let psk: ConfiguredPsk = words[3].parse().unwrap();
                    assert_eq!((*psk.reveal()).as_str(), words[3]);
                    assert_eq!(psk.length().to_string(), words[2]);
                    key = Some((psk, Names::new(words[4], words[5]).unwrap()));
                }
                "retained" => {
                    let (psk, names) = key.as_ref().unwrap();
                    derivation = if words[1] == "rfc" { Derivation::Standard } else { Derivation::Compat };
                    let made = psk.retained(names, derivation);
                    assert_eq!(hex(&made.bytes), words[2], "{psk:?} {derivation}");
                    retained = Some(made);
                }
                _ => {
                    let (psk, names) = key.as_ref().unwrap();
                    let version = IdentityVersion::ALL[usize::from(words[2] == "1")];
                    let made = retained.as_ref().unwrap().tls_psk(names, psk.usual_suite(), version).unwrap();
                    assert_eq!(hex(made.reveal()), words[3], "{psk:?} {derivation} {version:?}");
                    assert_eq!(made.identity().to_string(), words[4..].join(" "));
                    assert_eq!(words[4..].join(" ").parse(), Ok(made.identity().clone()));
                    count += 1;
                }
            }
        }
        assert_eq!(count, 32);
    }

    /// A key of 32 bytes with the suite of the longer hash, which libnvme never makes:
    /// `openssl kdf -keylen 48 -kdfopt digest:SHA384 -kdfopt hexkey:… -kdfopt hexinfo:… HKDF` of OpenSSL 3.0.19.
    #[test]
    fn a_short_key_goes_with_the_long_suite() {
        let key: Vec<u8> = (0..32).collect();
        let names = Names::new("nqn.host", "nqn.subsystem").unwrap();
        let input = ConfiguredPsk::new(&key, None).unwrap().retained(&names, Derivation::Standard);
        let psk = input.tls_psk(&names, Suite::Aes256Gcm, IdentityVersion::Zero).unwrap();
        assert_eq!(hex(psk.reveal()), OPENSSL_384);
    }

    const OPENSSL_384: &str =
        "76d4453cbda28cd717832461a4f701edaa58472f723b6cd2def9144fed410756f46b6c7ff5c55bb21ebb7add1f86606f";

    #[test]
    fn names_that_are_too_long_for_version_0_are_said_to_be() {
        let names = Names::new(&"h".repeat(123), &"s".repeat(123)).unwrap();
        let input = InputPsk::generated(Zeroizing::new(vec![1; 32]));
        let error = input.tls_psk(&names, Suite::Aes128Gcm, IdentityVersion::Zero).unwrap_err();
        assert_eq!(error, IdentityError::TooLong(256));
        let names = Names::new(&"h".repeat(123), &"s".repeat(122)).unwrap();
        assert!(input.tls_psk(&names, Suite::Aes128Gcm, IdentityVersion::Zero).is_ok());
        let names = Names::new(&"h".repeat(223), &"s".repeat(223)).unwrap();
        assert!(input.tls_psk(&names, Suite::Aes256Gcm, IdentityVersion::One).is_ok());
    }

    #[test]
    fn no_key_is_shown() {
        let names = Names::new("nqn.host", "nqn.subsystem").unwrap();
        let input = InputPsk::generated(Zeroizing::new(vec![0xab; 32]));
        let psk = input.tls_psk(&names, Suite::Aes128Gcm, IdentityVersion::One).unwrap();
        let shown = format!("{input:?} {psk:?}");
        let first = psk.reveal()[0];
        assert!(!shown.contains("171, 171") && !shown.contains(&format!("{first}, ")), "{shown}");
        assert!(psk.identity().to_string().starts_with("NVMe1G01 nqn.host nqn.subsystem "));
    }
}
