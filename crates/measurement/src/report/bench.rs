//! Results of `bench`, as text and as JSON. The names in the JSON stay; new ones may be added.
//! Units are in the names: `_ns`, `_s`, `_bytes`; `iops` and `bw_bytes` are per second; `percent`
//! is of one processor.

use std::fmt;
use std::time::Duration;

use chart::units;
use serde::{Deserialize, Serialize};

use super::paths::PathReport;
use super::queues::AutoReport;
use super::stages::{StagesReport, TargetStagesReport};
use super::table::{Side, Table};
use crate::bench::histogram::{LatencyNs, Tally};
use crate::bench::job::Verified;
use crate::bench::matching::MatchReport;
use crate::bench::run::Outcome;
use crate::bench::throughput::Intervals;
use crate::spec::size::Size;
use crate::workload::{Fitted, Queues};

/// Everything about one run.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct BenchReport {
    pub options: Options,
    pub queues: QueueReport,
    /// End of the run: `complete`, `interrupted` or `failed`.
    pub ended: &'static str,
    /// Time that was measured.
    pub elapsed_s: f64,
    pub read: Option<OperationReport>,
    pub write: Option<OperationReport>,
    pub flush: Option<OperationReport>,
    /// Reads and writes together.
    pub total: OperationReport,
    /// With a rate: latency from the due time of each command, with the time before sending.
    pub response_ns: Option<LatencyNs>,
    /// Time of commands by stage, from submission to completion, with flushes.
    pub stages: Option<StagesReport>,
    /// Time by stage in the target, if it is a Selvedge target, over one path.
    pub target_stages: Option<TargetStagesReport>,
    /// The bench's own worker threads.
    pub cpu: CpuReport,
    /// The target's reactors, where they are in this process.
    pub target_cpu: Option<CpuReport>,
    pub verify: Option<VerifyReport>,
    /// Bytes moved in each interval.
    pub timeline: Intervals,
    /// Data of each path.
    pub paths: Vec<PathReport>,
    /// With `--match-hw-queues`: how each path's queues were matched to those of its interface.
    pub match_hw_queues: Option<Vec<MatchReport>>,
    /// With `-i auto`: how the number of queues was found.
    pub auto_queues: Option<AutoReport>,
}

/// Options of a run.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Options {
    pub address: String,
    pub nqn: String,
    pub nsid: u32,
    pub hdr_digest: bool,
    pub data_digest: bool,
    /// Path policy, with several paths.
    pub iopolicy: Option<&'static str>,
    pub(crate) rw: &'static str,
    pub rwmixread: u8,
    pub bs: u32,
    pub iodepth: u32,
    pub numjobs: u32,
    pub offset: u64,
    /// Distance between the starts of consecutive jobs, in bytes.
    pub offset_increment: u64,
    pub size: u64,
    pub(crate) runtime_s: Option<f64>,
    pub(crate) ramp_time_s: f64,
    pub rate_iops: Option<u64>,
    pub fsync: u32,
    /// True if writes have Force Unit Access (`--sync`).
    pub force_unit_access: bool,
    pub randseed: u64,
    pub verify: bool,
}

impl Options {
    /// The options of a workload on a namespace.
    pub fn new(fitted: &Fitted, address: String, nqn: String, nsid: u32) -> Self {
        let workload = &fitted.workload;
        Self {
            address,
            nqn,
            nsid,
            hdr_digest: false,
            data_digest: false,
            iopolicy: None,
            rw: workload.kind(),
            rwmixread: workload.read_percent,
            bs: workload.block_bytes,
            iodepth: workload.depth,
            numjobs: workload.jobs,
            offset: fitted.offset,
            offset_increment: fitted.increment,
            size: fitted.slots * u64::from(workload.block_bytes),
            runtime_s: workload.runtime.map(|runtime| runtime.as_secs_f64()),
            ramp_time_s: workload.ramp.as_secs_f64(),
            rate_iops: workload.rate_iops,
            fsync: workload.flush_every,
            force_unit_access: workload.force_unit_access,
            randseed: workload.seed,
            verify: workload.verify,
        }
    }
}

