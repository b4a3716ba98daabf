//! A controller of this machine's kernel that has lost its target and does not come back.

use crate::diagnosis::finding::{Finding, Severity};
use crate::doctor::case::Case;
use crate::doctor::rule::Rule;

pub(super) const RULE: Rule = Rule { name: "lost-controller", judge };

/// States of the kernel's controllers in which they carry nothing.
const AWAY: [&str; 4] = ["connecting", "resetting", "dead", "deleting (no IO)"];

fn judge(case: &Case) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for controller in &case.host.controllers {
        if !AWAY.contains(&controller.state.as_str()) {
            continue;
        }
        let (name, nqn) = (&controller.name, &controller.subsystem_nqn);
        let target = controller.target.map_or_else(|| "its target".to_owned(), |target| target.to_string());
        let delay =
            controller.reconnect_delay_s.map_or_else(String::new, |delay| format!(", a try each {delay} s"));
        found.push(
            Finding::new(
                Severity::Outage,
                name,
                format!("{name} has lost {nqn} at {target} and tries to connect"),
            )
            .ranked(0.8)
            .seen(format!("/sys/class/nvme/{name}/state: {}{delay}", controller.state))
            .cure(
                "See what the kernel says of its attempts, and whether the target is there.",
                "The path carries commands again.",
            )
            .command(format!("journalctl -k -g {name}"))
            .command(match controller.target {
                Some(target) => format!("selvedge discover -a {} -s {}", target.ip(), target.port()),
                None => "nvme list-subsys".to_owned(),
            }),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::kernel_controllers::KernelController;
    use crate::doctor::sample::{healthy, named_first};

    fn with(state: &str, target: Option<&str>) -> Case {
        let mut case = healthy();
        case.host.controllers = vec![KernelController {
            name: "nvme4".into(),
            state: state.into(),
            target: target.map(|address| address.parse().unwrap()),
            reconnect_delay_s: Some(10),
            ..Default::default()
        }];
        case
    }

    #[test]
    fn one_that_carries_nothing_is_named() {
        let found = named_first(&with("connecting", None), RULE.name);
        assert!(found.evidence[0].contains("connecting, a try each 10 s"), "{found:?}");
        assert_eq!(named_first(&with("dead", None), RULE.name).commands[1], "nvme list-subsys");
        let known = named_first(&with("resetting", Some("10.0.0.2:4420")), RULE.name);
        assert_eq!(known.commands[1], "selvedge discover -a 10.0.0.2 -s 4420");
    }

    #[test]
    fn look_alikes_are_well() {
        for case in [with("live", None), with("new", None), healthy()] {
            assert_eq!(RULE.findings(&case), []);
        }
    }
}
