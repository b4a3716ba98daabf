//! A gateway of a group as it runs: its threads beat, look, decide and do what was decided. What to do is decided in
//! `decision`, what is shared lies in `store`, and who asks for changes is the administration's business.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, Weak};
use std::time::Duration;

use engine::ceph::{BeforeUse, CephError};
use engine::limits::{
    GATEWAY_BEAT_MS, GATEWAY_CHANGE_TRIES, GATEWAY_CONTROLLERS, GATEWAY_LEASE_MS, GATEWAY_LEAVE_TIMEOUT_MS,
};
use engine::ring::channel::{Receiver, SyncSender, sync_channel};
use engine::ring::thread::{self, JoinHandle};
use engine::ring::{Vital, now, random};
use engine::target::{Directives, FabricConfig, PeerResets, PortConfig, Target};

use super::beat::Beat;
use super::decision::Standing;
use super::error::MemberError;
use super::membership::{Membership, Progress};
use super::spec::GroupSpec;
use super::state::{GroupState, Life, Listener, Owner};
use super::store::{Store, StoreError};

/// Interval between decisions without a cause: the lease may have ended meanwhile.
const DECIDE_INTERVAL: Duration = Duration::from_millis(200);
/// Things that one look at the state may lead to, one after the other, before the thread looks whether it is to end.
const ROUNDS_MAX: usize = 16;
/// Operations of a change that may take too long, one second each, before the change fails.
const LATE_MAX: usize = 10;
/// Time that the end waits for the thread that exchanges notifications.
const TELLER_PATIENCE: Duration = Duration::from_millis(1_500);

/// A gateway of a group. Dropping it ends its threads; the others see that it is silent.
#[derive(Debug)]
pub struct Member {
    membership: Arc<Membership>,
    /// Wake-ups of the deciding thread, until that takes them.
    wake: Option<Receiver<()>>,
    threads: Vec<JoinHandle<()>>,
    /// The thread that announces changes and learns of them: Ceph's library may keep it for as long as a cluster does not answer.
    teller: Option<JoinHandle<()>>,
}

impl Member {
    /// Becomes a gateway of the group, and beats from then on. It serves nothing yet.
    pub fn join(spec: &GroupSpec, name: &str) -> Result<Self, MemberError> {
        let failed = |what: &dyn std::fmt::Display| MemberError::new(format!("gateway group {spec}: {what}"));
        let (look_bell, look) = sync_channel(1);
        let store = Store::connect(spec.clone(), look_bell.clone()).map_err(|error| failed(&error))?;
        wait_for_namesake(&store, name, &failed)?;
        let mut tried = BTreeSet::new();
        let (state, number) = register(&store, name, &[], (None, &BTreeMap::new()), &mut tried)
            .map_err(|what| failed(&what))?;
        let (me, number) = number.ok_or_else(|| failed(&"it was taken out again at once"))?;
        tracing::info!(group = %spec, name, number, "joined the group");
        let membership = Membership::new(spec.to_string(), number, store, me, state);
        Self::with_threads(membership, look_bell, look)
    }

    /// With the threads that beat, look and tell.
    pub(super) fn with_threads(
        membership: Membership,
        look_bell: SyncSender<()>,
        look: Receiver<()>,
    ) -> Result<Self, MemberError> {
        let (wake_bell, wake) = sync_channel(1);
        let (tell_bell, tell) = sync_channel(1);
        let membership = Arc::new(membership.with_signals(wake_bell, look_bell, tell_bell));
        let mut member = Self { membership, wake: Some(wake), threads: Vec::new(), teller: None };
        member.spawn("gateway-beat", move |membership| beat(&membership, &look))?;
        member.spawn("gateway-tell", move |membership| tell_others(&membership, &tell))?;
        member.teller = member.threads.pop();
        Ok(member)
    }

    /// The identifiers that this gateway's controllers get: no other gateway's have them.
    pub fn controller_ids(&self) -> RangeInclusive<u16> {
        // The number was read from the cluster, and may be any.
        let before = self.membership.number().saturating_sub(1).saturating_mul(GATEWAY_CONTROLLERS);
        let first = before.saturating_add(1);
        first..=first.saturating_add(GATEWAY_CONTROLLERS - 1)
    }

    /// The same ports with numbers that no other gateway's have.
    pub fn number_ports(&self, ports: &mut [PortConfig]) {
        for (port, id) in ports.iter_mut().zip(self.membership.port_numbers()) {
            port.id = id;
        }
    }

