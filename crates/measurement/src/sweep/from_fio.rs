//! Results of fio as points of a sweep: each job is a point, and the same job in several files is
//! several measurements of it.

use super::axis::Axis;
use super::plan::Plan;
use super::point::Point;
use super::summary::{LatencySummary, Quantity, Summary};
use crate::bench::latency_map::LatencyGrid;
use crate::fio::json::{FioJob, FioRun, FioSide};
use crate::flags::sweep::{AXES, Given};

/// The name of a job, where its options do not tell it from others.
const NAME: &str = "job";

/// The points of some runs of fio, and the plan that they would have been.
///
/// # Errors
/// When no job has done anything.
pub fn points(runs: &[FioRun]) -> Result<(Plan, Vec<Summary>), String> {
    let named = runs.iter().any(|run| {
        let points: Vec<Point> = run.jobs.iter().map(|job| point(job, false)).collect();
        points.iter().enumerate().any(|(at, point)| points[..at].contains(point))
    });
    let mut groups: Vec<(Point, Vec<&FioJob>)> = Vec::new();
    // One that failed before it did anything is a point that is missing.
    let counts = |job: &&FioJob| job.read.is_some() || job.write.is_some() || job.error != 0;
    for job in runs.iter().flat_map(|run| &run.jobs).filter(counts) {
        let point = point(job, named);
        match groups.iter_mut().find(|(other, _)| *other == point) {
            Some((_, jobs)) => jobs.push(job),
            None => groups.push((point, vec![job])),
        }
    }
    if groups.iter().all(|(_, jobs)| jobs.iter().all(|job| job.read.is_none() && job.write.is_none())) {
        return Err("no job in it has read or written anything".to_owned());
    }
    let plan = plan(runs, &groups);
    let summaries = groups.into_iter().map(|(point, jobs)| summary(&plan, point, &jobs)).collect();
    Ok((plan, summaries))
}

fn point(job: &FioJob, named: bool) -> Point {
    let value = |option: &str, value: String| (option.to_owned(), value);
    let mut values = Vec::new();
    if named {
        values.push(value(NAME, job.name.clone()));
    }
    values.push(value("rw", job.rw.clone()));
    values.extend(job.bs_bytes.map(|bytes| value("bs", bytes.to_string())));
    values.push(value("numjobs", job.numjobs.to_string()));
    values.push(value("iodepth", job.iodepth.to_string()));
    Point { values }
}

fn plan(runs: &[FioRun], groups: &[(Point, Vec<&FioJob>)]) -> Plan {
    let axis = |option: &str| {
        let mut values: Vec<String> = Vec::new();
        for value in groups.iter().filter_map(|(point, _)| point.value(option)) {
            if !values.iter().any(|other| other == value) {
                values.push(value.to_owned());
            }
        }
        (!values.is_empty()).then(|| Axis { option: option.to_owned(), values })
    };
    let versions: Vec<String> = runs.iter().map(|run| run.version.clone()).collect();
    Plan {
        preset: None,
        fixed: vec![Given { option: "fio".to_owned(), values: versions }],
        axes: std::iter::once(NAME).chain(AXES).filter_map(axis).collect(),
        repeat: groups.iter().map(|(_, jobs)| jobs.len()).max().unwrap_or(1) as u32,
        pause_ms: 0,
        steady_rounds_max: None,
        in_order: true,
        seed: 0,
        latency_target_ns: None,
        left_out: Vec::new(),
    }
}

