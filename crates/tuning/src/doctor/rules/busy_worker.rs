//! A thread of an initiator that works on its queue all the time, while the machine could have more queues.

use std::collections::BTreeSet;

use topology::{Flow, queue_limit};

use crate::diagnosis::finding::{Finding, Severity};
use crate::doctor::case::Case;
use crate::doctor::host::Host;
use crate::doctor::rule::Rule;

pub(super) const RULE: Rule = Rule { name: "busy-worker", judge };

/// A thread that runs for this part of the time is at its limit.
const BUSY: f64 = 0.9;

fn judge(case: &Case) -> Vec<Finding> {
    let host = &case.host;
    let initiators = host.survey.topology.initiators();
    let found = initiators.iter().filter_map(|queues| {
        let flows: Vec<&Flow> =
            queues.flows.iter().filter_map(|at| host.survey.topology.flows.get(*at)).collect();
        finding(host, queues.controller, queues.interface, &flows)
    });
    found.collect()
}

/// The part of the time that a thread ran.
fn ran(host: &Host, thread: u32) -> Option<f64> {
    let (before, now) = host.moments()?;
    let of = |counters: &crate::doctor::counters::Counters| Some(counters.threads.get(&thread)?.0);
    let ran_ns = of(&now.counters)?.saturating_sub(of(&before.counters)?);
    let interval_s = host.interval_s();
    (interval_s > 0.0).then(|| ran_ns as f64 / (interval_s * 1e9))
}

/// The part of the time that a thread of ours worked, by its own count: `ran` includes polling. `None`
/// if the process has not published it at two moments.
fn worked(host: &Host, thread: u32) -> Option<f64> {
    let (before, now) = host.moments()?;
    let before = before.counters.waited.get(&thread)?;
    now.counters.waited.get(&thread)?.worked_since(*before)
}

fn finding(host: &Host, controller: &str, interface: Option<&str>, flows: &[&Flow]) -> Option<Finding> {
    let threads: BTreeSet<u32> =
        flows.iter().filter_map(|flow| flow.worker.as_ref().and_then(|worker| worker.thread)).collect();
    let busy: Vec<(u32, f64, f64)> = threads
        .iter()
        .filter_map(|thread| Some((*thread, ran(host, *thread)?, worked(host, *thread)?)))
        .filter(|(_, ran, worked)| ran.min(*worked) >= BUSY)
        .collect();
    let (thread, ran, worked) = busy.first()?;
    let topology = &host.survey.topology;
    let limit = queue_limit(topology, interface?);
    let queues = flows.len() as u64;
    if busy.len() < threads.len() || queues >= u64::from(limit.queues) {
        // Others have room, or there are as many as there should be.
        return None;
    }
    let counted = chart::units::plural(queues, "I/O queue");
    let cause =
        format!("The initiator is at its limit: the threads of its {counted} to {controller} never rest");
    Some(
        Finding::new(Severity::Limits, controller, cause)
            .ranked(0.6)
            .seen(format!(
                "thread {thread} ran for {:.0} % of {:.1} s (schedstat)",
                ran * 100.0,
                host.interval_s()
            ))
            .seen(format!("by its own count, it waited for {:.0} % of the time", (1.0 - worked) * 100.0))
            .seen(format!("{counted}; at most {} by the tuner's rule ({})", limit.queues, limit.reason))
            .cure(
                "Use more I/O queues: each has a thread and a processor of its own.",
                "More commands, up to what the network and the target take.",
            )
            .command(format!("selvedge bench -i {} ...", limit.queues))
            .command("selvedge tune advise -a TARGET".to_owned()),
    )
}

#[cfg(test)]
mod tests {
    use topology::Waited;

    use super::*;
    use crate::doctor::sample::{healthy, named_first};

    /// Our initiator with a thread for each of its two queues, which ran for these parts of a second, and
    /// waited for the rest.
    fn with(ran: [f64; 2]) -> Case {
        polling(ran, ran.map(|ran| 1.0 - ran))
    }

    /// The same, where they waited for these parts, running or not.
    fn polling(ran: [f64; 2], waited: [f64; 2]) -> Case {
        let mut case = healthy();
        for (at, flow) in case.host.survey.topology.flows.iter_mut().enumerate() {
            flow.owner = topology::FlowOwner::Initiator { pid: 9 };
            flow.worker.as_mut().unwrap().thread = Some(20 + at as u32);
        }
        for (moment, part) in [(&mut case.host.before, 0.0), (&mut case.host.now, 1.0)] {
            let counters = &mut moment.as_mut().unwrap().counters;
            let ns = |share: f64| (share * part * 1e9) as u64;
            counters.threads.extend((20..).zip(ran.map(|share| (ns(share), 0))));
            let waited = waited.map(|share| Waited { at_ns: ns(1.0), waited_ns: ns(share) });
            counters.waited.extend((20..).zip(waited));
        }
        case
    }

    #[test]
    fn threads_that_never_rest_are_named() {
        for ran in [[0.99, 0.97], [0.91, 1.0]] {
            let found = named_first(&with(ran), RULE.name);
            assert!(found.severity == Severity::Limits && found.cause.contains("2 I/O queues"), "{found:?}");
        }
        let mut alone = with([0.95, 0.0]);
        alone.host.survey.topology.flows.pop();
        assert!(named_first(&alone, RULE.name).cause.contains("1 I/O queue "));
    }

    #[test]
    fn threads_that_poll_are_not_saturated() {
        assert_eq!(RULE.findings(&polling([0.97, 0.97], [0.7, 0.6])), []);
        // One of them has work alone.
        assert_eq!(RULE.findings(&polling([0.97, 0.97], [0.7, 0.01])), []);
        let mut unknown = with([0.97, 0.97]);
        unknown.host.before.as_mut().unwrap().counters.waited.clear();
        assert_eq!(RULE.findings(&unknown), [], "a process of an earlier version");
        let mut old = with([0.97, 0.97]);
        let published = old.host.now.as_ref().unwrap().counters.waited.clone();
        old.host.before.as_mut().unwrap().counters.waited = published;
        assert_eq!(RULE.findings(&old), [], "nothing was published between the moments");
    }

    #[test]
    fn look_alikes_are_well() {
        // One that rests, both that do, as many queues as processors.
        let mut all = with([0.99, 0.99]);
        all.host.survey.topology.processors.online = (0..2).collect();
        for case in [with([0.99, 0.3]), with([0.5, 0.6]), all] {
            assert_eq!(RULE.findings(&case), []);
        }
    }
}
