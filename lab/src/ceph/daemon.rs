//! A daemon of a cluster: it is started, killed, stopped, continued and started again, by its process id. It ends with this
//! process, however that ends. It keeps out what the daemon is there for.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::program::Program;

/// A daemon that lives or not.
pub(crate) struct Daemon {
    name: String,
    words: Vec<String>,
    program: Option<Program>,
}

impl Daemon {
    /// One that is called `name` and started by `words`. It does not live yet.
    pub(super) const fn new(name: String, words: Vec<String>) -> Daemon {
        Daemon { name, words, program: None }
    }

    /// Its process id while it lives.
    pub(super) fn id(&self) -> Option<u32> {
        self.program.as_ref().map(Program::id)
    }

    /// Starts it, for the first time or again. One that lives is left alone.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        if self.program.is_none() {
            self.program = Some(Program::start(&self.words)?);
        }
        Ok(())
    }

    /// SIGKILL, and waits for its end.
    pub(crate) fn kill(&mut self) {
        if let Some(mut program) = self.program.take() {
            program.kill();
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
        if let Some(program) = &mut self.program {
            program.signal(signal);
        }
    }

    /// Whether it is there when it should be.
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
        let Some(program) = &mut self.program else { return Ok(()) };
        match program.ended(until)? {
            None => Ok(()),
            Some(status) => Err(format!("{} ended by itself ({status}): {}", self.name, program.errors())),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // What it holds goes with its folder, so it need not be asked politely.
        self.kill();
    }
}
