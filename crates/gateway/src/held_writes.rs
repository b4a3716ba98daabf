//! Writes of several namespaces are held at all gateways at once, for snapshots of one moment. A gateway asks by the group's state;
//! each that serves one of them holds its own, for a time that ends by itself, and says so with its beats. In the end each is
//! asked whether its writes were held all the time: one that took a group over, or another process of the same gateway, has not
//! held them and does not say so. What is done meanwhile is not known here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::limits::{SNAPSHOT_HOLD_MS, SNAPSHOT_PAUSE_MS};
use engine::ring::{now, random, thread};

use super::error::{GroupError, Refused};
use super::local_fabric::NamespaceKey;
use super::member::{Update, update};
use super::membership::Membership;
use super::pauses::Held;
use super::state::{GroupState, Owner, Phase};
use super::write_pause::{PauseReply, WritePause};

/// Interval at which the waiting gateway checks the others' replies.
const LOOK: Duration = Duration::from_millis(5);

/// Writes that are held at all gateways, until it is dropped.
#[derive(Debug)]
pub struct HeldWrites<'a> {
    membership: &'a Membership,
    id: u64,
    owners: BTreeMap<u32, Owner>,
}

impl Membership {
    /// Holds this gateway's writes, lets them go on, or says that they were held, as the group's state asks for it.
    pub(super) fn follow_pause(&self) {
        let Some(target) = self.target.get() else { return };
        let now_ms = self.now_ms();
        let mut seen = self.seen();
        let pause = seen.state.pause.clone();
        let wanted = pause.as_ref().map(|pause| pause.id);
        if seen.pauses.held.as_ref().is_some_and(|held| Some(held.reply.id) != wanted)
            && let Some(held) = seen.pauses.held.take()
        {
            target.release_writes(&held.namespaces);
        }
        let Some(pause) = pause else { return };
        if seen.pauses.known.is_none_or(|(id, _)| id != pause.id) {
            seen.pauses.known = Some((pause.id, now_ms));
            // Another process that comes would not hold them.
            if !pause.is_done && self.duty.acts() && !self.duty.is_offered() {
                let until = now().after(Duration::from_millis(SNAPSHOT_HOLD_MS));
                target.hold_writes(&pause.namespaces, until);
                let reply = PauseReply { id: pause.id, is_done: false };
                seen.pauses.held = Some(Held { reply, namespaces: pause.namespaces, until });
                drop(seen);
                self.be_heard();
            }
        } else if let Some(held) =
            seen.pauses.held.as_mut().filter(|held| pause.is_done && !held.reply.is_done)
            && target.holds_writes(&held.namespaces, held.until)
        {
            held.reply.is_done = true;
            drop(seen);
            self.be_heard();
        }
    }

    /// Has all gateways hold their writes to these namespaces.
    ///
    /// # Errors
    /// Another gateway does not reply within `limits::SNAPSHOT_PAUSE_MS`, or has a write pause of its
    /// own. No writes are held then.
    pub fn hold_writes(&self, namespaces: &[NamespaceKey]) -> Result<HeldWrites<'_>, GroupError> {
        let unavailable = |what: &str| Refused::unavailable(what).hint("ask another gateway, or wait");
        if !self.seen().has_lease(self.now_ms()) {
            return Err(unavailable("this gateway cannot reach its group's cluster").into());
        }
        let id = random();
        let updated = update(self.store(), |state| {
            // A change that took too long may have happened.
            if state.pause.as_ref().is_some_and(|pause| pause.id == id) {
                return Ok(Update::Done(true));
            }
            if !self.seen().pauses.is_free(state.pause.as_ref(), self.now_ms()) {
                return Ok(Update::Done(false));
            }
            state.pause = Some(WritePause { id, is_done: false, namespaces: namespaces.to_vec() });
            Ok(Update::Write(true))
        });
        let (state, is_mine) = updated.map_err(|error| unavailable(&error.to_string()))?;
        let owners = owners(&state, namespaces);
        self.learn_pause(state);
        if !is_mine {
            let refused = Refused::conflict("writes are held for another snapshot");
            return Err(refused.hint("wait until that is made").into());
        }
        let held = HeldWrites { membership: self, id, owners: owners.clone().unwrap_or_default() };
        if owners.is_none() {
            let refused = Refused::conflict(
                "a gateway is taking one of these namespaces over, or one of them was removed just now",
            );
            return Err(refused.hint("ask again in a moment").into());
        }
        held.wait(false)?;
        Ok(held)
    }

    fn learn_pause(&self, state: GroupState) {
        self.seen().learn(state);
        self.follow_pause();
        self.tell();
    }
}

impl GroupState {
    /// Ends a hold of writes to namespaces of which one gets another owner: that one may serve it without holding its writes, and
    /// give it back before anybody who holds them looks.
    pub(crate) fn end_broken_hold(&mut self, before: &Self) {
        let known =
            before.pause.as_ref().filter(|known| self.pause.as_ref().is_some_and(|own| own.id == known.id));
        let Some(known) = known else { return };
        if known.namespaces.iter().any(|key| owner_of(self, key) != owner_of(before, key)) {
            self.pause = None;
        }
    }
}

/// The load-balancing group of a namespace; nothing where that is not there.
fn group_of(state: &GroupState, (nqn, nsid): &NamespaceKey) -> Option<u32> {
    let mut namespaces = state.config.subsystem(nqn)?.namespaces.iter();
    namespaces.find(|namespace| namespace.nsid == *nsid).map(|namespace| namespace.ana_group)
}

/// Owner of a namespace, even if it is not served.
fn owner_of<'a>(state: &'a GroupState, key: &NamespaceKey) -> Option<&'a Owner> {
    state.groups.get(&group_of(state, key)?)?.owner.as_ref()
}

