//! Work on packets that the card or the kernel could do for many at once, and that is switched off.

use topology::InterfaceKind;

use crate::diagnosis::finding::{Finding, Severity};
use crate::doctor::case::Case;
use crate::doctor::host::Link;
use crate::doctor::rule::Rule;

pub(super) const RULE: Rule = Rule { name: "offloads-off", judge };

/// Features by the kernel's names, with ethtool's short one, and an order: segments made one by one cost the most.
const FEATURES: [(&str, &str, f64); 4] = [
    ("tx-tcp-segmentation", "tso", 0.3),
    ("rx-gro", "gro", 0.3),
    ("tx-generic-segmentation", "gso", 0.2),
    ("tx-scatter-gather", "sg", 0.2),
];

fn judge(case: &Case) -> Vec<Finding> {
    let used = case.host.survey.used();
    let paths: Vec<&str> = case.host.paths.iter().filter_map(|path| path.interface()).collect();
    let is_used = |name: &str| name != "lo" && (used.contains(name) || paths.contains(&name));
    // Packets between namespaces are not taken apart, and need not be put together again.
    let is_card = |name: &str| {
        let interface = case.host.survey.topology.interface(name);
        interface.is_some_and(|interface| interface.kind == InterfaceKind::Device)
    };
    let links = case.host.links.iter().filter(|(name, _)| is_used(name) && is_card(name));
    links.filter_map(|(name, link)| finding(name, link)).collect()
}

fn finding(name: &str, link: &Link) -> Option<Finding> {
    let settings = link.settings.as_ref()?;
    let is_off = |feature: &str| !settings.active.contains(feature) && settings.switchable.contains(feature);
    let off: Vec<_> = FEATURES.iter().filter(|(feature, _, _)| is_off(feature)).collect();
    let most = off.iter().map(|(_, _, share)| *share).fold(0.0, f64::max);
    if off.is_empty() {
        return None;
    }
    let features: Vec<&str> = off.iter().map(|(feature, _, _)| *feature).collect();
    let short: Vec<String> = off.iter().map(|(_, short, _)| format!("{short} on")).collect();
    let cause = format!(
        "{name} handles packets one by one: {} off",
        if off.len() == 1 { "an offload is" } else { "offloads are" }
    );
    Some(
        Finding::new(Severity::MayCost, name, cause)
            .ranked(most)
            .seen(format!("ethtool -k {name}: {}: off", features.join(", ")))
            .cure(
                "Switch it on, unless it was switched off for a fault of the driver.",
                "Less processor time for each byte.",
            )
            .command(format!("ethtool -K {name} {}", short.join(" "))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::sample::{healthy, named_first};

    fn without(features: &[&str]) -> Case {
        let mut case = healthy();
        let settings = case.host.links.get_mut("eth0").unwrap().settings.as_mut().unwrap();
        settings.active.retain(|name| !features.contains(&name.as_str()));
        case
    }

    #[test]
    fn what_is_off_is_named_with_its_switch() {
        for (features, switches) in [
            (&["tx-tcp-segmentation"][..], "tso on"),
            (&["rx-gro"], "gro on"),
            (&["tx-tcp-segmentation", "tx-generic-segmentation", "rx-gro"], "tso on gro on gso on"),
        ] {
            let found = named_first(&without(features), RULE.name);
            assert_eq!(found.commands, [format!("ethtool -K eth0 {switches}")]);
        }
    }

    #[test]
    fn look_alikes_are_well() {
        // The card has no such offload; the interface carries no storage; ethtool was not available.
        let mut cannot = without(&["tx-tcp-segmentation"]);
        let settings = cannot.host.links.get_mut("eth0").unwrap().settings.as_mut().unwrap();
        settings.switchable.remove("tx-tcp-segmentation");
        let mut elsewhere = healthy();
        let off = without(&["rx-gro"]).host.links["eth0"].clone();
        elsewhere.host.links.insert("eth7".to_owned(), off);
        let mut cable = without(&["rx-gro"]);
        cable.host.survey.topology.interfaces[1].kind = InterfaceKind::Veth;
        let mut unasked = healthy();
        unasked.host.links.get_mut("eth0").unwrap().settings = None;
        for case in [healthy(), cannot, elsewhere, cable, unasked] {
            assert_eq!(RULE.findings(&case), []);
        }
    }
}
