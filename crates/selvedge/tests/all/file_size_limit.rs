//! The limit on the size of files is an error for the host or the user whose write meets it, and nothing for anybody else.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::serving::{Ended, NQN, selvedge, stderr};

const LIMIT_BYTES: u64 = 8 << 20;

/// The program where no file may grow beyond the limit. A shell sets it, for that process alone.
fn limited(arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    let script = format!("ulimit -f {} && exec \"$0\" \"$@\"", LIMIT_BYTES / SH_UNIT);
    command.args(["-c", &script, env!("CARGO_BIN_EXE_selvedge")]).args(arguments).stdin(Stdio::null());
    command
}

/// POSIX has blocks of 512 bytes, and so has Debian's `sh`.
const SH_UNIT: u64 = 512;

struct Target {
    process: Ended,
    port: String,
    control: String,
}

impl Target {
    fn start(folder: &Path, engine: &str, namespaces: &[&str]) -> Self {
        let control = format!("unix:{}", folder.join("c.sock").display());
        let mut words = vec!["serve", "-s", "0", "-n", NQN, "--engine", engine, "--control", &control];
        namespaces.iter().for_each(|namespace| words.extend(["--namespace", namespace]));
        let mut process = Ended(limited(&words).stdout(Stdio::piped()).spawn().expect("the program runs"));
        let mut lines =
            BufReader::new(process.0.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        let first = lines.find(|line| line.starts_with("listening on")).expect("it serves");
        let port = first.rsplit_once(':').expect("a port").1.to_owned();
        assert!(lines.any(|line| line.starts_with("administered at")), "it can be administered");
        Self { process, port, control }
    }

    fn bench(&self, more: &[&str]) -> Output {
        selvedge(&[&["bench", "-a", "127.0.0.1", "-s", &self.port, "-n", NQN][..], more].concat())
    }

    fn is_there(&mut self) -> bool {
        let process: &mut Child = &mut self.process.0;
        process.try_wait().expect("it is a child").is_none()
    }
}

#[test]
fn a_write_beyond_it_fails_for_its_host_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = folder.path().join("a.img");
    let file = std::fs::File::options().read(true).write(true).create_new(true).open(&image).expect("a file");
    file.set_len(4 * LIMIT_BYTES).expect("it is sparse");
    for engine in ["epoll", "auto"] {
        let namespaces = [&format!("file:{}", image.display()), "memory:4m"];
        let mut target = Target::start(folder.path(), engine, &namespaces);
        let offset = (2 * LIMIT_BYTES).to_string();
        let write = ["--nsid", "1", "--rw", "write", "--bs", "64k", "--size", "1m", "--destroy-data"];
        let beyond = target.bench(&[&write[..], &["--offset", &offset]].concat());
        assert_eq!(beyond.status.code(), Some(1), "{engine}: {}", stderr(&beyond));
        assert!(stderr(&beyond).contains("Capacity Exceeded"), "{engine}: {}", stderr(&beyond));
        assert!(target.is_there(), "{engine}: one host's write has ended the target");
        let below = target.bench(&write);
        assert_eq!(below.status.code(), Some(0), "{engine}: {}", stderr(&below));
        let other = target.bench(&["--nsid", "2", "--rw", "read", "--bs", "4k", "--size", "1m"]);
        assert_eq!(other.status.code(), Some(0), "{engine}: {}", stderr(&other));
    }
    let mut data = [1; 4096];
    file.read_exact_at(&mut data, 2 * LIMIT_BYTES).expect("it is there");
    assert_eq!(data, [0; 4096], "nothing was written beyond the limit");
}

#[test]
fn a_namespace_that_is_larger_is_refused_and_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(folder.path(), "auto", &["memory:4m"]);
    let image = folder.path().join("new.img");
    let add = |size: &str| {
        let spec = format!("file:{},size={size}", image.display());
        selvedge(&["namespace", "add", NQN, &spec, "--control", &target.control])
    };
    let refused = add("64m");
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("File too large"), "{}", stderr(&refused));
    assert!(!image.exists(), "an empty file is left");
    let added = add("4m");
    assert_eq!(added.status.code(), Some(0), "{}", stderr(&added));
    assert!(target.is_there());
}

#[test]
fn a_log_that_reaches_it_ends_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, port) = (folder.path().join("log"), {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address").port().to_string()
    });
    // Larger than any file may become here: the next line meets the limit.
    std::fs::File::create(&log).and_then(|file| file.set_len(2 * LIMIT_BYTES)).expect("a file");
    let log = std::fs::File::options().append(true).open(&log).expect("a file");
    let words = ["list", "-a", "127.0.0.1", "-s", &port];
    let output = limited(&words).stderr(log).output().expect("the program runs");
    assert_eq!(output.status.code(), Some(1), "neither a signal nor a panic, which is 101");
}
