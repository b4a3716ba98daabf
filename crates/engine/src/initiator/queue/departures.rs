//! Departures of commands: which have not left yet, and when they do. The bytes are the send list's
//! concern.

use std::collections::VecDeque;

use super::slot::Slots;
use crate::ring::Moment;

/// Commands, and data that the target asked for, in the order of the wire, each with the position of its end in the stream.
#[derive(Debug)]
pub(super) struct Departures {
    waiting: VecDeque<(u16, u64)>,
    /// Bytes that were taken off the send list: what the socket has, and what is sealed for it.
    taken_bytes: u64,
    /// Bytes of these that the socket has.
    handed_bytes: u64,
}

impl Departures {
    /// None yet, on a queue of this number of slots.
    pub(super) fn new(slots: usize) -> Self {
        // A command is in here once: its data is asked for when it has left. A target that asks for data before makes it grow
        // to twice that, since nothing more is asked for until the data has left.
        Self { waiting: VecDeque::with_capacity(slots), taken_bytes: 0, handed_bytes: 0 }
    }

    /// True if nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Appends a slot whose bytes end where the send list ends, which has this number of bytes now.
    pub(super) fn push(&mut self, slot: u16, list_bytes: usize) {
        self.waiting.push_back((slot, self.taken_bytes + list_bytes as u64));
    }

    /// This number of bytes was taken off the send list.
    pub(super) const fn take(&mut self, bytes: usize) {
        self.taken_bytes += bytes as u64;
    }

    /// The socket has all that was taken.
    pub(super) const fn all_taken_is_handed(&mut self) {
        self.handed_bytes = self.taken_bytes;
    }

    /// Marks the slots whose bytes the socket has as departed.
    pub(super) fn depart(&mut self, slots: &mut Slots, now: Moment) {
        while let Some(&(slot, end)) = self.waiting.front() {
            if end > self.handed_bytes {
                break;
            }
            self.waiting.pop_front();
            slots.get_mut(slot).left = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_leaves_with_its_last_byte() {
        let mut slots = Slots::new(4);
        let all: Vec<u16> = (0..3).filter_map(|_| slots.take()).collect();
        let mut departures = Departures::new(3);
        departures.push(all[0], 72);
        departures.push(all[1], 144);
        departures.take(100);
        departures.depart(&mut slots, Moment(5));
        let left = |slots: &Slots| all.iter().map(|slot| slots.get(*slot).left.0).collect::<Vec<_>>();
        assert_eq!(left(&slots), [0, 0, 0], "sealed is not sent");
        departures.all_taken_is_handed();
        departures.depart(&mut slots, Moment(6));
        assert_eq!(left(&slots), [6, 0, 0]);
        departures.push(all[2], 44 + 72);
        departures.take(44);
        departures.all_taken_is_handed();
        departures.depart(&mut slots, Moment(7));
        assert_eq!((left(&slots), departures.is_empty()), (vec![6, 7, 0], false));
        departures.take(72);
        departures.all_taken_is_handed();
        departures.depart(&mut slots, Moment(8));
        assert_eq!((left(&slots), departures.is_empty()), (vec![6, 7, 8], true));
    }
}
