//! Atomics and locks of the places where threads meet without waiting for each other. They are the standard library's; in a
//! build for it they are loom's, which plays every order in which the threads of a test may meet (`cargo xtask prove races`).

#[cfg(not(all(test, feature = "loom")))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};

#[cfg(all(test, feature = "loom"))]
pub(crate) use loom::sync::{Mutex, MutexGuard, atomic};

use std::sync::PoisonError;

/// A lock's content, also after a thread has panicked with it: nothing here is left half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Threads are stopped for another one in the middle so often at most: faults that need more are not known, and each further
/// one multiplies the orders.
#[cfg(all(test, feature = "loom"))]
const PREEMPTIONS_MAX: usize = 3;

/// Plays every order of what happens in `scene`.
#[cfg(all(test, feature = "loom"))]
pub(crate) fn model(scene: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS_MAX);
    builder.check(scene);
}

/// Cell that threads of a model write and read like a buffer: loom reports two that are there at
/// once.
#[cfg(all(test, feature = "loom"))]
pub(crate) struct SharedCell(loom::cell::UnsafeCell<u64>);

// SAFETY: whether threads use it one after the other is what models are about, and loom stops at the first that do not.
#[cfg(all(test, feature = "loom"))]
#[allow(unsafe_code)]
unsafe impl Sync for SharedCell {}

#[cfg(all(test, feature = "loom"))]
#[allow(unsafe_code)]
impl SharedCell {
    pub(crate) fn new() -> Self {
        Self(loom::cell::UnsafeCell::new(0))
    }

    /// Has it alone for as long as what is returned lives.
    pub(crate) fn enter(&self) -> loom::cell::MutPtr<u64> {
        self.0.get_mut()
    }

    pub(crate) fn write(&self, value: u64) {
        // SAFETY: no other thread is there, or loom has stopped already.
        self.0.with_mut(|cell| unsafe { *cell = value });
    }

    pub(crate) fn read(&self) -> u64 {
        // SAFETY: no thread writes there, or loom has stopped already.
        self.0.with(|cell| unsafe { *cell })
    }
}
