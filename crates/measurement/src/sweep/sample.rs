//! Synthetic measurements, for tests.

use super::advice::Surroundings;
use super::journal::Identity;
use super::measurement::{Measurement, QUANTILES};
use super::plan::Plan;
use super::summary::Summary;
use crate::bench::histogram::LatencyNs;
use crate::bench::latency_map::LatencyGrid;
use crate::flags::sweep::SweepFlags;
use crate::report::bench::OperationReport;

pub const SURROUNDINGS: Surroundings = Surroundings { processors: 2, is_local: false, link_bits: None };

pub fn identity() -> Identity {
    Identity { nqn: "nqn.a".into(), nsid: 1, bytes: 1 << 30, unique: None, surroundings: SURROUNDINGS }
}

/// A measurement of this number of commands a second, with this mean latency.
pub fn measurement(iops: f64, mean_ns: f64) -> Measurement {
    let times = |factor: f64| (mean_ns * factor) as u64;
    let lat_ns =
        LatencyNs { mean: mean_ns, p50: times(0.9), p99: times(3.0), p99_9: times(5.0), max: times(20.0) };
    let ios = (iops * 5.0) as u64;
    let total = OperationReport { ios, bytes: ios * 4096, iops, bw_bytes: iops * 4096.0, lat_ns };
    Measurement {
        at_s: 5.0,
        elapsed_s: 5.0,
        read: Some(total.clone()),
        write: None,
        total,
        quantiles_ns: QUANTILES.iter().map(|quantile| times(quantile * 3.0)).collect(),
        response_ns: None,
        response_quantiles_ns: None,
        offered_iops: None,
        cpu_s: 2.0,
        target_cpu_s: Some(1.0),
        machine_busy: Some(0.5),
        interrupts: Some(0.1),
        foreign: Some(0.0),
        stolen: Some(0.0),
        stages: None,
        workers: 1,
        queues: 1,
        queue_entries: 128,
        engine: "io_uring".into(),
        rounds_iops: Vec::new(),
        steady: Some(true),
        unrest: None,
        latency_grid: LatencyGrid {
            column_s: 0.25,
            edges_ns: vec![1024, 1280, 1536],
            counts: vec![vec![10, 2]; 20],
        },
    }
}

/// A plan, and its points as `measure` measured each of them, twice or more.
pub fn sweep(
    arguments: &str,
    measure: impl Fn(&super::point::Point) -> Vec<Measurement>,
) -> (Plan, Vec<Summary>) {
    let line = format!("-a 10.0.0.1 -n nqn.a {arguments}");
    let plan = Plan::new(&SweepFlags::of(&line).unwrap()).unwrap();
    let summaries = plan.points().into_iter().map(|point| {
        let runs = measure(&point);
        Summary::of(&plan, point, &runs.iter().collect::<Vec<_>>(), Vec::new())
    });
    let summaries = summaries.collect();
    (plan, summaries)
}
