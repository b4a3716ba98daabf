//! Hosts' requests for a notification when a gateway that they have lost can no longer do anything
//! (Cross-Controller Reset, TP8028): the condition in the group's state, and the waiting hosts.
//! Reads no state, and ends no gateway.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::limits::{
    GATEWAY_CONTROLLERS, GATEWAY_RESET_PATIENCE_MS, GATEWAY_RESETS_MAX, GATEWAY_RESETS_PASSED_MAX,
    GATEWAY_RESETS_PER_HOST_MAX,
};
use engine::target::PeerReset;
use nvme::cross_reset::ControllerInstance;

use super::beat::Lost;
use super::state::{GroupState, Life};

/// Tag of an epoch's controllers, half of their random numbers. Two epochs may have the same tag by
/// coincidence; then a former one is taken for the present one, and its hosts wait longer.
pub(crate) fn tag(epoch: u64) -> u32 {
    ((epoch >> 32) as u32).max(1)
}

/// Ability of a gateway's controller to do anything further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// None of its commands takes effect after later work.
    Complete,
    NotYet,
    /// The controller belongs to no gateway of this group.
    Unknown,
}

/// State of rest of this controller, by a state read after the request, for a gateway that has put
/// the connections `fenced` on the blocklist itself.
///
/// An epoch is in the state before it has a controller, and the epoch after it ends those it left before it serves. So who
/// is not in the state as it is now writes by its former connections alone, and what was to be fenced of these is in the
/// fence of a load-balancing group until it is.
///
/// Unknown for a number that no gateway has. A removed gateway's controller is at rest, since it
/// was fenced before; but that answer would also be given for identifiers from outside this group.
/// When another gateway has the number, the removed one is in a former epoch like any other.
pub(crate) fn rest(state: &GroupState, fenced: &BTreeSet<String>, controller: &ControllerInstance) -> Rest {
    let number = controller.controller_id.saturating_sub(1) / GATEWAY_CONTROLLERS + 1;
    let Some(gateway) = state.gateways.values().find(|gateway| gateway.number == number) else {
        return Rest::Unknown;
    };
    let is_present = tag(gateway.epoch) == (controller.random_number >> 32) as u32;
    let mut unfenced = state.groups.values().flat_map(|group| &group.fence);
    if is_present && gateway.life == Life::Alive || unfenced.any(|address| !fenced.contains(address)) {
        Rest::NotYet
    } else {
        Rest::Complete
    }
}

/// Waiting requests.
#[derive(Debug, Default)]
pub(crate) struct PeerResets {
    waiting: Mutex<Vec<Waiting>>,
}

#[derive(Debug)]
struct Waiting {
    reset: PeerReset,
    lost: Lost,
    asked_ms: u64,
}

impl PeerResets {
    /// Takes one more at this time, or says by `false` that there are too many, in all or of its host.
    pub(crate) fn take(&self, reset: PeerReset, asked_ms: u64) -> bool {
        let lost = Lost::from(reset.lost());
        let mut waiting = self.lock();
        let has_room = has_room(waiting.iter().map(|waiting| &waiting.lost), &lost);
        if has_room {
            waiting.push(Waiting { reset, lost, asked_ms });
        }
        has_room
    }

    /// The controllers that hosts wait for, as far as their own gateways are asked at a time to see to them.
    pub(crate) fn asked(&self) -> Vec<Lost> {
        by_turns(self.lock().iter().map(|waiting| waiting.lost.clone()))
    }

    /// Answers those for which there is an answer, by a state that was read from `looked_ms` on, or since the gateway that has
    /// made them says so (`rested`). Who has waited too long hears that there will be none.
    pub(crate) fn answer(
        &self,
        (state, rested): (&GroupState, &BTreeSet<Lost>),
        fenced: &BTreeSet<String>,
        looked_ms: Option<u64>,
        now_ms: u64,
    ) {
        // A reactor that brings another one does not wait for this.
        let asked = std::mem::take(&mut *self.lock());
        let mut waiting = Vec::new();
        for Waiting { reset, lost, asked_ms } in asked {
            let controller = reset.controller();
            let is_known = looked_ms.is_some_and(|looked_ms| looked_ms > asked_ms);
            let rest = if rested.contains(&lost) {
                Rest::Complete
            } else if is_known {
                rest(state, fenced, &controller)
            } else {
                Rest::NotYet
            };
            let is_late = now_ms >= asked_ms + GATEWAY_RESET_PATIENCE_MS;
            match rest {
                Rest::Complete => {
                    tracing::info!(
                        controller = controller.controller_id,
                        "controller of a failed gateway quiesced"
                    );
                    reset.end(true);
                }
                Rest::NotYet if !is_late => waiting.push(Waiting { reset, lost, asked_ms }),
                Rest::NotYet | Rest::Unknown => reset.end(false),
            }
        }
        self.lock().append(&mut waiting);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// True if a request for this controller may wait beside these: a host that asks for many leaves room to others.
fn has_room<'a>(waiting: impl Iterator<Item = &'a Lost>, new: &Lost) -> bool {
    let (mut all, mut own) = (0, 0);
    for lost in waiting {
        all += 1;
        own += usize::from(lost.host_nqn() == new.host_nqn());
    }
    all < GATEWAY_RESETS_MAX && own < GATEWAY_RESETS_PER_HOST_MAX
}

/// As many as other gateways are asked for at a time: the first one of each host, then the second ones, and so on.
fn by_turns(waiting: impl Iterator<Item = Lost>) -> Vec<Lost> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let turn = |lost: Lost| {
        let count = counts.entry(lost.host_nqn().to_owned()).or_default();
        *count += 1;
        (*count, lost)
    };
    let mut all: Vec<(usize, Lost)> = waiting.map(turn).collect();
    all.sort_by_key(|(turn, _)| *turn);
    all.into_iter().map(|(_, lost)| lost).take(GATEWAY_RESETS_PASSED_MAX).collect()
}

