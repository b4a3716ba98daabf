//! The congestion control bbr on short ways without losses over fast links, which its pacing slows.

use chart::units;

use crate::diagnosis::finding::{Finding, Severity};
use crate::doctor::case::Case;
use crate::doctor::host::{Carried, Host};
use crate::doctor::rule::Rule;
use crate::tune::advice::{LONG_US, link_mbps};

pub(super) const RULE: Rule = Rule { name: "bbr-on-short-way", judge };

/// Bytes that a connection with data to send sends at least.
const BYTES_MIN: u64 = 1 << 20;
/// Speed of a link from which pacing is noticeable.
const FAST_MBPS: u64 = 10_000;

fn judge(case: &Case) -> Vec<Finding> {
    let host = &case.host;
    let carried = host.carried();
    let slowed: Vec<&Carried<'_>> = carried.iter().filter(|carried| is_slowed(host, carried)).collect();
    let Some(first) = slowed.first() else { return Vec::new() };
    let count = units::plural(slowed.len() as u64, "connection");
    let cause = format!("bbr on a short way without losses ({count}): its pacing slows fast links");
    let finding = Finding::new(Severity::MayCost, "congestion control", cause)
        .ranked(0.2)
        .seen(format!(
            "{}: congestion control bbr, round trip {} at least, {} sent in {:.1} s and nothing sent again",
            first.now.peer,
            units::time_ns(f64::from(first.now.rtt_us_min) * 1e3),
            units::bytes(sent(first) as f64),
            host.interval_s()
        ))
        .cure(
            "Use cubic there: auto of Selvedge selects by the path of each connection, and sysctl sets the default of others.",
            "Segments leave as soon as the window allows.",
        )
        .command("selvedge bench --congestion auto ...; selvedge serve --congestion auto ...".to_owned())
        .command("sysctl -w net.ipv4.tcp_congestion_control=cubic".to_owned());
    vec![finding]
}

/// Bytes sent between the samples.
fn sent(carried: &Carried<'_>) -> u64 {
    carried.now.sent_bytes.saturating_sub(carried.before.sent_bytes)
}

fn is_slowed(host: &Host, carried: &Carried<'_>) -> bool {
    let (before, now) = (carried.before, carried.now);
    let link = host.interface_of(now).and_then(|name| link_mbps(&host.survey.topology, name));
    let has_lost = now.retransmitted_bytes > before.retransmitted_bytes;
    let is_short = u64::from(now.rtt_us_min) < LONG_US;
    let is_fast = link.is_some_and(|mbps| mbps >= FAST_MBPS);
    now.congestion == "bbr" && is_fast && is_short && !has_lost && sent(carried) >= BYTES_MIN
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::sample::{healthy, named_first};

    fn with(congestion: &str, rtt_us_min: u32, sent: u64, again: u64) -> Case {
        let mut case = healthy();
        let connection = &mut case.host.now.as_mut().unwrap().connections[0];
        congestion.clone_into(&mut connection.congestion);
        connection.rtt_us_min = rtt_us_min;
        connection.sent_bytes += sent;
        connection.retransmitted_bytes += again;
        case
    }

    #[test]
    fn bbr_on_a_short_way_is_named() {
        for rtt_us_min in [20, 80, 900] {
            let found = named_first(&with("bbr", rtt_us_min, 1 << 27, 0), RULE.name);
            assert!(found.evidence[0].contains("bbr") && found.commands.len() == 2, "{found:?}");
        }
    }

    #[test]
    fn look_alikes_are_well() {
        let [cubic, long, lossy] = [("cubic", 80, 0), ("bbr", 5_000, 0), ("bbr", 80, 1448)]
            .map(|(congestion, rtt_us_min, again)| with(congestion, rtt_us_min, 1 << 27, again));
        let mut idle = with("bbr", 80, 0, 0);
        let now = &mut idle.host.now.as_mut().unwrap().connections[0];
        now.sent_bytes = idle.host.before.as_ref().unwrap().connections[0].sent_bytes + 1000;
        let mut slow = with("bbr", 80, 1 << 27, 0);
        for interface in &mut slow.host.survey.topology.interfaces {
            interface.speed_mbps = Some(1000);
        }
        for case in [cubic, long, lossy, idle, slow] {
            assert_eq!(RULE.findings(&case), []);
        }
    }
}
