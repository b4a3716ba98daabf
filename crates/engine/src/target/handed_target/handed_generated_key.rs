//! A TLS key that has come out of a host's authentication (secure channel concatenation), as it is
//! left to the new process.

use serde::{Deserialize, Serialize};

use super::{HandedProof, HandedSecret};

/// A TLS key. It is wiped when it is dropped, and never shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedGeneratedKey {
    /// The identity that its host comes with.
    pub identity: String,
    /// The key.
    pub secret: HandedSecret,
    /// Parameters of the host's authentication.
    pub proof: HandedProof,
    /// For how long it is accepted although no association uses it.
    pub remaining_ms: u64,
}
