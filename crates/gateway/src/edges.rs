//! Entry for fuzzers to the objects of a group, which other gateways write: reading them, and the decisions that follow from
//! them. Nothing is decided here.

use std::collections::{BTreeMap, BTreeSet};

use engine::ceph::Pairs;
use engine::limits::{GATEWAY_LEASE_MS, GATEWAY_LOOK_GAP_MS_MAX};
use engine::target::FabricConfig;

use super::beat::Beat;
use super::decision::{View, decide};
use super::format::Reads;
use super::group_event::GroupEvent;
use super::lease::{LeaseWatch, Peers};
use super::local_fabric::LocalFabric;
use super::presence::{Presence, stranded};
use super::state::{GroupState, Owner};
pub use super::state_error::StateError;
use super::status::GroupStatus;
use super::store::known_in;

/// Conclusions of a gateway from the objects of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRead {
    /// The same group, as a gateway writes it that makes it.
    pub written: Pairs,
    /// State of the group, as the gateway shows it.
    pub status: GroupStatus,
    /// Configuration that its target would have.
    pub fabric: FabricConfig,
    /// Ports of other gateways, as its target would tell them.
    pub ports_elsewhere: usize,
    /// Load-balancing groups whose owner the gateway is.
    pub owned: BTreeSet<u32>,
    /// Load-balancing groups whose images it would have for itself.
    pub hold: BTreeSet<u32>,
    /// Load-balancing groups that it would serve.
    pub open: BTreeSet<u32>,
    /// Connections that it would put on the blocklist.
    pub fence: BTreeSet<String>,
    /// Number of hosts that have no path to another gateway, as far as reports show.
    pub stranded: usize,
    /// The group as it would change it, if it would.
    pub next: Option<Pairs>,
}

/// Reads the objects of a group as one of its gateways, which has its lease and looks at the beats for some time.
///
/// # Errors
/// What is wrong with the group's own object. What is wrong with beats and reports of hosts is left out.
pub fn read_group(
    group: &Pairs,
    beats: &Pairs,
    hosts: &Pairs,
    gateway: &str,
) -> Result<GroupRead, StateError> {
    let state = GroupState::of_pairs(group)?;
    let beats: BTreeMap<String, Beat> = known_in(beats.clone());
    let presences: BTreeMap<String, Presence> = known_in(hosts.clone());
    let epoch = state.gateways.get(gateway).map_or(1, |known| known.epoch);
    let me = Owner { gateway: gateway.to_owned(), epoch };
    let peers = peers(&state, &beats);
    let owned: BTreeSet<u32> = state.owned(&me).collect();
    let reads = Reads::own(epoch);
    let view = View { reads: Some(&reads), ..View::of_serving(&me, &peers, &owned) };
    let decision = decide(&state, &view);
    let local = LocalFabric {
        state: &state,
        name: gateway,
        ports: &[],
        hold: &decision.hold,
        open: &decision.open,
        left_out: &BTreeSet::new(),
        opening: 1,
    };
    let fabric = local.build();
    let ports_elsewhere = local.directives(&fabric).elsewhere.len();
    let status = GroupStatus::new("group", gateway, true, &state, (&peers, &decision.open));
    let next = decision.write.map(|mut next| {
        next.end_broken_hold(&state);
        whole(&next, &state)
    });
    Ok(GroupRead {
        written: whole(&state, &GroupState::default()),
        status,
        fabric,
        ports_elsewhere,
        owned,
        hold: decision.hold,
        open: decision.open,
        fence: decision.fence,
        stranded: stranded(&state, gateway, &presences).len(),
        next,
    })
}

/// Peers that a gateway sees by looking at these beats until a lease is over.
fn peers(state: &GroupState, beats: &BTreeMap<String, Beat>) -> Peers {
    let mut watch = LeaseWatch::default();
    for at_ms in (0..=GATEWAY_LEASE_MS).step_by((GATEWAY_LOOK_GAP_MS_MAX / 2).max(1) as usize) {
        watch.look(at_ms, at_ms, beats, state);
    }
    watch.peers(state)
}

/// All pairs of a group that follows another one. What changes is seen on the way.
fn whole(state: &GroupState, before: &GroupState) -> Pairs {
    let change = state.change_from(before);
    let events = GroupEvent::between(before, state, 0);
    tracing::trace!(set = change.set.len(), remove = change.remove.len(), events = events.len(), "a group");
    state.change_from(&GroupState::default()).set
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_of_a_later_format_is_refused_by_that() {
        let group = Pairs::from([("format".to_owned(), b"99".to_vec())]);
        let read = read_group(&group, &Pairs::new(), &Pairs::new(), "a");
        assert_eq!(read.map(drop), Err(StateError::Format("99".to_owned())));
    }
}
