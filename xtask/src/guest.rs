//! The `kernel` suite: the Linux kernel in the guest is the initiator of our target, then the target of
//! our initiator, then seen by our tuner, then the host of two targets that are none of each other's
//! business, of one whose disk fails, and of one that gets requests of 32 MiB; then both,
//! authenticated, and by TLS. It keeps out what is checked inside the guest, which the jobs of lab/ say.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cleanup::Cleanup;
use crate::command::{Process, Step};
use crate::conversation::print_measurements;
use crate::suite::{Fault, Options, Outcome};
use crate::{lab, workspace};

const TARGET_NQN: &str = "nqn.2026-01.io.selvedge:kernel";
const NVMET_NQN: &str = "nqn.2026-01.io.selvedge:nvmet";
/// The loopback of this machine, as the guest sees it.
pub(crate) const OUTSIDE: &str = "10.0.2.2";
/// Port of the kernel's target inside the guest.
const NVMET_PORT: &str = "4420";
/// The guest's processor is emulated, and the machine below may have two slow cores and other work.
const GUEST_LIMIT_S: u64 = 1500;
const BOOT_LIMIT: Duration = Duration::from_secs(240);
const TARGET_START_LIMIT: Duration = Duration::from_secs(20);
const TARGET_STOP_LIMIT: Duration = Duration::from_secs(20);

/// Jobs that have the program in the guest: the job, its script, and the machine it takes.
const INSIDE: [(&str, &str, &[&str]); 11] = [
    // The longest one first: nothing waits for it at the end.
    ("block-devices", "ublk", &[]),
    ("tuner", "tune", &["--processors", "4"]),
    ("two-targets", "two-targets", &["--cards", "3"]),
    ("failing-disk", "failed-sync", &[]),
    ("authentication", "authentication", &[]),
    ("upgrade", "upgrade", &[]),
    ("backup", "backup", &["--memory", "3072"]),
    ("connect", "connect", &["--cards", "2"]),
    ("tls", "tls", &[]),
    ("nbd", "nbd", &[]),
    ("attach-serve", "attach-serve", &[]),
];
const AS_HOST: &str = "host";
const AS_TARGET: &str = "target";

/// Each has a guest of its own.
pub(crate) fn jobs() -> Vec<String> {
    let inside = INSIDE.iter().map(|(job, _, _)| *job);
    inside.chain([AS_HOST, AS_TARGET]).map(str::to_owned).collect()
}

/// Runs a job.
pub(crate) fn run(options: &Options, job: &str) -> Outcome {
    let prepare = || {
        lab::build(&[])?;
        Ok((workspace::program()?, Scratch::new(&format!("kernel-{job}"), options.keep)?))
    };
    let tried = prepare().and_then(|(program, scratch): (String, Scratch)| {
        let scratch = &scratch.path;
        match INSIDE.iter().find(|(name, _, _)| *name == job) {
            Some((_, script, machine)) => inside(&program, scratch, machine, script),
            None if job == AS_HOST => kernel_as_initiator(&program, scratch),
            None => Ok(kernel_as_target(&program, scratch)?),
        }
    });
    tried.into()
}

/// A folder for disk images and logs. Below the build's output, because a temporary folder in memory
/// may refuse direct I/O.
pub(crate) struct Scratch {
    pub(crate) path: PathBuf,
    cleanup: Option<Cleanup>,
}

