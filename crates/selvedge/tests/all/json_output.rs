//! `-o json` where it once meant something else or was missing: what it prints is JSON, and it writes no file.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::serving::{Ended, NQN, json, listed_commands, stderr};

pub(crate) fn run_in(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).output().expect("the program runs")
}

fn files(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").file_name());
    files.map(|name| name.to_string_lossy().into_owned()).collect()
}

const SAVED: &str = r#"{"ports": [{"portid": 1, "addr": {"trtype": "tcp", "traddr": "127.0.0.1", "trsvcid": "4420"},
    "subsystems": ["nqn.nvmet:a"]}], "subsystems": [{"nqn": "nqn.nvmet:a", "attr": {"allow_any_host": "1"}}]}"#;

#[test]
fn an_import_prints_json_and_writes_where_output_says() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("saved"), SAVED).expect("it can be written");
    let result = json(&run_in(folder.path(), &["import", "nvmet", "saved", "-o", "json"]));
    assert_eq!(result["config"]["subsystems"][0]["nqn"], "nqn.nvmet:a");
    assert!(result["output"].is_null());
    assert_eq!(files(folder.path()), ["saved"], "`json` is a format");
    let former = run_in(folder.path(), &["import", "nvmet", "saved", "-o", "target.toml"]);
    assert_eq!(former.status.code(), Some(2));
    assert!(stderr(&former).contains("--output target.toml"), "{}", stderr(&former));
    assert_eq!(files(folder.path()), ["saved"]);
    let both = ["import", "nvmet", "saved", "--output", "target.toml", "--output-format", "json"];
    assert_eq!(json(&run_in(folder.path(), &both))["output"], "target.toml");
    assert!(folder.path().join("target.toml").exists());
}

/// The state of a ceph-nvmeof group, and the key that its secrets are encrypted with.
pub(crate) fn write_state(folder: &Path) {
    let state = include_str!("../../../administration/src/config/ceph_nvmeof/recorded/state.json");
    std::fs::write(folder.join("state.json"), state).expect("it can be written");
    let mut options = std::fs::OpenOptions::new();
    let key = options.mode(0o600).write(true).create_new(true).open(folder.join("encryption.pem"));
    let text = include_str!("../../../administration/src/config/ceph_nvmeof/recorded/encryption.pem");
    key.expect("a new file").write_all(text.as_bytes()).expect("it can be written");
}

/// Writes files of other programs, for all commands that read such.
fn write_others(folder: &Path) {
    write_state(folder);
    let others = [("saved", SAVED), ("fio.json", include_str!("../../../measurement/src/fio/fio-3.33.json"))];
    for (name, text) in others {
        std::fs::write(folder.join(name), text).expect("it can be written");
    }
}

#[test]
fn an_import_of_a_group_writes_its_secrets() {
    let folder = tempfile::tempdir().expect("a folder");
    write_state(folder.path());
    let words = "import ceph-nvmeof state.json --gateway node-a --encryption-key encryption.pem -o json";
    let words: Vec<&str> = words.split(' ').collect();
    let refused = run_in(folder.path(), &words);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--secret-dir"), "{}", stderr(&refused));
    let words = [&words[..], &["--secret-dir", "secrets", "--output", "target.toml"]].concat();
    let result = json(&run_in(folder.path(), &words));
    let written = result["secret_files"].as_array().expect("a list").clone();
    assert_eq!(written.len(), 5, "{result}");
    for file in &written {
        let path = Path::new(file.as_str().expect("a path"));
        let metadata = path.metadata().expect("it is there");
        assert_eq!(metadata.mode() & 0o777, 0o600, "{file}");
        let key =
            json(&run_in(folder.path(), &["key", "check", file.as_str().expect("a path"), "-o", "json"]));
        assert_eq!(key["is_tls_key"], file.as_str().is_some_and(|name| name.ends_with(".tls.key")), "{file}");
    }
    let checked = run_in(folder.path(), &["config", "check", "target.toml"]);
    assert!(checked.status.success(), "{}", stderr(&checked));
    // The same once more: the target.toml may have been changed by hand, and so may a secret.
    let again = run_in(folder.path(), &words);
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("target.toml already exists"), "{}", stderr(&again));
    std::fs::remove_file(folder.path().join("target.toml")).expect("it is there");
    assert!(run_in(folder.path(), &words).status.success(), "files with the same secrets stay");
    std::fs::remove_file(folder.path().join("target.toml")).expect("it is there");
    let first = Path::new(written[0].as_str().expect("a path"));
    std::fs::write(first, "another").expect("it can be written");
    let again = run_in(folder.path(), &words);
    assert!(stderr(&again).contains("--force replaces it"), "{}", stderr(&again));
    assert!(!folder.path().join("target.toml").exists());
    assert!(run_in(folder.path(), &[&words[..], &["--force"]].concat()).status.success());
    assert_ne!(std::fs::read_to_string(first).expect("it is there"), "another");
}

