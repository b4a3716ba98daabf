//! A lock that is taken also after a thread has panicked with it.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock whose holder cannot have left it half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