fn summary(plan: &Plan, point: Point, jobs: &[&FioJob]) -> Summary {
    let failures =
        jobs.iter().filter(|job| job.error != 0).map(|job| format!("fio's error {}", job.error)).collect();
    let jobs: Vec<&FioJob> =
        jobs.iter().filter(|job| job.read.is_some() || job.write.is_some()).copied().collect();
    let jobs = jobs.as_slice();
    let sides = |job: &FioJob| [job.read, job.write].into_iter().flatten().collect::<Vec<FioSide>>();
    let sum = |of: fn(&FioSide) -> f64| Quantity::of(jobs.iter().map(|job| sides(job).iter().map(of).sum()));
    Summary {
        label: point.label(|option| plan.varies(option)),
        outstanding: point.outstanding(),
        queues: point.queues(),
        queues_granted: point.queues() as usize,
        runs: jobs.len(),
        failures,
        iops: sum(|side| side.iops),
        bw_bytes: sum(|side| side.bw_bytes),
        offered_iops: None,
        latency: LatencySummary {
            mean_ns: weighted(jobs, |side| Some(side.mean_ns)),
            p50_ns: weighted(jobs, |side| side.p50_ns),
            p99_ns: worst(jobs, |side| side.p99_ns),
            p99_9_ns: worst(jobs, |side| side.p99_9_ns),
            max_ns: 0,
            quantiles_ns: Vec::new(),
        },
        response: None,
        stages: None,
        cpu_ns_per_io: Quantity::default(),
        target_cpu_ns_per_io: None,
        cpus: 0.0,
        target_cpus: None,
        machine_busy: None,
        interrupts: None,
        foreign: None,
        stolen: None,
        workers: 0,
        engine: "fio".to_owned(),
        unsteady: 0,
        latency_grid: LatencyGrid::default(),
        point,
    }
}

/// Reads and writes by how many there were: exact for means; fio does not tell what their common median would be.
fn weighted(jobs: &[&FioJob], of: fn(&FioSide) -> Option<f64>) -> Quantity {
    Quantity::of(jobs.iter().filter_map(|job| {
        let sides: Vec<(f64, f64)> = [job.read, job.write]
            .into_iter()
            .flatten()
            .filter_map(|side| Some((of(&side)?, side.ios as f64)))
            .collect();
        let ios: f64 = sides.iter().map(|(_, ios)| ios).sum();
        (ios > 0.0).then(|| sides.iter().map(|(value, ios)| value * ios).sum::<f64>() / ios)
    }))
}

/// The longer of reads' and writes': their common percentile is no longer than that.
fn worst(jobs: &[&FioJob], of: fn(&FioSide) -> Option<f64>) -> Quantity {
    Quantity::of(jobs.iter().filter_map(|job| {
        let values = [job.read, job.write].into_iter().flatten().filter_map(|side| of(&side));
        values.reduce(f64::max)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::{PRINTED_BY_FIO, json};

    #[test]
    fn fios_jobs_are_points() {
        let run = json::read(PRINTED_BY_FIO).unwrap();
        let (plan, summaries) = points(&[run.clone(), run.clone()]).unwrap();
        assert_eq!(plan.repeat, 2);
        assert_eq!(summaries.len(), run.jobs.len());
        for (summary, job) in summaries.iter().zip(&run.jobs) {
            let iops: f64 = [job.read, job.write].into_iter().flatten().map(|side| side.iops).sum();
            assert!((summary.iops.mean - iops).abs() < 1e-6 && summary.runs == 2, "{summary:?}");
            assert!(summary.latency.p99_ns.mean > 0.0);
        }
        assert!(points(&[]).unwrap_err().contains("no job"));
        // One that failed is a point that is missing, and one without percentiles has none of no time.
        let mut failed = run.clone();
        failed.jobs[0] = FioJob { error: 5, read: None, write: None, ..failed.jobs[0].clone() };
        let without = &mut failed.jobs[1];
        for side in [&mut without.read, &mut without.write].into_iter().flatten() {
            (side.p50_ns, side.p99_ns, side.p99_9_ns) = (None, None, None);
        }
        let (plan, summaries) = points(&[failed.clone()]).unwrap();
        assert_eq!(
            (summaries[0].runs, summaries[0].failures.as_slice()),
            (0, &["fio's error 5".to_owned()][..])
        );
        assert!(!summaries[0].is_measured() && summaries[1].is_measured());
        let table = serde_json::to_string(&super::super::tables::points(&plan, &summaries)).unwrap();
        assert!(!table.contains("p99"), "{table}");
        let nothing = FioRun { jobs: vec![failed.jobs[0].clone()], ..run };
        assert!(points(&[nothing]).is_err());
    }
}
