//! What the authentication worker is to compute, and for whom.

use std::sync::Weak;

use authentication::ControllerSide;

use super::asker::Asker;
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

/// A step that somebody waits for.
pub(crate) struct AuthenticationJob {
    pub(crate) asker: Asker,
    pub(crate) party: Party,
    pub(crate) side: Box<ControllerSide>,
    pub(crate) step: Step,
    /// There as long as somebody waits.
    pub(crate) is_wanted: Weak<()>,
}
