//! Jobs of the authentication worker.

use std::sync::Weak;

use authentication::ControllerSide;

use super::asker::Asker;
use super::handshake::HandshakeStep;
use crate::target::controller::Network;

/// Host that authenticates: its claimed name, and the network that it connects from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Party {
    pub(crate) host_nqn: String,
    pub(crate) network: Network,
}

/// A single step of an exchange.
pub(crate) enum Step {
    /// The host has sent this message.
    Take(Vec<u8>),
    /// The host asks for a message.
    Give,
}

/// Computation to perform.
pub(crate) enum Work {
    /// A step of an exchange, by the side that does it.
    Exchange(Box<ControllerSide>, Step),
    /// A step of a TLS handshake.
    Handshake(HandshakeStep),
}

impl Work {
    /// True for the first step of an authentication or handshake, which a host with failed attempts
    /// has to wait for.
    pub(crate) const fn begins(&self) -> bool {
        matches!(self, Self::Exchange(_, Step::Give)) || self.takes_place()
    }

    /// True for a step that starts a TLS handshake, if the host has a key.
    pub(crate) const fn takes_place(&self) -> bool {
        matches!(self, Self::Handshake(HandshakeStep::Hello { .. }))
    }
}

/// A step for a connection that waits for its result.
pub(crate) struct AuthenticationJob {
    pub(crate) asker: Asker,
    pub(crate) party: Party,
    pub(crate) work: Work,
    /// Dead once the connection no longer waits.
    pub(crate) is_wanted: Weak<()>,
}
