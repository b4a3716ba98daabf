//! The changes that bring a group's queues, interrupts, senders and workers where the plan wants them. What is already
//! so is not changed.

use std::collections::BTreeMap;

use super::assignment::{Assignment, Method, entry};
use super::group::Group;
use super::placement::Placement;
use super::{Change, Plan, PlanOptions, Step};
use crate::{
    CpuSet, Interface, Interrupt, NtupleRule, RssFields, RuleScope, Ruling, Topology, receive_queue,
};

/// Adds a group's changes to the plan: first processors, then what leads packets to them.
pub(super) fn of_group(
    plan: &mut Plan,
    topology: &Topology,
    group: &Group,
    options: &PlanOptions,
    assignment: &Assignment,
    placement: &Placement,
) {
    let legs = group.interfaces(topology);
    let has_interrupts = group.has_interrupts(topology);
    for leg in &legs {
        excluded(plan, leg, options);
        affinities(plan, topology, leg, placement);
        receive_side(plan, leg, placement, has_interrupts);
        transmit_side(plan, leg, group, assignment, placement);
    }
    for (pid, thread, cpu) in &placement.moves {
        let why = format!("CPU {cpu} serves the queue of its connection");
        plan.steps.push(Step {
            change: Change::Thread { pid: *pid, thread: *thread, cpus: CpuSet::one(*cpu) },
            why,
        });
    }
    for leg in &legs {
        match assignment.method {
            Method::Rules => rules(plan, topology, leg, group, assignment),
            Method::Table => table(plan, topology, leg, group, assignment),
            Method::Sender | Method::None => {}
        }
    }
    cannot(plan, topology, group, assignment, placement, options);
}

/// Says which queues are left alone, since the interface's table does.
fn excluded(plan: &mut Plan, leg: &Interface, options: &PlanOptions) {
    let Some(rss) = leg.rss.as_ref().filter(|rss| !rss.table.is_empty() && !options.uses_excluded_queues)
    else {
        return;
    };
    let left: CpuSet =
        leg.receive.iter().map(|queue| queue.index).filter(|queue| !rss.table.contains(queue)).collect();
    if !left.is_empty() {
        plan.notes.push(format!(
            "{}: the table of receive side scaling leaves out queues {left}, so they are reserved for other traffic: this plan leaves \
             them alone (--all-queues uses them)",
            leg.name
        ));
    }
}

fn affinities(plan: &mut Plan, topology: &Topology, leg: &Interface, placement: &Placement) {
    for (queue, cpu) in &placement.cpus {
        let receive = leg.receive.iter().filter(|known| known.index == *queue).map(|known| &known.interrupt);
        let transmit =
            leg.transmit.iter().filter(|known| known.index == *queue).map(|known| &known.interrupt);
        for interrupt in receive.chain(transmit).flatten() {
            let wanted = CpuSet::one(*cpu);
            let has =
                |step: &Step| matches!(&step.change, Change::Affinity { irq, .. } if *irq == interrupt.irq);
            if interrupt.affinity == wanted || plan.steps.iter().any(has) {
                continue;
            }
            let why = why_affinity(topology, leg, interrupt, *cpu);
            let name = interrupt.name.clone();
            plan.steps
                .push(Step { change: Change::Affinity { irq: interrupt.irq, name, cpus: wanted }, why });
        }
    }
}

fn why_affinity(topology: &Topology, leg: &Interface, interrupt: &Interrupt, cpu: u32) -> String {
    let now = match interrupt.cpu() {
        Some(now) => format!("CPU {now} serves it"),
        None => format!("CPUs {} may serve it", interrupt.affinity),
    };
    let node = topology.processors.node_of(cpu);
    match (leg.node, node) {
        (Some(wanted), Some(node)) if wanted == node => {
            format!("{now}; CPU {cpu} is on {}'s node {node}", leg.name)
        }
        (Some(wanted), Some(node)) => {
            format!(
                "{now}; all CPUs of node {wanted} have a queue, CPU {cpu} of node {node} has none or is the worker's"
            )
        }
        _ => format!("{now}; CPU {cpu} shall serve this queue alone"),
    }
}

fn receive_side(plan: &mut Plan, leg: &Interface, placement: &Placement, has_interrupts: bool) {
    for (queue, cpu) in &placement.cpus {
        let Some(receive) = leg.receive.iter().find(|known| known.index == *queue) else { continue };
        let (wanted, why) = if has_interrupts {
            (
                CpuSet::default(),
                format!("RPS moves its packets to CPUs {}; CPU {cpu} does it all", receive.rps),
            )
        } else {
            (CpuSet::one(*cpu), format!("it has no interrupt: RPS brings its packets to CPU {cpu}"))
        };
        if receive.rps != wanted {
            let change = Change::Rps { interface: leg.name.clone(), queue: *queue, cpus: wanted };
            plan.steps.push(Step { change, why });
        }
    }
}

