//! Testbed of the checks: two network namespaces joined by pairs of devices with four queues at each end, targets in the
//! one and hosts in the other, where this process is, too. It keeps out what is checked.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use topology::apply::{LiveSettings, Settings as _};
use topology::{QueueCount, set_channels};

use crate::answer::{Answer, await_some};
use crate::cleanup::Cleanup;
use crate::program::Program;

/// The device that plans are made for, and its other end.
pub(super) const DEVICE: &str = "hv0";
pub(super) const FAR_DEVICE: &str = "tv0";
/// A second one, which goes away.
pub(super) const SPARE: &str = "hv1";
/// Queues that a device can have, and that it has at first.
pub(super) const QUEUES_MAX: u32 = 4;
const QUEUES_FIRST: u32 = 2;
const NQN: &str = "nqn.2026-01.io.selvedge:tuning";
const TARGET_ADDRESS: &str = "10.3.0.1";
const START_LIMIT: Duration = Duration::from_secs(60);

/// Settings that differ from the kernel's defaults: the former values must come back, and not the
/// defaults.
const FILES: [(&str, &str); 3] =
    [("rx-0/rps_cpus", "2"), ("rx-1/rps_flow_cnt", "64"), ("tx-1/xps_cpus", "1")];

/// Two network namespaces, which go when this is dropped, with what runs in them and with the tuner's journals of them.
pub(super) struct Namespaces {
    pub(super) host: String,
    pub(super) target: String,
    _cleanup: Cleanup,
}

impl Namespaces {
    /// Makes them.
    ///
    /// # Errors
    /// What failed and why. Nothing is left then.
    pub(super) fn new() -> Result<Namespaces, String> {
        let id = std::process::id();
        let (host, target) = (format!("svn-h-{id}"), format!("svn-t-{id}"));
        let cleanup = Cleanup::new(&[&host, &target]).map_err(|error| format!("cannot run sh: {error}"))?;
        for name in [&host, &target] {
            ip(&["netns", "add", name])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
        }
        Ok(Namespaces { host, target, _cleanup: cleanup })
    }
}

/// The devices, seen from the host's namespace.
pub(super) struct Testbed {
    pub(super) program: String,
    /// Name of the target's namespace.
    pub(super) target: String,
    output: PathBuf,
}

impl Testbed {
    /// Makes both pairs of devices.
    ///
    /// # Errors
    /// What failed and why.
    pub(super) fn new(program: &str, target: &str, output: &Path) -> Result<Testbed, String> {
        let testbed =
            Testbed { program: program.to_owned(), target: target.to_owned(), output: output.to_owned() };
        testbed.make_pair(0)?;
        testbed.make_pair(1)?;
        Ok(testbed)
    }

    /// Makes a pair with some of its queues in use, and some of their files set.
    pub(super) fn make_pair(&self, number: u32) -> Result<(), String> {
        let (near, far) = (format!("hv{number}"), format!("tv{number}"));
        let most = QUEUES_MAX.to_string();
        let queues = ["numtxqueues", &most, "numrxqueues", &most];
        let peer = ["type", "veth", "peer", "name", &far, "netns", &self.target];
        ip(&[&["link", "add", &near], &queues[..], &peer, &queues].concat())?;
        ip(&["addr", "add", &format!("10.3.{number}.2/24"), "dev", &near])?;
        ip(&["-n", &self.target, "addr", "add", &format!("10.3.{number}.1/24"), "dev", &far])?;
        ip(&["link", "set", &near, "up"])?;
        ip(&["-n", &self.target, "link", "set", &far, "up"])?;
        let failed = |error: std::io::Error| format!("queues of {near}: {error}");
        let mut channels = LiveSettings.channels(&near).map_err(failed)?;
        let first = |count: QueueCount| QueueCount { now: QUEUES_FIRST, ..count };
        channels.receive = first(channels.receive);
        channels.transmit = first(channels.transmit);
        set_channels(&near, channels).map_err(failed)?;
        for (file, value) in FILES {
            write(&format!("/sys/class/net/{near}/queues/{file}"), value)?;
        }
        Ok(())
    }

    /// Runs `selvedge tune WORDS`.
    pub(super) fn tune(&self, words: &[&str]) -> Result<Answer, String> {
        Answer::of(&[&[&self.program, "tune"], words].concat())
    }

    /// Runs a shell script in the target's namespace, with its own /sys.
    pub(super) fn at_target(&self, script: &str) -> Result<Answer, String> {
        Answer::of(&["ip", "netns", "exec", &self.target, "sh", "-c", script])?.well()
    }

    /// A file of the output folder.
    pub(super) fn file(&self, name: &str) -> String {
        self.output.join(name).display().to_string()
    }

