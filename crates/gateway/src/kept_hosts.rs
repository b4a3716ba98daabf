//! Denied hosts that keep the connections that they have, and have lost the last one since: nothing is left to keep.

use std::collections::{BTreeMap, BTreeSet};

use engine::limits::GATEWAY_UNREACHED_MS;
use engine::target::SubsystemConfig;

use super::membership::Membership;
use super::presence::{Guest, Presence};
use super::state::{GroupState, Owner};

/// Times since which kept hosts have had no controller at any gateway. A report on a host that has just connected takes a
/// moment to arrive.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptHostWatch {
    since_ms: BTreeMap<Guest, u64>,
}

impl KeptHostWatch {
    /// Records the hosts without a controller at this time.
    pub(super) fn note(&mut self, departed: BTreeSet<Guest>, now_ms: u64) {
        self.since_ms.retain(|known, _| departed.contains(known));
        for guest in departed {
            self.since_ms.entry(guest).or_insert(now_ms);
        }
    }

    /// Begins the time of a host again.
    fn restart(&mut self, guest: &Guest) {
        self.since_ms.remove(guest);
    }

    /// True if a host has had no controller for as long as every report takes.
    fn is_certain(&self, guest: &Guest, now_ms: u64) -> bool {
        self.since_ms
            .get(guest)
            .is_some_and(|since_ms| now_ms.saturating_sub(*since_ms) >= GATEWAY_UNREACHED_MS)
    }
}

/// Kept hosts that have no controller of their subsystem at any gateway, as far as the reports show.
pub(super) fn departed(
    state: &GroupState,
    me: &Owner,
    guests: &BTreeSet<Guest>,
    reports: &BTreeMap<String, Presence>,
) -> BTreeSet<Guest> {
    let of = |subsystem: &SubsystemConfig| {
        let nqn = subsystem.nqn.clone();
        subsystem.kept_hosts.clone().into_iter().map(move |host| (nqn.clone(), host))
    };
    let kept = state.config.subsystems.iter().flat_map(of);
    let is_departed = |guest: &Guest| {
        let mut others = state.alive().filter(|(name, _)| **name != me.gateway);
        !guests.contains(guest)
            && others.all(|(name, gateway)| {
                reports.get(name).is_some_and(|there| there.lacks(guest, gateway.epoch))
            })
    };
    kept.filter(is_departed).collect()
}

impl Membership {
    /// Hosts of the subsystem that keep connections of which none is left at any gateway. `denied` is the host that keeps its
    /// connections from now on. With a full list, the latest reports count at once.
    pub fn departed_hosts(&self, nqn: &str, denied: &str, is_full: bool) -> BTreeSet<String> {
        let guests = self.target.get().map(|target| target.guests()).unwrap_or_default();
        let (state, me) = {
            let seen = self.seen();
            (seen.state.clone(), seen.me.clone())
        };
        let mut reports = self.host_reports();
        reports.kept.restart(&(nqn.to_owned(), denied.to_owned()));
        let now_ms = self.now_ms();
        let found = departed(&state, &me, &guests, &reports.heard).into_iter();
        let found = found.filter(|guest| {
            guest.0 == nqn && guest.1 != denied && (is_full || reports.kept.is_certain(guest, now_ms))
        });
        found.map(|(_, host)| host).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NQN: &str = "nqn.test:a";
    const HOST: &str = "nqn.test:host";

    fn owner(name: &str) -> Owner {
        Owner { gateway: name.to_owned(), epoch: 1 }
    }

    fn guests(names: &[&str]) -> BTreeSet<Guest> {
        names.iter().map(|name| (NQN.to_owned(), (*name).to_owned())).collect()
    }

    /// Gateways a, b and c, and a host that keeps its connections.
    fn group() -> GroupState {
        let mut state = GroupState::default();
        for name in ["a", "b", "c"] {
            state.register(&owner(name), &[]).unwrap();
        }
        let subsystem = SubsystemConfig::new(NQN, "A", "Selvedge");
        state.config.subsystems.push(SubsystemConfig { kept_hosts: vec![HOST.to_owned()], ..subsystem });
        state
    }

    /// Kept hosts without a controller, from gateway a with these hosts at a, b and c.
    fn found(state: &GroupState, [here, at_b, at_c]: [&[&str]; 3]) -> BTreeSet<Guest> {
        let report = |names| Presence::new(1, &guests(names), &BTreeSet::new());
        let reports = BTreeMap::from([("b".to_owned(), report(at_b)), ("c".to_owned(), report(at_c))]);
        departed(state, &owner("a"), &guests(here), &reports)
    }

    #[test]
    fn a_kept_host_has_departed_when_no_gateway_of_the_group_has_it() {
        let mut state = group();
        let other: &[&str] = &["nqn.test:another"];
        assert_eq!(found(&state, [&[], other, &[]]), guests(&[HOST]));
        for at in 0..3 {
            let mut hosts: [&[&str]; 3] = [&[]; 3];
            hosts[at] = &[HOST];
            assert_eq!(found(&state, hosts), guests(&[]), "gateway {at} has it");
        }
        let none = BTreeMap::new();
        assert_eq!(departed(&state, &owner("a"), &guests(&[]), &none), guests(&[]), "others say nothing");
        state.config.subsystems[0].kept_hosts.clear();
        assert_eq!(found(&state, [&[], &[], &[]]), guests(&[]), "it keeps nothing");
        state.config.subsystems.clear();
        assert_eq!(found(&state, [&[], &[], &[]]), guests(&[]), "its subsystem is deleted");
    }

    #[test]
    fn a_report_that_comes_late_costs_no_connection() {
        let mut watch = KeptHostWatch::default();
        let guest = (NQN.to_owned(), HOST.to_owned());
        watch.note(guests(&[HOST]), 1_000);
        watch.note(guests(&[HOST]), 2_000);
        assert!(!watch.is_certain(&guest, 999 + GATEWAY_UNREACHED_MS));
        assert!(watch.is_certain(&guest, 1_000 + GATEWAY_UNREACHED_MS));
        watch.restart(&guest);
        assert!(!watch.is_certain(&guest, 1_000 + GATEWAY_UNREACHED_MS), "it was denied again");
        watch.note(guests(&[HOST]), 3_000);
        watch.note(guests(&[]), 4_000);
        watch.note(guests(&[HOST]), 5_000);
        assert!(!watch.is_certain(&guest, 3_000 + GATEWAY_UNREACHED_MS), "it was there meanwhile");
    }
}
