//! `kill -9` of a target in the middle of verified writes, again and again: after each restart every write that was
//! acknowledged before a completed Flush is there and whole. Real processes, real files; what a power cut adds is
//! the disk's word, which no test here can hold it to.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const PROGRAM: &str = env!("CARGO_BIN_EXE_selvedge");
const NQN: &str = "nqn.2026-01.io.selvedge:kill";
const ROUNDS: u64 = 4;

/// A `selvedge serve` process, killed at the end whatever happens.
struct Served {
    process: Child,
    port: String,
}

impl Served {
    fn start(image: &Path) -> Self {
        let mut process = Command::new(PROGRAM)
            .args(["serve", "-a", "127.0.0.1", "-s", "0", "-n", NQN, "--namespace"])
            .arg(format!("file:{},size=64m", image.display()))
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let output = process.stdout.take().expect("its output is piped");
        let line =
            BufReader::new(output).lines().map_while(Result::ok).find(|line| line.contains("listening on"));
        let line = line.expect("the target says where it listens");
        let port = line.rsplit(':').next().expect("an address has a port").trim().to_owned();
        Self { process, port }
    }

    /// SIGKILL: no handler runs, nothing is written out.
    fn kill(mut self) {
        self.process.kill().expect("the target can be killed");
        self.process.wait().expect("the target ends");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn bench(port: &str, state: &Path, more: &[&str]) -> Child {
    Command::new(PROGRAM)
        .args(["bench", "-a", "127.0.0.1", "-s", port, "-n", NQN, "--verify-state"])
        .arg(state)
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

#[test]
fn acknowledged_and_flushed_writes_survive_kill_9() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let image = folder.path().join("namespace.img");
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64);
    println!("seed {seed}");
    for round in 0..ROUNDS {
        let state = folder.path().join(format!("state-{round}.jsonl"));
        let target = Served::start(&image);
        let randseed = (seed % 1_000_000 + round).to_string();
        let writer = bench(
            &target.port,
            &state,
            &[
                "--verify",
                "--rw",
                "randwrite",
                "--bs",
                "4k",
                "--iodepth",
                "16",
                "--numjobs",
                "2",
                "--fsync",
                "8",
                "--size",
                "64m",
                "--runtime",
                "30",
                "--randseed",
                &randseed,
            ],
        );
        std::thread::sleep(Duration::from_millis(700 + (seed >> (8 * round)) % 900));
        target.kill();
        let ended = writer.wait_with_output().expect("the bench ends");
        let complaint = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(1), "a bench whose target dies fails: {complaint}");
        let record = std::fs::read_to_string(&state).expect("the record is kept");
        let flushes = record.lines().filter(|line| line.contains("flushed")).count();
        assert!(flushes > 0, "the target was killed after some Flush: {complaint}");

        let target = Served::start(&image);
        let checked =
            bench(&target.port, &state, &["--verify-only"]).wait_with_output().expect("the check ends");
        let said =
            String::from_utf8_lossy(&checked.stdout).into_owned() + &String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success(), "round {round}, seed {seed}: {said}");
        println!("round {round}: {flushes} flushes before the kill, nothing lost\n{said}");
    }
}