    /// Records each new connection to a cluster in the group's state, before it is used.
    pub fn before_use(&self) -> BeforeUse {
        let membership: Weak<Membership> = Arc::downgrade(&self.membership);
        BeforeUse(Arc::new(move |cluster| {
            let membership = membership.upgrade().ok_or_else(|| not_allowed("this gateway has ended"))?;
            membership.store().is_of(&cluster.fsid()).map_err(not_allowed)?;
            let address = cluster.address().map_err(not_allowed)?;
            membership.add_connection(&address).map_err(not_allowed)
        }))
    }

    /// Tag that tells this gateway's controllers from those of other gateways and of its former
    /// epochs.
    pub fn tag(&self) -> u32 {
        self.membership.tag()
    }

    /// Takes hosts' requests for a notification when commands of another gateway's controllers can
    /// no longer take effect.
    pub fn peer_resets(&self) -> PeerResets {
        let membership: Weak<Membership> = Arc::downgrade(&self.membership);
        PeerResets(Arc::new(move |reset| match membership.upgrade() {
            Some(membership) => membership.take_reset(reset),
            None => false,
        }))
    }

    /// First configuration of the target: everything, as a stand-by.
    pub fn first_fabric(&self, ports: &[PortConfig]) -> (FabricConfig, Directives) {
        self.membership.first_fabric(ports)
    }

    /// Serves with this target from now on what the group gives it to.
    pub fn serve(&mut self, target: Arc<Target>) -> Result<(), MemberError> {
        self.membership.serve_with(target);
        let Some(wake) = self.wake.take() else { return Ok(()) };
        self.spawn("gateway", move |membership| decide(&membership, &wake))
    }

    /// Membership, shared with other parts of the program.
    pub fn membership(&self) -> Arc<Membership> {
        self.membership.clone()
    }

    /// Gives its load-balancing groups to others, and ends; an error when it has lost its place in the group before.
    pub fn leave(mut self) -> Result<(), MemberError> {
        self.membership.begin_to_leave();
        let end = now().after(Duration::from_millis(GATEWAY_LEAVE_TIMEOUT_MS));
        let mut standing = self.membership.standing();
        while matches!(standing, Standing::Member | Standing::Expelled) && now() < end {
            thread::sleep(Duration::from_millis(10));
            standing = self.membership.standing();
        }
        self.end();
        match standing {
            Standing::Left => Ok(()),
            Standing::Member | Standing::Expelled => {
                tracing::warn!(
                    "the group's cluster does not answer; other gateways take over when the lease of this one has expired"
                );
                Ok(())
            }
            Standing::Replaced => Err(MemberError::new(format!(
                "gateway {} has lost its place in its group: another one has that name now, or it was removed",
                self.membership.name()
            ))),
        }
    }

