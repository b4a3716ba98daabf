//! Threads of the machine.

pub use std::thread::{Builder, JoinHandle, sleep};

/// True if it is this thread.
pub(crate) fn is_current<T>(thread: &JoinHandle<T>) -> bool {
    thread.thread().id() == std::thread::current().id()
}

/// Does the same on this number of threads, this one among them, which share what there is to do.
pub fn side_by_side(threads: usize, work: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(&work);
        }
        work();
    });
}
