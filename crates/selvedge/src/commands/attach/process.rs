//! A process that attaches disks: which one it is, and how it is asked to end.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// Time between two signals: a process that takes the first one for the second of them ends without order.
const INSISTS_AFTER: Duration = Duration::from_secs(3);

/// A process: its number, which another one may have later, and when it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// Clock ticks since the machine was started.
    start_time: u64,
}

impl Process {
    /// This one.
    pub(super) fn this() -> Option<Self> {
        let pid = std::process::id();
        start_time(pid).map(|start_time| Self { pid, start_time })
    }

    /// True if the process exists.
    pub(super) fn is_there(&self) -> bool {
        start_time(self.pid) == Some(self.start_time)
    }

    /// Ends the process (SIGTERM), and waits for `limit` at most. Returns true if it has ended. After the
    /// first signal a process waits for users of its disks; `insists` sends a second one.
    pub(super) fn end(&self, limit: Duration, insists: bool) -> io::Result<bool> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
        let descriptor = match pidfd_open(pid, PidfdFlags::empty()) {
            Err(rustix::io::Errno::SRCH) => return Ok(true),
            descriptor => descriptor?,
        };
        // The descriptor is one process's; if this was started later, it is another one, and the one that is meant has ended.
        if !self.is_there() {
            return Ok(true);
        }
        // It is readable when the process has ended.
        let has_ended = |limit: Duration| -> io::Result<bool> {
            let timeout = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: 0 };
            let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
            Ok(poll(&mut polled, Some(&timeout))? > 0)
        };
        pidfd_send_signal(&descriptor, Signal::TERM)?;
        if insists && !has_ended(INSISTS_AFTER.min(limit))? {
            pidfd_send_signal(&descriptor, Signal::TERM)?;
        }
        has_ended(limit)
    }
}

/// True if a process with this number exists.
pub(super) fn is_there(pid: u32) -> bool {
    start_time(pid).is_some()
}

/// Start time of a process, in clock ticks since the machine started (proc_pid_stat(5), field 22).
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, field 2, may have spaces and parentheses.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(22 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    #[test]
    fn only_the_process_that_is_meant_is_asked_to_end() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let process = Process { pid: child.id(), start_time: start_time(child.id()).unwrap() };
        let earlier = Process { start_time: process.start_time - 1, ..process };
        assert!(earlier.end(prerequisite::patience(), false).unwrap());
        assert!(child.try_wait().unwrap().is_none(), "another process was ended");
        assert!(process.end(prerequisite::patience(), false).unwrap());
        assert!(!child.wait().unwrap().success());
        assert!(process.end(Duration::ZERO, false).unwrap() && !is_there(process.pid));
    }

    #[test]
    fn a_process_that_waits_for_users_of_its_disks_is_asked_twice() {
        // The first signal is spent on the trap, which goes with it.
        let script = "trap 'trap - TERM' TERM; echo ready; while :; do sleep 0.01; done";
        let mut command = Command::new("sh");
        let mut child = command.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        let process = Process { pid: child.id(), start_time: start_time(child.id()).unwrap() };
        assert!(process.end(prerequisite::patience(), true).unwrap());
        assert!(!child.wait().unwrap().success());
    }
}
