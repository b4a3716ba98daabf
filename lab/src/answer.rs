//! How programs that a check runs to their end ended, and what they said. It keeps out what they are asked to do.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::Program;

/// Time for one command of the program, on a machine with other work.
const LIMIT: Duration = Duration::from_secs(60);

/// Exit status and output of a program.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Exit status; None after a signal.
    pub(crate) code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    pub(crate) output: String,
    pub(crate) errors: String,
}

impl Answer {
    /// Runs `words` to their end.
    ///
    /// # Errors
    /// They cannot be started, or take too long.
    pub(crate) fn of(words: &[&str]) -> Result<Answer, String> {
        Answer::within(words, LIMIT)
    }

    /// Runs `words` to their end, which has to come within `limit`.
    ///
    /// # Errors
    /// They cannot be started, or take too long.
    pub(crate) fn within(words: &[&str], limit: Duration) -> Result<Answer, String> {
        let owned: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        Answer::of_program_within(Program::start(&owned)?, words, limit)
    }

    /// Runs `words` with a standard input of theirs.
    ///
    /// # Errors
    /// They cannot be started, or take too long.
    pub(crate) fn with_input(words: &[&str], input: Stdio) -> Result<Answer, String> {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("PATH", system_path());
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| format!("cannot start {}: {error}", words[0]))?;
        Answer::of_program(Program::new(child), words)
    }

    /// Waits for the end of a program that was started as `words` say.
    ///
    /// # Errors
    /// It takes too long.
    pub(crate) fn of_program(program: Program, words: &[&str]) -> Result<Answer, String> {
        Answer::of_program_within(program, words, LIMIT)
    }

    /// Waits until `limit` for the end of a program that was started as `words` say.
    ///
    /// # Errors
    /// It takes too long.
    pub(crate) fn of_program_within(
        mut program: Program,
        words: &[&str],
        limit: Duration,
    ) -> Result<Answer, String> {
        use std::os::unix::process::ExitStatusExt as _;
        let Some(status) = program.ended(Instant::now() + limit)? else {
            return Err(format!("`{}` did not end within {} s", words.join(" "), limit.as_secs()));
        };
        let output = program.rest();
        Ok(Answer { code: status.code(), signal: status.signal(), output, errors: program.errors() })
    }

    /// Requires success.
    ///
    /// # Errors
    /// It did not: with what it said.
    pub(crate) fn well(self) -> Result<Answer, String> {
        match self.code {
            Some(0) => Ok(self),
            _ => Err(format!("it ended with {}: {}", self.end(), self.errors)),
        }
    }

    /// Requires failure with `code` and one line that has each of `parts` in it.
    ///
    /// # Errors
    /// It did not: with what it said.
    pub(crate) fn fails(&self, code: i32, parts: &[&str]) -> Result<(), String> {
        if self.code != Some(code) {
            return Err(format!(
                "it ended with {} and not {code}: {}{}",
                self.end(),
                self.output,
                self.errors
            ));
        }
        if self.errors.lines().count() != 1 {
            return Err(format!("it does not fail with one line: {}", self.errors));
        }
        match parts.iter().find(|part| !self.errors.contains(**part)) {
            None => Ok(()),
            Some(part) => Err(format!("`{part}` is not in: {}", self.errors)),
        }
    }

    /// Output as JSON.
    ///
    /// # Errors
    /// It failed, or printed something else.
    pub(crate) fn json(self) -> Result<Value, String> {
        let answer = self.well()?;
        serde_json::from_str(&answer.output).map_err(|error| format!("no JSON ({error}): {}", answer.output))
    }

    fn end(&self) -> String {
        match (self.code, self.signal) {
            (Some(code), _) => format!("status {code}"),
            (None, signal) => format!("signal {}", signal.unwrap_or_default()),
        }
    }
}

/// Says how a check ended. Whether it has failed.
pub(crate) fn has_failed(name: &str, outcome: &Result<(), String>) -> bool {
    match outcome {
        Ok(()) => println!("ok      {name}"),
        Err(reason) => println!("FAILED  {name}: {reason}"),
    }
    outcome.is_err()
}

/// Some programs are the system's, which are not in everybody's PATH.
pub(crate) fn system_path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

/// Waits until `look` finds something.
///
/// # Errors
/// It does not within `LIMIT`: with what it said last.
pub(crate) fn await_some<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    let deadline = Instant::now() + LIMIT;
    loop {
        match look() {
            Ok(found) => return Ok(found),
            Err(reason) if Instant::now() >= deadline => return Err(format!("{what}: {reason}")),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}
