//! Steps of a TLS handshake, as jobs of the authentication worker, and their results.

use std::fmt;
use std::sync::Arc;

use secure_channel::{ClientHello, Names};
use tls_handshake::{Established, Handshake, HandshakeError};

use crate::secure_stream::Protection;

/// A handshake whose key is known.
pub(crate) struct PendingHandshake {
    pub(crate) handshake: Handshake,
    /// Protection of the established stream.
    pub(crate) protection: Protection,
    /// Permit of the handshake, counted while it is under way.
    pub(crate) _permit: Arc<HandshakePermit>,
}

/// Permit of one handshake, which holds a clone of its network's `Arc`.
pub(crate) struct HandshakePermit {
    pub(crate) _network: Arc<()>,
}

/// A single step of a handshake.
pub(crate) enum HandshakeStep {
    /// The host has said hello, in these bytes, to the port with this number.
    Hello { hello: Box<ClientHello>, bytes: Vec<u8>, port: u16 },
    /// The host has sent a further flight of messages.
    Flight { pending: Box<PendingHandshake>, bytes: Vec<u8> },
}

/// A step that was done.
pub(crate) struct HandshakeDone {
    /// Bytes to send to the host.
    pub(crate) output: Vec<u8>,
    pub(crate) outcome: HandshakeOutcome,
}

/// Result of a step.
pub(crate) enum HandshakeOutcome {
    /// The host is to go on.
    Continues(Box<PendingHandshake>),
    /// Both have the same key. `rest` has come behind the handshake.
    Established { established: Box<Established>, protection: Protection, rest: Vec<u8> },
    /// The handshake has failed. The names are those the host has presented, if any.
    Failed { error: HandshakeError, names: Option<Names> },
}

impl fmt::Debug for HandshakeDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.outcome {
            HandshakeOutcome::Continues(_) => "HandshakeDone::Continues",
            HandshakeOutcome::Established { .. } => "HandshakeDone::Established",
            HandshakeOutcome::Failed { .. } => "HandshakeDone::Failed",
        })
    }
}
