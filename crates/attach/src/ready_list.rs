//! Ready list: each client or virtqueue with pending work, at most once.

/// Clients or virtqueues by index, in the order in which they became ready.
pub(crate) struct ReadyList {
    entries: Vec<usize>,
    is_listed: Vec<bool>,
}

impl ReadyList {
    /// Empty list for indices below `count`.
    pub(crate) fn new(count: usize) -> Self {
        Self { entries: Vec::with_capacity(count), is_listed: vec![false; count] }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entries of this round. An index that is added from here on is in the next.
    pub(crate) const fn count(&self) -> usize {
        self.entries.len()
    }

    /// Adds an index, unless it is listed.
    pub(crate) fn add(&mut self, index: usize) {
        if !std::mem::replace(&mut self.is_listed[index], true) {
            self.entries.push(index);
        }
    }

    /// Entry `at` of the round. The index may be added again from here on.
    pub(crate) fn take(&mut self, at: usize) -> usize {
        let index = self.entries[at];
        self.is_listed[index] = false;
        index
    }

    /// Ends a round: removes its first `count` entries.
    pub(crate) fn end_round(&mut self, count: usize) {
        self.entries.drain(..count);
    }
}
