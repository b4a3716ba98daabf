//! Lateness of a connection to a cluster, and the claim of the worker that looks after it. Every
//! cluster's connection has one.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use super::Cluster;

/// States of a connection: nothing wrong is known; an operation took too long; a worker looks after
/// that; it is on the blocklist.
const PUNCTUAL: u8 = 0;
const LATE: u8 = 1;
const LOOKED_AFTER: u8 = 2;
const SHUT_OUT: u8 = 3;

/// Lateness of a connection.
#[derive(Debug)]
pub(super) struct Lateness {
    now: AtomicU8,
    /// Set once an operation was late: it may still be carried out.
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
        // With many late operations, all but the first read the present state, and write nothing.
        let is_news = now.load(Ordering::Relaxed) == PUNCTUAL
            && now.compare_exchange(PUNCTUAL, LATE, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if is_news {
            has_been.store(true, Ordering::Release);
        }
        is_news
    }

    /// True once an operation has taken too long on it.
    pub fn has_been_late(&self) -> bool {
        self.lateness().has_been.load(Ordering::Acquire)
    }

    /// Claims a late operation that has no one to look after it; true if the caller does from now
    /// on, until [`Self::note_punctual`].
    pub fn take_late(&self) -> bool {
        let now = &self.lateness().now;
        now.compare_exchange(LATE, LOOKED_AFTER, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Records that nothing wrong is known now.
    pub fn note_punctual(&self) {
        self.lateness().now.store(PUNCTUAL, Ordering::Release);
    }

    /// Records that no operation in flight will be executed: it is on the blocklist, and its
    /// replacement knows.
    pub fn note_shut_out(&self) {
        self.lateness().now.store(SHUT_OUT, Ordering::Release);
    }

    /// True after [`Self::note_shut_out`].
    pub fn is_shut_out(&self) -> bool {
        self.lateness().now.load(Ordering::Acquire) == SHUT_OUT
    }
}
