//! Threads. In a simulation they take turns on one thread of the machine and sleep in its virtual time.

#[cfg(feature = "simulation")]
pub(crate) use crate::simulation::thread::{Builder, JoinHandle, sleep};
#[cfg(not(feature = "simulation"))]
pub(crate) use std::thread::{Builder, JoinHandle, sleep};

/// Whether it is this thread.
#[cfg(feature = "simulation")]
pub(crate) const fn is_current<T>(_thread: &JoinHandle<T>) -> bool {
    // Nothing in a simulation gives up the last of what a thread serves on that thread.
    false
}

/// Whether it is this thread.
#[cfg(not(feature = "simulation"))]
pub(crate) fn is_current<T>(thread: &JoinHandle<T>) -> bool {
    thread.thread().id() == std::thread::current().id()
}
