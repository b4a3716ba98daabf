//! A group of gateways as it is told to people and programs.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::lease::Peers;
use super::state::{GroupState, Life, Listener, Phase};

/// A group, as one of its gateways sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "GatewayGroup")]
pub(crate) struct GroupStatus {
    /// `POOL[/NAMESPACE]/GROUP`.
    pub(crate) group: String,
    /// The gateway that tells this.
    pub(crate) gateway: String,
    /// Whether it reaches what the gateways share.
    pub(crate) has_lease: bool,
    pub(crate) version: u64,
    pub(crate) gateways: Vec<GatewayStatus>,
    pub(crate) load_balancing_groups: Vec<LoadBalancingStatus>,
}

/// A gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "Gateway")]
pub(crate) struct GatewayStatus {
    pub(crate) name: String,
    pub(crate) number: u16,
    pub(crate) life: Life,
    /// Whether it was heard of lately.
    pub(crate) is_well: bool,
    /// Whether hosts have controllers at it, or have had until a moment ago.
    pub(crate) has_hosts: bool,
    pub(crate) listeners: Vec<Listener>,
    /// Connections to clusters that its images use, with some that were closed lately.
    pub(crate) connections: usize,
}

/// A load-balancing group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "LoadBalancingGroup")]
pub(crate) struct LoadBalancingStatus {
    pub(crate) id: u32,
    pub(crate) preferred: String,
    pub(crate) owner: Option<String>,
    pub(crate) state: Phase,
    pub(crate) namespaces: usize,
    /// Whether the gateway that tells this serves it.
    pub(crate) is_served_here: bool,
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
            life: gateway.life,
            is_well: peers.well.contains(name),
            has_hosts: peers.well.contains(name) && !peers.deserted.contains(name),
            listeners: gateway.listeners.clone(),
            connections: gateway.addresses.len(),
        });
        let namespaces = || state.config.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
        let groups = state.groups.iter().map(|(id, group)| LoadBalancingStatus {
            id: *id,
            preferred: group.preferred.clone(),
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
        }
    }
}
