//! Exit statuses as docs/exit-status.md has them, and that nothing is left behind however a command ends.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::other_process::with_default_hangup;
use crate::serving::{Serving, program, selvedge, stderr};

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it is there");
}

#[test]
fn a_run_that_is_ended_says_by_which_signal() {
    let serving = Serving::start("memory:16m");
    for (by, status) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut bench = with_default_hangup(&serving.bench(&["--rw", "randread", "--runtime", "60"]));
        let mut bench =
            bench.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
        let mut said = [0; 1];
        bench.stderr.as_mut().expect("a pipe").read_exact(&mut said).expect("it is connected");
        signal(&bench, by);
        let output = bench.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        assert!(stderr(&output).contains("interrupted; the results are"), "{}", stderr(&output));
        assert!(String::from_utf8_lossy(&output.stdout).contains("read "), "what was measured is printed");
    }
}

/// Waits until a process catches SIGINT: before that, the signal ends it.
fn await_handler(child: &Child) {
    let catches = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it is there");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("Linux says so");
        u64::from_str_radix(caught.trim(), 16).expect("a mask") & 1 << (2 - 1) != 0
    };
    prerequisite::wait_until("it watches for signals", catches);
}

#[test]
fn a_look_that_is_cut_short_is_not_a_success() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = format!("unix:{}", folder.path().join("control.sock").display());
    let mut target = program(&["serve", "-s", "0", "--control", &control, "--namespace", "memory:1m"]);
    let mut target = target.stdout(Stdio::piped()).spawn().expect("the program runs");
    let mut lines = BufReader::new(target.stdout.take().expect("a pipe")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.starts_with("administered at"))));
    let mut top = program(&["top", "--once", "--interval", "3600", "--control", &control]);
    let top = top.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    await_handler(&top);
    signal(&top, Signal::INT);
    let output = top.wait_with_output().expect("it ends");
    signal(&target, Signal::INT);
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(output.stdout.is_empty());
    assert_eq!(target.wait().expect("it ends").code(), Some(0), "a signal is how a target ends");
}

/// A target whose stderr is a terminal that is gone, as far as that can be without one.
fn target_without_terminal(control: &Path, ignores: bool) -> Child {
    let disposition = if ignores { "--ignore-signal" } else { "--default-signal" };
    let script = format!("exec env {disposition}=HUP \"$0\" \"$@\"");
    let mut target = Command::new("sh");
    target.args(["-c", &script, env!("CARGO_BIN_EXE_selvedge"), "serve", "-s", "0", "--log-level", "info"]);
    target.args(["--namespace", "memory:1m", "--control", &format!("unix:{}", control.display())]);
    target.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut target = target.spawn().expect("the program runs");
    drop(target.stderr.take());
    let lines = BufReader::new(target.stdout.take().expect("a pipe")).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.starts_with("administered at")));
    target
}

#[test]
fn a_closed_terminal_ends_a_target_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = folder.path().join("control.sock");
    let mut target = target_without_terminal(&control, false);
    // The shell sends one, and so does the kernel.
    (0..2).for_each(|_| signal(&target, Signal::HUP));
    assert_eq!(target.wait().expect("it ends").code(), Some(0));
    assert!(!control.exists(), "its socket is left");

    let mut target = target_without_terminal(&control, true);
    signal(&target, Signal::HUP);
    let status = selvedge(&["status", "--control", &format!("unix:{}", control.display())]);
    assert_eq!(status.status.code(), Some(0), "nohup keeps it: {}", stderr(&status));
    signal(&target, Signal::TERM);
    assert_eq!(target.wait().expect("it ends").code(), Some(0));
}

#[test]
fn usage_errors_and_failures_have_different_statuses() {
    let folder = tempfile::tempdir().expect("a folder");
    let damaged = folder.path().join("damaged.json");
    std::fs::write(&damaged, "{").expect("it can be written");
    let damaged = damaged.to_str().expect("UTF-8");
    let missing = folder.path().join("missing");
    let missing = missing.to_str().expect("UTF-8");
    for arguments in [
        &["report", missing][..],
        &["compare", missing, missing],
        &["report", damaged, "--output", missing],
        &["compare", damaged, damaged],
        &["report", "--from-fio", missing, "--output", missing],
        &["config", "check", missing],
        &["bench", missing, "-a", "127.0.0.1", "-n", "nqn.a"],
        &["tune", "advise", "-a", "127.0.0.1", "--sweep", missing],
        &["tune", "revert", "--journal", missing],
        &["key", "inspect", missing],
        &["key", "check", damaged],
        &["key", "identity", damaged, "-n", "nqn.a"],
        &["key", "generate", "--output", damaged],
        &["token", "list", "--control-access", missing],
        &["token", "list", "--control-access", damaged],
        &["token", "create", "a", "--role", "read", "--control-access", damaged],
        &["token", "revoke", "a", "--control-access", missing],
        &["audit", "verify", missing],
        &["upgrade", "--program", missing],
        &["attach", "upgrade", "--program", missing],
        &["sweep", "--resume", damaged],
    ] {
        let output = selvedge(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
    }
    // A changed log is what `audit verify` looks for.
    let output = selvedge(&["audit", "verify", damaged]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    // Well-formed names that do not resolve.
    for arguments in [
        &["discover", "-a", "no-such-name.invalid"][..],
        &["bench", "-a", "no-such-name.invalid", "-n", "nqn.a", "--rw", "read"],
        &["tune", "advise", "-a", "no-such-name.invalid"],
        &["serve", "-a", "no-such-name.invalid", "--namespace", "memory:1m"],
    ] {
        let output = selvedge(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("no-such-name.invalid"), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn what_cannot_be_printed_is_a_failure() {
    for arguments in [&["--version"][..], &["--help"], &["bench", "--help"], &["openapi"]] {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let output = program(arguments).stdout(full).stderr(Stdio::piped()).output().expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(
            stderr(&output).contains("the results cannot be printed"),
            "{arguments:?}: {}",
            stderr(&output)
        );
        assert_eq!(selvedge(arguments).status.code(), Some(0), "{arguments:?}");
    }
}

#[test]
fn a_demo_leaves_nothing_behind_however_it_ends() {
    let is_empty = |folder: &Path| std::fs::read_dir(folder).expect("a folder").next().is_none();
    for (by, status) in [(Signal::INT, Some(130)), (Signal::KILL, None)] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut demo = program(&["demo"]);
        demo.env("TMPDIR", folder.path()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut demo = demo.spawn().expect("the program runs");
        let mut lines = BufReader::new(demo.stdout.take().expect("a pipe")).lines();
        assert!(lines.any(|line| line.is_ok_and(|line| line.contains("namespace 2"))));
        signal(&demo, by);
        signal(&demo, by);
        assert_eq!(demo.wait().expect("it ends").code(), status);
        assert!(is_empty(folder.path()), "the file is still there");
    }
}

#[test]
fn a_locale_without_utf8_gets_ascii() {
    let serving = Serving::start("memory:1m");
    let run = |locale: &str| {
        let mut bench = serving.bench(&["--rw", "randread", "--runtime", "1"]);
        bench.env("LC_ALL", locale).output().expect("the program runs")
    };
    let ascii = run("C");
    assert!(ascii.stdout.is_ascii() && ascii.stderr.is_ascii(), "{}", String::from_utf8_lossy(&ascii.stdout));
    assert!(String::from_utf8_lossy(&ascii.stdout).contains(" us "));
    assert!(String::from_utf8_lossy(&run("C.UTF-8").stdout).contains(" µs "));
}
