//! A link that runs slower than its card and the other end can: a cable, a transceiver or a setting at one end.

use crate::diagnosis::finding::{Finding, Severity};
use crate::doctor::case::Case;
use crate::doctor::host::{Host, Link};
use crate::doctor::rule::Rule;

pub(super) const RULE: Rule = Rule { name: "slow-link", judge };

/// A link that carries more than this part of its speed is at its limit.
const FULL: f64 = 0.8;

fn judge(case: &Case) -> Vec<Finding> {
    let host = &case.host;
    host.links.iter().filter_map(|(name, link)| finding(host, name, link)).collect()
}

/// The part of a link's speed that was carried in the busier direction.
fn used(host: &Host, name: &str, speed_mbps: u32) -> f64 {
    let Some((before, now)) = host.moments() else { return 0.0 };
    let bytes = |counter: &str| now.counters.interface_since(&before.counters, name, counter);
    let bits = bytes("rx_bytes").max(bytes("tx_bytes")) as f64 * 8.0;
    bits / (f64::from(speed_mbps) * 1e6 * host.interval_s().max(1e-3))
}

fn finding(host: &Host, name: &str, link: &Link) -> Option<Finding> {
    let is_up = host.survey.topology.interface(name).is_some_and(|interface| interface.is_up);
    let modes = link.settings.as_ref().filter(|_| is_up)?.modes.as_ref()?;
    let (speed_mbps, fastest_mbps) = (modes.speed_mbps?, modes.fastest_mbps()?);
    let is_half = modes.is_full_duplex == Some(false);
    if speed_mbps >= fastest_mbps && !is_half {
        return None;
    }
    let used = used(host, name, speed_mbps);
    let severity = if used >= FULL { Severity::Limits } else { Severity::MayCost };
    let share = 1.0 - f64::from(speed_mbps) / f64::from(fastest_mbps.max(speed_mbps));
    let duplex = if is_half { " in one direction at a time" } else { "" };
    let cause = format!("{name} runs at {speed_mbps} Mbit/s{duplex}; it could at {fastest_mbps}");
    let negotiation = match modes.negotiates {
        Some(true) => "both ends negotiate",
        Some(false) => "negotiation is off at this end",
        None => "auto-negotiation is unknown",
    };
    let other =
        if modes.peer.is_empty() { "the other end tells no modes" } else { "the other end offers it, too" };
    let finding = Finding::new(severity, name, cause)
        .costing(if is_half { share.max(0.5) } else { share })
        .seen(format!("ethtool {name}: speed {speed_mbps} Mbit/s, fastest supported {fastest_mbps}; {other}"))
        .seen(negotiation.to_owned())
        .seen(format!("{:.0} % of its speed in use", used * 100.0))
        .cure(
            "Look at the cable, the transceiver and the switch's port; let both ends negotiate.",
            &format!("Up to {} times the throughput.", fastest_mbps / speed_mbps.max(1)),
        );
    Some(if modes.negotiates == Some(false) {
        finding.command(format!("ethtool -s {name} autoneg on"))
    } else {
        finding.command(format!("ethtool {name}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::sample::{healthy, named_first};

    fn at(speed_mbps: u32, change: impl Fn(&mut topology::LinkModes)) -> Case {
        let mut case = healthy();
        let settings = case.host.links.get_mut("eth0").unwrap().settings.as_mut().unwrap();
        let modes = settings.modes.as_mut().unwrap();
        modes.speed_mbps = Some(speed_mbps);
        change(modes);
        case
    }

    #[test]
    fn a_link_below_its_speed_is_named() {
        let found = named_first(&at(1000, |_| {}), RULE.name);
        assert!(found.cause.contains("runs at 1000 Mbit/s; it could at 25000"), "{found:?}");
        let fixed = at(10_000, |modes| modes.negotiates = Some(false));
        assert!(named_first(&fixed, RULE.name).commands[0].contains("autoneg on"));
        let half = at(25_000, |modes| modes.is_full_duplex = Some(false));
        assert!(named_first(&half, RULE.name).cause.contains("one direction"));
    }

    #[test]
    fn a_full_one_limits() {
        let mut case = at(1000, |_| {});
        let counters = &mut case.host.now.as_mut().unwrap().counters;
        *counters.interfaces.get_mut("eth0").unwrap().get_mut("tx_bytes").unwrap() += 120_000_000;
        assert_eq!(named_first(&case, RULE.name).severity, Severity::Limits);
    }

    #[test]
    fn look_alikes_are_well() {
        // The switch has no faster port; the card has none; the interface is down.
        let mut down = at(1000, |_| {});
        down.host.survey.topology.interfaces[1].is_up = false;
        let slow_switch = at(1000, |modes| modes.peer = ["1000baseT/Full".to_owned()].into());
        let own = at(25_000, |_| {});
        for case in [down, slow_switch, own] {
            assert_eq!(RULE.findings(&case), []);
        }
    }
}
