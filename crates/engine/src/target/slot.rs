//! The slot table of a queue: a place for every command that cannot be answered at once, made when the queue is.
//! It counts the buffers its commands hold. What a command does is decided elsewhere.

use std::rc::Rc;
use std::time::Duration;

use nvme::Status;
use nvme::io::{CopyFormat, Fused, IoCommand};
use nvme::tcp::Transfer;

use super::counters::Operation;
use super::fence::Claim;
use super::namespace::ByteRange;
use super::namespace_table::{Attachment, NamespaceView};
use crate::backend::{Sync, ZeroMethod};
use crate::limits::{CONNECTION_BUFFER_BYTES_MAX, GIVEN_UP_SLOTS_FACTOR, QUEUE_OVERRUN_FACTOR};
use crate::ring::{Buffer, BufferPool, Moment};

/// What a command in a slot is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Nothing: the slot is free.
    Free,
    /// Data for the host.
    Read { range: ByteRange },
    /// The host's data, to be kept.
    Write { range: ByteRange, durable: bool },
    /// The host's data, to be compared.
    Compare { range: ByteRange },
    /// Blocks to be read for nothing but the errors that shows, in what is left of `range`.
    Verify { range: ByteRange },
    /// Make everything durable.
    Flush,
    /// Blocks that cannot be read from now on.
    Spoil { range: ByteRange },
    /// Ranges to be copied, from `done` bytes of number `next` on, to the byte `to` and what follows.
    Copy { next: u16, ranges: u16, format: CopyFormat, durable: bool, done: u64, to: u64 },
    /// A reservation command, which is the clerk's to do.
    Reservation { command: IoCommand },
    /// Zeroes in what is left of `range`.
    Zero { range: ByteRange, method: ZeroMethod, deallocate: bool, durable: bool },
    /// Ranges the host no longer needs, from number `next` on.
    Deallocate { next: u16, ranges: u16 },
    /// An admin or Fabrics command whose data is on its way in either direction.
    Admin,
}

impl Work {
    /// Whether it stands in the command's data which blocks it reaches.
    pub(super) const fn is_told_by_data(&self) -> bool {
        matches!(self, Self::Deallocate { .. } | Self::Copy { .. })
    }

    /// Its command in a word.
    pub(super) const fn name(&self) -> &'static str {
        match Operation::of(self) {
            Some(operation) => operation.name(),
            None => "a command",
        }
    }

    /// Whether it changes blocks, or promises that they stay.
    pub(super) const fn is_refused_after_failure(&self) -> bool {
        match self {
            Self::Write { .. }
            | Self::Flush
            | Self::Spoil { .. }
            | Self::Copy { .. }
            | Self::Zero { .. }
            | Self::Deallocate { .. } => true,
            Self::Free
            | Self::Read { .. }
            | Self::Compare { .. }
            | Self::Verify { .. }
            | Self::Reservation { .. }
            | Self::Admin => false,
        }
    }

    /// Whether it changes blocks in `range`, as far as can be told.
    pub(super) const fn may_write(&self, range: &ByteRange) -> bool {
        match self {
            Self::Write { range: own, .. } | Self::Zero { range: own, .. } | Self::Spoil { range: own } => {
                own.overlaps(range)
            }
            // Which blocks these reach stands in data that nobody looks through for this.
            Self::Deallocate { .. } | Self::Copy { .. } => true,
            _ => false,
        }
    }
}

/// What a command in a slot waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// A buffer within the connection's share.
    Buffer,
    /// Its data from the host.
    Data,
    /// Its turn within its namespace's limits.
    Limits,
    /// The other command of its fused pair.
    Partner,
    /// A fused pair that works on its blocks, or, for a pair, another one.
    Exclusive,
    /// Its connection's next turn, since the last had no time for the rest of it.
    Turn,
    /// The clerk.
    Clerk,
    /// The storage.
    Storage,
    /// The ends of other syncs, since its own has gone well.
    Syncs,
    /// Its data to leave.
    Sending,
}

