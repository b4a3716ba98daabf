//! A target of the program's own for tests of commands that need one, and what is read of their output.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// The subsystem that it serves.
pub(crate) const NQN: &str = "nqn.2026-01.io.selvedge:target";

/// A target with one reactor, gone when the test is over however it ends.
pub(crate) struct Serving {
    child: Child,
    pub(crate) port: String,
}

impl Serving {
    pub(crate) fn start(namespace: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args(["serve", "-s", "0", "-n", NQN, "--control", "none", "--namespace", namespace]);
        command.args(["--reactors", "1"]);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the program runs");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("stdout is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("it prints where it listens");
        let port = line.trim().strip_prefix("listening on 127.0.0.1:").expect("where it listens comes first");
        Self { port: port.to_owned(), child }
    }

    /// A `bench` against it, with these arguments besides.
    pub(crate) fn bench(&self, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args(["bench", "-a", "127.0.0.1", "-s", &self.port, "-n", NQN]);
        command.args(more).stdin(Stdio::null());
        command
    }

    /// Ends it before the test is over, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a command printed, which must have succeeded.
pub(crate) fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).expect("stdout is JSON")
}
