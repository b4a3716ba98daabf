//! Forgetting connections that a gateway has closed, so that the next owner of its groups does not have to shut out all of them. It
//! shuts them out itself first: what they have sent may lie in an OSD yet.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use engine::limits::{GATEWAY_CLOSED_FENCE_S, GATEWAY_CLOSED_MAX};
use engine::ring::{Vital, thread};
use engine::target::Target;

use super::member::{Update, update};
use super::membership::Membership;
use super::store::StoreError;

impl Membership {
    /// Forgets the connections that are closed when they are many, on a thread of its own.
    pub(super) fn prune(self: &Arc<Self>, target: &Arc<Target>) {
        let is_worth_a_look = {
            let seen = self.seen();
            seen.state.addresses(&seen.me).len() > GATEWAY_CLOSED_MAX
        };
        // What another process of this gateway has open is written down, too.
        if !is_worth_a_look || self.duty.is_offered() || self.is_pruning.swap(true, Ordering::AcqRel) {
            return;
        }
        let (membership, target) = (self.clone(), target.clone());
        let work = move || {
            let _vital = Vital::begin();
            if let Err(error) = membership.forget_closed(&target) {
                tracing::warn!(
                    reason = error.to_string(),
                    "cannot remove closed Ceph connections from the group state; retrying"
                );
            }
            membership.is_pruning.store(false, Ordering::Release);
        };
        if let Err(error) = thread::Builder::new().name("gateway-prune".to_owned()).spawn(work) {
            tracing::warn!(%error, "cannot start a thread to remove closed Ceph connections; retrying");
            self.is_pruning.store(false, Ordering::Release);
        }
    }

    fn forget_closed(&self, target: &Target) -> Result<(), StoreError> {
        let (me, mut closed) = {
            let seen = self.seen();
            let addresses: BTreeSet<String> = seen.state.addresses(&seen.me).iter().cloned().collect();
            (seen.me.clone(), addresses)
        };
        // It waits until open requests have ended: their connection is either among these then, or was not noted before.
        for open in target.cluster_addresses()? {
            closed.remove(&open);
        }
        if closed.len() <= GATEWAY_CLOSED_MAX {
            return Ok(());
        }
        // The guard's last holder may be starting a new epoch: its former connections are not closed
        // then, but stay on the blocklist for longer.
        drop(self.serving_guard());
        if self.seen().me != me {
            return Ok(());
        }
        self.store().fence(&closed, GATEWAY_CLOSED_FENCE_S)?;
        tracing::info!("removing {} closed Ceph connections from the group state", closed.len());
        let (state, ()) = update(self.store(), |state| {
            let is_changed = state.forget_addresses(&me, &closed);
            Ok(if is_changed { Update::Write(()) } else { Update::Done(()) })
        })?;
        self.seen().learn(state);
        Ok(())
    }
}
