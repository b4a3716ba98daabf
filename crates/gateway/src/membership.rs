//! What a gateway knows and serves, and each single thing that it does about it. When that happens is `member`'s.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use engine::ceph::late_operations;
use engine::limits::{CEPH_FENCE_S, GATEWAY_DESERTED_MS};
use engine::ring::channel::SyncSender;
use engine::ring::{Moment, Vital, end_program, lock, now, thread};
use engine::target::{Directives, FabricConfig, NamespaceConfig, PeerReset, PortConfig, Target};

use super::beat::{Beat, Lost};
use super::decision::{Decision, Standing, View, decide};
use super::duty::Duty;
use super::format::Reads;
use super::gateway_port::{port_numbers, reported_ports};
use super::host_reports::HostReports;
use super::lease::Peers;
use super::local_fabric::{LocalFabric, listeners};
use super::member::{NamespaceKeys, Update, update};
use super::passed_reset::PassedResets;
use super::peer_reset::{PeerResets, tag};
use super::seen::Seen;
use super::serving::{Adjusted, Serving};
use super::spec::GroupSpec;
use super::state::{GroupState, Owner};
use super::status::GroupStatus;
use super::store::{Store, StoreError};

/// Further work of the deciding thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Again,
    Rest,
    /// The thread may end: the gateway has ended or was replaced.
    Over,
}

/// A gateway's part in its group.
#[derive(Debug)]
pub struct Membership {
    group: String,
    number: u16,
    store: Store,
    /// Times are counted from here, and begin with this number: what was before has a time, too.
    began: Moment,
    first_ms: u64,
    seen: Mutex<Seen>,
    /// Configuration that the target serves; its lock is the serving guard. It is taken before `seen`.
    pub(super) serving: lock::Mutex<Serving>,
    /// Copy of `serving` from the last drop of the serving guard.
    pub(super) served_last: Mutex<Serving>,
    host_reports: Mutex<HostReports>,
    pub(super) target: OnceLock<Arc<Target>>,
    peer_resets: PeerResets,
    passed_resets: PassedResets,
    /// Set if a heartbeat with news for the others is due at once.
    is_beat_due: Arc<AtomicBool>,
    /// Role of this process, which another process of the same gateway may replace.
    pub(super) duty: Duty,
    pub(super) is_pruning: AtomicBool,
    /// Set while its target still has controllers of a former epoch.
    pub(super) is_beginning: AtomicBool,
    /// Set while commands on its connections may still be executed late. It serves nothing more in
    /// this epoch.
    pub(super) has_doubt: AtomicBool,
    signals: Option<Signals>,
    pub(super) is_leaving: AtomicBool,
    has_ended: AtomicBool,
}

#[derive(Debug)]
struct Signals {
    wake: SyncSender<()>,
    look: SyncSender<()>,
    tell: SyncSender<()>,
}

impl Membership {
    pub(super) fn new(group: String, number: u16, store: Store, me: Owner, state: GroupState) -> Self {
        let seen = Seen::new(me, state, store.spec().failback);
        Self {
            group,
            number,
            store,
            began: now(),
            first_ms: 0,
            seen: Mutex::new(seen),
            serving: lock::Mutex::default(),
            served_last: Mutex::default(),
            host_reports: Mutex::default(),
            target: OnceLock::new(),
            peer_resets: PeerResets::default(),
            passed_resets: PassedResets::default(),
            is_beat_due: Arc::default(),
            duty: Duty::new(true),
            is_pruning: AtomicBool::new(false),
            is_beginning: AtomicBool::new(false),
            has_doubt: AtomicBool::new(false),
            signals: None,
            is_leaving: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        }
    }

    pub(super) fn with_signals(
        mut self,
        wake: SyncSender<()>,
        look: SyncSender<()>,
        tell: SyncSender<()>,
    ) -> Self {
        self.signals = Some(Signals { wake, look, tell });
        self
    }

    /// The same in a process that does not act yet.
    pub(super) fn unheard(mut self) -> Self {
        (self.duty, self.first_ms) = (Duty::new(false), GATEWAY_DESERTED_MS);
        self
    }

