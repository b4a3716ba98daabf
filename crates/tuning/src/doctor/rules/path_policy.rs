//! A kernel's initiator with several paths that uses one: the policy `numa` takes the nearest, of equal ones the first.

use std::collections::BTreeSet;

use crate::diagnosis::finding::{Finding, Severity};
use crate::doctor::case::Case;
use crate::doctor::kernel_controllers::KernelController;
use crate::doctor::rule::Rule;

pub(super) const RULE: Rule = Rule { name: "path-policy", judge };

fn judge(case: &Case) -> Vec<Finding> {
    let host = &case.host;
    let numa = host.policies.iter().filter(|subsystem| subsystem.policy == "numa");
    numa.filter_map(|subsystem| {
        let live: Vec<&KernelController> = host
            .controllers
            .iter()
            .filter(|controller| controller.subsystem_nqn == subsystem.nqn && controller.state == "live")
            .collect();
        let paths = usable(&live);
        // With a node for each path, each node's processors use their own.
        let nodes = host.survey.topology.processors.nodes.len().max(1);
        (paths.len() > nodes).then(|| {
            let (name, count) = (&subsystem.name, paths.len());
            let cause = format!("{name} has {count} paths and uses {nodes}: its policy is numa");
            Finding::new(Severity::MayCost, name, cause)
                .costing(1.0 - nodes as f64 / count as f64)
                .seen(format!("/sys/class/nvme-subsystem/{name}/iopolicy: numa"))
                .seen(format!("live paths that it may use: {}; memory nodes: {nodes}", paths.join(", ")))
                .cure(
                    "Use all paths: queue-depth sends each command where fewest are outstanding (Linux 6.11), round-robin \
                     takes turns.",
                    &format!("Up to {} times the throughput, where the paths do not share a link.", count / nodes),
                )
                .command(format!("echo queue-depth > /sys/class/nvme-subsystem/{name}/iopolicy"))
        })
    })
    .collect()
}

/// Paths among which policies choose, of the namespace that has the most. No policy uses a path that is not optimized beside
/// one that is.
fn usable<'a>(live: &[&'a KernelController]) -> Vec<&'a str> {
    let namespaces: BTreeSet<u32> =
        live.iter().flat_map(|controller| controller.ana_states.keys().copied()).collect();
    if namespaces.is_empty() {
        return live.iter().map(|controller| controller.name.as_str()).collect();
    }
    let of = |namespace: u32| {
        let optimized = in_state(live, namespace, "optimized");
        if optimized.is_empty() { in_state(live, namespace, "non-optimized") } else { optimized }
    };
    namespaces.into_iter().map(of).max_by_key(Vec::len).unwrap_or_default()
}

/// Paths on which a namespace has this ANA state.
fn in_state<'a>(live: &[&'a KernelController], namespace: u32, wanted: &str) -> Vec<&'a str> {
    let is_wanted = |controller: &&&KernelController| {
        controller.ana_states.get(&namespace).is_some_and(|state| state == wanted)
    };
    live.iter().filter(is_wanted).map(|controller| controller.name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::kernel_controllers::PathPolicy;
    use crate::doctor::sample::{healthy, named_first};

    fn with(policy: &str, states: &[&str]) -> Case {
        let mut case = healthy();
        case.host.policies =
            vec![PathPolicy { name: "nvme-subsys0".into(), nqn: "nqn.a".into(), policy: policy.into() }];
        case.host.controllers = (0..states.len())
            .map(|at| KernelController {
                name: format!("nvme{at}"),
                state: states[at].into(),
                subsystem_nqn: "nqn.a".into(),
                ..KernelController::default()
            })
            .collect();
        case
    }

    #[test]
    fn paths_that_are_not_used_are_named() {
        for (states, cost) in [
            (&["live", "live"][..], 50.0),
            (&["live", "live", "live"], 67.0),
            (&["live", "live", "live", "live"], 75.0),
        ] {
            assert_eq!(named_first(&with("numa", states), RULE.name).cost_percent, cost);
        }
    }

    /// Live paths, each with the ANA states of its namespaces.
    fn with_ana(paths: &[&str]) -> Case {
        let mut case = with("numa", &vec!["live"; paths.len()]);
        for (controller, states) in case.host.controllers.iter_mut().zip(paths) {
            controller.ana_states = (1..).zip(states.split(' ').map(str::to_owned)).collect();
        }
        case
    }

    #[test]
    fn optimized_paths_count_where_there_are_some() {
        for paths in [
            &["optimized", "optimized", "non-optimized"][..],
            &["non-optimized", "non-optimized"],
            &["optimized optimized", "non-optimized optimized"],
        ] {
            assert_eq!(named_first(&with_ana(paths), RULE.name).cost_percent, 50.0, "{paths:?}");
        }
        // One path is optimized for each namespace: round-robin and queue-depth use no other.
        for paths in [
            &["optimized", "non-optimized", "inaccessible"][..],
            &["optimized non-optimized", "non-optimized optimized"],
        ] {
            assert_eq!(RULE.findings(&with_ana(paths)), [], "{paths:?}");
        }
    }

    #[test]
    fn look_alikes_are_well() {
        let mut nodes = with("numa", &["live", "live"]);
        nodes.host.survey.topology.processors.nodes = topology::sample::two_nodes().processors.nodes;
        for case in [with("round-robin", &["live", "live"]), with("numa", &["live"]), nodes] {
            assert_eq!(RULE.findings(&case), []);
        }
    }
}
