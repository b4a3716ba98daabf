//! Event count: threads wait until others notify them, and then look again. The data travels elsewhere.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Counter of notifications that can be waited for.
#[derive(Debug, Default)]
pub(crate) struct EventCount {
    count: Mutex<u64>,
    changed: Condvar,
}

impl EventCount {
    /// Wakes all waiting threads.
    pub(crate) fn notify_all(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }

    /// Number of notifications so far: take it before looking, and pass it to `wait` if there was nothing
    /// to see.
    pub(crate) fn count(&self) -> u64 {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a notification after `seen` was taken, or for `timeout`.
    pub(crate) fn wait(&self, seen: u64, timeout: Duration) {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self
            .changed
            .wait_timeout_while(count, timeout, |count| *count == seen)
            .unwrap_or_else(PoisonError::into_inner);
    }
}
