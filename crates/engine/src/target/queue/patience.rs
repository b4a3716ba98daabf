//! How long somebody has let others go first who use the same page of memory. It waits for nothing: whoever has it asks for
//! another turn, and tries again.

use std::time::Duration;

use crate::limits::WRITERS_FIRST_US;
use crate::ring::Moment;

/// Since when some pages have been in others' hands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Patience(Option<Moment>);

impl Patience {
    /// Whether others have gone first for long enough.
    pub(crate) fn is_over(&self, now: Moment) -> bool {
        self.0.is_some_and(|since| now.since(since) >= Duration::from_micros(WRITERS_FIRST_US))
    }

    /// A turn has ended, after which pages are still in others' hands or not.
    pub(crate) fn settle(&mut self, is_waiting: bool, now: Moment) {
        self.0 = if is_waiting { self.0.or(Some(now)) } else { None };
    }
}
