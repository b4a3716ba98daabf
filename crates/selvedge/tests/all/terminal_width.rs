//! What is printed on terminals of different widths: no line of a table and no line that changes is wider, since it
//! would wrap there. It needs `script`, which makes terminals.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};

use prerequisite::missing;
use topology::sample;

use crate::serving::{Ended, NQN};

const WIDTHS: [usize; 3] = [80, 60, 40];

/// A target at two addresses, with a control socket; gone when the test is over.
struct TwoPaths {
    _child: Ended,
    addresses: [String; 2],
}

impl TwoPaths {
    fn start(folder: &Path) -> Self {
        let control = format!("unix:{}", folder.join("control.sock").display());
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args([
            "serve",
            "-a",
            "127.0.0.1",
            "-a",
            "127.0.0.1",
            "-s",
            "0",
            "-n",
            NQN,
            "--reactors",
            "1",
        ]);
        command.args(["--namespace", "memory:16m", "--control", &control]);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the program runs");
        let mut lines = BufReader::new(child.stdout.take().expect("stdout is a pipe")).lines();
        let mut address = || {
            let line = lines.next().expect("it says where it listens").expect("text");
            line.strip_prefix("listening on ").expect("that comes first").to_owned()
        };
        Self { addresses: [address(), address()], _child: Ended(child) }
    }
}

/// A host that is connected until the test is over.
fn connected(target: &TwoPaths) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(["bench", "-a", &target.addresses[0], "-n", NQN, "--rw", "randread", "--runtime", "60"]);
    command.args([
        "--rate_iops",
        "100",
        "-q",
        "nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3cca427",
    ]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program runs");
    // It says how far it is once it is connected.
    let mut said = [0; 1];
    child.stderr.as_mut().expect("a pipe").read_exact(&mut said).expect("it is connected");
    Ended(child)
}

/// Output of a command on a terminal of this width; `None` where there is no `script`.
fn shown(columns: usize, arguments: &str, folder: &Path) -> Option<String> {
    let line = format!("stty rows 30 cols {columns}; exec \"$SELVEDGE\" {arguments}");
    let mut command = Command::new("timeout");
    command.args(["90", "script", "-qefc", &line, "/dev/null"]).current_dir(folder);
    command.env("SHELL", "/bin/sh").env("SELVEDGE", env!("CARGO_BIN_EXE_selvedge")).env_remove("COLUMNS");
    if Command::new("script").arg("--version").output().is_err() {
        missing("no `script` here, which makes terminals");
        return None;
    }
    let output = command.stdin(Stdio::null()).output().expect("timeout is there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments}: {text}");
    Some(text)
}

/// Lines as they stand on the screen, without control sequences.
fn lines(text: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\x1b' => drop(letters.by_ref().skip(1).find(char::is_ascii_alphabetic)),
            letter => plain.push(letter),
        }
    }
    plain.split(['\r', '\n']).map(str::to_owned).collect()
}

fn width(line: &str) -> usize {
    line.chars().count()
}

#[test]
fn tables_fit_the_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = TwoPaths::start(folder.path());
    let machine = sample::topology("cpu72-queues32").expect("there is such a machine");
    let recording = sample::recording(&machine).to_string();
    std::fs::write(folder.path().join("machine"), recording).expect("the folder can be written");
    let (address, port) = target.addresses[0].rsplit_once(':').expect("a port");
    let list = format!("list -a {address} -s {port}");
    let _host = connected(&target);
    let control = "--control unix:control.sock";
    let commands = [
        (&*list, "selvedge:target"),
        (&*format!("namespace list {control}"), "memory"),
        (&*format!("listener list {control}"), "127.0.0.1"),
        (&*format!("connection list {control}"), "nqn.2014-08.org.nvmexpress"),
        ("tune show --sysroot machine", "Interfaces"),
    ];
    for columns in WIDTHS {
        for (command, part) in commands {
            let Some(text) = shown(columns, command, folder.path()) else { return };
            assert!(text.contains(part), "{command}: {text}");
            for line in lines(&text) {
                assert!(width(&line) <= columns, "{command} at {columns}: {line:?}");
            }
        }
    }
    // In a pipe a row is one line, whatever the environment says.
    let mut piped = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    piped.args(list.split_whitespace()).env("COLUMNS", "40").stdin(Stdio::null());
    let text = String::from_utf8(piped.output().expect("the program runs").stdout).expect("UTF-8");
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.lines().all(|line| width(line) > 80), "{text}");
}

#[test]
fn lines_that_change_do_not_wrap() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = TwoPaths::start(folder.path());
    let [one, other] = &target.addresses;
    for columns in WIDTHS {
        let bench = format!("bench -a {one},{other} -n {NQN} --rw randread --numjobs 2 --runtime 3");
        let Some(text) = shown(columns, &bench, folder.path()) else { return };
        // Each path has a line below that of the run, and the cursor goes back up by as many.
        assert!(text.contains("\x1b[2A"), "{text:?}");
        let changing: Vec<String> = text.split("\x1b[K").skip(1).map(|part| lines(part).remove(0)).collect();
        assert!(changing.iter().any(|line| line.contains(&**one)), "{changing:?}");
        for line in &changing {
            assert!(width(line) < columns, "at {columns}: {line:?}");
        }
        let (_, report) = text.rsplit_once("\x1b[J").expect("the lines are taken away");
        // The sentences about the run may wrap; its tables do not.
        let tables = lines(report).into_iter().skip_while(|line| !line.starts_with("path "));
        for line in tables.take_while(|line| !line.starts_with("CPU ")) {
            assert!(width(&line) <= columns, "at {columns}: {line:?}");
        }
    }
}
