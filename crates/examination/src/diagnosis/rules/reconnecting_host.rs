//! Hosts that lose their controllers and come back, again and again, or fall silent.

use chart::units;

use crate::diagnosis::finding::{Finding, Severity};
use crate::diagnosis::rule::Rule;
use crate::diagnosis::served::Served;

pub const RULE: Rule = Rule { name: "reconnecting-host", judge };

fn judge(target: &Served) -> Vec<Finding> {
    let interval_s = target.interval_s();
    let cure = |finding: Finding| {
        finding
            .cure(
                "Look at the host's log for why it resets: lost packets, a processor that is too busy, a keep alive time \
                 that is too short.",
                "Its commands no longer wait for a new connection.",
            )
            .command(target.command("selvedge connection list"))
            .command("journalctl -u selvedge -g \"keep alive\"".to_owned())
    };
    let mut found: Vec<Finding> = target
        .reconnected
        .iter()
        .map(|(host, count)| {
            let cause = format!("{host} has given up its controllers of {} and reconnected", target.name);
            cure(Finding::new(Severity::Slows, host, cause).ranked(0.7).seen(format!(
                "{} new within {interval_s:.1} s, in place of as many that ended",
                units::plural(*count, "controller")
            )))
        })
        .collect();
    if target.silent_hosts.by > 0 {
        let cause = format!("Hosts of {} fall silent for their keep alive time", target.name);
        found.push(cure(Finding::new(Severity::Outage, &target.name, cause).ranked(0.7).seen(format!(
            "controllers ended by keep alive: {} in {interval_s:.1} s, {} since the target started",
            target.silent_hosts.by, target.silent_hosts.to
        ))));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::sample::{named_first, well};
    use crate::diagnosis::served::Grown;

    fn silent(by: u64, to: u64) -> Served {
        let mut target = well();
        target.silent_hosts = Grown { by, to };
        target
    }

    #[test]
    fn each_end_of_a_loop_is_named() {
        let mut loops = well();
        loops.reconnected.insert("nqn.h".into(), 2);
        assert_eq!(named_first(&loops, RULE.name).subject, "nqn.h");
        for (by, to) in [(1, 8), (3, 3)] {
            assert!(named_first(&silent(by, to), RULE.name).cause.contains("fall silent"));
        }
    }

    #[test]
    fn look_alikes_are_well() {
        // Some fell silent long ago; none ever did.
        for target in [silent(0, 8), well()] {
            assert_eq!(RULE.findings(&target), []);
        }
    }
}