#[test]
fn the_api_and_a_plan_are_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let document = json(&run_in(folder.path(), &["openapi", "-o", "json"]));
    assert!(document["openapi"].is_string());
    let sweep = ["sweep", "-a", "127.0.0.1", "-n", "nqn.a", "--preset", "quick", "--dry-run", "-o", "json"];
    let plan = json(&run_in(folder.path(), &sweep));
    assert_eq!(plan["points"].as_array().map(Vec::len), Some(9));
    assert_eq!(plan["measurements"], 27);
    assert!(plan["takes_s"].as_f64().is_some_and(|seconds| seconds > 27.0));
}

#[test]
fn a_refusal_is_text_and_prints_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    for arguments in [
        &["import", "nvmet", "missing", "-o", "json"][..],
        &["import", "ceph-nvmeof", "missing", "-o", "json"],
        &["discover", "-a", "127.0.0.1", "-s", "1", "-o", "json"],
        &["bench", "-a", "127.0.0.1", "-s", "1", "-n", "nqn.a", "--rw", "read", "-o", "json"],
        &["report", "missing", "-o", "json"],
        &["compare", "missing", "missing", "-o", "json"],
        &["config", "check", "missing", "-o", "json"],
        &["status", "--control", "unix:missing", "-o", "json"],
        &["tune", "show", "--sysroot", "missing", "-o", "json"],
        &["doctor", "--sysroot", "missing", "-o", "json"],
    ] {
        let output = run_in(folder.path(), arguments);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        assert!(stderr(&output).starts_with("selvedge: "), "{arguments:?}: {}", stderr(&output));
    }
}

/// The commands that do something by themselves, as the help tells them.
fn commands(folder: &Path, name: &str) -> Vec<String> {
    let words: Vec<&str> = name.split_whitespace().chain(["--help"]).collect();
    let help = String::from_utf8(run_in(folder, &words).stdout).expect("UTF-8");
    let inner = listed_commands(&help);
    if inner.is_empty() {
        return vec![name.to_owned()];
    }
    inner.into_iter().flat_map(|word| commands(folder, format!("{name} {word}").trim())).collect()
}

/// Arguments with which a command succeeds on the target below, in the order in which the help lists the commands; `None`
/// where it needs what is not there.
fn arguments(name: &str, port: &str) -> Option<String> {
    let at = format!("-a 127.0.0.1 -s {port} -n {NQN}");
    let other = "nqn.2026-01.org.example:other";
    let recorded = "--sysroot machine";
    Some(match name {
        // Tests of their own; a cluster, a group of gateways, a storage that has failed, changes of this machine.
        "attach detach" | "attach recover" | "attach serve" | "attach upgrade" => return None,
        "demo" | "disconnect" | "serve" | "gateways remove" | "gateways drain" | "gateways failback"
        | "gateways resume" | "tune revert" | "connection reset" => {
            return None;
        }
        "namespace reopen" | "namespace snapshot" | "namespace clone" | "namespace flatten" => return None,
        "discover" => format!("-a 127.0.0.1 -s {port}"),
        "identify" | "list" => at,
        "connect" => format!("{at} --dry-run"),
        "bench" => format!("{at} --rw randread --runtime 1"),
        "sweep" => format!("{at} --preset quick --dry-run"),
        "report" => "--from-fio fio.json --output made".to_owned(),
        "compare" => "fio.json fio.json".to_owned(),
        "subsystem add" => other.to_owned(),
        "subsystem set" => format!("{NQN} --all-ports"),
        "subsystem remove" | "subsystem show" | "host list" | "ana list" | "namespace show" => {
            format!("{NQN}{}", if name == "namespace show" { " 1" } else { "" })
        }
        "namespace add" => format!("{NQN} memory:1m,nsid=2"),
        "namespace resize" => format!("{NQN} 2 2m"),
        "namespace reservations" | "namespace clear-reservations" => format!("{NQN} 1"),
        "namespace set" => format!("{NQN} 2 --iops 1000"),
        "namespace remove" => format!("{NQN} 2"),
        "listener add" => "127.0.0.1 -s 0 --id 9".to_owned(),
        "listener remove" => "9".to_owned(),
        "host allow" | "host deny" | "host remove-key" => format!("{NQN} {other}"),
        "host set-key" => format!("{NQN} {other} --dhchap-secret-file host.key"),
        "key inspect" | "key check" => "host.key".to_owned(),
        "key identity" => format!("tls.key -n {NQN}"),
        "audit verify" => "--state-dir state".to_owned(),
        "token create" => "ops --role admin --control-access access.toml".to_owned(),
        "token list" => "--control-access access.toml".to_owned(),
        "token revoke" => "kept --control-access access.toml".to_owned(),
        "ana set" => format!("{NQN} 1 optimized"),
        "referral add" | "referral remove" => "127.0.0.1".to_owned(),
        "top" => "--once --interval 0.1".to_owned(),
        "tune show" | "tune plan" => recorded.to_owned(),
        "tune apply" => format!("{recorded} --dry-run"),
        "tune advise" => format!("-a 127.0.0.1 -s {port}"),
        "doctor" => format!("-a 127.0.0.1 -s {port} --interval 0.1 --control unix:control.sock"),
        "config check" | "config diff" | "config apply" => "target.toml".to_owned(),
        "import ceph-nvmeof" => {
            "state.json --gateway node-a --encryption-key encryption.pem --secret-dir secrets".to_owned()
        }
        "import nvmet" => "saved".to_owned(),
        "upgrade" => "--if-changed".to_owned(),
        _ => String::new(),
    })
}

