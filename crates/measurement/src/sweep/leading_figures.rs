//! The figures that stand large above a sweep's report.

use chart::Unit;

use super::choice::{Knee, knee};
use super::family::workloads;
use super::plan::Plan;
use super::summary::Summary;
use crate::report::document::LeadingFigure;

/// Leading figures of a sweep: its highest throughput, the latency at the knee of the workload that reached it, and the load by
/// others.
pub fn leading_figures(plan: &Plan, summaries: &[Summary]) -> Vec<LeadingFigure> {
    let workloads = workloads(plan, summaries);
    let most = |of: fn(&Summary) -> f64| {
        let all =
            workloads.iter().flat_map(|workload| workload.members.iter().map(move |at| (workload, *at)));
        all.max_by(|a, b| of(a.1).total_cmp(&of(b.1)))
    };
    let figure = |name: &str, unit, value, interval, note: &str| LeadingFigure {
        name: name.to_owned(),
        unit,
        value,
        interval,
        note: note.to_owned(),
    };
    let mut figures = Vec::new();
    if let Some((workload, best)) = most(|summary| summary.iops.mean) {
        figures.push(figure("IOPS at most", Unit::Iops, best.iops.mean, best.iops.interval, &best.label));
        let (name, at) = match knee(plan, workload) {
            Some(Knee { summary, is_passed: true }) => ("p99 at the knee", summary),
            _ => ("p99 at the most IOPS", best),
        };
        let p99 = at.seen_latency().p99_ns;
        if p99.count > 0 {
            figures.push(figure(name, Unit::Nanoseconds, p99.mean, p99.interval, &at.label));
        }
    }
    if let Some((_, best)) = most(|summary| summary.bw_bytes.mean) {
        let bandwidth = best.bw_bytes;
        let unit = Unit::BytesPerSecond;
        figures.push(figure("throughput at most", unit, bandwidth.mean, bandwidth.interval, &best.label));
    }
    let others = summaries.iter().filter_map(Summary::taken_by_others).reduce(f64::max);
    if let Some(share) = others {
        let note = "of this machine's processor time, at most";
        figures.push(figure("taken by others", Unit::Percent, share * 100.0, None, note));
    }
    figures
}
