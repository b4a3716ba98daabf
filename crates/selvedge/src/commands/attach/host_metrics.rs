//! Metrics of attached disks for Prometheus: their paths, and the time of their commands by stage at
//! this host. They are served on an address of their own (`--metrics`).

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use attach::Disk;
use axum::body::Bytes;
use engine::initiator::{PathState, PathStatus, Paths, Stage, StageLatencies};
use engine::limits::METRICS_PATHS_MAX;
use engine::target::Exposition;

use crate::control::Control;
use crate::failure::Failure;
use crate::flags::attach::HostMetricsFlags;
use crate::version;

/// Interval of attempts to listen. All disks of a process look for the listener.
const ATTEMPT_INTERVAL: Duration = Duration::from_millis(500);

/// Time after which a process logs that the old process' address is not free yet.
const OLD_PATIENCE: Duration = Duration::from_secs(30);

/// Age of a text at which it is written again. Threads publish their times as seldom.
const TEXT_AGE_MAX: Duration = Duration::from_secs(1);

/// Disks of a process.
type AllDisks = Arc<Mutex<ReportedDisks>>;

/// Metrics of a process, and their listener.
#[derive(Debug)]
pub(super) struct HostMetrics {
    address: Option<SocketAddr>,
    all: AllDisks,
    listener: Mutex<Listener>,
}

/// A listener, or the attempts to have one.
#[derive(Debug)]
struct Listener {
    control: Option<Control>,
    /// Time of the next attempt.
    next: Instant,
    /// Time from which on a failure is logged, which happens once.
    warns_from: Option<Instant>,
}

impl HostMetrics {
    /// Starts the listener, if a flag asks for it. That of a process in place of another one, which
    /// still has the address, is started by `look`, and so is one whose address is taken: disks do
    /// not wait for their metrics.
    ///
    /// # Errors
    /// When the flags contradict each other.
    pub(super) fn start(flags: &HostMetricsFlags, is_new_process: bool) -> Result<Self, Failure> {
        let address = flags.listener().map_err(Failure::usage)?;
        let now = Instant::now();
        let warns_from = Some(if is_new_process { now + OLD_PATIENCE } else { now });
        let listener = Mutex::new(Listener { control: None, next: now, warns_from });
        let metrics = Self { address, all: AllDisks::default(), listener };
        if !is_new_process {
            metrics.look();
        }
        Ok(metrics)
    }

    fn listen(&self, address: SocketAddr) -> Result<Control, Failure> {
        let all = self.all.clone();
        // The paths are locked meanwhile: none of them outlives its disk here.
        let control = Control::start_host_metrics(address, move || lock(&all).text(Instant::now()))?;
        let address = control.endpoint().socket_address().unwrap_or(address);
        eprintln!("metrics at http://{address}/metrics");
        Ok(control)
    }

    /// Starts the listener if it is missing and its address is free.
    pub(super) fn look(&self) {
        let Some(address) = self.address else { return };
        let mut listener = lock(&self.listener);
        let now = Instant::now();
        if listener.control.is_some() || now < listener.next {
            return;
        }
        match self.listen(address) {
            Ok(control) => listener.control = Some(control),
            Err(failure) => {
                listener.next = now + ATTEMPT_INTERVAL;
                if listener.warns_from.take_if(|from| *from <= now).is_some() {
                    tracing::warn!("{}; trying again", failure.line().unwrap_or_default());
                }
            }
        }
    }

    /// Reports the paths of these disks until the result is dropped.
    pub(super) fn report(&self, disks: &[Disk]) -> Reported {
        let own: Vec<Arc<Paths>> = disks.iter().map(|disk| disk.paths.clone()).collect();
        let mut all = lock(&self.all);
        own.iter().for_each(|paths| all.add(paths.clone()));
        Reported { all: self.all.clone(), own }
    }
}

/// Disks that are reported, with the text about them.
#[derive(Debug, Default)]
struct ReportedDisks {
    disks: Vec<ReportedDisk>,
    /// The last text and its time. Clients that read slowly share it.
    text: Option<(Instant, Bytes)>,
}

/// A disk that is reported.
#[derive(Debug)]
struct ReportedDisk {
    subsystem: String,
    nsid: u32,
    /// Numbers of its paths among those to the namespace; other disks that come and go leave them.
    numbers: Range<usize>,
    paths: Arc<Paths>,
}

impl ReportedDisks {
    fn add(&mut self, paths: Arc<Paths>) {
        let (subsystem, nsid) = (paths.subsystem_nqn().to_owned(), paths.namespace().nsid);
        let same = self.disks.iter().filter(|disk| disk.nsid == nsid && disk.subsystem == subsystem);
        let first = same.map(|disk| disk.numbers.end).max().unwrap_or(0);
        let numbers = first..first + paths.status().len();
        self.disks.push(ReportedDisk { subsystem, nsid, numbers, paths });
        self.text = None;
    }

