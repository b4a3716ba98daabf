//! A secret or TLS key of a host that was replaced and is still accepted, as it is left to the new
//! process. The present ones are where the configuration says.

use serde::{Deserialize, Serialize};

use super::HandedSecret;

/// A replaced secret or TLS key. It is wiped when it is dropped, and never shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedFormerKey {
    /// NQN of the subsystem.
    pub subsystem: String,
    /// NQN of the host.
    pub host: String,
    /// Set for a TLS key.
    pub is_tls_key: bool,
    /// Hash function that transforms the key, by its number; 0 for none.
    pub hash: u8,
    /// The key.
    pub key: HandedSecret,
    /// For how long it is still accepted.
    pub remaining_ms: u64,
}
