//! Results of `bench` in the format of `fio --output-format=json`, for programs that read it:
//! names, nesting and units are those of fio 3.33. Values that are not measured are 0, as in fio;
//! `docs/fio.md` lists them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};

use super::utc;
use crate::bench::histogram::{Tallies, Tally};
use crate::bench::process::ProcessUse;
use crate::bench::run::Outcome;
use crate::bench::throughput::{INTERVALS_MAX, Intervals};
use crate::workload::{Fitted, Workload};

/// Readers take a number behind the first dash, and fio's own builds have more dashes behind it.
const VERSION: &str = concat!("fio-3.33-selvedge-", env!("CARGO_PKG_VERSION"));
/// Percentiles that fio prints by default.
const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];
/// Upper bounds of the buckets that latencies are counted in, in each unit.
const LATENCY_BOUNDS: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];
/// Intervals of the timeline in one of fio's samples, which are half a second long.
const SAMPLE_INTERVALS: usize = 2;
/// Samples of a timeline at most: what comes later is not in it.
const SAMPLES_MAX: usize = INTERVALS_MAX / SAMPLE_INTERVALS;
/// The errno of a run that failed: which command failed of what stands on stderr.
const EIO: i32 = 5;

/// Names with values, in their order.
#[derive(Debug, Default)]
struct Named<T>(Vec<(String, T)>);

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Everything that is printed.
#[derive(Debug, Serialize)]
pub struct FioReport {
    #[serde(rename = "fio version")]
    version: &'static str,
    timestamp: u64,
    timestamp_ms: u64,
    time: String,
    #[serde(rename = "global options")]
    global_options: Named<String>,
    jobs: Vec<JobEntry>,
}

/// Job with all its clones, as in fio's `group_reporting`.
#[derive(Debug, Serialize)]
struct JobEntry {
    jobname: String,
    groupid: usize,
    error: i32,
    eta: u64,
    elapsed: u64,
    #[serde(rename = "job options")]
    job_options: Named<String>,
    read: Side,
    write: Side,
    trim: Side,
    sync: Sync,
    job_runtime: u64,
    usr_cpu: f64,
    sys_cpu: f64,
    ctx: u64,
    majf: u64,
    minf: u64,
    iodepth_level: Named<f64>,
    iodepth_submit: Named<f64>,
    iodepth_complete: Named<f64>,
    latency_ns: Named<f64>,
    latency_us: Named<f64>,
    latency_ms: Named<f64>,
    latency_depth: u32,
    latency_target: u64,
    latency_percentile: f64,
    latency_window: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    desc: Option<String>,
}

/// Commands of one direction.
#[derive(Debug, Default, Serialize)]
struct Side {
    io_bytes: u64,
    io_kbytes: u64,
    bw_bytes: u64,
    bw: u64,
    iops: f64,
    runtime: u64,
    total_ios: u64,
    short_ios: u64,
    drop_ios: u64,
    slat_ns: Latency,
    clat_ns: Latency,
    lat_ns: Latency,
    #[serde(flatten)]
    samples: Samples,
}

/// Flushes.
#[derive(Debug, Serialize)]
struct Sync {
    total_ios: u64,
    lat_ns: Latency,
}

/// Latencies in nanoseconds.
#[derive(Debug, Default, Serialize)]
struct Latency {
    min: u64,
    max: u64,
    mean: f64,
    stddev: f64,
    #[serde(rename = "N")]
    n: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    percentile: Option<Named<u64>>,
}

/// Each half second's bandwidth in KiB per second, and its commands per second.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Samples {
    bw_min: u64,
    bw_max: u64,
    bw_agg: f64,
    bw_mean: f64,
    bw_dev: f64,
    bw_samples: usize,
    iops_min: u64,
    iops_max: u64,
    iops_mean: f64,
    iops_stddev: f64,
    iops_samples: usize,
}

/// A job that has been run.
#[derive(Clone, Copy)]
pub struct Measured<'a> {
    pub name: &'a str,
    pub description: Option<&'a str>,
    /// Counts the stonewalls before it.
    pub group: usize,
    pub fitted: &'a Fitted,
    pub outcome: &'a Outcome,
    pub process: ProcessUse,
    /// From the program's start until the job's end.
    pub elapsed: Duration,
}

