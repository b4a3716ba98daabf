//! An open file or block device, as a ring's operations take it.
//! Blocks, namespaces and what a file is good for belong to `backend`.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// An open file or block device. It must stay open until all operations on it have ended.
#[derive(Debug)]
pub struct Storage {
    descriptor: OwnedFd,
    write_delay_ms: AtomicU32,
}

impl Storage {
    /// Takes over an open descriptor.
    pub fn new(descriptor: impl Into<OwnedFd>) -> Self {
        Self { descriptor: descriptor.into(), write_delay_ms: AtomicU32::new(0) }
    }

    /// Holds each write that begins from now on back for this number of milliseconds before it reaches the file. Like what a
    /// slow disk has, a write that is held back cannot be taken back.
    pub fn set_write_delay_ms(&self, write_delay_ms: u32) {
        self.write_delay_ms.store(write_delay_ms, Ordering::Relaxed);
    }

    /// Delay of a write that begins now.
    pub(super) fn write_delay(&self) -> Duration {
        Duration::from_millis(self.write_delay_ms.load(Ordering::Relaxed).into())
    }
}

impl AsFd for Storage {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl AsRawFd for Storage {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}
