//! The ring by which one thread gets the requests of its queue, and answers them. It is beside the thread's other ring, which
//! watches it: a request that comes makes it readable.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use engine::ring::Ring;
use io_uring::types::Fd;
use io_uring::{IoUring, opcode};
use zerocopy::IntoBytes as _;

use super::driver::{COMMIT_AND_FETCH, FETCH, IoCommand};

pub(super) struct RequestRing {
    ring: IoUring,
    device: Arc<File>,
    queue: u16,
    has_unsent: bool,
}

impl RequestRing {
    /// A ring for the calling thread. The driver takes requests' answers from the thread alone that asked for them.
    pub(super) fn new(device: Arc<File>, queue: u16, depth: u16) -> io::Result<Self> {
        // Each tag has one command here at a time, so that there is room for all.
        let ring = IoUring::new(u32::from(depth))?;
        Ok(Self { ring, device, queue, has_unsent: false })
    }

    /// Has the thread's other ring watch this one.
    pub(super) fn watch(&self, ring: &mut Ring, token: u32) -> io::Result<()> {
        ring.watch(self, token)
    }

    /// Ends that.
    pub(super) fn unwatch(&self, ring: &mut Ring, token: u32) {
        ring.unwatch(self, token);
    }

    /// Asks for the first request of a tag.
    pub(super) fn fetch(&mut self, tag: u16, address: u64) -> io::Result<()> {
        self.push(FETCH, tag, 0, address)
    }

    /// Answers the request of a tag, and asks for its next one.
    pub(super) fn commit(&mut self, tag: u16, result: i32, address: u64) -> io::Result<()> {
        self.push(COMMIT_AND_FETCH, tag, result, address)
    }

    fn push(&mut self, command: u32, tag: u16, result: i32, address: u64) -> io::Result<()> {
        let what = IoCommand { queue: self.queue, tag, result, address };
        let mut bytes = [0; size_of::<IoCommand>()];
        bytes.copy_from_slice(what.as_bytes());
        let entry = opcode::UringCmd16::new(Fd(self.device.as_raw_fd()), command).cmd(bytes);
        let entry = entry.build().user_data(tag.into());
        self.has_unsent = true;
        loop {
            // SAFETY: the command is in the entry itself, and the ring has its own hold on the device beside the file that is kept
            // here. The memory that it may name is a buffer of `RequestData`, which is dropped after this ring; the driver uses it
            // only while this thread submits or waits.
            #[allow(unsafe_code)]
            let pushed = unsafe { self.ring.submission().push(&entry) };
            match pushed {
                Ok(()) => return Ok(()),
                Err(_) => self.submit()?,
            }
        }
    }

    /// Hands over what was asked and answered.
    pub(super) fn submit(&mut self) -> io::Result<()> {
        while self.has_unsent {
            match self.ring.submit() {
                Ok(_) => self.has_unsent = !self.ring.submission().is_empty(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The tag of the next request, or of the next one that will not come, with 0 or the negative number of an error.
    pub(super) fn pop(&mut self) -> Option<(u16, i32)> {
        let entry = self.ring.completion().next()?;
        Some((entry.user_data() as u16, entry.result()))
    }
}

impl AsRawFd for RequestRing {
    fn as_raw_fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }
}
