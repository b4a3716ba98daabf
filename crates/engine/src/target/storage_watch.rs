//! How long operations are at the storage: which is the oldest, and which outlive the Command Quiesce Time that their host was
//! told, so that they may take effect after it has gone elsewhere. A reactor looks at its slots twice a second; an operation
//! itself costs one time that is written down, and one comparison.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::connection::{Connection, Session};
use super::controller::Controller;
use super::counters::ReactorCounters;
use super::fabric::Fabric;
use super::namespace::Namespace;
use super::slot::{Slot, Slots};
use crate::limits::LATE_EPISODE_QUIET_MS;
use crate::ring::Moment;

/// Whose operations a queue's are, also when nothing but them is left of it.
#[derive(Clone, Debug)]
pub(super) struct QueueOwner {
    pub(super) controller: Arc<Controller>,
    pub(super) counters: Arc<ReactorCounters>,
}

/// Operations of a namespace that outlive the Command Quiesce Time: told once when they begin to, and once when no more do.
#[derive(Debug, Default)]
pub(super) struct Lateness {
    is_told: AtomicBool,
    under_way: AtomicU64,
    operations: AtomicU64,
    longest_ns: AtomicU64,
    /// When one was late last.
    last_ns: AtomicU64,
}

impl Lateness {
    /// An operation is late from now on; whether it is the first.
    fn begin(&self, now: Moment) -> bool {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        self.operations.fetch_add(1, Ordering::Relaxed);
        self.last_ns.fetch_max(now.0, Ordering::Relaxed);
        !self.is_told.swap(true, Ordering::AcqRel)
    }

    /// A late operation has ended after so long.
    fn end(&self, took: Duration, now: Moment) {
        self.longest_ns.fetch_max(took.as_nanos() as u64, Ordering::Relaxed);
        self.last_ns.fetch_max(now.0, Ordering::Relaxed);
        self.under_way.fetch_sub(1, Ordering::AcqRel);
    }

    /// How many there were and how long the longest took, when there have been none for a while: it is told then.
    fn is_over(&self, now: Moment) -> Option<(u64, Duration)> {
        let quiet = now.since(Moment(self.last_ns.load(Ordering::Relaxed)));
        let is_over = self.under_way.load(Ordering::Acquire) == 0
            && quiet >= Duration::from_millis(LATE_EPISODE_QUIET_MS)
            && self.is_told.load(Ordering::Acquire);
        if !is_over {
            return None;
        }
        let operations = self.operations.swap(0, Ordering::Relaxed);
        let longest = Duration::from_nanos(self.longest_ns.swap(0, Ordering::Relaxed));
        self.is_told.store(false, Ordering::Release);
        Some((operations, longest))
    }

    /// How many are late now.
    pub(super) fn under_way(&self) -> u64 {
        self.under_way.load(Ordering::Relaxed)
    }
}

/// What a reactor has seen of its operations with its last look: the oldest of each namespace, by its counters.
#[derive(Debug, Default)]
pub(super) struct StorageWatch {
    oldest: BTreeMap<(usize, u32), (Arc<ReactorCounters>, Moment)>,
}

impl StorageWatch {
    /// Looks at the operations of all queues, those that are gone too.
    pub(super) fn look<'a>(
        &mut self,
        queues: impl Iterator<Item = (QueueOwner, &'a mut Slots)>,
        fabric: &Fabric,
        now: Moment,
    ) {
        let before = std::mem::take(&mut self.oldest);
        for (owner, slots) in queues {
            let quiesce = owner.quiesce();
            for slot in slots.iter_mut().filter(|slot| slot.is_stored()) {
                let age = now.since(slot.stored);
                owner.controller.subsystem.quiesce.note(age);
                if age > quiesce && !slot.is_late {
                    slot.is_late = true;
                    owner.note_late(slot, age, fabric, now);
                }
                let place = (Arc::as_ptr(&owner.counters) as usize, slot.nsid);
                let oldest =
                    self.oldest.entry(place).or_insert_with(|| (owner.counters.clone(), slot.stored));
                oldest.1 = oldest.1.min(slot.stored);
            }
        }
        for ((_, nsid), (counters, since)) in &self.oldest {
            counters.set_oldest(*nsid, Some(*since));
        }
        for ((place, nsid), (counters, _)) in before {
            if !self.oldest.contains_key(&(place, nsid)) {
                counters.set_oldest(nsid, None);
            }
        }
        fabric.end_lateness(now);
    }

