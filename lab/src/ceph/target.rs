//! A target of the program's that serves images beside other things, and the ways to its namespaces. It keeps out what is
//! done there.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use engine::initiator::{ConnectOptions, Controller, Volume};
use rustix::process::Signal;

use crate::answer::Answer;
use crate::load;
use crate::program::Program;
use crate::remote::Remote;

/// The subsystem that it serves.
pub(super) const NQN: &str = "nqn.2026-01.io.selvedge:images";
/// Longer than a monitor is waited for, on a machine with other work.
const START_LIMIT: Duration = Duration::from_secs(90);
/// Until one that was asked to end has ended.
const END_LIMIT: Duration = Duration::from_secs(60);
/// Time for one run of the bench.
const BENCH_LIMIT: Duration = Duration::from_secs(180);

/// A running target. Dropping it ends it.
pub(super) struct Target {
    program: Program,
    name: String,
    address: SocketAddr,
    /// Command line by which it was started.
    pub(super) command: Vec<String>,
    /// Time until it listened.
    pub(super) start: Duration,
}

impl Target {
    /// Starts a target by `words`, the last of which is the program, that serves `specs` as
    /// namespaces 1, 2..., with further flags. It has no control socket unless the flags name one.
    ///
    /// # Errors
    /// It does not listen: with what it said.
    pub(super) fn start(words: &[&str], specs: &[&str], flags: &[&str]) -> Result<Target, String> {
        let name = words.last().copied().unwrap_or_default();
        let fixed = ["serve", "-s", "0", "-n", NQN, "--allow-any-host"];
        let control: &[&str] = if flags.contains(&"--control") { &[] } else { &["--control", "none"] };
        let namespaces = specs.iter().flat_map(|spec| ["--namespace", spec]);
        let words: Vec<String> = words
            .iter()
            .copied()
            .chain(fixed)
            .chain(namespaces)
            .chain(control.iter().copied())
            .chain(flags.iter().copied())
            .map(str::to_owned)
            .collect();
        let began = Instant::now();
        let mut program = Program::start(&words)?;
        let line = program.line(began + START_LIMIT).unwrap_or_default();
        let address = line.strip_prefix("listening on ").and_then(|address| address.trim().parse().ok());
        let Some(address) = address else {
            return Err(format!("selvedge serve does not listen: {}", program.errors()));
        };
        Ok(Target { program, name: name.to_owned(), address, command: words, start: began.elapsed() })
    }

    /// Process id.
    pub(super) fn id(&self) -> u32 {
        self.program.id()
    }

    /// Processor time until now, in seconds.
    pub(super) fn cpu_s(&self) -> f64 {
        load::cpu_s(self.program.id()).unwrap_or_default()
    }

    /// Resident memory, in KiB.
    ///
    /// # Errors
    /// The system does not tell.
    pub(super) fn resident_kib(&self) -> Result<u64, String> {
        self.of_status("VmRSS")
    }

    /// A number of /proc/PID/status.
    ///
    /// # Errors
    /// The system does not tell it.
    pub(super) fn of_status(&self, name: &str) -> Result<u64, String> {
        process_status(self.program.id(), name)
    }

    /// A controller with `io_queues` I/O queues.
    ///
    /// # Errors
    /// It cannot be connected.
    pub(super) fn connect(&self, io_queues: u16) -> Result<Controller, String> {
        let options = ConnectOptions { io_queues, ..ConnectOptions::new(self.address, NQN) };
        Controller::connect(options).map_err(said)
    }

    /// A namespace over two queues.
    ///
    /// # Errors
    /// It cannot be connected, or is not there.
    pub(super) fn namespace(&self, nsid: u32) -> Result<Volume, String> {
        Volume::on_controller(&self.connect(2)?, nsid).map_err(said)
    }

    /// A namespace over one queue on this thread.
    ///
    /// # Errors
    /// It cannot be connected, or is not there.
    pub(super) fn remote(&self, nsid: u32) -> Result<Remote, String> {
        Remote::connect(self.address, NQN, nsid)
    }

    /// The words of a bench of namespace `nsid`.
    pub(super) fn bench_words(&self, nsid: u32, words: &[&str]) -> Vec<String> {
        let (port, nsid) = (self.address.port().to_string(), nsid.to_string());
        let fixed =
            [&self.name, "bench", "-a", "127.0.0.1", "-s", &port, "-n", NQN, "--nsid", &nsid, "-o", "json"];
        fixed.iter().chain(&["--destroy-data"]).chain(words).map(|&word| word.to_owned()).collect()
    }

    /// Runs the bench on namespace `nsid`, which has to go well, and gives its report.
    ///
    /// # Errors
    /// It does not go well.
    pub(super) fn bench(&self, nsid: u32, words: &[&str]) -> Result<serde_json::Value, String> {
        let words = self.bench_words(nsid, words);
        Answer::within(&words.iter().map(String::as_str).collect::<Vec<_>>(), BENCH_LIMIT)?.json()
    }

    /// SIGSTOP: it keeps what it has and does nothing.
    pub(super) fn stop(&mut self) {
        self.program.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub(super) fn resume(&mut self) {
        self.program.signal(Signal::CONT);
    }

    /// SIGKILL: it gets no time for anything.
    pub(super) fn kill(mut self) {
        self.program.kill();
    }

    /// Asks it to end, and waits until it has.
    ///
    /// # Errors
    /// It does not, or not well.
    pub(super) fn end(mut self) -> Result<(), String> {
        self.program.signal(Signal::TERM);
        match self.program.ended(Instant::now() + END_LIMIT)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("the target ended badly ({status}): {}", self.program.errors())),
            None => Err(format!("the target did not end within {} s of SIGTERM", END_LIMIT.as_secs())),
        }
    }
}

/// A number of /proc/PID/status.
///
/// # Errors
/// The system does not tell it.
pub(super) fn process_status(process: u32, name: &str) -> Result<u64, String> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).map_err(said)?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = value.and_then(|value| value.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| format!("the system does not tell {name} of a process"))
}

/// An error as what it says.
pub(super) fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}
