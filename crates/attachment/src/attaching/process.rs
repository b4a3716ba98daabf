//! A process that attaches disks: which one it is, and how it is asked to end.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// Time between two signals: a process that takes the first one for the second of them ends without order.
const INSISTS_AFTER: Duration = Duration::from_secs(3);

/// Manner in which a process is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// The process waits for users of its disks, however often it has been asked (SIGHUP, where it
    /// knows that).
    Waiting,
    /// The same if this is the first signal; a later one removes disks in use (SIGTERM).
    Plain,
    /// The process gets a second signal if the first does not end it.
    Insisting,
}

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

    /// Ends the process, and waits for `limit` at most. Returns true if it has ended.
    pub(super) fn end(&self, limit: Duration, manner: Manner) -> io::Result<bool> {
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
        // The signal of a closed terminal never insists. A process that nohup(1) started does not
        // get it.
        let is_patient = manner == Manner::Waiting && catches(self.pid, Signal::HUP);
        pidfd_send_signal(&descriptor, if is_patient { Signal::HUP } else { Signal::TERM })?;
        if manner == Manner::Insisting && !has_ended(INSISTS_AFTER.min(limit))? {
            pidfd_send_signal(&descriptor, Signal::TERM)?;
        }
        has_ended(limit)
    }
}

/// True if a process has a handler for this signal.
fn catches(pid: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & 1 << (signal.as_raw() - 1) != 0)
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
    use std::process::{Child, Command, Stdio};

    #[test]
    fn only_the_process_that_is_meant_is_asked_to_end() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let process = Process { pid: child.id(), start_time: start_time(child.id()).unwrap() };
        let earlier = Process { start_time: process.start_time - 1, ..process };
        assert!(earlier.end(prerequisite::patience(), Manner::Waiting).unwrap());
        assert!(child.try_wait().unwrap().is_none(), "another process was ended");
        assert!(process.end(prerequisite::patience(), Manner::Waiting).unwrap());
        assert!(!child.wait().unwrap().success());
        assert!(process.end(Duration::ZERO, Manner::Waiting).unwrap() && !is_there(process.pid));
    }

    /// A process that executes this script and has said that it is ready. The tests may run below
    /// nohup(1).
    fn started(script: &str) -> (Child, Process) {
        let mut command = Command::new("env");
        let mut child = command
            .args(["--default-signal=HUP", "sh", "-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        let process = Process { pid: child.id(), start_time: start_time(child.id()).unwrap() };
        (child, process)
    }

    #[test]
    fn a_process_that_waits_for_users_of_its_disks_is_asked_twice() {
        // The first signal is spent on the trap, which goes with it.
        let script = "trap 'trap - TERM' TERM; echo ready; while :; do sleep 0.01; done";
        let (mut child, process) = started(script);
        assert!(process.end(prerequisite::patience(), Manner::Insisting).unwrap());
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn a_process_that_is_to_wait_gets_the_signal_that_never_insists_if_it_has_a_handler() {
        for (hang_up, ended_by) in [("trap 'exit 3' HUP", 3), ("trap '' HUP", 4), (":", 4)] {
            let script = format!("trap 'exit 4' TERM; {hang_up}; echo ready; while :; do sleep 0.01; done");
            let (mut child, process) = started(&script);
            assert!(process.end(prerequisite::patience(), Manner::Waiting).unwrap());
            assert_eq!(child.wait().unwrap().code(), Some(ended_by), "{hang_up}");
            let (mut child, process) = started(&script);
            assert!(process.end(prerequisite::patience(), Manner::Plain).unwrap());
            assert_eq!(child.wait().unwrap().code(), Some(4), "{hang_up}");
        }
    }
}
