//! Hosts that are not let in: a wrong key, no key, not on the list, over a quota.

use crate::diagnosis::finding::{Finding, Severity};
use crate::diagnosis::rule::Rule;
use crate::diagnosis::served::{Grown, Served};

pub const RULE: Rule = Rule { name: "refused-host", judge };

/// Number of refusals since the start of the target that is more than a typing error.
const EARLIER_MIN: u64 = 3;

fn judge(target: &Served) -> Vec<Finding> {
    target.refused.iter().filter_map(|(rule, count)| finding(target, rule, *count)).collect()
}

/// Why, what to do, and the command for it.
fn words(rule: &str) -> (&'static str, &'static str, &'static str) {
    match rule {
        "authentication" => (
            "a host proves another secret than the target has for it, or none",
            "Give both the same secret: the host's is checked with `selvedge key check`.",
            "selvedge host set-key NQN HOST_NQN --dhchap-secret-file FILE",
        ),
        "tls_handshake" => (
            "a host has no TLS key, or another one than the target",
            "Give both the same key, with the same hash and name.",
            "selvedge host set-key NQN HOST_NQN --tls-key-file FILE",
        ),
        "without_tls" => (
            "a host comes in clear where its port or its key requires TLS",
            "Connect it with TLS, or let it come in clear.",
            "selvedge listener list",
        ),
        "not_allowed" => (
            "a host asks for a subsystem and is not on its list",
            "Put the host on the list, or correct its NQN.",
            "selvedge host allow NQN HOST_NQN",
        ),
        "unknown_subsystem" => (
            "a host asks for a subsystem that is not on its port",
            "Correct the name that the host connects to.",
            "selvedge subsystem list",
        ),
        "host_id_in_use" => (
            "two hosts have one host identifier",
            "Give each host its own, which a machine that was copied lacks.",
            "selvedge connection list",
        ),
        "invalid" => (
            "a Connect command contradicts itself, or the host's other connections",
            "See the status in the log line.",
            "selvedge connection list",
        ),
        _ => (
            "a host or network has as many controllers or queues as it may have",
            "End what is no longer used, or raise the quota.",
            "selvedge connection list",
        ),
    }
}

fn finding(target: &Served, rule: &str, count: Grown) -> Option<Finding> {
    let interval_s = target.interval_s();
    let (why, cure, command) = words(rule);
    let (severity, share) = match count {
        Grown { by: 1.., .. } => (Severity::Outage, 1.0),
        Grown { to: EARLIER_MIN.., .. } => (Severity::MayCost, 0.0),
        _ => return None,
    };
    let name = &target.name;
    let subject = format!("{name}, rule {rule}");
    let is = if severity == Severity::Outage { "refuses" } else { "has refused" };
    Some(
        Finding::new(severity, &subject, format!("{name} {is} Connect commands: {why}"))
            .ranked(share)
            .seen(format!(
                "rule {rule}: {} in {interval_s:.1} s, {} since the target started",
                count.by, count.to
            ))
            .cure(cure, "The host connects.")
            .command(target.command(command))
            .command(format!("journalctl -u selvedge -g \"{}\"", log_words(rule))),
    )
}

/// Words of the target's log line that names the host.
fn log_words(rule: &str) -> &'static str {
    match rule {
        "authentication" => "did not authenticate",
        "tls_handshake" | "without_tls" => "TLS",
        _ => "Refused a Connect",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::sample::{named_first, well};

    fn with(rule: &str, by: u64, to: u64) -> Served {
        let mut case = well();
        case.refused.insert(rule.to_owned(), Grown { by, to });
        case
    }

    #[test]
    fn each_reason_is_named() {
        for (rule, word) in [
            ("authentication", "another secret"),
            ("tls_handshake", "TLS key"),
            ("without_tls", "in clear"),
            ("not_allowed", "on its list"),
            ("queues_per_host", "as many"),
        ] {
            let found = named_first(&with(rule, 1, 4), RULE.name);
            assert!(found.severity == Severity::Outage && found.cause.contains(word), "{found:?}");
        }
        assert_eq!(named_first(&with("authentication", 0, 9), RULE.name).severity, Severity::MayCost);
    }

    #[test]
    fn look_alikes_are_well() {
        for case in [with("authentication", 0, 0), with("not_allowed", 0, 2), well()] {
            assert_eq!(RULE.findings(&case), []);
        }
    }
}
