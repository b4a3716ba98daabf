//! Reads that were measured and that waited for a place in a queue: the target takes fewer commands at a time than were asked for.

use chart::units;

use crate::diagnosis::finding::{Finding, Severity};
use crate::doctor::case::Case;
use crate::doctor::measurement::MeasuredRun;
use crate::doctor::rule::Rule;

pub(super) const RULE: Rule = Rule { name: "short-queue", judge };

/// A shorter wait is that of the moment.
const PERCENT_MIN: f64 = 20.0;

fn judge(case: &Case) -> Vec<Finding> {
    let Some(measured) = &case.measured else { return Vec::new() };
    // One entry is always free.
    let is_short = |run: &&MeasuredRun| u32::from(run.queue_size) <= run.iodepth;
    let waits = |run: &&MeasuredRun| run.stages.waiting.share_percent >= PERCENT_MIN;
    let Some(run) = measured.runs.iter().filter(is_short).find(waits) else { return Vec::new() };
    let entries = run.queue_size;
    let cause = format!("The target takes no more than {} commands at a time on a queue", entries - 1);
    let finding = Finding::new(Severity::Limits, &measured.subnqn, cause)
        .costing(run.stages.waiting.share_percent / 100.0)
        .seen(format!(
            "{} reads at a time: each waits {} of {} for one of {entries} entries of its queue",
            run.iodepth,
            units::time_ns(run.stages.waiting.mean_ns),
            units::time_ns(run.latency_ns.mean)
        ));
    vec![finding.cure(
        "Let hosts have more I/O queues, or longer ones where the target has a setting for them.",
        "Commands that wait here today are under way.",
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::sample::{healthy, measured, named_first};

    fn with(waiting_ns: f64, entries: u16) -> Case {
        let mut measured = measured([waiting_ns, 1e3, 100e3, 1e3], Some([0.0, 80e3]));
        let run = &mut measured.runs[1];
        run.queue_size = entries;
        Case { measured: Some(measured), ..healthy() }
    }

    #[test]
    fn a_queue_with_few_entries_is_named() {
        let found = named_first(&with(100e3, 16), RULE.name);
        assert_eq!((found.severity, found.cost_percent), (Severity::Limits, 50.0));
        assert!(found.cause.contains("no more than 15 commands"), "{found:?}");
    }

    #[test]
    fn look_alikes_are_well() {
        // Long enough, or no command waits.
        for (waiting_ns, entries) in [(100e3, 128), (5e3, 16)] {
            assert_eq!(RULE.findings(&with(waiting_ns, entries)), [], "{waiting_ns} {entries}");
        }
        assert_eq!(RULE.findings(&healthy()), []);
    }
}
