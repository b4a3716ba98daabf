//! A point with all its measurements together. It keeps out what different points say of each other.

use serde::{Deserialize, Serialize};

use super::journal::Journal;
use super::measurement::{Measurement, QUANTILES};
use super::plan::Plan;
use super::point::Point;
use super::statistics::{Sample, median};
use crate::bench::latency_map::LatencyGrid;
use crate::report::stages::{StageReport, StagesReport};

/// A quantity that was measured several times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantity {
    pub mean: f64,
    /// Interval that holds the true mean with 95 % confidence, with two measurements or more.
    pub interval: Option<(f64, f64)>,
    /// Of the measurements.
    pub(crate) variance: f64,
    pub count: usize,
}

impl Quantity {
    /// Of these values.
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.collect();
        let sample = Sample::of(&values);
        // None of these quantities can be less than nothing.
        let interval = sample.interval().map(|(low, high)| (low.max(0.0), high));
        Self { mean: sample.mean, interval, variance: sample.variance, count: sample.count }
    }

    /// For comparing.
    pub const fn sample(&self) -> Sample {
        Sample { count: self.count, mean: self.mean, variance: self.variance }
    }
}

/// Latency of a point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    pub mean_ns: Quantity,
    pub(crate) p50_ns: Quantity,
    pub p99_ns: Quantity,
    pub(crate) p99_9_ns: Quantity,
    /// The longest of all.
    pub(crate) max_ns: u64,
    /// Medians over the measurements, at the quantiles that the report names.
    pub(crate) quantiles_ns: Vec<f64>,
}

/// Time of a point's commands by stage, per command.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageSummary {
    pub(crate) waiting_ns: Quantity,
    pub(crate) sending_ns: Quantity,
    pub(crate) target_ns: Quantity,
    pub(crate) receiving_ns: Quantity,
}

/// A point of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub point: Point,
    /// Label that distinguishes the point from the others.
    pub label: String,
    pub outstanding: u64,
    /// Queues of each path: asked for, and granted at least.
    pub queues: u64,
    pub(crate) queues_granted: usize,
    /// Measurements, and why others failed.
    pub runs: usize,
    pub failures: Vec<String>,
    pub iops: Quantity,
    pub bw_bytes: Quantity,
    pub offered_iops: Option<f64>,
    /// Since commands were sent.
    pub latency: LatencySummary,
    /// Since they were due, where a rate is set.
    pub(crate) response: Option<LatencySummary>,
    /// Time by stage, if measured.
    #[serde(default)]
    pub(crate) stages: Option<StageSummary>,
    pub(crate) cpu_ns_per_io: Quantity,
    pub(crate) target_cpu_ns_per_io: Option<Quantity>,
    /// Processors that the initiator's workers, and the target, kept busy.
    pub cpus: f64,
    pub(crate) target_cpus: Option<f64>,
    /// Load of all processors of this machine, from 0 to 1.
    pub machine_busy: Option<f64>,
    /// The part of it that was in interrupts, the network's among them.
    #[serde(default)]
    pub(crate) interrupts: Option<f64>,
    /// The part of it that other programs took.
    #[serde(default)]
    pub foreign: Option<f64>,
    /// The part of it that a hypervisor took for other machines.
    #[serde(default)]
    pub stolen: Option<f64>,
    pub(crate) workers: usize,
    pub engine: String,
    /// Measurements that were not steady in themselves.
    pub(crate) unsteady: usize,
    /// Of the measurement in the middle.
    pub(crate) latency_grid: LatencyGrid,
}

impl Summary {
    /// All points of a sweep, as far as they were measured.
    pub fn all(plan: &Plan, journal: &Journal) -> Vec<Self> {
        let points = plan.points();
        let all = points.into_iter().enumerate().map(|(number, point)| {
            let runs: Vec<&Measurement> = journal.measurements(number).collect();
            Self::of(plan, point, &runs, journal.failures(number).map(str::to_owned).collect())
        });
        all.collect()
    }