impl Scratch {
    pub(crate) fn new(suite: &str, keep: bool) -> Result<Scratch, String> {
        let path = workspace::target_dir().join(format!("{suite}-suite-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let cleanup = match keep {
            true => None,
            false => Some(cleanup(&["rm", "-rf", &path.display().to_string()])?),
        };
        Ok(Scratch { path, cleanup })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.cleanup.is_none() {
            println!("kept: {}", self.path.display());
        }
    }
}

fn cleanup(command: &[&str]) -> Result<Cleanup, String> {
    Cleanup::new(command).map_err(|error| format!("no clean-up can be prepared: {error}"))
}

/// A sparse file as a block device, detached in the end whatever happens.
struct LoopDevice {
    path: String,
    _cleanup: Cleanup,
}

impl LoopDevice {
    fn new(file: &Path, block: &str) -> Result<LoopDevice, String> {
        sparse_file(file, 256 << 20)?;
        let file = file.display().to_string();
        let options = ["--find", "--show", "--direct-io=on", "--sector-size", block, &file];
        let attach = Step::new("losetup", &options).env("PATH", &system_path()).run_quietly();
        if !attach.passed {
            return Err(format!("losetup: {}", attach.output.trim()));
        }
        let path = attach.output.trim().to_owned();
        let detach = format!("PATH={} losetup -d \"$1\"", system_path());
        Ok(LoopDevice { _cleanup: cleanup(&["sh", "-c", &detach, "sh", &path])?, path })
    }
}

/// losetup is among the system's programs, which are not in everybody's PATH.
fn system_path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

fn sparse_file(path: &Path, bytes: u64) -> Result<(), String> {
    let file = std::fs::File::create(path).and_then(|file| file.set_len(bytes));
    file.map_err(|error| format!("{}: {error}", path.display()))
}

/// Our target with namespaces of every kind, and everything that a host does with them in the guest.
fn kernel_as_initiator(program: &str, scratch: &Path) -> Result<(), Fault> {
    let small = LoopDevice::new(&scratch.join("loop-512"), "512")?;
    let large = LoopDevice::new(&scratch.join("loop-4096"), "4096")?;
    let namespaces = [
        "memory:64M,block=512".to_owned(),
        "memory:64M,block=4096".to_owned(),
        format!("file:{},size=256M,block=512", scratch.join("file-512").display()),
        format!("file:{},size=256M,block=4096", scratch.join("file-4096").display()),
        format!("block:{},block=512", small.path),
        format!("block:{},block=4096", large.path),
    ];
    let mut target = Target::start(program, &namespaces)?;
    let count = namespaces.len().to_string();
    let job = ["job-initiator.sh", OUTSIDE, &target.port, TARGET_NQN, &count, "full"];
    let console = scratch.join("console-initiator").display().to_string();
    let job = guest(&["--console", &console], &job).run();
    let stopped = target.stop();
    print_checks(&job.output);
    if !job.passed || stopped.is_err() {
        println!("-- what the target said:\n{}--", target.process.output());
    }
    match (job.passed, stopped) {
        (true, stopped) => Ok(stopped?),
        (false, Ok(())) => Err(fault(&job.output)),
        (false, Err(reason)) => Err(format!("checks in the guest failed, and {reason}").into()),
    }
}

/// A step that runs a job in the guest.
pub(crate) fn guest(options: &[&str], job: &[&str]) -> Step {
    let limit = GUEST_LIMIT_S.to_string();
    // Its own limit comes first, so that it can say what the console said last.
    let words = [&["--timeout", &limit], options, job].concat();
    Step::new(&lab::script("run-guest.sh"), &words).limit_s(GUEST_LIMIT_S + 30)
}

pub(crate) fn print_checks(output: &str) {
    for line in output.lines().filter(|line| line.starts_with("checks: ")) {
        println!("  {line}");
    }
}

/// Text before each port number in the target's output.
const LISTENING: &str = "listening on 127.0.0.1:";

/// The numbers of the ports that a target says it listens on, in its order.
pub(crate) fn listening_ports(output: &str) -> Vec<String> {
    let ports = output.lines().filter_map(|line| line.split(LISTENING).nth(1));
    ports.map(|port| port.chars().take_while(char::is_ascii_digit).collect()).collect()
}

/// Our target, serving on a free port of the loopback.
pub(crate) struct Target {
    pub(crate) process: Process,
    pub(crate) port: String,
}

impl Target {
    fn start(program: &str, namespaces: &[String]) -> Result<Target, String> {
        let mut args = vec!["serve", "-a", "127.0.0.1", "-s", "0", "--advertise", OUTSIDE];
        args.extend(["-n", TARGET_NQN, "--allow-any-host"]);
        args.extend(namespaces.iter().flat_map(|namespace| ["--namespace", namespace]));
        Target::start_with(program, &args)
    }

    /// Starts it with these arguments, which make it listen on a port of 127.0.0.1.
    pub(crate) fn start_with(program: &str, args: &[&str]) -> Result<Target, String> {
        println!("$ {program} {}", args.join(" "));
        let started = Process::start(&Step::new(program, args));
        let mut process = started.map_err(|error| format!("{program} does not start: {error}"))?;
        let line = match process.wait_for_line(LISTENING, TARGET_START_LIMIT) {
            Ok(line) => line,
            Err(reason) => return Err(format!("the target: {reason}\n{}", process.output())),
        };
        let port = listening_ports(&line).pop().unwrap_or_default();
        println!("  the target listens on port {port}");
        Ok(Target { process, port })
    }

    /// Asks it to end, as a service manager would.
    pub(crate) fn stop(&mut self) -> Result<(), String> {
        self.process.terminate();
        match self.process.wait(TARGET_STOP_LIMIT, false) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("the target ended on SIGTERM with {status}")),
            None => Err(format!("the target did not end within {} s", TARGET_STOP_LIMIT.as_secs())),
        }
    }
}

