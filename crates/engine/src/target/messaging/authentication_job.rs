//! Jobs of the authentication worker.

use std::sync::Weak;
use std::time::Duration;

use authentication::{ControllerSide, Group};

use super::asker::Asker;
use super::handshake::HandshakeStep;
use crate::target::controller::Network;

/// Microseconds of a step without public-key work: messages, hashes, and their way.
const STEP_US: u64 = 50;
/// Microseconds of a TLS hello: a key exchange on an elliptic curve, and the library's state.
const HELLO_US: u64 = 500;

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
    /// Microseconds of the worker's thread that it takes, about.
    pub(crate) fn cost_us(&self) -> u64 {
        match self {
            Self::Exchange(side, _) => STEP_US + side.next_group().map_or(0, Group::cost_us),
            Self::Handshake(HandshakeStep::Hello { .. }) => HELLO_US,
            Self::Handshake(HandshakeStep::Flight { .. }) => STEP_US,
        }
    }

    /// True for a step that starts a TLS handshake, if the host has a key.
    pub(crate) const fn takes_permit(&self) -> bool {
        matches!(self, Self::Handshake(HandshakeStep::Hello { .. }))
    }
}

/// A step for a connection that waits for its result.
pub(crate) struct AuthenticationJob {
    pub(crate) asker: Asker,
    /// Network that its host comes from.
    pub(crate) network: Network,
    pub(crate) work: Work,
    /// Longest time by which its answer is delayed, if it is a refusal.
    pub(crate) delay_max: Duration,
    /// Dead once the connection no longer waits.
    pub(crate) is_wanted: Weak<()>,
}
