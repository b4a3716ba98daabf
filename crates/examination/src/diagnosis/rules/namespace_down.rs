//! A namespace that its hosts cannot use: its storage is gone, could not be synchronized, or is full.

use chart::units;

use crate::diagnosis::finding::{Finding, Severity, word};
use crate::diagnosis::rule::Rule;
use crate::diagnosis::served::{CommandErrors, Served, ServedNamespace};

pub const RULE: Rule = Rule { name: "namespace-down", judge };

/// Statuses of commands that say that the storage is at its end, and how to say it.
const FULL: &str = "Capacity Exceeded";

fn judge(target: &Served) -> Vec<Finding> {
    let down = target.namespaces.iter().filter_map(|namespace| down(target, namespace));
    down.chain(target.errors.iter().filter_map(|errors| full(target, errors))).collect()
}

fn down(target: &Served, namespace: &ServedNamespace) -> Option<Finding> {
    let name = namespace.name();
    let reason = namespace.reason.as_deref().unwrap_or("no reason reported");
    let (cause, cure, command) = match namespace.state.as_str() {
        "failed" => (
            format!("{name} takes no writes: its storage could not be synchronized"),
            "Check the storage, then open the namespace again.",
            target.command(&format!(
                "selvedge namespace reopen {} {}",
                word(&namespace.subsystem),
                namespace.nsid
            )),
        ),
        "absent" if reason.contains("blocklist") => (
            format!("{name} is absent: the cluster has put its gateway on the blocklist"),
            "See why it was taken for dead: it was cut off, or another gateway took over. It reopens its images by \
             itself.",
            "ceph osd blocklist ls".to_owned(),
        ),
        "absent" => (
            format!("{name} is absent: its disk or image is not there"),
            "Bring its storage back; the target looks for it every few seconds.",
            target.command(&format!(
                "selvedge namespace show {} {}",
                word(&namespace.subsystem),
                namespace.nsid
            )),
        ),
        _ => return None,
    };
    Some(
        Finding::new(Severity::Outage, &name, cause)
            .ranked(1.0)
            .seen(format!("state {}: {reason}", namespace.state))
            .cure(cure, "Its hosts' commands succeed again.")
            .command(command),
    )
}

fn full(target: &Served, errors: &CommandErrors) -> Option<Finding> {
    let interval_s = target.interval_s();
    let is_full = errors.status == FULL && errors.count.by > 0;
    is_full.then(|| {
        let name = format!("namespace {} of {}", errors.nsid, errors.subsystem);
        Finding::new(
            Severity::Outage,
            &name,
            format!("Writes to {name} fail: the file system or pool below it is full"),
        )
        .ranked(0.9)
        .seen(format!(
            "{FULL}: {} in {interval_s:.1} s, {} since the target started",
            units::plural(errors.count.by, "command"),
            errors.count.to
        ))
        .cure(
            "Make room below it, or deallocate blocks that are not used.",
            "Writes succeed again; reads always did.",
        )
        .command(target.command(&format!(
            "selvedge namespace show {} {}",
            word(&errors.subsystem),
            errors.nsid
        )))
        .command("df -h".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::sample::{named_first, well};
    use crate::diagnosis::served::Grown;

    fn in_state(state: &str, reason: &str) -> Served {
        let mut case = well();
        case.namespaces[0].state = state.to_owned();
        case.namespaces[0].reason = Some(reason.to_owned());
        case
    }

    fn failing(status: &str, by: u64) -> Served {
        let mut case = well();
        case.errors = vec![CommandErrors {
            subsystem: "nqn.a".into(),
            nsid: 1,
            status: status.into(),
            count: Grown { by, to: 9 },
        }];
        case
    }

    #[test]
    fn each_end_of_a_storage_is_named() {
        for (case, word) in [
            (in_state("failed", "Input/output error on /dev/sdb"), "synchronized"),
            (in_state("absent", "there is no such device"), "not there"),
            (in_state("absent", "this client is on the blocklist"), "blocklist"),
            (failing(FULL, 3), "full"),
        ] {
            let found = named_first(&case, RULE.name);
            assert!(found.severity == Severity::Outage && found.cause.contains(word), "{found:?}");
        }
    }

    #[test]
    fn look_alikes_are_well() {
        for case in [well(), failing(FULL, 0), failing("Compare Failure", 3)] {
            assert_eq!(RULE.findings(&case), []);
        }
    }
}
