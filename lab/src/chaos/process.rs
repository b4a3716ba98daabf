//! A process that chaos may stop, continue and kill: it lives in a network namespace, and what it says goes to two files.
//! It keeps out what it is asked to do.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::namespace;

/// Interval at which the end of a process is checked.
const LOOK: Duration = Duration::from_millis(20);

/// A running process. Dropping it kills it, whatever state it is in.
pub(crate) struct Process {
    child: Child,
    output: PathBuf,
    errors: PathBuf,
}

impl Process {
    /// Starts `words` in the network namespace `name`, with its outputs in `log.out` and `log.err`.
    ///
    /// # Errors
    /// What failed and why.
    pub(crate) fn start(name: &str, words: &[String], log: &Path) -> Result<Process, String> {
        let (output, errors) = (log.with_extension("out"), log.with_extension("err"));
        let file = |path: &Path| File::create(path).map_err(|error| format!("{}: {error}", path.display()));
        let (program, args) = words.split_first().ok_or("there is no program to start")?;
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(file(&output)?).stderr(file(&errors)?);
        let child = namespace::inside(name, || {
            command.spawn().map_err(|error| format!("cannot start {program}: {error}"))
        })?;
        Ok(Process { child, output, errors })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal. A process that has ended is not reaped yet, so its id is still its own.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(id) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(id, signal);
        }
    }

    /// Waits until it has ended or `until` comes. None when it still runs.
    pub(crate) fn wait(&mut self, until: Instant) -> Option<ExitStatus> {
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < until => std::thread::sleep(LOOK),
                Ok(None) | Err(_) => return None,
            }
        }
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        // One that has ended already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Output so far.
    pub(crate) fn output(&self) -> String {
        read(&self.output)
    }

    /// Error output so far.
    pub(crate) fn errors(&self) -> String {
        read(&self.errors)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn read(path: &Path) -> String {
    std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// The last line that says something: lines in brackets only tell how far a program is.
pub(crate) fn last_word(errors: &str) -> &str {
    errors.lines().rev().find(|line| !line.starts_with('[') && !line.is_empty()).unwrap_or("without a reason")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_is_no_progress() {
        assert_eq!(last_word("a\nselvedge: lost\n[  5/46 s] randwrite\n"), "selvedge: lost");
        assert_eq!(last_word(""), "without a reason");
    }
}
