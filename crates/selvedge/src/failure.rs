//! How a command fails: one line that says what failed, where, and what to do, and the exit status that goes
//! with it. It prints nothing itself.

use std::fmt;
use std::process::ExitCode;

use gateway::MemberError;

/// Why a command did not do what was asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// What was typed, or a configuration file, asks for something that cannot be: exit status 2.
    Usage(String),
    /// It was tried and did not work: exit status 1.
    Failed(String),
    /// Whoever reads our output has gone away, and there is nobody left to tell: exit status 0.
    NobodyListens,
}

impl Failure {
    /// A failure of something that was tried.
    pub(crate) fn failed(what: impl fmt::Display) -> Self {
        Self::Failed(what.to_string())
    }

    /// A mistake in what was asked for.
    pub(crate) fn usage(what: impl fmt::Display) -> Self {
        Self::Usage(what.to_string())
    }

    /// The exit status.
    pub(crate) fn status(&self) -> ExitCode {
        match self {
            Failure::Usage(_) => ExitCode::from(2),
            Failure::Failed(_) => ExitCode::from(1),
            Failure::NobodyListens => ExitCode::SUCCESS,
        }
    }

    /// The one line for stderr, if there is somebody to read it.
    pub(crate) fn line(&self) -> Option<String> {
        match self {
            Failure::Usage(what) | Failure::Failed(what) => {
                // Messages of libraries come in several lines; the habit here is one.
                let parts: Vec<&str> = what.lines().map(str::trim).filter(|part| !part.is_empty()).collect();
                Some(parts.join("; "))
            }
            Failure::NobodyListens => None,
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
    fn a_failure_is_one_line() {
        let failure = Failure::failed("first\n\n  second\n");
        assert_eq!(failure.line().as_deref(), Some("first; second"));
        assert_eq!(Failure::NobodyListens.line(), None);
    }
}
