//! Recorded data of one measurement of a point. The bench measures; the summary combines several
//! measurements.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::environment::Busy;
use super::steady::Unrest;
use crate::bench::histogram::{LatencyNs, Tallies, Tally};
use crate::bench::latency_map::LatencyGrid;
use crate::bench::run::Outcome;
use crate::bench::throughput::Intervals;
use crate::report::bench::OperationReport;
use crate::report::stages::StagesReport;

/// The quantiles that are kept of every measurement.
pub(crate) const QUANTILES: [f64; 14] =
    [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 1.0];

/// Parts that a measurement is divided into, to see whether it was steady.
const PARTS: usize = super::steady::WINDOW;

/// Result of one measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Seconds from the sweep's beginning to this measurement's end.
    pub at_s: f64,
    /// Time that was measured.
    pub elapsed_s: f64,
    pub read: Option<OperationReport>,
    pub write: Option<OperationReport>,
    /// Reads and writes together.
    pub total: OperationReport,
    /// Since commands were sent; at the quantiles that `sweep.jsonl` names.
    pub quantiles_ns: Vec<u64>,
    /// Since commands were due, where a rate is set.
    pub response_ns: Option<LatencyNs>,
    pub response_quantiles_ns: Option<Vec<u64>>,
    /// Commands a second that were due, where a rate is set.
    pub offered_iops: Option<f64>,
    /// Processor time of the initiator's workers, and of the target where it is known.
    pub cpu_s: f64,
    pub target_cpu_s: Option<f64>,
    /// Load of all processors of this machine, from 0 to 1.
    pub machine_busy: Option<f64>,
    /// The part of it that was in interrupts; not in journals of before.
    #[serde(default)]
    pub interrupts: Option<f64>,
    /// The part of it that other programs took, where the target's is known or elsewhere; absent in older journals.
    #[serde(default)]
    pub foreign: Option<f64>,
    /// The part of it that a hypervisor took for other machines; absent in older journals.
    #[serde(default)]
    pub stolen: Option<f64>,
    /// Time of commands by stage; absent in older journals.
    #[serde(default)]
    pub stages: Option<StagesReport>,
    pub workers: usize,
    /// Queues of each path that the target granted, and their entries.
    pub queues: usize,
    pub queue_entries: u16,
    pub engine: String,
    /// IOPS of each round, where it went on until it was steady.
    pub rounds_iops: Vec<f64>,
    /// True if the rounds were steady; `None` if the measurement was too short for that.
    pub steady: Option<bool>,
    pub unrest: Option<Unrest>,
    pub latency_grid: LatencyGrid,
}

/// Data about a measurement beside the bench's outcome.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    pub at: Duration,
    pub busy: Option<Busy>,
    /// Share of other programs, where it is known.
    pub foreign: Option<f64>,
    pub offered_iops: Option<f64>,
    /// IOPS of each round, where there were several.
    pub rounds_iops: &'a [f64],
}

impl Measurement {
    /// Of rounds that followed one another; at least one.
    pub fn of(rounds: &[Outcome], around: Around<'_>) -> Self {
        let mut tallies = Tallies::default();
        rounds.iter().for_each(|round| tallies.merge(&round.tallies));
        let elapsed: Duration = rounds.iter().map(|round| round.elapsed).sum();
        let seconds = elapsed.as_secs_f64();
        let total = tallies.total();
        let last = rounds.last();
        let unrest = match around.rounds_iops {
            [] => last.and_then(|last| Unrest::of(&parts(&last.intervals))),
            several => Unrest::of(&several[several.len().saturating_sub(super::steady::WINDOW)..]),
        };
        let target_cpu: Option<Duration> = rounds.iter().map(|round| round.target_cpu).sum();
        let stages: Vec<_> = rounds.iter().flat_map(|round| round.stages.iter().copied()).collect();
        let response = (tallies.response.count() > 0).then_some(&tallies.response);
        Self {
            at_s: around.at.as_secs_f64(),
            elapsed_s: seconds,
            read: OperationReport::some(&tallies.read, seconds),
            write: OperationReport::some(&tallies.write, seconds),
            quantiles_ns: quantiles(&total),
            response_ns: response.map(Tally::latency),
            response_quantiles_ns: response.map(quantiles),
            total: OperationReport::new(&total, seconds),
            offered_iops: around.offered_iops,
            cpu_s: rounds.iter().map(|round| round.cpu.as_secs_f64()).sum(),
            target_cpu_s: target_cpu.map(|time| time.as_secs_f64()),
            machine_busy: around.busy.map(|busy| busy.all),
            interrupts: around.busy.map(|busy| busy.interrupts),
            foreign: around.foreign,
            stolen: around.busy.map(|busy| busy.stolen),
            stages: StagesReport::of_all(&stages),
            workers: last.map_or(0, |last| last.workers),
            queues: last.map_or(0, |last| last.queues),
            queue_entries: last.map_or(0, |last| last.queue_entries),
            engine: last.map_or("", |last| last.engine).to_owned(),
            rounds_iops: around.rounds_iops.to_vec(),
            steady: unrest.map(|unrest| unrest.is_steady()),
            unrest,
            latency_grid: last.map(|last| last.latency_grid.clone()).unwrap_or_default(),
        }
    }

    /// Processor time of the initiator's workers per command, in nanoseconds.
    pub(crate) fn cpu_ns_per_io(&self) -> f64 {
        per_io(self.cpu_s, self.total.ios)
    }

    /// Processor time of the target per command, if known.
    pub(crate) fn target_cpu_ns_per_io(&self) -> Option<f64> {
        self.target_cpu_s.map(|seconds| per_io(seconds, self.total.ios))
    }
}

fn per_io(seconds: f64, ios: u64) -> f64 {
    if ios == 0 { 0.0 } else { seconds * 1e9 / ios as f64 }
}

fn quantiles(tally: &Tally) -> Vec<u64> {
    QUANTILES.iter().map(|quantile| tally.quantile_ns(*quantile)).collect()
}

/// Bytes of equally long parts of a measurement; none where it was too short to be divided.
fn parts(intervals: &Intervals) -> Vec<f64> {
    let length = intervals.read_bytes.len().max(intervals.write_bytes.len());
    // The last interval need not be a whole one.
    let part = length.saturating_sub(1) / PARTS;
    if part == 0 {
        return Vec::new();
    }
    let bytes = |at: usize| {
        let of = |side: &[u64]| side.get(at).copied().unwrap_or(0) as f64;
        of(&intervals.read_bytes) + of(&intervals.write_bytes)
    };
    (0..PARTS).map(|number| (number * part..(number + 1) * part).map(bytes).sum()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_is_divided_into_equal_parts() {
        let intervals = |read: Vec<u64>, write: Vec<u64>| Intervals {
            interval_s: 0.25,
            read_bytes: read,
            write_bytes: write,
        };
        assert_eq!(parts(&intervals(vec![1; 5], vec![])), Vec::<f64>::new());
        assert_eq!(parts(&intervals(vec![1; 11], vec![2; 11])), [6.0; 5]);
        assert_eq!(parts(&intervals(vec![], vec![2; 6])), [2.0; 5]);
    }
}
