//! A bell that threads ring for others to look again. What there is to see travels elsewhere.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A counter of rings that can be waited for.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rings: Mutex<u64>,
    rung: Condvar,
}

impl Bell {
    /// Wakes all who wait.
    pub(crate) fn ring(&self) {
        *self.rings.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.rung.notify_all();
    }

    /// Number of rings so far: take it before looking, and pass it to `wait` if there was nothing
    /// to see.
    pub(crate) fn count(&self) -> u64 {
        *self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it has been rung since `seen` was taken, or for `timeout`.
    pub(crate) fn wait(&self, seen: u64, timeout: Duration) {
        let rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self
            .rung
            .wait_timeout_while(rings, timeout, |rings| *rings == seen)
            .unwrap_or_else(PoisonError::into_inner);
    }
}