    /// Whether there is anything that has to be looked at again.
    pub(super) fn is_idle(&self) -> bool {
        self.oldest.is_empty()
    }
}

impl QueueOwner {
    /// That of a connection, if it is an I/O queue.
    pub(super) fn of(session: &Session) -> Option<Self> {
        match session {
            Session::Io { controller, counters, .. } => {
                Some(Self { controller: controller.clone(), counters: counters.clone() })
            }
            _ => None,
        }
    }

    /// The Command Quiesce Time by which its host goes.
    fn quiesce(&self) -> Duration {
        self.controller.quiesce.get(&self.controller.subsystem.quiesce)
    }

    /// The operation of a slot has ended, after so long at the storage.
    #[cold]
    pub(super) fn note_end(&self, slot: &mut Slot, took: Duration, fabric: &Fabric, now: Moment) {
        self.controller.subsystem.quiesce.note(took);
        if !slot.is_late {
            if took <= self.quiesce() {
                return;
            }
            // It was late between two looks.
            self.note_late(slot, took, fabric, now);
        }
        slot.is_late = false;
        if let Some(attachment) = slot.attachment() {
            attachment.namespace.lateness.end(took, now);
        }
    }

    fn note_late(&self, slot: &Slot, age: Duration, fabric: &Fabric, now: Moment) {
        let Some(namespace) = slot.attachment().map(|attachment| &attachment.namespace) else { return };
        self.counters.late(slot.nsid, slot.work.is_refused_after_failure());
        if !namespace.lateness.begin(now) {
            return;
        }
        let told = self.quiesce();
        tracing::warn!(
            "namespace {nsid} of {nqn}: {command} from host {host} has been at {place} for {age:.1?}, longer than the command quiesce \
             time of {told:.1?}; it may take effect after its host has moved to another path. Check the storage, or set a longer \
             command_quiesce_ms or command_quiesce = \"auto\"",
            nsid = namespace.nsid,
            nqn = namespace.nqn,
            command = slot.work.name(),
            host = self.controller.host.nqn,
            place = namespace.backend.place(),
        );
        fabric.watch_lateness(namespace.clone());
    }
}

impl Connection {
    /// The storage has done with the command in a slot.
    pub(super) fn note_storage_time(&mut self, index: u16, fabric: &Fabric, now: Moment) {
        let slot = self.slots.at(index);
        let took = slot.leave_storage(now);
        if took > self.usual || slot.is_late {
            self.note_long_storage_time(index, took, fabric, now);
        }
    }

    #[cold]
    fn note_long_storage_time(&mut self, index: u16, took: Duration, fabric: &Fabric, now: Moment) {
        let Some(owner) = QueueOwner::of(&self.session) else { return };
        owner.note_end(self.slots.at(index), took, fabric, now);
        // What is neither the longest nor late needs no look.
        self.usual = owner.controller.subsystem.quiesce.longest().min(owner.quiesce());
    }
}

impl Fabric {
    /// Tells when no operations of these namespaces are late any more.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_told_once_until_there_is_none_for_a_while() {
        let quiet = Duration::from_millis(LATE_EPISODE_QUIET_MS);
        let at = |seconds: u64| Moment(0).after(Duration::from_secs(seconds));
        let late = Lateness::default();
        assert!(late.begin(at(100)) && !late.begin(at(101)));
        late.end(Duration::from_secs(3), at(102));
        assert_eq!((late.under_way(), late.is_over(at(102).after(quiet))), (1, None), "one is left");
        late.end(Duration::from_secs(9), at(110));
        assert_eq!(late.is_over(at(110)), None, "another may follow at once");
        assert!(!late.begin(at(111)), "it is the same trouble");
        late.end(Duration::from_secs(4), at(112));
        assert_eq!(late.is_over(at(112).after(quiet)), Some((3, Duration::from_secs(9))));
        assert_eq!(late.is_over(at(1000)), None, "told once");
        assert!(late.begin(at(2000)), "a new one");
    }
}
