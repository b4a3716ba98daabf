//! Epochs of a gateway: the start of a new one, and the end in one in which it cannot give anything
//! away. The reasons are decided elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use engine::ceph::late_operations;
use engine::target::Target;

use super::decision::Standing;
use super::local_fabric::listeners;
use super::member::{Update, register, update};
use super::membership::{Membership, Progress};
use super::serving::Serving;
use super::state::Owner;

impl Membership {
    /// Starts another epoch after the others have given this one up, its hosts were sent to other
    /// gateways, or commands may still be executed late.
    pub(super) fn come_back(
        self: &Arc<Self>,
        serving: &mut Serving,
        target: &Arc<Target>,
        next_owners: &BTreeMap<u32, Owner>,
    ) -> Progress {
        if self.is_leaving.load(Ordering::Acquire) {
            self.give_up(serving, target, next_owners);
            self.seen().standing = Standing::Left;
            return Progress::Over;
        }
        // Until it is another epoch: what it forgets now it would use again after a register that fails.
        self.has_doubt.store(true, Ordering::Release);
        let name = self.name();
        let is_given_up = !self.seen().is_alive();
        let reason = match (is_given_up, target.is_refused()) {
            (true, _) => "the other gateways have declared it dead",
            (false, true) => "its connections were put on the blocklist from outside the group",
            (false, false) => "it has commands of unknown fate",
        };
        tracing::warn!(group = %self.spec(), name, reason, "this gateway starts a new epoch");
        // Close, then forget the connections, then register: once it is registered it may be given groups, and must have
        // nothing left that could write by the connections others have put on the blocklist.
        serving.close(target);
        target.forget_cluster_connections();
        let mut tried = self.seen().tried.clone();
        let listeners = listeners(&target.config().ports);
        let begun = register(self.store(), &name, &listeners, (Some(self.number()), next_owners), &mut tried);
        self.seen().tried = tried;
        match begun {
            Ok((state, None)) => {
                // It was removed. With another number its controllers would have identifiers that are another gateway's.
                self.seen().learn(state);
                Progress::Again
            }
            Ok((state, Some((me, _)))) => {
                let mut seen = self.seen();
                (seen.me, seen.beaten_ms, seen.count) = (me, None, 0);
                seen.tried.clear();
                seen.late_before = late_operations();
                self.has_doubt.store(false, Ordering::Release);
                seen.learn(state);
                drop(seen);
                // Former controllers end before others learn of this epoch: nothing is served until they have.
                self.end_former_controllers(target);
                self.tell();
                self.beat();
                Progress::Again
            }
            Err(error) => {
                tracing::warn!(%error, "cannot start a new epoch; retrying");
                Progress::Rest
            }
        }
    }

    /// Ends without being able to give anything away as it is: others put its connections on the blocklist, and do not first wait
    /// for its lease to end.
    fn give_up(&self, serving: &mut Serving, target: &Target, next_owners: &BTreeMap<u32, Owner>) {
        tracing::warn!(
            "commands on images have taken too long: other gateways take over after they have put this gateway's connections on the blocklist"
        );
        serving.close(target);
        target.forget_cluster_connections();
        let me = self.seen().me.clone();
        let updated = update(self.store(), |state| {
            if !state.is_alive(&me) {
                return Ok(Update::Done(()));
            }
            state.bury(&me.gateway, |state, number| {
                next_owners.get(&number).filter(|next_owner| state.is_alive(next_owner)).cloned()
            });
            Ok(Update::Write(()))
        });
        match updated {
            Ok((state, ())) => self.seen().learn(state),
            Err(error) => {
                tracing::warn!(%error, "cannot report the end of this gateway; others take over when its lease has expired");
            }
        }
        self.tell();
    }

    /// Ends the controllers of the former epoch, which others report to hosts as at rest: a write that comes
    /// late, or was held back, must find no image again. Nothing is served before.
    fn end_former_controllers(self: &Arc<Self>, target: &Target) {
        self.is_beginning.store(true, Ordering::Release);
        let membership = Arc::downgrade(self);
        target.end_all_controllers(self.tag(), move || {
            if let Some(membership) = membership.upgrade() {
                membership.is_beginning.store(false, Ordering::Release);
                membership.wake();
            }
        });
    }
}
