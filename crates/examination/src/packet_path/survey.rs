//! A topology with what follows from it. It is what `tune show -o json` prints: the names in it stay.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use topology::{Flow, FlowOwner, Interface, InterfaceKind, Leg, Topology, course, legs};

use super::findings::{Finding, findings};
use crate::failure::Failure;

/// A machine with the courses of its flows.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Survey {
    /// Observed topology.
    pub topology: Topology,
    /// Path of each flow's packets, in the order of the flows.
    pub(crate) courses: Vec<Course>,
    /// Deviations, in words.
    pub findings: Vec<Finding>,
}

/// The ways of one flow's packets.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Course {
    /// The flow's place among the topology's.
    pub flow: usize,
    /// Interfaces with queues by which the packets may come.
    pub(crate) legs: Vec<Leg>,
}

impl Survey {
    /// Follows every flow.
    pub fn new(topology: Topology) -> Self {
        let follow = |(at, flow): (usize, &Flow)| Course { flow: at, legs: course(&topology, flow) };
        let courses: Vec<Course> = topology.flows.iter().enumerate().map(follow).collect();
        let findings = findings(&topology, &courses);
        Self { topology, courses, findings }
    }

    /// Every flow with each of its ways; a flow that has none comes once.
    pub fn ways(&self) -> impl Iterator<Item = (&Flow, Option<&Leg>)> {
        self.courses
            .iter()
            .filter_map(|course| Some((self.topology.flows.get(course.flow)?, course)))
            .flat_map(|(flow, course)| {
                let alone = course.legs.is_empty().then_some((flow, None));
                alone.into_iter().chain(course.legs.iter().map(move |leg| (flow, Some(leg))))
            })
    }

    /// The interfaces worth telling of: devices, and those that flows come by or that stand below or on them.
    pub fn interfaces(&self) -> Vec<&Interface> {
        let used = self.used();
        let is_relevant = |interface: &&Interface| {
            interface.kind == InterfaceKind::Device || used.contains(interface.name.as_str())
        };
        let relevant: Vec<&Interface> = self.topology.interfaces.iter().filter(is_relevant).collect();
        if relevant.is_empty() { self.topology.interfaces.iter().collect() } else { relevant }
    }

    /// Names of the interfaces that flows come by, and of those with queues below them.
    pub fn used(&self) -> BTreeSet<&str> {
        let own = self.topology.flows.iter().filter_map(|flow| flow.interface.as_deref());
        let below = self.courses.iter().flat_map(|course| &course.legs).map(|leg| leg.interface.as_str());
        own.chain(below).collect()
    }
}

/// The part of a topology that concerns these interfaces: they themselves, what they stand on, what stands on them where
/// flows come by that, and those flows. All of it without names.
///
/// # Errors
/// When there is no such interface.
pub fn narrowed(topology: Topology, names: &[String]) -> Result<Topology, Failure> {
    if names.is_empty() {
        return Ok(topology);
    }
    if let Some(unknown) = names.iter().find(|name| topology.interface(name).is_none()) {
        let known: Vec<&str> = topology.interfaces.iter().map(|interface| interface.name.as_str()).collect();
        return Err(Failure::usage(format!(
            "there is no interface {unknown}; there are {}",
            if known.is_empty() { "none".to_owned() } else { known.join(", ") }
        )));
    }
    let mut kept: BTreeSet<String> = names.iter().cloned().collect();
    let concerns = |flow: &Flow| {
        let own = flow.interface.as_ref().filter(|own| names.contains(own)).is_some();
        own || course(&topology, flow).iter().any(|leg| names.contains(&leg.interface))
    };
    let flows: Vec<Flow> = topology.flows.iter().filter(|flow| concerns(flow)).cloned().collect();
    kept.extend(flows.iter().filter_map(|flow| flow.interface.clone()));
    for name in kept.clone() {
        kept.extend(legs(&topology, &name).iter().map(|interface| interface.name.clone()));
        kept.extend(topology.interface(&name).into_iter().flat_map(|interface| interface.lower.clone()));
    }
    let interfaces = topology.interfaces.iter().filter(|interface| kept.contains(&interface.name));
    Ok(Topology { interfaces: interfaces.cloned().collect(), flows, ..topology })
}

/// Name of a flow in a sentence.
pub fn name(flow: &Flow) -> String {
    let whose = match &flow.owner {
        FlowOwner::Kernel => flow.controller.clone(),
        FlowOwner::Initiator { pid } => format!("process {pid}"),
        FlowOwner::Target { .. } if flow.queue_id.is_none() => return flow.peer.to_string(),
        FlowOwner::Target { pid: Some(pid) } => format!("target {pid}"),
        FlowOwner::Target { pid: None } => "the kernel's target".to_owned(),
    };
    match flow.queue_id {
        Some(0) => format!("{whose} admin"),
        Some(queue) => format!("{whose} qid {queue}"),
        None => format!("{whose} port {}", flow.local.port()),
    }
}
