//! Remains of a closed connection until its last storage operation has ended: its buffers, and
//! claims on the blocks that it still writes to.

use std::io;
use std::sync::Arc;

use crate::ring::{Buffer, BufferPool, Moment};
use crate::target::fabric::Fabric;
use crate::target::io::{Commands, QueueOwner, Slots, Work, end_sync};
use crate::target::messaging::{Claim, Owner};
use crate::target::served::ByteRange;

/// The slots of a connection that is closed, while the storage still works for some of them.
pub(super) struct OrphanedSlots {
    pub(super) slots: Slots,
    pub(super) owner: Owner,
    /// Owner of the operations, for their supervision.
    pub(super) queue: QueueOwner,
    /// A host that comes back writes again what it had no answer for, and then something else. The
    /// old write must not land on top of that, so other writes to these blocks wait for it.
    _claims: Vec<Claim>,
}

impl OrphanedSlots {
    /// Remains of these commands, if the storage still works on one of them.
    pub(super) fn of(commands: Commands, fabric: &Arc<Fabric>) -> Option<Self> {
        if commands.slots.kept() == 0 {
            return None;
        }
        let (owner, queue) = (commands.owner(), QueueOwner::of(&commands));
        let mut claims = Vec::new();
        for (_, request) in commands.slots.iter() {
            let Some(attachment) = request.attachment().filter(|_| request.is_at_storage()) else {
                continue;
            };
            if request.may_take_effect()
                && !request.has_claim()
                && let Some(range) = written(&request.work)
            {
                claims.push(Claim::beside_others(&attachment.namespace, range, fabric.mailboxes()));
            }
        }
        Some(Self { slots: commands.slots, owner, queue, _claims: claims })
    }

    /// The storage has done with a command.
    pub(super) fn operation_ended(
        &mut self,
        index: u16,
        (result, buffer): (&io::Result<usize>, Option<Buffer>),
        fabric: &Fabric,
        (pool, now): (&mut BufferPool, Moment),
    ) {
        if let Some(request) = self.slots.get_mut(index) {
            let attachment = request.attachment().cloned();
            if let Some(operation) = request.operation_mut() {
                let age = operation.age(now);
                // No other place learns of its result.
                end_sync(operation, attachment.as_ref(), result, fabric);
                self.queue.note_end(request, age, fabric, now);
            }
        }
        self.slots.discard(index, pool);
        // It counts no longer as anybody's.
        drop(buffer);
    }
}

/// The bytes that an operation of this command may write.
const fn written(work: &Work) -> Option<ByteRange> {
    match *work {
        Work::Write { range, .. } | Work::Zero { range, .. } => Some(range),
        // The ranges of these are in their data, which is not searched here.
        Work::Deallocate { .. } | Work::Copy { .. } => Some(ByteRange { offset: 0, length: u64::MAX }),
        _ => None,
    }
}
