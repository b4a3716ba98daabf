//! The TLS key of an association that comes out of its authentication (secure channel
//! concatenation): made by its admin queue, first in clear and then by each renewal, and used by
//! all its queues. It is in memory alone.

use std::sync::{Mutex, PoisonError};

use authentication::{GeneratedPsk, Hash};
use secure_channel::{IdentityError, IdentityVersion, InputPsk, Names, Suite, TlsPsk};

/// Reason for which no TLS key comes out of an authentication.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConcatKeyError {
    /// Hash function of the authentication that TLS does not have.
    #[error("no cipher suite goes with SHA-512")]
    NoSuite,
    /// Names that do not fit into the key's identity.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

/// The TLS key of an association, or the place for it.
#[derive(Debug, Default)]
pub struct ConcatKey(Mutex<Option<TlsPsk>>);

impl ConcatKey {
    /// The key, if it is there already.
    pub(super) fn get(&self) -> Option<TlsPsk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the key that has come out of an authentication, in place of the one before it.
    pub(super) fn set(&self, names: &Names, psk: &GeneratedPsk) -> Result<(), ConcatKeyError> {
        let suite = match psk.hash() {
            Hash::Sha256 => Suite::Aes128Gcm,
            Hash::Sha384 => Suite::Aes256Gcm,
            Hash::Sha512 => return Err(ConcatKeyError::NoSuite),
        };
        let input = InputPsk::generated(psk.reveal().clone());
        let psk = input.tls_psk(names, suite, IdentityVersion::One)?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(psk);
        Ok(())
    }
}
