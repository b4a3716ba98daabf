//! Key of a handshake, in the library's form.

use std::fmt;

use secure_channel::{ExternalPsk, Suite};
use zeroize::Zeroizing;

/// Bytes of a key for the library. They are wiped on drop, and never shown.
#[derive(Clone)]
pub(crate) struct Key {
    pub(crate) identity: Vec<u8>,
    pub(crate) suite: Suite,
    pub(crate) secret: Zeroizing<Vec<u8>>,
}

impl Key {
    pub(crate) fn of(key: &impl ExternalPsk) -> Self {
        let (identity, suite) = (key.identity_bytes(), key.suite());
        Self { identity, suite, secret: Zeroizing::new(key.reveal().to_vec()) }
    }
}

impl ExternalPsk for Key {
    fn identity_bytes(&self) -> Vec<u8> {
        self.identity.clone()
    }

    fn suite(&self) -> Suite {
        self.suite
    }

    fn reveal(&self) -> &[u8] {
        &self.secret
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}, {})", self.identity.escape_ascii(), self.suite)
    }
}