/// The queues of a run.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct QueueReport {
    pub asked: u16,
    pub granted: usize,
    /// Entries of each, one more than the commands it holds.
    pub size: u16,
    /// Commands all of them hold, where the jobs want more than that.
    pub(crate) too_short: Option<u64>,
    /// Threads that served them, and what carried the I/O.
    pub workers: usize,
    pub engine: &'static str,
}

/// Commands of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct OperationReport {
    pub ios: u64,
    pub bytes: u64,
    pub iops: f64,
    pub bw_bytes: f64,
    pub lat_ns: LatencyNs,
}

impl OperationReport {
    /// Of what was counted in this number of seconds.
    pub fn new(tally: &Tally, seconds: f64) -> Self {
        let rate = |value: u64| if seconds > 0.0 { value as f64 / seconds } else { 0.0 };
        Self {
            ios: tally.count(),
            bytes: tally.bytes,
            iops: rate(tally.count()),
            bw_bytes: rate(tally.bytes),
            lat_ns: tally.latency(),
        }
    }

    /// Returns the report of a tally; `None` without commands.
    pub(crate) fn some(tally: &Tally, seconds: f64) -> Option<Self> {
        (tally.count() > 0).then(|| Self::new(tally, seconds))
    }
}

/// Processor time, user and system together.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct CpuReport {
    pub(crate) time_s: f64,
    pub percent: f64,
    pub us_per_io: f64,
}

impl CpuReport {
    pub fn new(time: Duration, elapsed: Duration, ios: u64) -> Self {
        let time_s = time.as_secs_f64();
        let over = |value: f64, by: f64| if by > 0.0 { value / by } else { 0.0 };
        Self {
            time_s,
            percent: over(100.0 * time_s, elapsed.as_secs_f64()),
            us_per_io: over(1e6 * time_s, ios as f64),
        }
    }
}

/// Result of verification. Reads count commands; blocks have the workload's size.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct VerifyReport {
    pub writes: u64,
    pub reads_checked: u64,
    pub blocks_read_back: u64,
    pub blocks_wrong: u64,
    /// Descriptions of the first wrong blocks, a line each.
    pub wrong: Vec<String>,
}

impl From<&Verified> for VerifyReport {
    fn from(verified: &Verified) -> Self {
        Self {
            writes: verified.written,
            reads_checked: verified.checked,
            blocks_read_back: verified.read_back,
            blocks_wrong: verified.corrupt,
            wrong: verified.corruptions.iter().map(ToString::to_string).collect(),
        }
    }
}

