//! Requests of guests that are not answered yet.

use super::chain::Chain;
use super::work::{Failed, Work};
use crate::places::Places;

/// A request.
pub(super) struct Request {
    /// The place of the virtqueue that it came by.
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

/// All requests of a thread, by their places. Room for lists of buffers is used again.
#[derive(Default)]
pub(super) struct Requests {
    places: Places<Request>,
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
        self.places.add(request)
    }

    pub(super) fn get(&mut self, place: usize) -> Option<&mut Request> {
        self.places.get(place)
    }

    pub(super) fn take(&mut self, place: usize) -> Option<Request> {
        self.places.take(place)
    }
}
