//! Responses: what proves that one side has a secret (Base 8.3.5.5.6).

use zeroize::Zeroizing;

use crate::{Concatenation, Hash, Secret};

/// Inputs of a response.
pub(crate) struct Question<'a> {
    pub(crate) hash: Hash,
    /// The challenge value as it was sent.
    pub(crate) challenge: &'a [u8],
    /// The hash of what the key exchange gave, where there was one.
    pub(crate) session_key: Option<&'a [u8]>,
    pub(crate) sequence: u32,
    pub(crate) transaction: u16,
    /// TLS key that the exchange is to generate, if any.
    pub(crate) concatenation: Concatenation,
    /// The one that responds.
    pub(crate) role: Role,
    pub(crate) host_nqn: &'a str,
    pub(crate) subsystem_nqn: &'a str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Host,
    Controller,
}

impl Question<'_> {
    /// The response of who has this secret.
    pub(crate) fn response(&self, secret: &Secret) -> Vec<u8> {
        self.over(|hash, parts| hash.hmac(&self.key(secret), parts).to_vec())
    }

    /// True if the response was computed with this secret.
    pub(crate) fn is_answered(&self, secret: &Secret, response: &[u8]) -> bool {
        self.over(|hash, parts| hash.verifies(&self.key(secret), parts, response))
    }

    fn key(&self, secret: &Secret) -> Zeroizing<Vec<u8>> {
        secret.key(if self.role == Role::Host { self.host_nqn } else { self.subsystem_nqn })
    }

    fn over<T>(&self, compute: impl FnOnce(Hash, &[&[u8]]) -> T) -> T {
        let augmented = self.session_key.map(|key| self.hash.hmac(key, &[self.challenge]));
        let (sequence, transaction) = (self.sequence.to_le_bytes(), self.transaction.to_le_bytes());
        let (host, subsystem) = (self.host_nqn.as_bytes(), self.subsystem_nqn.as_bytes());
        let (role, own, other): (&[u8], _, _) = match self.role {
            Role::Host => (b"HostHost", host, subsystem),
            Role::Controller => (b"Controller", subsystem, host),
        };
        let parts = [
            augmented.as_ref().map_or(self.challenge, |augmented| augmented.as_slice()),
            &sequence,
            &transaction,
            &[self.concatenation.id()],
            role,
            own,
            &[0],
            other,
        ];
        compute(self.hash, &parts)
    }
}
