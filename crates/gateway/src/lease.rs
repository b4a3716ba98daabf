//! Whether other gateways live, as far as one gateway can tell from their beats and its own clock. It reads neither.

use std::collections::{BTreeMap, BTreeSet};

use engine::limits::{GATEWAY_DESERTED_MS, GATEWAY_LEASE_MS, GATEWAY_LOOK_GAP_MS_MAX, GATEWAY_RETURN_MS};

use super::beat::Beat;
use super::failback::Failback;
use super::state::GroupState;

/// Beats that may be missing before a gateway no longer counts as well, in milliseconds.
const WELL_MS: u64 = GATEWAY_LOOK_GAP_MS_MAX;

/// The gateways of a group that may serve, by how they are. All names are of those that the state says are alive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peers {
    /// Silent for as long as their lease.
    pub(crate) lapsed: BTreeSet<String>,
    /// Heard of lately.
    pub(crate) well: BTreeSet<String>,
    /// Well for long enough to be relied on.
    pub(crate) settled: BTreeSet<String>,
    /// Well for long enough to get their groups back.
    pub(crate) returned: BTreeSet<String>,
    /// Gateways without hosts.
    pub(crate) deserted: BTreeSet<String>,
    /// Gateways that are well and have had hosts for a while.
    pub(crate) visited: BTreeSet<String>,
}

/// Heartbeats of the other gateways, as one gateway has seen them.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaseWatch {
    /// Start of the last look, in milliseconds of the watcher's clock.
    looked_ms: Option<u64>,
    seen: BTreeMap<String, Seen>,
    failback: Failback,
    /// Gateways that get their groups back without a delay, until they have them or are not well again.
    demanded: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    epoch: u64,
    /// The last beat of that epoch.
    count: Option<u64>,
    /// The end of the look that saw it first.
    first_ms: u64,
    /// Since when it has been well.
    well_since_ms: Option<u64>,
    /// Since when hosts are at it.
    hosts_since_ms: Option<u64>,
}

impl LeaseWatch {
    /// A watch that gives groups back by this setting.
    pub(crate) fn new(failback: Failback) -> Self {
        Self { failback, ..Self::default() }
    }

    /// Has a gateway count as one that gets its groups back.
    pub(crate) fn demand(&mut self, name: &str) {
        self.demanded.insert(name.to_owned());
    }

    /// Records a look at the beats, which began and ended then.
    pub(crate) fn look(
        &mut self,
        began_ms: u64,
        ended_ms: u64,
        beats: &BTreeMap<String, Beat>,
        state: &GroupState,
    ) {
        // Who has not looked for a while does not know whether the others were silent meanwhile.
        let gap = self.looked_ms.map_or(u64::MAX, |looked_ms| ended_ms.saturating_sub(looked_ms));
        if gap > GATEWAY_LOOK_GAP_MS_MAX {
            for seen in self.seen.values_mut() {
                seen.first_ms = ended_ms;
            }
        }
        self.looked_ms = Some(began_ms);
        self.seen.retain(|name, _| state.gateways.contains_key(name));
        // An order that was carried out does not count for what the gateway gives away later.
        self.demanded.retain(|name| state.lacks_own(name));
        for (name, gateway) in state.alive() {
            let beat = beats.get(name).filter(|beat| beat.epoch == gateway.epoch);
            let count = beat.map(|beat| beat.count);
            let known = self.seen.get(name).filter(|seen| seen.epoch == gateway.epoch);
            let mut seen = match known {
                Some(seen) if seen.count == count => *seen,
                _ => Seen {
                    epoch: gateway.epoch,
                    count,
                    first_ms: ended_ms,
                    well_since_ms: known.and_then(|seen| seen.well_since_ms),
                    hosts_since_ms: known.and_then(|seen| seen.hosts_since_ms),
                },
            };
            let is_known = known.is_some();
            let is_well = count.is_some() && began_ms.saturating_sub(seen.first_ms) < WELL_MS;
            seen.well_since_ms = is_well.then(|| seen.well_since_ms.unwrap_or(ended_ms));
            let has_hosts = beat.is_some_and(|beat| !beat.is_deserted);
            seen.hosts_since_ms = has_hosts.then(|| seen.hosts_since_ms.unwrap_or(ended_ms));
            self.seen.insert(name.clone(), seen);
            if !is_known || !is_well {
                self.demanded.remove(name);
            }
        }
    }