/// Owners that serve these namespaces, by load-balancing group. None if one is not served or does
/// not exist.
fn owners(state: &GroupState, namespaces: &[NamespaceKey]) -> Option<BTreeMap<u32, Owner>> {
    let numbers: Option<BTreeSet<u32>> = namespaces.iter().map(|key| group_of(state, key)).collect();
    let owner = |number: u32| {
        let group = state.groups.get(&number).filter(|group| group.state == Phase::Serving)?;
        Some((number, group.owner.clone().filter(|owner| state.is_alive(owner))?))
    };
    numbers?.into_iter().map(owner).collect()
}

impl HeldWrites<'_> {
    /// Asks all gateways whether their writes were held until now.
    ///
    /// # Errors
    /// When one does not say so.
    pub fn confirm(&self) -> Result<(), GroupError> {
        let mut owned = None;
        let updated = update(self.membership.store(), |state| {
            let Some(pause) = state.pause.as_mut().filter(|pause| pause.id == self.id) else {
                return Ok(Update::Done(()));
            };
            pause.is_done = true;
            let namespaces = pause.namespaces.clone();
            owned = owners(state, &namespaces);
            Ok(Update::Write(()))
        });
        let (state, ()) = updated.map_err(Refused::unavailable)?;
        self.membership.learn_pause(state);
        // A gateway that has taken over meanwhile has served them without holding their writes.
        if owned.as_ref() != Some(&self.owners) {
            let refused =
                Refused::conflict("another gateway has taken one of these namespaces over meanwhile");
            return Err(refused.hint("ask again").into());
        }
        self.wait(true)
    }

    /// Waits until all who serve these namespaces have said so.
    fn wait(&self, is_done: bool) -> Result<(), GroupError> {
        let wanted = PauseReply { id: self.id, is_done };
        let end = now().after(Duration::from_millis(SNAPSHOT_PAUSE_MS));
        loop {
            let missing = {
                let seen = self.membership.seen();
                let mut all = self.owners.values();
                all.find(|owner| !seen.pauses.has_replied(owner, &seen.me, wanted)).cloned()
            };
            let Some(missing) = missing else { return Ok(()) };
            if now() >= end {
                let (name, seconds) = (missing.gateway, SNAPSHOT_PAUSE_MS / 1000);
                let what = format!("gateway {name} does not say within {seconds} s that it holds its writes");
                let hint = "see whether it reaches the cluster and runs this version, and ask again";
                return Err(Refused::unavailable(what).hint(hint).into());
            }
            thread::sleep(LOOK);
        }
    }
}

impl Drop for HeldWrites<'_> {
    fn drop(&mut self) {
        let updated = update(self.membership.store(), |state| {
            if state.pause.take_if(|pause| pause.id == self.id).is_none() {
                return Ok(Update::Done(()));
            }
            Ok(Update::Write(()))
        });
        match updated {
            Ok((state, ())) => self.membership.learn_pause(state),
            Err(error) => {
                let seconds = SNAPSHOT_HOLD_MS / 1000;
                tracing::warn!(%error, "cannot report the end of a snapshot to other gateways; their writes continue within {seconds} s");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NQN: &str = "nqn.2026-01.io.selvedge:a";

    fn key(nsid: u32) -> NamespaceKey {
        (NQN.to_owned(), nsid)
    }

    /// Gateways a and b, each with a load-balancing group of its own; namespace 1 is in that of a.
    fn state() -> (GroupState, [Owner; 2]) {
        let mut state = GroupState::default();
        let owners = ["a", "b"].map(|name| Owner { gateway: name.to_owned(), epoch: 1 });
        owners.iter().for_each(|owner| state.register(owner, &[]).map(drop).unwrap());
        let backend = engine::backend::BackendConfig::Null { size: 4096 };
        let namespace = engine::target::NamespaceConfig::new(1, backend, 4096);
        let subsystem = engine::target::SubsystemConfig::new(NQN, "A", "Selvedge").with(vec![namespace]);
        state.config.subsystems.push(subsystem);
        (state, owners)
    }

    #[test]
    fn a_group_that_is_taken_over_has_no_owner_to_ask() {
        let (mut state, [me, _]) = state();
        assert_eq!(owners(&state, &[key(1)]), None);
        state.groups.get_mut(&1).unwrap().state = Phase::Serving;
        assert_eq!(owners(&state, &[key(1)]), Some(BTreeMap::from([(1, me)])));
        assert_eq!(owners(&state, &[key(1), key(2)]), None);
        state.bury("a", |_, _| None);
        assert_eq!(owners(&state, &[key(1)]), None);
    }

    #[test]
    fn a_hold_ends_with_the_owner_of_what_is_held() {
        let (mut before, [_, other]) = state();
        before.pause = Some(WritePause { id: 7, is_done: false, namespaces: vec![key(1)] });
        let is_held = |change: &dyn Fn(&mut GroupState)| {
            let mut after = before.clone();
            change(&mut after);
            after.end_broken_hold(&before);
            after.pause.is_some()
        };
        assert!(is_held(&|state| state.groups.get_mut(&1).unwrap().state = Phase::Serving));
        assert!(is_held(&|state| state.groups.get_mut(&2).unwrap().hand_to(None)), "another group's");
        assert!(!is_held(&|state| state.groups.get_mut(&1).unwrap().hand_to(Some(other.clone()))));
        assert!(!is_held(&|state| state.config.subsystems[0].namespaces[0].ana_group = 2), "it has moved");
        assert!(!is_held(&|state| state.config.subsystems[0].namespaces.clear()), "it is gone");
        assert!(is_held(&|state| state.pause.as_mut().unwrap().id = 8), "that one has just begun");
    }
}