/// Each worker's processor sends by the queue that it receives by; other processors keep theirs.
fn transmit_side(
    plan: &mut Plan,
    leg: &Interface,
    group: &Group,
    assignment: &Assignment,
    placement: &Placement,
) {
    let mut senders: BTreeMap<u32, CpuSet> = BTreeMap::new();
    for (queue, cpu) in assignment.queues.iter().zip(&placement.workers) {
        if let (Some(queue), Some(cpu)) = (queue, cpu) {
            senders.entry(*queue).or_default().insert(*cpu);
        }
    }
    debug_assert_eq!(assignment.queues.len(), group.planned_flows.len());
    let workers: CpuSet = senders.values().flat_map(CpuSet::iter).collect();
    let share = workers.len().div_ceil(leg.transmit.len().max(1));
    // Where flows have to share a queue, their senders need not: each one more at a queue waits for its lock.
    if leg.transmit.len() < 2 || senders.values().any(|cpus| cpus.len() > share) {
        return;
    }
    let elsewhere = |queue: u32| -> CpuSet {
        senders.iter().filter(|(other, _)| **other != queue).flat_map(|(_, cpus)| cpus.iter()).collect()
    };
    for transmit in &leg.transmit {
        let Some(now) = &transmit.xps else { continue };
        let own = senders.get(&transmit.index).cloned().unwrap_or_default();
        let wanted: CpuSet = now.difference(&elsewhere(transmit.index)).iter().chain(own.iter()).collect();
        if wanted != *now {
            let why = if own.is_empty() {
                format!("CPUs {} send by other queues now", now.difference(&wanted))
            } else {
                format!("CPU {own} sends by the queue that it receives by")
            };
            let change = Change::Xps { interface: leg.name.clone(), queue: transmit.index, cpus: wanted };
            plan.steps.push(Step { change, why });
        }
    }
}

fn rules(plan: &mut Plan, topology: &Topology, leg: &Interface, group: &Group, assignment: &Assignment) {
    let Some(ntuple) = &leg.ntuple else { return };
    let mut taken: Vec<u32> = Vec::new();
    for (planned_flow, queue) in group.planned_flows.iter().zip(&assignment.queues) {
        let Some((flow, queue)) = planned_flow.flow.and_then(|at| topology.flows.get(at)).zip(*queue) else {
            continue;
        };
        let (_, _, now) = receive_queue(leg, flow.peer, flow.local);
        if now == Some(queue) {
            continue;
        }
        if !ntuple.is_enabled && !plan.steps.iter().any(|step| is_ntuple_on(&step.change, &leg.name)) {
            plan.steps.push(Step {
                change: Change::NtupleOn { interface: leg.name.clone() },
                why: "rules lead single flows to their queues".to_owned(),
            });
        }
        // A rule for this very flow is replaced in its place; an administrator's rule for several
        // flows stays.
        let mut places = ntuple.places_for(flow.peer, flow.local);
        let Some(location) = places.find(|slot| !taken.contains(slot)) else { continue };
        taken.push(location);
        let flow_of_rule = Some((flow.peer, flow.local));
        let rule = NtupleRule { location, flow: flow_of_rule, queue: Some(queue), scope: RuleScope::Unknown };
        let why = match now {
            Some(now) => {
                format!("{} shares queue {now} or has to leave it; queue {queue} is its own", who(flow))
            }
            None => format!("the queue of {} is unknown; queue {queue} is its own", who(flow)),
        };
        plan.steps.push(Step { change: Change::Rule { interface: leg.name.clone(), rule }, why });
    }
}

fn is_ntuple_on(change: &Change, name: &str) -> bool {
    matches!(change, Change::NtupleOn { interface } if interface == name)
}

fn table(plan: &mut Plan, topology: &Topology, leg: &Interface, group: &Group, assignment: &Assignment) {
    let Some(rss) = &leg.rss else { return };
    let mut table = rss.table.clone();
    let mut moved = 0;
    for (planned_flow, queue) in group.planned_flows.iter().zip(&assignment.queues) {
        let slot = entry(topology, leg, planned_flow.flow).and_then(|entry| table.get_mut(entry as usize));
        if let Some((slot, queue)) = slot.zip(*queue).filter(|(slot, queue)| **slot != *queue) {
            *slot = queue;
            moved += 1;
        }
    }
    if moved > 0 {
        let why = format!(
            "{moved} of its {} entries lead flows to queues of their own, since it cannot have rules; what else hashes \
             to these entries moves along",
            table.len()
        );
        plan.steps.push(Step { change: Change::RssTable { interface: leg.name.clone(), table }, why });
    }
}

fn who(flow: &crate::Flow) -> String {
    match flow.queue_id {
        Some(queue) => format!("queue {queue} of {}", flow.controller),
        None => format!("a connection of {}", flow.controller),
    }
}

