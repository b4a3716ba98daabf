//! Hosts: what each writes, reads and checks, how its run is judged, and the fresh host that checks what it left. It
//! keeps out when they run.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::ValueEnum as _;
use rustix::process::Signal;
use serde::Serialize;
use serde_json::Value;

use super::process::{Process, last_word};
use super::target::Role;
use crate::cell::{Policy, Word as _};
use crate::emulator::link::Dice;

/// Bytes per second that one host moves at most: the machine has others to serve, and records of what was flushed grow.
const RATE_BYTES_S: u64 = 6 << 20;
const RATE_IOPS_MAX: u64 = 500;
/// Large enough that a depth of them is more than sockets hold.
const DEEP_BLOCK_BYTES: u32 = 64 << 10;
/// Seconds: short, so that lost controllers are noticed within a round.
const KEEP_ALIVE_S: u32 = 2;
const LOOK: Duration = Duration::from_millis(100);
/// Time for which a host waits for lost paths when it is to fail for lack of one.
const IMPATIENT_LOSS_S: i32 = 10;
/// Time for a check, over links that have only just come back.
const CHECK_LIMIT: Duration = Duration::from_secs(300);

/// Region of a namespace that one host has for itself, and the paths to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) name: &'static str,
    pub(crate) nqn: &'static str,
    pub(crate) nsid: u32,
    /// Bytes of the namespace's own blocks.
    pub(crate) unit: u32,
    pub(crate) addresses: Vec<String>,
    pub(crate) offset_mb: u64,
    pub(crate) size_mb: u64,
}

impl Region {
    /// A part of a namespace with blocks of 4096 bytes: `size_mb` from `offset_mb` on.
    pub(crate) const fn new(
        name: &'static str,
        nqn: &'static str,
        nsid: u32,
        addresses: Vec<String>,
        (offset_mb, size_mb): (u64, u64),
    ) -> Region {
        Region { name, nqn, nsid, unit: 4096, addresses, offset_mb, size_mb }
    }
}

fn region(
    name: &'static str,
    role: Role,
    nsid: u32,
    unit: u32,
    addresses: Vec<String>,
    range: (u64, u64),
) -> Region {
    Region { name, nqn: role.nqn(), nsid, unit, addresses, offset_mb: range.0, size_mb: range.1 }
}

/// The addresses of both targets of the pair.
fn pair() -> Vec<String> {
    [Role::PairA, Role::PairB].iter().flat_map(|role| role.addresses()).collect()
}

/// Places of the hosts of every round.
pub(crate) fn regions() -> Vec<Region> {
    let two = |all: Vec<String>, first: usize, second: usize| vec![all[first].clone(), all[second].clone()];
    vec![
        region("pair-four", Role::PairA, 1, 4096, pair(), (0, 16)),
        region("pair-two", Role::PairA, 1, 4096, two(pair(), 0, 3), (16, 16)),
        region("pair-small", Role::PairA, 2, 512, pair(), (0, 8)),
        region("single", Role::Single, 1, 4096, Role::Single.addresses(), (0, 16)),
        region("memory", Role::Steady, 1, 4096, Role::Steady.addresses(), (0, 16)),
        region("disk", Role::Steady, 2, 4096, two(Role::Steady.addresses(), 1, 2), (0, 8)),
    ]
}

/// Places of the hosts that stay through all rounds.
pub(crate) fn long_regions() -> Vec<Region> {
    vec![
        region("long-pair", Role::PairA, 1, 4096, pair(), (32, 8)),
        region("long-memory", Role::Steady, 1, 4096, Role::Steady.addresses(), (32, 8)),
    ]
}

/// Region of a good host beside hostile ones.
pub(crate) fn good_region() -> Region {
    region("good", Role::Steady, 3, 512, vec![Role::Steady.addresses()[1].clone()], (0, 8))
}

/// Region of a host that is killed; `turn` makes neighbours differ, since data of a dead host may
/// still arrive.
pub(crate) fn doomed_region(turn: u32) -> Region {
    region("doomed", Role::PairA, 1, 4096, pair(), (48 + u64::from(turn % 8) * 2, 2))
}

