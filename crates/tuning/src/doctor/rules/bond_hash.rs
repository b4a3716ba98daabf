//! A bond that puts all connections to a target on one of its links, by its hash or since there is one connection only.

use crate::diagnosis::finding::{Finding, Severity};
use crate::doctor::case::Case;
use crate::doctor::host::{Bond, Host};
use crate::doctor::rule::Rule;

pub(super) const RULE: Rule = Rule { name: "bond-hash", judge };

/// Modes that choose a link by a hash.
const HASHING: [&str; 2] = ["balance-xor", "802.3ad"];
/// Hashes that are the same for all connections of two machines.
const OF_MACHINES: [&str; 4] = ["layer2", "layer2+3", "encap2+3", "vlan+srcmac"];
/// A link that carries this part of a bond's bytes carries them all.
const ALL: f64 = 0.9;
/// Bytes that are more than chance.
const BYTES_MIN: u64 = 1 << 20;

fn judge(case: &Case) -> Vec<Finding> {
    let host = &case.host;
    let bonds = host.links.iter().filter_map(|(name, link)| Some((name, link.bond.as_ref()?)));
    bonds.filter_map(|(name, bond)| finding(host, name, bond)).collect()
}

fn finding(host: &Host, name: &str, bond: &Bond) -> Option<Finding> {
    let topology = &host.survey.topology;
    let is_up = |lower: &&String| topology.interface(lower).is_some_and(|interface| interface.is_up);
    let members: Vec<&String> = topology.interface(name)?.lower.iter().filter(is_up).collect();
    let flows = host.flows().filter(|flow| flow.is_io() && flow.interface.as_deref() == Some(name)).count();
    let by_machines = OF_MACHINES.contains(&bond.hash.as_str());
    if !HASHING.contains(&bond.mode.as_str())
        || members.len() < 2
        || flows == 0
        || !(by_machines || flows == 1)
    {
        return None;
    }
    let carried = carried(host, &members);
    let sum: u64 = carried.iter().map(|(_, bytes)| bytes).sum();
    let most = carried.iter().max_by_key(|(_, bytes)| *bytes)?;
    let is_seen = sum >= BYTES_MIN && most.1 as f64 >= ALL * sum as f64;
    let share = 1.0 - 1.0 / members.len() as f64;
    let (cause, cure) = if by_machines {
        (
            format!(
                "{name} puts all {flows} connections to a target on one of {} links: it hashes {}",
                members.len(),
                bond.hash
            ),
            "Hash ports too; the switch needs the same for the other direction.",
        )
    } else {
        (
            format!("One I/O queue is one connection, which uses one of {name}'s {} links", members.len()),
            "Use more I/O queues: connections are what a bond shares among its links.",
        )
    };
    let severity = if is_seen { Severity::Limits } else { Severity::MayCost };
    let finding = Finding::new(severity, name, cause)
        .costing(share)
        .seen(format!("/sys/class/net/{name}/bonding: mode {}, xmit_hash_policy {}", bond.mode, bond.hash));
    let finding = if sum >= BYTES_MIN {
        let links: Vec<String> = carried
            .iter()
            .map(|(name, bytes)| format!("{name} {}", chart::units::bytes(*bytes as f64)))
            .collect();
        finding.seen(format!("sent in {:.1} s: {}", host.interval_s(), links.join(", ")))
    } else {
        finding
    };
    let expected = format!("Up to {} times what one link carries, with enough I/O queues.", members.len());
    let finding = finding.cure(cure, &expected);
    Some(if by_machines {
        finding.command(format!("ip link set {name} type bond xmit_hash_policy layer3+4"))
    } else {
        finding.command("selvedge tune advise -a TARGET".to_owned())
    })
}

/// Bytes that each link has sent in between.
fn carried<'a>(host: &Host, members: &[&'a String]) -> Vec<(&'a str, u64)> {
    let Some((before, now)) = host.moments() else {
        return members.iter().map(|name| (name.as_str(), 0)).collect();
    };
    let bytes =
        |name: &&'a String| (name.as_str(), now.counters.interface_since(&before.counters, name, "tx_bytes"));
    members.iter().map(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::sample::{bonded, named_first};

    #[test]
    fn a_hash_of_machines_is_named() {
        for hash in ["layer2", "layer2+3"] {
            let found = named_first(&bonded("802.3ad", hash, 4), RULE.name);
            assert_eq!((found.severity, found.cost_percent), (Severity::MayCost, 50.0));
        }
        let mut case = bonded("balance-xor", "layer2", 4);
        let now = &mut case.host.now.as_mut().unwrap().counters;
        now.interfaces.get_mut("eth0").unwrap().insert("tx_bytes".into(), 1 << 30);
        assert_eq!(named_first(&case, RULE.name).severity, Severity::Limits);
    }

    #[test]
    fn one_connection_is_named() {
        let found = named_first(&bonded("802.3ad", "layer3+4", 1), RULE.name);
        assert!(found.cure.contains("more I/O queues"), "{found:?}");
    }

    #[test]
    fn look_alikes_are_well() {
        let mut one_link = bonded("802.3ad", "layer2", 4);
        one_link.host.survey.topology.interfaces.iter_mut().filter(|found| found.name == "eth1").for_each(
            |found| {
                found.is_up = false;
            },
        );
        for case in [
            bonded("802.3ad", "layer3+4", 4),
            bonded("active-backup", "layer2", 4),
            bonded("balance-rr", "layer2", 4),
            bonded("802.3ad", "layer2", 0),
            one_link,
        ] {
            assert_eq!(RULE.findings(&case), []);
        }
    }
}
