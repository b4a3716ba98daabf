//! The targets that chaos strikes: what each serves and where, how it starts, dies and comes back, and how it is
//! administered. It keeps out when that happens.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::admission;
use super::process::{Process, last_word};
use super::sample::{Metrics, Sample};
use crate::network::target_address;

/// Time until a target listens, and until one that was asked to end has ended.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// The administration answers in milliseconds on a machine that is not busy.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);
/// The small disk of the steady target. The file on it is sparse and longer than that.
const DISK: &str = "/mnt";
const DISK_SIZE: &str = "48m";
pub(crate) const THIN_FILE: &str = "thin.img";

/// A target by what it is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Two over the same files.
    PairA,
    PairB,
    /// Target over files of its own, which keeps its configuration in a state directory.
    Single,
    /// Memory and a small disk, which would not outlive it: it is struck in every way but death.
    Steady,
}

impl Role {
    pub(crate) const ALL: [Role; 4] = [Role::PairA, Role::PairB, Role::Single, Role::Steady];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Role::PairA => "pair-a",
            Role::PairB => "pair-b",
            Role::Single => "single",
            Role::Steady => "steady",
        }
    }

    /// The subsystem that it serves.
    pub(crate) const fn nqn(self) -> &'static str {
        match self {
            Role::PairA | Role::PairB => "nqn.2026-01.io.selvedge:pair",
            Role::Single => "nqn.2026-01.io.selvedge:single",
            Role::Steady => "nqn.2026-01.io.selvedge:steady",
        }
    }

    /// The links that it listens on, and its port there.
    pub(crate) const fn links(self) -> (&'static [usize], u16) {
        match self {
            Role::PairA => (&[1, 2], 4420),
            Role::PairB => (&[3, 4], 4420),
            Role::Single => (&[1, 2], 4421),
            Role::Steady => (&[1, 2, 3, 4], 4422),
        }
    }

    /// Each address with its port, as `bench` wants them.
    pub(crate) fn addresses(self) -> Vec<String> {
        let (links, port) = self.links();
        links.iter().map(|&link| format!("{}:{port}", target_address(link))).collect()
    }

    /// True if its data outlives it.
    pub(crate) const fn may_die(self) -> bool {
        !matches!(self, Role::Steady)
    }

    fn namespaces(self, data: &Path) -> String {
        let file = |nsid: u32, name: &str, size: &str, block: u32, shared: bool| {
            format!(
                "[[subsystem.namespace]]\nnsid = {nsid}\nfile = \"{}\"\nsize = \"{size}\"\nblock = {block}\n{}",
                data.join(name).display(),
                if shared { "shared = true\n" } else { "" }
            )
        };
        match self {
            Role::PairA | Role::PairB => {
                file(1, "pair-1.img", "64m", 4096, true) + &file(2, "pair-2.img", "16m", 512, true)
            }
            Role::Single => {
                file(1, "single-1.img", "32m", 4096, false) + &file(2, "single-2.img", "8m", 512, false)
            }
            Role::Steady => format!(
                "[[subsystem.namespace]]\nnsid = 1\nmemory = \"64m\"\nblock = 4096\n\
                 [[subsystem.namespace]]\nnsid = 2\nfile = \"{DISK}/{THIN_FILE}\"\nsize = \"96m\"\nblock = 4096\n\
                 [[subsystem.namespace]]\nnsid = 3\nmemory = \"8m\"\nblock = 512\n"
            ),
        }
    }

    fn config(self, data: &Path) -> String {
        let (links, port) = self.links();
        let ports = links.iter().map(|link| {
            let address = target_address(*link);
            format!("[[port]]\nid = {link}\naddress = \"{address}\"\nservice = {port}\n")
        });
        let head = format!(
            "[[subsystem]]\nnqn = \"{}\"\nallow_any_host = true\nhosts = {:?}\n",
            self.nqn(),
            admission::host_nqns()
        );
        ports.collect::<String>() + &head + &self.namespaces(data)
    }
}

