//! The slot table of a queue: a place for every command that cannot be answered at once, made when the queue is.
//! It counts the buffers its commands have. What a command does is decided elsewhere.

use std::rc::Rc;
use std::sync::Arc;

use nvme::cross_reset::ControllerInstance;

use super::host_buffers::HostBytes;
use super::request::{Operation, Pairing, Request, State};
use super::work::Work;
use crate::limits::{
    BUFFER_LENGTH_MAX, CONNECTION_BUFFER_BYTES_MAX, GIVEN_UP_SLOTS_FACTOR, HOST_BUFFER_BYTES_MAX,
    QUEUE_OVERRUN_FACTOR,
};
use crate::ring::{Buffer, BufferPool, Moment};
use crate::target::messaging::{Fenced, Owner};
use crate::target::served::{Namespace, NamespaceView};
use crate::target::telemetry::StageTimes;

/// No command identifier, which have 16 bits, is this.
const NO_COMMAND: u32 = u32::MAX;

/// A command that gets a slot.
pub(super) struct Arriving {
    pub(super) command_id: u16,
    pub(super) opcode: u8,
    pub(super) nsid: u32,
    pub(super) view: Rc<NamespaceView>,
    pub(super) work: Work,
    pub(super) length: u32,
    pub(super) now: Moment,
}

/// The slots of one queue.
#[derive(Debug)]
pub(crate) struct Slots {
    slots: Vec<Option<Request>>,
    /// The command identifier of each slot, or `NO_COMMAND`: beside each other, since all are looked through.
    command_ids: Vec<u32>,
    free: Vec<u16>,
    /// Number of commands that the host may have outstanding.
    entries: u16,
    /// Bytes of buffers that count as this queue's: those on their way to the host, too.
    buffer_bytes: usize,
    /// Bytes among them that the storage has beside commands' data.
    beside_bytes: usize,
    /// Bytes of buffers of all queues of the host on this reactor.
    host_bytes: HostBytes,
    /// Slots that stay when the connection goes.
    kept: usize,
}

impl Slots {
    pub(super) fn new(count: u16) -> Self {
        Self {
            slots: (0..count).map(|_| None).collect(),
            command_ids: vec![NO_COMMAND; usize::from(count)],
            free: (0..count).rev().collect(),
            entries: count,
            buffer_bytes: 0,
            beside_bytes: 0,
            host_bytes: HostBytes::default(),
            kept: 0,
        }
    }

    /// Counts buffers together with those of the host's other queues from now on.
    pub(super) fn share(&mut self, host_bytes: HostBytes) {
        self.host_bytes.subtract(self.buffer_bytes);
        host_bytes.add(self.buffer_bytes);
        self.host_bytes = host_bytes;
    }

    /// Takes a slot, or `None` when the host has far more commands outstanding than its queue has entries.
    pub(super) fn take(&mut self, command: Arriving) -> Option<u16> {
        let index = self.free.pop().or_else(|| self.grow())?;
        let Arriving { command_id, opcode, nsid, view, work, length, now } = command;
        self.command_ids[usize::from(index)] = u32::from(command_id);
        self.slots[usize::from(index)] = Some(Request {
            command_id,
            opcode,
            nsid,
            view,
            work,
            done: 0,
            length,
            began: now,
            went_on: now,
            times: StageTimes::default(),
            is_admitted: true,
            pairing: Pairing::Alone,
            state: State::InHand,
        });
        Some(index)
    }

    /// Commands for which the host has no answer yet.
    fn outstanding(&self) -> usize {
        self.command_ids.iter().filter(|known| **known != NO_COMMAND).count()
    }

    /// True if the host has more commands outstanding than its queue has entries.
    pub(super) fn are_overrun(&self) -> bool {
        self.busy() > usize::from(self.entries) && self.outstanding() > usize::from(self.entries)
    }

    /// Adds a slot. Needed while the storage still holds slots of commands that were given up,
    /// which are not outstanding for the host, or if the host exceeds its queue.
    #[cold]
    fn grow(&mut self) -> Option<u16> {
        let most = usize::from(self.entries) * (GIVEN_UP_SLOTS_FACTOR + QUEUE_OVERRUN_FACTOR - 1);
        if self.outstanding() >= usize::from(self.entries) * QUEUE_OVERRUN_FACTOR || self.slots.len() >= most
        {
            return None;
        }
        let index = u16::try_from(self.slots.len()).ok()?;
        self.slots.push(None);
        self.command_ids.push(NO_COMMAND);
        Some(index)
    }

