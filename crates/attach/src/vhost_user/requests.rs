//! Requests of guests that are not answered yet.

use slab::Slab;

use super::chain::Chain;
use super::work::{Failed, Work};

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
        self.spare.push(chain);
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