/// A host's workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) nqn: String,
    nsid: u32,
    addresses: Vec<String>,
    policy: Policy,
    block_bytes: u32,
    depth: u32,
    jobs: u32,
    read_percent: u32,
    rate_iops: u64,
    flush_every: u32,
    header_digest: bool,
    data_digest: bool,
    offset_mb: u64,
    size_mb: u64,
    seed: u32,
    runtime_s: u64,
    /// Seconds after which it gives up a path that is lost, -1 for never.
    loss_s: i32,
    /// Makes it a host of its own.
    number: u64,
    /// The key of its connections, if they are TLS.
    tls_key: Option<PathBuf>,
}

impl Plan {
    /// A random workload at `region`.
    pub(crate) fn by_chance(region: &Region, runtime_s: u64, number: u64, dice: &mut Dice) -> Plan {
        let sizes = [region.unit, 4096, 4096, 16 << 10, 64 << 10, 256 << 10];
        let block_bytes = sizes[dice.next() as usize % sizes.len()];
        let jobs = 1 + dice.next() % 2;
        let depth = [1, 4, 8, 32][dice.next() as usize % 4];
        let policies = Policy::value_variants();
        let rate = RATE_BYTES_S / u64::from(block_bytes) / u64::from(jobs);
        Plan {
            name: region.name.to_owned(),
            nqn: region.nqn.to_owned(),
            nsid: region.nsid,
            addresses: region.addresses.clone(),
            policy: policies[dice.next() as usize % policies.len()],
            block_bytes,
            depth,
            jobs,
            read_percent: [20, 50, 70][dice.next() as usize % 3],
            rate_iops: rate.clamp(4, RATE_IOPS_MAX / u64::from(jobs)),
            flush_every: [4, 16, 64][dice.next() as usize % 3],
            header_digest: dice.next().is_multiple_of(2),
            data_digest: dice.next().is_multiple_of(2),
            offset_mb: region.offset_mb,
            size_mb: region.size_mb,
            seed: dice.next(),
            runtime_s,
            loss_s: -1,
            number,
            tls_key: None,
        }
    }

    /// The same, with small blocks and few of them: for hosts whose records are kept for long.
    pub(crate) fn modest(self) -> Plan {
        Plan { block_bytes: 4096, depth: 8, jobs: 1, rate_iops: 100, ..self }
    }

    /// The same with many large commands under way at a time, most of them writes.
    pub(crate) fn deep(self) -> Plan {
        let rate_iops = RATE_BYTES_S / u64::from(DEEP_BLOCK_BYTES) / u64::from(self.jobs);
        Plan { depth: 32, block_bytes: DEEP_BLOCK_BYTES, read_percent: 20, rate_iops, ..self }
    }

    /// The same for `runtime_s`.
    pub(crate) fn lasting(self, runtime_s: u64) -> Plan {
        Plan { runtime_s, ..self }
    }

    /// The same, but it does not wait forever for lost paths.
    pub(crate) fn impatient(self) -> Plan {
        Plan { loss_s: IMPATIENT_LOSS_S, ..self }
    }

    /// The same by TLS, with the key in this file.
    pub(crate) fn by_tls(self, key: &Path) -> Plan {
        Plan { tls_key: Some(key.to_owned()), ..self }
    }

    /// The same as fast as it goes, to measure what is in its way.
    pub(crate) fn eager(self) -> Plan {
        Plan { block_bytes: 4096, depth: 8, jobs: 1, rate_iops: 1_000_000, flush_every: 0, ..self }
    }

    /// The same elsewhere: `size_mb` from `offset_mb` on.
    pub(crate) fn at(self, nsid: u32, offset_mb: u64, size_mb: u64) -> Plan {
        Plan { nsid, offset_mb, size_mb, ..self }
    }

    fn connection(&self) -> Vec<String> {
        let host = identifier(self.number);
        let mut words = vec!["-n".to_owned(), self.nqn.clone(), "--nsid".to_owned(), self.nsid.to_string()];
        words.extend(["-a".to_owned(), self.addresses.join(",")]);
        words.extend(["-q".to_owned(), nqn(self.number)]);
        words.extend(["-I".to_owned(), host, "-k".to_owned(), KEEP_ALIVE_S.to_string()]);
        words.extend(["-c", "1", "-o", "json", "-l"].map(str::to_owned));
        words.push(self.loss_s.to_string());
        if let Some(key) = &self.tls_key {
            words.extend(["--tls-key-file".to_owned(), key.display().to_string()]);
        }
        if self.header_digest {
            words.push("-g".to_owned());
        }
        if self.data_digest {
            words.push("-G".to_owned());
        }
        words
    }