    /// Lets a command wait for something else; what it had until now.
    pub(super) fn set(&mut self, index: u16, state: State) -> State {
        let Some(request) = &mut self.slots[usize::from(index)] else { return State::InHand };
        self.kept += usize::from(state.keeps_slot());
        let former = std::mem::replace(&mut request.state, state);
        self.kept -= usize::from(former.keeps_slot());
        former
    }

    /// Takes a command in hand, with the data it had while it waited.
    pub(super) fn take_data(&mut self, index: u16) -> Option<Buffer> {
        self.set(index, State::InHand).into_data()
    }

    /// Takes a command out of its slot, which is free then. Its data is the caller's, who has it counted.
    pub(super) fn end(&mut self, index: u16) -> Option<Request> {
        let request = self.slots.get_mut(usize::from(index))?.take()?;
        self.kept -= usize::from(request.state.keeps_slot());
        self.command_ids[usize::from(index)] = NO_COMMAND;
        self.free.push(index);
        Some(request)
    }

    /// Removes a command that will not be answered, and frees its buffer.
    pub(crate) fn discard(&mut self, index: u16, pool: &mut BufferPool) {
        let Some(request) = self.end(index) else { return };
        let counts = request.operation().is_none_or(|operation| !operation.is_uncounted);
        match request.state.into_data() {
            Some(data) if counts => self.release(data, pool),
            Some(data) => pool.give(data),
            None => {}
        }
    }

    /// True if a command may have `length` more bytes of buffer. The first always may, and one beside commands that wait for
    /// their partners, so no queue waits forever: what other queues of the host give back does not wake it.
    pub(super) fn may_hold(&self, length: usize) -> bool {
        let host_has_room = || self.host_bytes.get() + length <= HOST_BUFFER_BYTES_MAX;
        self.buffer_bytes == 0
            || self.buffer_bytes + length <= CONNECTION_BUFFER_BYTES_MAX
                && (host_has_room() || self.are_all_of_pairs())
    }

    /// True if all bytes of buffers are those of commands that wait for their partners, which may wait for a buffer themselves.
    #[cold]
    fn are_all_of_pairs(&self) -> bool {
        let bytes_of = |(_, request): (u16, &Request)| match &request.state {
            State::AwaitsPartner { data: Some(data) } => data.capacity(),
            _ => 0,
        };
        self.iter().map(bytes_of).sum::<usize>() == self.buffer_bytes
    }

    /// A buffer from the pool that counts as this queue's.
    pub(super) fn hold(&mut self, length: usize, pool: &mut BufferPool) -> Buffer {
        let buffer = pool.take(length);
        self.count(buffer.capacity());
        buffer
    }

    /// Gives such a buffer back.
    pub(super) fn release(&mut self, buffer: Buffer, pool: &mut BufferPool) {
        self.uncount(buffer.capacity());
        pool.give(buffer);
    }

    /// This number of bytes of buffers is on its way to the host beside what commands hold.
    pub(super) fn count(&mut self, bytes: usize) {
        self.buffer_bytes += bytes;
        self.host_bytes.add(bytes);
    }

    /// This number of bytes of buffers is the pool's again, or may be away for long and count no longer.
    pub(super) fn uncount(&mut self, bytes: usize) {
        self.buffer_bytes -= bytes;
        self.host_bytes.subtract(bytes);
    }

    /// True if the storage may have another buffer beside commands' data. One it always may, so no command waits forever: what
    /// other queues of the host give back does not wake it.
    pub(super) fn may_hold_beside(&self) -> bool {
        self.beside_bytes == 0 || self.may_hold(BUFFER_LENGTH_MAX)
    }

    /// The storage has this number of bytes in a buffer beside a command's data.
    pub(super) fn count_beside(&mut self, bytes: usize) {
        self.beside_bytes += bytes;
        self.count(bytes);
    }

    /// The storage has them no longer, or may have them for long.
    pub(super) fn uncount_beside(&mut self, bytes: usize) {
        self.beside_bytes -= bytes;
        self.uncount(bytes);
    }