#[cfg(test)]
mod tests {
    use engine::target::LostController;

    use super::super::state::Owner;
    use super::*;

    const FIRST: u64 = 0x11 << 32;
    const SECOND: u64 = 0x22 << 32;

    fn owner(gateway: &str, epoch: u64) -> Owner {
        Owner { gateway: gateway.to_owned(), epoch }
    }

    fn controller(number: u16, epoch: u64) -> ControllerInstance {
        ControllerInstance {
            controller_id: (number - 1) * GATEWAY_CONTROLLERS + 5,
            uniquifier: 1,
            random_number: u64::from(tag(epoch)) << 32 | 77,
        }
    }

    /// Gateways a and b, of which a is given up with a connection, and b has its group.
    fn after_a_takeover() -> GroupState {
        let mut state = GroupState::default();
        assert_eq!(state.register(&owner("a", FIRST), &[]), Ok(1));
        assert_eq!(state.register(&owner("b", FIRST), &[]), Ok(2));
        assert!(state.add_address(&owner("a", FIRST), "x"));
        state.bury("a", |_, _| Some(owner("b", FIRST)));
        state
    }

    #[test]
    fn a_dead_gateway_rests_behind_its_fence() {
        let state = after_a_takeover();
        let (none, fenced) = (BTreeSet::new(), BTreeSet::from(["x".to_owned()]));
        assert_eq!(rest(&state, &none, &controller(1, FIRST)), Rest::NotYet);
        assert_eq!(rest(&state, &fenced, &controller(1, FIRST)), Rest::Complete);
        assert_eq!(rest(&state, &fenced, &controller(2, FIRST)), Rest::NotYet, "that one lives");
        assert_eq!(rest(&state, &fenced, &controller(3, FIRST)), Rest::Unknown);
    }

    #[test]
    fn a_former_epoch_is_not_the_present_one() {
        let mut state = after_a_takeover();
        let fenced = BTreeSet::from(["x".to_owned()]);
        assert_eq!(state.register(&owner("a", SECOND), &[]), Ok(1));
        assert_eq!(rest(&state, &fenced, &controller(1, FIRST)), Rest::Complete);
        assert_eq!(rest(&state, &fenced, &controller(1, SECOND)), Rest::NotYet);
    }

    #[test]
    fn identifiers_are_those_of_their_gateways() {
        let state = after_a_takeover();
        let fenced = BTreeSet::from(["x".to_owned()]);
        for (controller_id, expected) in [
            (1, Rest::Complete),
            (GATEWAY_CONTROLLERS, Rest::Complete),
            (GATEWAY_CONTROLLERS + 1, Rest::NotYet),
            (2 * GATEWAY_CONTROLLERS, Rest::NotYet),
            (2 * GATEWAY_CONTROLLERS + 1, Rest::Unknown),
            (u16::MAX, Rest::Unknown),
        ] {
            let controller = ControllerInstance { controller_id, ..controller(1, FIRST) };
            assert_eq!(rest(&state, &fenced, &controller), expected, "{controller_id}");
        }
    }

    fn lost(host: &str, cntlid: u16) -> Lost {
        LostController {
            instance: ControllerInstance { controller_id: cntlid, uniquifier: 1, random_number: 7 },
            subsystem: "s".to_owned(),
            host_nqn: host.to_owned(),
            host_id: uuid::Uuid::nil(),
        }
        .into()
    }

    #[test]
    fn a_host_that_asks_for_many_resets_leaves_room_to_others() {
        let greedy: Vec<Lost> = (0..GATEWAY_RESETS_PER_HOST_MAX as u16).map(|id| lost("a", id)).collect();
        assert!(!has_room(greedy.iter(), &lost("a", 9999)));
        assert!(has_room(greedy.iter().skip(1), &lost("a", 9999)));
        assert!(has_room(greedy.iter(), &lost("b", 1)));
        let full: Vec<Lost> =
            (0..GATEWAY_RESETS_MAX as u16).map(|id| lost(&format!("host-{id}"), id)).collect();
        assert!(!has_room(full.iter(), &lost("b", 1)));
    }

    #[test]
    fn other_gateways_are_asked_for_the_resets_of_hosts_by_turns() {
        let greedy = (0..2 * GATEWAY_RESETS_PASSED_MAX as u16).map(|id| lost("a", id));
        let asked = by_turns(greedy.chain([lost("b", 1), lost("b", 2)]));
        assert_eq!(asked.len(), GATEWAY_RESETS_PASSED_MAX);
        assert_eq!(asked[..4], [lost("a", 0), lost("b", 1), lost("a", 1), lost("b", 2)]);
    }
}
