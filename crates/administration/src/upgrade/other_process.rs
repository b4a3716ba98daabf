//! The other of the two processes of an upgrade, by a descriptor that shows its death: its number
//! may be another process' then.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use engine::hand_over::{About, OldProcess, Process};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A process that lives, or has died since.
pub struct OtherProcess {
    descriptor: OwnedFd,
    number: u32,
}

impl OtherProcess {
    /// The process with this number.
    pub fn open(number: Pid) -> io::Result<Self> {
        let descriptor = pidfd_open(number, PidfdFlags::empty())?;
        Ok(Self { descriptor, number: number.as_raw_nonzero().get() as u32 })
    }

    /// The process that has reported its start parameters; `None` if it has ended.
    pub fn of(about: &About) -> Option<Self> {
        let number = i32::try_from(about.process).ok().and_then(Pid::from_raw)?;
        Self::open(number).ok()
    }

    /// Process id.
    pub const fn number(&self) -> u32 {
        self.number
    }
}

impl Process for OtherProcess {
    fn has_died(&self, time: Duration) -> bool {
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        poll(&mut [PollFd::new(&self.descriptor, PollFlags::IN)], Some(&time)).is_ok_and(|ready| ready > 0)
    }
}

/// The old process, as the new one watches it.
pub struct WatchedProcess {
    pub process: OtherProcess,
    /// Reading end of its [`ResumeMark`].
    pub mark: OwnedFd,
}

impl Process for WatchedProcess {
    fn has_died(&self, time: Duration) -> bool {
        self.process.has_died(time)
    }
}

impl OldProcess for WatchedProcess {
    fn has_resumed(&self) -> bool {
        rustix::io::read(&self.mark, &mut [0; 1]).is_ok_and(|read| read > 0)
    }
}

/// Mark of the old process, which outlives it: it has resumed, and the state handed over is void.
pub struct ResumeMark {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl ResumeMark {
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Self { reader, writer })
    }

    /// Descriptor for the new process.
    pub fn reader(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }

    pub fn set(&self) {
        let _ = rustix::io::write(&self.writer, b"!");
    }
}
