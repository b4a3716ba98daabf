//! What a closed connection leaves until its last storage operation has ended: its buffers, and the blocks it still
//! writes to, which nobody else writes to before.

use std::io;
use std::sync::Arc;

use super::connection::Connection;
use super::fabric::Fabric;
use super::fence::{Claim, Owner};
use super::namespace::ByteRange;
use super::slot::{Slots, Stage, Work};
use super::storage_watch::QueueOwner;
use super::sync_verdict::end_sync;
use crate::ring::Moment;

/// What is left of a connection whose storage operations have not ended.
pub(super) struct Remains {
    pub(super) slots: Slots,
    pub(super) owner: Option<Owner>,
    /// Whose its operations are, for those who watch them.
    pub(super) queue: Option<QueueOwner>,
    /// A host that comes back writes again what it had no answer for, and then something else. The old write must not land
    /// on top of that, so that whoever writes to its blocks waits for it.
    _claims: Vec<Claim>,
}

impl Remains {
    /// What `connection` leaves, if the storage still works for it.
    pub(super) fn of(connection: Connection, fabric: &Arc<Fabric>) -> Option<Self> {
        if connection.slots.storing() == 0 {
            return None;
        }
        let owner = connection.owner();
        let queue = QueueOwner::of(&connection.session);
        let mut claims = Vec::new();
        for (_, slot) in connection.slots.iter() {
            let Some(attachment) = slot.attachment().filter(|_| slot.stage == Stage::Storage) else {
                continue;
            };
            if slot.may_take_effect()
                && slot.claim.is_none()
                && let Some(range) = written(&slot.work)
            {
                claims.push(Claim::beside_others(&attachment.namespace, range, fabric));
            }
        }
        Some(Self { slots: connection.slots, owner, queue, _claims: claims })
    }

    /// The storage has done with a command.
    pub(super) fn operation_ended(
        &mut self,
        index: u16,
        result: &io::Result<usize>,
        fabric: &Fabric,
        now: Moment,
    ) {
        let slot = self.slots.at(index);
        // What it tells is not told again to anybody else.
        end_sync(slot, result, fabric);
        let took = slot.leave_storage(now);
        if let Some(queue) = &self.queue {
            queue.note_end(slot, took, fabric, now);
        }
    }
}

/// The bytes that an operation of this command may write.
const fn written(work: &Work) -> Option<ByteRange> {
    match *work {
        Work::Write { range, .. } | Work::Zero { range, .. } => Some(range),
        // Which of its ranges is written just now stands in data that nobody looks through for this.
        Work::Deallocate { .. } | Work::Copy { .. } => Some(ByteRange { offset: 0, length: u64::MAX }),
        _ => None,
    }
}