impl FioReport {
    /// The report of these jobs on `place`, the namespace as people name it, made at `now`.
    pub fn new<'a>(place: &str, jobs: impl IntoIterator<Item = Measured<'a>>, now: SystemTime) -> Self {
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let global = [("ioengine", "selvedge"), ("filename", place), ("group_reporting", "1")];
        Self {
            version: VERSION,
            timestamp: since.as_secs(),
            timestamp_ms: since.as_millis() as u64,
            time: utc::ctime(since.as_secs()),
            global_options: Named(global.map(|(name, value)| (name.into(), value.into())).into()),
            jobs: jobs.into_iter().map(|job| JobEntry::new(&job)).collect(),
        }
    }
}

impl JobEntry {
    fn new(job: &Measured) -> Self {
        let (outcome, workload) = (job.outcome, &job.fitted.workload);
        let tallies = &outcome.tallies;
        let samples = outcome.elapsed.as_millis() as usize / 500;
        let side = |tally, bytes| Side::new(tally, outcome.elapsed, bytes, samples, workload.block_bytes);
        let job_runtime = outcome.elapsed * workload.jobs;
        let cpu_percent = match job_runtime.as_secs_f64() {
            0.0 => 0.0,
            seconds => 100.0 * outcome.cpu.as_secs_f64() / seconds,
        };
        let [latency_ns, latency_us, latency_ms] = buckets(tallies);
        Self {
            jobname: job.name.to_owned(),
            groupid: job.group,
            error: if outcome.failure.is_some() { EIO } else { 0 },
            eta: 0,
            elapsed: job.elapsed.as_millis().div_ceil(1000) as u64,
            job_options: options(workload, job.fitted, job.description),
            read: side(&tallies.read, by_sample(&outcome.intervals, &outcome.intervals.read_bytes)),
            write: side(&tallies.write, by_sample(&outcome.intervals, &outcome.intervals.write_bytes)),
            trim: Side::default(),
            sync: Sync {
                total_ios: tallies.flush.count(),
                lat_ns: Latency::with_percentiles(&tallies.flush),
            },
            job_runtime: job_runtime.as_millis() as u64,
            usr_cpu: cpu_percent * job.process.user_share,
            sys_cpu: cpu_percent * (1.0 - job.process.user_share),
            ctx: 0,
            majf: job.process.major_faults,
            minf: job.process.minor_faults,
            iodepth_level: unmeasured(&["1", "2", "4", "8", "16", "32", ">=64"]),
            iodepth_submit: unmeasured(&["0", "4", "8", "16", "32", "64", ">=64"]),
            iodepth_complete: unmeasured(&["0", "4", "8", "16", "32", "64", ">=64"]),
            latency_ns,
            latency_us,
            latency_ms,
            latency_depth: workload.depth,
            latency_target: 0,
            latency_percentile: 100.0,
            latency_window: 0,
            desc: job.description.map(str::to_owned),
        }
    }
}

impl Side {
    fn new(tally: &Tally, elapsed: Duration, bytes: Vec<u64>, samples: usize, block_bytes: u32) -> Self {
        if tally.count() == 0 {
            return Self::default();
        }
        let seconds = elapsed.as_secs_f64();
        let rate = |value: u64| if seconds > 0.0 { value as f64 / seconds } else { 0.0 };
        Self {
            io_bytes: tally.bytes,
            io_kbytes: tally.bytes / 1024,
            bw_bytes: rate(tally.bytes) as u64,
            bw: (rate(tally.bytes) / 1024.0) as u64,
            iops: rate(tally.count()),
            runtime: elapsed.as_millis() as u64,
            total_ios: tally.count(),
            short_ios: 0,
            drop_ios: 0,
            // A command is made and handed to its queue in one step, so all its time is that of completion.
            slat_ns: Latency::default(),
            clat_ns: Latency::with_percentiles(tally),
            lat_ns: Latency::new(tally),
            samples: Samples::new(bytes, samples, block_bytes),
        }
    }
}

