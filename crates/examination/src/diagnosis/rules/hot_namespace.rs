//! A namespace that takes nearly all of a target that is at its limit, so that others get what is left.

use chart::units;

use crate::diagnosis::finding::{Finding, Severity, word};
use crate::diagnosis::rule::Rule;
use crate::diagnosis::served::{Served, ServedNamespace};

pub const RULE: Rule = Rule { name: "hot-namespace", judge };

/// A reactor that works more of its time is at its limit.
const BUSY: f64 = 0.9;
/// A namespace that has this part of the commands or bytes is who fills it.
const PART_MIN: f64 = 0.75;
/// Least IOPS of a namespace in use; below it, no host waits.
const IOPS_MIN: f64 = 1.0;

/// A namespace, with its commands and bytes in a second.
struct Used<'a> {
    namespace: &'a ServedNamespace,
    iops: f64,
    bytes_per_s: f64,
}

fn judge(target: &Served) -> Vec<Finding> {
    finding(target).into_iter().collect()
}

fn finding(target: &Served) -> Option<Finding> {
    let (reactor, busy) = target.reactors_busy.iter().max_by(|one, other| one.1.total_cmp(other.1))?;
    let used: Vec<Used<'_>> = target
        .namespaces
        .iter()
        .filter_map(|namespace| {
            let (flow, _) = target.load(namespace)?;
            let (iops, bytes_per_s) = (flow.iops.unwrap_or(0.0), flow.bytes_per_s.unwrap_or(0.0));
            (iops >= IOPS_MIN).then_some(Used { namespace, iops, bytes_per_s })
        })
        .collect();
    if *busy < BUSY || used.len() < 2 {
        return None;
    }
    let all_iops: f64 = used.iter().map(|used| used.iops).sum();
    let all_bytes: f64 = used.iter().map(|used| used.bytes_per_s).sum();
    let part = |used: &Used<'_>| (used.iops / all_iops).max(used.bytes_per_s / all_bytes.max(1.0));
    let hot = used.iter().max_by(|one, other| part(one).total_cmp(&part(other)))?;
    let share = part(hot);
    if share < PART_MIN {
        return None;
    }
    let name = hot.namespace.name();
    let others = units::plural(used.len() as u64 - 1, "other namespace");
    let cause = format!(
        "{name} takes {:.0} % of {}, which is at its limit; {others} in use get the rest",
        share * 100.0,
        target.name
    );
    let place = format!("{} {}", word(&hot.namespace.subsystem), hot.namespace.nsid);
    Some(
        Finding::new(Severity::Limits, &name, cause)
            .ranked(0.97)
            .seen(format!(
                "{} of {} IOPS, {} of {}",
                units::count(hot.iops),
                units::count(all_iops),
                units::bandwidth(hot.bytes_per_s),
                units::bandwidth(all_bytes)
            ))
            .seen(format!("reactor {reactor} works {:.0} % of its time", busy * 100.0))
            .cure(
                "Give it a limit that leaves the others their part, or serve it by a target or gateway of its own. More \
                 reactors help if its hosts have queues for them.",
                "Commands of the other namespaces wait less.",
            )
            .command(target.command(&format!("selvedge namespace set {place} --iops IOPS --bw BYTES"))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::sample::{NQN, named_first, well};
    use crate::target_rates::rates::{Flow, Load, NamespaceRates};

    /// A target with namespaces that take this many commands of as many bytes in a second.
    fn with(busy: f64, loads: &[(f64, f64)]) -> Served {
        let mut target = well();
        target.reactors_busy = [(0, busy)].into();
        target.namespaces.clear();
        target.rates.subsystems[0].namespaces.clear();
        for (nsid, (iops, bytes)) in (1..).zip(loads) {
            let total = Flow { iops: Some(*iops), bytes_per_s: Some(iops * bytes), ..Flow::default() };
            let load = Load { total, ..Load::default() };
            target.rates.subsystems[0].namespaces.push(NamespaceRates {
                nsid,
                load,
                ..NamespaceRates::default()
            });
            let namespace = ServedNamespace {
                subsystem: NQN.to_owned(),
                nsid,
                state: "ready".to_owned(),
                ..ServedNamespace::default()
            };
            target.namespaces.push(namespace);
        }
        target
    }

    #[test]
    fn a_namespace_that_fills_a_target_is_named_before_the_reactor() {
        let by_commands = with(0.98, &[(900.0, 4096.0), (95_000.0, 4096.0), (2000.0, 4096.0)]);
        let found = named_first(&by_commands, RULE.name);
        assert!(found.cause.starts_with("namespace 2") && found.cause.contains("97 %"), "{found:?}");
        assert!(found.commands[0].contains(&format!("namespace set {NQN} 2 --iops IOPS")), "{found:?}");
        let by_bytes = with(0.95, &[(3000.0, 1_048_576.0), (2500.0, 4096.0)]);
        assert!(named_first(&by_bytes, RULE.name).cause.contains("1 other namespace"));
        assert_eq!(
            named_first(&with(1.0, &[(80_000.0, 4096.0), (1.0, 512.0)]), RULE.name).severity,
            Severity::Limits
        );
    }

    #[test]
    fn look_alikes_are_well() {
        // A target with room; one whose namespaces share it; one with a single namespace; others without load.
        for target in [
            with(0.6, &[(90_000.0, 4096.0), (2000.0, 4096.0)]),
            with(0.98, &[(50_000.0, 4096.0), (40_000.0, 4096.0)]),
            with(0.98, &[(90_000.0, 4096.0)]),
            with(0.98, &[(90_000.0, 4096.0), (0.2, 4096.0)]),
        ] {
            assert_eq!(RULE.findings(&target), []);
        }
    }
}
