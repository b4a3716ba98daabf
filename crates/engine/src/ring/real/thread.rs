//! Threads of the machine.

pub(crate) use std::thread::{Builder, JoinHandle, sleep};

/// Whether it is this thread.
pub(crate) fn is_current<T>(thread: &JoinHandle<T>) -> bool {
    thread.thread().id() == std::thread::current().id()
}
