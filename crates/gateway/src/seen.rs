//! What a gateway knows of its group: the state, the others' beats, and what it has done itself. It asks for nothing.

use std::collections::{BTreeMap, BTreeSet};

use engine::ceph::late_operations;
use engine::limits::GATEWAY_LEASE_MS;

use super::beat::{Beat, Lost};
use super::chronicle::Chronicle;
use super::decision::Standing;
use super::failback::Failback;
use super::host_presence::HostPresence;
use super::lease::LeaseWatch;
use super::pauses::Pauses;
use super::state::{GroupState, Owner};

/// Knowledge of a gateway about its group.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) me: Owner,
    /// The epochs that it has asked to begin, and of which it does not know whether it has.
    pub(super) tried: BTreeSet<u64>,
    pub(super) standing: Standing,
    pub(super) state: GroupState,
    pub(super) chronicle: Chronicle,
    pub(super) watch: LeaseWatch,
    /// Reason for which the last look has failed, if it has.
    pub(super) look_error: Option<String>,
    /// Set while it sends no heartbeat.
    pub(super) is_silent: bool,
    /// Start of the last heartbeat that was written.
    pub(super) beaten_ms: Option<u64>,
    pub(super) count: u64,
    pub(super) fenced: BTreeSet<String>,
    pub(super) is_fencing: bool,
    pub(super) host_presence: HostPresence,
    /// Number of late operations when this epoch began.
    pub(super) late_before: u64,
    /// Controllers that other gateways report as at rest.
    pub(super) rested: BTreeSet<Lost>,
    pub(super) pauses: Pauses,
}

impl Seen {
    pub(super) fn new(me: Owner, state: GroupState, failback: Failback) -> Self {
        let (pauses, chronicle) = (Pauses::new(&state), Chronicle::new(&state));
        Self {
            pauses,
            chronicle,
            me,
            tried: BTreeSet::new(),
            standing: Standing::Member,
            state,
            watch: LeaseWatch::new(failback),
            look_error: None,
            is_silent: false,
            beaten_ms: None,
            count: 0,
            fenced: BTreeSet::new(),
            is_fencing: false,
            host_presence: HostPresence::default(),
            late_before: late_operations(),
            rested: BTreeSet::new(),
        }
    }

    pub(super) fn has_lease(&self, now_ms: u64) -> bool {
        // A gateway that was stopped beats first and looks then: before that it does not know what has become of it.
        let times = [self.beaten_ms, self.watch.looked_ms()];
        times.iter().all(|time| time.is_some_and(|at_ms| now_ms < at_ms + GATEWAY_LEASE_MS))
    }

    /// Reason for which it must not say that it lives: it has no lease since it cannot look, and
    /// serves nothing. With heartbeats it would keep its groups from those who can.
    pub(super) fn blindness(&self, now_ms: u64) -> Option<&str> {
        let is_late = self.watch.looked_ms().is_none_or(|at_ms| now_ms >= at_ms + GATEWAY_LEASE_MS);
        self.look_error.as_deref().filter(|_| is_late)
    }

    /// True if the others consider this epoch as one that may serve.
    pub(super) fn is_alive(&self) -> bool {
        self.state.is_alive(&self.me)
    }

    /// Takes over a newer state.
    pub(super) fn learn(&mut self, state: GroupState) {
        if state.version > self.state.version {
            self.chronicle.record(&self.state, &state);
            self.state = state;
        }
    }

    /// Records others' beats, by a look that began and ended then. Which controllers they ask others for.
    pub(super) fn hear(
        &mut self,
        (began_ms, ended_ms): (u64, u64),
        beats: &BTreeMap<String, Beat>,
    ) -> BTreeSet<Lost> {
        self.watch.look(began_ms, ended_ms, beats, &self.state);
        self.pauses.hear(beats);
        self.rested.clear();
        let mut asked = BTreeSet::new();
        for (name, beat) in beats.iter().filter(|(name, _)| **name != self.me.gateway) {
            let gateway = self.state.gateways.get(name);
            if gateway.is_some_and(|gateway| gateway.epoch == beat.epoch) {
                self.rested.extend(beat.rested.iter().cloned());
                asked.extend(beat.asked.iter().cloned());
            }
        }
        asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_that_cannot_look_lives_no_longer_than_its_lease() {
        let me = Owner { gateway: "a".to_owned(), epoch: 1 };
        let mut seen = Seen::new(me, GroupState::default(), Failback::default());
        seen.hear((1_000, 1_010), &BTreeMap::new());
        let end_ms = 1_000 + GATEWAY_LEASE_MS;
        assert_eq!(seen.blindness(u64::MAX), None, "it was stopped, and has not looked yet");
        seen.look_error = Some("damaged".to_owned());
        assert_eq!((seen.blindness(end_ms - 1), seen.blindness(end_ms)), (None, Some("damaged")));
        seen.look_error = None;
        assert_eq!(seen.blindness(end_ms), None);
    }
}
