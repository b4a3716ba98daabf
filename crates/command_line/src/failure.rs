//! How a command fails: one line that says what failed, where, and what to do, and the exit status that goes
//! with it (docs/exit-status.md). It prints nothing itself.

use std::fmt;
use std::process::ExitCode;

use gateway::MemberError;
use signal_hook::consts::SIGINT;

use crate::plain_text::plain;

/// Why a command did not do what was asked.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// Invalid command line, or invalid file that it names: exit status 2.
    Usage(String),
    /// Failed attempt: exit status 1.
    Failed(String),
    /// Interruption by a signal: 128 and the signal's number, as in shells.
    Interrupted(String),
    /// Difference between compared objects, which has been printed already: exit status 3.
    Different,
    /// Closed standard output, which leaves no reader for a message: exit status 0.
    ReaderGone,
}

impl Failure {
    /// A failure of something that was tried.
    pub fn failed(what: impl fmt::Display) -> Self {
        Self::Failed(what.to_string())
    }

    /// A mistake in what was asked for.
    pub fn usage(what: impl fmt::Display) -> Self {
        Self::Usage(what.to_string())
    }

    /// An interruption, with the interrupted work or its remainder.
    pub fn interrupted(what: impl fmt::Display) -> Self {
        Self::Interrupted(what.to_string())
    }

    /// The exit status; `signal` is the one that interrupted, if it was one.
    pub fn status(&self, signal: Option<u8>) -> ExitCode {
        match self {
            // A key that ends a run is Ctrl-C by another name.
            Failure::Interrupted(_) => ExitCode::from(128 + signal.unwrap_or(SIGINT as u8)),
            Failure::Different => ExitCode::from(3),
            Failure::Usage(_) => ExitCode::from(2),
            Failure::Failed(_) => ExitCode::from(1),
            Failure::ReaderGone => ExitCode::SUCCESS,
        }
    }

    /// Line for stderr; `None` if there is no reader.
    pub fn line(&self) -> Option<String> {
        match self {
            Failure::Usage(what) | Failure::Failed(what) | Failure::Interrupted(what) => {
                // Messages of libraries come in several lines; the habit here is one.
                let parts: Vec<&str> = what.lines().map(str::trim).filter(|part| !part.is_empty()).collect();
                // They quote names and paths of all who may change a target.
                Some(plain(&parts.join("; ")))
            }
            Failure::Different | Failure::ReaderGone => None,
        }
    }
}

impl From<MemberError> for Failure {
    fn from(error: MemberError) -> Self {
        Self::failed(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_say_what_kind_of_failure_it_is() {
        for (failure, signal, status) in [
            (Failure::ReaderGone, None, 0),
            (Failure::failed("a"), None, 1),
            (Failure::failed("a"), Some(2), 1),
            (Failure::usage("a"), None, 2),
            (Failure::Different, None, 3),
            (Failure::interrupted("a"), None, 130),
            (Failure::interrupted("a"), Some(2), 130),
            (Failure::interrupted("a"), Some(15), 143),
        ] {
            // An exit code cannot be asked for its number.
            assert_eq!(failure.status(signal), ExitCode::from(status), "{failure:?}");
        }
    }

    #[test]
    fn a_failure_is_one_line() {
        let failure = Failure::failed("first\n\n  second\n");
        assert_eq!(failure.line().as_deref(), Some("first; second"));
        let quoting = Failure::usage("no file /disks/\u{1b}[2J\u{9b}1m\rµ\nselvedge: all is well");
        let line = "no file /disks/\u{fffd}[2J\u{fffd}1m\u{fffd}µ; selvedge: all is well";
        assert_eq!(quoting.line().as_deref(), Some(line));
        assert_eq!(Failure::ReaderGone.line(), None);
    }
}
