//! Message of a sweep to the target under test: its points, as in its report, and its progress. The
//! module sends nothing.

use std::time::Duration;

use crate::control::sweeps::{Along as TakenAlong, Interval, SweepBody, SweepPoint, SweepState};
use crate::sweep::family::{Along, families, workloads};
use crate::sweep::journal::Journal;
use crate::sweep::plan::{Plan, PlannedRun};
use crate::sweep::summary::{Quantity, Summary};

/// Time beyond the planned duration of a measurement until the sweep counts as silent: for
/// connecting, and on a busy machine.
const SLACK: Duration = Duration::from_secs(30);

/// Stage of a sweep.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stage<'a> {
    /// Before a measurement; `left` is the remaining time.
    Measuring {
        run: PlannedRun,
        left: Duration,
    },
    Complete,
    Interrupted,
    Broken(&'a str),
}

/// All that is known of a sweep.
pub(crate) fn publication(
    plan: &Plan,
    journal: &Journal,
    machine: Option<String>,
    stage: Stage<'_>,
) -> SweepBody {
    let summaries = Summary::all(plan, journal);
    let along = along(plan);
    let failed = journal.failure_count();
    let (state, reason) = match stage {
        Stage::Measuring { .. } => (SweepState::Running, None),
        Stage::Complete => (SweepState::Complete, None),
        Stage::Interrupted => (SweepState::Interrupted, None),
        Stage::Broken(reason) => (SweepState::Failed, Some(reason.to_owned())),
    };
    let (measuring, left_s) = match stage {
        Stage::Measuring { run, left } => {
            let point = plan.points().into_iter().nth(run.point);
            (point.map(|point| point.label(|option| plan.varies(option))), Some(left.as_secs_f64()))
        }
        _ => (None, None),
    };
    let body = SweepBody {
        began: journal.header.began.clone(),
        machine,
        nsid: journal.header.identity.nsid,
        state,
        reason,
        done: (journal.count() + failed) as u32,
        failed: failed as u32,
        planned: plan.planned_runs().len() as u32,
        left_s,
        // A point's only name may be that it is the only one.
        measuring: measuring.filter(|label| !label.is_empty()),
        quiet_s: (plan.run_takes_at_most() * 2 + SLACK).as_secs_f64(),
        along: taken(along),
        points: points(plan, &summaries, along),
        points_omitted: 0,
    };
    body.within_limits()
}

/// By what number most of its points differ, as in the report's pictures.
fn along(plan: &Plan) -> Along {
    if plan.varies("rate_iops") {
        Along::Load
    } else if plan.varies("nr-io-queues") && !plan.varies("iodepth") && !plan.varies("numjobs") {
        Along::Queues
    } else {
        Along::Outstanding
    }
}

const fn taken(along: Along) -> TakenAlong {
    match along {
        Along::Outstanding => TakenAlong::Outstanding,
        Along::Queues => TakenAlong::Queues,
        Along::Load => TakenAlong::Load,
    }
}

/// The points in the order of the report's lines.
fn points(plan: &Plan, summaries: &[Summary], along: Along) -> Vec<SweepPoint> {
    let mut points = Vec::new();
    for workload in workloads(plan, summaries) {
        for family in families(plan, &workload.members, along) {
            points.extend(family.members.iter().map(|summary| SweepPoint {
                label: summary.label.clone(),
                workload: workload.label.clone(),
                line: family.label.clone(),
                x: place(along, summary),
                runs: summary.runs as u32,
                iops: interval(&summary.iops),
                bytes_per_s: summary.bw_bytes.mean,
                mean_ns: summary.seen_latency().mean_ns.mean,
                p99_ns: interval(&summary.seen_latency().p99_ns),
            }));
        }
    }
    points
}

/// Position of a point in a chart; `None` for full load among loads.
fn place(along: Along, summary: &Summary) -> Option<f64> {
    match along {
        Along::Load => summary.offered_iops,
        Along::Outstanding | Along::Queues => Some(along.of(summary)),
    }
}

const fn interval(quantity: &Quantity) -> Interval {
    let (low, high) = match quantity.interval {
        Some((low, high)) => (Some(low), Some(high)),
        None => (None, None),
    };
    Interval { mean: quantity.mean, low, high }
}