impl BenchReport {
    /// The report of a run.
    pub fn new(options: Options, queues: Queues, outcome: &Outcome) -> Self {
        let seconds = outcome.elapsed.as_secs_f64();
        let total = outcome.tallies.total();
        let ios = total.count();
        let held = outcome.queues as u64 * u64::from(outcome.queue_entries.saturating_sub(1));
        let wanted = u64::from(options.numjobs) * u64::from(options.iodepth);
        let ended = match outcome {
            Outcome { failure: Some(_), .. } => "failed",
            Outcome { interrupted: true, .. } => "interrupted",
            _ => "complete",
        };
        Self {
            options,
            queues: QueueReport {
                asked: queues.count,
                granted: outcome.queues,
                size: outcome.queue_entries,
                too_short: (held < wanted).then_some(held),
                workers: outcome.workers,
                engine: outcome.engine,
            },
            ended,
            elapsed_s: seconds,
            read: OperationReport::some(&outcome.tallies.read, seconds),
            write: OperationReport::some(&outcome.tallies.write, seconds),
            flush: OperationReport::some(&outcome.tallies.flush, seconds),
            total: OperationReport::new(&total, seconds),
            response_ns: (outcome.tallies.response.count() > 0).then(|| outcome.tallies.response.latency()),
            stages: StagesReport::of_all(&outcome.stages),
            target_stages: outcome.target_stages.as_ref().map(TargetStagesReport::new),
            cpu: CpuReport::new(outcome.cpu, outcome.elapsed, ios),
            target_cpu: outcome.target_cpu.map(|time| CpuReport::new(time, outcome.elapsed, ios)),
            verify: outcome.verified.as_ref().map(VerifyReport::from),
            timeline: outcome.intervals.clone(),
            paths: paths_of(outcome),
            match_hw_queues: None,
            auto_queues: None,
        }
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&[
            ("", Side::Left),
            ("IOPS", Side::Right),
            ("bandwidth", Side::Right),
            ("mean", Side::Right),
            ("p50", Side::Right),
            ("p99", Side::Right),
            ("p99.9", Side::Right),
            ("max", Side::Right),
        ]);
        let mixed = self.read.is_some() && self.write.is_some();
        let rows = [
            ("read", self.read.as_ref()),
            ("write", self.write.as_ref()),
            ("total", mixed.then_some(&self.total)),
            ("flush", self.flush.as_ref()),
        ];
        for (name, operation) in rows {
            let Some(operation) = operation else { continue };
            let bandwidth = match operation.bytes {
                0 => String::new(),
                _ => units::bandwidth(operation.bw_bytes),
            };
            let mut cells = vec![name.to_owned(), units::count(operation.iops), bandwidth];
            let latency = operation.lat_ns;
            cells.push(units::time_ns(latency.mean));
            for nanoseconds in [latency.p50, latency.p99, latency.p99_9, latency.max] {
                cells.push(units::time_ns(nanoseconds as f64));
            }
            table.row(cells);
        }
        if let Some(response) = &self.response_ns {
            let mut cells = vec!["since due".to_owned(), String::new(), String::new()];
            cells.push(units::time_ns(response.mean));
            for nanoseconds in [response.p50, response.p99, response.p99_9, response.max] {
                cells.push(units::time_ns(nanoseconds as f64));
            }
            table.row(cells);
        }
        table
    }
}

/// The paths of a run, each with what its commands' time was spent on.
fn paths_of(outcome: &Outcome) -> Vec<PathReport> {
    let mut paths = PathReport::all(&outcome.paths);
    for (path, stages) in paths.iter_mut().zip(&outcome.stages) {
        path.stages = StagesReport::some(stages);
    }
    paths
}