/// Says what this plan cannot do, and who can.
fn cannot(
    plan: &mut Plan,
    topology: &Topology,
    group: &Group,
    assignment: &Assignment,
    placement: &Placement,
    options: &PlanOptions,
) {
    let name = group.legs.join(", ");
    let flows = group.planned_flows.iter().filter(|planned_flow| planned_flow.flow.is_some()).count();
    let unknown = assignment.queues.iter().filter(|queue| queue.is_none()).count();
    if unknown > 0 {
        plan.notes.push(format!(
            "{name}: where {unknown} of {flows} flows arrive cannot be known, and the device takes no rules: only the \
             number of queues and the processors of those known are planned"
        ));
    }
    let is_used = |queue: &u32| assignment.queues.contains(&Some(*queue));
    let spread: CpuSet = group
        .queues
        .iter()
        .copied()
        .filter(|queue| is_used(queue) && !placement.cpus.contains_key(queue))
        .collect();
    if !spread.is_empty() {
        plan.notes.push(format!(
            "{name}: several flows share queue {spread}, and RPS spreads their packets over processors: left as it is"
        ));
    }
    for leg in group.interfaces(topology) {
        plan.notes.extend(hashes_addresses(topology, leg, group, assignment));
        plan.notes.extend(others_rule(topology, leg, group, assignment));
    }
    if assignment.method == Method::None && group.queues.len() > 1 && unknown == 0 {
        plan.notes.push(format!(
            "{name}: flows that are there cannot be led to other queues; connections made with --match-hw-queues choose \
             their source ports so that they spread"
        ));
    }
    let off: CpuSet = group
        .planned_flows
        .iter()
        .zip(&placement.workers)
        .filter(|(planned_flow, _)| matches!(planned_flow.worker, super::group::PlannedWorker::Fixed(_)))
        .filter_map(|(_, cpu)| *cpu)
        .filter(|cpu| group.node.is_some_and(|node| topology.processors.node_of(*cpu) != Some(node)))
        .collect();
    if !off.is_empty() && !options.follows_workers {
        plan.notes.push(format!(
            "{name}: workers on CPUs {off} are not on its node, and nothing from here moves the kernel's: with \
             --follow-workers their queues are served where they are; fewer I/O queues would do without them"
        ));
    }
}

/// Says what would spread flows that share a queue because ports are not hashed.
fn hashes_addresses(
    topology: &Topology,
    leg: &Interface,
    group: &Group,
    assignment: &Assignment,
) -> Option<String> {
    let rss = leg.rss.as_ref()?;
    let flows: Vec<_> = group
        .planned_flows
        .iter()
        .filter_map(|planned_flow| topology.flows.get(planned_flow.flow?))
        .collect();
    let shares = |at: usize| {
        let queue = assignment.queues[at];
        queue.is_some() && assignment.queues.iter().filter(|other| **other == queue).count() > 1
    };
    let is_shared = (0..assignment.queues.len()).any(shares) && group.queues.len() > 1;
    let is_ipv4 = flows.iter().any(|flow| flow.peer.ip().to_canonical().is_ipv4());
    let is_ipv6 = flows.iter().any(|flow| flow.peer.ip().to_canonical().is_ipv6());
    let kinds = [("tcp4", is_ipv4, rss.tcp4), ("tcp6", is_ipv6, rss.tcp6)];
    let kind = kinds.iter().find(|(_, is_used, fields)| *is_used && *fields == RssFields::Addresses);
    let (kind, _, _) = kind.filter(|_| is_shared && assignment.method != Method::Rules)?;
    Some(format!(
        "{name} hashes addresses and no ports, so all connections of two machines come by one queue: `ethtool -N {name} \
         rx-flow-hash {kind} sdfn` spreads them",
        name = leg.name
    ))
}

/// Names the administrator's rule that keeps flows from having one of their own.
fn others_rule(
    topology: &Topology,
    leg: &Interface,
    group: &Group,
    assignment: &Assignment,
) -> Option<String> {
    let ntuple = leg.ntuple.as_ref().filter(|_| assignment.method != Method::Rules)?;
    let flows = group.planned_flows.iter().filter_map(|planned_flow| topology.flows.get(planned_flow.flow?));
    let rule = flows.into_iter().find_map(|flow| match ntuple.ruling(flow.peer, flow.local) {
        Ruling::By(rule) | Ruling::Perhaps(rule) if rule.flow.is_none() => Some(rule.location),
        _ => None,
    })?;
    Some(format!(
        "rule {rule} of {name} is for several flows, these among them, and its place leaves too few before it for rules of \
         their own: move it behind them, or delete it (`ethtool -N {name} delete {rule}`), and plan again",
        name = leg.name
    ))
}
