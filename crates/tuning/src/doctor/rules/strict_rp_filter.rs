//! Strict source validation (RFC 3704) drops what comes in by another interface than the one that answers leave by: a second
//! path in one network, or one whose answers take another way.

use crate::diagnosis::finding::{Finding, Severity};
use crate::doctor::case::Case;
use crate::doctor::host::Host;
use crate::doctor::path::NetworkPath;
use crate::doctor::rule::Rule;
use crate::probe::Probe;

pub(super) const RULE: Rule = Rule { name: "strict-rp-filter", judge };

const STRICT: u32 = 1;
/// The counter of packets that were dropped for it.
const DROPPED: &str = "TcpExt/IPReversePathFilter";

fn judge(case: &Case) -> Vec<Finding> {
    let host = &case.host;
    let dropped =
        host.moments().map_or(0, |(before, now)| now.counters.network_since(&before.counters, DROPPED));
    let mut found: Vec<Finding> = Vec::new();
    for path in &host.paths {
        let Some(interface) = dropping(host, path).filter(|_| fails(host, path)) else { continue };
        // What was dropped may be anybody's; that this path is silent meanwhile makes it its packets. Questions for an
        // address (ARP) are dropped uncounted: then it is known where the same target answers other sources.
        let answers_others = path.source_interface.is_some()
            && host.paths.iter().any(|other| other.target == path.target && reached(other));
        if dropped == 0 && !answers_others {
            continue;
        }
        let finding = finding(host, path, interface);
        let finding = if dropped > 0 {
            let interval_s = host.interval_s();
            finding.seen(format!(
                "IPReversePathFilter in /proc/net/netstat grew by {dropped} in {interval_s:.1} s"
            ))
        } else {
            finding.seen(format!("{} answers packets from another address of this machine", path.target))
        };
        if !found.iter().any(|known| known.subject == finding.subject) {
            found.push(finding);
        }
    }
    found
}

fn finding(host: &Host, path: &NetworkPath, interface: &str) -> Finding {
    // A further path that is not in use yet is missed by no host.
    let severity = if path.is_wanted { Severity::Outage } else { Severity::MayCost };
    let cause = format!(
        "{interface} drops the packets of {}: its source validation is strict, and answers to them leave by {}",
        path.name(),
        path.interface().filter(|name| *name != interface).unwrap_or("another interface")
    );
    let mut finding = Finding::new(severity, interface, cause)
        .ranked(1.0)
        .seen(format!("rp_filter of {interface} is {STRICT} (the larger of conf/all and conf/{interface})"));
    if let Some((source, own)) = path.source.zip(path.source_interface.as_deref()) {
        finding = finding.seen(format!(
            "{source} is an address of {own}; packets from it to {} leave by {}",
            path.target.ip(),
            path.interface().unwrap_or("nothing")
        ));
    }
    let tried = match (&path.probe, kernel_state(host, path)) {
        (Some(Probe::Silent), _) => Some(format!("a connection to {} got no answer", path.name())),
        (_, Some((name, state))) => Some(format!("{name} is {state}")),
        _ => None,
    };
    finding = tried.into_iter().fold(finding, Finding::seen);
    finding = finding
        .cure(
            "Let answers leave by the interface that the packets came by (a rule and a route for its address), or make \
             the validation loose.",
            "The path works; with a route of its own, it also uses its own link.",
        )
        .command(format!("sysctl -w net.ipv4.conf.{interface}.rp_filter=2"));
    match path.source {
        Some(source) => finding.command(format!(
            "ip route add {} dev {interface} table 100 && ip rule add from {source} table 100",
            path.target.ip()
        )),
        None => finding,
    }
}

/// The strict interface by which packets of this way come in while answers leave by another.
fn dropping<'a>(host: &'a Host, path: &'a NetworkPath) -> Option<&'a str> {
    let is_strict = |name: &str| host.source_validation.get(name) == Some(&STRICT);
    if !path.target.is_ipv4() {
        return None;
    }
    let leaves_by = path.interface()?;
    match path.source_interface.as_deref() {
        Some(own) => (own != leaves_by && is_strict(own)).then_some(own),
        // Without a source, answers may come in by any other interface that is strict.
        None => {
            let others = host.source_validation.keys().map(String::as_str);
            others.filter(|name| *name != leaves_by && *name != "lo").find(|name| is_strict(name))
        }
    }
}

