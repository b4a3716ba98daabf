//! Waking a ring from another thread: an eventfd that is written once until the ring has seen it. It is never read, since
//! rings hear of each write as such, and not of the counter.
//! What the news is travels elsewhere, in a channel of its owner.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// Wakes one ring's `wait`. Cheap to clone, usable from any thread.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    event: OwnedFd,
    pending: AtomicBool,
}

impl Waker {
    pub(super) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(Inner { event, pending: AtomicBool::new(false) })))
    }

    /// Makes the ring's current or next `wait` return with `Event::Woken`. Several calls before that are one.
    pub fn wake(&self) {
        if !self.0.pending.swap(true, Ordering::AcqRel) {
            // The counter has 64 bits, which as many writes as that do not fill in a process's life.
            let _ = rustix::io::write(&self.0.event, &1u64.to_ne_bytes());
        }
    }

    /// Takes note that the ring has seen it. News sent before this call is visible after it.
    pub(super) fn seen(&self) {
        // A swap, not a store: it also makes visible what other wakers, who found it pending, sent before.
        self.0.pending.swap(false, Ordering::AcqRel);
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
