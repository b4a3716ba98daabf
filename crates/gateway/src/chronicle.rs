//! Events that a gateway has seen in its group, for the status. The list is bounded and ends with
//! the process.

use std::collections::VecDeque;
use std::time::UNIX_EPOCH;

use engine::limits::GATEWAY_EVENTS_MAX;
use engine::ring::wall_time;

use super::group_event::GroupEvent;
use super::state::GroupState;

/// The last events, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Chronicle {
    events: VecDeque<GroupEvent>,
}

impl Chronicle {
    /// Begins with who is there and who serves what.
    pub(super) fn new(state: &GroupState) -> Self {
        let mut chronicle = Self::default();
        chronicle.keep(GroupEvent::between(&GroupState::default(), state, now_ms()));
        chronicle
    }

    /// Tells in the log what has changed, and keeps it.
    pub(super) fn record(&mut self, before: &GroupState, after: &GroupState) {
        let events = GroupEvent::between(before, after, now_ms());
        for event in &events {
            event.log(after);
        }
        self.keep(events);
        if before.format != after.format && before.version > 0 {
            tracing::info!(
                format = after.format.0,
                "group state converted to a newer format, which all gateways read"
            );
        }
        if before.config != after.config {
            tracing::info!(version = after.version, "the group's configuration has changed");
        }
    }

    /// All that is kept.
    pub(super) fn events(&self) -> Vec<GroupEvent> {
        self.events.iter().cloned().collect()
    }

    fn keep(&mut self, events: Vec<GroupEvent>) {
        self.events.extend(events);
        let surplus = self.events.len().saturating_sub(GATEWAY_EVENTS_MAX);
        self.events.drain(..surplus);
    }
}

fn now_ms() -> u64 {
    let since = wall_time().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::group_event::Happening;
    use super::super::state::{Gateway, Life, LoadBalancingGroup, Owner, Phase, Unknown};
    use super::*;

    fn gateway(life: Life) -> Gateway {
        Gateway {
            number: 1,
            epoch: 1,
            life,
            addresses: Vec::new(),
            listeners: Vec::new(),
            ports: Vec::new(),
            location: None,
            unknown: Unknown::new(),
        }
    }

    fn state(owner: Option<&str>, phase: Phase) -> GroupState {
        let mut state = GroupState::default();
        state.gateways.insert("a".to_owned(), gateway(Life::Alive));
        state.gateways.insert("b".to_owned(), gateway(Life::Alive));
        let owner = owner.map(|name| Owner { gateway: name.to_owned(), epoch: 1 });
        let (preferred, fence, unknown) = ("a".to_owned(), Vec::new(), Unknown::new());
        state.groups.insert(1, LoadBalancingGroup { preferred, owner, state: phase, fence, unknown });
        state
    }

    #[test]
    fn a_takeover_is_recorded_step_by_step() {
        let first = state(Some("a"), Phase::Serving);
        let mut chronicle = Chronicle::new(&first);
        let mut fenced = state(Some("b"), Phase::Fencing);
        fenced.gateways.insert("a".to_owned(), gateway(Life::Dead));
        chronicle.record(&first, &fenced);
        let mut served = fenced.clone();
        served.groups.get_mut(&1).expect("the group").state = Phase::Serving;
        chronicle.record(&fenced, &served);
        chronicle.record(&served, &served);
        let mut removed = served.clone();
        removed.gateways.remove("a");
        chronicle.record(&served, &removed);
        let events: Vec<_> = chronicle
            .events()
            .into_iter()
            .map(|event| (event.what, event.gateway, event.load_balancing_group, event.state))
            .collect();
        let of = |what, name: &str| (what, Some(name.to_owned()), None, None);
        let moves = |name: &str, state| {
            (Happening::LoadBalancingGroupMoves, Some(name.to_owned()), Some(1), Some(state))
        };
        assert_eq!(
            events,
            [
                of(Happening::GatewayThere, "a"),
                of(Happening::GatewayThere, "b"),
                moves("a", Phase::Serving),
                of(Happening::GatewayGivenUp, "a"),
                moves("b", Phase::Fencing),
                moves("b", Phase::Serving),
                of(Happening::GatewayRemoved, "a"),
            ]
        );
    }

    #[test]
    fn the_oldest_goes_first() {
        let (one, other) = (state(Some("a"), Phase::Serving), state(None, Phase::HandingOver));
        let mut chronicle = Chronicle::default();
        for _ in 0..GATEWAY_EVENTS_MAX {
            chronicle.record(&one, &other);
            chronicle.record(&other, &one);
        }
        let events = chronicle.events();
        assert_eq!(events.len(), GATEWAY_EVENTS_MAX);
        assert_eq!(events.last().and_then(|event| event.gateway.as_deref()), Some("a"));
    }
}
