//! A step of a TLS handshake: what the authentication worker is to compute for a connection, and what it has.

use std::fmt;
use std::sync::Arc;

use secure_channel::{ClientHello, Names};
use tls_handshake::{Established, Handshake, HandshakeError};

use crate::secure_stream::Protection;

/// A handshake whose key is known.
pub(crate) struct PendingHandshake {
    pub(crate) handshake: Handshake,
    /// What will protect the stream.
    pub(crate) protection: Protection,
    /// Its place among those that are under way, by which they are counted.
    pub(crate) _place: Arc<()>,
}

/// One step.
pub(crate) enum HandshakeStep {
    /// The host has said hello, in these bytes, to the port with this number.
    Hello { hello: Box<ClientHello>, bytes: Vec<u8>, port: u16 },
    /// It has sent this.
    Flight { pending: Box<PendingHandshake>, bytes: Vec<u8> },
}

/// A step that was done.
pub(crate) struct HandshakeDone {
    /// What the host gets.
    pub(crate) output: Vec<u8>,
    pub(crate) outcome: HandshakeOutcome,
}

/// What has come of a step.
pub(crate) enum HandshakeOutcome {
    /// The host is to go on.
    Continues(Box<PendingHandshake>),
    /// Both have the same key. `rest` has come behind the handshake.
    Established { established: Box<Established>, protection: Protection, rest: Vec<u8> },
    /// They have not. The names are those that the host has said, if it has.
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
