//! The other of the two processes of an upgrade, by what tells when it has died: its number may be another process' then.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use engine::target::hand_over::Process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A process that lives, or has died since.
pub(crate) struct OtherProcess {
    descriptor: OwnedFd,
    number: u32,
}

impl OtherProcess {
    /// The process with this number.
    pub(crate) fn open(number: Pid) -> io::Result<Self> {
        let descriptor = pidfd_open(number, PidfdFlags::empty())?;
        Ok(Self { descriptor, number: number.as_raw_nonzero().get() as u32 })
    }

    /// Process id.
    pub(crate) const fn number(&self) -> u32 {
        self.number
    }
}

impl Process for OtherProcess {
    fn has_died(&self, time: Duration) -> bool {
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        poll(&mut [PollFd::new(&self.descriptor, PollFlags::IN)], Some(&time)).is_ok_and(|ready| ready > 0)
    }
}