    /// The command of its workload, with its record in `state`.
    pub(crate) fn words(&self, program: &str, state: &Path) -> Vec<String> {
        let mut words = vec![program.to_owned(), "bench".to_owned()];
        words.extend(self.connection());
        for (flag, value) in [
            ("--iopolicy", self.policy.name()),
            ("--rw", "randrw".to_owned()),
            ("--rwmixread", self.read_percent.to_string()),
            ("--bs", self.block_bytes.to_string()),
            ("--iodepth", self.depth.to_string()),
            ("--numjobs", self.jobs.to_string()),
            ("--offset", format!("{}m", self.offset_mb)),
            ("--size", format!("{}m", self.size_mb)),
            ("--rate_iops", self.rate_iops.to_string()),
            ("--fsync", self.flush_every.to_string()),
            ("--randseed", self.seed.to_string()),
            ("--runtime", self.runtime_s.to_string()),
        ] {
            words.extend([flag.to_owned(), value]);
        }
        // A record of what was flushed needs something to be flushed.
        if self.flush_every > 0 {
            words.extend(["--verify-state".to_owned(), state.display().to_string()]);
        }
        words.extend(["--verify", "--destroy-data"].map(str::to_owned));
        words
    }

    /// The command of the fresh host that checks what `state` says.
    fn check_words(&self, program: &str, state: &Path) -> Vec<String> {
        // Another host than the one that wrote, and one that has nothing in common with it.
        let fresh = Plan { number: fresh(self.number), ..self.clone() };
        let mut words = vec![program.to_owned(), "bench".to_owned()];
        words.extend(fresh.connection());
        words.extend(["--verify-only", "--iodepth", "16", "--verify-state"].map(str::to_owned));
        words.push(state.display().to_string());
        words
    }
}

/// The number of the host that checks what this one has left.
pub(crate) const fn fresh(number: u64) -> u64 {
    number | 1 << 40
}

/// The NQN of the host with this number.
pub(crate) fn nqn(number: u64) -> String {
    format!("nqn.2014-08.org.nvmexpress:uuid:{}", identifier(number))
}

fn identifier(number: u64) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

/// Work and findings of hosts, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Deeds {
    pub(crate) hosts: u64,
    pub(crate) ios: u64,
    pub(crate) writes: u64,
    pub(crate) reads_checked: u64,
    pub(crate) blocks_read_back: u64,
    /// See `Damage`.
    pub(crate) blocks_wrong: u64,
    /// By fresh hosts.
    pub(crate) checks: u64,
    pub(crate) blocks_checked: u64,
    pub(crate) blocks_lost: u64,
}

/// Sum of a round's writes and checks: reads while it ran, reads by the writers, and reads by fresh
/// hosts.
impl fmt::Display for Deeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { writes, reads_checked, blocks_read_back, blocks_checked, .. } = self;
        write!(f, "{writes} writes, {reads_checked} + {blocks_read_back} + {blocks_checked} blocks checked")
    }
}

impl Deeds {
    pub(crate) fn add(&mut self, other: &Deeds) {
        self.hosts += other.hosts;
        self.ios += other.ios;
        self.writes += other.writes;
        self.reads_checked += other.reads_checked;
        self.blocks_read_back += other.blocks_read_back;
        self.checks += other.checks;
        self.blocks_checked += other.blocks_checked;
    }
}

/// Means of hosts: a program, a network namespace and a folder for their output and records.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) program: String,
    pub(crate) namespace: String,
    pub(crate) logs: PathBuf,
    pub(crate) damage: Arc<Damage>,
}

/// Blocks that were not what they had to be, of all hosts: those that failed say nothing else of what they did.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    wrong: AtomicU64,
    lost: AtomicU64,
}

impl Damage {
    /// Adds it to what was done.
    pub(crate) fn add_to(&self, deeds: &mut Deeds) {
        deeds.blocks_wrong += self.wrong.load(Ordering::Relaxed);
        deeds.blocks_lost += self.lost.load(Ordering::Relaxed);
    }
}

/// A host that runs.
pub(crate) struct Host {
    pub(crate) plan: Plan,
    site: Site,
    process: Process,
    state: PathBuf,
    log: String,
}

