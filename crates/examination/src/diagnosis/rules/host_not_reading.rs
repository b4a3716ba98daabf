//! A host that takes nothing of what its target sends, while packets arrive: its program or kernel does not read.

use chart::units;

use crate::diagnosis::finding::{Finding, Severity};
use crate::diagnosis::rule::Rule;
use crate::diagnosis::served::Served;

pub const RULE: Rule = Rule { name: "host-not-reading", judge };

/// Bytes that wait for a host that are more than what is under way.
const WAITING_MIN: u64 = 64 << 10;

fn judge(target: &Served) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for queue in &target.queues {
        let (before, now) = queue.unsent_bytes;
        let waits = before >= WAITING_MIN && now >= WAITING_MIN;
        // What is lost is sent again; what is not read is not.
        let is_stuck = waits && queue.acknowledged_bytes == Some(0) && queue.retransmits == 0;
        if !is_stuck || found.iter().any(|known| known.subject == queue.host) {
            continue;
        }
        let cause = format!("{} does not read what {} sends it", queue.host, target.name);
        found.push(
            Finding::new(Severity::Limits, &queue.host, cause)
                .ranked(0.95)
                .seen(format!(
                    "queue {} to {}: {} wait, none acknowledged in {:.1} s, nothing sent again",
                    queue.queue_id,
                    queue.peer,
                    units::bytes(now as f64),
                    target.interval_s()
                ))
                .cure(
                    "Look at the host: a process that is stopped or stuck. The target keeps the queue until its keep \
                     alive time is over.",
                    "The host's commands go on, or its place is free.",
                )
                .command(target.command("selvedge connection list")),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::sample::{named_first, well};
    use crate::diagnosis::served::ServedQueue;

    fn with(unsent_bytes: (u64, u64), acknowledged: u64, retransmits: u64) -> Served {
        let mut case = well();
        case.queues = vec![ServedQueue {
            host: "nqn.h".into(),
            queue_id: 1,
            peer: "10.0.0.1:5".into(),
            unsent_bytes,
            acknowledged_bytes: Some(acknowledged),
            retransmits,
            ..ServedQueue::default()
        }];
        case
    }

    #[test]
    fn a_host_that_takes_nothing_is_named() {
        for unsent_bytes in [(1 << 20, 1 << 20), (1 << 20, 2 << 20), (100_000, 100_000)] {
            let found = named_first(&with(unsent_bytes, 0, 0), RULE.name);
            assert_eq!((found.severity, found.subject.as_str()), (Severity::Limits, "nqn.h"));
        }
    }

    #[test]
    fn look_alikes_are_well() {
        // One that reads slowly, one that packets do not reach, one with little under way.
        for case in
            [with((1 << 20, 1 << 20), 4096, 0), with((1 << 20, 1 << 20), 0, 3), with((4096, 4096), 0, 0)]
        {
            assert_eq!(RULE.findings(&case), []);
        }
    }
}
