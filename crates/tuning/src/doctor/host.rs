//! This machine as the rules see it: its interfaces and flows, how its links are set, ways to targets, and what has
//! happened between two moments.

use std::collections::BTreeMap;

use topology::{Connection, Flow, FlowOwner, LinkSettings, Queueing, Shortfall};

use super::counters::Counters;
use super::kernel_controllers::{KernelController, PathPolicy};
use super::path::NetworkPath;
use crate::packet_path::Survey;
use crate::tune::PlanReport;

/// A machine.
#[derive(Debug)]
pub(crate) struct Host {
    /// Interfaces, flows and their courses, with what the tuner finds.
    pub(crate) survey: Survey,
    /// Plan of the tuner, with its model's estimate; `None` if it has nothing to change.
    pub(crate) plan: Option<PlanReport>,
    /// Links by the name of their interface: those on the ways to targets, and what these stand on.
    pub(crate) links: BTreeMap<String, Link>,
    /// Source validation of the interfaces that have an address over IPv4: 0 none, 1 strict, 2 loose.
    pub(crate) source_validation: BTreeMap<String, u32>,
    /// Ways to targets.
    pub(crate) paths: Vec<NetworkPath>,
    /// The kernel's controllers.
    pub(crate) controllers: Vec<KernelController>,
    /// Path policies of the kernel's subsystems.
    pub(crate) policies: Vec<PathPolicy>,
    /// Settings of the network, by the part of their path below /proc/sys/net.
    pub(crate) settings: BTreeMap<String, String>,
    /// True if the processors have instructions for AES; `None` if unknown.
    pub(crate) has_aes: Option<bool>,
    /// At the first moment.
    pub(crate) before: Option<Moment>,
    /// At the second.
    pub(crate) now: Option<Moment>,
    /// Data that could not be read.
    pub(crate) unseen: Vec<Shortfall>,
}

/// Counters at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Moment {
    pub(crate) counters: Counters,
    pub(crate) queueings: Vec<Queueing>,
    pub(crate) connections: Vec<Connection>,
}

/// An interface's link.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Link {
    /// Settings from ethtool, if available.
    pub(crate) settings: Option<LinkSettings>,
    /// Distribution of packets over the members of a bond.
    pub(crate) bond: Option<Bond>,
}

/// A bond.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bond {
    /// Mode, such as `802.3ad`.
    pub(crate) mode: String,
    /// Transmit hash policy, such as `layer2`.
    pub(crate) hash: String,
}

/// A connection at both moments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carried<'a> {
    pub(crate) before: &'a Connection,
    pub(crate) now: &'a Connection,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            survey: Survey::new(topology::Topology::default()),
            plan: None,
            links: BTreeMap::new(),
            source_validation: BTreeMap::new(),
            paths: Vec::new(),
            controllers: Vec::new(),
            policies: Vec::new(),
            settings: BTreeMap::new(),
            has_aes: None,
            before: None,
            now: None,
            unseen: Vec::new(),
        }
    }
}

impl Host {
    /// Both moments, where both were seen.
    pub(crate) fn moments(&self) -> Option<(&Moment, &Moment)> {
        self.before.as_ref().zip(self.now.as_ref())
    }

    /// Seconds from the first moment to the second.
    pub(crate) fn interval_s(&self) -> f64 {
        self.moments().map_or(0.0, |(before, now)| (now.counters.at_s - before.counters.at_s).max(0.0))
    }

    /// Connections of NVMe/TCP queues that were there at both moments.
    pub(crate) fn carried(&self) -> Vec<Carried<'_>> {
        let Some((before, now)) = self.moments() else { return Vec::new() };
        let known: BTreeMap<_, _> =
            before.connections.iter().map(|connection| (connection.ends(), connection)).collect();
        let both = |now| Some(Carried { before: known.get(&Connection::ends(now))?, now });
        now.connections.iter().filter_map(both).collect()
    }

    /// The interface that a connection goes by, as the flows know it.
    pub(crate) fn interface_of(&self, connection: &Connection) -> Option<&str> {
        let ends = connection.ends();
        let flow = self.flows().find(|flow| (flow.local, flow.peer) == ends)?;
        flow.interface.as_deref()
    }

    /// True if a connection belongs to a target on this machine.
    pub(crate) fn is_served_here(&self, connection: &Connection) -> bool {
        let ends = connection.ends();
        let flow = self.flows().find(|flow| (flow.local, flow.peer) == ends);
        flow.is_some_and(|flow| matches!(flow.owner, FlowOwner::Target { .. }))
    }

    /// Connections of NVMe/TCP queues.
    pub(crate) fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.survey.topology.flows.iter()
    }

    /// I/O queues of initiators here.
    pub(crate) fn initiator_flows(&self) -> impl Iterator<Item = &Flow> {
        self.flows().filter(|flow| flow.is_io() && !matches!(flow.owner, FlowOwner::Target { .. }))
    }

    /// A setting of the network.
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    /// The queueing disciplines of an interface at the second moment, each with its state at the first.
    pub(crate) fn queueings<'a>(&'a self, interface: &str) -> Vec<(Option<&'a Queueing>, &'a Queueing)> {
        let of = |moment: &'a Option<Moment>| {
            let all = moment.iter().flat_map(|moment| &moment.queueings);
            all.filter(|queueing| queueing.interface == interface).collect::<Vec<_>>()
        };
        let (before, now) = (of(&self.before), of(&self.now).into_iter());
        // The kernel lists them in the same order each time, as long as they are not changed.
        now.enumerate()
            .map(|(at, now)| (before.get(at).copied().filter(|before| before.kind == now.kind), now))
            .collect()
    }
}
