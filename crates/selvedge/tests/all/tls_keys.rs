//! TLS keys as the program's commands make, read and set them: by the side of nvme-cli, and for two hosts of different rights.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use crate::serving::{Ended, NQN, json, stderr};

const WITH_KEY: &str = "nqn.2026-01.io.selvedge:with-key";
const WITHOUT: &str = "nqn.2026-01.io.selvedge:without";

/// Keys from `nvme gen-tls-key` of nvme-cli 2.3 with `-m 1` and `-m 2`, and the output of its
/// `check-tls-key` for each.
const OF_NVME_CLI: [(&str, &str); 2] = [
    (
        "NVMeTLSkey-1:01:B2xCqs4cNDorN+o3l51HSMfsICDgW5JECPYn5lqN5gzcctYd:",
        "Key is valid (HMAC 1, length 32, CRC 1dd672dc)",
    ),
    (
        "NVMeTLSkey-1:02:jberBIZKiYS8TE49r2DrBDjYV8N4L56sA5yYDnAk6Vw1ztQGWlGB6UTlSwIt0cVfugERkQ==:",
        "Key is valid (HMAC 2, length 48, CRC 911101ba)",
    ),
];

fn selvedge(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    let command = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program runs");
    // A command that refuses its arguments reads nothing.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    child.wait_with_output().expect("it ends")
}