fn reached(path: &NetworkPath) -> bool {
    matches!(path.probe, Some(Probe::Reached { .. } | Probe::Refused { .. }))
}

/// True if no packet comes back on a path in use.
fn fails(host: &Host, path: &NetworkPath) -> bool {
    path.probe == Some(Probe::Silent) || kernel_state(host, path).is_some()
}

/// The kernel's controller that wants this way and is not there, and its state.
fn kernel_state<'a>(host: &'a Host, path: &NetworkPath) -> Option<(&'a str, &'a str)> {
    let found = host.controllers.iter().find(|controller| {
        controller.target == Some(path.target)
            && controller.source == path.source
            && controller.state == "connecting"
    })?;
    Some((&found.name, &found.state))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::sample::{healthy, named_first, second_path};

    fn dropping_case(dropped: u64) -> Case {
        let mut case = second_path();
        case.host.paths[1].is_wanted = true;
        let now = case.host.now.as_mut().unwrap();
        now.counters.network.insert(DROPPED.to_owned(), dropped);
        case
    }

    #[test]
    fn a_silent_second_path_is_explained() {
        let mut case = dropping_case(3);
        case.host.paths[1].probe = Some(Probe::Silent);
        let found = named_first(&case, RULE.name);
        assert_eq!((found.severity, found.subject.as_str()), (Severity::Outage, "eth1"));
        assert!(found.evidence.iter().any(|line| line.contains("grew by 3")), "{found:?}");
    }

    #[test]
    fn so_is_a_controller_that_goes_on_connecting() {
        let mut case = dropping_case(9);
        let (target, source) = (case.host.paths[1].target, case.host.paths[1].source);
        case.host.paths[1].probe = None;
        case.host.controllers.push(crate::doctor::kernel_controllers::KernelController {
            name: "nvme1".into(),
            state: "connecting".into(),
            target: Some(target),
            source,
            ..Default::default()
        });
        assert!(
            named_first(&case, RULE.name).evidence.iter().any(|line| line.contains("nvme1 is connecting"))
        );
    }

    #[test]
    fn so_is_a_way_whose_answers_come_in_elsewhere() {
        let mut case = dropping_case(2);
        case.host.paths.remove(1);
        case.host.paths[0].source = None;
        case.host.paths[0].source_interface = None;
        case.host.paths[0].probe = Some(Probe::Silent);
        assert_eq!(named_first(&case, RULE.name).subject, "eth1");
    }

    #[test]
    fn one_that_is_silent_where_others_are_answered_is_explained() {
        let mut case = dropping_case(0);
        case.host.paths[1].probe = Some(Probe::Silent);
        let found = named_first(&case, RULE.name);
        assert!(found.evidence.iter().any(|line| line.contains("answers packets from another")), "{found:?}");
        // The path is not in use yet.
        case.host.paths[1].is_wanted = false;
        assert_eq!(named_first(&case, RULE.name).severity, Severity::MayCost);
    }

    #[test]
    fn look_alikes_are_well() {
        // Loose validation, a route of its own, packets of others that are dropped, a path that was not tried, one address.
        let mut loose = dropping_case(0);
        loose.host.paths[1].probe = Some(Probe::Silent);
        loose.host.paths[1].is_wanted = false;
        loose.host.source_validation.insert("eth1".to_owned(), 2);
        let mut routed = dropping_case(0);
        routed.host.paths[1].way.as_mut().unwrap().interface = "eth1".to_owned();
        let others = dropping_case(50);
        let mut untried = dropping_case(0);
        untried.host.paths[1].probe = None;
        let mut alone = healthy();
        alone.host.source_validation.insert("eth0".to_owned(), 1);
        for case in [loose, routed, others, untried, alone] {
            assert_eq!(RULE.findings(&case), []);
        }
    }
}