impl Host {
    /// Starts it, with `log` as the name of its files.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn start(site: &Site, plan: Plan, log: String) -> Result<Host, String> {
        let state = site.logs.join(format!("{log}.state"));
        let words = plan.words(&site.program, &state);
        let process = Process::start(&site.namespace, &words, &site.logs.join(&log))?;
        Ok(Host { plan, site: site.clone(), process, state, log })
    }

    /// True if it has come to its end by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.process.wait(Instant::now()).is_some()
    }

    /// Waits until something it wrote has been flushed: on a machine that is very busy, connecting alone takes seconds.
    ///
    /// # Errors
    /// It ended before, or has not come so far by `until`.
    pub(crate) fn begun(&mut self, until: Instant) -> Result<(), String> {
        loop {
            let state = std::fs::read_to_string(&self.state).unwrap_or_default();
            // The first line is about the run itself.
            if state.lines().nth(1).is_some() {
                return Ok(());
            }
            if self.process.wait(Instant::now() + LOOK).is_some() || Instant::now() >= until {
                let name = &self.plan.name;
                return Err(format!(
                    "host {name} did not begin: {} (see {}.err)",
                    self.complaint(),
                    self.log
                ));
            }
        }
    }

    /// Kills it in the middle of its work.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Last line of its error output.
    pub(crate) fn complaint(&self) -> String {
        last_word(&self.process.errors()).to_owned()
    }

    /// Waits for its end, and judges it.
    ///
    /// # Errors
    /// It failed, found wrong data, or did not come to its end.
    pub(crate) fn finish(&mut self, until: Instant) -> Result<Deeds, String> {
        let status = self.process.wait(until);
        let (report, errors) = (self.process.output(), self.process.errors());
        let succeeded = status.map(|status| status.success());
        self.site.damage.wrong.fetch_add(blocks_wrong(&report), Ordering::Relaxed);
        judge(succeeded, &report).map_err(|reason| {
            format!("host {}: {reason}: {} (see {}.err)", self.plan.name, last_word(&errors), self.log)
        })
    }

    /// Ends it early, and judges what it did until then: it reads nothing back.
    ///
    /// # Errors
    /// It failed, found wrong data, or did not come to its end.
    pub(crate) fn interrupt(&mut self, until: Instant) -> Result<Deeds, String> {
        self.process.signal(Signal::INT);
        let ended = self.process.wait(until).is_some();
        self.site.damage.wrong.fetch_add(blocks_wrong(&self.process.output()), Ordering::Relaxed);
        let report: Value = serde_json::from_str(&self.process.output()).unwrap_or_default();
        if !ended || report["ended"] != "interrupted" || report["verify"]["blocks_wrong"] != 0 {
            return Err(format!("host {}: {} (see {}.err)", self.plan.name, self.complaint(), self.log));
        }
        Ok(done(&report))
    }

    /// Waits until it has ended, however.
    pub(crate) fn ended_badly(&mut self, until: Instant) -> Result<(), String> {
        match self.process.wait(until) {
            Some(status) if !status.success() => Ok(()),
            Some(_) => {
                Err(format!("host {} ended well, which it could not ({}.out)", self.plan.name, self.log))
            }
            None => Err(format!("host {} did not come to its end ({}.err)", self.plan.name, self.log)),
        }
    }

    /// The longest that one command took, in milliseconds.
    ///
    /// # Errors
    /// It has left no report.
    pub(crate) fn worst_ms(&self) -> Result<u64, String> {
        let (log, output) = (&self.log, self.process.output());
        let report: Value =
            serde_json::from_str(&output).map_err(|error| format!("{log}.out: no JSON ({error})"))?;
        let of = |kind: &str| number(&report[kind]["lat_ns"]["max"]);
        Ok(["read", "write", "flush"].into_iter().map(of).max().unwrap_or_default() / 1_000_000)
    }

    /// Has a fresh host check what this one left, and removes the record when all is well.
    ///
    /// # Errors
    /// Something is lost or wrong, or the check failed.
    pub(crate) fn check(&self) -> Result<Deeds, String> {
        let log = format!("{}-check", self.log);
        let words = self.plan.check_words(&self.site.program, &self.state);
        let mut process = Process::start(&self.site.namespace, &words, &self.site.logs.join(&log))?;
        let status = process.wait(Instant::now() + CHECK_LIMIT);
        let failed = |reason: &str| {
            let errors = process.errors();
            format!("check of host {}: {reason}: {} (see {log}.err)", self.plan.name, last_word(&errors))
        };
        self.site.damage.lost.fetch_add(blocks_wrong(&process.output()), Ordering::Relaxed);
        let report: Value = serde_json::from_str(&process.output()).unwrap_or_default();
        let verify = &report["verify"];
        let (right, wrong) = (verify["blocks_read_back"].as_u64(), verify["blocks_wrong"].as_u64());
        match (status, right, wrong) {
            (Some(status), Some(right), Some(0)) if status.success() && report["ended"] == "complete" => {
                let _ = std::fs::remove_file(&self.state);
                Ok(Deeds { checks: 1, blocks_checked: right, ..Deeds::default() })
            }
            (_, _, Some(wrong @ 1..)) => Err(failed(&format!("{wrong} blocks lost or wrong"))),
            (None, ..) => Err(failed("it did not come to its end")),
            _ => Err(failed("it failed")),
        }
    }
}

