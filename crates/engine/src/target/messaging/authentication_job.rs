//! What the authentication worker is to compute, and for whom.

use std::sync::Weak;

use authentication::ControllerSide;

use super::asker::Asker;
use super::handshake::HandshakeStep;
use crate::target::controller::Network;

/// Who authenticates: a name, which is not proved yet, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Party {
    pub(crate) host_nqn: String,
    pub(crate) network: Network,
}

/// One step of an exchange.
pub(crate) enum Step {
    /// The host has sent this message.
    Take(Vec<u8>),
    /// The host asks for a message.
    Give,
}

/// What is to be computed.
pub(crate) enum Work {
    /// A step of an exchange, by the side that does it.
    Exchange(Box<ControllerSide>, Step),
    /// A step of a TLS handshake.
    Handshake(HandshakeStep),
}

impl Work {
    /// Whether it is what begins the work, and what a host that guesses has to wait for.
    pub(crate) const fn begins(&self) -> bool {
        matches!(self, Self::Exchange(_, Step::Give)) || self.takes_place()
    }

    /// Whether a handshake of TLS is under way behind it, if the host has a key.
    pub(crate) const fn takes_place(&self) -> bool {
        matches!(self, Self::Handshake(HandshakeStep::Hello { .. }))
    }
}

/// A step that somebody waits for.
pub(crate) struct AuthenticationJob {
    pub(crate) asker: Asker,
    pub(crate) party: Party,
    pub(crate) work: Work,
    /// There as long as somebody waits.
    pub(crate) is_wanted: Weak<()>,
}
