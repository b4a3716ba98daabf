//! A Flush that takes long, where other commands do not: databases and file systems wait for it.

use chart::units;

use crate::diagnosis::finding::{Finding, Severity};
use crate::diagnosis::rule::Rule;
use crate::diagnosis::served::{Served, ServedNamespace};

pub const RULE: Rule = Rule { name: "late-flush", judge };

/// A Flush that takes longer at the storage, in nanoseconds, is late: a disk that turns writes a few sectors meanwhile.
const LATE_NS: f64 = 50e6;

fn judge(target: &Served) -> Vec<Finding> {
    target.namespaces.iter().filter_map(|namespace| finding(target, namespace)).collect()
}

fn finding(target: &Served, namespace: &ServedNamespace) -> Option<Finding> {
    let (_, operations) = target.load(namespace)?;
    let flush = operations.get("flush")?;
    let percent = flush.stages_percent.get("storage").copied()?;
    let mean_ns = flush.latency?.mean_ns;
    let storage_ns = mean_ns * percent / 100.0;
    if storage_ns < LATE_NS {
        return None;
    }
    let name = namespace.name();
    let write = operations.get("write").and_then(|write| write.latency);
    let finding = Finding::new(
        Severity::Slows,
        &name,
        format!("A Flush of {name} is late: it takes {} at the storage", units::time_ns(storage_ns)),
    )
    .costing(percent / 100.0)
    .seen(format!(
        "{} Flush/s, {} on average, of that storage {percent:.0} %",
        units::count(flush.iops.unwrap_or(0.0)),
        units::time_ns(mean_ns)
    ));
    let finding = match write {
        Some(write) => finding.seen(format!("a write takes {} on average", units::time_ns(write.mean_ns))),
        None => finding,
    };
    let is_image = namespace.backend == "rbd";
    Some(
        finding
            .cure(
                match is_image {
                    true => "Look at the cluster: a Flush waits for all OSDs that have writes of the image.",
                    false => {
                        "Look at the disk below it and at who shares it: a Flush waits until all that was written is on the \
                         medium. A disk with protection against power loss has nothing to wait for."
                    }
                },
                "Databases and file systems that wait for it commit sooner.",
            )
            .command(if is_image { "ceph osd perf" } else { "iostat -x 1 3" }.to_owned()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::sample::{named_first, well};
    use crate::target_rates::rates::{Flow, Latency};

    fn with(operation: &str, mean_ns: f64, percent: f64) -> Served {
        let mut target = well();
        let flow = Flow {
            iops: Some(20.0),
            latency: Some(Latency { mean_ns, ..Latency::default() }),
            stages_percent: [("storage".to_owned(), percent)].into(),
            ..Flow::default()
        };
        target.rates.subsystems[0].namespaces[0].operations.insert(operation.to_owned(), flow);
        target
    }

    #[test]
    fn a_late_flush_is_named() {
        for (mean_ns, took) in [(120e6, "120 ms"), (1.5e9, "1.50 s"), (51e6, "51.0 ms")] {
            let found = named_first(&with("flush", mean_ns, 100.0), RULE.name);
            assert!(found.severity == Severity::Slows && found.cause.contains(took), "{found:?}");
        }
        let mut image = with("flush", 200e6, 99.0);
        image.namespaces[0].backend = "rbd".to_owned();
        assert_eq!(named_first(&image, RULE.name).commands, ["ceph osd perf"]);
    }

    #[test]
    fn look_alikes_are_well() {
        // That of a disk that turns; one that a limit holds back; a slow write, which is another rule's.
        for target in [with("flush", 30e6, 100.0), with("flush", 120e6, 5.0), with("write", 120e6, 100.0)] {
            assert_eq!(RULE.findings(&target), []);
        }
    }
}
