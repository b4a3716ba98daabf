//! Reads that were measured and whose time is spent at the target, in its storage or held by its limits.

use chart::units;

use crate::diagnosis::finding::{Finding, Severity};
use crate::doctor::case::Case;
use crate::doctor::measurement::MeasuredRun;
use crate::doctor::rule::Rule;

pub(super) const RULE: Rule = Rule { name: "slow-answers", judge };

/// Latency of sound disks: flash needs a tenth of it, networked disks nearly all.
const SLOW_NS: f64 = 1e6;
/// Less of a read's time is not what one waits for.
const SHARE_MIN: f64 = 0.5;

fn judge(case: &Case) -> Vec<Finding> {
    let Some(measured) = &case.measured else { return Vec::new() };
    let rtt_ns = case.rtt_ns();
    let slow = measured.alone().and_then(|run| Some((run, run.at_target_ns(rtt_ns)?)));
    let slow = slow.filter(|(run, ns)| *ns >= SLOW_NS && *ns >= run.latency_ns.mean * SHARE_MIN);
    slow.map(|(run, ns)| finding(&measured.name(), run, ns, rtt_ns)).into_iter().collect()
}

fn finding(name: &str, run: &MeasuredRun, at_target_ns: f64, rtt_ns: Option<f64>) -> Finding {
    let share = at_target_ns / run.latency_ns.mean.max(1.0);
    let (took, read) = (units::time_ns(at_target_ns), units::time_ns(run.latency_ns.mean));
    let limits_ns = run.target_stages.map_or(0.0, |target| target.limits_ns);
    let is_limited = limits_ns >= at_target_ns * SHARE_MIN;
    let (severity, cause) = match is_limited {
        true => (Severity::Limits, format!("Limits of {name} hold reads back for {took} of {read}")),
        false => (Severity::Slows, format!("Reads of {name} take {took} of {read} at the target itself")),
    };
    let finding = Finding::new(severity, name, cause).costing(share);
    let finding = match (run.target_stages.and_then(|target| target.parts()), rtt_ns) {
        (Some(parts), _) => finding.seen(format!("the target says: {parts}")),
        (None, Some(rtt_ns)) => {
            let rtt = units::time_ns(rtt_ns);
            finding.seen(format!("a connection was made in {rtt}; the rest of the time is the target's"))
        }
        (None, None) => finding,
    };
    let finding = finding.seen(format!(
        "one read at a time: {} IOPS, 99 % took at most {}",
        units::count(run.iops),
        units::time_ns(run.latency_ns.p99 as f64)
    ));
    let expected = format!("A read takes {} less.", units::time_ns(at_target_ns));
    if is_limited {
        return finding.cure("Raise the limit at the target, if this host may have more.", &expected);
    }
    let cure = "Look at the target's disks and at what else uses them: on its machine, doctor names more.";
    finding.cure(cure, &expected).command("selvedge doctor".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::sample::{healthy, measured, named_first};

    fn with(stages_ns: [f64; 4], target_ns: Option<[f64; 2]>) -> Case {
        Case { measured: Some(measured(stages_ns, target_ns)), ..healthy() }
    }

    #[test]
    fn storage_and_limits_are_distinguished() {
        let found = named_first(&with([0.0, 1e3, 6e6, 1e3], Some([0.0, 5.8e6])), RULE.name);
        assert_eq!((found.severity, found.cost_percent), (Severity::Slows, 97.0));
        assert!(found.evidence[0].contains("storage 5.80 ms"), "{found:?}");
        let found = named_first(&with([0.0, 1e3, 20e6, 1e3], Some([19e6, 0.5e6])), RULE.name);
        assert_eq!(found.severity, Severity::Limits);
        assert!(found.cause.starts_with("Limits of namespace 1 of"), "{found:?}");
    }

    #[test]
    fn of_another_target_the_round_trip_is_known() {
        let found = named_first(&with([0.0, 1e3, 6e6, 1e3], None), RULE.name);
        assert!(found.evidence[0].starts_with("a connection was made in"), "{found:?}");
        let mut unknown = with([0.0, 1e3, 6e6, 1e3], None);
        unknown.host.paths.iter_mut().for_each(|path| path.probe = None);
        assert_eq!(RULE.findings(&unknown), [], "it may be the network");
    }

    #[test]
    fn look_alikes_are_well() {
        for (stages_ns, target_ns) in [
            ([0.0, 1e3, 90e3, 1e3], Some([0.0, 80e3])),
            ([0.0, 1e3, 900e3, 1e3], None),
            // Most of it is the way, or this host.
            ([0.0, 1e3, 20e6, 1e3], Some([0.0, 2e6])),
            ([30e6, 1e3, 6e6, 1e3], Some([0.0, 5.8e6])),
        ] {
            assert_eq!(RULE.findings(&with(stages_ns, target_ns)), [], "{stages_ns:?}");
        }
        assert_eq!(RULE.findings(&healthy()), []);
    }
}
