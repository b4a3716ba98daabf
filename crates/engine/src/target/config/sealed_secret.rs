//! Secrets and TLS keys that stand sealed in a configuration, which others may read: for one kind of key of one host of one
//! subsystem, and for nothing else.

use std::path::Path;

use secure_channel::{NONCE_BYTES, SealingKey, UnsealError, sealed_at_s};
use serde::{Deserialize, Deserializer, Serialize, de};
use zeroize::Zeroizing;

use crate::limits::SEALED_SECRET_BYTES_MAX;
use crate::{ring, secret_file};

/// A sealed secret, as Base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct SealedSecret(String);

impl<'de> Deserialize<'de> for SealedSecret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() || text.len() > SEALED_SECRET_BYTES_MAX {
            let what = format!("a sealed secret has 1 to {SEALED_SECRET_BYTES_MAX} letters");
            return Err(de::Error::custom(what));
        }
        Ok(Self(text))
    }
}

/// Purpose of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// The host's secret.
    Secret,
    /// The secret of the subsystem, for one host or for all.
    ControllerSecret,
    /// The key of a host's TLS connections.
    TlsKey,
}

impl KeyKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Secret, Self::ControllerSecret, Self::TlsKey];

    /// First part of the names of its settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Secret => "dhchap_secret",
            Self::ControllerSecret => "dhchap_ctrl_secret",
            Self::TlsKey => "tls_key",
        }
    }
}

/// Source of a host's key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeySource<'a> {
    File(&'a Path),
    /// `host` is empty where it is the subsystem's for all hosts.
    Sealed {
        sealed: &'a SealedSecret,
        kind: KeyKind,
        host: &'a str,
    },
}

impl SealedSecret {
    /// Seals a key of a host in a subsystem, as a file has it: of that, what counts. Without a host it is the subsystem's for all
    /// hosts.
    pub fn seal(key: &SealingKey, text: &str, kind: KeyKind, nqn: &str, host: &str) -> Self {
        // A file's comments have no end, and what is sealed is read with the whole configuration.
        let mut secret = Zeroizing::new(String::with_capacity(text.len()));
        for line in secret_file::lines(text).map(|(_, line)| line) {
            secret.push_str(line);
            secret.push('\n');
        }
        let mut nonce = [0; NONCE_BYTES];
        for bytes in nonce.chunks_mut(8) {
            bytes.copy_from_slice(&ring::random().to_ne_bytes()[..bytes.len()]);
        }
        let since = ring::wall_time().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self(key.seal(&secret, &[kind.name(), nqn, host], since.as_secs(), nonce))
    }

    /// Opens one that was sealed for the same.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn open(
        &self,
        key: &SealingKey,
        kind: KeyKind,
        nqn: &str,
        host: &str,
    ) -> Result<Zeroizing<String>, UnsealError> {
        key.open(&self.0, &[kind.name(), nqn, host])
    }

    /// Time of encryption.
    pub(crate) fn sealed_at(&self) -> Option<std::time::SystemTime> {
        let since = std::time::Duration::from_secs(sealed_at_s(&self.0)?);
        std::time::SystemTime::UNIX_EPOCH.checked_add(since)
    }
}
