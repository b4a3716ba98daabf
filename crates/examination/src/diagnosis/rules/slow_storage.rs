//! Storage that keeps commands: an operation that does not come back, commands that take long there. A Flush that does is
//! another rule's.

use chart::units;

use crate::diagnosis::finding::{Finding, Severity};
use crate::diagnosis::rule::Rule;
use crate::diagnosis::served::{Served, ServedNamespace};

pub const RULE: Rule = Rule { name: "slow-storage", judge };

/// An operation that is there for longer hangs: no disk that is well takes a second.
const HANGS_MS: u64 = 1_000;
/// Commands that take longer at the storage than this on average, in nanoseconds, are slow for any disk that is not
/// overloaded: a turning one takes 8 ms.
const SLOW_NS: f64 = 10e6;
/// Flush, which waits for written data and may take longer.
const FLUSH: &str = "flush";

fn judge(target: &Served) -> Vec<Finding> {
    let found = |namespace| hanging(namespace).or_else(|| slow(target, namespace));
    target.namespaces.iter().filter_map(found).collect()
}

fn hanging(namespace: &ServedNamespace) -> Option<Finding> {
    if namespace.oldest_operation_ms < HANGS_MS {
        return None;
    }
    let name = namespace.name();
    let age = units::time_ns(namespace.oldest_operation_ms as f64 * 1e6);
    let cause = format!("The storage of {name} has an operation that hangs for {age}");
    let finding = Finding::new(Severity::Limits, &name, cause)
        .ranked(0.95)
        .seen(format!("oldest operation at the storage: {} ms", namespace.oldest_operation_ms));
    let finding = if namespace.late_operations > 0 {
        finding.seen(format!(
            "{} outlived the Command Quiesce Time: failover is not safe",
            units::plural(namespace.late_operations, "operation")
        ))
    } else {
        finding
    };
    Some(
        finding
            .cure(
                match is_image(namespace) {
                    true => "Look at the cluster: a silent OSD keeps operations until it is marked down.",
                    false => "Look at the disk or file system below it: it does not answer.",
                },
                "Commands come back.",
            )
            .command(look(namespace)),
    )
}

fn is_image(namespace: &ServedNamespace) -> bool {
    namespace.backend == "rbd"
}

/// The command that says more of a storage.
fn look(namespace: &ServedNamespace) -> String {
    if is_image(namespace) { "ceph health detail" } else { "iostat -x 1 3" }.to_owned()
}

fn slow(target: &Served, namespace: &ServedNamespace) -> Option<Finding> {
    let (_, operations) = target.load(namespace)?;
    let at_storage =
        operations.iter().filter(|(operation, _)| *operation != FLUSH).filter_map(|(operation, flow)| {
            let percent = flow.stages_percent.get("storage").copied()?;
            let storage_ns = flow.latency?.mean_ns * percent / 100.0;
            (storage_ns >= SLOW_NS).then_some((operation, flow, storage_ns, percent))
        });
    let (operation, flow, storage_ns, percent) = at_storage.max_by(|one, other| one.2.total_cmp(&other.2))?;
    let name = namespace.name();
    let (what, took) = (operation.replace('_', " "), units::time_ns(storage_ns));
    let cause = format!("The storage of {name} is slow: a {what} takes {took} there");
    Some(
        Finding::new(Severity::Slows, &name, cause)
            .costing(percent / 100.0)
            .seen(format!(
                "{} {what}/s, {} on average, of that storage {percent:.0} %",
                units::count(flow.iops.unwrap_or(0.0)),
                units::time_ns(flow.latency.map_or(0.0, |latency| latency.mean_ns))
            ))
            .seen(format!("oldest operation at the storage: {} ms", namespace.oldest_operation_ms))
            .cure(
                "Look at the disk or cluster below it: what else it does, how full it is, whether it is degraded. Fewer \
                 outstanding commands wait less.",
                "What is left of a command's time is the network and the target.",
            )
            .command(look(namespace)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::sample::{named_first, well};
    use crate::target_rates::rates::{Flow, Latency};

    fn with(operation: &str, mean_ns: f64, percent: f64) -> Served {
        let mut case = well();
        let flow = Flow {
            iops: Some(100.0),
            latency: Some(Latency { mean_ns, ..Latency::default() }),
            stages_percent: [("storage".to_owned(), percent)].into(),
            ..Flow::default()
        };
        let namespace = &mut case.rates.subsystems[0].namespaces[0];
        namespace.operations.insert(operation.to_owned(), flow);
        case
    }

    #[test]
    fn slow_commands_are_named() {
        for (operation, mean_ns) in [("read", 30e6), ("write", 15e6), ("compare", 120e6)] {
            let found = named_first(&with(operation, mean_ns, 95.0), RULE.name);
            assert_eq!((found.severity, found.cost_percent), (Severity::Slows, 95.0));
            assert!(found.cause.contains(operation), "{found:?}");
        }
    }

    #[test]
    fn an_operation_that_hangs_is_named() {
        let mut case = well();
        case.namespaces[0].oldest_operation_ms = 7_200;
        case.namespaces[0].late_operations = 1;
        let found = named_first(&case, RULE.name);
        assert!(
            found.cause.contains("7.20 s") && found.evidence[1].contains("1 operation outlived"),
            "{found:?}"
        );
        case.namespaces[0].backend = "rbd".to_owned();
        assert!(named_first(&case, RULE.name).cure.contains("silent OSD"));
    }

    #[test]
    fn look_alikes_are_well() {
        // Storage that has nearly all of a short time; a long time that is a limit's; a late Flush, which is another rule's.
        for case in [with("read", 100_000.0, 99.0), with("read", 50e6, 2.0), with(FLUSH, 120e6, 100.0)] {
            assert_eq!(RULE.findings(&case), []);
        }
    }
}
