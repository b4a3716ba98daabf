//! Locations of gateways, such as rooms or cities. A load-balancing group has the location of the gateway that it is for, and a
//! namespace that prefers a location is to be in a group of it. Who serves which group is decided in `decision`.

use super::error::Refused;
use super::membership::Membership;
use super::state::GroupState;

impl Membership {
    /// The load-balancing group for a namespace that prefers this location: the present one if it is there, or the one there with
    /// the fewest namespaces.
    ///
    /// # Errors
    /// No gateway has this location.
    pub fn group_at(&self, location: &str, present: Option<u32>) -> Result<u32, Refused> {
        self.catch_up();
        self.seen().state.group_at(location, present).ok_or_else(|| {
            let refused = Refused::unsupported(format!("no gateway has the location {location}"));
            refused.about("location").hint("`selvedge gateways` shows the locations that there are")
        })
    }
}

impl GroupState {
    /// Location of a gateway, which may be gone.
    pub(crate) fn location_of(&self, name: &str) -> Option<&str> {
        self.gateways.get(name)?.location.as_deref()
    }

    /// Location of a load-balancing group.
    pub(crate) fn group_location(&self, number: u32) -> Option<&str> {
        self.location_of(&self.groups.get(&number)?.preferred)
    }

    /// True if a load-balancing group has a location, and this gateway is not there.
    pub(crate) fn is_elsewhere(&self, name: &str, number: u32) -> bool {
        self.group_location(number).is_some_and(|location| self.location_of(name) != Some(location))
    }

    /// True if a load-balancing group, or one of its namespaces, is not served at its location.
    pub(crate) fn is_degraded(&self, number: u32) -> bool {
        let Some(group) = self.groups.get(&number) else { return false };
        let served_at = group.owner.as_ref().and_then(|owner| self.location_of(&owner.gateway));
        let all = self.config.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
        let own = all.filter(|namespace| namespace.ana_group == number);
        let preferred = own.filter_map(|namespace| namespace.location.as_deref());
        preferred.chain(self.group_location(number)).any(|location| served_at != Some(location))
    }