/// A target of a role, alive or not.
pub(crate) struct Target {
    role: Role,
    program: String,
    namespace: String,
    data: PathBuf,
    logs: PathBuf,
    process: Option<Process>,
    starts: u32,
    /// Of those that are gone, and of the one that lives as far as it was heard.
    commands_before: u64,
    commands: u64,
}

impl Target {
    /// Writes the configuration of a target that will live in the network namespace `namespace`.
    ///
    /// # Errors
    /// Its files cannot be written.
    pub(crate) fn new(
        role: Role,
        program: &str,
        namespace: &str,
        data: &Path,
        logs: &Path,
    ) -> Result<Target, String> {
        let target = Target {
            role,
            program: program.to_owned(),
            namespace: namespace.to_owned(),
            data: data.to_owned(),
            logs: logs.to_owned(),
            process: None,
            starts: 0,
            commands_before: 0,
            commands: 0,
        };
        let path = target.file("toml");
        std::fs::write(&path, role.config(data)).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(target)
    }

    fn file(&self, extension: &str) -> PathBuf {
        self.data.join(format!("{}.{extension}", self.role.name()))
    }

    /// Path of its control socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.file("sock")
    }

    /// Address of its control socket, as the program wants it.
    fn control_address(&self) -> String {
        format!("unix:{}", self.socket().display())
    }

    fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if !self.role.may_die() {
            // A mount namespace of its own: the disk goes with the process, whatever ends it.
            let script =
                format!("mount -t tmpfs -o size={DISK_SIZE},mode=700 selvedge-chaos {DISK} && exec \"$@\"");
            words.extend(["unshare", "--mount", "--propagation", "private", "sh", "-c"].map(str::to_owned));
            words.extend([script, "sh".to_owned()]);
        }
        words.extend([self.program.clone(), "serve".to_owned()]);
        let state = self.file("state");
        // The first start brings the configuration; later ones go on from what was kept.
        if self.role != Role::Single || self.starts == 0 {
            words.extend(["-c".to_owned(), self.file("toml").display().to_string()]);
        }
        if self.role == Role::Single {
            words.extend(["--state-dir".to_owned(), state.display().to_string()]);
        }
        words.extend(["--control".to_owned(), self.control_address()]);
        words
    }

    /// Starts it, and returns when it listens everywhere and can be administered.
    ///
    /// # Errors
    /// It does not, and what it said.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        let log = self.logs.join(format!("{}-{}", self.role.name(), self.starts));
        let mut process = Process::start(&self.namespace, &self.words(), &log)?;
        self.starts += 1;
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let output = process.output();
            let listens = output.lines().filter(|line| line.starts_with("listening on ")).count();
            if listens == self.role.links().0.len() && output.contains("administered at ") {
                self.process = Some(process);
                return Ok(());
            }
            if process.wait(Instant::now() + LOOK).is_some() || Instant::now() > deadline {
                let errors = process.errors();
                return Err(format!("target {} does not listen: {}", self.role.name(), last_word(&errors)));
            }
        }
    }

    /// Process id while it lives.
    pub(crate) fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.process = None;
        self.forget_commands();
    }

    /// Asks it to end, as a service manager would.
    pub(crate) fn terminate(&mut self) {
        self.signal(Signal::TERM);
    }

    /// Waits for the end of one that was asked to.
    ///
    /// # Errors
    /// It did not end in time, or not well.
    pub(crate) fn ended(&mut self) -> Result<(), String> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        let name = self.role.name();
        self.forget_commands();
        match process.wait(Instant::now() + STOP_TIMEOUT) {
            Some(status) if status.success() => Ok(()),
            Some(status) => {
                Err(format!("target {name} ended badly ({status}): {}", last_word(&process.errors())))
            }
            None => Err(format!("target {name} did not end within {} s of SIGTERM", STOP_TIMEOUT.as_secs())),
        }
    }

    fn forget_commands(&mut self) {
        self.commands_before += std::mem::take(&mut self.commands);
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(process) = &self.process {
            process.signal(signal);
        }
    }

    /// Checks that it is alive: an end by itself is a finding.
    ///
    /// # Errors
    /// It is gone, and what it said.
    pub(crate) fn check_alive(&mut self) -> Result<(), String> {
        let name = self.role.name();
        match &mut self.process {
            Some(process) => match process.wait(Instant::now()) {
                None => Ok(()),
                Some(status) => {
                    Err(format!("target {name} ended by itself ({status}): {}", last_word(&process.errors())))
                }
            },
            None => Ok(()),
        }
    }

    /// Resources at present.
    ///
    /// # Errors
    /// It does not answer.
    pub(crate) fn sample(&mut self) -> Result<Sample, String> {
        let metrics = Metrics::ask(&self.socket())?;
        self.commands = metrics.commands;
        Sample::of(self.id().ok_or("it is not there")?, &metrics)
    }

    /// I/O commands on the namespace of the good host.
    ///
    /// # Errors
    /// It does not answer.
    pub(crate) fn good_commands(&self) -> Result<u64, String> {
        Ok(Metrics::ask(&self.socket())?.good_commands)
    }

    /// I/O commands that went well, of all its lives.
    pub(crate) fn commands(&self) -> u64 {
        self.commands_before + self.commands
    }

    /// Number of starts.
    pub(crate) fn starts(&self) -> u32 {
        self.starts
    }

    /// The way to administer it, which needs no lock on it.
    pub(crate) fn control(&self) -> Control {
        Control { program: self.program.clone(), address: self.control_address(), log: self.file("control") }
    }

    /// The file below the steady target's thin namespace, or beside it, seen from outside its mount namespace.
    pub(crate) fn on_disk(&self, name: &str) -> Option<PathBuf> {
        self.id().map(|id| PathBuf::from(format!("/proc/{id}/root{DISK}/{name}")))
    }
}

