//! `bench --top` on a terminal that `script` makes: what is drawn, what keys do, and that the report and the terminal are there
//! afterwards.

use prerequisite::missing;
use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use crate::serving::{NQN, Serving};
use serde_json::Value;

/// Takes the terminal, with the cursor hidden, and gives it back.
const TAKEN: &str = "\x1b[?1049h";
const GIVEN_BACK: &str = "\x1b[?1049l\x1b[?25h";

/// A bench on a terminal of its own.
struct OnTerminal {
    child: Child,
    screen: ChildStdout,
    seen: String,
    report: tempfile::TempDir,
}

impl OnTerminal {
    /// `None` where there is no `script`.
    fn start(serving: &Serving, runtime: &str) -> Option<Self> {
        let report = tempfile::tempdir().expect("a folder");
        let bench = "stty rows 30 cols 120; \"$SELVEDGE\" bench -a 127.0.0.1 -s \"$PORT\" -n \"$NQN\" --rw randread \
                     --numjobs 2 --iodepth 4 --top -o json --runtime \"$RUNTIME\" >\"$FOLDER/report\"";
        let mut command = Command::new("timeout");
        command
            .args(["90", "script", "-qefc", bench, "/dev/null"])
            .env("SHELL", "/bin/sh")
            .env("SELVEDGE", env!("CARGO_BIN_EXE_selvedge"))
            .env("PORT", &serving.port)
            .env("NQN", NQN)
            .env("RUNTIME", runtime)
            .env("FOLDER", report.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if Command::new("script").arg("--version").output().is_err() {
            missing("no `script` here, which makes terminals");
            return None;
        }
        let mut child = command.spawn().expect("timeout is there");
        let screen = child.stdout.take().expect("stdout is a pipe");
        Some(Self { child, screen, seen: String::new(), report })
    }

    /// Reads until the screen has shown this, or to its end: whether it has.
    fn shows(&mut self, what: &str) -> bool {
        let mut bytes = [0; 4096];
        while !self.seen.contains(what) {
            match self.screen.read(&mut bytes).expect("the screen is a pipe") {
                0 => return false,
                length => self.seen += &String::from_utf8_lossy(&bytes[..length]),
            }
        }
        true
    }

    fn press(&mut self, keys: &str) {
        let stdin = self.child.stdin.as_mut().expect("the keyboard is a pipe");
        stdin.write_all(keys.as_bytes()).expect("it takes keys");
    }

    /// Waits for the end; returns the exit status, all that was drawn, and the report.
    fn end(mut self) -> (ExitStatus, String, Value) {
        self.shows("there is no such text, so this reads to the end");
        let status = self.child.wait().expect("it ends");
        let report = std::fs::read(self.report.path().join("report")).expect("there is a report");
        let report = serde_json::from_slice(&report).unwrap_or_else(|error| panic!("{error}: {}", self.seen));
        (status, self.seen, report)
    }
}

#[test]
fn a_run_is_watched_and_reported() {
    let serving = Serving::start("memory:16m");
    let Some(bench) = OnTerminal::start(&serving, "2") else { return };
    let (status, seen, report) = bench.end();
    assert_eq!(status.code(), Some(0), "{seen}");
    assert!(report["read"]["ios"].as_u64().unwrap() > 0);
    let (_, drawn) = seen.split_once(TAKEN).unwrap_or_else(|| panic!("the terminal was not taken: {seen:?}"));
    let (drawn, _) =
        drawn.split_once(GIVEN_BACK).unwrap_or_else(|| panic!("it was not given back: {seen:?}"));
    for word in ["randread", "measuring", "p99.9", "BANDWIDTH", "127.0.0.1:", "live", "100.0"] {
        assert!(drawn.contains(word), "{word} is not in {drawn:?}");
    }
}

#[test]
fn keys_lead_down_and_end_the_run_like_ctrl_c() {
    let serving = Serving::start("memory:16m");
    for end in ["q", "\x03"] {
        let Some(mut bench) = OnTerminal::start(&serving, "60") else { return };
        assert!(bench.shows("BANDWIDTH"), "{:?}", bench.seen);
        bench.press("\r");
        assert!(bench.shows("connections"), "{:?}", bench.seen);
        bench.press("?");
        assert!(bench.shows("(segments)"), "{:?}", bench.seen);
        bench.press(end);
        let (status, seen, report) = bench.end();
        assert_eq!(status.code(), Some(130), "{seen}");
        assert!(seen.contains(GIVEN_BACK), "{seen:?}");
        assert!(seen.ends_with("interrupted; the results are those until the interruption\r\n"), "{seen:?}");
        assert!(report["read"]["ios"].as_u64().unwrap() > 0);
    }
}

#[test]
fn without_a_terminal_it_is_a_mistake() {
    let arguments = ["bench", "-a", "127.0.0.1", "-n", NQN, "--rw", "read", "--top"];
    let output =
        Command::new(env!("CARGO_BIN_EXE_selvedge")).args(arguments).output().expect("the program runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("leave it out"));
}
