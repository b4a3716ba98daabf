//! A gateway goes on in another process: as the same member of its group, in the same epoch, so that the others notice nothing.
//! The new process knows what the group shares and says nothing, until the old one acts no more; who drives both sees to
//! that. What goes wrong in between is answered by a new epoch, as after a kill.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use engine::ceph::late_operations;
use engine::limits::GATEWAY_OPERATION_TIMEOUT_MS;
use engine::ring::channel::sync_channel;
use engine::ring::{now, thread, wall_time};
use engine::target::Target;

use super::decision::Standing;
use super::error::{MemberError, MemberHandOverError};
use super::format::Reads;
use super::handed_member::{HandedMember, OfferedMember};
use super::local_fabric::LocalFabric;
use super::member::{Member, NamespaceKeys, Update, update};
use super::membership::Membership;
use super::serving::Serving;
use super::spec::GroupSpec;
use super::state::{GroupState, Owner};
use super::store::{Store, StoreError};

/// Limit on the time that a removal of closed connections from the blocklist may take which was
/// begun before.
const PRUNING: Duration = Duration::from_millis(5 * GATEWAY_OPERATION_TIMEOUT_MS);
const LOOK: Duration = Duration::from_millis(5);

impl Membership {
    /// Why this gateway cannot go on in another process now.
    pub fn obstacles(&self) -> Vec<String> {
        let serving = self.serving_guard();
        let (seen, now_ms) = (self.seen(), self.now_ms());
        let obstacles = [
            (
                seen.standing != Standing::Member || !seen.is_alive(),
                "the group has declared this gateway dead",
            ),
            (!seen.has_lease(now_ms), "this gateway cannot reach its group's cluster"),
            (self.is_beginning.load(Ordering::Acquire), "this gateway is starting a new epoch"),
            (self.is_leaving.load(Ordering::Acquire), "this gateway is leaving its group"),
            (
                serving.has_given_up || late_operations() != seen.late_before,
                "commands on its images have taken too long, and may be carried out yet: restart it, and others take over",
            ),
        ];
        obstacles.into_iter().filter(|(is_so, _)| *is_so).map(|(_, why)| why.to_owned()).collect()
    }

    /// Identity that another process may take over. Preparations of that process stay until
    /// [`Self::withdraw`].
    ///
    /// # Errors
    /// `Pruning`, when connections are just being forgotten, which takes long.
    pub fn offer(&self) -> Result<OfferedMember, MemberHandOverError> {
        self.duty.offer(true);
        // It was begun before, and shuts out what it finds written down and not in use here.
        let end = now().after(PRUNING);
        while self.is_pruning.load(Ordering::Acquire) {
            if now() >= end {
                self.withdraw();
                return Err(MemberHandOverError::Pruning);
            }
            thread::sleep(LOOK);
        }
        let seen = self.seen();
        let (gateway, epoch) = (seen.me.gateway.clone(), seen.me.epoch);
        Ok(OfferedMember { gateway, number: self.number(), epoch, fenced: seen.fenced.clone() })
    }

    /// No other process goes on.
    pub fn withdraw(&self) {
        self.duty.offer(false);
        self.wake();
    }

    /// State of this gateway, for a caller that holds the serving guard and keeps it: nothing is decided
    /// here until then.
    ///
    /// # Errors
    /// It is no longer what was offered, or has an obstacle by now.
    pub fn hand_over(
        &self,
        offered: &OfferedMember,
        serving: &Serving,
    ) -> Result<HandedMember, MemberHandOverError> {
        let (seen, now_ms) = (self.seen(), self.now_ms());
        if seen.me.epoch != offered.epoch || !seen.is_alive() {
            return Err(MemberHandOverError::DeadMeanwhile);
        }
        if serving.has_given_up || late_operations() != seen.late_before {
            return Err(MemberHandOverError::LateMeanwhile);
        }
        Ok(HandedMember {
            version: seen.state.version,
            count: seen.count,
            hold: serving.hold.clone(),
            open: serving.open.clone(),
            fenced: seen.fenced.clone(),
            alone_ms: seen.host_presence.alone_ms(now_ms),
            rested: self.rested().into_iter().collect(),
        })
    }

    /// Acts no more: it neither beats nor decides when this returns.
    pub fn rest(&self) {
        self.duty.rest();
    }

    /// Acts again as before, since the new process does not.
    pub fn resume(&self) {
        self.duty.begin();
        self.withdraw();
    }

    /// Starts another epoch, since another process has acted in this one, or died in an unknown
    /// state: the connections of both are put on the blocklist before anything is served. The
    /// caller holds the serving guard.
    pub fn begin_again(&self, serving: &mut Serving, target: &Target) {
        serving.close(target);
        serving.has_given_up = true;
        self.resume();
        self.be_heard();
    }