    /// Starts a target that listens on `port`.
    ///
    /// # Errors
    /// It does not.
    pub(super) fn serve(&self, port: u16) -> Result<Program, String> {
        let port = port.to_string();
        let at =
            ["ip", "netns", "exec", &self.target, &self.program, "serve", "-a", TARGET_ADDRESS, "-s", &port];
        let control = self.control_address(&port);
        let what =
            ["-n", NQN, "--allow-any-host", "--namespace", "memory:64M,block=4096", "--control", &control];
        let mut target = Program::start(&owned(&[&at[..], &what].concat()))?;
        let deadline = Instant::now() + START_LIMIT;
        while let Some(line) = target.line(deadline) {
            if line.contains("listening on") {
                return Ok(target);
            }
        }
        Err(format!("the target does not listen: {}", target.errors()))
    }

    /// Asks the target that listens on `port` by its control socket.
    ///
    /// # Errors
    /// It refuses, and why.
    pub(super) fn control(&self, port: u16, words: &[&str]) -> Result<String, String> {
        let address = self.control_address(&port.to_string());
        let words = [&[self.program.as_str()], words, &["--control", &address]].concat();
        Ok(Answer::of(&words)?.well()?.output)
    }

    fn control_address(&self, port: &str) -> String {
        format!("unix:{}", self.file(&format!("control-{port}.sock")))
    }

    /// The target's address on the first pair.
    pub(super) fn target_address(&self) -> Result<IpAddr, String> {
        TARGET_ADDRESS.parse().map_err(|_| format!("{TARGET_ADDRESS} is not an IP address"))
    }

    /// Starts a host with as many workers and I/O queues, and waits until they are seen.
    ///
    /// # Errors
    /// It does not start, or `tune show` does not see it.
    pub(super) fn bench(&self, port: u16, queues: u32) -> Result<Program, String> {
        let (port, count) = (port.to_string(), queues.to_string());
        let at = [&self.program, "bench", "-a", TARGET_ADDRESS, "-s", &port, "-n", NQN, "--nsid", "1"];
        let work = ["--rw", "randread", "--bs", "4k", "--iodepth", "4", "-i", &count, "--numjobs", &count];
        let mut bench = Program::start(&owned(&[&at[..], &work, &["--runtime", "600"]].concat()))?;
        let seen = await_some("its queues are not seen", || {
            if let Ok(Some(_)) = bench.ended(Instant::now()) {
                return Err("it has ended".to_owned());
            }
            match self.flows_of(bench.id())?.len() {
                count if count >= queues as usize => Ok(()),
                count => Err(format!("{count} of {queues}")),
            }
        });
        seen.map_err(|reason| format!("{reason} {}", bench.errors())).map(|()| bench)
    }

    /// I/O queues of an initiator's process in the output of `tune show`, in order.
    pub(super) fn flows_of(&self, process: u32) -> Result<Vec<Value>, String> {
        let shown = self.tune(&["show", "-o", "json"])?.json()?;
        Ok(flows(&shown, "initiator", process))
    }

    /// Path of the journal of the host's namespace.
    pub(super) fn journal(&self) -> Result<PathBuf, String> {
        use std::os::unix::fs::MetadataExt as _;
        let path = "/proc/self/ns/net";
        let inode = std::fs::metadata(path).map_err(|error| format!("{path}: {error}"))?.ino();
        Ok(PathBuf::from(format!("/run/selvedge-tune/{inode}.journal")))
    }

    /// After a check that failed: whatever it has left does not stay for the next.
    pub(super) fn clear(&self) {
        let _ = self.tune(&["revert"]);
        if let Ok(journal) = self.journal() {
            let _ = std::fs::remove_file(journal);
        }
        for (number, device) in [(0, DEVICE), (1, SPARE)] {
            let _ = ip(&["link", "del", device]);
            if let Err(reason) = self.make_pair(number) {
                println!("        {device} cannot be made again: {reason}");
            }
        }
    }
}

/// The I/O flows of a process among those shown, whose owner is of this kind.
pub(super) fn flows(shown: &Value, kind: &str, process: u32) -> Vec<Value> {
    let all = shown["topology"]["flows"].as_array().into_iter().flatten();
    let is_its = |flow: &&Value| {
        flow["owner"]["kind"] == kind && flow["owner"]["pid"] == process && flow["queue_id"] != 0
    };
    all.filter(is_its).cloned().collect()
}

/// Runs `ip`.
pub(super) fn ip(words: &[&str]) -> Result<(), String> {
    let answer = Answer::of(&[&["ip"], words].concat())?;
    answer.well().map(drop).map_err(|reason| format!("ip {}: {reason}", words.join(" ")))
}

/// Writes a file of the system.
pub(super) fn write(path: &str, value: &str) -> Result<(), String> {
    std::fs::write(path, value).map_err(|error| format!("{path}: {error}"))
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