    pub(super) const fn number(&self) -> u16 {
        self.number
    }

    /// The numbers that its ports have, which are no other gateway's.
    pub const fn port_numbers(&self) -> RangeInclusive<u16> {
        port_numbers(self.number)
    }

    /// Group and the way to its cluster.
    pub const fn spec(&self) -> &GroupSpec {
        self.store.spec()
    }

    pub(super) const fn store(&self) -> &Store {
        &self.store
    }

    pub(super) fn name(&self) -> String {
        self.seen().me.gateway.clone()
    }

    /// Tag of its controllers.
    pub(super) fn tag(&self) -> u32 {
        tag(self.seen().me.epoch)
    }

    pub(super) fn standing(&self) -> Standing {
        self.seen().standing
    }

    pub(super) fn serve_with(&self, target: Arc<Target>) {
        let _ = self.target.set(target);
        self.wake();
    }

    pub(super) fn begin_to_leave(&self) {
        self.is_leaving.store(true, Ordering::Release);
        self.wake();
    }

    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        self.wake();
        self.notify(|signals| &signals.look);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Has the deciding thread look again.
    pub(super) fn wake(&self) {
        self.notify(|signals| &signals.wake);
    }

    fn notify(&self, which: impl Fn(&Signals) -> &SyncSender<()>) {
        if let Some(signals) = &self.signals {
            // One that has rung and was not heard yet says the same.
            let _ = which(signals).try_send(());
        }
    }

    pub(super) fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn host_reports(&self) -> MutexGuard<'_, HostReports> {
        self.host_reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now_ms(&self) -> u64 {
        let elapsed_ms = u64::try_from(now().since(self.began).as_millis()).unwrap_or(u64::MAX);
        elapsed_ms.saturating_add(self.first_ms)
    }

    /// Says that this gateway lives, if it acts.
    pub(super) fn beat(&self) {
        self.duty.beat(|| self.say_alive());
    }

    fn say_alive(&self) {
        let began_ms = self.now_ms();
        let (asked, rested) = (self.peer_resets.asked(), self.passed_resets.rested());
        let (name, beat) = {
            let mut seen = self.seen();
            let reason = seen.blindness(began_ms).map(str::to_owned);
            let was_silent = std::mem::replace(&mut seen.is_silent, reason.is_some());
            if let Some(reason) = reason {
                if !was_silent {
                    tracing::warn!(reason, "cannot read the group's state; other gateways are to take over");
                }
                return;
            }
            seen.count += 1;
            let (epoch, count) = (seen.me.epoch, seen.count);
            let (is_deserted, pause) = (seen.host_presence.is_reported(began_ms), seen.pauses.reply());
            (seen.me.gateway.clone(), Beat { epoch, count, is_deserted, asked, rested, pause })
        };
        match self.store.beat(&name, &beat) {
            Ok(()) => {
                let mut seen = self.seen();
                if seen.me.epoch == beat.epoch {
                    seen.beaten_ms = Some(began_ms);
                }
            }
            Err(error) => tracing::debug!(%error, "a beat is lost"),
        }
    }

    /// Reaches the group's cluster by another connection when it does not by this one, and learns of others' changes from now
    /// on, if it does not already.
    pub(super) fn keep_watching(&self) {
        if let Err(error) = self.store.keep_connected() {
            tracing::debug!(%error, "the group's cluster is not reached by another connection either");
        }
        if let Err(error) = self.store.keep_watching() {
            tracing::debug!(%error, "changes of other gateways are seen with the next beat only");
        }
    }