/// The kernel's target in the guest, looked at and written to by our program.
fn kernel_as_target(program: &str, scratch: &Path) -> Result<(), String> {
    let port = free_port()?;
    let forward = format!("{port}:{NVMET_PORT}");
    let console = scratch.join("console-target").display().to_string();
    let options = ["--console", &console, "--forward", &forward];
    println!("$ lab/run-guest.sh --forward {forward} job-target.sh {NVMET_PORT} {NVMET_NQN}");
    let started = Process::start(&guest(&options, &["job-target.sh", NVMET_PORT, NVMET_NQN]));
    let mut guest = started.map_err(|error| format!("the guest does not start: {error}"))?;
    if let Err(reason) = guest.wait_for_line("ready for hosts", BOOT_LIMIT) {
        return Err(format!("the guest: {reason}\n{}", guest.output()));
    }
    println!("  the kernel's target serves behind port {port}");
    let failed: Vec<String> =
        command_checks(&port).into_iter().filter_map(|check| check.run(program).err()).collect();
    // The job looks at the kernel's log in the end, so that it must be heard in any case.
    guest.write_line("stop").map_err(|error| format!("the guest takes no input: {error}"))?;
    let clean = guest.wait(BOOT_LIMIT, true).is_some_and(|status| status.success());
    print_checks(&guest.output());
    if !clean || !failed.is_empty() {
        println!("-- what the guest said:\n{}--", guest.output());
    }
    match (failed.is_empty(), clean) {
        (true, true) => Ok(()),
        (true, false) => Err("checks in the guest failed".to_owned()),
        (false, _) => Err(failed.join(", ")),
    }
}

/// A job that has our program beside it, with all that it does in the guest.
fn inside(program: &str, scratch: &Path, machine: &[&str], job: &str) -> Result<(), Fault> {
    let name = Path::new(program).file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| format!("{program} is not a path to a program"))?;
    let console = scratch.join(format!("console-{job}")).display().to_string();
    let options = [machine, &["--file", program, "--console", &console]].concat();
    let job = guest(&options, &[&format!("job-{job}.sh"), name]).run();
    print_checks(&job.output);
    print_measurements(&job.output);
    if job.passed { Ok(()) } else { Err(fault(&job.output)) }
}

/// Lines by which a guest shows that it failed before, or beside, what was tried in it.
const LABORATORY: [&str; 4] =
    ["the guest gave no status", "Kernel panic - not syncing", "Oops: ", "general protection"];

/// The cause of a guest's failure, by what it has printed.
pub(crate) fn fault(output: &str) -> Fault {
    let sign = |line: &&str| LABORATORY.iter().any(|sign| line.contains(sign));
    match output.lines().find(sign) {
        Some(line) => Fault::Laboratory(format!("the guest: {}", line.trim())),
        None => Fault::Product("checks in the guest failed".to_owned()),
    }
}

/// Command of ours against the kernel's target, and a word that its output must have.
struct CommandCheck {
    name: &'static str,
    args: Vec<String>,
    shows: &'static str,
}

impl CommandCheck {
    fn run(&self, program: &str) -> Result<(), String> {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        let finished = Step::new(program, &args).limit_s(240).run();
        if !finished.passed {
            return Err(format!("{} failed", self.name));
        }
        if !finished.output.contains(self.shows) {
            println!("{}", finished.output);
            return Err(format!("{} does not show `{}`", self.name, self.shows));
        }
        Ok(())
    }
}

fn command_checks(port: &str) -> Vec<CommandCheck> {
    let check = |name, words: &[&str], shows| {
        let (command, rest) = words.split_first().unwrap_or((&"", &[]));
        let args = [&[*command, "-a", "127.0.0.1", "-s", port], rest].concat();
        CommandCheck { name, args: args.into_iter().map(str::to_owned).collect(), shows }
    };
    let bench = [
        "bench",
        "-n",
        NVMET_NQN,
        "--nsid",
        "1",
        "--rw",
        "randwrite",
        "--destroy-data",
        "--verify",
        "--bs",
        "4k", //
        "--iodepth",
        "16",
        "-i",
        "2",
        "--size",
        "16m",
        "--runtime",
        "5",
    ];
    vec![
        check("discover", &["discover", "-t", "tcp"], NVMET_NQN),
        check("identify", &["identify", "-n", NVMET_NQN], ""),
        check("bench", &bench, ""),
        check("bench with digests", &[&bench[..], &["-g", "-G"]].concat(), ""),
    ]
}

/// A port that was free a moment ago: QEMU wants a number, and cannot say which one it has chosen.
pub(crate) fn free_port() -> Result<String, String> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.map(|address| address.port().to_string()).map_err(|error| format!("no free port: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_ports_that_are_listened_on() {
        let output = "listening on 127.0.0.1:4420\nlistening on 127.0.0.1:35159 as port number 2\nx\n";
        assert_eq!(listening_ports(output), ["4420", "35159"]);
    }

    #[test]
    fn visits_name_the_port_behind_the_command() {
        for check in command_checks("4420") {
            assert_eq!(check.args[1..5], ["-a", "127.0.0.1", "-s", "4420"], "{}", check.name);
        }
    }
}
