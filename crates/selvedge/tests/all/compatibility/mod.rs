//! The release before and this program together: as host and target, by their states, files, commands and documents, and one in
//! place of the other. The suite `versions` builds the release before and names it in `SELVEDGE_BEFORE`.

mod grown;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use prerequisite::wait_until;
use serde_json::Value;
use tempfile::TempDir;

use crate::serving::{Ended, NQN, json, stderr};

const WHY: &str = "SELVEDGE_BEFORE names the program of the release before";
const CHANGED: &str = "nqn.2026-01.io.selvedge:changed";
const HOST: &str = "nqn.2026-01.io.selvedge:host";

/// A program, of this version or an earlier one.
#[derive(Clone, Debug)]
struct Program(PathBuf);

fn before() -> Program {
    Program(std::env::var_os("SELVEDGE_BEFORE").expect(WHY).into())
}

fn now() -> Program {
    Program(env!("CARGO_BIN_EXE_selvedge").into())
}

/// Each as the first of two.
fn both_ways() -> [(Program, Program); 2] {
    [(before(), now()), (now(), before())]
}

impl Program {
    fn command(&self, folder: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.0);
        command.args(arguments).current_dir(folder).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, folder: &Path, arguments: &[&str]) -> Output {
        self.command(folder, arguments).output().expect("the program runs")
    }

    /// Output of a command that succeeds.
    fn printed(&self, folder: &Path, arguments: &[&str]) -> String {
        let output = self.run(folder, arguments);
        assert!(output.status.success(), "{self:?} {arguments:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).expect("text")
    }

    /// The same of the target whose control socket is in this folder.
    fn asked(&self, folder: &Path, arguments: &[&str]) -> String {
        self.printed(folder, &[arguments, &["--control", "unix:control.sock"]].concat())
    }
}

/// A target in a folder, gone when the test is over.
struct Serving {
    child: Ended,
    port: String,
}

impl Serving {
    /// `Err` is what the program says instead of serving.
    fn start(program: &Program, folder: &Path, more: &[&str]) -> Result<Self, String> {
        let fixed = ["serve", "--control", "unix:control.sock", "--state-dir", "state", "--reactors", "1"];
        let mut child = program.command(folder, &[&fixed, more].concat()).spawn().expect("the program runs");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        stdout.read_line(&mut line).expect("UTF-8");
        let mut log = child.stderr.take().expect("a pipe");
        let Some(port) = line.trim().strip_prefix("listening on 127.0.0.1:") else {
            let mut said = String::new();
            log.read_to_string(&mut said).expect("UTF-8");
            let _ = child.wait();
            return Err(said);
        };
        std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        let serving = Self { port: port.to_owned(), child: Ended(child) };
        wait_until("it is administered", || {
            ["control.sock", "control.sock.upgrade"]
                .iter()
                .all(|name| UnixStream::connect(folder.join(name)).is_ok())
        });
        Ok(serving)
    }

