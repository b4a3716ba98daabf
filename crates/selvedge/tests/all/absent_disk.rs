//! A disk that is missing when a service starts: its namespace is absent, the rest serves, and it comes by itself.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::serving::{Ended, json, selvedge};

const NQN: &str = "nqn.2026-01.org.example:absent";

/// A target that reads a file, as a service does.
struct Serving {
    _child: Ended,
    port: String,
    control: String,
}

impl Serving {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let control = format!("unix:{}", folder.join("control.sock").display());
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args(["serve", "--reactors", "1", "--control", &control]).args(arguments);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the program runs");
        let mut lines = BufReader::new(child.stdout.take().expect("stdout is a pipe")).lines();
        let line = lines.next().expect("it starts although a disk is missing").expect("it prints");
        let port = line.strip_prefix("listening on 127.0.0.1:").expect("where it listens comes first");
        let port = port.to_owned();
        Self { _child: Ended(child), port, control }
    }

    /// A namespace as the commands show it.
    fn namespace(&self, nsid: u32) -> Value {
        let list = selvedge(&[
            "namespace",
            "show",
            NQN,
            &nsid.to_string(),
            "--control",
            &self.control,
            "-o",
            "json",
        ]);
        json(&list)
    }

    /// Metrics as Prometheus gets them.
    fn metrics(&self) -> String {
        let mut stream = UnixStream::connect(self.control.trim_start_matches("unix:")).expect("it listens");
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
            .expect("it is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }

    /// Namespaces that a host finds.
    fn namespaces_of_a_host(&self) -> Vec<u64> {
        let list = json(&selvedge(&["list", "-a", "127.0.0.1", "-s", &self.port, "-n", NQN, "-o", "json"]));
        let list = list.as_array().cloned().or_else(|| list["namespaces"].as_array().cloned());
        let list = list.expect("a list of namespaces");
        list.iter().filter_map(|namespace| namespace["nsid"].as_u64()).collect()
    }
}

fn file(folder: &Path) -> String {
    let (here, missing) = (folder.join("here.img"), folder.join("pool/missing.img"));
    format!(
        "[[port]]\naddress = \"127.0.0.1:0\"\n[[subsystem]]\nnqn = \"{NQN}\"\nallow_any_host = true\n\
         [[subsystem.namespace]]\nnsid = 1\nbackend.file = {{ path = \"{}\", size = \"1m\" }}\n\
         [[subsystem.namespace]]\nnsid = 2\nbackend.file = {{ path = \"{}\" }}\n",
        here.display(),
        missing.display()
    )
}

#[test]
fn a_missing_disk_is_absent_and_comes_by_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("target.toml");
    std::fs::write(&config, file(folder.path())).expect("it can be written");
    let serving = Serving::start(folder.path(), &["-c", &config.display().to_string()]);
    assert_eq!(serving.namespaces_of_a_host(), [1]);
    let absent = serving.namespace(2);
    assert_eq!(absent["state"], "absent", "{absent}");
    let metrics = serving.metrics();
    assert!(metrics.contains(&format!("selvedge_absent_namespaces{{subsystem=\"{NQN}\"}} 1\n")), "{metrics}");
    assert!(absent.to_string().contains("missing.img"), "it says what is missing: {absent}");

    std::fs::create_dir(folder.path().join("pool")).expect("a folder");
    let disk = std::fs::File::create(folder.path().join("pool/missing.img")).expect("a file");
    disk.set_len(2 << 20).expect("it has a size");
    prerequisite::wait_until("the disk comes", || serving.namespaces_of_a_host() == [1, 2]);
    assert_eq!(serving.namespace(2)["state"], "ready");
}

#[test]
fn what_was_just_typed_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = format!("file:{}", folder.path().join("missing.img").display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(["serve", "-s", "0", "--control", "none", "--namespace", &missing]).stdin(Stdio::null());
    let output = command.output().expect("the program runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(crate::serving::stderr(&output).contains("missing.img"));
}
