//! Two paths to one subsystem that leave by the same interface: they bring no throughput, and fail together.

use std::collections::{BTreeMap, BTreeSet};

use crate::diagnosis::finding::{Finding, Severity};
use crate::doctor::case::Case;
use crate::doctor::rule::Rule;

pub(super) const RULE: Rule = Rule { name: "one-link-for-two-paths", judge };

fn judge(case: &Case) -> Vec<Finding> {
    let host = &case.host;
    // Ends of the ways to each subsystem by each interface: the addresses of both sides.
    let mut ways: BTreeMap<(&str, &str), BTreeSet<(std::net::IpAddr, std::net::IpAddr)>> = BTreeMap::new();
    for flow in host.initiator_flows() {
        let (Some(nqn), Some(interface)) = (flow.subsystem_nqn.as_deref(), flow.interface.as_deref()) else {
            continue;
        };
        ways.entry((nqn, interface)).or_default().insert((flow.local.ip(), flow.peer.ip()));
    }
    let finding = |((nqn, interface), ends): (&(&str, &str), &BTreeSet<_>)| {
        let name = *interface;
        // Who comes from the address of another interface wanted that one.
        let meant = host.paths.iter().find(|path| {
            let is_one =
                ends.iter().any(|(local, peer)| Some(*local) == path.source && *peer == path.target.ip());
            is_one && path.source_interface.as_deref().is_some_and(|own| own != name)
        })?;
        let others = ends.len() > 1;
        others.then(|| {
            let own = meant.source_interface.as_deref().unwrap_or_default();
            let cause = format!("{} paths to {nqn} share {name}: one of them comes from an address of {own}", ends.len());
            let flows: Vec<String> = ends.iter().map(|(local, peer)| format!("{local} to {peer}")).collect();
            Finding::new(Severity::MayCost, name, cause)
                .costing(1.0 - 1.0 / ends.len() as f64)
                .seen(format!("by {name}: {}", flows.join(", ")))
                .seen(format!("route to {} from {}: dev {name}", meant.target.ip(), ends_source(meant)))
                .cure(
                    "Give each address a route of its own (a rule and a table), or bind the path to its interface \
                     (--host-iface).",
                    "Each path has its own link, and one may fail alone.",
                )
                .command(format!(
                    "ip route add {} dev {own} table 100 && ip rule add from {} table 100",
                    meant.target.ip(),
                    ends_source(meant)
                ))
        })
    };
    ways.iter().filter_map(finding).collect()
}

fn ends_source(path: &crate::doctor::path::NetworkPath) -> String {
    path.source.map_or_else(|| "any".to_owned(), |source| source.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::sample::{healthy, named_first, second_path};
    use crate::probe::Probe;

    /// Both paths are connected, by this interface.
    fn connected(interface: &str) -> Case {
        let mut case = second_path();
        case.host.source_validation.clear();
        let path = &mut case.host.paths[1];
        path.probe = Some(Probe::Reached { rtt_us: 90 });
        path.way.as_mut().unwrap().interface = interface.to_owned();
        let (source, target) = (path.source.unwrap(), path.target);
        let flows = &mut case.host.survey.topology.flows;
        let mut second: Vec<topology::Flow> = flows.clone();
        for flow in &mut second {
            flow.local.set_ip(source);
            flow.peer.set_ip(target.ip());
            flow.interface = Some(interface.to_owned());
        }
        flows.extend(second);
        case
    }

    #[test]
    fn paths_on_one_link_are_named() {
        let found = named_first(&connected("eth0"), RULE.name);
        assert_eq!((found.subject.as_str(), found.cost_percent), ("eth0", 50.0));
        assert!(found.commands[0].contains("dev eth1"), "{found:?}");
        let mut other_port = connected("eth0");
        other_port.host.survey.topology.flows.iter_mut().for_each(|flow| flow.peer.set_port(4421));
        named_first(&other_port, RULE.name);
        let mut ours = connected("eth0");
        ours.host.survey.topology.flows.iter_mut().for_each(|flow| {
            flow.owner = topology::FlowOwner::Initiator { pid: 9 };
        });
        named_first(&ours, RULE.name);
    }

    #[test]
    fn look_alikes_are_well() {
        // Each by its own; one path; and two addresses of a target behind one card, as there is no other.
        let mut one_card = connected("eth0");
        one_card.host.paths[1].source_interface = Some("eth0".to_owned());
        for case in [connected("eth1"), healthy(), one_card] {
            assert_eq!(RULE.findings(&case), []);
        }
    }
}
