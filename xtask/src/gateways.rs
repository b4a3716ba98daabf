//! The second part of the suite `ceph`: the Linux kernel in the guest as the host of three gateways, one of which is killed and
//! started again as it asks. It keeps out what is checked inside the guest, which lab/job-gateways.sh says.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::command::{Process, Step};
use crate::conversation::{Ask, answer_all, print_measurements};
use crate::guest::{OUTSIDE, Target, free_port, guest, print_checks};

const NQN: &str = "nqn.2026-01.io.selvedge:gateways";
/// An emulated machine on two slow cores, which other work may have too.
const GUEST_LIMIT: Duration = Duration::from_secs(900);
const END_LIMIT: Duration = Duration::from_secs(60);
/// Until a cluster is up, and until gateways have settled.
const CLUSTER_LIMIT: Duration = Duration::from_secs(120);
const SETTLE_LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(200);
/// An image is small because every byte of it goes through the guest's emulated processor.
const IMAGE_SIZE: &str = "64M";
const IMAGE: &str = "rbd/guest";

/// Another host than the guest.
const OTHER_HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:5e17ed9e-0000-4000-8000-000000000009";
const OTHER_HOST_ID: &str = "5e17ed9e-0000-4000-8000-000000000009";

/// Number of gateways, and their names.
const COUNT: usize = 3;
const NAMES: [&str; COUNT] = ["a", "b", "c"];

/// Gateways over a cluster.
struct Gateways {
    program: String,
    scratch: PathBuf,
    conf: String,
    ports: [String; COUNT],
    /// None where one was killed.
    targets: [Option<Target>; COUNT],
    // The last to be dropped: it is what the others serve.
    _cluster: Process,
}

impl Gateways {
    /// A cluster, all gateways, and namespace 1 in the load-balancing group of the first.
    fn start(program: &str, lab: &str, scratch: &Path) -> Result<Gateways, String> {
        let folder = scratch.join("guest-cluster").display().to_string();
        println!("$ lab ceph up --dir {folder}");
        let up = Step::new(lab, &["ceph", "up", "--dir", &folder]);
        let mut cluster = Process::start(&up).map_err(|error| format!("no cluster: {error}"))?;
        let line = cluster.wait_for_line("ceph.conf", CLUSTER_LIMIT);
        let line = line.map_err(|reason| format!("no cluster: {reason}\n{}", cluster.output()))?;
        let mut gateways = Gateways {
            program: program.to_owned(),
            scratch: scratch.to_owned(),
            conf: line.trim().to_owned(),
            ports: [free_port()?, free_port()?, free_port()?],
            targets: [const { None }; COUNT],
            _cluster: cluster,
        };
        for number in 0..COUNT {
            gateways.start_one(number)?;
            gateways.await_service(number)?;
        }
        gateways.rbd(&["create", "--size", IMAGE_SIZE, IMAGE])?;
        gateways.ask(0, &["subsystem", "add", NQN, "--allow-any-host"])?;
        let spec = format!("rbd:{IMAGE},conf={},nsid=1", gateways.conf);
        gateways.ask(0, &["namespace", "add", NQN, &spec, "--load-balancing-group", "1"])?;
        Ok(gateways)
    }

    fn control(&self, number: usize) -> String {
        format!("unix:{}", self.scratch.join(format!("gateway-{number}.sock")).display())
    }

    fn start_one(&mut self, number: usize) -> Result<(), String> {
        let group = format!("rbd/guest,conf={}", self.conf);
        let (name, control) = (NAMES[number], self.control(number));
        let mut args = vec!["serve", "-a", "127.0.0.1", "-s", &self.ports[number], "--advertise", OUTSIDE];
        args.extend(["--gateway-group", &group, "--gateway-name", name, "--control", &control]);
        self.targets[number] = Some(Target::start_with(&self.program, &args)?);
        Ok(())
    }

    /// Waits until a gateway serves its own load-balancing group.
    fn await_service(&self, number: usize) -> Result<(), String> {
        let end = Instant::now() + SETTLE_LIMIT;
        let control = self.control(number);
        loop {
            let args = ["gateways", "--control", &control, "-o", "json"];
            let asked = Step::new(&self.program, &args).run_quietly();
            if asked.passed && asked.output.contains("\"is_served_here\": true") {
                return Ok(());
            }
            if Instant::now() >= end {
                return Err(format!("a gateway serves nothing: {}", asked.output));
            }
            std::thread::sleep(LOOK);
        }
    }

