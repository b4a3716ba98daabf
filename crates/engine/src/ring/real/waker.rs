//! Waking a ring from another thread: an eventfd that is written once until the ring has seen it. It is never read, since
//! rings learn of each write as such, and not of the counter.
//! What the news is travels elsewhere, in a channel of its owner.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

use crate::sync::atomic::{AtomicBool, Ordering};

/// Wakes one ring's `wait`. Cheap to clone, usable from any thread.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    event: OwnedFd,
    pending: AtomicBool,
    /// Substitute of the descriptor for loom.
    #[cfg(all(test, feature = "loom"))]
    written: loom::sync::Notify,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let inner = Inner {
            event,
            pending: AtomicBool::new(false),
            #[cfg(all(test, feature = "loom"))]
            written: loom::sync::Notify::new(),
        };
        Ok(Self(Arc::new(inner)))
    }

    /// Makes the ring's current or next `wait` return with `Event::Woken`. Several calls before that are one.
    pub fn wake(&self) {
        if !self.0.pending.swap(true, Ordering::AcqRel) {
            // The counter has 64 bits, which as many writes as that do not fill in a process's life.
            let _ = rustix::io::write(&self.0.event, &1u64.to_ne_bytes());
            #[cfg(all(test, feature = "loom"))]
            self.0.written.notify();
        }
    }

    /// Records that the ring has seen it. News sent before this call is visible after it.
    pub(super) fn seen(&self) {
        // A swap, not a store: it also makes visible what other wakers, who found it pending, sent before.
        self.0.pending.swap(false, Ordering::AcqRel);
    }

    /// True if it was woken since the last call; for tests without a ring.
    #[cfg(test)]
    pub(crate) fn take_pending(&self) -> bool {
        self.0.pending.swap(false, Ordering::AcqRel)
    }

    /// Waits as a ring does that is notified of its descriptor: until it is written, or was since this was called last.
    #[cfg(all(test, feature = "loom"))]
    pub(crate) fn sleep(&self) {
        self.0.written.wait();
        self.seen();
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.0.event.as_raw_fd()
    }
}

impl AsRawFd for Waker {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor()
    }
}

#[cfg(all(test, feature = "loom"))]
mod races;
