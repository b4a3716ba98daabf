//! What a connection knows of pages of memory namespaces that somebody else used when it wanted them. It waits for nothing:
//! it asks for another turn and tries again.

use std::time::Duration;

use crate::limits::WRITERS_FIRST_US;
use crate::ring::Moment;

/// That some pages were in others' hands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contention {
    since: Option<Moment>,
    /// What it has to send was cut before such a page.
    pub(super) cuts: bool,
    /// Commands that need such a page are held back.
    pub(super) retries: bool,
}

impl Contention {
    /// Whether another turn is wanted.
    pub(super) const fn is_there(&self) -> bool {
        self.cuts || self.retries
    }

    /// Whether it has let others go first for long enough.
    pub(super) fn insists(&self, now: Moment) -> bool {
        self.since.is_some_and(|since| now.since(since) >= Duration::from_micros(WRITERS_FIRST_US))
    }

    /// A turn has ended.
    pub(super) fn settle(&mut self, now: Moment) {
        self.since = if self.is_there() { self.since.or(Some(now)) } else { None };
    }
}