    fn group_at(&self, location: &str, present: Option<u32>) -> Option<u32> {
        let is_there = |number: &u32| self.group_location(*number) == Some(location);
        present.filter(is_there).or_else(|| self.group_with_fewest(Some(location)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use engine::backend::BackendConfig;
    use engine::target::{NamespaceConfig, SubsystemConfig};

    use super::super::decision::{Decision, View, decide};
    use super::super::format::Format;
    use super::super::lease::Peers;
    use super::super::state::{Life, Owner, Phase};
    use super::*;

    /// Gateways at three locations; each has the load-balancing group of its place here.
    const GATEWAYS: [(&str, &str); 4] = [("a", "east"), ("b", "east"), ("c", "west"), ("d", "north")];
    const ALL: usize = (1 << GATEWAYS.len()) - 1;

    fn owner(name: &str, epoch: u64) -> Owner {
        Owner { gateway: name.to_owned(), epoch }
    }

    /// The gateways whose bits are set.
    fn named(bits: usize) -> BTreeSet<String> {
        let set = GATEWAYS.iter().enumerate().filter(|(at, _)| bits & (1 << at) != 0);
        set.map(|(_, (name, _))| (*name).to_owned()).collect()
    }

    /// Gateways that are well, of which these get their groups back. Hosts are at all of them, and the others are silent.
    fn peers(well: usize, returned: usize) -> Peers {
        let names = named(well);
        Peers {
            lapsed: named(ALL & !well),
            settled: names.clone(),
            returned: named(returned),
            visited: names.clone(),
            well: names,
            ..Peers::default()
        }
    }

    /// All gateways, each of which serves its own.
    fn group() -> GroupState {
        let mut state = GroupState::default();
        for (name, location) in GATEWAYS {
            state.register(&owner(name, 1), &[]).unwrap();
            state.gateways.get_mut(name).unwrap().location = Some(location.to_owned());
        }
        settled(state, &peers(ALL, ALL))
    }

    fn decided(state: &GroupState, me: &Owner, peers: &Peers, held: &BTreeSet<u32>) -> Decision {
        let view = View {
            is_deserted: peers.deserted.contains(&me.gateway),
            location: state.location_of(&me.gateway),
            ..View::of_serving(me, peers, held)
        };
        decide(state, &view)
    }

    /// The state once all that are well have decided until nothing changes.
    fn settled(mut state: GroupState, peers: &Peers) -> GroupState {
        for _ in 0..20 {
            let before = state.clone();
            for name in &peers.well {
                let me = owner(name, state.gateways[name].epoch);
                let owned: BTreeSet<u32> = state.owned(&me).collect();
                // It releases first, and then says so.
                let hold = decided(&state, &me, peers, &owned).hold;
                state = decided(&state, &me, peers, &hold).write.unwrap_or(state);
            }
            if state == before {
                assert!(state.groups.values().all(|group| group.state == Phase::Serving), "{state:?}");
                return state;
            }
        }
        panic!("the gateways give groups to each other without end: {state:?}");
    }

    fn owners(state: &GroupState) -> Vec<&str> {
        state.groups.values().map(|group| &*group.owner.as_ref().expect("an owner").gateway).collect()
    }

    /// True if no other gateway should have this group before this one: at its location, if one can be there, and not drained.
    fn is_right(state: &GroupState, number: u32, fit: &BTreeSet<String>) -> bool {
        let owner = &state.groups[&number].owner.as_ref().unwrap().gateway;
        let is_near = |name: &String| !state.is_elsewhere(name, number);
        (fit.is_empty() || fit.contains(owner)) && (is_near(owner) || !fit.iter().any(is_near))
    }

    #[test]
    fn a_group_stays_at_its_location_while_a_gateway_there_may_serve() {
        let pairs = (1..=ALL).flat_map(|living| (0..=ALL).map(move |drained| (living, drained)));
        for (living, drained) in pairs {
            let fit = named(living & !drained);
            let mut state = group();
            state.drained = named(drained);
            // No gateway gets anything back, as with a long delay.
            let state = settled(state, &peers(living, 0));
            for number in 1..=4 {
                assert!(is_right(&state, number, &fit), "{living:b} {drained:b}: {:?}", owners(&state));
                let is_degraded = state.is_elsewhere(owners(&state)[number as usize - 1], number);
                assert_eq!(state.is_degraded(number), is_degraded, "{living:b} {drained:b} {number}");
            }
            // The others return, and wait.
            let mut back = state.clone();
            for name in named(ALL & !living) {
                assert_eq!(back.gateways[&name].life, Life::Dead);
                back.register(&owner(&name, 2), &[]).unwrap();
            }
            let waiting = settled(back, &peers(ALL, living));
            for (at, before) in owners(&state).into_iter().enumerate() {
                let stays = owners(&waiting)[at] == before || state.drained.contains(before);
                assert!(stays, "{living:b} {drained:b}: {:?}", owners(&waiting));
            }
            // Their time is over.
            let home = settled(waiting, &peers(ALL, ALL));
            let fit = named(ALL & !drained);
            for (number, (name, _)) in (1..).zip(GATEWAYS) {
                assert!(is_right(&home, number, &fit), "{living:b} {drained:b}: {:?}", owners(&home));
                assert!(!fit.contains(name) || owners(&home)[number as usize - 1] == name);
            }
        }
    }

    #[test]
    fn a_gateway_of_the_location_gets_a_group_whose_own_is_gone_unless_it_has_no_hosts() {
        let [a, b, c] = [1, 2, 4];
        let mut state = settled(group(), &peers(c, 0));
        assert_eq!(owners(&state), ["c"; 4]);
        state.register(&owner("b", 2), &[]).unwrap();
        let waiting = settled(state.clone(), &peers(b | c, c));
        assert_eq!((owners(&waiting)[0], owners(&waiting)[1]), ("c", "c"), "its delay counts");
        let alone = Peers { deserted: named(b), visited: named(c), ..peers(b | c, b | c) };
        assert_eq!(owners(&settled(state.clone(), &alone)), ["c"; 4], "its hosts would lose the path");
        let mut near = settled(state, &peers(b | c, b | c));
        assert_eq!(owners(&near), ["b", "b", "c", "c"]);
        // Its own gateway comes before others of the location.
        near.register(&owner("a", 2), &[]).unwrap();
        let all = a | b | c;
        assert_eq!(owners(&settled(near, &peers(all, all))), ["a", "b", "c", "c"]);
    }

    #[test]
    fn a_gateway_of_the_location_takes_over_before_one_with_fewer_groups() {
        let [c, a_and_d] = [4, 1 | 8];
        // The group of c has no location that is left, and goes to a.
        let state = settled(group(), &peers(ALL & !c, 0));
        assert_eq!(owners(&state), ["a", "b", "a", "d"]);
        let state = settled(state, &peers(a_and_d, 0));
        assert_eq!(owners(&state), ["a", "a", "a", "d"]);
    }

    #[test]
    fn an_order_gives_groups_of_the_location_back() {
        let mut state = settled(group(), &peers(4, 0));
        assert!(state.lacks_own("b") && state.lacks_own("a"));
        state.register(&owner("b", 2), &[]).unwrap();
        state.groups.get_mut(&2).unwrap().owner = Some(owner("b", 2));
        assert!(state.lacks_own("b"), "the other group of its location is elsewhere");
        assert!(!state.lacks_own("c"));
        state.groups.get_mut(&1).unwrap().owner = Some(owner("b", 2));
        assert!(!state.lacks_own("b") && state.lacks_own("a"), "its own is at another one of its location");
    }

    /// Namespaces in these load-balancing groups, with the location that they prefer.
    fn with_namespaces(state: &mut GroupState, namespaces: &[(u32, Option<&str>)]) {
        let namespace = |(nsid, (group, location)): (u32, &(u32, Option<&str>))| NamespaceConfig {
            ana_group: *group,
            location: location.map(str::to_owned),
            ..NamespaceConfig::new(nsid, BackendConfig::Null { size: 4096 }, 4096)
        };
        let namespaces = (1..).zip(namespaces).map(namespace).collect();
        state.config.subsystems = vec![SubsystemConfig::new("nqn.a", "A", "Selvedge").with(namespaces)];
    }

    #[test]
    fn a_namespace_goes_to_a_group_of_its_location() {
        let mut state = group();
        with_namespaces(&mut state, &[(1, None), (1, Some("east")), (2, None), (3, Some("west"))]);
        assert_eq!((state.group_at("east", None), state.group_at("east", Some(1))), (Some(2), Some(1)));
        assert_eq!((state.group_at("west", Some(1)), state.group_at("south", Some(1))), (Some(3), None));
        assert!((1..=4).all(|number| !state.is_degraded(number)));
        // One that prefers another location than its group has.
        with_namespaces(&mut state, &[(1, Some("west")), (4, None)]);
        assert_eq!((1..=4).filter(|number| state.is_degraded(*number)).collect::<Vec<_>>(), [1]);
        // A location that no gateway has left.
        with_namespaces(&mut state, &[(3, Some("west")), (1, Some("east")), (1, None), (3, None)]);
        let mut state = settled(state, &peers(ALL & !4, 0));
        assert!(state.is_degraded(3) && !state.is_degraded(1));
        state.remove("c").unwrap();
        let state = settled(state, &peers(ALL & !4, 0));
        let groups: Vec<u32> = state.config.subsystems[0].namespaces.iter().map(|n| n.ana_group).collect();
        assert_eq!(groups, [2, 1, 1, 4]);
        assert_eq!([1, 2, 4].map(|number| state.is_degraded(number)), [false, true, false]);
    }

    #[test]
    fn namespaces_of_a_removed_gateway_stay_at_their_location() {
        let mut state = group();
        with_namespaces(&mut state, &[(1, Some("east")), (1, Some("east")), (1, None), (2, None)]);
        let mut state = settled(state, &peers(ALL & !1, 0));
        state.remove("a").unwrap();
        let state = settled(state, &peers(ALL & !1, 0));
        let groups: Vec<u32> = state.config.subsystems[0].namespaces.iter().map(|n| n.ana_group).collect();
        assert_eq!(groups, [2, 2, 3, 2]);
    }

    #[test]
    fn a_location_is_recorded_from_the_second_format_on() {
        let recorded = |format| {
            let mut state = GroupState { format: Format(format), ..GroupState::default() };
            state.register(&owner("a", 1), &[]).unwrap();
            assert_eq!(state.location_of("a"), None);
            let held = BTreeSet::from([1]);
            let peers = Peers { well: BTreeSet::from(["a".to_owned()]), ..Peers::default() };
            let me = owner("a", 1);
            let view = View { location: Some("east"), ..View::of_serving(&me, &peers, &held) };
            decide(&state, &view).write.expect("it serves its group")
        };
        assert_eq!(recorded(1).location_of("a"), None);
        let mut state = recorded(2);
        state.version = 1;
        let mut pairs = state.change_from(&GroupState::default()).set;
        assert_eq!(GroupState::of_pairs(&pairs), Ok(state.clone()));
        assert_eq!(state.location_of("a"), Some("east"));
        // It has the location before it decides in its next epoch, and also when it is gone.
        state.bury("a", |_, _| None);
        assert_eq!(state.group_location(1), Some("east"));
        state.register(&owner("a", 2), &[]).unwrap();
        assert_eq!(state.group_location(1), Some("east"));
        // As a gateway of the version before writes itself down.
        let mut record: BTreeMap<String, serde_json::Value> =
            serde_json::from_slice(&pairs["gateway.a"]).unwrap();
        assert!(record.remove("location").is_some());
        pairs.insert("gateway.a".to_owned(), serde_json::to_vec(&record).unwrap());
        assert_eq!(GroupState::of_pairs(&pairs).unwrap().location_of("a"), None);
    }
}
