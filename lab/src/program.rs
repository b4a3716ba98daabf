//! A program under measurement as a child process: what it prints, how long it may take, how it ends. It keeps out what
//! it is asked to do.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How often to look whether a program has ended.
const LOOK: Duration = Duration::from_millis(10);

/// A running program. Dropping it ends it.
pub(crate) struct Program {
    process: Child,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
}

impl Program {
    /// Takes over a child whose output and error output are pipes.
    pub(crate) fn new(mut process: Child) -> Program {
        let (sender, lines) = channel();
        if let Some(stdout) = process.stdout.take() {
            std::thread::spawn(move || {
                // Who does not want the lines any more must not stop the program, so the pipe is read to its end.
                BufReader::new(stdout).lines().map_while(Result::ok).for_each(|line| _ = sender.send(line));
            });
        }
        let errors = process.stderr.take().map(|mut stderr| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                let _ = stderr.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).trim().to_owned()
            })
        });
        Program { process, lines, errors }
    }

    /// The next line it prints, unless it ends or `deadline` comes first.
    pub(crate) fn line(&self, deadline: Instant) -> Option<String> {
        self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
    }

    /// Waits until it has ended or `until` comes. None when it still runs.
    pub(crate) fn ended(&mut self, until: Instant) -> Result<Option<ExitStatus>, String> {
        loop {
            match self.process.try_wait() {
                Ok(None) if Instant::now() < until => {
                    std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
                }
                Ok(status) => return Ok(status),
                Err(error) => return Err(format!("cannot wait for a program: {error}")),
            }
        }
    }

    /// All that a program that has ended has printed and nobody has read.
    pub(crate) fn rest(&self) -> String {
        let mut text = String::new();
        loop {
            match self.lines.recv_timeout(Duration::from_secs(5)) {
                Ok(line) => text += &(line + "\n"),
                Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => return text,
            }
        }
    }

    /// What a program has said on its error output; it is ended if it still runs.
    pub(crate) fn errors(&mut self) -> String {
        self.end();
        self.errors.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }

    /// Ends it: politely, and after three seconds firmly.
    fn end(&mut self) {
        if matches!(self.process.try_wait(), Ok(Some(_))) {
            return;
        }
        let polite = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        if let Some(id) = polite {
            // Not reaped yet, so the id is still its own.
            let _ = kill_process(id, Signal::TERM);
        }
        if !matches!(self.ended(Instant::now() + Duration::from_secs(3)), Ok(Some(_))) {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}
