//! Hosts that derive their TLS keys as nvme-cli did before 2025, other than the specification: other targets refuse them.

use crate::diagnosis::finding::{Finding, Severity, word};
use crate::diagnosis::rule::Rule;
use crate::diagnosis::served::Served;

pub const RULE: Rule = Rule { name: "old-tls-key", judge };

/// Maximum number of hosts named in a finding.
const NAMED_MAX: usize = 3;

fn judge(target: &Served) -> Vec<Finding> {
    let hosts = &target.old_tls_hosts;
    let Some(first) = hosts.keys().next() else { return Vec::new() };
    let named: Vec<&str> = hosts.keys().take(NAMED_MAX).map(String::as_str).collect();
    let counted = chart::units::plural(hosts.len() as u64, "host");
    let cause = format!("{counted} of {} with TLS by keys as nvme-cli before 2025 derives them", target.name);
    let queues = hosts.values().sum();
    vec![
        Finding::new(Severity::MayCost, first, cause)
            .ranked(0.1)
            .seen(format!(
                "derivation compat: {} of {}{}",
                chart::units::plural(queues, "queue"),
                named.join(", "),
                if hosts.len() > named.len() { " and others" } else { "" }
            ))
            .cure(
                "Insert the key by `selvedge key identity --insert` on the host, or upgrade its nvme-cli, and connect again.",
                "Every target that follows the specification accepts the host; this one accepts both derivations.",
            )
            .command(format!("selvedge key identity KEY_FILE -n NQN -q {} --insert", word(first))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::sample::{named_first, well};

    fn with(hosts: &[&str]) -> Served {
        let old_tls_hosts = hosts.iter().map(|host| ((*host).to_owned(), 2)).collect();
        Served { old_tls_hosts, tls_queues: 5, ..well() }
    }

    #[test]
    fn old_hosts_are_named() {
        for (hosts, ending) in [
            (&["nqn.a"][..], "2 queues of nqn.a"),
            (&["nqn.a", "nqn.b"], "4 queues of nqn.a, nqn.b"),
            (&["nqn.a", "nqn.b", "nqn.c", "nqn.d"], "8 queues of nqn.a, nqn.b, nqn.c and others"),
        ] {
            let found = named_first(&with(hosts), RULE.name);
            assert!(found.severity == Severity::MayCost && found.evidence[0].ends_with(ending), "{found:?}");
        }
    }

    #[test]
    fn look_alikes_are_well() {
        // Hosts whose keys are as specified; hosts in clear.
        for target in [with(&[]), Served { tls_queues: 0, ..with(&[]) }] {
            assert_eq!(RULE.findings(&target), []);
        }
    }
}