/// True if a command asks a running target, and so takes its address.
fn is_control(name: &str) -> bool {
    let first = name.split(' ').next().unwrap_or_default();
    let groups = [
        "subsystem",
        "namespace",
        "listener",
        "host",
        "ana",
        "connection",
        "referral",
        "log",
        "slow-commands",
        "status",
        "top",
        "upgrade",
    ];
    groups.contains(&first) || matches!(name, "config diff" | "config apply" | "config dump")
}

/// A target in `folder`, and its port.
fn serve(folder: &Path) -> (Ended, String) {
    let mut target = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    target.args(["serve", "-s", "0", "-n", NQN, "--control", "unix:control.sock", "--reactors", "1"]);
    target
        .args(["--namespace", "memory:1m", "--state-dir", "state"])
        .current_dir(folder)
        .stdin(Stdio::null());
    let mut target = Ended(target.stdout(Stdio::piped()).spawn().expect("the program runs"));
    let mut lines = BufReader::new(target.0.stdout.take().expect("a pipe")).lines();
    let first = lines.next().expect("it says where it listens").expect("text");
    let port = first.rsplit_once(':').expect("a port").1.to_owned();
    (target, port)
}

/// Commands whose output has a schema and is held against it here, in the order of the help.
const DESCRIBED: [&str; 24] = [
    "import nvmet",
    "import ceph-nvmeof",
    "upgrade",
    "discover",
    "list",
    "identify",
    "attach list",
    "connect",
    "host-nqn",
    "key generate",
    "key inspect",
    "key check",
    "key identity",
    "bench",
    "top",
    "token create",
    "token revoke",
    "token list",
    "audit verify",
    "doctor",
    "tune show",
    "tune plan",
    "tune apply",
    "tune advise",
];

#[test]
fn every_command_prints_json_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name: &str| folder.path().join(name);
    let machine = topology::sample::topology("cpu72-queues32").expect("there is such a machine");
    std::fs::write(place("machine"), topology::sample::recording(&machine).to_string())
        .expect("it is written");
    for made in [&["--output", "host.key"][..], &["--tls", "--output", "tls.key"]] {
        assert!(run_in(folder.path(), &[&["key", "generate"], made].concat()).status.success());
    }
    let kept = ["token", "create", "kept", "--role", "read", "--control-access", "access.toml"];
    assert!(run_in(folder.path(), &kept).status.success());
    write_others(folder.path());
    let (_target, port) = serve(folder.path());
    let control = ["--control", "unix:control.sock"];
    let (mut count, mut removed, mut checked) = (0, Vec::new(), Vec::new());
    let made = run_in(folder.path(), &["generate", "--output", "generated"]);
    assert!(made.status.success());
    let schema = |name: &str| {
        let file = place("generated/schema").join(format!("{}.json", name.replace(' ', "-")));
        let text = std::fs::read_to_string(file).ok()?;
        serde_json::from_str::<serde_json::Value>(&text).ok()
    };
    for name in commands(folder.path(), "") {
        let Some(arguments) = arguments(&name, &port) else { continue };
        if name == "config check" {
            let dump = run_in(folder.path(), &[&["config", "dump"], &control[..]].concat());
            std::fs::write(place("target.toml"), dump.stdout).expect("it is written");
        }
        let asks = if is_control(&name) { &control[..] } else { &[] };
        let mut words: Vec<&str> = name.split(' ').chain(arguments.split_whitespace()).collect();
        words.extend(asks.iter().chain(&["-o", "json"]));
        // What others need goes last.
        if name.ends_with("remove") || matches!(&*name, "host deny" | "host remove-key") {
            removed.push(words.into_iter().map(str::to_owned).collect::<Vec<_>>());
            continue;
        }
        println!("{words:?}");
        let printed = json(&run_in(folder.path(), &words));
        if let Some(schema) = schema(&name) {
            checked.push(name.clone());
            assert_eq!(crate::schema_tests::mistake(&schema, &schema, &printed, &name), None, "{printed}");
        }
        count += 1;
    }
    assert_eq!(checked, DESCRIBED);
    // The subsystem itself last of all.
    for words in removed.iter().rev() {
        println!("{words:?}");
        json(&run_in(folder.path(), &words.iter().map(String::as_str).collect::<Vec<_>>()));
        count += 1;
    }
    assert!(count >= 53, "{count}");
}
