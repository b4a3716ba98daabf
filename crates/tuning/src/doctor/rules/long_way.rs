//! Reads that were measured and whose time is spent on the way to the target and back.

use chart::units;

use crate::diagnosis::finding::{Finding, Severity};
use crate::doctor::case::Case;
use crate::doctor::rule::Rule;

pub(super) const RULE: Rule = Rule { name: "long-way", judge };

/// Ways within a building take a tenth of it.
const LONG_NS: f64 = 1e6;
/// Less of a read's time is not what one waits for.
const SHARE_MIN: f64 = 0.5;

fn judge(case: &Case) -> Vec<Finding> {
    let Some(measured) = &case.measured else { return Vec::new() };
    // What a read takes beside it may be the target, or processors that are busy: a connection takes the way alone.
    let Some((run, way_ns)) = measured.alone().zip(case.rtt_ns()) else { return Vec::new() };
    let share = way_ns / run.latency_ns.mean.max(1.0);
    if way_ns < LONG_NS || share < SHARE_MIN {
        return Vec::new();
    }
    let (way, read) = (units::time_ns(way_ns), units::time_ns(run.latency_ns.mean));
    let addresses = measured.traddr.join(", ");
    let cause = format!("The way to {addresses} and back takes {way} of the {read} that a read takes");
    let many = measured.runs.iter().max_by_key(|run| run.iodepth).filter(|many| many.iodepth > 1);
    let finding = Finding::new(Severity::Slows, &addresses, cause).costing(share);
    let finding = finding.seen(format!("one read at a time: {} IOPS", units::count(run.iops)));
    let finding = match many {
        Some(many) => finding.seen(format!(
            "{} at a time: {} IOPS, a read takes {}",
            many.iodepth,
            units::count(many.iops),
            units::time_ns(many.latency_ns.mean)
        )),
        None => finding,
    };
    vec![finding.cure(
        "Keep more commands under way, which share the way; or bring host and target closer together.",
        "With twice as many commands under way twice as many are done, until something else is full.",
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::sample::{healthy, measured, named_first};
    use crate::probe::Probe;

    fn with(rtt_us: u64, target_ns: f64) -> Case {
        let mut case = Case { measured: Some(measured([0.0, 1e3, target_ns, 1e3], None)), ..healthy() };
        case.host.paths.iter_mut().for_each(|path| path.probe = Some(Probe::Reached { rtt_us }));
        case
    }

    #[test]
    fn time_on_the_way_differs_from_time_at_the_target() {
        let found = named_first(&with(4900, 5e6), RULE.name);
        assert_eq!(found.cost_percent, 98.0);
        assert!(found.cause.contains("takes 4.90 ms of the 5.00 ms"), "{found:?}");
    }

    #[test]
    fn look_alikes_are_well() {
        for (rtt_us, target_ns) in [(120, 200e3), (900, 1e6), (2000, 9e6)] {
            assert_eq!(RULE.findings(&with(rtt_us, target_ns)), [], "{rtt_us} {target_ns}");
        }
        assert_eq!(RULE.findings(&healthy()), []);
    }
}
