//! Whether a connection to a cluster answers in time, and who looks after it when it does not. Every cluster's connection has one.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use super::Cluster;

/// Nothing is known to be wrong; an operation took too long; somebody looks after that; it is on the blocklist.
const PUNCTUAL: u8 = 0;
const LATE: u8 = 1;
const LOOKED_AFTER: u8 = 2;
const SHUT_OUT: u8 = 3;

/// Whether a connection is late.
#[derive(Debug)]
pub(super) struct Lateness {
    now: AtomicU8,
    /// Whether it was ever late: what was late then may be carried out yet.
    has_been: AtomicBool,
}

impl Default for Lateness {
    fn default() -> Self {
        Self { now: AtomicU8::new(PUNCTUAL), has_been: AtomicBool::new(false) }
    }
}

impl Cluster {
    /// Records that an operation took too long; whether that is news.
    pub fn note_late(&self) -> bool {
        let Lateness { now, has_been } = self.lateness();
        // Whoever has many operations late reads what is there, and writes nothing.
        let is_news = now.load(Ordering::Relaxed) == PUNCTUAL
            && now.compare_exchange(PUNCTUAL, LATE, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if is_news {
            has_been.store(true, Ordering::Release);
        }
        is_news
    }

    /// Whether an operation has ever taken too long on it.
    pub fn has_been_late(&self) -> bool {
        self.lateness().has_been.load(Ordering::Acquire)
    }

    /// Whether an operation took too long that nobody looks after yet; the caller does from now on, until
    /// [`Self::note_punctual`].
    pub fn take_late(&self) -> bool {
        let now = &self.lateness().now;
        now.compare_exchange(LATE, LOOKED_AFTER, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Nothing is known to be wrong now.
    pub fn note_punctual(&self) {
        self.lateness().now.store(PUNCTUAL, Ordering::Release);
    }

    /// Nothing of what it has under way will be executed: it is on the blocklist, and what takes its place knows.
    pub fn note_shut_out(&self) {
        self.lateness().now.store(SHUT_OUT, Ordering::Release);
    }

    /// Whether that is so.
    pub fn is_shut_out(&self) -> bool {
        self.lateness().now.load(Ordering::Acquire) == SHUT_OUT
    }
}
