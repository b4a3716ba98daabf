//! The measurement of `doctor --measure`: reads of one namespace, one command at a time and many at a time. What they mean is the
//! rules' to say.

use measurement::flags::bench::BenchFlags;
use measurement::setting::{Setting, fit};
use measurement::top::initiator::progress;
use measurement::workload::Workload;

use crate::bench::run::Outcome;
use crate::doctor::measurement::{MeasuredRun, Measurement};
use crate::failure::Failure;
use crate::flags::doctor::DoctorFlags;
use crate::report::stages::{StagesReport, TargetStagesReport};
use crate::stop::Stop;

/// Commands under way: with one, each has the way and the target for itself; with many, something becomes the limit.
const DEPTHS: [u32; 2] = [1, 32];
/// Workload of the reads. A tenth of the time is not counted: connections are new, and disks may
/// sleep.
const WORKLOAD: [&str; 6] =
    ["--rw=randread", "--bs=4k", "--numjobs=1", "--runtime=2", "--time_based", "--ramp_time=0.2"];

/// Reads, and tells how far it is.
pub(super) fn measure(flags: &DoctorFlags, stop: &Stop) -> Result<Measurement, Failure> {
    let mut runs = Vec::new();
    let mut subnqn = String::new();
    for depth in DEPTHS {
        let bench = line(flags, depth).map_err(Failure::usage)?;
        let setting = Setting::new(&bench, stop)?;
        setting.nqn().as_str().clone_into(&mut subnqn);
        runs.push(run(&bench, &setting, depth)?);
    }
    Ok(Measurement { traddr: flags.traddr.clone(), subnqn, nsid: flags.nsid, runs })
}

/// The line of `bench` for it. What was typed behind the hyphens comes last, and is for the connection: the workload cannot be
/// given twice.
fn line(flags: &DoctorFlags, depth: u32) -> Result<BenchFlags, String> {
    let mut line = vec!["bench".to_owned()];
    line.extend(WORKLOAD.map(str::to_owned));
    line.extend([format!("--iodepth={depth}"), format!("--traddr={}", flags.traddr.join(","))]);
    line.extend([format!("--trsvcid={}", flags.trsvcid), format!("--nsid={}", flags.nsid)]);
    line.extend(flags.nqn.iter().map(|nqn| format!("--nqn={nqn}")));
    line.extend(flags.bench_options.iter().cloned());
    let bench = BenchFlags::of_line(line)?;
    if bench.job_file.is_some() {
        return Err("what follows two hyphens is options for the connection, not a job file".to_owned());
    }
    Ok(bench)
}

fn run(flags: &BenchFlags, setting: &Setting<'_>, depth: u32) -> Result<MeasuredRun, Failure> {
    let (workload, _) = Workload::new(flags)?;
    let queues = setting.queues(&workload, None);
    let placements = setting.place(queues);
    let paths = setting.connect(queues, placements.as_ref())?;
    let fitted = fit(workload, &paths.controllers(), &paths.namespace(), None)?;
    let run = setting.run(&paths, &fitted, placements.as_ref());
    measured(progress::follow(&run, None)?, depth)
}

fn measured(outcome: Outcome, depth: u32) -> Result<MeasuredRun, Failure> {
    if outcome.interrupted {
        return Err(Failure::interrupted("interrupted during the measurement"));
    }
    if let Some(failure) = outcome.failure {
        return Err(failure);
    }
    let total = outcome.tallies.total();
    let stages = StagesReport::of_all(&outcome.stages).filter(|_| total.count() > 0);
    let stages = stages.ok_or_else(|| Failure::failed("no read completed during the measurement"))?;
    Ok(MeasuredRun {
        iodepth: depth,
        queue_size: outcome.queue_entries,
        iops: total.count() as f64 / outcome.elapsed.as_secs_f64(),
        latency_ns: total.latency(),
        stages,
        target_stages: outcome.target_stages.as_ref().map(TargetStagesReport::new),
    })
}
