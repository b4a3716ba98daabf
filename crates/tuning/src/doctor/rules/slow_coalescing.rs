//! A card that waits for more packets before it interrupts, longer than commands can spare.

use crate::diagnosis::finding::{Finding, Severity};
use crate::doctor::case::Case;
use crate::doctor::host::Host;
use crate::doctor::rule::Rule;

pub(super) const RULE: Rule = Rule { name: "slow-coalescing", judge };

/// Waits up to this are common and bought with fewer interrupts.
const COMMON_US: u32 = 30;
/// A wait counts that is longer than this part of the shortest round trip.
const PART_OF_TRIP: f64 = 0.2;

fn judge(case: &Case) -> Vec<Finding> {
    let host = &case.host;
    let waits = host.links.iter().filter_map(|(name, link)| {
        let coalescing = link.settings.as_ref()?.coalescing?;
        let wait_us = coalescing.receive_us.filter(|_| !coalescing.is_adaptive)?;
        // A card that interrupts for every packet never waits.
        (wait_us > COMMON_US && coalescing.receive_frames != Some(1)).then_some((name, wait_us))
    });
    waits.filter_map(|(name, wait_us)| finding(host, name, wait_us)).collect()
}

fn finding(host: &Host, name: &str, wait_us: u32) -> Option<Finding> {
    let legs_of = |interface: &str| {
        let mut legs = topology::legs(&host.survey.topology, interface).into_iter();
        interface == name || legs.any(|leg| leg.name == name)
    };
    let connections = host.now.iter().flat_map(|now| &now.connections);
    let by_it = connections.filter(|connection| host.interface_of(connection).is_some_and(legs_of));
    // The shortest that was seen has the wait in it.
    let rtt_us = by_it.map(|connection| connection.rtt_us_min).filter(|rtt_us| *rtt_us > 0).min()?;
    let share = f64::from(wait_us) / f64::from(rtt_us.max(1));
    (share >= PART_OF_TRIP).then(|| {
        let cause = format!("{name} waits up to {wait_us} µs for more packets before it interrupts");
        Finding::new(Severity::MayCost, name, cause)
            .costing(share.min(0.9))
            .seen(format!("ethtool -c {name}: rx-usecs {wait_us}, not adaptive"))
            .seen(format!("shortest round trip of its connections: {rtt_us} µs"))
            .cure(
                "Let the driver choose the wait, or make it shorter.",
                &format!(
                    "Single commands take up to {wait_us} µs less; interrupts cost more processor time."
                ),
            )
            .command(format!("ethtool -C {name} adaptive-rx on"))
            .command(format!("ethtool -C {name} rx-usecs 8"))
    })
}

#[cfg(test)]
mod tests {
    use topology::Coalescing;

    use super::*;
    use crate::doctor::sample::{healthy, named_first};

    fn with(coalescing: Coalescing) -> Case {
        let mut case = healthy();
        case.host.links.get_mut("eth0").unwrap().settings.as_mut().unwrap().coalescing = Some(coalescing);
        case
    }

    #[test]
    fn long_waits_are_named() {
        for wait_us in [64, 100, 1000] {
            let coalescing = Coalescing { receive_us: Some(wait_us), ..Coalescing::default() };
            let found = named_first(&with(coalescing), RULE.name);
            assert!(found.cause.contains(&format!("up to {wait_us} µs")), "{found:?}");
        }
    }

    #[test]
    fn look_alikes_are_well() {
        let adaptive = with(Coalescing { receive_us: Some(200), is_adaptive: true, ..Coalescing::default() });
        let short = with(Coalescing { receive_us: Some(8), ..Coalescing::default() });
        let each =
            with(Coalescing { receive_us: Some(200), receive_frames: Some(1), ..Coalescing::default() });
        let mut far = with(Coalescing { receive_us: Some(64), ..Coalescing::default() });
        far.host.now.as_mut().unwrap().connections.iter_mut().for_each(|connection| {
            connection.rtt_us_min = 5000;
        });
        for case in [adaptive, short, each, far] {
            assert_eq!(RULE.findings(&case), []);
        }
    }
}