    /// Looks what others say and have changed.
    pub(super) fn look(&self) {
        let began_ms = self.now_ms();
        let looked = (|| -> Result<_, StoreError> {
            let beats = self.store.beats()?;
            let version = self.store.version()?;
            let is_new = version > self.seen().state.version;
            Ok((beats, is_new.then(|| self.store.state()).transpose()?))
        })();
        let ended_ms = self.now_ms();
        match looked {
            Ok((beats, state)) => {
                let mut seen = self.seen();
                seen.look_error = None;
                if std::mem::take(&mut seen.is_silent) {
                    self.be_heard();
                }
                if let Some(state) = state {
                    seen.learn(state);
                }
                let asked = seen.hear((began_ms, ended_ms), &beats);
                drop(seen);
                self.follow_pause();
                self.reset_for_others(&asked);
            }
            Err(error) => {
                tracing::debug!(%error, "cannot read the group's state");
                self.seen().look_error = Some(error.to_string());
            }
        }
    }

    /// Takes a host's request for a notification when commands of another gateway's controller can
    /// no longer take effect. `false` if there are too many.
    pub(super) fn take_reset(&self, reset: PeerReset) -> bool {
        let is_taken = self.peer_resets.take(reset, self.now_ms());
        self.be_heard();
        is_taken
    }

    /// Ends those of this gateway's controllers that hosts have asked other gateways for, and says when they are at rest.
    fn reset_for_others(&self, asked: &BTreeSet<Lost>) {
        let (Some(target), Some(signals)) = (self.target.get(), &self.signals) else { return };
        for (lost, is_at_rest) in self.passed_resets.hear(asked) {
            let (look, is_beat_due) = (signals.look.clone(), self.is_beat_due.clone());
            // The callback runs on a reactor, and waits for nothing.
            let notify = move || {
                is_at_rest.store(true, Ordering::Release);
                is_beat_due.store(true, Ordering::Release);
                let _ = look.try_send(());
            };
            // Of one that another gateway has made, or a former epoch, this one says nothing.
            if target.reset_for_peer(&lost.into(), notify) {
                self.seen().host_presence.lose();
                self.wake();
            }
        }
    }

    /// Controllers of this gateway that others have asked about and that are at rest.
    pub(super) fn rested(&self) -> Vec<Lost> {
        self.passed_resets.rested()
    }

    /// Goes on saying of these controllers that they rest.
    pub(super) fn go_on_resting(&self, rested: &BTreeSet<Lost>) {
        for (lost, is_at_rest) in self.passed_resets.hear(rested) {
            tracing::debug!(?lost, "a controller that others have asked for rests");
            is_at_rest.store(true, Ordering::Release);
        }
    }

    /// Says with a beat at once what others have to hear.
    pub(super) fn be_heard(&self) {
        self.is_beat_due.store(true, Ordering::Release);
        self.notify(|signals| &signals.look);
    }

    /// True if a heartbeat is due before its time. Clears the flag.
    pub(super) fn takes_due_beat(&self) -> bool {
        self.is_beat_due.swap(false, Ordering::AcqRel)
    }

    /// Has other gateways look at once.
    pub(super) fn tell(&self) {
        self.notify(|signals| &signals.tell);
    }

    /// Answers those who wait until another gateway can no longer do anything.
    pub(super) fn answer_resets(&self) {
        let seen = self.seen();
        let known = (&seen.state, &seen.rested);
        self.peer_resets.answer(known, &seen.fenced, seen.watch.looked_ms(), self.now_ms());
    }