/// A command under way.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) command_id: u16,
    pub(super) opcode: u8,
    pub(super) nsid: u32,
    /// The namespaces as they were when the command came; it keeps its own open.
    pub(super) view: Option<Rc<NamespaceView>>,
    pub(super) work: Work,
    pub(super) stage: Stage,
    /// Length of its data in bytes.
    pub(super) length: u32,
    /// Data from or for the host.
    pub(super) data: Option<Buffer>,
    /// How many bytes of it, or of its present range, are done, when somebody else had a page of its memory namespace.
    pub(super) done: u64,
    /// Bytes of it that count as its connection's.
    held: usize,
    /// What is still to come from the host.
    pub(super) transfer: Transfer,
    /// Set when it has failed already but its data is still on its way.
    pub(super) failed: Option<Status>,
    /// Whether its host has its answer already, while the storage still works on it.
    pub(super) is_given_up: bool,
    /// Whether it need not wait for its namespace's limits any more.
    pub(super) admitted: bool,
    /// Which command of a fused pair it is.
    pub(super) fused: Fused,
    /// The slot of the other one.
    pub(super) partner: Option<u16>,
    /// What keeps others from a fused pair's blocks.
    pub(super) claim: Option<Box<Claim>>,
    /// The sync that is under way for it, or that it waits for: then all with lower numbers have to end.
    pub(super) sync: Option<Sync>,
    /// Whether a copy reads just now; else it writes.
    pub(super) copying: bool,
    /// When it came.
    pub(super) began: Moment,
    /// When the operation began that the storage does for it; 0 without one.
    pub(super) stored: Moment,
    /// Whether that has outlived the Command Quiesce Time.
    pub(super) is_late: bool,
}

impl Slot {
    fn empty() -> Self {
        Self {
            command_id: 0,
            opcode: 0,
            nsid: 0,
            view: None,
            work: Work::Free,
            stage: Stage::Buffer,
            length: 0,
            data: None,
            done: 0,
            held: 0,
            transfer: Transfer::new(0..0, 0),
            failed: None,
            is_given_up: false,
            admitted: true,
            fused: Fused::No,
            partner: None,
            claim: None,
            sync: None,
            copying: false,
            began: Moment::default(),
            stored: Moment::default(),
            is_late: false,
        }
    }

    /// Whether the storage, or the clerk, may still do something of it. What was given up because its cluster has shut this
    /// target out does nothing any more, however long the library keeps it.
    pub(super) fn may_take_effect(&self) -> bool {
        let is_shut_out = || self.attachment().is_some_and(|a| a.namespace.backend.is_shut_out());
        matches!(self.stage, Stage::Storage | Stage::Clerk) && !(self.is_given_up && is_shut_out())
    }

    /// Whether the storage does something for it.
    pub(super) fn is_stored(&self) -> bool {
        self.stored != Moment::default()
    }

    /// The storage has done with it: for how long it was there.
    pub(super) fn leave_storage(&mut self, now: Moment) -> Duration {
        now.since(std::mem::take(&mut self.stored))
    }

    /// The namespace it works on, as its host saw it when it came.
    pub(super) fn attachment(&self) -> Option<&Attachment> {
        self.view.as_ref()?.attachment(self.nsid)
    }
}

/// No command identifier, which have 16 bits, is this.
const NO_COMMAND: u32 = u32::MAX;

/// The slots of one queue.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    /// The command identifier of each slot, or `NO_COMMAND`: beside each other, since all are looked through.
    command_ids: Vec<u32>,
    free: Vec<u16>,
    /// How many commands the host may have outstanding.
    entries: u16,
    buffer_bytes: usize,
    storing: usize,
}

impl Slots {
    pub(super) fn new(count: u16) -> Self {
        Self {
            slots: (0..count).map(|_| Slot::empty()).collect(),
            command_ids: vec![NO_COMMAND; usize::from(count)],
            free: (0..count).rev().collect(),
            entries: count,
            buffer_bytes: 0,
            storing: 0,
        }
    }

    /// Takes a slot, or `None` when the host has far more commands outstanding than its queue has entries.
    pub(super) fn take(
        &mut self,
        command_id: u16,
        opcode: u8,
        (nsid, view): (u32, Option<Rc<NamespaceView>>),
        work: Work,
        length: u32,
    ) -> Option<u16> {
        let index = self.free.pop().or_else(|| self.grow())?;
        self.command_ids[usize::from(index)] = u32::from(command_id);
        let slot = &mut self.slots[usize::from(index)];
        slot.command_id = command_id;
        slot.opcode = opcode;
        slot.nsid = nsid;
        slot.view = view;
        slot.work = work;
        slot.stage = Stage::Buffer;
        slot.length = length;
        slot.done = 0;
        slot.transfer = Transfer::new(0..length, index);
        slot.failed = None;
        slot.is_given_up = false;
        slot.admitted = true;
        slot.fused = Fused::No;
        slot.partner = None;
        Some(index)
    }