impl Latency {
    fn new(tally: &Tally) -> Self {
        let spread = tally.spread();
        Self {
            min: spread.min,
            max: spread.max,
            mean: spread.mean,
            stddev: spread.stddev,
            n: tally.count(),
            percentile: None,
        }
    }

    fn with_percentiles(tally: &Tally) -> Self {
        let value = |percent: &f64| (format!("{percent:.6}"), tally.quantile_ns(percent / 100.0));
        let percentile = (tally.count() > 0).then(|| Named(PERCENTILES.iter().map(value).collect()));
        Self { percentile, ..Self::new(tally) }
    }
}

impl Samples {
    /// Of the bytes in each half second, of which `samples` are whole.
    fn new(mut bytes: Vec<u64>, samples: usize, block_bytes: u32) -> Self {
        // The timeline ends with the last byte that was moved.
        bytes.resize(samples.min(SAMPLES_MAX), 0);
        if bytes.is_empty() {
            return Self::default();
        }
        let per_second = |unit: u32| -> Vec<f64> {
            bytes.iter().map(|bytes| 2.0 * *bytes as f64 / f64::from(unit.max(1))).collect()
        };
        let (bw, iops) = (Spread::of(&per_second(1024)), Spread::of(&per_second(block_bytes)));
        Self {
            bw_min: bw.min as u64,
            bw_max: bw.max as u64,
            bw_agg: 100.0,
            bw_mean: bw.mean,
            bw_dev: bw.deviation,
            bw_samples: bytes.len(),
            iops_min: iops.min as u64,
            iops_max: iops.max as u64,
            iops_mean: iops.mean,
            iops_stddev: iops.deviation,
            iops_samples: bytes.len(),
        }
    }
}

/// Statistics of samples.
struct Spread {
    min: f64,
    max: f64,
    mean: f64,
    deviation: f64,
}

impl Spread {
    /// Of some values, of which there is one at least. The deviation is a sample's, as fio's is.
    fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self {
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(0.0, f64::max),
            mean,
            deviation: if count > 1.0 { (squares / (count - 1.0)).sqrt() } else { 0.0 },
        }
    }
}

/// The bytes of each half second.
fn by_sample(intervals: &Intervals, bytes: &[u64]) -> Vec<u64> {
    debug_assert!(intervals.interval_s == 0.0 || intervals.interval_s * SAMPLE_INTERVALS as f64 == 0.5);
    bytes.chunks(SAMPLE_INTERVALS).map(|chunk| chunk.iter().sum()).collect()
}

/// Distribution of reads and writes over latency buckets of nanoseconds, microseconds and
/// milliseconds, in percent.
fn buckets(tallies: &Tallies) -> [Named<f64>; 3] {
    let total = tallies.total();
    let micro = LATENCY_BOUNDS.map(|bound| bound * 1000);
    let milli = LATENCY_BOUNDS.map(|bound| bound * 1_000_000);
    let bounds: Vec<u64> = [&LATENCY_BOUNDS[..], &micro, &milli, &[2_000_000_000]].concat();
    let count = total.count().max(1) as f64;
    let mut percents = total.counts_between(&bounds).into_iter().map(|part| 100.0 * part as f64 / count);
    let names: Vec<String> = LATENCY_BOUNDS.iter().map(ToString::to_string).collect();
    let longer = ["2000".to_owned(), ">=2000".to_owned()];
    let mut next = |names: Vec<String>| Named(names.into_iter().zip(percents.by_ref()).collect());
    [next(names.clone()), next(names.clone()), next([names, longer.into()].concat())]
}

/// Returns fio's values for quantities that are not measured.
fn unmeasured(names: &[&str]) -> Named<f64> {
    Named(names.iter().map(|name| ((*name).to_owned(), 0.0)).collect())
}

