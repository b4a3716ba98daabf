//! Events in a group of gateways: found by comparing two of its states, and logged.

use std::time::Duration;

use engine::limits::GATEWAY_LEASE_MS;
use serde::{Deserialize, Serialize};

use super::state::{GroupState, Life, Phase};

/// Something that has happened in a group of gateways.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct GroupEvent {
    /// Time at which the reporting gateway has seen it, in milliseconds since 1970.
    pub time_ms: u64,
    /// Kind of the event.
    pub what: Happening,
    /// Gateway concerned. For a load-balancing group, its present or next owner; none if it has no
    /// owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// The load-balancing group that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancing_group: Option<u32>,
    /// State of the load-balancing group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Phase>,
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "GroupEventKind")]
pub enum Happening {
    /// A gateway takes part.
    GatewayThere,
    /// A gateway was silent, and the others have given it up.
    GatewayGivenUp,
    /// A gateway has ended in order.
    GatewayLeft,
    /// A gateway was taken out of the group.
    GatewayRemoved,
    /// A gateway is to serve nothing as long as another one can.
    GatewayDrained,
    /// A gateway may serve again.
    GatewayResumed,
    /// A load-balancing group has another owner, or its owner has come further.
    LoadBalancingGroupMoves,
    /// A load-balancing group is gone, and its namespaces are in others.
    LoadBalancingGroupGone,
}

impl GroupEvent {
    /// Events between two states.
    pub(super) fn between(before: &GroupState, after: &GroupState, time_ms: u64) -> Vec<Self> {
        let of_gateway = |what, gateway: &String| Self {
            time_ms,
            what,
            gateway: Some(gateway.clone()),
            load_balancing_group: None,
            state: None,
        };
        let of_group = |what, number: u32, gateway, state| Self {
            time_ms,
            what,
            gateway,
            load_balancing_group: Some(number),
            state,
        };
        let mut events = Vec::new();
        for (name, gateway) in &after.gateways {
            let was = before.gateways.get(name).map(|known| (known.life, known.epoch));
            if was != Some((gateway.life, gateway.epoch)) {
                events.push(of_gateway(Happening::of(gateway.life), name));
            }
        }
        let of_both = |gateway: &&String| after.gateways.contains_key(*gateway);
        let drained = after.drained.difference(&before.drained).filter(of_both);
        events.extend(drained.map(|name| of_gateway(Happening::GatewayDrained, name)));
        let resumed = before.drained.difference(&after.drained).filter(of_both);
        events.extend(resumed.map(|name| of_gateway(Happening::GatewayResumed, name)));
        let removed = before.gateways.keys().filter(|name| !after.gateways.contains_key(*name));
        events.extend(removed.map(|name| of_gateway(Happening::GatewayRemoved, name)));
        let gone = before.groups.keys().filter(|number| !after.groups.contains_key(number));
        events.extend(gone.map(|number| of_group(Happening::LoadBalancingGroupGone, *number, None, None)));
        for (number, group) in &after.groups {
            let known = before.groups.get(number);
            if known.is_some_and(|known| (&known.owner, known.state) == (&group.owner, group.state)) {
                continue;
            }
            let owner = group.owner.as_ref().map(|owner| owner.gateway.clone());
            let what = Happening::LoadBalancingGroupMoves;
            events.push(of_group(what, *number, owner, Some(group.state)));
        }
        events
    }

    /// Logs the event, after which the group is in this state.
    pub(super) fn log(&self, after: &GroupState) {
        let gateway = self.gateway.as_deref().unwrap_or("none");
        let group = self.load_balancing_group.unwrap_or_default();
        match self.what {
            Happening::GatewayThere => {
                let number = after.gateways.get(gateway).map(|there| there.number);
                tracing::info!(gateway, number, "the gateway joined the group");
            }
            Happening::GatewayGivenUp => {
                let lease_s = Duration::from_millis(GATEWAY_LEASE_MS).as_secs_f64();
                tracing::warn!(
                    "gateway {gateway}: no heartbeat for {lease_s} s; others take over its load-balancing groups"
                );
            }
            Happening::GatewayLeft => tracing::info!(gateway, "the gateway left the group"),
            Happening::GatewayRemoved => tracing::info!(gateway, "the gateway was removed from the group"),
            Happening::GatewayDrained => {
                tracing::info!(gateway, "the gateway is drained: it serves only while no other gateway can");
            }
            Happening::GatewayResumed => {
                tracing::info!(gateway, "the gateway is resumed: it may serve again");
            }
            Happening::LoadBalancingGroupMoves => {
                let state = self.state.unwrap_or(Phase::Serving);
                tracing::info!(group, owner = gateway, ?state, "a load-balancing group changes its owner");
            }
            Happening::LoadBalancingGroupGone => {
                tracing::info!(group, "a load-balancing group was removed; its namespaces are in others");
            }
        }
    }
}

impl Happening {
    const fn of(life: Life) -> Self {
        match life {
            Life::Alive => Self::GatewayThere,
            Life::Dead => Self::GatewayGivenUp,
            Life::Left => Self::GatewayLeft,
        }
    }
}