    fn ask(&self, number: usize, words: &[&str]) -> Result<(), String> {
        let control = self.control(number);
        let done = Step::new(&self.program, &[words, &["--control", &control]].concat()).run_quietly();
        if done.passed { Ok(()) } else { Err(format!("{}: {}", words.join(" "), done.output)) }
    }

    fn rbd(&self, words: &[&str]) -> Result<(), String> {
        let done = Step::new("rbd", &[&["--conf", &self.conf], words].concat()).run_quietly();
        if done.passed { Ok(()) } else { Err(format!("rbd {}: {}", words.join(" "), done.output)) }
    }

    /// Does what the guest asks for.
    fn answer(&mut self, ask: &Ask<'_>) -> Result<u8, String> {
        match (ask.whom, &ask.words[..]) {
            ("gateway", ["kill"]) => {
                self.targets[0].take().map_or(Ok(()), |mut target| target.process.kill())?;
                Ok(0)
            }
            ("gateway", ["start"]) => self.start_one(0).map(|()| 0),
            ("image", [sum]) => {
                let found = self.sum_of_image()?;
                println!("  the image has the SHA-256 {found}");
                Ok(u8::from(found != *sum))
            }
            ("other-host", [wanted]) => self.other_host().map(|became| u8::from(became != *wanted)),
            (whom, words) => Err(format!("the guest asks {whom} for {}", words.join(" "))),
        }
    }

    /// Result of a write of another host, which reaches all gateways that run.
    fn other_host(&self) -> Result<&'static str, String> {
        let ports: Vec<&String> = self
            .ports
            .iter()
            .zip(&self.targets)
            .filter_map(|(port, target)| target.as_ref().map(|_| port))
            .collect();
        let mut args =
            vec!["bench", "-n", NQN, "--destroy-data", "--rw", "write", "--bs", "4k", "--size", "4k"];
        args.extend(["--nr-io-queues", "1", "--hostnqn", OTHER_HOST, "--hostid", OTHER_HOST_ID]);
        let addresses: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        addresses.iter().for_each(|address| args.extend(["-a", address.as_str()]));
        let done = Step::new(&self.program, &args).run_quietly();
        match (done.passed, done.output.contains("Reservation Conflict")) {
            (true, _) => Ok("writes"),
            (false, true) => Ok("refused"),
            (false, false) => Err(format!("another host's write: {}", done.output)),
        }
    }

    /// The SHA-256 of what `rbd export` finds in the image.
    fn sum_of_image(&self) -> Result<String, String> {
        let path = self.scratch.join("export").display().to_string();
        self.rbd(&["export", "--no-progress", IMAGE, &path])?;
        let done = Step::new("sha256sum", &[&path]).run_quietly();
        match done.output.split_whitespace().next() {
            Some(sum) if done.passed => Ok(sum.to_owned()),
            _ => Err(format!("sha256sum: {}", done.output)),
        }
    }

    fn stop(&mut self) -> Result<(), String> {
        self.targets.iter_mut().flatten().try_for_each(Target::stop)
    }

    fn said(&self) -> String {
        let outputs = self.targets.iter().flatten().map(|target| target.process.output());
        outputs.collect::<Vec<_>>().join("-- and another:\n")
    }
}

/// The Linux kernel's host in the guest, at all gateways.
pub(crate) fn kernel(program: &str, lab: &str, scratch: &Path) -> Result<String, String> {
    let mut gateways = Gateways::start(program, lab, scratch)?;
    let console = scratch.join("console-gateways").display().to_string();
    let [first, second, third] = gateways.ports.clone();
    let job = ["job-gateways.sh", OUTSIDE, &first, &second, &third, NQN];
    println!("$ lab/run-guest.sh {}", job.join(" "));
    let started = Process::start(&guest(&["--memory", "1024", "--console", &console], &job));
    let mut guest = started.map_err(|error| format!("the guest does not start: {error}"))?;
    let answered = answer_all(&mut guest, GUEST_LIMIT, |ask| gateways.answer(ask));
    let clean = guest.wait(END_LIMIT, false).is_some_and(|status| status.success());
    let output = guest.output();
    print_checks(&output);
    let stopped = gateways.stop();
    if answered.is_err() || !clean || stopped.is_err() {
        println!("-- what the guest said:\n{output}--");
        println!("-- what the gateways said:\n{}--", gateways.said());
    }
    let count = print_measurements(&output);
    match (answered, clean) {
        (Ok(()), true) => stopped.map(|()| format!("{count} measurements")),
        (Ok(()), false) => Err("checks in the guest failed".to_owned()),
        (Err(reason), _) => Err(reason),
    }
}