    /// Commands for which the host has no answer yet.
    fn outstanding(&self) -> usize {
        self.command_ids.iter().filter(|known| **known != NO_COMMAND).count()
    }

    /// Whether the host has more commands outstanding than its queue has entries.
    pub(super) fn are_overrun(&self) -> bool {
        self.busy() > usize::from(self.entries) && self.outstanding() > usize::from(self.entries)
    }

    /// One slot more, where the storage still has those of commands that were given up, which are not outstanding for the host,
    /// or where the host counts otherwise than it should.
    #[cold]
    fn grow(&mut self) -> Option<u16> {
        let most = usize::from(self.entries) * (GIVEN_UP_SLOTS_FACTOR + QUEUE_OVERRUN_FACTOR - 1);
        if self.outstanding() >= usize::from(self.entries) * QUEUE_OVERRUN_FACTOR || self.slots.len() >= most
        {
            return None;
        }
        let index = u16::try_from(self.slots.len()).ok()?;
        self.slots.push(Slot::empty());
        self.command_ids.push(NO_COMMAND);
        Some(index)
    }

    /// Gives a slot and its buffer back.
    pub(super) fn give(&mut self, index: u16, pool: &mut BufferPool) {
        self.drop_data(index, pool);
        self.slots[usize::from(index)].work = Work::Free;
        self.slots[usize::from(index)].view = None;
        self.slots[usize::from(index)].claim = None;
        self.slots[usize::from(index)].sync = None;
        self.command_ids[usize::from(index)] = NO_COMMAND;
        self.free.push(index);
    }

    /// Gives a slot's buffer back.
    pub(super) fn drop_data(&mut self, index: u16, pool: &mut BufferPool) {
        let slot = &mut self.slots[usize::from(index)];
        if let Some(buffer) = slot.data.take() {
            self.buffer_bytes -= std::mem::take(&mut slot.held);
            pool.give(buffer);
        }
    }

    /// Whether a command may hold `length` more bytes of buffer. The first always may, so that none waits for ever.
    pub(super) const fn may_hold(&self, length: usize) -> bool {
        self.buffer_bytes == 0 || self.buffer_bytes + length <= CONNECTION_BUFFER_BYTES_MAX
    }

    /// Gives the slot a buffer of its length from the pool.
    pub(super) fn hold(&mut self, index: u16, pool: &mut BufferPool) {
        let slot = &mut self.slots[usize::from(index)];
        let buffer = pool.take(slot.length as usize);
        slot.held = buffer.capacity();
        self.buffer_bytes += slot.held;
        slot.data = Some(buffer);
    }

    /// Takes the slot's buffer out, for the storage; its bytes still count.
    pub(super) fn lend(&mut self, index: u16) -> Option<Buffer> {
        self.storing += 1;
        let slot = &mut self.slots[usize::from(index)];
        slot.stage = Stage::Storage;
        slot.data.take()
    }

    /// Takes note that the host has the answer to a command that the storage still works on: it may use the identifier again.
    pub(super) fn give_up(&mut self, index: u16) {
        self.slots[usize::from(index)].is_given_up = true;
        self.command_ids[usize::from(index)] = NO_COMMAND;
    }

    /// Lets others have a buffer that may be away for long, as if this one were there.
    pub(super) fn discount(&mut self, index: u16) {
        self.buffer_bytes -= std::mem::take(&mut self.slots[usize::from(index)].held);
    }

    /// Puts the buffer back that the storage had.
    pub(super) fn regain(&mut self, index: u16, buffer: Option<Buffer>) {
        self.storing -= 1;
        self.slots[usize::from(index)].data = buffer;
    }

    /// Takes note of something beside the storage that keeps these slots until it has ended.
    pub(super) const fn keep(&mut self) {
        self.storing += 1;
    }

