//! A TLS key that has come out of a host's authentication (secure channel concatenation). It is never shown nor written anywhere.

use authentication::{Authenticated, GeneratedPsk, Hash};
use secure_channel::{IdentityVersion, InputPsk, Names, Suite, TlsPsk};

/// A TLS key that has come out of an authentication.
#[derive(Debug)]
pub(crate) struct GeneratedKey {
    pub(crate) psk: TlsPsk,
    /// Parameters of the host's authentication.
    pub(crate) proof: Authenticated,
}

impl GeneratedKey {
    /// Of the host and the subsystem with these names; `None` where they or the hash function go with no TLS.
    pub(crate) fn new(names: &Names, psk: &GeneratedPsk, proof: Authenticated) -> Option<Self> {
        let suite = match psk.hash() {
            Hash::Sha256 => Suite::Aes128Gcm,
            Hash::Sha384 => Suite::Aes256Gcm,
            Hash::Sha512 => return None,
        };
        let psk = InputPsk::generated(psk.reveal().clone()).tls_psk(names, suite, IdentityVersion::One);
        Some(Self { psk: psk.ok()?, proof })
    }
}
