//! Resets of controllers that belong to another target, requested by a host here and carried out by
//! the gateway.

use std::fmt;
use std::sync::Arc;

use nvme::cross_reset::ControllerInstance;
use nvme::log_page::CrossResetStatus;

use super::mailboxes::Mailboxes;
use crate::observation::Observation;
use crate::ring::observe;
use crate::target::controller::{Controller, Notice};

/// Takes resets of controllers that another target has made; `false` when it has too many. It is called on a reactor, and
/// waits for nothing.
#[derive(Clone)]
pub struct PeerResets(pub Arc<TakeReset>);

/// Takes a reset, or says by `false` that it has too many.
pub type TakeReset = dyn Fn(PeerReset) -> bool + Send + Sync;

impl fmt::Debug for PeerResets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerResets")
    }
}

/// A host's request for the reset of another target's controller, answered when that can no longer
/// take effect.
#[derive(Debug)]
pub struct PeerReset {
    asked: Arc<Controller>,
    impacted: ControllerInstance,
    reactors: Arc<Mailboxes>,
}

/// A controller that its host has lost, as the target that was asked tells the one that has made it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LostController {
    /// The controller.
    pub instance: ControllerInstance,
    /// The name of its subsystem.
    pub subsystem: String,
    /// The name of the host that asks, whose controller it has to be.
    pub host_nqn: String,
    /// The identifier of that host.
    pub host_id: uuid::Uuid,
}

impl LostController {
    /// True if the host that has this controller asks for the reset.
    pub(crate) fn is_of(&self, controller: &Controller) -> bool {
        self.subsystem == controller.subsystem.nqn
            && self.host_nqn == controller.host.nqn
            && self.host_id.as_bytes() == &controller.host.id
    }
}

impl PeerReset {
    /// The wish of the host that uses the controller that was asked.
    pub(crate) const fn new(
        asked: Arc<Controller>,
        impacted: ControllerInstance,
        reactors: Arc<Mailboxes>,
    ) -> Self {
        Self { asked, impacted, reactors }
    }

    /// The controller that the host has lost.
    pub const fn controller(&self) -> ControllerInstance {
        self.impacted
    }

    /// The same with whose it has to be, for the target that has made it (`Target::reset_for_peer`).
    pub fn lost(&self) -> LostController {
        LostController {
            instance: self.impacted,
            subsystem: self.asked.subsystem.nqn.clone(),
            host_nqn: self.asked.host.nqn.clone(),
            host_id: uuid::Uuid::from_bytes(self.asked.host.id),
        }
    }

    /// Tells the host that nothing of the controller takes effect after anything that it does from now on; or that this
    /// cannot be brought about here, so that it has to wait for as long as the other target promised.
    pub fn end(self, is_at_rest: bool) {
        if is_at_rest {
            let ControllerInstance { controller_id, random_number, .. } = self.controller();
            observe(Observation::PeerRests { controller_id, random_number });
        }
        let status = if is_at_rest { CrossResetStatus::Successful } else { CrossResetStatus::Failed };
        if self.asked.state().cross_resets.end(&self.impacted, status) {
            self.reactors.notify(&self.asked, Notice::CrossControllerReset);
        }
    }
}