    /// Decides, and does a part of it.
    pub(super) fn round(self: &Arc<Self>) -> Progress {
        let Some(target) = self.target.get() else { return Progress::Rest };
        if self.is_beginning.load(Ordering::Acquire) {
            return Progress::Rest;
        }
        // Before the clock and the state are read: the serving guard may take long to get, and a lease that
        // was read before could be over.
        let mut serving = self.serving_guard();
        // After the serving guard was taken: its last holder may have handed this gateway to another
        // process.
        if !self.duty.acts() {
            return Progress::Rest;
        }
        let now_ms = self.now_ms();
        if self.seen().host_presence.note(target.has_hosts(), now_ms) {
            self.be_heard();
        }
        let (state, has_lease, decision) = self.decide(&serving, target, now_ms);
        self.seen().standing = decision.standing;
        match decision.standing {
            Standing::Member => {}
            Standing::Left => return Progress::Over,
            Standing::Expelled => return self.come_back(&mut serving, target, &decision.next_owners),
            Standing::Replaced => {
                serving.close(target);
                tracing::error!(
                    group = self.group,
                    "this gateway was removed from its group, or another one has its name; exiting"
                );
                // The program ends as if it was asked to.
                end_program();
                return Progress::Over;
            }
        }
        // Fencing begins before this gateway adjusts what it serves, and beside it: a dead gateway's images may be opened only
        // when its connections are on the blocklist, and nothing else should wait for the monitors.
        self.fence(decision.fence.clone(), target);
        if has_lease {
            self.prune(target);
        }
        let name = self.seen().me.gateway.clone();
        // What is served before the state is written: the state that hands a group over says that its images were let go, and
        // the one that completes a takeover that they are served.
        match serving.adjust(target, &state, &name, &decision, (has_lease, now_ms)) {
            Adjusted::Changed => Progress::Again,
            Adjusted::Unchanged | Adjusted::Failed => match decision.write {
                Some(wanted) => self.write(&state, wanted),
                None => Progress::Rest,
            },
        }
    }

    fn decide(&self, serving: &Serving, target: &Target, now_ms: u64) -> (GroupState, bool, Decision) {
        let seen = self.seen();
        let has_lease = seen.has_lease(now_ms);
        let peers = seen.watch.peers(&seen.state);
        let reads = Reads::own(seen.me.epoch);
        let ports = target.config().ports;
        let view = View {
            me: &seen.me,
            tried: &seen.tried,
            has_lease,
            is_leaving: self.is_leaving.load(Ordering::Acquire),
            peers: &peers,
            fenced: &seen.fenced,
            held: &serving.hold,
            open: &serving.open,
            has_late: late_operations() != seen.late_before,
            has_given_up: serving.has_given_up
                || target.awaits_fence()
                // Refused by an order from outside the group, which would have given this gateway
                // up: it continues on another connection.
                || target.is_refused()
                || self.has_doubt.load(Ordering::Acquire),
            is_deserted: seen.host_presence.is_deserted(now_ms),
            listeners: &listeners(&ports),
            ports: &reported_ports(&ports),
            location: self.spec().location.as_deref(),
            reads: (!self.duty.is_offered()).then_some(&reads),
        };
        (seen.state.clone(), has_lease, decide(&seen.state, &view))
    }

    /// Changes the state, if it is still as it was decided by.
    fn write(&self, before: &GroupState, mut after: GroupState) -> Progress {
        match self.store.change(before, &mut after) {
            Ok(true) => {
                after.version = before.version + 1;
                self.seen().learn(after);
                self.tell();
                Progress::Again
            }
            // Another gateway was first, or the outcome is unknown: decide again by the present
            // state.
            Ok(false) => self.read_again(),
            Err(error) => {
                tracing::warn!(%error, "the group's state cannot be changed");
                self.read_again()
            }
        }
    }

    fn read_again(&self) -> Progress {
        match self.store.state() {
            Ok(state) => {
                self.seen().learn(state);
                Progress::Again
            }
            Err(error) => {
                tracing::debug!(%error, "the group's state cannot be read");
                Progress::Rest
            }
        }
    }

    /// Puts connections on the blocklist, on a thread of its own: the monitors may take their time, and this gateway's own
    /// lease may end meanwhile.
    fn fence(self: &Arc<Self>, addresses: BTreeSet<String>, target: &Arc<Target>) {
        if addresses.is_empty() || std::mem::replace(&mut self.seen().is_fencing, true) {
            return;
        }
        let (membership, target) = (self.clone(), target.clone());
        let work = move || {
            let _vital = Vital::begin();
            tracing::info!(?addresses, "adding the connections of a failed gateway to the blocklist");
            // First the blocklist, then its map: an OSD that lacks it still carries out the dead gateway's late writes.
            let outcome = membership.store.fence(&addresses, CEPH_FENCE_S);
            let outcome = outcome.map_err(|error| error.to_string());
            let outcome =
                outcome.and_then(|()| target.wait_for_latest_maps().map_err(|error| error.to_string()));
            if outcome.is_ok() {
                target.close_shut_out(&addresses);
            }
            let mut seen = membership.seen();
            seen.is_fencing = false;
            match outcome {
                Ok(()) => seen.fenced.extend(addresses),
                Err(error) => {
                    tracing::warn!(
                        error,
                        "cannot add the connections of a failed gateway to the blocklist; retrying"
                    );
                }
            }
            drop(seen);
            membership.wake();
            membership.notify(|signals| &signals.look);
        };
        if let Err(error) = thread::Builder::new().name("gateway-fence".to_owned()).spawn(work) {
            tracing::warn!(%error, "cannot start a thread to add connections to the blocklist; retrying");
            self.seen().is_fencing = false;
        }
    }