impl fmt::Display for BenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.options;
        writeln!(f, "{} namespace {} at {}", options.nqn, options.nsid, options.address)?;
        writeln!(
            f,
            "{} {}{}, {} x depth {}, {} of {}, {:.1} s, {}{}",
            options.rw,
            Size(u64::from(options.bs)),
            if options.force_unit_access { " with FUA" } else { "" },
            units::plural(u64::from(options.numjobs), "job"),
            options.iodepth,
            units::plural(self.queues.granted as u64, "queue"),
            self.queues.size,
            self.elapsed_s,
            self.queues.engine,
            match (options.hdr_digest, options.data_digest) {
                (true, true) => ", header and data digests",
                (true, false) => ", header digests",
                (false, true) => ", data digests",
                (false, false) => "",
            }
        )?;
        if self.queues.granted < usize::from(self.queues.asked) {
            writeln!(f, "the target granted {} of {} queues", self.queues.granted, self.queues.asked)?;
        }
        if let Some(held) = self.queues.too_short {
            writeln!(f, "the queues hold {held} commands, which is less than the jobs want: see -i and -Q")?;
        }
        if self.paths.len() > 1 {
            write!(f, "\n{}", super::paths::table(&self.paths))?;
        }
        if self.total.ios > 0 {
            write!(f, "\n{}\n", self.table())?;
            self.stages.iter().try_for_each(|stages| writeln!(f, "{}", stages.table()))?;
            let target = self.target_stages.and_then(|target| target.line(self.total.ios));
            target.iter().try_for_each(|line| writeln!(f, "{line}"))?;
            write!(f, "CPU     this side {}", self.cpu)?;
            match &self.target_cpu {
                Some(cpu) => writeln!(f, "; target {cpu}")?,
                None => writeln!(f)?,
            }
        }
        self.auto_queues.iter().try_for_each(|auto| write!(f, "{auto}"))?;
        self.match_hw_queues.iter().flatten().try_for_each(|matched| write!(f, "{matched}"))?;
        match &self.verify {
            Some(verify) => write!(f, "{verify}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for CpuReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} % of a core, {:.2} µs per I/O", self.percent, self.us_per_io)
    }
}

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "verify  {} stamped writes, {} reads checked, {} blocks read back, {} wrong",
            units::grouped(self.writes),
            units::grouped(self.reads_checked),
            units::grouped(self.blocks_read_back),
            units::grouped(self.blocks_wrong),
        )?;
        for wrong in &self.wrong {
            writeln!(f, "        {wrong}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::histogram::Tallies;
    use crate::bench::latency_map::LatencyGrid;
    use crate::flags::bench::BenchFlags;
    use crate::workload::{Geometry, Workload};

    fn report(verified: Option<Verified>) -> BenchReport {
        let flags = BenchFlags::of("-a 127.0.0.1 -n nqn.a --rw randrw --runtime 2 --iodepth 4");
        let workload = Workload::new(&flags).unwrap().0;
        let queues = workload.queues(None, None);
        let fitted = workload.fit(Geometry { unit_bytes: 4096, bytes: 1 << 20 }).unwrap();
        let mut tallies = Tallies::default();
        for latency in 1..=1000 {
            tallies.read.add(4096, latency * 1000);
            tallies.write.add(4096, latency * 2000);
        }
        let outcome = Outcome {
            tallies,
            elapsed: Duration::from_secs(2),
            cpu: Duration::from_millis(500),
            target_cpu: None,
            workers: 1,
            queues: 1,
            queue_entries: 128,
            engine: "io_uring",
            intervals: Intervals::default(),
            latency_grid: LatencyGrid::default(),
            paths: Vec::new(),
            stages: Vec::new(),
            target_stages: None,
            verified,
            interrupted: false,
            failure: None,
            connection_lost: false,
        };
        let options = Options::new(&fitted, "127.0.0.1:4420".into(), "nqn.a".into(), 1);
        BenchReport::new(options, queues, &outcome)
    }

    #[test]
    fn the_json_keeps_its_names() {
        let json = serde_json::to_value(report(None)).unwrap();
        assert_eq!(json["options"]["rw"], "randrw");
        assert_eq!(json["options"]["bs"], 4096);
        assert_eq!(json["queues"]["granted"], 1);
        assert_eq!(json["ended"], "complete");
        assert_eq!(json["elapsed_s"], 2.0);
        assert_eq!(json["read"]["ios"], 1000);
        assert_eq!(json["read"]["iops"], 500.0);
        assert_eq!(json["total"]["iops"], 1000.0);
        assert_eq!(json["write"]["bw_bytes"], 500.0 * 4096.0);
        for name in ["mean", "p50", "p99", "p99_9", "max"] {
            assert!(json["read"]["lat_ns"][name].as_f64().unwrap() > 0.0, "{name}");
        }
        assert_eq!(json["cpu"]["percent"], 25.0);
        assert_eq!(json["cpu"]["us_per_io"], 250.0);
        assert!(json["match_hw_queues"].is_null() && json["auto_queues"].is_null());
        assert!(json["flush"].is_null() && json["target_cpu"].is_null() && json["verify"].is_null());
    }

    #[test]
    fn the_text_says_it_all() {
        let verified = Verified { written: 70_000, checked: 5, read_back: 65_536, ..Verified::default() };
        let text = report(Some(verified)).to_string();
        for part in ["randrw 4 KiB", "1 job x depth 4", "p99.9", "total", "25 % of a core", "70,000 stamped"]
        {
            assert!(text.contains(part), "{part} is missing:\n{text}");
        }
        assert!(!text.contains("flush"));
    }
}
