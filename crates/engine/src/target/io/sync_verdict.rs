//! What the end of a sync means for its command: it is done, it waits for other syncs that could have had its error, or the
//! namespace has failed. What is known of syncs is the backend's; that all learn of a failure at once is the namespace's.

use std::io;
use std::sync::Arc;

use nvme::Status;

use super::commands::Commands;
use super::context::Context;
use super::request::{Next, Operation, State};
use super::work::Work;
use crate::backend::{Backend, Sync, SyncFailure};
use crate::ring::Buffer;
use crate::target::fabric::Fabric;
use crate::target::messaging::Message;
use crate::target::served::{Attachment, Namespace};
use crate::target::telemetry::Stage;

/// Consequence of the end of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncVerdict {
    /// The operation's own result counts.
    Counts,
    /// The result counts once the syncs with lower numbers have ended.
    Awaits(u64),
    /// A sync has failed: no write is durable from now on.
    Failed,
}

/// Ends an operation of a command, whether or not the command is still awaited.
pub(crate) fn end_sync(
    operation: &mut Operation,
    attachment: Option<&Attachment>,
    result: &io::Result<usize>,
    fabric: &Fabric,
) -> SyncVerdict {
    match (operation.take_sync(), attachment) {
        (Some(sync), Some(attachment)) => end_on(&attachment.namespace, sync, result, fabric),
        _ => SyncVerdict::Counts,
    }
}

/// A sync of this namespace has ended.
pub(crate) fn end_on(
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
        // After the end is recorded: commands that are woken ask for it at once.
        if end.wakes {
            fabric.tell_reactors(|| Message::Resume);
        }
    } else if let Some(failure) = failure {
        durability.fail(failure);
    }
    // After this sync has been counted, so that its own failure is seen here too.
    if durability.failure().is_some() {
        fabric.note_failure(namespace);
        return SyncVerdict::Failed;
    }
    awaits.map_or(SyncVerdict::Counts, SyncVerdict::Awaits)
}

impl Commands {
    /// Lets a command whose operation went well, and moved this number of bytes, wait for other syncs.
    pub(super) fn await_syncs(
        &mut self,
        index: u16,
        verdict: SyncVerdict,
        (data, moved): (Option<Buffer>, usize),
    ) -> Next {
        let before = match verdict {
            SyncVerdict::Awaits(before) => before,
            SyncVerdict::Counts | SyncVerdict::Failed => 0,
        };
        self.slots.set(index, State::AwaitsSyncs { data, before, moved });
        self.held_back.push_back(index);
        Next::Nothing
    }

    /// Some syncs have ended: a command that waited for them goes on, or waits for others.
    pub(super) fn syncs_ended(&mut self, index: u16, ctx: &mut Context<'_>) -> Next {
        let request = self.slots.at(index);
        let work = request.work;
        let Some(namespace) = request.attachment().map(|attachment| attachment.namespace.clone()) else {
            return Next::Nothing;
        };
        let State::AwaitsSyncs { data, before, moved } = self.slots.set(index, State::InHand) else {
            return Next::Nothing;
        };
        self.slots.at(index).goes_on_after(Stage::Storage, ctx.now);
        // Before the failure is read: in the other order a sync could fail in between, and the command would find all syncs
        // ended and no failure.
        let is_settled = namespace.is_settled(before);
        if namespace.has_failed() {
            return self.refuse_after_failure(index, data, ctx);
        }
        if !is_settled {
            self.slots.set(index, State::AwaitsSyncs { data, before, moved });
            self.held_back.push_back(index);
            return Next::Nothing;
        }
        match work {
            Work::Copy { .. } => self.copy_stepped(index, (moved, false), (data, None), ctx),
            _ => self.step_done(index, moved, (data, None), ctx),
        }
    }

    /// Answers a command on a namespace that has failed.
    pub(super) fn refuse_after_failure(
        &mut self,
        index: u16,
        data: Option<Buffer>,
        ctx: &mut Context<'_>,
    ) -> Next {
        self.media_failure(index, Status::WRITE_FAULT.do_not_retry(), data, ctx)
    }
}

impl Fabric {
    /// Tells all hosts of a namespace that has failed just now.
    #[cold]
    pub(crate) fn note_failure(&self, namespace: &Arc<Namespace>) {
        if namespace.note_failure() {
            self.tell_of_failure(namespace);
        }
    }
}
