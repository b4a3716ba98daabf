//! Which of several keys a host has: the one by which the binder in its ClientHello is made (RFC 8446, 4.2.11.2). Two keys may
//! have one identity: one of version 0 says nothing about the key.

use crate::{Alert, ClientHello, ExternalPsk, Hash, Suite};

/// Characters of an identity that are shown.
const SHOWN_CHARACTERS: usize = 300;
/// Binder label of keys that were not made by an earlier handshake.
const EXTERNAL: &str = "ext binder";

/// Why no key is chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// A host that knows older versions alone.
    #[error("the host does not offer TLS 1.3")]
    Version,
    /// No PSK: a host that expects certificates.
    #[error("the host offers no PSK")]
    NoPsk,
    /// PSKs without a word on how to use them.
    #[error("the host does not say how its PSK is to be used (psk_key_exchange_modes)")]
    NoModes,
    /// Only without a key exchange, which NVMe forbids.
    #[error("the host wants its PSK without a key exchange (psk_ke alone), which NVMe/TCP does not have")]
    NoDhe,
    /// No identity that is known here.
    #[error("no key has identity `{0}`")]
    Identity(String),
    /// A known identity whose suite the host does not offer.
    #[error("the host has identity `{0}`, and does not offer {1}")]
    Suite(String, Suite),
    /// A known identity with another key.
    #[error("the host has another key of identity `{0}`")]
    Binder(String),
    /// A known identity, proved with a hash function that is not its suite's. GnuTLS does so with
    /// all keys unless the program names the function, as tlshd 1.0.0 does not.
    #[error(
        "the host proves identity `{0}` with another hash function than that of {1}, as tlshd does whose GnuTLS knows SHA-256 \
         alone: give the host a key of SHA-256, NVMeTLSkey-1:01:"
    )]
    BinderHash(String, Suite),
}

impl ChoiceError {
    /// The alert that the host is due.
    pub const fn alert(&self) -> Alert {
        match self {
            Self::Version => Alert::PROTOCOL_VERSION,
            Self::NoPsk | Self::NoDhe | Self::Suite(..) => Alert::HANDSHAKE_FAILURE,
            Self::NoModes => Alert::MISSING_EXTENSION,
            Self::Identity(_) => Alert::UNKNOWN_PSK_IDENTITY,
            Self::Binder(_) | Self::BinderHash(..) => Alert::DECRYPT_ERROR,
        }
    }
}

impl ClientHello {
    /// Index of the host's key among these. The first that is right is chosen, in the order of the
    /// host.
    ///
    /// # Errors
    /// When the host has none of them, or nothing that NVMe/TCP allows.
    pub fn choose<K: ExternalPsk>(&self, keys: &[K]) -> Result<usize, ChoiceError> {
        let shown = || self.identities().next().map(shown);
        let Some(first) = shown() else {
            return Err(if self.has_version() { ChoiceError::NoPsk } else { ChoiceError::Version });
        };
        match (self.has_version(), self.has_dhe()) {
            (false, _) => return Err(ChoiceError::Version),
            (true, None) => return Err(ChoiceError::NoModes),
            (true, Some(false)) => return Err(ChoiceError::NoDhe),
            (true, Some(true)) => {}
        }
        let hashes = Hash::ALL.map(|hash| (hash, hash.digest(self.signed())));
        let mut error = ChoiceError::Identity(first);
        for (identity, binder) in self.offers() {
            for (place, key) in keys.iter().enumerate() {
                if key.identity_bytes() != identity {
                    continue;
                } else if !self.suites().contains(&key.suite()) {
                    error = ChoiceError::Suite(self::shown(identity), key.suite());
                    continue;
                }
                let hash = key.suite().hash();
                let transcript =
                    hashes.iter().find(|(other, _)| *other == hash).map(|(_, digest)| &digest[..]);
                if transcript
                    .is_some_and(|transcript| is_made_by(hash, key.reveal(), transcript, binder, EXTERNAL))
                {
                    return Ok(place);
                }
                error = if binder.len() == hash.length() {
                    ChoiceError::Binder(self::shown(identity))
                } else {
                    ChoiceError::BinderHash(self::shown(identity), key.suite())
                };
            }
        }
        Err(error)
    }
}

/// True if a binder was made with this key, in a time that does not depend on where it differs.
pub(crate) fn is_made_by(hash: Hash, key: &[u8], transcript: &[u8], binder: &[u8], label: &str) -> bool {
    let early_secret = hash.extract(key);
    let binder_key = hash.expand_label(&early_secret, label, &hash.digest(&[]), hash.length());
    let finished_key = hash.expand_label(&binder_key, "finished", &[], hash.length());
    hash.verifies(&finished_key, &[transcript], binder)
}

/// An identity in a line of the log, of whatever bytes it is.
fn shown(identity: &[u8]) -> String {
    String::from_utf8_lossy(identity).escape_debug().take(SHOWN_CHARACTERS).collect()
}