    /// Ends it in order.
    fn stop(mut self) {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("it runs");
        self.child.wait().expect("it ends");
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn bench<'a>(port: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let fixed = ["bench", "-a", "127.0.0.1", "-s", port, "-n", NQN, "--rw", "randrw", "--bs", "4k"];
    [&fixed[..], &["--verify", "--destroy-data", "-o", "json"], more].concat()
}

fn assert_verified(report: &Value) {
    let verify = &report["verify"];
    assert!(verify["blocks_wrong"] == 0 && verify["blocks_read_back"].as_u64() > Some(0), "{verify}");
}

/// A file that only its owner reads.
fn write_secret(file: &Path, secret: &str) {
    fs::write(file, secret).expect("a file");
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("its rights");
}

#[test]
#[ignore = "it takes the release before: the suite versions has it"]
fn hosts_of_each_use_targets_of_the_other() {
    for (host, target) in both_ways() {
        let folder = folder();
        let folder = folder.path();
        // Each side has made a secret for the other one, and a key for TLS.
        write_secret(&folder.join("secret"), &host.printed(folder, &["key", "generate"]));
        write_secret(&folder.join("key"), &target.printed(folder, &["key", "generate", "--tls"]));
        let file = format!(
            "[[port]]\naddress = \"127.0.0.1:0\"\ntls = \"allowed\"\n[[subsystem]]\nnqn = \"{NQN}\"\n\
             hosts = [\"{HOST}\"]\n\
             [[subsystem.host_key]]\nhost = \"{HOST}\"\ndhchap_secret_file = \"secret\"\ntls_key_file = \"key\"\n\
             [[subsystem.namespace]]\nbackend.file = {{ path = \"disk.img\", size = \"32m\" }}\n"
        );
        fs::write(folder.join("target.toml"), file).expect("a file");
        let serving = Serving::start(&target, folder, &["-c", "target.toml"]).expect("it serves");
        let who = ["-q", HOST, "--dhchap-secret-file", "secret"];
        for options in [&[][..], &["--hdr-digest", "--data-digest"], &["--tls-key-file", "key"]] {
            let load = [&who[..], &["--runtime", "2", "-i", "2", "--iodepth", "8"], options].concat();
            assert_verified(&json(&host.run(folder, &bench(&serving.port, &load))));
        }
        let stranger = host.run(folder, &bench(&serving.port, &["--runtime", "1"]));
        assert!(!stranger.status.success(), "a host without the secret is let in");
        let at = ["-a", "127.0.0.1", "-s", &serving.port, "-q", HOST, "--dhchap-secret-file", "secret"];
        for command in [&["discover"][..], &["list", "-n", NQN], &["identify", "-n", NQN]] {
            host.printed(folder, &[command, &at].concat());
        }
    }
}

/// Changes a target by commands, for its state to keep.
fn change(program: &Program, folder: &Path) {
    let nqn = CHANGED;
    for command in [
        &["subsystem", "add", nqn][..],
        &["host", "allow", nqn, HOST],
        &["namespace", "add", nqn, "file:added.img,size=8m"],
        &["namespace", "add", nqn, "file:more.img,size=8m", "--ana-group", "2"],
        &["ana", "set", nqn, "2", "non-optimized"],
        &["listener", "add", "127.0.0.1", "-s", "0"],
    ] {
        program.asked(folder, command);
    }
}

/// Descriptions of a target by commands, without the parts that differ at each start.
fn described(program: &Program, folder: &Path) -> Vec<String> {
    let commands = [
        &["namespace", "list"][..],
        &["host", "list", CHANGED],
        &["ana", "list", CHANGED],
        &["subsystem", "list"],
    ];
    commands.iter().map(|command| program.asked(folder, command)).collect()
}

#[test]
#[ignore = "it takes the release before: the suite versions has it"]
fn the_state_of_the_release_before_is_served() {
    let folder = folder();
    let folder = folder.path();
    let started = ["-s", "0", "-n", NQN, "--namespace", "file:disk.img,size=16m"];
    let serving = Serving::start(&before(), folder, &started).expect("it serves");
    change(&before(), folder);
    let described_before = described(&before(), folder);
    serving.stop();
    let serving = Serving::start(&now(), folder, &[]).expect("it serves");
    assert_eq!(described(&before(), folder), described_before);
    // It goes back, or says that it cannot, and changes nothing.
    change_more(folder);
    let described_now = described(&before(), folder);
    serving.stop();
    let kept = files(&folder.join("state"));
    match Serving::start(&before(), folder, &[]) {
        Ok(_serving) => assert_eq!(described(&before(), folder), described_now),
        Err(said) => {
            let line = said.lines().last().unwrap_or_default();
            assert!(line.contains("version") && line.contains("state"), "{said}");
            assert_eq!(files(&folder.join("state")), kept, "it has changed what it cannot read");
        }
    }
}

fn change_more(folder: &Path) {
    now().asked(folder, &["namespace", "add", NQN, "file:third.img,size=8m"]);
}

/// All files of a folder with their contents.
fn files(folder: &Path) -> BTreeSet<(PathBuf, Vec<u8>)> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert((path.clone(), fs::read(&path).unwrap_or_default()));
        }
    }
    found
}

#[test]
#[ignore = "it takes the release before: the suite versions has it"]
fn commands_of_each_administer_targets_of_the_other() {
    for (commands, target) in both_ways() {
        let folder = folder();
        let folder = folder.path();
        let started = ["-s", "0", "-n", NQN, "--namespace", "file:disk.img,size=16m"];
        let _serving = Serving::start(&target, folder, &started).expect("it serves");
        change(&commands, folder);
        for command in [
            &["status"][..],
            &["status", "-o", "json"],
            &["connection", "list"],
            &["listener", "list"],
            &["referral", "list"],
            &["config", "dump"],
            &["top", "--once"],
        ] {
            commands.asked(folder, command);
        }
        // What one has written, the other one accepts.
        let dumped = commands.asked(folder, &["config", "dump"]);
        fs::write(folder.join("dumped.toml"), dumped).expect("a file");
        for program in [before(), now()] {
            program.printed(folder, &["config", "check", "dumped.toml"]);
        }
        commands.asked(folder, &["namespace", "remove", CHANGED, "1"]);
        commands.asked(folder, &["subsystem", "remove", CHANGED]);
    }
}

