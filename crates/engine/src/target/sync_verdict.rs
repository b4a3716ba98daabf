//! What the end of a sync means for its command: it is done, it waits for other syncs that could have had its error, or the
//! namespace has failed. What is known of syncs is the backend's; that all hear of a failure at once is the namespace's.

use std::io;
use std::sync::Arc;

use nvme::Status;

use super::connection::{Connection, Environment};
use super::fabric::Fabric;
use super::mailbox::Message;
use super::namespace::Namespace;
use super::slot::{Slot, Stage, Work};
use crate::backend::{Backend, Sync, SyncFailure, SyncKind};

/// What is to be made of an operation that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncVerdict {
    /// What it says itself.
    Counts,
    /// It counts when the syncs with lower numbers have ended.
    Awaits(u64),
    /// Nothing is durable any more.
    Failed,
}

/// The operation for the command in a slot has ended, whoever still waits for it.
pub(super) fn end_sync(slot: &mut Slot, result: &io::Result<usize>, fabric: &Fabric) -> SyncVerdict {
    match slot.sync.take() {
        None => SyncVerdict::Counts,
        Some(sync) => end(slot, sync, result, fabric),
    }
}

fn end(slot: &Slot, sync: Sync, result: &io::Result<usize>, fabric: &Fabric) -> SyncVerdict {
    match slot.attachment() {
        Some(attachment) => end_on(&attachment.namespace, sync, result, fabric),
        None => SyncVerdict::Counts,
    }
}

/// A sync of this namespace has ended.
pub(super) fn end_on(
    namespace: &Arc<Namespace>,
    sync: Sync,
    result: &io::Result<usize>,
    fabric: &Fabric,
) -> SyncVerdict {
    let Backend::Device(device) = &*namespace.backend else { return SyncVerdict::Counts };
    let Some(durability) = device.durability() else { return SyncVerdict::Counts };
    let error = result.as_ref().err().filter(|error| sync.kind.loses_data(error));
    let failure = error.map(|error| SyncFailure::new(sync.kind, error));
    let mut awaits = None;
    if sync.number > 0 {
        let end = durability.end(sync.number, failure);
        awaits = end.awaits;
        if end.wakes {
            fabric.tell_reactors(|| Message::Resume);
        }
    } else if let Some(failure) = failure {
        durability.fail(failure);
    }
    if durability.failure().is_some() {
        fabric.note_failure(namespace);
        return SyncVerdict::Failed;
    }
    awaits.map_or(SyncVerdict::Counts, SyncVerdict::Awaits)
}

impl Connection {
    /// Lets a command whose operation went well wait for other syncs.
    pub(super) fn await_syncs(&mut self, index: u16, verdict: SyncVerdict, moved: usize) {
        let SyncVerdict::Awaits(before) = verdict else { return };
        let slot = self.slots.at(index);
        slot.stage = Stage::Syncs;
        slot.done = moved as u64;
        slot.sync = Some(Sync { kind: SyncKind::Sync, number: before });
        self.held_back.push_back(index);
    }

    /// Some syncs have ended: a command that waited for them goes on, or waits for others.
    pub(super) fn syncs_ended(&mut self, index: u16, env: &mut Environment<'_>) {
        let slot = self.slots.at(index);
        let (work, moved) = (slot.work, slot.done as usize);
        let Some(namespace) = slot.attachment().map(|attachment| attachment.namespace.clone()) else {
            return;
        };
        let before = slot.sync.map_or(0, |sync| sync.number);
        let is_settled = namespace.is_settled(before);
        if namespace.has_failed() {
            return self.refuse_after_failure(index, env);
        }
        if !is_settled {
            return self.held_back.push_back(index);
        }
        slot.sync = None;
        slot.stage = Stage::Storage;
        match work {
            Work::Copy { .. } => self.copy_stepped(index, moved, None, env),
            _ => self.step_done(index, work, moved, None, env),
        }
    }

    /// Answers a command on a namespace that has failed.
    pub(super) fn refuse_after_failure(&mut self, index: u16, env: &mut Environment<'_>) {
        self.media_failure(index, Status::WRITE_FAULT.do_not_retry(), env);
    }
}

impl Fabric {
    /// Tells all hosts of a namespace that has failed just now.
    #[cold]
    pub(super) fn note_failure(&self, namespace: &Arc<Namespace>) {
        if namespace.note_failure() {
            self.tell_of_failure(namespace);
        }
    }
}
