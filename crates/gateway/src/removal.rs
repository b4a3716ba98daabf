//! Taking a gateway out of its group for good, and what becomes of its load-balancing group. What a removal means for the
//! group's state is a pure function of it.
//!
//! A removal takes two steps. The caller's step removes the gateway's record only: its
//! load-balancing group keeps its fence, and its owner, which serves it. The owner then releases
//! the images, and removes the group in the one change that gives its namespaces to others: as with
//! any hand-over, no other gateway has the images before.

use std::collections::BTreeMap;

use super::error::{Reason, Refused};
use super::member::{Update, update};
use super::membership::Membership;
use super::state::{GroupState, Life, LoadBalancingGroup, Phase};

/// Why a gateway cannot be taken out of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotRemoved {
    /// There is none by that name.
    Unknown,
    /// The gateway may serve.
    Alive,
    /// This load-balancing group is just being taken over.
    TakenOver(u32),
}

impl NotRemoved {
    /// Converts the error for the caller that asked for this gateway's removal.
    pub(crate) fn refused(self, name: &str) -> Refused {
        match self {
            Self::Unknown => Refused::new(Reason::Unknown, format!("the group has no gateway {name}"))
                .hint("`selvedge gateways` shows those that there are"),
            Self::Alive => Refused::conflict(format!("gateway {name} is alive"))
                .hint("end it first; a lost gateway is declared dead within seconds"),
            Self::TakenOver(number) => {
                Refused::conflict(format!("load-balancing group {number} is being taken over"))
                    .hint("ask again in a moment")
            }
        }
    }
}

impl Membership {
    /// Takes a gateway out of the group for good that has ended or was given up.
    pub fn remove_gateway(&self, name: &str) -> Result<(), Refused> {
        let mut is_tried = false;
        let removed = update(self.store(), |state| {
            let outcome = state.remove(name);
            // A change that took too long may have happened.
            if is_tried && outcome == Err(NotRemoved::Unknown) {
                return Ok(Update::Done(Ok(())));
            }
            is_tried |= outcome.is_ok();
            Ok(if outcome.is_ok() { Update::Write(outcome) } else { Update::Done(outcome) })
        });
        let (state, outcome) = removed.map_err(Refused::unavailable)?;
        self.seen().learn(state);
        outcome.map_err(|reason| reason.refused(name))?;
        self.tell();
        self.wake();
        // A heartbeat that is left behind is ignored.
        if let Err(error) = self.store().forget_beat(name) {
            tracing::debug!(%error, "cannot remove the heartbeat of a removed gateway");
        }
        Ok(())
    }
}

impl GroupState {
    /// Takes a gateway out of the group that has ended or was given up. Its number is free when its load-balancing group is
    /// gone.
    ///
    /// # Errors
    /// The gateway may serve; or a group is being taken over, when a dead gateway's connections may
    /// not be on the blocklist yet while the caller may want to start something else in its place.
    pub(crate) fn remove(&mut self, name: &str) -> Result<(), NotRemoved> {
        let gateway = self.gateways.get(name).ok_or(NotRemoved::Unknown)?;
        if gateway.life == Life::Alive {
            return Err(NotRemoved::Alive);
        }
        if let Some((number, _)) = self.groups.iter().find(|(_, group)| !is_settled(group)) {
            return Err(NotRemoved::TakenOver(*number));
        }
        self.gateways.remove(name);
        self.readers.remove(name);
        self.drained.remove(name);
        Ok(())
    }

    /// True if the gateway that this load-balancing group is for is one of the group, alive or not.
    /// One that was removed and has come again by the same name has another number.
    fn has_home(&self, number: u32) -> bool {
        let preferred = self.groups.get(&number).and_then(|group| self.gateways.get(&group.preferred));
        preferred.is_some_and(|gateway| u32::from(gateway.number) == number)
    }

    /// True if this load-balancing group's owner is to release and then dissolve it: its gateway
    /// was removed, there are others, and no fence is left.
    pub(crate) fn is_to_be_dissolved(&self, number: u32) -> bool {
        self.groups.get(&number).is_some_and(is_settled)
            && !self.has_home(number)
            && self.groups.keys().any(|other| self.has_home(*other))
    }

    /// Takes a load-balancing group away whose owner has let go of it. Each of its namespaces goes to the group that has the
    /// fewest by then, of those of its location where there are any.
    pub(crate) fn dissolve(&mut self, number: u32) {
        if !self.is_to_be_dissolved(number) {
            return;
        }
        self.groups.remove(&number);
        let mut counts = self.namespace_counts();
        let location = |number: &u32| Some((*number, self.group_location(*number)?.to_owned()));
        let locations: BTreeMap<u32, String> = counts.keys().filter_map(location).collect();
        for subsystem in &mut self.config.subsystems {
            for namespace in subsystem.namespaces.iter_mut().filter(|known| known.ana_group == number) {
                let wanted = namespace.location.as_ref();
                let near = with_fewest(&counts, |group| wanted.is_some() && locations.get(&group) == wanted);
                let Some(group) = near.or_else(|| with_fewest(&counts, |_| true)) else { return };
                namespace.ana_group = group;
                *counts.entry(group).or_default() += 1;
            }
        }
    }

    /// The load-balancing group that a new namespace goes to: the one with the fewest, of those that stay, and of those of
    /// a location if one is given.
    pub(crate) fn group_with_fewest(&self, location: Option<&str>) -> Option<u32> {
        let is_fit = |number| location.is_none() || self.group_location(number) == location;
        with_fewest(&self.namespace_counts(), is_fit)
    }