    /// Records a new connection to a cluster; an error says why it must not be used.
    pub(super) fn add_connection(&self, address: &str) -> Result<(), StoreError> {
        let me = self.seen().me.clone();
        let updated = update(&self.store, |state| {
            let is_noted =
                |state: &GroupState| state.gateways[&me.gateway].addresses.iter().any(|at| at == address);
            // A change that took too long may have happened.
            if state.is_alive(&me) && is_noted(state) {
                return Ok(Update::Done(true));
            }
            if state.has_all_connections(&me) {
                return Err(StoreError::Connections);
            }
            let is_added = state.add_address(&me, address);
            Ok(if is_added { Update::Write(true) } else { Update::Done(false) })
        });
        let (state, is_noted) = updated?;
        self.seen().learn(state);
        if is_noted { Ok(()) } else { Err(StoreError::GivenUp) }
    }

    pub(super) fn first_fabric(&self, ports: &[PortConfig]) -> (FabricConfig, Directives) {
        let (serving, seen) = (self.serving_guard(), self.seen());
        let view = serving.view(&seen.state, &seen.me.gateway, ports);
        let fabric = view.build();
        let directives = view.directives(&fabric);
        (fabric, directives)
    }

    /// Configuration of this gateway, with what it cannot open now. The caller holds the serving guard.
    pub fn fabric(&self, serving: &Serving) -> FabricConfig {
        let ports = self.target.get().map(|target| target.config().ports).unwrap_or_default();
        let seen = self.seen();
        let everything = NamespaceKeys::new();
        LocalFabric { left_out: &everything, ..serving.view(&seen.state, &seen.me.gateway, &ports) }.build()
    }

    /// The same without the serving guard, for reports: it does not wait for a holder that waits for a
    /// cluster.
    pub fn fabric_shown(&self) -> FabricConfig {
        self.fabric(&self.glance())
    }

    /// Namespaces of the group that hosts do not find at this gateway, since their images are not open.
    pub fn absent(&self) -> Vec<(String, NamespaceConfig)> {
        let (serving, seen) = (self.glance(), self.seen());
        serving.absent(&seen.state)
    }

    /// Takes over what others have changed by now, so that a client that changes something through one gateway after another
    /// finds what it has done.
    pub fn catch_up(&self) {
        // Without an answer what is known is worked with; a change of something older is refused when it is written. The whole state
        // of many namespaces is read for news only.
        if self.store.version().is_ok_and(|version| version > self.seen().state.version) {
            self.read_again();
        }
    }

    /// The load-balancing group that a new namespace goes to.
    pub fn group_with_fewest(&self) -> Option<u32> {
        self.catch_up();
        self.seen().state.group_with_fewest(None)
    }

    /// The group, as this gateway sees it.
    pub fn status(&self) -> GroupStatus {
        let unreached_hosts = self.all_unreached();
        let (serving, seen) = (self.glance(), self.seen());
        let peers: Peers = seen.watch.peers(&seen.state);
        let has_lease = seen.has_lease(self.now_ms());
        let known = (&peers, &serving.open);
        let status = GroupStatus::new(&self.group, &seen.me.gateway, has_lease, &seen.state, known);
        GroupStatus { unreached_hosts, events: seen.chronicle.events(), ..status }
    }
}
