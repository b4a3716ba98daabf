//! Gateways of a group without a heartbeat, gateways that cannot reach the group's shared state, and namespaces that no
//! gateway serves.

use chart::units;

use crate::diagnosis::finding::{Finding, Severity, word};
use crate::diagnosis::rule::Rule;
use crate::diagnosis::served::{Group, Served};

pub const RULE: Rule = Rule { name: "silent-gateway", judge };

fn judge(target: &Served) -> Vec<Finding> {
    target.group.iter().flat_map(|group| findings(target, group)).collect()
}

fn findings(target: &Served, group: &Group) -> Vec<Finding> {
    let mut found = Vec::new();
    if !group.has_lease {
        let cause = format!("Gateway {} does not reach the objects of group {}", group.gateway, group.group);
        found.push(
            Finding::new(Severity::Outage, &group.gateway, cause)
                .ranked(1.0)
                .seen("it has no lease: the others take its namespaces over".to_owned())
                .cure(
                    "See whether it reaches the cluster's monitors and OSDs, and is not on the blocklist.",
                    "It serves its namespaces again.",
                )
                .command("ceph osd blocklist ls".to_owned())
                .command("ceph health detail".to_owned()),
        );
    }
    for gateway in group.silent() {
        let (name, life) = (&gateway.name, &gateway.life);
        let given_up =
            if life == "dead" { "the others have declared it dead" } else { "no heartbeat lately" };
        found.push(
            Finding::new(
                Severity::Outage,
                name,
                format!("Gateway {name} of group {} is silent", group.group),
            )
            .ranked(0.8)
            .seen(format!("life {life}, well: no; {given_up}"))
            .cure(
                "Check that it runs and reaches the cluster; remove it from the group if it will not return.",
                "Hosts have all their paths again.",
            )
            .command("systemctl status selvedge".to_owned())
            .command(target.command(&format!("selvedge gateways remove {}", word(name)))),
        );
    }
    let orphans: Vec<_> = group
        .load_balancing_groups
        .iter()
        .filter(|balanced| {
            balanced.namespaces > 0 && (balanced.owner.is_none() || balanced.state == "fencing")
        })
        .collect();
    if let Some(first) = orphans.first() {
        let namespaces = orphans.iter().map(|balanced| balanced.namespaces).sum();
        let subject = format!("load-balancing group {}", first.id);
        let why = if first.owner.is_none() { "no gateway has it" } else { "a dead gateway is fenced first" };
        found.push(
            Finding::new(
                Severity::Outage,
                &subject,
                format!("No gateway serves {} of {}", units::plural(namespaces, "namespace"), group.group),
            )
            .ranked(0.95)
            .seen(format!("load-balancing group {} ({}): {why}", first.id, first.state))
            .cure("Bring a gateway back that reaches the cluster.", "The namespaces are served again.")
            .command(target.command("selvedge gateways")),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::sample::{named_first, well};
    use crate::diagnosis::served::{BalancingGroup, Gateway};

    fn with(change: impl Fn(&mut Group)) -> Served {
        let mut case = well();
        let gateway = |name: &str| Gateway { name: name.into(), life: "alive".into(), is_well: true };
        let mut group = Group {
            group: "rbd/g".into(),
            gateway: "a".into(),
            has_lease: true,
            gateways: vec![gateway("a"), gateway("b")],
            load_balancing_groups: vec![BalancingGroup {
                id: 1,
                preferred: "a".into(),
                owner: Some("a".into()),
                state: "serving".into(),
                namespaces: 3,
            }],
        };
        change(&mut group);
        case.group = Some(group);
        case
    }

    #[test]
    fn each_way_of_not_serving_is_named() {
        assert!(
            named_first(&with(|group| group.has_lease = false), RULE.name).cause.contains("does not reach")
        );
        let silent = with(|group| group.gateways[1].is_well = false);
        assert_eq!(named_first(&silent, RULE.name).subject, "b");
        let orphans = with(|group| group.load_balancing_groups[0].owner = None);
        assert!(named_first(&orphans, RULE.name).cause.contains("3 namespaces"));
        let fencing = with(|group| group.load_balancing_groups[0].state = "fencing".into());
        assert!(named_first(&fencing, RULE.name).evidence[0].contains("fenced first"));
    }

    #[test]
    fn look_alikes_are_well() {
        // One that has left in order, a group without namespaces, no group.
        let left = with(|group| {
            group.gateways[1].life = "left".into();
            group.gateways[1].is_well = false;
        });
        let empty = with(|group| {
            group.load_balancing_groups[0].namespaces = 0;
            group.load_balancing_groups[0].owner = None;
        });
        for case in [with(|_| {}), left, empty, well()] {
            assert_eq!(RULE.findings(&case), []);
        }
    }
}