    fn text(&mut self, now: Instant) -> Bytes {
        match &self.text {
            Some((written, text)) if now.saturating_duration_since(*written) < TEXT_AGE_MAX => text.clone(),
            _ => {
                let text = Bytes::from(text(&reported(&self.disks)));
                self.text = Some((now, text.clone()));
                text
            }
        }
    }
}

/// Paths that are reported.
pub(super) struct Reported {
    all: AllDisks,
    own: Vec<Arc<Paths>>,
}

impl Drop for Reported {
    fn drop(&mut self) {
        let mut all = lock(&self.all);
        all.disks.retain(|disk| !self.own.iter().any(|own| Arc::ptr_eq(own, &disk.paths)));
        all.text = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A path of a disk.
struct PathMetrics {
    subsystem: String,
    nsid: u32,
    /// Number among the paths to the namespace.
    path: usize,
    status: PathStatus,
    stages: StageLatencies,
}

impl PathMetrics {
    fn labels(&self) -> [(&'static str, &dyn Display); 4] {
        [
            ("subsystem", &self.subsystem),
            ("nsid", &self.nsid),
            ("path", &self.path),
            ("address", &self.status.address),
        ]
    }
}

/// The paths of all disks.
fn reported(all: &[ReportedDisk]) -> Vec<PathMetrics> {
    let of_disk = |disk: &ReportedDisk| {
        let (subsystem, nsid) = (disk.subsystem.clone(), disk.nsid);
        let paths = disk.paths.status().into_iter().zip(disk.paths.stages());
        let numbered = disk.numbers.clone().zip(paths);
        let path = move |(path, (status, stages))| PathMetrics {
            subsystem: subsystem.clone(),
            nsid,
            path,
            status,
            stages,
        };
        numbered.map(path).collect::<Vec<PathMetrics>>()
    };
    all.iter().flat_map(of_disk).collect()
}

/// The text that Prometheus scrapes.
fn text(paths: &[PathMetrics]) -> String {
    let (shown, omitted) = paths.split_at(paths.len().min(METRICS_PATHS_MAX));
    let mut text = Exposition::default();
    let name = "selvedge_build_info";
    text.family(name, "gauge", "Running version; the value is always 1.");
    text.sample(name, &[("version", &version::NUMBER)], 1);
    let name = "selvedge_omitted";
    text.family(name, "gauge", "Paths without series, beyond the limit of series.");
    text.sample(name, &[("kind", &"path")], omitted.len());
    let name = "selvedge_host_path_live";
    text.family(name, "gauge", "1 while the path of an attached disk is connected.");
    for path in shown {
        text.sample(name, &path.labels(), u8::from(path.status.state == PathState::Live));
    }
    let name = "selvedge_host_path_reconnects_total";
    text.family(name, "counter", "Reconnections of the path.");
    for path in shown {
        text.sample(name, &path.labels(), path.status.reconnects);
    }
    let name = "selvedge_host_command_stage_seconds";
    text.family(name, "histogram", "Time of the path's commands at this host, by stage.");
    for path in shown {
        for stage in Stage::ALL {
            let stage_name = stage.name();
            let of_stage: (&str, &dyn Display) = ("stage", &stage_name);
            let labels: Vec<(&str, &dyn Display)> = path.labels().into_iter().chain([of_stage]).collect();
            text.histogram(name, &labels, path.stages.of(stage));
        }
    }
    text.into_text()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use engine::Histogram;
    use engine::backend::BackendConfig;
    use engine::initiator::{ConnectOptions, PathOptions};
    use engine::target::{
        FabricConfig, Measured, NamespaceConfig, PortConfig, SubsystemConfig, Target, TargetConfig,
    };
    use engine::transport::Transport;

    use super::*;

    const NQN: &str = "nqn.2026-01.org.example:\"disks\"\\a";
    const TIMES_NS: [u64; 4] = [0, 5_000, 80_000, 15_000];

    /// A path with this number of commands, all of which took the same times.
    fn path(number: usize, state: PathState, commands: u64) -> PathMetrics {
        let stages = TIMES_NS.map(|took_ns| {
            let mut histogram = Histogram::default();
            (0..commands).for_each(|_| histogram.add(took_ns));
            histogram
        });
        let status = PathStatus {
            address: ([192, 0, 2, number as u8], 4420).into(),
            transport: Transport::Tcp,
            state,
            ana: "optimized",
            cntlid: Some(1),
            reconnects: 3,
            error: None,
        };
        PathMetrics { subsystem: NQN.to_owned(), nsid: 7, path: number, status, stages: stages.into() }
    }

    #[test]
    fn each_path_is_a_series_with_the_histograms_of_its_stages() {
        let text = text(&[path(0, PathState::Live, 10), path(1, PathState::Reconnecting, 0)]);
        let samples: Vec<Measured<'_>> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| Measured::parse(line).unwrap_or_else(|wrong| panic!("{line}: {wrong}")))
            .collect();
        let series: BTreeSet<String> =
            samples.iter().map(|sample| format!("{}{:?}", sample.name, sample.labels)).collect();
        assert_eq!(series.len(), samples.len(), "a series stands there twice: {text}");
        let of_path = |name: &str, path: &str| -> Vec<&Measured<'_>> {
            samples.iter().filter(|sample| sample.name == name && sample.label("path") == path).collect()
        };
        let live = of_path("selvedge_host_path_live", "0");
        assert_eq!((live[0].value, live[0].label("subsystem"), live[0].label("nsid")), (1.0, NQN, "7"));
        assert_eq!(live[0].label("address"), "192.0.2.0:4420");
        assert_eq!(of_path("selvedge_host_path_live", "1")[0].value, 0.0);
        assert_eq!(of_path("selvedge_host_path_reconnects_total", "1")[0].value, 3.0);
        let metric = "selvedge_host_command_stage_seconds";
        let sums: f64 = of_path(&format!("{metric}_sum"), "0").iter().map(|sum| sum.value).sum();
        assert!((sums - 1e-3).abs() < 1e-12, "stages add up to the time of the commands: {sums}");
        assert!(of_path(&format!("{metric}_count"), "0").iter().all(|count| count.value == 10.0));
        assert!(of_path(&format!("{metric}_count"), "1").iter().all(|count| count.value == 0.0));
        for (stage, first) in [("waiting", 0.000_001), ("target", 0.000_128)] {
            let buckets = of_path(&format!("{metric}_bucket"), "0");
            let buckets: Vec<(f64, f64)> = buckets
                .into_iter()
                .filter(|bucket| bucket.label("stage") == stage)
                .map(|bucket| (bucket.number("le").expect("an end"), bucket.value))
                .collect();
            assert!(buckets.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
            assert_eq!(buckets.last(), Some(&(f64::INFINITY, 10.0)));
            assert_eq!(buckets.iter().find(|(_, commands)| *commands > 0.0), Some(&(first, 10.0)));
        }
    }

    #[test]
    fn every_metric_is_described_and_named_by_its_kind() {
        let text = text(&[path(0, PathState::Live, 1)]);
        let kinds: BTreeMap<&str, &str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE "))
            .map(|line| line.split_once(' ').expect("a name and a kind"))
            .collect();
        for (name, kind) in &kinds {
            assert_eq!(name.ends_with("_total"), *kind == "counter", "{name} is a {kind}");
            assert_eq!(name.ends_with("_seconds"), *kind == "histogram", "{name} is a {kind}");
        }
        let manual = include_str!("../../../../../docs/metrics.md");
        for name in kinds.keys() {
            let row = manual.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
            assert!(row.is_some(), "{name} is not in docs/metrics.md");
        }
    }

    #[test]
    fn paths_beyond_the_limit_are_counted() {
        let all: Vec<PathMetrics> =
            (0..METRICS_PATHS_MAX + 5).map(|number| path(number, PathState::Live, 0)).collect();
        let text = text(&all);
        assert!(text.contains("selvedge_omitted{kind=\"path\"} 5\n"));
        let live = Measured::all(&text).filter(|sample| sample.name == "selvedge_host_path_live");
        assert_eq!(live.count(), METRICS_PATHS_MAX);
    }

    #[test]
    fn a_path_keeps_its_number_when_another_disk_ends() {
        let nqn = "nqn.2026-01.org.example:disks";
        let namespace = NamespaceConfig::new(1, BackendConfig::Memory { size: 1 << 20 }, 4096);
        let fabric = FabricConfig {
            ports: vec![PortConfig::new(1, ([127, 0, 0, 1], 0).into())],
            subsystems: vec![SubsystemConfig::new(nqn, "A", "Selvedge").with(vec![namespace])],
            ..FabricConfig::default()
        };
        let config = TargetConfig { fabric, poll_us_max: 0, ..TargetConfig::default() };
        let target = Target::start(&config).expect("a target");
        let disk = || {
            let path = ConnectOptions::new(target.ports()[0], nqn);
            let paths = Arc::new(Paths::connect(PathOptions::once(path, 1)).expect("a path"));
            Disk { name: "1".to_owned(), description: String::new(), paths, is_read_only: false }
        };
        let metrics = HostMetrics::start(&HostMetricsFlags::default(), false).expect("no listener");
        let numbers = || {
            let all = lock(&metrics.all);
            reported(&all.disks).iter().map(|path| path.path).collect::<Vec<usize>>()
        };
        let first = metrics.report(&[disk()]);
        let _second = metrics.report(&[disk()]);
        assert_eq!(numbers(), [0, 1]);
        drop(first);
        assert_eq!(numbers(), [1]);
        let _third = metrics.report(&[disk()]);
        assert_eq!(numbers(), [1, 2]);
    }

    #[test]
    fn clients_of_one_second_share_a_text() {
        let (now, mut disks) = (Instant::now(), ReportedDisks::default());
        let first = disks.text(now);
        assert_eq!(disks.text(now + TEXT_AGE_MAX / 2).as_ptr(), first.as_ptr());
        assert_ne!(disks.text(now + TEXT_AGE_MAX).as_ptr(), first.as_ptr(), "it is written again");
    }
}
