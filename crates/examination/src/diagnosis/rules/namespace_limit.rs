//! A namespace whose own limits hold its commands back.

use chart::units;

use crate::diagnosis::finding::{Finding, Severity, word};
use crate::diagnosis::rule::Rule;
use crate::diagnosis::served::{Served, ServedNamespace};

pub const RULE: Rule = Rule { name: "namespace-limit", judge };

/// Less of the commands' time is what short bursts cost.
const PERCENT_MIN: f64 = 20.0;

fn judge(target: &Served) -> Vec<Finding> {
    target.namespaces.iter().filter_map(|namespace| finding(target, namespace)).collect()
}

/// The flag that changes a limit.
fn flag(limit: &str) -> Option<&'static str> {
    Some(match limit {
        "iops" => "--iops",
        "read_iops" => "--read-iops",
        "write_iops" => "--write-iops",
        "bytes" => "--bw",
        "read_bytes" => "--read-bw",
        "write_bytes" => "--write-bw",
        _ => return None,
    })
}

fn finding(target: &Served, namespace: &ServedNamespace) -> Option<Finding> {
    let (flow, _) = target.load(namespace)?;
    let percent = flow.stages_percent.get("limits").copied().filter(|percent| *percent >= PERCENT_MIN)?;
    if namespace.limits.is_empty() {
        // Snapshots of several images hold commands back for a moment, too.
        return None;
    }
    let set: Vec<String> = namespace
        .limits
        .iter()
        .map(|(name, value)| match name.contains("bytes") {
            true => format!("{name} {}", units::bandwidth(*value as f64)),
            false => format!("{name} {}", units::count(*value as f64)),
        })
        .collect();
    let name = namespace.name();
    let cause = format!("A limit holds back the commands of {name}: {}", set.join(", "));
    let mean_ns = flow.latency.map_or(0.0, |latency| latency.mean_ns);
    let finding = Finding::new(Severity::Limits, &name, cause)
        .costing(percent / 100.0)
        .seen(format!(
            "{} IOPS, {}; a command takes {} on average, {percent:.0} % of it held by limits, {:.0} % at the storage",
            units::count(flow.iops.unwrap_or(0.0)),
            units::bandwidth(flow.bytes_per_s.unwrap_or(0.0)),
            units::time_ns(mean_ns),
            flow.stages_percent.get("storage").copied().unwrap_or(0.0)
        ))
        .cure(
            "Raise the limit, if the host may have more.",
            &format!(
                "Commands spend {} less at the target, as long as nothing else becomes the limit.",
                units::time_ns(mean_ns * percent / 100.0)
            ),
        );
    let flags = namespace.limits.keys().filter_map(|limit| flag(limit));
    let flags: Vec<String> = flags.map(|flag| format!("{flag} none")).collect();
    let (subsystem, nsid) = (&namespace.subsystem, namespace.nsid);
    let words = format!("selvedge namespace set {} {nsid} {}", word(subsystem), flags.join(" "));
    Some(finding.command(target.command(&words)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::sample::{named_first, well};

    fn with(limit: &str, value: u64, percent: f64) -> Served {
        let mut case = well();
        case.namespaces[0].limits.insert(limit.to_owned(), value);
        let flow = &mut case.rates.subsystems[0].namespaces[0].load.total;
        flow.stages_percent =
            [("limits".to_owned(), percent), ("storage".to_owned(), 100.0 - percent)].into();
        case
    }

    #[test]
    fn a_limit_that_holds_is_named_with_its_flag() {
        for (limit, flag) in
            [("iops", "--iops none"), ("bytes", "--bw none"), ("read_bytes", "--read-bw none")]
        {
            let found = named_first(&with(limit, 300, 80.0), RULE.name);
            assert_eq!((found.severity, found.cost_percent), (Severity::Limits, 80.0));
            assert!(found.commands[0].contains(flag), "{found:?}");
        }
    }

    #[test]
    fn look_alikes_are_well() {
        // A limit that is not reached, and commands that a snapshot of several images holds back.
        let mut snapshot = with("iops", 300, 80.0);
        snapshot.namespaces[0].limits.clear();
        for case in [with("iops", 1_000_000, 0.0), with("iops", 300, 5.0), snapshot] {
            assert_eq!(RULE.findings(&case), []);
        }
    }
}