    /// Start of the last look.
    pub(crate) const fn looked_ms(&self) -> Option<u64> {
        self.looked_ms
    }

    /// Health of the gateways that may serve. A silence counts from the end of the look that found
    /// the last heartbeat to the beginning of the last look.
    pub(crate) fn peers(&self, state: &GroupState) -> Peers {
        let mut peers = Peers::default();
        let Some(looked_ms) = self.looked_ms else { return peers };
        for (name, gateway) in state.alive() {
            let Some(seen) = self.seen.get(name).filter(|seen| seen.epoch == gateway.epoch) else {
                continue;
            };
            if looked_ms.saturating_sub(seen.first_ms) >= GATEWAY_LEASE_MS {
                peers.lapsed.insert(name.clone());
            }
            if seen.hosts_since_ms.is_none() {
                peers.deserted.insert(name.clone());
            }
            if let Some(since_ms) = seen.well_since_ms {
                peers.well.insert(name.clone());
                let is_for = |since_ms| looked_ms.saturating_sub(since_ms) >= GATEWAY_DESERTED_MS;
                if seen.hosts_since_ms.is_some_and(is_for) {
                    peers.visited.insert(name.clone());
                }
                let well_ms = looked_ms.saturating_sub(since_ms);
                let is_demanded = self.demanded.contains(name);
                if well_ms >= GATEWAY_RETURN_MS {
                    peers.settled.insert(name.clone());
                    if is_demanded || self.failback.is_due(well_ms) {
                        peers.returned.insert(name.clone());
                    }
                }
            }
        }
        peers
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::Owner;
    use super::*;

    struct Testbed {
        watch: LeaseWatch,
        state: GroupState,
        beats: BTreeMap<String, Beat>,
    }

    impl Testbed {
        fn new() -> Self {
            let mut state = GroupState::default();
            state.register(&Owner { gateway: "a".to_owned(), epoch: 1 }, &[]).unwrap();
            state.groups.get_mut(&1).unwrap().owner = None;
            Self { watch: LeaseWatch::default(), state, beats: BTreeMap::new() }
        }

        fn beat(&mut self, epoch: u64, count: u64) {
            self.beats.insert("a".to_owned(), Beat { epoch, count, ..Beat::default() });
        }

        fn look(&mut self, at_ms: u64) -> (bool, bool, bool) {
            self.watch.look(at_ms, at_ms + 10, &self.beats, &self.state);
            let peers = self.watch.peers(&self.state);
            (peers.lapsed.contains("a"), peers.well.contains("a"), peers.settled.contains("a"))
        }
    }

    #[test]
    fn silence_for_a_lease_ends_it() {
        let mut testbed = Testbed::new();
        testbed.beat(1, 1);
        assert_eq!(testbed.look(0), (false, true, false));
        for at_ms in (500..2_500).step_by(500) {
            assert!(!testbed.look(at_ms).0, "{at_ms}");
        }
        assert_eq!(testbed.look(2_505), (false, false, false), "the first look ended at 10");
        assert_eq!(testbed.look(2_510), (true, false, false));
        testbed.beat(1, 2);
        assert_eq!(testbed.look(3_000), (false, true, false));
    }

    #[test]
    fn who_could_not_look_does_not_judge() {
        let mut testbed = Testbed::new();
        testbed.beat(1, 1);
        testbed.look(0);
        assert!(!testbed.look(60_000).0);
        for at_ms in (60_500..62_500).step_by(500) {
            assert!(!testbed.look(at_ms).0, "{at_ms}");
        }
        assert!(testbed.look(62_600).0);
    }

    #[test]
    fn who_has_hosts_is_visited_after_a_while_and_deserted_at_once() {
        let mut testbed = Testbed::new();
        let mut say = |count, is_deserted| {
            let beat = Beat { epoch: 1, count, is_deserted, ..Beat::default() };
            testbed.beats.insert("a".to_owned(), beat);
            testbed.look(500 * count);
            let peers = testbed.watch.peers(&testbed.state);
            (peers.deserted.contains("a"), peers.visited.contains("a"))
        };
        assert_eq!(say(1, true), (true, false));
        for count in 2..=5 {
            assert_eq!(say(count, false), (false, false), "{count}");
        }
        assert_eq!(say(6, false), (false, true));
        assert_eq!(say(7, true), (true, false));
    }

    #[test]
    fn a_beat_of_another_epoch_is_none() {
        let mut testbed = Testbed::new();
        testbed.beat(9, 1);
        testbed.look(0);
        for at_ms in (500..2_600).step_by(500) {
            testbed.beat(9, at_ms);
            assert!(!testbed.look(at_ms).1);
        }
        assert!(testbed.look(2_600).0);
    }

    #[test]
    fn a_gateway_gets_its_groups_back_after_its_delay_or_on_demand() {
        let returned_ms = |failback, demand_ms: Option<u64>| {
            let mut testbed = Testbed { watch: LeaseWatch::new(failback), ..Testbed::new() };
            (0..70_000).step_by(500).find(|at_ms| {
                if demand_ms == Some(*at_ms) {
                    testbed.watch.demand("a");
                }
                testbed.beat(1, *at_ms);
                testbed.look(*at_ms);
                testbed.watch.peers(&testbed.state).returned.contains("a")
            })
        };
        let minute = Failback::After(std::time::Duration::from_secs(60));
        let soonest_ms = GATEWAY_RETURN_MS + 500;
        assert_eq!(returned_ms(Failback::default(), None), Some(soonest_ms));
        assert_eq!(returned_ms(minute, None), Some(60_500));
        assert_eq!(returned_ms(minute, Some(30_000)), Some(30_000));
        assert_eq!(
            returned_ms(minute, Some(500)),
            Some(soonest_ms),
            "one that may be gone again has to live a while"
        );
        assert_eq!(returned_ms(Failback::OnDemand, None), None);
        assert_eq!(returned_ms(Failback::OnDemand, Some(30_000)), Some(30_000));
    }

    #[test]
    fn an_order_ends_with_the_next_failure() {
        let mut testbed = Testbed { watch: LeaseWatch::new(Failback::OnDemand), ..Testbed::new() };
        for at_ms in (0..20_000).step_by(500) {
            if at_ms == 5_000 {
                testbed.watch.demand("a");
            }
            let is_silent = (6_000..9_000).contains(&at_ms);
            if !is_silent {
                testbed.beat(1, at_ms);
            }
            testbed.look(at_ms);
            let has_returned = testbed.watch.peers(&testbed.state).returned.contains("a");
            assert_eq!(has_returned, (5_000..7_500).contains(&at_ms), "{at_ms}");
        }
    }

    #[test]
    fn an_order_ends_when_it_is_carried_out() {
        let mut testbed = Testbed { watch: LeaseWatch::new(Failback::OnDemand), ..Testbed::new() };
        for at_ms in (0..20_000).step_by(500) {
            if at_ms == 5_000 {
                testbed.watch.demand("a");
            }
            // It gets its group, and gives it away when it is drained.
            let has_its_own = (6_000..8_000).contains(&at_ms);
            let owner = has_its_own.then(|| Owner { gateway: "a".to_owned(), epoch: 1 });
            testbed.state.groups.get_mut(&1).unwrap().owner = owner;
            testbed.beat(1, at_ms);
            testbed.look(at_ms);
            let has_returned = testbed.watch.peers(&testbed.state).returned.contains("a");
            assert_eq!(has_returned, (5_000..6_000).contains(&at_ms), "{at_ms}");
        }
    }

    #[test]
    fn who_is_well_for_a_while_is_settled() {
        let mut testbed = Testbed::new();
        let mut settled_ms = None;
        for at_ms in (0..10_000).step_by(500) {
            testbed.beat(1, at_ms);
            if testbed.look(at_ms).2 && settled_ms.is_none() {
                settled_ms = Some(at_ms);
            }
        }
        assert_eq!(settled_ms, Some(GATEWAY_RETURN_MS + 500));
    }
}