    /// The commands under way.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, &Slot)> {
        let numbered = self.slots.iter().enumerate().map(|(index, slot)| (index as u16, slot));
        numbered.filter(|(_, slot)| slot.work != Work::Free)
    }

    /// The commands under way, to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.slots.iter_mut().filter(|slot| slot.work != Work::Free)
    }

    /// The slot of the command with this identifier.
    pub(super) fn find(&self, command_id: u16) -> Option<u16> {
        let at = self.command_ids.iter().position(|known| *known == u32::from(command_id))?;
        Some(at as u16)
    }

    /// The storage has done with a command whose connection is gone, or what was beside it has ended.
    pub(super) const fn abandon(&mut self) {
        self.storing -= 1;
    }

    /// Commands that wait for the storage.
    pub(super) const fn storing(&self) -> usize {
        self.storing
    }

    /// Commands under way.
    pub(super) fn busy(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The slot with this number, if a command is in it.
    pub(super) fn get_mut(&mut self, index: u16) -> Option<&mut Slot> {
        self.slots.get_mut(usize::from(index)).filter(|slot| slot.work != Work::Free)
    }

    /// The command in a slot that the caller knows to be taken.
    pub(super) fn at(&mut self, index: u16) -> &mut Slot {
        &mut self.slots[usize::from(index)]
    }

    /// Bytes of a slot's data.
    pub(super) fn data(&self, index: u16) -> &[u8] {
        self.slots[usize::from(index)].data.as_deref().unwrap_or(&[])
    }

    /// Whether a command with this identifier is under way.
    pub(super) fn has_command(&self, command_id: u16) -> bool {
        self.busy() > 0 && self.command_ids.contains(&u32::from(command_id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRIES: u16 = 4;
    const LENGTH: u32 = 4096;

    /// Fills the queue with commands that the storage has, as far as there is room.
    fn fill(slots: &mut Slots, pool: &mut BufferPool) -> Vec<(u16, Buffer)> {
        let mut taken = Vec::new();
        for command_id in 0..ENTRIES {
            let Some(index) = slots.take(command_id, 0, (1, None), Work::Flush, LENGTH) else { break };
            slots.hold(index, pool);
            taken.push((index, slots.lend(index).expect("a buffer")));
        }
        taken
    }

    #[test]
    fn a_host_may_have_twice_as_many_commands_as_its_queue_has_entries_and_no_more() {
        let mut slots = Slots::new(ENTRIES);
        for number in 0..2 * ENTRIES {
            assert!(slots.take(number, 0, (1, None), Work::Flush, LENGTH).is_some());
            assert_eq!(slots.are_overrun(), number >= ENTRIES);
        }
        assert!(slots.take(99, 0, (1, None), Work::Flush, LENGTH).is_none());
    }

    #[test]
    fn commands_that_were_given_up_leave_their_host_its_whole_queue() {
        let (mut slots, mut pool) = (Slots::new(ENTRIES), BufferPool::new());
        let mut stuck = fill(&mut slots, &mut pool);
        assert_eq!(stuck.len(), usize::from(ENTRIES));
        let bytes = slots.buffer_bytes;
        for round in 2..=GIVEN_UP_SLOTS_FACTOR {
            for (index, _) in &stuck {
                if !slots.slots[usize::from(*index)].is_given_up {
                    slots.give_up(*index);
                    slots.discount(*index);
                }
            }
            assert_eq!(slots.buffer_bytes, 0);
            stuck.extend(fill(&mut slots, &mut pool));
            assert_eq!((stuck.len(), slots.buffer_bytes), (round * usize::from(ENTRIES), bytes));
        }
        // There is an end to it, also for a host that has more outstanding than it should.
        for _ in 1..QUEUE_OVERRUN_FACTOR {
            stuck[stuck.len() - usize::from(ENTRIES)..].iter().for_each(|(index, _)| slots.give_up(*index));
            stuck.extend(fill(&mut slots, &mut pool));
        }
        stuck[stuck.len() - usize::from(ENTRIES)..].iter().for_each(|(index, _)| slots.give_up(*index));
        assert!(fill(&mut slots, &mut pool).is_empty());
        for (index, buffer) in stuck {
            slots.regain(index, Some(buffer));
            slots.give(index, &mut pool);
        }
        assert_eq!((slots.busy(), slots.buffer_bytes, slots.storing()), (0, 0, 0));
    }
}