#[test]
#[ignore = "it takes the release before: the suite versions has it"]
fn each_is_upgraded_to_the_other_under_load() {
    for (former, next) in both_ways() {
        let folder = folder();
        let folder = folder.path();
        let started = ["-s", "0", "-n", NQN, "--namespace", "file:disk.img,size=32m"];
        let serving = Serving::start(&former, folder, &started).expect("it serves");
        let load = bench(&serving.port, &["--runtime", "6", "-i", "2", "--iodepth", "8"]);
        let host = former.command(folder, &load).spawn().expect("the program runs");
        let controllers = || controllers(folder);
        wait_until("it connects", || controllers().len() == 1);
        let first = controllers();
        // The command is the new program's, as where a package was installed over another one.
        let report = next.run(folder, &["upgrade", "--control", "unix:control.sock", "-o", "json"]);
        let report = json(&report);
        let process = report["process"].as_u64().expect("a number");
        let _ends = End(process);
        assert_eq!(controllers(), first, "the host's controller is another one");
        let program = fs::read_link(format!("/proc/{process}/exe")).expect("it runs");
        assert_eq!(program, next.0.canonicalize().expect("a file"));
        assert_verified(&json(&host.wait_with_output().expect("it ends")));
    }
}

/// A process that another one has started, ended with the test.
struct End(u64);

impl Drop for End {
    fn drop(&mut self) {
        let process = i32::try_from(self.0).ok().and_then(rustix::process::Pid::from_raw);
        let _ = rustix::process::kill_process(process.expect("a process"), rustix::process::Signal::KILL);
    }
}

fn controllers(folder: &Path) -> Vec<u64> {
    let report = before().asked(folder, &["connection", "list", "-o", "json"]);
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let all = report["controllers"].as_array().expect("a list");
    all.iter().filter_map(|controller| controller["cntlid"].as_u64()).collect()
}

/// The names of metrics, with their kinds.
fn metrics(program: &Program) -> BTreeSet<String> {
    let folder = folder();
    let started = ["-s", "0", "-n", NQN, "--namespace", "file:disk.img,size=16m"];
    let _serving = Serving::start(program, folder.path(), &started).expect("it serves");
    let mut stream = UnixStream::connect(folder.path().join("control.sock")).expect("it is administered");
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut report = String::new();
    stream.read_to_string(&mut report).expect("text");
    let kinds = report.lines().filter_map(|line| line.strip_prefix("# TYPE ")).map(str::to_owned);
    kinds.collect()
}

/// Options and commands below, by page.
fn options(generated: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for page in fs::read_dir(generated.join("man")).expect("a folder").flatten() {
        let name = page.file_name().to_string_lossy().into_owned();
        let text = fs::read_to_string(page.path()).expect("a page");
        // Options are in bold; names of options in prose are not.
        let words = text.split(r"\fB").skip(1).filter_map(|rest| rest.split_once(r"\fR"));
        let options = words.map(|(word, _)| word.replace('\\', "")).filter(|word| word.starts_with("--"));
        found.extend(options.map(|option| format!("{name} {option}")));
        found.insert(name);
    }
    found
}

/// Ends of places that have changed by decision: blocks have the size that storage is asked for, which is unknown while it is
/// absent, and `--no-quiesce` and `--write-protect` are hidden aliases of `--retry-at-once` and `--write-protection`.
const DECIDED: [&str; 4] = [
    "properties/block_size/default",
    "NamespaceSummary/required: \"block_size\"",
    " --no-quiesce",
    " --write-protect",
];

#[test]
#[ignore = "it takes the release before: the suite versions has it"]
fn what_others_rely_on_has_only_grown() {
    let folder = folder();
    let mut lost: Vec<String> = Vec::new();
    let [old, new] = [("before", before()), ("now", now())].map(|(name, program)| {
        let made = folder.path().join(name);
        program.printed(folder.path(), &["generate", "--output", name]);
        (made, program)
    });
    lost.extend(options(&old.0).difference(&options(&new.0)).cloned());
    lost.extend(metrics(&old.1).difference(&metrics(&new.1)).map(|name| format!("metric {name}")));
    let read = |text: String| serde_json::from_str::<Value>(&text).expect("JSON");
    let api = |program: &Program| read(program.printed(folder.path(), &["openapi"]));
    grown::compare("openapi", &api(&old.1), &api(&new.1), &mut lost);
    let schema = |made: &Path, name: &str| fs::read_to_string(made.join(name)).map(read);
    for entry in fs::read_dir(old.0.join("schema")).expect("a folder").flatten() {
        let name = format!("schema/{}", entry.file_name().to_string_lossy());
        match schema(&new.0, &name) {
            Ok(new) => grown::compare(&name, &schema(&old.0, &name).expect("a file"), &new, &mut lost),
            Err(_) => lost.push(name),
        }
    }
    let name = "target.schema.json";
    let [old, new] = [old, new].map(|(made, _)| schema(&made, name).expect("a file"));
    grown::compare(name, &old, &new, &mut lost);
    lost.retain(|place| !DECIDED.iter().any(|end| place.ends_with(end)));
    assert!(lost.is_empty(), "others may rely on it:\n{}", lost.join("\n"));
}