/// Output of a command that succeeds.
fn printed(arguments: &[&str], input: &str) -> String {
    let output = selvedge(arguments, input);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn keys_are_those_of_nvme_cli() {
    for (key, expected) in OF_NVME_CLI {
        assert_eq!(printed(&["key", "check", "-"], key).trim(), expected);
    }
    for (hmac, length) in [(0, 32), (1, 32), (2, 48)] {
        let made = printed(&["key", "generate", "--tls", "--hmac", &hmac.to_string()], "");
        assert!(made.starts_with(&format!("NVMeTLSkey-1:0{hmac}:")) && made.ends_with(":\n"), "{made}");
        let shown = json(&selvedge(&["key", "inspect", "-", "-o", "json"], &made));
        assert_eq!(
            (&shown["is_tls_key"], &shown["hmac"], &shown["key_length"]),
            (&true.into(), &hmac.into(), &length.into())
        );
    }
    assert!(printed(&["key", "generate"], "").starts_with("DHHC-1:00:"), "a secret is what it was");
    for (wrong, what) in [
        (&["--tls", "--hmac", "3"][..], "--hmac 3"),
        (&["--tls", "--hmac", "1", "--key-length", "48"], "--key-length 48"),
        (&["--tls", "--hmac", "1", "--nqn", NQN], "--nqn"),
    ] {
        let output = selvedge(&[&["key", "generate"], wrong].concat(), "");
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert!(stderr(&output).contains(what), "{}", stderr(&output));
    }
    let cut = selvedge(&["key", "check", "-"], &OF_NVME_CLI[0].0[..40]);
    assert!(stderr(&cut).contains("line 1: ") && !stderr(&cut).contains(&OF_NVME_CLI[0].0[20..40]));
}

/// The first pair of libnvme's vectors is tested in secure_channel; here only the flags matter.
#[test]
fn an_identity_follows_the_flags() {
    let key = OF_NVME_CLI[0].0;
    let identity = |more: &[&str]| {
        let base = ["key", "identity", "-", "-q", WITH_KEY, "-n", NQN];
        printed(&[&base[..], more].concat(), key)
    };
    let standard = identity(&[]);
    assert!(standard.starts_with(&format!("NVMe1R01 {WITH_KEY} {NQN} ")), "{standard}");
    assert_ne!(identity(&["--compat"]), standard, "the hash function makes another retained key");
    assert_eq!(identity(&["--identity", "0"]), format!("NVMe0R01 {WITH_KEY} {NQN}\n"));
    assert_eq!(identity(&["--identity", "0", "--hmac", "2"]), format!("NVMe0R02 {WITH_KEY} {NQN}\n"));
    let secret = printed(&["key", "generate"], "");
    let refused = selvedge(&["key", "identity", "-", "-n", NQN], &secret);
    assert!(stderr(&refused).contains("not a TLS key"), "{}", stderr(&refused));
}

#[test]
fn a_key_goes_into_a_keyring_of_the_kernel() {
    let insert = |more: &[&str]| {
        let base = ["key", "identity", "-", "-q", WITH_KEY, "-n", NQN, "--insert"];
        selvedge(&[&base[..], more].concat(), OF_NVME_CLI[0].0)
    };
    let missing = insert(&["--keyring", "no-such-keyring"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(stderr(&missing).contains("there is no keyring no-such-keyring"), "{}", stderr(&missing));
    // The program's own keyring, which ends with it. Where a container has none, it says so.
    let inserted = insert(&["--keyring", "@p", "--keytype", "user"]);
    let message = String::from_utf8_lossy(&inserted.stdout).into_owned() + &stderr(&inserted);
    assert!(message.starts_with("Inserted TLS key ") || message.contains("may not add keys"), "{message}");
}

/// A target in a folder, with a control socket and a state.
struct Target {
    _child: Ended,
    port: String,
    folder: PathBuf,
}

impl Target {
    fn start(folder: &Path, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args(["serve", "--reactors", "1", "--control", "unix:control.sock", "--state-dir", "state"]);
        command.args(more).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("where it listens");
        let port = line.trim().rsplit_once(':').expect("a port").1.to_owned();
        Self { _child: Ended(child), port, folder: folder.to_owned() }
    }

    fn administer(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args(arguments).args(["--control", "unix:control.sock"]).current_dir(&self.folder);
        command.stdin(Stdio::null()).output().expect("the program runs")
    }

    fn output_of(&self, arguments: &[&str]) -> String {
        let output = self.administer(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).expect("text")
    }

    fn refuses(&self, arguments: &[&str], what: &str) {
        let output = self.administer(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(stderr(&output).contains(what), "{arguments:?}: {}", stderr(&output));
    }

    fn discovered(&self, host: &str) -> String {
        printed(&["discover", "-a", "127.0.0.1", "-s", &self.port, "-q", host], "")
    }
}

fn written(folder: &Path, name: &str, content: &str, mode: u32) -> String {
    let path = folder.join(name);
    fs::write(&path, content).expect("written");
    fs::set_permissions(&path, Permissions::from_mode(mode)).expect("its mode");
    path.display().to_string()
}

#[test]
fn a_tls_key_stands_beside_a_secret_and_is_one_hosts() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = written(folder.path(), "key", OF_NVME_CLI[0].0, 0o600);
    let age = Duration::from_secs(40 * 86_400 + 3600);
    fs::File::open(&key).and_then(|file| file.set_modified(SystemTime::now() - age)).expect("its age");
    let open = written(folder.path(), "open", OF_NVME_CLI[0].0, 0o644);
    let secret = written(folder.path(), "secret", &printed(&["key", "generate"], ""), 0o600);
    let fresh =
        ["-s", "0", "-n", NQN, "--namespace", "memory:1m", "--tls", "allowed", "--allow-host", WITH_KEY];
    let target = Target::start(folder.path(), &[&fresh[..], &["--allow-host", WITHOUT]].concat());
    let with = |host: &str, flags: &[&str], run: &dyn Fn(&[&str])| {
        run(&[&["host", "set-key", NQN, host], flags].concat());
    };
    with(WITH_KEY, &["--tls-key-file", &key], &|words| {
        assert!(target.output_of(words).contains("has a TLS key for"), "{words:?}");
    });
    with(WITH_KEY, &["--tls-key-file", &open], &|words| target.refuses(words, "is readable by other users"));
    with(WITH_KEY, &["--tls-key-file", &secret], &|words| target.refuses(words, "not a TLS key"));
    with(WITH_KEY, &["-S", &secret], &|words| target.refuses(words, "tls_key_file"));
    with(WITHOUT, &["-S", &secret], &|words| {
        assert!(target.output_of(words).contains("has to authenticate"));
    });
    with(WITHOUT, &["--tls-key-file", &key], &|words| target.refuses(words, "dhchap_secret_file"));
    let listed = |target: &Target| {
        let message = target.output_of(&["host", "list", NQN]);
        let lines = [
            format!("{WITH_KEY}  has a TLS key (40 days ago, 20"),
            format!("{WITHOUT}  authenticates (today, 20"),
        ];
        assert!(lines.iter().all(|line| message.contains(line)) && message.lines().count() == 2, "{message}");
    };
    listed(&target);
    let stranger = "nqn.2026-01.io.selvedge:stranger";
    with(stranger, &["--tls-key-file", &key], &|words| target.refuses(words, "not allowed to connect"));
    // Both hosts find what both may use, each by its own way, and a third one nothing.
    for (host, way) in [(WITH_KEY, "security tls13, required"), (WITHOUT, "security none")] {
        let message = target.discovered(host);
        assert!(message.contains(NQN) && message.contains(way), "{message}");
    }
    assert!(!target.discovered(stranger).contains(NQN));
    // The state has the file's name and no key, and the host its key, after a restart too.
    let dump = target.output_of(&["config", "dump"]);
    assert!(
        dump.contains(&format!("tls_key_file = \"{key}\"")) && dump.contains("tls = \"allowed\""),
        "{dump}"
    );
    drop(target);
    let target = Target::start(folder.path(), &[]);
    listed(&target);
    for entry in fs::read_dir(folder.path().join("state")).expect("the state").flatten() {
        let text = fs::read(entry.path()).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&text).contains(&OF_NVME_CLI[0].0[16..40]), "{:?}", entry.path());
    }
    target.output_of(&["host", "remove-key", NQN, WITH_KEY]);
    let left = target.output_of(&["host", "list", NQN]);
    let begins = format!("{WITH_KEY}\n{WITHOUT}  authenticates (today, 20");
    assert!(left.starts_with(&begins), "{left}");
}

#[test]
fn commands_connect_by_tls_as_the_host_whose_key_they_have() {
    let folder = tempfile::tempdir().expect("a folder");
    let [(first, _), (second, _)] = OF_NVME_CLI;
    let key = written(folder.path(), "key", first, 0o600);
    let wrong = written(folder.path(), "wrong", second, 0o600);
    let serves =
        ["-s", "0", "-n", NQN, "--namespace", "memory:1m", "--allow-host", WITH_KEY, "--allow-host", WITHOUT];
    let target = Target::start(folder.path(), &serves);
    let look = |words: &[&str], host: &str, more: &[&str]| {
        let base = ["-a", "127.0.0.1", "-s", &target.port, "-q", host];
        let output = selvedge(&[words, &base, more].concat(), "");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(&output))
    };
    assert_eq!(look(&["list"], WITHOUT, &[]).0, Some(0), "without a key nothing is TLS");
    target.output_of(&["host", "set-key", NQN, WITH_KEY, "--tls-key-file", &key]);
    let with_key = ["--tls-key-file", key.as_str()];
    for words in [&["list"][..], &["identify", "-n", NQN], &["bench", "--rw", "randread", "--runtime", "1"]] {
        let (status, message) = look(words, WITH_KEY, &with_key);
        assert_eq!(status, Some(0), "{words:?}: {message}");
        let more = ["--tls-identity", "0", "--tls-compat"];
        assert_eq!(look(words, WITH_KEY, &[&with_key[..], &more].concat()).0, Some(0), "{words:?}");
    }
    let (_, message) = look(&["discover"], WITH_KEY, &with_key);
    assert!(message.contains("security tls13, required"), "{message}");
    // Neither without the key, nor with another one, nor by another name.
    for (host, more) in [
        (WITH_KEY, &[][..]),
        (WITHOUT, &[]),
        (WITH_KEY, &["--tls-key-file", wrong.as_str()]),
        (WITHOUT, &with_key),
    ] {
        for words in [&["list"][..], &["discover"], &["identify", "-n", NQN]] {
            let (status, message) = look(words, host, more);
            assert_eq!(status, Some(1), "{words:?} {host} {more:?}: {message}");
        }
    }
    // nvme-cli's file has the same key for the same port.
    let config = format!(
        r#"[{{"hostnqn":"{WITH_KEY}","subsystems":[{{"nqn":"{NQN}","ports":[{{"transport":"tcp",
           "traddr":"127.0.0.1","trsvcid":"{}","tls":true,"tls_key":"{first}"}}]}}]}}]"#,
        target.port
    );
    let config = written(folder.path(), "config.json", &config, 0o600);
    let (status, message) = look(&["list"], WITH_KEY, &["-J", &config]);
    assert_eq!(status, Some(0), "{message}");
}
