//! The fixed table of a queue's outstanding commands. A command identifier is the slot's index and
//! a generation, which distinguishes an answer to a command that is over from one to the slot's
//! present command.

use nvme::Status;
use nvme::tcp::{Transfer, Transmitter};

use super::Timing;
use crate::limits::QUEUE_ENTRIES_MAX;
use crate::ring::{Buffer, Moment};

const INDEX_BITS: u32 = 10;
const INDEX_MASK: u16 = (1 << INDEX_BITS) - 1;
const GENERATION_MASK: u16 = u16::MAX >> INDEX_BITS;

// A full queue has one slot less than entries, so the last index is never used, nor is the identifier FFFFh,
// which the specification keeps for "no command".
const _: () = assert!(QUEUE_ENTRIES_MAX as u32 <= 1 << INDEX_BITS);

/// Direction of a command's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Direction {
    /// There is none.
    #[default]
    None,
    /// To the controller, within the capsule.
    Capsule,
    /// To the controller, as it asks for it.
    Send,
    /// To the host.
    Receive,
}

/// The data PDU that is coming in: where its next byte goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    pub(super) slot: u16,
    pub(super) next: usize,
    pub(super) end: usize,
    pub(super) success: bool,
}

/// Place for an outstanding command.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) buffer: Option<Buffer>,
    pub(super) user: u64,
    pub(super) direction: Direction,
    /// Set while a command is outstanding.
    pub(super) active: bool,
    /// Data came that does not fit its digest.
    pub(super) damaged: bool,
    /// Set if the command may stay outstanding without limit.
    pub(super) patient: bool,
    /// Set if the command is the queue's own, of an authentication.
    pub(super) is_exchange: bool,
    pub(super) generation: u16,
    /// Payloads on the send list that refer to the buffer.
    pub(super) sends: u32,
    /// Length of the data in bytes.
    pub(super) length: u32,
    /// Bytes received, or asked for by the controller.
    pub(super) moved: u32,
    /// Data still to be received.
    pub(super) transfer: Transfer,
    /// The answer, when it came before the payloads on the send list had left.
    pub(super) answer: Option<(Status, u64)>,
    /// Time when the time-out scan saw the command first; `Moment(0)` until then.
    pub(super) seen: Moment,
    /// Time when all of it that may be sent was handed to the socket; `Moment(0)` until then.
    pub(super) left: Moment,
    pub(super) timing: Timing,
}

impl Slot {
    /// The target asks for data of it.
    pub(super) fn asked_for(&mut self, now: Moment) {
        self.end_of_wait(now);
        self.left = Moment(0);
    }

    /// Something of its answer has come.
    pub(super) fn answered(&mut self, now: Moment) {
        if self.timing.answered == Moment(0) {
            self.end_of_wait(now);
            self.timing.answered = now;
        }
    }

    /// Adds the wait for its answer, which began when it had left: none if it had not.
    fn end_of_wait(&mut self, now: Moment) {
        if self.left != Moment(0) {
            self.timing.target_ns += now.since(self.left).as_nanos() as u64;
        }
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self {
            buffer: None,
            user: 0,
            direction: Direction::None,
            active: false,
            damaged: false,
            patient: false,
            is_exchange: false,
            generation: 0,
            sends: 0,
            length: 0,
            moved: 0,
            transfer: Transfer::new(0..0, 0),
            answer: None,
            seen: Moment(0),
            left: Moment(0),
            timing: Timing::default(),
        }
    }
}

/// The table.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Box<[Slot]>,
    free: Vec<u16>,
}

impl Slots {
    /// A table for a queue of `entries` entries, 1's based: one of them always stays empty.
    pub(super) fn new(entries: u16) -> Self {
        let count = entries - 1;
        Self { slots: (0..count).map(|_| Slot::default()).collect(), free: (0..count).rev().collect() }
    }

    /// An empty send list for that many commands.
    pub(super) fn transmitter(&self) -> Transmitter<u16> {
        Transmitter::new(self.count().min(128))
    }

    /// Free slots.
    pub(super) const fn free(&self) -> usize {
        self.free.len()
    }

    /// All slots.
    pub(super) const fn count(&self) -> usize {
        self.slots.len()
    }

    /// Takes a free slot.
    pub(super) fn take(&mut self) -> Option<u16> {
        let index = self.free.pop()?;
        let slot = &mut self.slots[usize::from(index)];
        slot.active = true;
        slot.damaged = false;
        slot.patient = false;
        slot.is_exchange = false;
        slot.sends = 0;
        slot.moved = 0;
        slot.answer = None;
        slot.seen = Moment(0);
        slot.left = Moment(0);
        slot.timing = Timing::default();
        Some(index)
    }

    /// Gives a slot back; its command identifier is not valid from now on.
    pub(super) fn give(&mut self, index: u16) {
        let slot = &mut self.slots[usize::from(index)];
        slot.active = false;
        slot.generation = (slot.generation + 1) & GENERATION_MASK;
        self.free.push(index);
    }

    /// The identifier of the command in slot `index`.
    pub(super) const fn command_id(&self, index: u16) -> u16 {
        index | self.slots[index as usize].generation << INDEX_BITS
    }

    /// The slot of an outstanding command.
    pub(super) fn find(&self, command_id: u16) -> Option<u16> {
        let index = command_id & INDEX_MASK;
        let slot = self.slots.get(usize::from(index))?;
        (slot.active && slot.generation == command_id >> INDEX_BITS).then_some(index)
    }

    pub(super) const fn get(&self, index: u16) -> &Slot {
        &self.slots[index as usize]
    }

    pub(super) const fn get_mut(&mut self, index: u16) -> &mut Slot {
        &mut self.slots[index as usize]
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.slots.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_valid_for_one_command() {
        let mut slots = Slots::new(2);
        let index = slots.take().unwrap();
        assert_eq!(slots.take(), None);
        let command_id = slots.command_id(index);
        assert_eq!(slots.find(command_id), Some(index));
        slots.give(index);
        assert_eq!(slots.find(command_id), None);
        slots.take().unwrap();
        assert_eq!(slots.find(command_id), None, "the slot has another command now");
        assert_eq!(slots.find(u16::MAX), None);
    }

    #[test]
    fn the_target_has_a_command_between_what_leaves_and_what_comes() {
        let at = Moment;
        let mut slot = Slot { left: at(10), ..Slot::default() };
        slot.asked_for(at(25));
        // Its data leaves at 40, and the answer comes in two parts.
        assert_eq!((slot.left, slot.timing), (at(0), Timing { target_ns: 15, answered: at(0) }));
        slot.left = at(40);
        slot.answered(at(70));
        slot.answered(at(90));
        assert_eq!(slot.timing, Timing { target_ns: 45, answered: at(70) });
    }

    #[test]
    fn what_is_answered_before_it_has_left_waited_for_nothing() {
        let mut slot = Slot::default();
        slot.answered(Moment(70));
        assert_eq!(slot.timing, Timing { target_ns: 0, answered: Moment(70) });
    }

    #[test]
    fn a_full_table_never_uses_the_reserved_identifier() {
        let mut slots = Slots::new(QUEUE_ENTRIES_MAX);
        while let Some(index) = slots.take() {
            slots.get_mut(index).generation = GENERATION_MASK;
            assert_ne!(slots.command_id(index), u16::MAX);
        }
    }
}