    fn end(&mut self) {
        self.membership.end();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        let end = now().after(TELLER_PATIENCE);
        while self.teller.as_ref().is_some_and(|teller| !teller.is_finished()) && now() < end {
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn spawn(
        &mut self,
        name: &str,
        work: impl FnOnce(Arc<Membership>) + Send + 'static,
    ) -> Result<(), MemberError> {
        let membership = self.membership.clone();
        let work = move || {
            // A gateway that beats and does nothing else keeps its groups from those who would serve them.
            let _vital = Vital::begin();
            work(membership);
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
        self.threads
            .push(thread.map_err(|error| MemberError::new(format!("cannot start a thread: {error}")))?);
        Ok(())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until a gateway of this name that is said to live has been silent for as long as its lease.
fn wait_for_namesake(
    store: &Store,
    name: &str,
    failed: &dyn Fn(&dyn std::fmt::Display) -> MemberError,
) -> Result<(), MemberError> {
    let end = now().after(Duration::from_millis(GATEWAY_LEASE_MS));
    let mut heard: Option<Option<Beat>> = None;
    loop {
        let (state, ()) = update(store, |_| Ok(Update::Done(()))).map_err(|error| failed(&error))?;
        let Some(namesake) = state.gateways.get(name).filter(|gateway| gateway.life == Life::Alive) else {
            return Ok(());
        };
        let beats = store.beats().map_err(|error| failed(&error))?;
        let beat = beats.get(name).cloned().filter(|beat| beat.epoch == namesake.epoch);
        if heard.is_some_and(|heard| heard != beat) {
            return Err(failed(&format!(
                "a gateway {name} is running; end it, or name this one otherwise with --gateway-name"
            )));
        }
        heard = Some(beat);
        if now() >= end {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(GATEWAY_BEAT_MS / 2));
    }
}

/// Writes a gateway of this name into the group's state, with a new epoch. Returns its identity and
/// number, or None if it comes back `as_number` and was removed meanwhile. `tried` collects the
/// epochs whose begin has an unknown outcome after an error, including those of former calls.
pub(super) fn register(
    store: &Store,
    name: &str,
    listeners: &[Listener],
    (as_number, next_owners): (Option<u16>, &BTreeMap<u32, Owner>),
    tried: &mut BTreeSet<u64>,
) -> Result<(GroupState, Option<(Owner, u16)>), StoreError> {
    update(store, |state| {
        let number = state.gateways.get(name).map(|gateway| gateway.number);
        if as_number.is_some() && as_number != number {
            return Ok(Update::Done(None));
        }
        // A change that took too long may have happened.
        let known = state.gateways.get(name).map(|gateway| gateway.epoch);
        let known = known.filter(|epoch| tried.contains(epoch));
        let known = known.map(|epoch| Owner { gateway: name.to_owned(), epoch });
        if let Some(begun) = known.filter(|me| state.is_alive(me)).zip(number) {
            return Ok(Update::Done(Some(begun)));
        }
        // Others may have given it up since, and have reported it as at rest to hosts: then it
        // needs another epoch.
        let me = Owner { gateway: name.to_owned(), epoch: epoch() };
        let number = state.begin_epoch(&me, listeners, next_owners).map_err(|_| StoreError::Full)?;
        tried.insert(me.epoch);
        Ok(Update::Write(Some((me, number))))
    })
}

/// Result of a closure that changes the group's state.
pub(super) enum Update<T> {
    /// The state is right already.
    Done(T),
    /// The state was changed and is to be written.
    Write(T),
}

/// Changes the group's state as `edit` says, which is asked again when others come first or it took too long. The result
/// is the state then.
pub(super) fn update<T>(
    store: &Store,
    mut edit: impl FnMut(&mut GroupState) -> Result<Update<T>, StoreError>,
) -> Result<(GroupState, T), StoreError> {
    let mut late = 0;
    for _ in 0..GATEWAY_CHANGE_TRIES {
        let outcome = store.state().and_then(|before| {
            let mut after = before.clone();
            match edit(&mut after)? {
                Update::Done(value) => Ok(Some((before, value))),
                Update::Write(value) if store.change(&before, &mut after)? => {
                    after.version = before.version + 1;
                    Ok(Some((after, value)))
                }
                Update::Write(_) => Ok(None),
            }
        });
        match outcome {
            Ok(Some(done)) => return Ok(done),
            Ok(None) => {}
            Err(error) if error.is_late() && late < LATE_MAX => late += 1,
            Err(error) => return Err(error),
        }
    }
    Err(StoreError::Contended)
}

/// A number that no other epoch has.
fn epoch() -> u64 {
    random()
}

/// Beats and looks, until it is to end.
fn beat(membership: &Arc<Membership>, signal: &Receiver<()>) {
    let interval = Duration::from_millis(GATEWAY_BEAT_MS);
    let mut next = now();
    while !membership.has_ended() {
        let is_due = membership.takes_due_beat();
        if is_due || now() >= next {
            next = now().after(interval);
            membership.beat();
        }
        if is_due {
            membership.tell();
        }
        membership.look();
        membership.answer_resets();
        membership.wake();
        // A ring says that others have changed something: then it looks at once, and beats when it is time, or when it has
        // something to say.
        let _ = signal.recv_timeout(next.since(now()));
    }
}

fn not_allowed(reason: impl fmt::Display) -> CephError {
    CephError::NotAllowed { reason: reason.to_string() }
}

/// Announces changes to the others, and sees to it that this gateway learns of theirs, until it is to end.
fn tell_others(membership: &Arc<Membership>, signal: &Receiver<()>) {
    while !membership.has_ended() {
        membership.keep_watching();
        membership.exchange_hosts();
        if signal.recv_timeout(DECIDE_INTERVAL).is_ok() {
            membership.store().tell();
        }
    }
}

/// Decides and does, until it is to end.
fn decide(membership: &Arc<Membership>, signal: &Receiver<()>) {
    while !membership.has_ended() {
        for _ in 0..ROUNDS_MAX {
            match membership.round() {
                Progress::Again => {}
                Progress::Rest => break,
                Progress::Over => return,
            }
        }
        let _ = signal.recv_timeout(DECIDE_INTERVAL);
    }
}

/// Keys of namespaces, in order.
pub(super) type NamespaceKeys = BTreeSet<super::local_fabric::NamespaceKey>;