    /// Of these measurements.
    pub(super) fn of(plan: &Plan, point: Point, runs: &[&Measurement], failures: Vec<String>) -> Self {
        let each = |of: &dyn Fn(&Measurement) -> f64| Quantity::of(runs.iter().map(|run| of(run)));
        let mean = |of: &dyn Fn(&Measurement) -> Option<f64>| {
            let values: Vec<f64> = runs.iter().filter_map(|run| of(run)).collect();
            (!values.is_empty()).then(|| Sample::of(&values).mean)
        };
        let target_cpu: Vec<f64> = runs.iter().filter_map(|run| run.target_cpu_ns_per_io()).collect();
        let over =
            |seconds: f64, run: &Measurement| if run.elapsed_s > 0.0 { seconds / run.elapsed_s } else { 0.0 };
        let middle = median(&runs.iter().map(|run| run.total.iops).collect::<Vec<_>>());
        let far = |run: &Measurement| (run.total.iops - middle).abs();
        let typical = runs.iter().min_by(|a, b| far(a).total_cmp(&far(b)));
        Self {
            label: point.label(|option| plan.varies(option)),
            outstanding: point.outstanding(),
            queues: point.queues(),
            queues_granted: runs.iter().map(|run| run.queues).min().unwrap_or(0),
            runs: runs.len(),
            failures,
            iops: each(&|run| run.total.iops),
            bw_bytes: each(&|run| run.total.bw_bytes),
            offered_iops: mean(&|run| run.offered_iops),
            latency: LatencySummary::sent(runs),
            response: LatencySummary::due(runs),
            stages: StageSummary::of(runs),
            cpu_ns_per_io: each(&Measurement::cpu_ns_per_io),
            target_cpu_ns_per_io: (!target_cpu.is_empty()).then(|| Quantity::of(target_cpu.into_iter())),
            cpus: mean(&|run| Some(over(run.cpu_s, run))).unwrap_or(0.0),
            target_cpus: mean(&|run| run.target_cpu_s.map(|seconds| over(seconds, run))),
            machine_busy: mean(&|run| run.machine_busy),
            interrupts: mean(&|run| run.interrupts),
            foreign: mean(&|run| run.foreign),
            stolen: mean(&|run| run.stolen),
            workers: typical.map_or(0, |run| run.workers),
            engine: typical.map(|run| run.engine.clone()).unwrap_or_default(),
            unsteady: runs.iter().filter(|run| run.steady == Some(false)).count(),
            latency_grid: typical.map(|run| run.latency_grid.clone()).unwrap_or_default(),
            point,
        }
    }

    /// The latency that a user sees: since commands were due, where they were due at a time, and else since they were
    /// sent.
    pub fn seen_latency(&self) -> &LatencySummary {
        self.response.as_ref().unwrap_or(&self.latency)
    }

    /// Part of this machine's processor time that others took: programs besides both ends, and other machines. Nothing where
    /// neither is known.
    pub(crate) fn taken_by_others(&self) -> Option<f64> {
        let known: Vec<f64> = [self.foreign, self.stolen].into_iter().flatten().collect();
        (!known.is_empty()).then(|| known.iter().sum())
    }

    /// True if the point has a measurement.
    pub(crate) const fn is_measured(&self) -> bool {
        self.runs > 0
    }
}

impl StageSummary {
    /// Of these measurements, where all of them have it.
    fn of(runs: &[&Measurement]) -> Option<Self> {
        let all: Vec<&StagesReport> = runs.iter().map(|run| run.stages.as_ref()).collect::<Option<_>>()?;
        if all.is_empty() {
            return None;
        }
        let mean_ns =
            |of: fn(&StagesReport) -> &StageReport| Quantity::of(all.iter().map(|stages| of(stages).mean_ns));
        Some(Self {
            waiting_ns: mean_ns(|stages| &stages.waiting),
            sending_ns: mean_ns(|stages| &stages.sending),
            target_ns: mean_ns(|stages| &stages.target),
            receiving_ns: mean_ns(|stages| &stages.receiving),
        })
    }
}

impl LatencySummary {
    fn sent(runs: &[&Measurement]) -> Self {
        let all = runs.iter().map(|run| (run.total.lat_ns, run.quantiles_ns.as_slice()));
        Self::of(&all.collect::<Vec<_>>())
    }

    fn due(runs: &[&Measurement]) -> Option<Self> {
        let all = runs.iter().map(|run| Some((run.response_ns?, run.response_quantiles_ns.as_deref()?)));
        let all = all.collect::<Option<Vec<_>>>().filter(|all| !all.is_empty())?;
        Some(Self::of(&all))
    }

    fn of(all: &[(crate::bench::histogram::LatencyNs, &[u64])]) -> Self {
        let at = |quantile: usize| {
            let values = all.iter().filter_map(|(_, quantiles)| quantiles.get(quantile));
            median(&values.map(|value| *value as f64).collect::<Vec<_>>())
        };
        Self {
            mean_ns: Quantity::of(all.iter().map(|(latency, _)| latency.mean)),
            p50_ns: Quantity::of(all.iter().map(|(latency, _)| latency.p50 as f64)),
            p99_ns: Quantity::of(all.iter().map(|(latency, _)| latency.p99 as f64)),
            p99_9_ns: Quantity::of(all.iter().map(|(latency, _)| latency.p99_9 as f64)),
            max_ns: all.iter().map(|(latency, _)| latency.max).max().unwrap_or(0),
            quantiles_ns: (0..QUANTILES.len()).map(at).collect(),
        }
    }
}