/// The number of wrong blocks in a report.
fn blocks_wrong(report: &str) -> u64 {
    let report: Value = serde_json::from_str(report).unwrap_or_default();
    number(&report["verify"]["blocks_wrong"])
}

/// Work of a run, if it counts.
fn judge(succeeded: Option<bool>, report: &str) -> Result<Deeds, String> {
    let report: Value = serde_json::from_str(report).unwrap_or_default();
    let verify = &report["verify"];
    if let Some(wrong @ 1..) = verify["blocks_wrong"].as_u64() {
        return Err(format!("{wrong} wrong blocks"));
    }
    match succeeded {
        None => return Err("it did not come to its end".to_owned()),
        Some(false) => return Err("it failed".to_owned()),
        Some(true) => {}
    }
    // A run that says nothing of its data has not checked it.
    if report["ended"] != "complete"
        || verify["blocks_wrong"] != 0
        || number(&verify["blocks_read_back"]) == 0
    {
        return Err(format!("it ended as {} and read nothing back", report["ended"]));
    }
    Ok(done(&report))
}

/// Work in a report.
fn done(report: &Value) -> Deeds {
    let verify = &report["verify"];
    Deeds {
        hosts: 1,
        ios: ["read", "write", "flush"].iter().map(|kind| number(&report[*kind]["ios"])).sum(),
        writes: number(&verify["writes"]),
        reads_checked: number(&verify["reads_checked"]),
        blocks_read_back: number(&verify["blocks_read_back"]),
        ..Deeds::default()
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_do_not_overlap() {
        let mut all = regions();
        all.extend(long_regions());
        all.extend((0..8).map(doomed_region));
        for (at, one) in all.iter().enumerate() {
            for other in &all[at + 1..] {
                let apart = one.offset_mb + one.size_mb <= other.offset_mb
                    || other.offset_mb + other.size_mb <= one.offset_mb;
                assert!((one.nqn, one.nsid) != (other.nqn, other.nsid) || apart, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn workloads_fit_their_place() {
        let mut dice = Dice::new(3);
        for region in regions() {
            for number in 0..200 {
                let plan = Plan::by_chance(&region, 60, number, &mut dice);
                assert!(plan.block_bytes.is_multiple_of(region.unit));
                let slots = region.size_mb * (1 << 20) / u64::from(plan.block_bytes);
                assert!(slots >= 4 * u64::from(plan.jobs), "{plan:?}");
            }
        }
        let plan = |seed| Plan::by_chance(&regions()[0], 60, 1, &mut Dice::new(seed));
        assert_eq!(plan(5), plan(5));
    }

    #[test]
    fn only_a_whole_run_counts() {
        let good = r#"{"ended":"complete","read":{"ios":3},"write":{"ios":4},"flush":{"ios":1},
            "verify":{"writes":4,"reads_checked":3,"blocks_read_back":4,"blocks_wrong":0}}"#;
        let deeds = judge(Some(true), good).unwrap();
        assert_eq!((deeds.ios, deeds.writes, deeds.blocks_read_back), (8, 4, 4));
        assert!(judge(Some(false), good).is_err() && judge(None, good).is_err());
        assert!(judge(Some(true), "{}").is_err());
        assert!(judge(Some(true), &good.replace("complete", "interrupted")).is_err());
        assert!(judge(Some(true), &good.replace("\"blocks_wrong\":0", "\"blocks_wrong\":2")).is_err());
        assert!(
            judge(Some(true), &good.replace("\"blocks_read_back\":4", "\"blocks_read_back\":0")).is_err()
        );
    }
}
