//! Segments to a host that had to be sent again, as the target's kernel counts them.

use std::collections::BTreeMap;

use chart::units;

use crate::diagnosis::finding::{Finding, Severity};
use crate::diagnosis::rule::Rule;
use crate::diagnosis::served::Served;

pub const RULE: Rule = Rule { name: "lossy-path", judge };

/// Fewer segments of those that were sent are noise.
const PART_MIN: f64 = 0.001;
/// Segments that were sent again that are more than an accident.
const SEGMENTS_MIN: u64 = 8;
/// Bytes of a segment over Ethernet: for larger ones, the computed loss is too small.
const SEGMENT_BYTES: u64 = 1448;

/// Data sent to a host.
#[derive(Default)]
struct Sent<'a> {
    again: u64,
    bytes: u64,
    peer: &'a str,
}

fn judge(target: &Served) -> Vec<Finding> {
    let mut hosts: BTreeMap<&str, Sent<'_>> = BTreeMap::new();
    for queue in &target.queues {
        let sent = hosts.entry(&queue.host).or_default();
        sent.again += queue.retransmits;
        sent.bytes += queue.acknowledged_bytes.unwrap_or(0);
        if queue.retransmits > 0 {
            sent.peer = &queue.peer;
        }
    }
    hosts.into_iter().filter_map(|(host, sent)| finding(target, host, &sent)).collect()
}

fn finding(target: &Served, host: &str, sent: &Sent<'_>) -> Option<Finding> {
    let part = sent.again as f64 / (sent.bytes / SEGMENT_BYTES + sent.again).max(1) as f64;
    if sent.again < SEGMENTS_MIN || part < PART_MIN {
        return None;
    }
    let cause = format!("Packets to {host} are lost: {:.1} % had to be sent again", part * 100.0);
    Some(
        Finding::new(Severity::Slows, host, cause)
            // A segment that is lost costs a round trip at least; how much that is of a command is not known.
            .ranked((part * 20.0).clamp(0.05, 0.9))
            .seen(format!(
                "{} sent again in {:.1} s, {} acknowledged; one of them to {}",
                units::plural(sent.again, "segment"),
                target.interval_s(),
                units::bytes(sent.bytes as f64),
                sent.peer
            ))
            .cure(
                "Find where they are lost: a full queue of a switch or of this machine, a policer, a bad cable. With loss \
                 that cannot be mended on a long way, bbr keeps its speed.",
                "Commands no longer wait for segments that are sent again.",
            )
            .command("selvedge doctor".to_owned())
            .command(format!("tc -s qdisc; ip -s -s link; ss -tin dst {}", sent.peer)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::sample::{named_first, well};
    use crate::diagnosis::served::ServedQueue;

    fn with(retransmits: u64, acknowledged: u64) -> Served {
        let mut target = well();
        for (queue_id, retransmits) in [(1, retransmits), (2, 0)] {
            target.queues.push(ServedQueue {
                host: "nqn.h".into(),
                queue_id,
                peer: format!("10.0.0.1:{queue_id}"),
                rtt_us: 100,
                acknowledged_bytes: Some(acknowledged / 2),
                retransmits,
                ..ServedQueue::default()
            });
        }
        target
    }

    #[test]
    fn losses_are_named_by_host() {
        for (retransmits, acknowledged, percent) in
            [(200, 100_000_000, "0.3 %"), (700, 100_000_000, "1.0 %"), (8, 100_000, "10.4 %")]
        {
            let found = named_first(&with(retransmits, acknowledged), RULE.name);
            assert!(found.subject == "nqn.h" && found.cause.contains(percent), "{found:?}");
            assert!(found.evidence[0].ends_with("10.0.0.1:1"), "{found:?}");
        }
    }

    #[test]
    fn look_alikes_are_well() {
        // A few segments, little of much, none.
        for target in [with(5, 100_000), with(50, 1 << 30), with(0, 1 << 30)] {
            assert_eq!(RULE.findings(&target), []);
        }
    }
}
