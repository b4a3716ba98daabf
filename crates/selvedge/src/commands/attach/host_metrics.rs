//! Metrics of attached disks for Prometheus: their paths, and the time of their commands by stage at
//! this host. They are served on an address of their own (`--metrics`).

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use attach::Disk;
use engine::initiator::{PathState, PathStatus, Paths, Stage, StageLatencies};
use engine::limits::METRICS_PATHS_MAX;
use engine::target::Exposition;

use crate::control::Control;
use crate::failure::Failure;
use crate::flags::attach::HostMetricsFlags;
use crate::version;

/// Attempts to listen after which a process says that the former one's address is not free yet.
const ATTEMPTS_MAX: u32 = 30;

/// Paths of all disks of a process.
type AllPaths = Arc<Mutex<Vec<Arc<Paths>>>>;

/// Metrics of a process, and their listener.
#[derive(Debug)]
pub(super) struct HostMetrics {
    address: Option<SocketAddr>,
    all: AllPaths,
    listener: Mutex<Listener>,
}

/// A listener, or the attempts to have one.
#[derive(Debug, Default)]
struct Listener {
    control: Option<Control>,
    attempts: u32,
}

impl HostMetrics {
    /// Starts the listener, if a flag asks for it. That of a process in place of another one, which
    /// still has the address, is started by `look`.
    pub(super) fn start(flags: &HostMetricsFlags, is_successor: bool) -> Result<Self, Failure> {
        let address = flags.listener().map_err(Failure::usage)?;
        let metrics = Self { address, all: AllPaths::default(), listener: Mutex::default() };
        if !is_successor {
            lock(&metrics.listener).control = metrics.listen()?;
        }
        Ok(metrics)
    }

    fn listen(&self) -> Result<Option<Control>, Failure> {
        let Some(address) = self.address else { return Ok(None) };
        let all = self.all.clone();
        // The paths are locked meanwhile: none of them outlives its disk here.
        let control = Control::start_host_metrics(address, move || text(&reported(&lock(&all))))?;
        let address = control.endpoint().socket_address().unwrap_or(address);
        eprintln!("metrics at http://{address}/metrics");
        Ok(Some(control))
    }

    /// Starts the listener if it is missing and the former process has left its address.
    pub(super) fn look(&self) {
        let mut listener = lock(&self.listener);
        if listener.control.is_some() {
            return;
        }
        match self.listen() {
            Ok(control) => listener.control = control,
            Err(failure) => {
                listener.attempts = listener.attempts.saturating_add(1);
                if listener.attempts == ATTEMPTS_MAX {
                    tracing::warn!("{}; trying again", failure.line().unwrap_or_default());
                }
            }
        }
    }

    /// Reports the paths of these disks until the result is dropped.
    pub(super) fn report(&self, disks: &[Disk]) -> Reported {
        let own: Vec<Arc<Paths>> = disks.iter().map(|disk| disk.paths.clone()).collect();
        lock(&self.all).extend(own.iter().cloned());
        Reported { all: self.all.clone(), own }
    }
}

/// Paths that are reported.
pub(super) struct Reported {
    all: AllPaths,
    own: Vec<Arc<Paths>>,
}

impl Drop for Reported {
    fn drop(&mut self) {
        lock(&self.all).retain(|paths| !self.own.iter().any(|own| Arc::ptr_eq(own, paths)));
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

/// The paths of all disks. Those of two disks with one namespace are numbered as if they were one's.
fn reported(all: &[Arc<Paths>]) -> Vec<PathMetrics> {
    let mut counts: BTreeMap<(String, u32), usize> = BTreeMap::new();
    let mut reported = Vec::new();
    for paths in all {
        let (subsystem, nsid) = (paths.subsystem_nqn(), paths.namespace().nsid);
        let count = counts.entry((subsystem.to_owned(), nsid)).or_default();
        for (status, stages) in paths.status().into_iter().zip(paths.stages()) {
            let subsystem = subsystem.to_owned();
            reported.push(PathMetrics { subsystem, nsid, path: *count, status, stages });
            *count += 1;
        }
    }
    reported
}

/// The text that Prometheus scrapes.
fn text(paths: &[PathMetrics]) -> String {
    let (shown, omitted) = paths.split_at(paths.len().min(METRICS_PATHS_MAX));
    let mut text = Exposition::default();
    let name = "selvedge_build_info";
    text.family(name, "gauge", "The version that runs; its value is always 1.");
    text.sample(name, &[("version", &version::NUMBER)], 1);
    let name = "selvedge_omitted";
    text.family(name, "gauge", "Paths that are too many to be reported one by one.");
    text.sample(name, &[("kind", &"path")], omitted.len());
    let name = "selvedge_host_path_live";
    text.family(name, "gauge", "Whether the path of an attached disk is connected.");
    for path in shown {
        text.sample(name, &path.labels(), u8::from(path.status.state == PathState::Live));
    }
    let name = "selvedge_host_path_reconnects_total";
    text.family(name, "counter", "Times that the path was connected again.");
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
    use std::collections::BTreeSet;

    use engine::Histogram;
    use engine::target::Measured;
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
        for (name, kind) in &kinds {
            let row = manual.lines().find(|line| line.starts_with(&format!("| `{name}` | {kind} |")));
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
}
