//! Whose turn it is: those that something has happened to, each once.

/// Clients or virtqueues by place, in the order in which something has happened to them.
pub(crate) struct Turns {
    waiting: Vec<usize>,
    is_waiting: Vec<bool>,
}

impl Turns {
    /// For places below `count`.
    pub(crate) fn new(count: usize) -> Self {
        Self { waiting: Vec::with_capacity(count), is_waiting: vec![false; count] }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Number of places in this round. A place that is added from here on is in the next.
    pub(crate) const fn count(&self) -> usize {
        self.waiting.len()
    }

    /// Lets a place have a turn.
    pub(crate) fn add(&mut self, place: usize) {
        if !std::mem::replace(&mut self.is_waiting[place], true) {
            self.waiting.push(place);
        }
    }

    /// The place whose turn is number `at` of the round. It may ask for another one from here on.
    pub(crate) fn begin(&mut self, at: usize) -> usize {
        let place = self.waiting[at];
        self.is_waiting[place] = false;
        place
    }

    /// Ends a round of this number of turns.
    pub(crate) fn end(&mut self, count: usize) {
        self.waiting.drain(..count);
    }
}