    /// Number of namespaces in each load-balancing group that stays.
    fn namespace_counts(&self) -> BTreeMap<u32, usize> {
        let staying = self.groups.keys().filter(|number| self.has_home(**number));
        let mut counts: BTreeMap<u32, usize> = staying.map(|number| (*number, 0)).collect();
        for namespace in self.config.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces) {
            if let Some(count) = counts.get_mut(&namespace.ana_group) {
                *count += 1;
            }
        }
        counts
    }
}

/// True if its owner serves it, and no fence is left.
fn is_settled(group: &LoadBalancingGroup) -> bool {
    group.state == Phase::Serving && group.fence.is_empty()
}

fn with_fewest(counts: &BTreeMap<u32, usize>, is_fit: impl Fn(u32) -> bool) -> Option<u32> {
    let fit = counts.iter().filter(|(number, _)| is_fit(**number));
    fit.min_by_key(|(number, count)| (**count, **number)).map(|(number, _)| *number)
}

#[cfg(test)]
mod tests {
    use engine::backend::BackendConfig;
    use engine::target::{NamespaceConfig, SubsystemConfig};

    use super::super::state::Owner;
    use super::*;

    fn owner(gateway: &str, epoch: u64) -> Owner {
        Owner { gateway: gateway.to_owned(), epoch }
    }

    /// Gateways a, b and c, each of which serves its own, and namespaces in these groups.
    fn group_of_three(namespaces: &[u32]) -> GroupState {
        let mut state = GroupState::default();
        for name in ["a", "b", "c"] {
            state.register(&owner(name, 1), &[]).unwrap();
            assert!(state.add_address(&owner(name, 1), name));
        }
        let namespace = |(at, group): (usize, &u32)| {
            let backend = BackendConfig::Null { size: 4096 };
            NamespaceConfig { ana_group: *group, ..NamespaceConfig::new(at as u32 + 1, backend, 4096) }
        };
        let namespaces = namespaces.iter().enumerate().map(namespace).collect();
        state.config.subsystems.push(SubsystemConfig::new("nqn.test:a", "A", "Selvedge").with(namespaces));
        serve_all(&mut state);
        state
    }

    fn serve_all(state: &mut GroupState) {
        for group in state.groups.values_mut() {
            group.fence.clear();
            group.state = Phase::Serving;
        }
    }

    fn groups_of_namespaces(state: &GroupState) -> Vec<u32> {
        state.config.subsystems[0].namespaces.iter().map(|namespace| namespace.ana_group).collect()
    }

    #[test]
    fn who_lives_or_is_fenced_yet_is_not_removed() {
        let mut state = group_of_three(&[]);
        assert_eq!(state.remove("x"), Err(NotRemoved::Unknown));
        assert_eq!(state.remove("a"), Err(NotRemoved::Alive));
        state.bury("a", |_, _| Some(owner("b", 1)));
        let before = state.clone();
        assert_eq!(state.remove("a"), Err(NotRemoved::TakenOver(1)));
        state.groups.get_mut(&1).unwrap().state = Phase::Serving;
        assert_eq!(state.remove("a"), Err(NotRemoved::TakenOver(1)), "its fence is not finished");
        state.groups.insert(1, before.groups[&1].clone());
        assert_eq!(state, before, "nothing has changed");
        serve_all(&mut state);
        assert_eq!(state.remove("a"), Ok(()));
        assert!(!state.gateways.contains_key("a"));
        assert_eq!(state.groups[&1].owner, Some(owner("b", 1)), "its group stays with its owner");
    }

    #[test]
    fn namespaces_of_a_removed_gateway_go_to_all_others() {
        let mut state = group_of_three(&[1, 1, 1, 1, 2, 3, 3]);
        state.dissolve(1);
        assert!(state.groups.contains_key(&1), "it has its gateway");
        state.bury("a", |_, _| Some(owner("b", 1)));
        serve_all(&mut state);
        assert!(!state.is_to_be_dissolved(1), "the gateway may come back");
        state.remove("a").unwrap();
        assert!(state.is_to_be_dissolved(1) && !state.is_to_be_dissolved(2));
        assert_eq!(state.group_with_fewest(None), Some(2), "the one that has none is about to go");
        state.dissolve(1);
        assert_eq!(state.groups.keys().copied().collect::<Vec<_>>(), [2, 3]);
        assert_eq!(groups_of_namespaces(&state), [2, 2, 3, 2, 2, 3, 3]);
    }

    #[test]
    fn a_group_is_dissolved_only_when_its_fence_is_finished_and_another_is_there() {
        let mut state = group_of_three(&[1, 2, 3]);
        state.bury("a", |_, _| Some(owner("c", 1)));
        serve_all(&mut state);
        state.remove("a").unwrap();
        state.groups.get_mut(&1).unwrap().fence.push("x".to_owned());
        assert!(!state.is_to_be_dissolved(1));
        state.dissolve(1);
        assert!(state.groups.contains_key(&1));
        serve_all(&mut state);
        state.gateways.clear();
        assert!(!state.is_to_be_dissolved(1), "its namespaces would have no group");
    }

    #[test]
    fn a_number_is_free_when_nothing_has_it_any_more() {
        let mut state = group_of_three(&[1]);
        state.bury("a", |_, _| Some(owner("b", 1)));
        serve_all(&mut state);
        state.remove("a").unwrap();
        assert_eq!(state.register(&owner("a", 2), &[]), Ok(4), "its former group has that number yet");
        serve_all(&mut state);
        assert!(state.is_to_be_dissolved(1), "the same name is another gateway");
        state.dissolve(1);
        assert_eq!(groups_of_namespaces(&state), [2]);
        assert_eq!(state.register(&owner("d", 1), &[]), Ok(1));
        assert_eq!(state.groups[&1].preferred, "d");
    }
}