/// A workload in fio's words.
fn options(workload: &Workload, fitted: &Fitted, description: Option<&str>) -> Named<String> {
    let time = |time: Duration| match time.subsec_micros() {
        0 => time.as_secs().to_string(),
        _ => format!("{}us", time.as_micros()),
    };
    let some = |number: u64| (number > 0).then(|| number.to_string());
    let is_mixed = !matches!(workload.read_percent, 0 | 100);
    let values = [
        ("description", description.map(str::to_owned)),
        ("rw", Some(workload.kind().to_owned())),
        ("rwmixread", is_mixed.then(|| workload.read_percent.to_string())),
        ("bs", Some(workload.block_bytes.to_string())),
        ("iodepth", Some(workload.depth.to_string())),
        ("numjobs", Some(workload.jobs.to_string())),
        ("size", Some((fitted.slots * u64::from(workload.block_bytes)).to_string())),
        ("offset", some(fitted.offset)),
        ("offset_increment", some(fitted.increment)),
        ("runtime", workload.runtime.map(time)),
        ("ramp_time", Some(workload.ramp).filter(|ramp| !ramp.is_zero()).map(time)),
        ("rate_iops", workload.rate_iops.map(|rate| rate.to_string())),
        ("fsync", some(u64::from(workload.flush_every))),
        ("sync", workload.force_unit_access.then(|| "sync".to_owned())),
        ("randseed", workload.random.then(|| workload.seed.to_string())),
        ("verify", workload.verify.then(|| "crc32c".to_owned())),
    ];
    Named(values.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::fio::{PRINTED_BY_FIO, json};
    use crate::flags::bench::BenchFlags;
    use crate::workload::Geometry;

    fn report(arguments: &str) -> Value {
        let flags = BenchFlags::of(&format!("-a 127.0.0.1 -n nqn.a {arguments}"));
        let workload = Workload::new(&flags).unwrap().0;
        let fitted = workload.fit(Geometry { unit_bytes: 4096, bytes: 1 << 20 }).unwrap();
        let mut tallies = Tallies::default();
        for latency in 1..=1000 {
            tallies.read.add(4096, latency * 1000);
            tallies.write.add(4096, latency * 2000);
            tallies.flush.add(0, latency);
        }
        let intervals = Intervals {
            interval_s: 0.25,
            read_bytes: vec![4096 * 100, 4096 * 100, 4096 * 400, 4096 * 200, 4096 * 200],
            write_bytes: vec![4096 * 1000],
        };
        let outcome = Outcome {
            tallies,
            elapsed: Duration::from_millis(2000),
            cpu: Duration::from_millis(1000),
            target_cpu: None,
            workers: 1,
            queues: 1,
            queue_entries: 128,
            engine: "io_uring",
            intervals,
            latency_grid: Default::default(),
            paths: Vec::new(),
            stages: Vec::new(),
            target_stages: None,
            verified: None,
            interrupted: false,
            failure: None,
            connection_lost: false,
        };
        let measured = Measured {
            name: "a",
            description: Some("what it is"),
            group: 3,
            fitted: &fitted,
            outcome: &outcome,
            process: ProcessUse { user_share: 0.25, major_faults: 0, minor_faults: 9 },
            elapsed: Duration::from_millis(2001),
        };
        let now = UNIX_EPOCH + Duration::from_millis(1_795_344_529_741);
        serde_json::to_value(FioReport::new("nqn.a namespace 1 at 127.0.0.1:4420", [measured], now)).unwrap()
    }

    const ALL: &str = "--rw randrw --rwmixread 70 --runtime 2 --numjobs 2 --iodepth 8 --fsync 4 --offset 4k \
                       --ramp_time 200ms --rate_iops 9 --randseed 7 --verify";

    /// Every name in a document, with those above it; numbers of an array are left out.
    fn names(value: &Value, above: &str, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(object) => {
                for (name, value) in object {
                    let name = format!("{above}/{name}");
                    names(value, &name, found);
                    found.insert(name);
                }
            }
            Value::Array(values) => values.iter().for_each(|value| names(value, above, found)),
            _ => {}
        }
    }

    #[test]
    fn every_name_is_one_of_fios_and_none_but_the_disks_is_missing() {
        let printed = &PRINTED_BY_FIO[PRINTED_BY_FIO.find('{').unwrap()..];
        let (mut ours, mut fios) = (BTreeSet::new(), BTreeSet::new());
        names(&report(ALL), "", &mut ours);
        names(&serde_json::from_str(printed).unwrap(), "", &mut fios);
        // Options may stand in either place.
        let place = |name: String| match name.strip_prefix("/global options/") {
            Some(option) => format!("/jobs/job options/{option}"),
            None => name,
        };
        let (ours, fios): (BTreeSet<String>, BTreeSet<String>) =
            (ours.into_iter().map(place).collect(), fios.into_iter().map(place).collect());
        assert_eq!(ours.difference(&fios).collect::<Vec<_>>(), Vec::<&String>::new());
        let missing: Vec<&String> = fios.difference(&ours).collect();
        let expected = |name: &str| name.starts_with("/disk_util") || name.ends_with("options/disk_util");
        assert!(missing.iter().all(|name| expected(name)), "{missing:?}");
    }

    #[test]
    fn figures_are_those_that_were_measured() {
        let report = report(ALL);
        assert!(report["fio version"].as_str().unwrap().starts_with("fio-3.33-selvedge-"));
        assert_eq!(report["timestamp"], 1_795_344_529);
        assert_eq!(report["time"], "Sun Nov 22 10:48:49 2026");
        let job = &report["jobs"][0];
        assert_eq!((&job["jobname"], &job["groupid"], &job["elapsed"]), (&"a".into(), &3.into(), &3.into()));
        assert_eq!((&job["error"], &job["job_runtime"]), (&0.into(), &4000.into()));
        assert_eq!((&job["usr_cpu"], &job["sys_cpu"]), (&6.25.into(), &18.75.into()));
        let read = &job["read"];
        assert_eq!((&read["io_bytes"], &read["io_kbytes"]), (&4_096_000.into(), &4000.into()));
        assert_eq!((&read["bw_bytes"], &read["bw"]), (&2_048_000.into(), &2000.into()));
        assert_eq!((&read["iops"], &read["runtime"]), (&500.0.into(), &2000.into()));
        assert_eq!((&read["clat_ns"]["N"], &read["slat_ns"]["N"]), (&1000.into(), &0.into()));
        let median = read["clat_ns"]["percentile"]["50.000000"].as_u64().unwrap();
        assert!(median.abs_diff(500_000) <= 500, "{median}");
        // 200, 600, 200 and 0 commands in the four half seconds.
        assert_eq!((&read["iops_min"], &read["iops_max"]), (&0.into(), &1200.into()));
        assert_eq!((&read["iops_mean"], &read["iops_samples"]), (&500.0.into(), &4.into()));
        assert_eq!(job["write"]["bw_max"], 8000);
        assert_eq!(job["trim"]["clat_ns"].get("percentile"), None);
        assert_eq!(job["sync"]["total_ios"], 1000);
        let shares = ["latency_ns", "latency_us", "latency_ms"].map(|unit| job[unit].as_object().unwrap());
        let sum: f64 = shares.iter().flat_map(|share| share.values()).filter_map(Value::as_f64).sum();
        assert!((sum - 100.0).abs() < 1e-6, "{sum}");
        assert_eq!(job["job options"]["rate_iops"], "9");
        assert_eq!(job["job options"]["ramp_time"], "200000us");
    }

    #[test]
    fn what_reads_fio_reads_this() {
        let run = json::read(&report(ALL).to_string()).unwrap();
        let job = &run.jobs[0];
        assert_eq!((job.rw.as_str(), job.bs_bytes, job.iodepth, job.numjobs), ("randrw", Some(4096), 8, 2));
        assert_eq!(job.read.unwrap().iops, 500.0);
        let p99 = job.write.unwrap().p99_ns.unwrap();
        assert!((p99 - 1_980_000.0).abs() < 2_000.0, "{p99}");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "Thu Jan  1 00:00:00 1970"),
            (951_782_399, "Mon Feb 28 23:59:59 2000"),
            (951_782_400, "Tue Feb 29 00:00:00 2000"),
            (951_868_800, "Wed Mar  1 00:00:00 2000"),
            (4_102_444_799, "Thu Dec 31 23:59:59 2099"),
        ] {
            assert_eq!(utc::ctime(seconds), expected);
        }
    }
}
