//! Displacement of controllers whose hosts have not proved their names.

use std::sync::Arc;

use uuid::Uuid;

use super::fabric::Fabric;
use crate::target::controller::Controller;
use crate::target::served::Host;

impl Fabric {
    /// Ends a controller of a host that has not proved its name, since one that has proved its own comes with the same HOSTID.
    pub(super) fn displace(&self, controller: &Arc<Controller>, by: &str) {
        if let Some(times) = self.refusals.count_displaced() {
            let (Host { nqn, id, .. }, subsystem) = (&controller.host, &controller.subsystem.nqn);
            let (id, controller) = (Uuid::from_bytes(*id), controller.id);
            tracing::warn!(
                host = nqn,
                controller,
                subsystem,
                times,
                "Ended a controller: HOSTID {id} is used by {by}, which has proved its name, and this host has not; give each \
                 host its own HOSTID"
            );
        }
        self.end_controller(controller);
    }
}
