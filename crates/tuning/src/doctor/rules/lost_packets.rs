//! Packets that this machine loses itself: in the card, by a bad cable, or since a processor's backlog was full.

use crate::diagnosis::finding::{Finding, Severity};
use crate::doctor::case::Case;
use crate::doctor::counters::LOSSES;
use crate::doctor::host::Host;
use crate::doctor::rule::Rule;

pub(super) const RULE: Rule = Rule { name: "lost-packets", judge };

/// Counters of damage, whose cause is outside of the machine.
const DAMAGE: [&str; 3] = ["rx_crc_errors", "rx_frame_errors", "tx_carrier_errors"];

fn judge(case: &Case) -> Vec<Finding> {
    let host = &case.host;
    let mut found: Vec<Finding> = host.links.keys().filter_map(|name| by_card(host, name)).collect();
    found.extend(host.links.keys().filter_map(|name| carrier(host, name)));
    found.extend(backlog(host));
    found
}

fn grown(host: &Host, interface: &str, counter: &str) -> u64 {
    host.moments()
        .map_or(0, |(before, now)| now.counters.interface_since(&before.counters, interface, counter))
}

fn by_card(host: &Host, name: &str) -> Option<Finding> {
    let grown: Vec<(&str, u64)> = LOSSES
        .iter()
        .map(|counter| (*counter, grown(host, name, counter)))
        .filter(|(_, count)| *count > 0)
        .collect();
    if grown.is_empty() {
        return None;
    }
    let is_damage = grown.iter().any(|(counter, _)| DAMAGE.contains(counter));
    let counters: Vec<String> = grown.iter().map(|(counter, count)| format!("{counter} {count}")).collect();
    let (cause, cure, command) = if is_damage {
        (
            format!("Packets arrive damaged at {name}"),
            "Change the cable or the transceiver; look at the switch's port.",
            format!("ethtool {name}"),
        )
    } else {
        (
            format!("{name} drops packets: its rings are full before they are emptied"),
            "Make the rings larger, and spread the queues over more processors.",
            format!("ethtool -G {name} rx 4096"),
        )
    };
    Some(
        Finding::new(Severity::Slows, name, cause)
            .ranked(0.4)
            .seen(format!("grown in {:.1} s: {}", host.interval_s(), counters.join(", ")))
            .cure(cure, "Nothing has to be sent again.")
            .command(command),
    )
}

fn carrier(host: &Host, name: &str) -> Option<Finding> {
    let changes = grown(host, name, "carrier_changes");
    (changes > 0).then(|| {
        Finding::new(Severity::Slows, name, format!("The link of {name} goes up and down"))
            .ranked(0.8)
            .seen(format!("carrier_changes grew by {changes} in {:.1} s", host.interval_s()))
            .cure("Change the cable or the transceiver; look at the switch's port.", "The link stays.")
            .command(format!("ethtool {name}"))
    })
}

fn backlog(host: &Host) -> Option<Finding> {
    let (before, now) = host.moments()?;
    let dropped = now.counters.backlog_dropped.saturating_sub(before.counters.backlog_dropped);
    (dropped > 0).then(|| {
        Finding::new(Severity::Slows, "backlog", "A processor drops packets: its backlog is full".to_owned())
            .ranked(0.4)
            .seen(format!(
                "dropped in /proc/net/softnet_stat grew by {dropped} in {:.1} s",
                host.interval_s()
            ))
            .cure(
                "Allow a longer backlog, and spread receive queues over more processors.",
                "Nothing has to be sent again.",
            )
            .command("sysctl -w net.core.netdev_max_backlog=10000".to_owned())
            .command("selvedge tune show".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::sample::{healthy, named_first};

    fn with(counter: &str, by: u64) -> Case {
        let mut case = healthy();
        let counters = &mut case.host.now.as_mut().unwrap().counters;
        *counters.interfaces.get_mut("eth0").unwrap().entry(counter.to_owned()).or_default() += by;
        case
    }

    #[test]
    fn each_place_of_a_loss_is_named() {
        assert!(named_first(&with("rx_missed_errors", 7), RULE.name).cure.contains("rings"));
        assert!(named_first(&with("rx_crc_errors", 7), RULE.name).cause.contains("damaged"));
        assert!(named_first(&with("carrier_changes", 2), RULE.name).cause.contains("up and down"));
        let mut case = healthy();
        case.host.now.as_mut().unwrap().counters.backlog_dropped += 4;
        assert!(named_first(&case, RULE.name).cause.contains("backlog"));
    }

    #[test]
    fn look_alikes_are_well() {
        // Losses of last week, bytes that were received, a counter that restarted.
        let mut earlier = with("rx_missed_errors", 7);
        earlier.host.before = earlier.host.now.clone();
        let mut restarted = with("rx_missed_errors", 7);
        std::mem::swap(&mut restarted.host.before, &mut restarted.host.now);
        for case in [earlier, with("rx_bytes", 1 << 30), restarted] {
            assert_eq!(RULE.findings(&case), []);
        }
    }
}
