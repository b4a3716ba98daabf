//! Secrets of a running target: its log has none at the most detailed level, and the kernel keeps no image of its memory.

use std::fs::{self, File, Permissions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prerequisite::{free_address, missing, patience, wait_until};
use rustix::process::{Resource, getrlimit};

use crate::serving::{Ended, NQN, selvedge, stderr};

const WITH_SECRET: &str = "nqn.2026-01.io.selvedge:with-secret";
const WITH_KEY: &str = "nqn.2026-01.io.selvedge:with-key";

/// A target that logs all it can to a file, in a folder that outlives it.
struct Target {
    program: Ended,
    log: PathBuf,
    control: String,
    port: String,
}

impl Target {
    fn start(folder: &Path, more: &[&str]) -> Self {
        let (log, control) = (folder.join("log"), folder.join("control.sock"));
        let control = format!("unix:{}", control.display());
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args(["serve", "-s", "0", "-n", NQN, "--namespace", "null:1m", "--reactors", "1"]);
        command.args(["--allow-host", WITH_SECRET, "--allow-host", WITH_KEY, "--tls", "allowed"]);
        command.args(["--log-level", "trace", "--control", &control]).args(more).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(File::create(&log).expect("a file"));
        let mut program = Ended(command.spawn().expect("the program runs"));
        let stdout = program.0.stdout.take().expect("a pipe");
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        let first = lines.next().expect("where it listens");
        let port = first.rsplit(':').next().expect("a port").to_owned();
        assert!(lines.any(|line| line.contains(" null ")), "it serves");
        Self { program, log, control, port }
    }

    fn administer(&self, arguments: &[&str]) {
        let output = selvedge(&[arguments, &["--control", &self.control]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    }

    /// Lists the namespaces as a host.
    fn list(&self, host: &str, credentials: &[&str]) -> Output {
        let base = ["list", "-a", "127.0.0.1", "-s", &self.port, "-q", host];
        selvedge(&[&base[..], credentials].concat())
    }

    fn logged(&self) -> String {
        fs::read_to_string(&self.log).expect("text")
    }
}

fn written(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, content).expect("written");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("its mode");
    path.display().to_string()
}

/// A secret or TLS key, made by the program.
fn made(more: &[&str]) -> String {
    let output = selvedge(&[&["key", "generate"], more].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

/// Forms in which a log could have a secret: its text, and its first bytes in hexadecimal and as a list of numbers.
fn forms(secret: &str) -> Vec<String> {
    let encoded = secret.split(':').nth(2).expect("the third part is the key");
    let bytes = STANDARD.decode(encoded).expect("base64");
    let hexadecimal: String = bytes[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let numbers: Vec<String> = bytes[..8].iter().map(u8::to_string).collect();
    vec![encoded[..16].to_owned(), hexadecimal.clone(), hexadecimal.to_uppercase(), numbers.join(", ")]
}

/// Status of a request with a token.
fn asks(address: SocketAddr, method: &str, path: &str, token: &str, body: &str) -> u16 {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(patience())).expect("a limit");
    let head = format!("{method} {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n");
    let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
}

#[test]
fn a_log_at_its_most_detailed_level_has_no_secret() {
    let folder = tempfile::tempdir().expect("a folder");
    let [secret, wrong_secret, sent] = [(); 3].map(|()| made(&[]));
    let [key, wrong_key] = [(); 2].map(|()| made(&["--tls"]));
    let (token, wrong_token) = ("selvedge_token_that_is_right", "selvedge_token_that_is_wrong");
    let file = |name: &str, content: &str| written(folder.path(), name, content);
    let address = free_address();
    let tcp = format!("tcp:{address}");
    let token_file = file("token", token);
    let target = Target::start(folder.path(), &["--control", &tcp, "--control-token-file", &token_file]);
    target.administer(&["host", "set-key", NQN, WITH_SECRET, "-S", &file("secret", &secret)]);
    target.administer(&["host", "set-key", NQN, WITH_KEY, "--tls-key-file", &file("key", &key)]);
    assert!(target.list(WITH_SECRET, &["-S", &file("secret", &secret)]).status.success());
    assert!(target.list(WITH_KEY, &["--tls-key-file", &file("key", &key)]).status.success());
    // Discovery needs no proof: the subsystem refuses.
    for (host, credentials) in [
        (WITH_SECRET, ["-S", &file("wrong-secret", &wrong_secret)]),
        (WITH_KEY, ["--tls-key-file", &file("wrong-key", &wrong_key)]),
    ] {
        let base = ["identify", "-a", "127.0.0.1", "-s", &target.port, "-n", NQN, "-q", host];
        assert!(!selvedge(&[&base[..], &credentials].concat()).status.success(), "{host}");
    }
    assert_eq!(asks(address, "GET", "/v1/config", token, ""), 200);
    assert_eq!(asks(address, "GET", "/v1/config", wrong_token, ""), 401);
    // A body with a secret, of a target that keeps none itself.
    let (path, body) = (
        format!("/v1/subsystems/{NQN}/host_keys/{WITH_SECRET}"),
        format!("{{\"dhchap_secret\": \"{sent}\"}}"),
    );
    assert_ne!(asks(address, "PUT", &path, token, &body), 401);
    for host in [WITH_SECRET, WITH_KEY] {
        wait_until("the log names the hosts", || target.logged().contains(host));
    }
    let log = target.log.clone();
    drop(target);
    let logged = fs::read_to_string(log).expect("text");
    let secrets =
        [&secret, &wrong_secret, &sent, &key, &wrong_key].into_iter().flat_map(|secret| forms(secret));
    for form in secrets.chain([token, wrong_token].map(str::to_owned)) {
        let line = logged.lines().find(|line| line.contains(&form));
        assert_eq!(line, None, "the log has a secret");
    }
}

#[test]
fn a_target_that_has_read_a_secret_leaves_no_image_of_its_memory() {
    if getrlimit(Resource::Core).maximum == Some(0) {
        return missing("a limit for core dumps above 0");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(folder.path(), &[]);
    let limits = || {
        let limits = fs::read_to_string(format!("/proc/{}/limits", target.program.0.id())).expect("it runs");
        let line = limits.lines().find_map(|line| line.strip_prefix("Max core file size"));
        line.expect("a limit").split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_ne!(limits()[1], "0", "there is no secret yet");
    let secret = written(folder.path(), "secret", &made(&[]));
    target.administer(&["host", "set-key", NQN, WITH_SECRET, "-S", &secret]);
    assert_eq!(limits(), ["0", "0", "bytes"]);
}
