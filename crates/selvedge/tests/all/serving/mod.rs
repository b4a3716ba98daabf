//! A target of the program's own for tests of commands that need one, and what is read of their output.

use std::io::{BufRead as _, BufReader};
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// The subsystem that it serves.
pub(crate) const NQN: &str = "nqn.2026-01.io.selvedge:target";

/// A target with one reactor, gone when the test is over however it ends.
pub(crate) struct Serving {
    child: Ended,
    pub(crate) port: String,
}

impl Serving {
    pub(crate) fn start(namespace: &str) -> Self {
        Self::spawn(namespace, &[], Stdio::inherit())
    }

    /// The same with these arguments besides, and with a log for `logs`.
    pub(crate) fn start_with(namespace: &str, more: &[&str]) -> Self {
        Self::spawn(namespace, more, Stdio::piped())
    }

    /// Serves this target.toml.
    pub(crate) fn of_file(file: &str) -> Self {
        Self::serve("none", &["-c", file], Stdio::inherit())
    }

    /// Serves a namespace, with this control socket.
    pub(crate) fn administered(namespace: &str, socket: &Path) -> Self {
        let control = format!("unix:{}", socket.display());
        Self::serve(&control, &["-s", "0", "-n", NQN, "--namespace", namespace], Stdio::inherit())
    }

    /// Serves with this control address, and these arguments alone.
    pub(crate) fn controlled(control: &str, arguments: &[&str]) -> Self {
        Self::serve(control, arguments, Stdio::piped())
    }

    fn spawn(namespace: &str, more: &[&str], stderr: Stdio) -> Self {
        Self::serve("none", &[&["-s", "0", "-n", NQN, "--namespace", namespace], more].concat(), stderr)
    }

    fn serve(control: &str, arguments: &[&str], stderr: Stdio) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args(["serve", "--control", control, "--reactors", "1"]).args(arguments).stderr(stderr);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the program runs");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("stdout is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("it prints where it listens");
        let port = line.trim().strip_prefix("listening on 127.0.0.1:").expect("where it listens comes first");
        Self { port: port.to_owned(), child: Ended(child) }
    }

    /// A `bench` against it, with these arguments besides.
    pub(crate) fn bench(&self, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args(["bench", "-a", "127.0.0.1", "-s", &self.port, "-n", NQN]);
        command.args(more).stdin(Stdio::null());
        command
    }

    /// Reads its log until a line of it has this text. Where none comes, the test's own limit ends it.
    pub(crate) fn logs(&mut self, text: &str) -> bool {
        let stderr = self.child.stderr.take().expect("stderr is a pipe, and is read once");
        BufReader::new(stderr).lines().map_while(Result::ok).any(|line| line.contains(text))
    }

    /// The lines of its log up to one that has this text, which has to come.
    pub(crate) fn lines_until(&mut self, text: &str) -> Vec<String> {
        let stderr = self.child.stderr.take().expect("stderr is a pipe, and is read once");
        let mut lines = Vec::new();
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let is_last = line.contains(text);
            lines.push(line);
            if is_last {
                return lines;
            }
        }
        panic!("no line has `{text}`: {lines:?}");
    }

    /// Ends it before the test is over, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program, killed when the test is over however it ends.
pub(crate) struct Ended(pub(crate) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Deref for Ended {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Ended {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

/// The program with these arguments, and without input.
pub(crate) fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// The program with these arguments, when it has ended.
pub(crate) fn selvedge(arguments: &[&str]) -> Output {
    program(arguments).output().expect("the program runs")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// JSON that a command printed, which must have succeeded.
pub(crate) fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).expect("stdout is JSON")
}

/// The headings under which a help lists commands.
const HEADINGS: [&str; 6] = ["Commands:", "Serve:", "Use a target:", "Measure:", "Administer:", "Tune:"];

/// The commands below one, in the order in which its help lists them.
pub(crate) fn listed_commands(help: &str) -> Vec<String> {
    let is_heading = |line: &&str| HEADINGS.contains(line);
    let mut names = Vec::new();
    let mut lines = help.lines();
    while lines.find(is_heading).is_some() {
        let listed = lines.by_ref().take_while(|line| !line.is_empty());
        let listed = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
        names.extend(listed.filter(|name| !name.is_empty() && *name != "help").map(str::to_owned));
    }
    names
}
