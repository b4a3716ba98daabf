//! A daemon of a cluster: it is started, killed, stopped, continued and started again, by its process id. It ends with this
//! process, however that ends. It keeps out what the daemon is there for.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::program::Program;

/// Time for the end of a process that was killed.
const END: Duration = Duration::from_secs(10);
/// And that of one that has something to bring in order first.
const ORDERLY_END: Duration = Duration::from_secs(30);

/// A daemon that lives or not.
pub(crate) struct Daemon {
    name: String,
    words: Vec<String>,
    program: Option<Program>,
    /// Process that goes on in place of the program. It is not a child of this one.
    next: Option<OwnedFd>,
}

impl Daemon {
    /// Daemon that is called `name` and started by `words`. It does not live yet.
    pub(super) const fn new(name: String, words: Vec<String>) -> Daemon {
        Daemon { name, words, program: None, next: None }
    }

    /// Process id while it lives.
    pub(super) fn id(&self) -> Option<u32> {
        self.program.as_ref().map(Program::id)
    }

    /// Starts it, for the first time or again. One that lives is left alone.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        if self.program.is_none() && self.next.is_none() {
            self.program = Some(Program::start(&self.words)?);
        }
        Ok(())
    }

    /// Has another process be it from now on, which has been started in its place.
    ///
    /// # Errors
    /// That one has ended.
    pub(super) fn follow(&mut self, process: i32) -> Result<(), String> {
        let gone = || format!("{}: its new process has ended", self.name);
        let process = Pid::from_raw(process).ok_or_else(gone)?;
        self.next = Some(pidfd_open(process, PidfdFlags::empty()).map_err(|_| gone())?);
        // Where it was a child, it has ended, and is taken away here.
        self.program = None;
        Ok(())
    }

    /// SIGKILL, and waits for its end.
    pub(crate) fn kill(&mut self) {
        if let Some(next) = self.next.take() {
            let _ = pidfd_send_signal(&next, Signal::KILL);
            has_ended(&next, Instant::now() + END);
        }
        if let Some(mut program) = self.program.take() {
            program.kill();
        }
    }

    /// SIGTERM.
    pub(crate) fn ask_to_end(&mut self) {
        self.signal(Signal::TERM);
    }

    /// Waits until it has ended as it was asked to.
    ///
    /// # Errors
    /// It does not, or not well.
    pub(crate) fn end(&mut self) -> Result<(), String> {
        let until = Instant::now() + ORDERLY_END;
        if let Some(next) = self.next.take()
            && !has_ended(&next, until)
        {
            return Err(format!("{} does not end", self.name));
        }
        let Some(mut program) = self.program.take() else { return Ok(()) };
        match program.ended(until)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("{} ended badly ({status}): {}", self.name, program.errors())),
            None => Err(format!("{} does not end", self.name)),
        }
    }

    /// SIGSTOP: it keeps its connections and answers nothing.
    pub(crate) fn stop(&mut self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub(crate) fn resume(&mut self) {
        self.signal(Signal::CONT);
    }

    fn signal(&mut self, signal: Signal) {
        if let Some(next) = &self.next {
            let _ = pidfd_send_signal(next, signal);
        }
        if let Some(program) = &mut self.program {
            program.signal(signal);
        }
    }

    /// Checks that it is alive.
    ///
    /// # Errors
    /// It has ended by itself: with what it said.
    pub(super) fn check_alive(&mut self) -> Result<(), String> {
        self.check_until(Instant::now())
    }

    /// Looks after it for a moment.
    ///
    /// # Errors
    /// It has ended by itself: with what it said.
    pub(super) fn check_for(&mut self, moment: Duration) -> Result<(), String> {
        self.check_until(Instant::now() + moment)
    }

    fn check_until(&mut self, until: Instant) -> Result<(), String> {
        if self.next.as_ref().is_some_and(|next| has_ended(next, until)) {
            return Err(format!("{} ended by itself", self.name));
        }
        let Some(program) = &mut self.program else { return Ok(()) };
        match program.ended(until)? {
            None => Ok(()),
            Some(status) => Err(format!("{} ended by itself ({status}): {}", self.name, program.errors())),
        }
    }
}

/// True if a process has ended, or does until then.
fn has_ended(process: &OwnedFd, until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
    poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&left)).is_ok_and(|ready| ready > 0)
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // What it holds goes with its folder, so it need not be asked politely.
        self.kill();
    }
}
