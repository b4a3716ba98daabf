//! TLS handshakes that succeeded, by what they came to.

use std::sync::atomic::{AtomicU64, Ordering};

use secure_channel::{Derivation, IdentityVersion, Suite};

use crate::secure_stream::Protection;

const KINDS: usize = Suite::ALL.len() * IdentityVersion::ALL.len() * Derivation::ALL.len();

/// Number of handshakes of each kind.
#[derive(Debug, Default)]
pub(crate) struct TlsHandshakes([AtomicU64; KINDS]);

/// Parameters of an established handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeKind {
    /// The cipher suite.
    pub suite: Suite,
    /// The version of the identity.
    pub identity: IdentityVersion,
    /// Derivation of the host's key.
    pub derivation: Derivation,
}

impl TlsHandshakes {
    /// Another one.
    pub(crate) fn count(&self, protection: &Protection) {
        let kind = HandshakeKind {
            suite: protection.suite,
            identity: protection.identity.version(),
            derivation: protection.derivation,
        };
        if let Some(at) = kinds().position(|other| other == kind) {
            self.0[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Kinds that have occurred, with their numbers.
    pub(crate) fn read(&self) -> Vec<(HandshakeKind, u64)> {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        kinds().zip(counts).filter(|(_, count)| *count > 0).collect()
    }
}

fn kinds() -> impl Iterator<Item = HandshakeKind> {
    Suite::ALL.into_iter().flat_map(|suite| {
        IdentityVersion::ALL.into_iter().flat_map(move |identity| {
            Derivation::ALL.into_iter().map(move |derivation| HandshakeKind { suite, identity, derivation })
        })
    })
}