    /// Serves what the old process did, and has the locks of its images; says nothing of it yet.
    ///
    /// # Errors
    /// When that cannot be. It has none of the locks then.
    pub fn take_over(
        &self,
        offered: &OfferedMember,
        handed: &HandedMember,
        target: &Target,
    ) -> Result<(), MemberHandOverError> {
        if self.seen().state.version < handed.version {
            self.catch_up();
        }
        if !self.seen().is_alive() {
            return Err(MemberHandOverError::Dead);
        }
        if handed.fenced != offered.fenced {
            // Connections that were made before may work by older maps.
            target.wait_for_latest_maps()?;
        }
        let mut serving = self.serving_guard();
        let (state, name) = {
            let seen = self.seen();
            (seen.state.clone(), seen.me.gateway.clone())
        };
        let ports = target.config().ports;
        let left_out = NamespaceKeys::new();
        let view = LocalFabric {
            hold: &handed.hold,
            open: &handed.open,
            left_out: &left_out,
            ..serving.view(&state, &name, &ports)
        };
        let fabric = view.build();
        let overlap = state.secrets.overlap(wall_time());
        target.apply_directed(&fabric, &view.directives(&fabric), overlap)?;
        (serving.hold, serving.open) = (handed.hold.clone(), handed.open.clone());
        let now_ms = self.now_ms();
        let mut seen = self.seen();
        seen.count = handed.count;
        seen.fenced.clone_from(&handed.fenced);
        seen.host_presence.go_on(handed.alone_ms, now_ms);
        drop(seen);
        self.go_on_resting(&handed.rested);
        Ok(())
    }

    /// Takes over the epoch in which the old process has died. It may be later than the offered
    /// one.
    fn follow_old_process(&self) {
        self.catch_up();
        let mut seen = self.seen();
        let record = seen.state.gateways.get(&seen.me.gateway);
        if let Some(epoch) = record.filter(|record| record.number == self.number()).map(|record| record.epoch)
        {
            seen.me.epoch = epoch;
        }
    }

    /// Acts from now on, as the old process did.
    fn act(&self) {
        self.duty.begin();
        self.be_heard();
    }
}

impl Member {
    /// Learns all of the group, to go on as a gateway that another process is. It says nothing before [`Self::go_on`].
    pub fn in_place_of(spec: &GroupSpec, name: &str, offered: &OfferedMember) -> Result<Self, MemberError> {
        let failed = |what: &dyn std::fmt::Display| MemberError::new(format!("gateway group {spec}: {what}"));
        let OfferedMember { gateway, number, epoch, .. } = offered;
        if gateway != name {
            return Err(failed(&format!("the old process is gateway {gateway}, and this one is {name}")));
        }
        let me = Owner { gateway: name.to_owned(), epoch: *epoch };
        let (look_bell, look) = sync_channel(1);
        let store = Store::connect(spec.clone(), look_bell.clone()).map_err(|error| failed(&error))?;
        let state = narrow(&store, &me, *number).map_err(|error| failed(&error))?;
        let state = state
            .ok_or_else(|| failed(&format!("gateway {name} was given up or has started a new epoch")))?;
        let membership = Membership::new(spec.to_string(), *number, store, me, state);
        Self::with_threads(membership.unheard(), look_bell, look)
    }

    /// Acts in place of the old process, which does no more.
    pub fn go_on(&mut self, target: Arc<Target>) -> Result<(), MemberError> {
        self.membership().act();
        self.serve(target)
    }

    /// Acts in place of the old process, which has died before it was known how it left things.
    pub fn continue_as_new(&mut self, target: Arc<Target>) -> Result<(), MemberError> {
        let membership = self.membership();
        membership.follow_old_process();
        let mut serving = membership.serving_guard();
        membership.begin_again(&mut serving, &target);
        drop(serving);
        self.serve(target)
    }
}

/// Says that this gateway reads what both its processes read: whichever acts from now on has to understand what the others write.
/// None when it is not what it was.
fn narrow(store: &Store, me: &Owner, number: u16) -> Result<Option<GroupState>, StoreError> {
    let (state, is_it) = update(store, |state| {
        let is_it = state.is_alive(me) && state.gateways[&me.gateway].number == number;
        if !is_it {
            return Ok(Update::Done(false));
        }
        let reported = Reads::in_epoch(state.readers.get(&me.gateway), me.epoch);
        let both = reported.and(&Reads::own(me.epoch));
        if both == reported {
            return Ok(Update::Done(true));
        }
        state.readers.insert(me.gateway.clone(), both);
        Ok(Update::Write(true))
    })?;
    Ok(is_it.then_some(state))
}
