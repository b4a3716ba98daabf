//! Requests of guests that are not answered yet.

use slab::Slab;

use super::chain::Chain;
use super::work::{Failed, Work};
use crate::limits::SPARE_LISTS_MAX;

/// A request.
pub(super) struct Request {
    /// Index of the virtqueue.
    pub(super) vring: usize,
    /// The descriptor that it begins with.
    pub(super) head: u16,
    pub(super) chain: Chain,
    pub(super) work: Work,
    /// Bytes of one command; the last may have fewer.
    pub(super) piece_bytes: u64,
    /// Bytes that have been made into commands.
    pub(super) issued: u64,
    /// Commands that are under way.
    pub(super) commands: usize,
    /// Why it fails; no more commands are made then.
    pub(super) error: Option<Failed>,
}

impl Request {
    /// Offset of the next command within the request, and its length; `None` when there are no
    /// more.
    pub(super) fn next_piece(&self) -> Option<(u64, u64)> {
        let left = self.work.length - self.issued;
        (left > 0 && self.error.is_none()).then(|| (self.issued, left.min(self.piece_bytes)))
    }

    /// True if all its work is done, or given up.
    pub(super) fn is_over(&self) -> bool {
        self.commands == 0 && self.next_piece().is_none()
    }
}

/// Requests of a thread, by key. Room for lists of buffers is used again.
#[derive(Default)]
pub(super) struct Requests {
    entries: Slab<Request>,
    spare: Vec<Chain>,
}

impl Requests {
    /// Room for a list of buffers.
    pub(super) fn room(&mut self) -> Chain {
        self.spare.pop().unwrap_or_default()
    }

    pub(super) fn give_room(&mut self, chain: Chain) {
        if self.spare.len() < SPARE_LISTS_MAX {
            self.spare.push(chain);
        }
    }

    pub(super) fn add(&mut self, request: Request) -> usize {
        self.entries.insert(request)
    }

    pub(super) fn get(&mut self, key: usize) -> Option<&mut Request> {
        self.entries.get_mut(key)
    }

    pub(super) fn take(&mut self, key: usize) -> Option<Request> {
        self.entries.try_remove(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_more_requests_than_have_commands_are_freed() {
        let mut requests = Requests::default();
        let chains: Vec<Chain> = (0..2 * SPARE_LISTS_MAX).map(|_| requests.room()).collect();
        chains.into_iter().for_each(|chain| requests.give_room(chain));
        assert_eq!(requests.spare.len(), SPARE_LISTS_MAX);
    }
}
