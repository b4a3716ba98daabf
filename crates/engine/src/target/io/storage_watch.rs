//! Time that operations spend at the storage: finds the oldest, and those that exceed the Command
//! Quiesce Time reported to their host, and may therefore take effect after it has moved to another
//! path. A reactor looks at its slots twice a second; an operation itself costs one stored time and
//! one comparison.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::commands::{Commands, QueueIdentity};
use super::context::Context;
use super::request::{Operation, Request};
use super::slots::Slots;
use crate::ring::Moment;
use crate::target::controller::Controller;
use crate::target::fabric::Fabric;
use crate::target::served::Namespace;
use crate::target::telemetry::{ReactorCounters, Stage};

/// Owner of a queue's operations, which outlives the queue.
#[derive(Clone, Debug)]
pub(crate) struct QueueOwner {
    pub(crate) controller: Arc<Controller>,
    pub(crate) counters: Arc<ReactorCounters>,
}

/// The oldest operation of each namespace, by its counters.
type Oldest = BTreeMap<(usize, u32), (Arc<ReactorCounters>, Moment)>;

/// Oldest operations of a reactor.
#[derive(Debug, Default)]
pub(crate) struct StorageWatch {
    /// Found by the look that is under way.
    oldest: Oldest,
    /// Found by the last look.
    reported: Oldest,
}

impl StorageWatch {
    /// Looks at the operations of one queue, which may be gone.
    pub(crate) fn look(&mut self, owner: &QueueOwner, slots: &mut Slots, fabric: &Fabric, now: Moment) {
        let quiesce = owner.quiesce();
        for request in slots.iter_mut() {
            let Some(&Operation { began, is_late, .. }) = request.operation() else { continue };
            let age = now.since(began);
            owner.controller.subsystem.quiesce.note(age);
            if age > quiesce && !is_late {
                request.set_late(true);
                owner.note_late(request, age, fabric, now);
            }
            let place = (Arc::as_ptr(&owner.counters) as usize, request.nsid);
            let oldest = self.oldest.entry(place).or_insert_with(|| (owner.counters.clone(), began));
            oldest.1 = oldest.1.min(began);
        }
    }

    /// Has looked at all queues that have operations: reports the oldest of each namespace.
    pub(crate) fn end_look(&mut self, fabric: &Fabric, now: Moment) {
        let before = std::mem::take(&mut self.reported);
        for ((_, nsid), (counters, since)) in &self.oldest {
            counters.set_oldest(*nsid, Some(*since));
        }
        for ((place, nsid), (counters, _)) in before {
            if !self.oldest.contains_key(&(place, nsid)) {
                counters.set_oldest(nsid, None);
            }
        }
        self.reported = std::mem::take(&mut self.oldest);
        fabric.end_lateness(now);
    }

    /// True if no operation has to be looked at again.
    pub(crate) fn is_idle(&self) -> bool {
        self.reported.is_empty()
    }
}

impl QueueOwner {
    /// Owner of a queue's commands.
    pub(crate) fn of(commands: &Commands) -> Self {
        let QueueIdentity { controller, counters, .. } = &commands.of;
        Self { controller: controller.clone(), counters: counters.clone() }
    }

    /// The Command Quiesce Time by which its host goes.
    fn quiesce(&self) -> Duration {
        self.controller.quiesce.get(&self.controller.subsystem.quiesce)
    }

    /// The operation of a slot has ended, after so long at the storage.
    #[cold]
    pub(crate) fn note_end(&self, request: &mut Request, took: Duration, fabric: &Fabric, now: Moment) {
        self.controller.subsystem.quiesce.note(took);
        if !request.operation().is_some_and(|operation| operation.is_late) {
            if took <= self.quiesce() {
                return;
            }
            // It was late between two looks.
            self.note_late(request, took, fabric, now);
        }
        request.set_late(false);
        if let Some(attachment) = request.attachment() {
            attachment.namespace.lateness.end(took, now);
        }
    }

    fn note_late(&self, request: &Request, age: Duration, fabric: &Fabric, now: Moment) {
        let Some(namespace) = request.attachment().map(|attachment| &attachment.namespace) else { return };
        self.counters.late(request.nsid, request.work.is_refused_after_failure());
        if !namespace.lateness.begin(now) {
            return;
        }
        let quiesce = self.quiesce();
        tracing::warn!(
            "namespace {nsid} of {nqn}: {command} from host {host} has been at {place} for {age:.1?}, longer than the command quiesce \
             time of {quiesce:.1?}; it may take effect after its host has moved to another path. Check the storage, or set a longer \
             command_quiesce_ms or command_quiesce = \"auto\"",
            nsid = namespace.nsid,
            nqn = namespace.nqn,
            command = request.work.name(),
            host = self.controller.host.nqn,
            place = namespace.backend.place(),
        );
        fabric.watch_lateness(namespace.clone());
    }
}

impl Commands {
    /// The storage has done with the command in a slot, which is in hand from now on.
    pub(super) fn end_operation(&mut self, index: u16, ctx: &Context<'_>) -> Option<Operation> {
        let age = self.slots.get(index)?.operation()?.age(ctx.now);
        if age > self.usual || self.slots.get(index)?.operation()?.is_late {
            self.note_long_operation(index, age, ctx);
        }
        let request = self.slots.at(index);
        request.went_on = ctx.now;
        request.times.add(Stage::Storage, age.as_nanos() as u64);
        self.slots.end_operation(index)
    }

    #[cold]
    fn note_long_operation(&mut self, index: u16, took: Duration, ctx: &Context<'_>) {
        let owner = QueueOwner::of(self);
        owner.note_end(self.slots.at(index), took, ctx.fabric, ctx.now);
        // What is neither the longest nor late needs no look.
        self.usual = owner.controller.subsystem.quiesce.longest().min(owner.quiesce());
    }
}

impl Fabric {
    /// Logs when these namespaces have no late operations left.
    fn end_lateness(&self, now: Moment) {
        if !self.has_lateness() {
            return;
        }
        self.forget_lateness(|namespace: &Namespace| {
            let Some((operations, longest)) = namespace.lateness.is_over(now) else { return false };
            tracing::info!(
                "namespace {nsid} of {nqn}: operations end within the command quiesce time again; {operations} did not, and the \
                 longest took {longest:.1?}",
                nsid = namespace.nsid,
                nqn = namespace.nqn,
            );
            true
        });
    }
}
