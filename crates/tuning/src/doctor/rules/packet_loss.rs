//! Segments that had to be sent again.

use chart::units;

use crate::diagnosis::finding::{Finding, Severity};
use crate::doctor::case::Case;
use crate::doctor::host::Host;
use crate::doctor::rule::Rule;
use crate::tune::advice::LONG_US;

pub(super) const RULE: Rule = Rule { name: "packet-loss", judge };

/// Less than this part of the bytes is noise.
const PART_MIN: f64 = 0.001;
/// Bytes that were sent again that are more than chance.
const BYTES_MIN: u64 = 8 * 1448;
/// Congestion controls that take every loss for a full queue.
const BY_LOSS: [&str; 2] = ["cubic", "reno"];

/// Data sent over an interface, in bytes.
#[derive(Default)]
struct Sent<'a> {
    bytes: u64,
    again: u64,
    congestion: &'a str,
    rtt_us: u32,
    peers: Vec<std::net::IpAddr>,
}

fn judge(case: &Case) -> Vec<Finding> {
    let host = &case.host;
    let mut by_interface: Vec<(&str, Sent<'_>)> = Vec::new();
    for carried in host.carried() {
        let Some(interface) = host.interface_of(carried.now) else { continue };
        // A target that answers tells those to its hosts by their names.
        if !case.targets.is_empty() && host.is_served_here(carried.now) {
            continue;
        }
        let bytes = carried.now.sent_bytes.saturating_sub(carried.before.sent_bytes);
        let again = carried.now.retransmitted_bytes.saturating_sub(carried.before.retransmitted_bytes);
        let at = by_interface.iter().position(|(name, _)| *name == interface).unwrap_or_else(|| {
            by_interface.push((interface, Sent::default()));
            by_interface.len() - 1
        });
        let sent = &mut by_interface[at].1;
        sent.bytes += bytes;
        sent.again += again;
        if again > 0 {
            sent.congestion = &carried.now.congestion;
            sent.rtt_us = sent.rtt_us.max(carried.now.rtt_us);
            let peer = carried.now.peer.ip();
            sent.peers.extend(Some(peer).filter(|peer| !sent.peers.contains(peer)));
        }
    }
    by_interface.into_iter().filter_map(|(name, sent)| finding(host, name, &sent)).collect()
}

fn finding(host: &Host, interface: &str, sent: &Sent<'_>) -> Option<Finding> {
    let part = sent.again as f64 / sent.bytes.max(1) as f64;
    if sent.again < BYTES_MIN || part < PART_MIN {
        return None;
    }
    let peers: Vec<String> = sent.peers.iter().take(3).map(ToString::to_string).collect();
    let cause = format!(
        "Packets to {} are lost by {interface}: {:.1} % had to be sent again",
        peers.join(", "),
        part * 100.0
    );
    let by_loss = BY_LOSS.contains(&sent.congestion);
    let is_long = u64::from(sent.rtt_us) >= LONG_US;
    let finding = Finding::new(Severity::Slows, interface, cause)
        // A segment that is lost costs a round trip at least; how much that is of a command is not known.
        .ranked((part * 20.0).clamp(0.05, 0.9))
        .seen(format!(
            "{} of {} sent again in {:.1} s; congestion control {}, round trip {}",
            units::bytes(sent.again as f64),
            units::bytes(sent.bytes as f64),
            host.interval_s(),
            sent.congestion,
            units::time_ns(f64::from(sent.rtt_us) * 1e3)
        ))
        .cure(
            "Find where they are lost: a full queue of a switch or of this machine, a policer, a bad cable. With loss that \
             cannot be mended on a long way, bbr keeps its speed.",
            "Commands no longer wait for segments that are sent again.",
        )
        .command(format!("tc -s qdisc show dev {interface}; ip -s -s link show {interface}"));
    Some(match by_loss && is_long {
        true => finding
            .command("selvedge bench --congestion bbr ...; selvedge serve --congestion bbr ...".to_owned()),
        false => finding,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::sample::{healthy, named_first};

    fn lost(again: u64, of: u64) -> Case {
        let mut case = healthy();
        let connection = &mut case.host.now.as_mut().unwrap().connections[0];
        connection.sent_bytes += of;
        connection.retransmitted_bytes += again;
        case
    }

    #[test]
    fn losses_are_named() {
        for (again, of, percent) in
            [(200_000, 100_000_000, "0.2 %"), (1_000_000, 100_000_000, "1.0 %"), (1 << 20, 4 << 20, "16.9 %")]
        {
            let found = named_first(&lost(again, of), RULE.name);
            assert!(found.severity == Severity::Slows && found.cause.contains(percent), "{found:?}");
        }
    }

    #[test]
    fn bbr_is_for_long_ways_alone() {
        let mut case = lost(1_000_000, 100_000_000);
        assert_eq!(named_first(&case, RULE.name).commands.len(), 1);
        case.host.now.as_mut().unwrap().connections[0].rtt_us = 20_000;
        assert!(named_first(&case, RULE.name).commands[1].contains("bbr"));
    }

    #[test]
    fn losses_of_a_target_that_answers_belong_to_its_own_rule() {
        let mut case = lost(1_000_000, 100_000_000);
        for flow in &mut case.host.survey.topology.flows {
            flow.owner = topology::FlowOwner::Target { pid: None };
        }
        assert_eq!(RULE.findings(&case).len(), 1, "no other rule reports them");
        case.targets = crate::doctor::sample::with_target().targets;
        assert_eq!(RULE.findings(&case), []);
    }

    #[test]
    fn look_alikes_are_well() {
        // A few segments, little of much, what was lost long ago.
        let mut earlier = lost(0, 1 << 30);
        for moment in [&mut earlier.host.before, &mut earlier.host.now] {
            moment.as_mut().unwrap().connections[0].retransmitted_bytes += 1 << 25;
        }
        for case in [lost(1448, 3000), lost(50_000, 1 << 30), earlier] {
            assert_eq!(RULE.findings(&case), []);
        }
    }
}
