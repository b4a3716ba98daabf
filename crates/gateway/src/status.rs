//! Status of a group of gateways, for people and programs.

use std::collections::BTreeSet;

use engine::target::NO_PORT;
use serde::{Deserialize, Serialize};

use super::elsewhere::reported_port;
use super::group_event::GroupEvent;
use super::lease::Peers;
use super::presence::UnreachedHost;
use super::state::{GroupState, Life, Listener, Phase};

/// A group, as one of its gateways sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "GatewayGroup")]
pub struct GroupStatus {
    /// `POOL[/NAMESPACE]/GROUP`.
    pub group: String,
    /// The gateway that tells this.
    pub gateway: String,
    /// True if it reaches the group's shared state.
    pub has_lease: bool,
    /// The number of changes that the state has had.
    pub version: u64,
    /// All gateways, alive or not.
    pub gateways: Vec<GatewayStatus>,
    /// Load-balancing groups with their owners.
    pub load_balancing_groups: Vec<LoadBalancingStatus>,
    /// Hosts that have had no path for a while to a gateway that serves namespaces which they may use.
    #[serde(default)]
    pub unreached_hosts: Vec<UnreachedHost>,
    /// Events that this gateway has seen since its process began, the latest last. They begin with
    /// the members and owners at its start.
    #[serde(default)]
    pub events: Vec<GroupEvent>,
}

/// A gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "Gateway")]
pub struct GatewayStatus {
    /// Name in the group.
    pub name: String,
    /// Number in the group, from which its ports and controllers have theirs.
    pub number: u16,
    /// Location that it was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Life of the gateway as the others see it.
    pub life: Life,
    /// True if its last heartbeat is recent.
    pub is_well: bool,
    /// True if hosts have controllers at it, or have had within the last seconds.
    pub has_hosts: bool,
    /// Addresses at which hosts find it.
    pub listeners: Vec<Listener>,
    /// The numbers of the ports that these are, in the same order; 0 where its version does not tell it.
    #[serde(default)]
    pub ports: Vec<u16>,
    /// Connections to clusters that its images use, with some that were closed lately.
    pub connections: usize,
    /// True if it is to serve nothing as long as another one can.
    #[serde(default)]
    pub is_drained: bool,
}

/// A load-balancing group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "LoadBalancingGroup")]
pub struct LoadBalancingStatus {
    /// Number of the load-balancing group.
    pub id: u32,
    /// The gateway that serves it when all are well.
    pub preferred: String,
    /// Location of that gateway, whose other gateways serve the group before others do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// True if the group, or a namespace in it, is not served at its location.
    #[serde(default)]
    pub is_degraded: bool,
    /// The gateway that serves it, if one does.
    pub owner: Option<String>,
    /// Progress towards its owner.
    pub state: Phase,
    /// Number of namespaces in it.
    pub namespaces: usize,
    /// True if the reporting gateway serves it.
    pub is_served_here: bool,
}

impl LoadBalancingStatus {
    /// True if a gateway serves its namespaces, if it has any.
    pub const fn is_served(&self) -> bool {
        self.namespaces == 0 || self.owner.is_some() && matches!(self.state, Phase::Serving)
    }
}

impl GroupStatus {
    pub(super) fn new(
        group: &str,
        gateway: &str,
        has_lease: bool,
        state: &GroupState,
        (peers, open): (&Peers, &BTreeSet<u32>),
    ) -> Self {
        let gateways = state.gateways.iter().map(|(name, gateway)| GatewayStatus {
            name: name.clone(),
            number: gateway.number,
            location: gateway.location.clone(),
            life: gateway.life,
            is_well: peers.well.contains(name),
            has_hosts: peers.well.contains(name) && !peers.deserted.contains(name),
            listeners: gateway.listeners.clone(),
            ports: gateway
                .listeners
                .iter()
                .map(|listener| reported_port(gateway, listener).map_or(NO_PORT, |port| port.id))
                .collect(),
            connections: gateway.addresses.len(),
            is_drained: state.is_drained(name),
        });
        let namespaces = || state.config.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
        let groups = state.groups.iter().map(|(id, group)| LoadBalancingStatus {
            id: *id,
            preferred: group.preferred.clone(),
            location: state.group_location(*id).map(str::to_owned),
            is_degraded: state.is_degraded(*id),
            owner: group.owner.as_ref().map(|owner| owner.gateway.clone()),
            state: group.state,
            namespaces: namespaces().filter(|namespace| namespace.ana_group == *id).count(),
            is_served_here: open.contains(id),
        });
        Self {
            group: group.to_owned(),
            gateway: gateway.to_owned(),
            has_lease,
            version: state.version,
            gateways: gateways.collect(),
            load_balancing_groups: groups.collect(),
            unreached_hosts: Vec::new(),
            events: Vec::new(),
        }
    }
}
