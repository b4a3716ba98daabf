//! What has to be planned together: the flows that come by the same network interfaces, each with who works on it.

use super::PlanOptions;
use crate::rule::queue_limit;
use crate::{CpuSet, Flow, FlowOwner, Interface, InterfaceKind, Topology, course, legs};

/// Interfaces with queues, and what wants one of them.
#[derive(Debug)]
pub(super) struct Group {
    /// The interfaces: several where they are a bond's members, which are set alike.
    pub(super) legs: Vec<String>,
    /// Receive queues that may be used on all of them.
    pub(super) queues: Vec<u32>,
    /// The interfaces' memory node, where they have one in common.
    pub(super) node: Option<u16>,
    /// Flows, present or expected.
    pub(super) planned_flows: Vec<PlannedFlow>,
}

/// Flow that needs a queue and a processor.
#[derive(Debug)]
pub(super) struct PlannedFlow {
    /// Index of the flow in the topology; none for an expected flow.
    pub(super) flow: Option<usize>,
    /// The queue it comes by now on the first of the interfaces, where that is known.
    pub(super) queue_now: Option<u32>,
    /// Worker of the flow.
    pub(super) worker: PlannedWorker,
}

/// Worker of a flow, as far as a plan is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PlannedWorker {
    /// The worker stays on this processor.
    Fixed(u32),
    /// A thread that can be moved.
    Movable {
        /// Process of the thread.
        pid: u32,
        /// The thread.
        thread: u32,
        /// Processors it may run on now.
        allowed: CpuSet,
    },
    /// The worker is unknown; if anything, it is on one of these.
    Unknown(CpuSet),
}

impl Group {
    /// All groups of a topology, as far as the options ask for them.
    pub(super) fn all(topology: &Topology, options: &PlanOptions) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for name in super::names(topology, options) {
            let flows = topology.flows.iter().enumerate();
            let mut planned_flows: Vec<PlannedFlow> = flows
                .filter(|(_, flow)| flow.is_io() && flow.interface.as_deref() == Some(&name))
                .map(|(at, flow)| PlannedFlow::of(topology, at, flow))
                .collect();
            let legs: Vec<&Interface> =
                legs(topology, &name).into_iter().filter(|leg| leg.kind != InterfaceKind::Loopback).collect();
            if planned_flows.is_empty() {
                let queues = common_queues(&legs, options).len();
                let count = (queue_limit(topology, &name).queues as usize).min(queues);
                planned_flows.extend((0..count).map(|_| PlannedFlow::to_come()));
            }
            let group = Group {
                queues: common_queues(&legs, options),
                node: common_node(&legs),
                legs: legs.iter().map(|leg| leg.name.clone()).collect(),
                planned_flows,
            };
            group.join(&mut groups, topology, options);
        }
        for group in &mut groups {
            group.planned_flows.sort_by_key(|planned_flow| {
                let flow = planned_flow.flow.and_then(|at| topology.flows.get(at));
                flow.map(|flow| (flow.controller.clone(), flow.queue_id, flow.local.port()))
            });
        }
        groups.retain(|group| !group.queues.is_empty());
        groups
    }

    /// Adds it to those that it shares an interface with (VLANs of one device do), or else as one more.
    fn join(self, groups: &mut Vec<Group>, topology: &Topology, options: &PlanOptions) {
        let shares = |other: &Group| other.legs.iter().any(|leg| self.legs.contains(leg));
        let Some(other) = groups.iter_mut().find(|other| shares(other)) else {
            groups.push(self);
            return;
        };
        let new: Vec<String> = self.legs.into_iter().filter(|leg| !other.legs.contains(leg)).collect();
        other.legs.extend(new);
        let legs: Vec<&Interface> = other.legs.iter().filter_map(|leg| topology.interface(leg)).collect();
        other.queues = common_queues(&legs, options);
        other.node = common_node(&legs);
        // A place for a flow to come is only for an interface that has none.
        let has_flows = other
            .planned_flows
            .iter()
            .chain(&self.planned_flows)
            .any(|planned_flow| planned_flow.flow.is_some());
        other.planned_flows.extend(self.planned_flows);
        other.planned_flows.retain(|planned_flow| planned_flow.flow.is_some() || !has_flows);
        if !has_flows {
            other.planned_flows.truncate(other.queues.len());
        }
    }

    /// True if there is anything to choose: with one queue and no interrupt there is not.
    pub(super) fn has_choice(&self, topology: &Topology) -> bool {
        self.queues.len() > 1 || self.has_interrupts(topology)
    }

    /// True if received packets of the interfaces come by interrupts.
    pub(super) fn has_interrupts(&self, topology: &Topology) -> bool {
        let legs = self.interfaces(topology);
        legs.iter().any(|leg| leg.receive.iter().any(|queue| queue.interrupt.is_some()))
    }

    /// The interfaces themselves.
    pub(super) fn interfaces<'a>(&self, topology: &'a Topology) -> Vec<&'a Interface> {
        self.legs.iter().filter_map(|leg| topology.interface(leg)).collect()
    }
}

impl PlannedFlow {
    fn of(topology: &Topology, at: usize, flow: &Flow) -> Self {
        let queue_now = course(topology, flow).first().and_then(|leg| leg.queue);
        Self { flow: Some(at), queue_now, worker: PlannedWorker::of(flow) }
    }

    fn to_come() -> Self {
        Self { flow: None, queue_now: None, worker: PlannedWorker::Unknown(CpuSet::default()) }
    }
}

impl PlannedWorker {
    fn of(flow: &Flow) -> Self {
        let Some(worker) = &flow.worker else { return Self::Unknown(CpuSet::default()) };
        let pid = match flow.owner {
            FlowOwner::Initiator { pid } | FlowOwner::Target { pid: Some(pid) } => Some(pid),
            _ => None,
        };
        match (worker.is_movable, pid, worker.thread, worker.cpu) {
            (true, Some(pid), Some(thread), _) => {
                Self::Movable { pid, thread, allowed: worker.allowed.clone() }
            }
            (_, _, _, Some(cpu)) => Self::Fixed(cpu),
            _ => Self::Unknown(worker.allowed.clone()),
        }
    }
}

/// The queues that may be used on all of the interfaces: those that their tables name.
fn common_queues(legs: &[&Interface], options: &PlanOptions) -> Vec<u32> {
    let usable = |leg: &Interface| -> Vec<u32> {
        let table = leg.rss.as_ref().map(|rss| &rss.table).filter(|table| !table.is_empty());
        let queues = leg.receive.iter().map(|queue| queue.index);
        let is_used =
            |queue: &u32| options.uses_excluded_queues || table.is_none_or(|table| table.contains(queue));
        queues.filter(is_used).collect()
    };
    let Some((first, others)) = legs.split_first() else { return Vec::new() };
    let others: Vec<Vec<u32>> = others.iter().map(|leg| usable(leg)).collect();
    usable(first).into_iter().filter(|queue| others.iter().all(|other| other.contains(queue))).collect()
}

fn common_node(legs: &[&Interface]) -> Option<u16> {
    let node = legs.first().and_then(|leg| leg.node)?;
    legs.iter().all(|leg| leg.node == Some(node)).then_some(node)
}
