//! A target's port that does not answer, or says no; and a way that does not exist.

use crate::diagnosis::finding::{Finding, Severity};
use crate::doctor::case::Case;
use crate::doctor::path::NetworkPath;
use crate::doctor::rule::Rule;
use crate::probe::Probe;

pub(super) const RULE: Rule = Rule { name: "unreachable", judge };

fn judge(case: &Case) -> Vec<Finding> {
    case.host.paths.iter().filter(|path| path.is_wanted).filter_map(finding).collect()
}

fn finding(path: &NetworkPath) -> Option<Finding> {
    let name = path.name();
    let outage = |cause: String| Finding::new(Severity::Outage, &name, cause).ranked(0.9);
    let finding = match (&path.way, &path.probe) {
        (Err(reason), _) => outage(format!("There is no route to {name}: {reason}"))
            .seen(format!("the kernel, asked for a route: {reason}"))
            .cure("Add a route, or the address of the network that is missing.", "The target can be reached.")
            .command(format!("ip route get {}", path.target.ip())),
        (Ok(way), Some(Probe::Silent)) => {
            outage(format!("{name} does not answer: packets, or their answers, are lost on the way"))
                .seen(format!("a connection by {} got no answer", way.interface))
                .cure(
                    "Check that the machine runs and its port is open: a firewall drops packets silently.",
                    "The target can be reached.",
                )
                .command(format!("ping -c 3 {}", path.target.ip()))
        }
        (Ok(way), Some(Probe::Refused { reason })) => {
            outage(format!("Nothing takes connections at {name}: {reason}"))
                .seen(format!("a connection by {}: {reason}", way.interface))
                .cure("Start the target there, or correct its address or port.", "Hosts can connect.")
                .command(format!("selvedge discover -a {} -s {}", path.target.ip(), path.target.port()))
        }
        _ => return None,
    };
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::sample::{healthy, named_first};

    #[test]
    fn each_way_of_not_being_there_is_named() {
        let refused = Probe::Refused { reason: "Connection refused".to_owned() };
        for (probe, word) in [(Probe::Silent, "does not answer"), (refused, "Nothing takes connections")] {
            let mut case = healthy();
            case.host.paths[0].probe = Some(probe);
            let found = named_first(&case, RULE.name);
            assert!(found.cause.contains(word) && found.severity == Severity::Outage, "{found:?}");
        }
        let mut case = healthy();
        case.host.paths[0].way = Err("Network is unreachable".to_owned());
        assert!(named_first(&case, RULE.name).cause.contains("no route"));
    }

    #[test]
    fn look_alikes_are_well() {
        // One that answers, one that was not tried, one that is not in use.
        let mut untried = healthy();
        untried.host.paths[0].probe = None;
        let mut unwanted = healthy();
        unwanted.host.paths[0].probe = Some(Probe::Silent);
        unwanted.host.paths[0].is_wanted = false;
        for case in [healthy(), untried, unwanted] {
            assert_eq!(RULE.findings(&case), []);
        }
    }
}