    /// Records that the host has the answer to a command that the storage still works on: it may use the identifier again.
    pub(super) fn give_up(&mut self, index: u16, uncounts: bool) {
        self.command_ids[usize::from(index)] = NO_COMMAND;
        let Some(request) = self.get_mut(index) else { return };
        let length = request.length as usize;
        let Some(operation) = request.operation_mut() else { return };
        operation.is_given_up = true;
        if !uncounts {
            return;
        }
        let beside_bytes = std::mem::take(&mut operation.beside_bytes);
        operation.is_uncounted = length > 0;
        if length > 0 {
            self.uncount(Buffer::capacity_for(length));
        }
        self.uncount_beside(beside_bytes);
    }

    /// Removes and returns the storage operation of a command, whose state becomes `InHand`.
    pub(crate) fn end_operation(&mut self, index: u16) -> Option<Operation> {
        self.get_mut(index)?.operation()?;
        match self.set(index, State::InHand) {
            State::AtStorage(operation) => Some(operation),
            _ => None,
        }
    }

    /// The commands under way.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, &Request)> {
        let numbered = self.slots.iter().enumerate();
        numbered.filter_map(|(index, slot)| Some((index as u16, slot.as_ref()?)))
    }

    /// The commands under way, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Request> {
        self.slots.iter_mut().flatten()
    }

    /// The slot of the command with this identifier.
    pub(super) fn find(&self, command_id: u16) -> Option<u16> {
        let at = self.command_ids.iter().position(|known| *known == u32::from(command_id))?;
        Some(at as u16)
    }

    /// Commands that others still work for.
    pub(crate) const fn kept(&self) -> usize {
        self.kept
    }

    /// Commands under way.
    pub(crate) fn busy(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The command in the slot with this number, if there is one.
    pub(crate) fn get_mut(&mut self, index: u16) -> Option<&mut Request> {
        self.slots.get_mut(usize::from(index))?.as_mut()
    }

    /// The same, to be looked at.
    pub(crate) fn get(&self, index: u16) -> Option<&Request> {
        self.slots.get(usize::from(index))?.as_ref()
    }

    /// The command in a slot that the caller knows to be taken.
    pub(super) fn at(&mut self, index: u16) -> &mut Request {
        self.get_mut(index).expect("a slot that the queue has on a list is taken")
    }

    /// True if a command with this identifier is outstanding.
    pub(super) fn has_command(&self, command_id: u16) -> bool {
        self.busy() > 0 && self.command_ids.contains(&u32::from(command_id))
    }

    /// True if one of the fenced commands of this owner is outstanding. Requests that only wait do
    /// not count: they were ended, or are held back.
    pub(crate) fn have(&self, fenced: &Fenced, owner: &Owner) -> bool {
        let has_stored = |controller: &ControllerInstance| {
            owner.controller == *controller && self.iter().any(|(_, slot)| slot.may_take_effect())
        };
        let is_stored = |namespace: &Arc<Namespace>, is_meant: &dyn Fn(&Request) -> bool| {
            self.iter().any(|(_, slot)| {
                slot.is_at_storage()
                    && slot.attachment().is_some_and(|a| Arc::ptr_eq(&a.namespace, namespace))
                    && is_meant(slot)
            })
        };
        if self.kept() == 0 {
            return false;
        }
        match fenced {
            Fenced::Writes(namespace, range) => {
                is_stored(namespace, &|slot| !slot.is_paired() && slot.work.may_write(range))
            }
            Fenced::Changes(namespace) => is_stored(namespace, &|slot| slot.work.is_refused_after_failure()),
            Fenced::Beyond(namespace) => {
                is_stored(namespace, &|slot| slot.work.may_write(&namespace.behind_end()))
            }
            Fenced::Hosts(namespace, hosts) => hosts.contains(&owner.host) && is_stored(namespace, &|_| true),
            Fenced::Waiting => false,
            Fenced::Controller(controller) => has_stored(controller),
            Fenced::IoQueues(controller) => has_stored(controller),
        }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        self.host_bytes.subtract(self.buffer_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::controller::{Guest, Network};
    use crate::target::io::HostBuffers;
    use crate::target::served::NamespaceTable;

    const ENTRIES: u16 = 4;
    const LENGTH: u32 = 4096;

    fn arriving(command_id: u16) -> Arriving {
        let view = Rc::new(NamespaceView::new(Arc::new(NamespaceTable::default())));
        let (opcode, nsid, work, now) = (0, 1, Work::Flush, Moment(1));
        Arriving { command_id, opcode, nsid, view, work, length: LENGTH, now }
    }

    /// Fills the queue with commands that the storage has, as far as there is room.
    fn fill(slots: &mut Slots, pool: &mut BufferPool) -> Vec<(u16, Buffer)> {
        let mut taken = Vec::new();
        for command_id in 0..ENTRIES {
            let Some(index) = slots.take(arriving(command_id)) else { break };
            taken.push((index, slots.hold(LENGTH as usize, pool)));
            let operation = Operation {
                data: None,
                began: Moment(1),
                sync: None,
                reads: false,
                beside_bytes: 0,
                is_late: false,
                is_given_up: false,
                is_uncounted: false,
            };
            slots.set(index, State::AtStorage(operation));
        }
        taken
    }

    #[test]
    fn a_host_may_have_twice_as_many_commands_as_its_queue_has_entries_and_no_more() {
        let mut slots = Slots::new(ENTRIES);
        for number in 0..2 * ENTRIES {
            assert!(slots.take(arriving(number)).is_some());
            assert_eq!(slots.are_overrun(), number >= ENTRIES);
        }
        assert!(slots.take(arriving(99)).is_none());
    }

    #[test]
    fn a_host_with_many_queues_has_a_share_and_leaves_others_theirs() {
        const LENGTH: usize = 4096;
        let mut hosts = HostBuffers::default();
        let mut queue = |nqn: &str| {
            let network = Network::of([10, 0, 0, 1].into());
            let guest = Guest { nqn: nqn.to_owned(), network, is_named: true, is_proved: false };
            let mut slots = Slots::new(ENTRIES);
            slots.share(hosts.of(&guest));
            slots
        };
        let most = HOST_BUFFER_BYTES_MAX / CONNECTION_BUFFER_BYTES_MAX;
        let mut greedy: Vec<Slots> = (0..=most).map(|_| queue("greedy")).collect();
        greedy[..most].iter_mut().for_each(|slots| slots.count(CONNECTION_BUFFER_BYTES_MAX));
        assert!(greedy[most].may_hold(LENGTH), "no queue waits for others alone");
        greedy[most].count(LENGTH);
        assert!(!greedy[most].may_hold(LENGTH), "one command at a time");
        let mut other = queue("other");
        other.count(LENGTH);
        assert!(other.may_hold(CONNECTION_BUFFER_BYTES_MAX - LENGTH), "another host has its own share");
        drop(greedy.remove(0));
        assert!(greedy[most - 1].may_hold(LENGTH), "buffers of a queue that is gone count no longer");
    }

    #[test]
    fn commands_that_were_given_up_leave_their_host_its_whole_queue() {
        let (mut slots, mut pool) = (Slots::new(ENTRIES), BufferPool::new());
        let mut stuck = fill(&mut slots, &mut pool);
        assert_eq!(stuck.len(), usize::from(ENTRIES));
        let bytes = slots.buffer_bytes;
        for round in 2..=GIVEN_UP_SLOTS_FACTOR {
            for (index, _) in &stuck {
                if !slots.at(*index).is_given_up() {
                    slots.give_up(*index, true);
                }
            }
            assert_eq!(slots.buffer_bytes, 0);
            stuck.extend(fill(&mut slots, &mut pool));
            assert_eq!((stuck.len(), slots.buffer_bytes), (round * usize::from(ENTRIES), bytes));
        }
        // There is an end to it, also for a host that has more outstanding than it should.
        for _ in 1..QUEUE_OVERRUN_FACTOR {
            stuck[stuck.len() - usize::from(ENTRIES)..]
                .iter()
                .for_each(|(index, _)| slots.give_up(*index, true));
            stuck.extend(fill(&mut slots, &mut pool));
        }
        stuck[stuck.len() - usize::from(ENTRIES)..].iter().for_each(|(index, _)| slots.give_up(*index, true));
        assert!(fill(&mut slots, &mut pool).is_empty());
        for (index, buffer) in stuck {
            assert!(slots.end_operation(index).is_some_and(|operation| operation.is_uncounted));
            slots.discard(index, &mut pool);
            pool.give(buffer);
        }
        assert_eq!((slots.busy(), slots.buffer_bytes, slots.kept()), (0, 0, 0));
    }
}