/// Administration by the program's own commands.
#[derive(Clone)]
pub(crate) struct Control {
    program: String,
    address: String,
    log: PathBuf,
}

impl Control {
    /// Gives one command, and returns what it printed.
    ///
    /// # Errors
    /// It was refused, or took too long.
    pub(crate) fn ask(&self, words: &[&str]) -> Result<String, String> {
        let failed = |reason: &str| format!("`selvedge {}` failed: {reason}", words.join(" "));
        let mut command = Command::new(&self.program);
        command.args(words).args(["--control", &self.address]).stdin(Stdio::null());
        let output = std::fs::File::create(&self.log).map_err(|error| failed(&error.to_string()))?;
        let errors = output.try_clone().map_err(|error| failed(&error.to_string()))?;
        let mut child =
            command.stdout(output).stderr(errors).spawn().map_err(|error| failed(&error.to_string()))?;
        let deadline = Instant::now() + CONTROL_TIMEOUT;
        let status = loop {
            match child.try_wait() {
                Ok(None) if Instant::now() < deadline => std::thread::sleep(LOOK),
                Ok(Some(status)) => break status,
                Ok(None) | Err(_) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(failed("it took too long"));
                }
            }
        };
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        if status.success() { Ok(said) } else { Err(failed(last_word(&said))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::LINKS;

    #[test]
    fn addresses_do_not_meet() {
        let mut all: Vec<String> = Role::ALL.iter().flat_map(|role| role.addresses()).collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(Role::ALL.iter().all(|role| role.links().0.iter().all(|&link| (1..=LINKS).contains(&link))));
    }

    #[test]
    fn only_the_pair_shares() {
        let data = Path::new("d");
        assert!(Role::PairA.config(data).contains("shared = true"));
        assert_eq!(Role::PairA.namespaces(data), Role::PairB.namespaces(data));
        assert!(!Role::Single.config(data).contains("shared"));
        assert!(Role::Steady.config(data).contains("/mnt/thin.img"));
    }
}
