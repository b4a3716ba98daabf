//! State shared by all reactors of one target: its subsystems and ports, its controllers, and the
//! mailboxes of all reactors. Changes of the configuration are in `apply`.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::TrySendError;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use nvme::Status;
use nvme::cross_reset::{ControllerInstance, IMMEDIATE_RESET_SUCCESSFUL};
use nvme::discovery::DISCOVERY_NQN;
use nvme::log_page::CrossResetStatus;
use secure_channel::{RecordLimit, SealingKey};

use super::admission::{Quotas, Refusals, Rule};
use super::controllers::{Controllers, NoController};
use super::directory::Directory;
use super::generated_keys::GeneratedKeys;
use super::promises::WantedId;
use super::target_config::TargetConfig;
use crate::backend::Clusters;
use crate::ring::channel::SyncSender;
use crate::ring::{self, tcp};
use crate::target::controller::{Controller, Guest, Notice, Quiesce};
use crate::target::handed_target::{HandedFormerKey, HandedTarget};
use crate::target::identity::Identities;
use crate::target::image::{AbsentNamespace, ImageOpener, Images};
use crate::target::lock::lock;
use crate::target::messaging::{
    Address, AllocationJob, AuthenticationJob, ChangeRates, CrossReset, Fenced, HostShares, Job, Mailboxes,
    Message, PeerResets, PendingRequest, RefusedHost, RefusedHostSender, RefusedHosts, Then, WorkerJobs,
};
use crate::target::reservation::ReservationDirectory;
use crate::target::served::{Host, Namespace, Subsystem};
use crate::target::telemetry::{Peculiarities, SlowCommands, TlsHandshakes};

/// State shared by all reactors of a target.
#[derive(Debug)]
pub(crate) struct Fabric {
    directory: RwLock<Arc<Directory>>,
    discovery: Arc<Subsystem>,
    pub(super) controllers: Mutex<Controllers>,
    pub(crate) refusals: Refusals,
    mailboxes: Arc<Mailboxes>,
    requests: OnceLock<SyncSender<Option<PendingRequest>>>,
    failed_logins: RefusedHostSender,
    refused_connects: RefusedHostSender,
    pub(crate) tls_record_limit: RecordLimit,
    pub(crate) tls_handshakes: TlsHandshakes,
    /// The TLS keys that have come out of authentications.
    pub(crate) generated_keys: GeneratedKeys,
    /// The ways to the threads that execute reservation commands, and that compute what hosts prove.
    pub(crate) reservation_jobs: WorkerJobs<Job>,
    pub(crate) authentication_jobs: WorkerJobs<AuthenticationJob>,
    pub(crate) allocation_jobs: WorkerJobs<AllocationJob>,
    /// Shares of hosts in these, and in requests to the administration.
    pub(crate) shares: HostShares,
    pub(crate) change_rates: ChangeRates,
    /// Directory of reservations that outlive the target.
    archive: Mutex<Option<ReservationDirectory>>,
    has_archive: bool,
    /// Half of the random number of each controller that it makes, by which no other target takes them for its own.
    tag: AtomicU32,
    peer_resets: Option<PeerResets>,
    /// Counters of hosts' unusual behaviour that was accepted.
    pub(crate) peculiarities: Arc<Peculiarities>,
    pub(crate) slow_commands: Arc<SlowCommands>,
    pub(super) controller_ids: RangeInclusive<u16>,
    identities: Identities,
    offers_reservations: bool,
    /// The connections that images share.
    clusters: Arc<Clusters>,
    /// Images that are being opened.
    opener: Arc<ImageOpener<Images>>,
    /// Namespaces whose images are not available now.
    absent: Mutex<Vec<AbsentNamespace>>,
    may_disks_be_absent: bool,
    inherited: Vec<Arc<tcp::Opened>>,
    pub(crate) sealing_key: Option<Arc<SealingKey>>,
    /// Namespaces that had late operations a while ago, and how many there are.
    late: Mutex<Vec<Arc<Namespace>>>,
    late_count: AtomicUsize,
}

/// A random number that is not 0.
fn random() -> u32 {
    (ring::random() as u32).max(1)
}

impl Fabric {
    pub(crate) fn new(
        archive: Option<ReservationDirectory>,
        config: &TargetConfig,
        clusters: Clusters,
    ) -> Self {
        let (directory, clusters) = (Directory::empty(), Arc::new(clusters));
        let opener = ImageOpener::new(Images { clusters: clusters.clone() });
        Self {
            directory: RwLock::new(Arc::new(directory)),
            discovery: Arc::new(Subsystem::discovery(DISCOVERY_NQN)),
            controllers: Mutex::new(Controllers::new(config)),
            refusals: Refusals::default(),
            mailboxes: Arc::default(),
            requests: OnceLock::new(),
            failed_logins: RefusedHostSender::default(),
            refused_connects: RefusedHostSender::default(),
            tls_record_limit: config.tls_record_limit,
            tls_handshakes: TlsHandshakes::default(),
            generated_keys: GeneratedKeys::default(),
            reservation_jobs: WorkerJobs::default(),
            authentication_jobs: WorkerJobs::default(),
            allocation_jobs: WorkerJobs::default(),
            shares: HostShares::default(),
            change_rates: ChangeRates::default(),
            has_archive: archive.is_some(),
            archive: Mutex::new(archive),
            tag: AtomicU32::new(config.tag.unwrap_or_else(random)),
            peer_resets: config.peer_resets.clone(),
            peculiarities: Arc::default(),
            slow_commands: Arc::default(),
            controller_ids: config.controller_ids.clone(),
            identities: Identities::new(config.machine, config.state_dir.as_deref()),
            offers_reservations: config.reservations,
            clusters,
            opener,
            absent: Mutex::default(),
            may_disks_be_absent: config.may_disks_be_absent,
            inherited: config.inherited.clone(),
            sealing_key: config.sealing_key.clone(),
            late: Mutex::default(),
            late_count: AtomicUsize::new(0),
        }
    }

    /// Current snapshot of the configuration.
    pub(crate) fn directory(&self) -> Arc<Directory> {
        self.directory.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the snapshot that hosts see.
    pub(crate) fn publish(&self, directory: Directory) {
        let has_keys = directory.config.subsystems.iter().any(|subsystem| !subsystem.host_keys.is_empty());
        lock(&self.controllers).admission.expect_proofs(has_keys);
        *self.directory.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(directory);
    }

    /// The ways to all reactors.
    pub(crate) const fn mailboxes(&self) -> &Arc<Mailboxes> {
        &self.mailboxes
    }

    /// Generator of namespaces' identities.
    pub(crate) const fn identities(&self) -> &Identities {
        &self.identities
    }

    /// The connections that images share.
    pub(crate) const fn clusters(&self) -> &Arc<Clusters> {
        &self.clusters
    }

    /// Images that are being opened.
    pub(crate) const fn opener(&self) -> &Arc<ImageOpener<Images>> {
        &self.opener
    }

    /// Namespaces whose images are not available now.
    pub(crate) fn absent(&self) -> Vec<AbsentNamespace> {
        lock(&self.absent).clone()
    }

    /// Sockets that were open before this target was.
    pub(crate) fn inherited(&self) -> &[Arc<tcp::Opened>] {
        &self.inherited
    }

    /// True if the target starts although files and devices cannot be opened.
    pub(crate) const fn may_disks_be_absent(&self) -> bool {
        self.may_disks_be_absent
    }

    /// Records the namespaces whose images are not available.
    pub(crate) fn note_absent(&self, absent: Vec<AbsentNamespace>) {
        *lock(&self.absent) = absent;
    }

    /// A namespace has late operations, and is looked at until it has had none for a while.
    pub(crate) fn watch_lateness(&self, namespace: Arc<Namespace>) {
        let mut late = lock(&self.late);
        late.push(namespace);
        self.late_count.store(late.len(), Ordering::Release);
    }

    /// True if namespaces with late operations are being watched.
    pub(crate) fn has_lateness(&self) -> bool {
        self.late_count.load(Ordering::Acquire) > 0
    }

    /// Forgets those of which it `is_over`, and drops them after the lock: one that was removed may close its image then.
    pub(crate) fn forget_lateness(&self, is_over: impl Fn(&Namespace) -> bool) {
        let mut late = lock(&self.late);
        let over: Vec<Arc<Namespace>> = late.extract_if(.., |namespace| is_over(namespace)).collect();
        self.late_count.store(late.len(), Ordering::Release);
        drop((late, over));
    }

    /// Stops serving: controllers release their reactors, and namespaces their files.
    pub(crate) fn forget_all(&self) {
        self.publish(Directory::empty());
        lock(&self.controllers).by_id.clear();
        lock(&self.controllers).ending.clear();
        self.forget_lateness(|_| true);
    }

    /// Sets the channel for hosts' requests. Only the first call has an effect, and returns true.
    pub(crate) fn take_requests(&self, sender: SyncSender<Option<PendingRequest>>) -> bool {
        self.requests.set(sender).is_ok()
    }

    /// True if hosts' requests have a receiver.
    pub(crate) fn answers_requests(&self) -> bool {
        self.requests.get().is_some()
    }

    /// Passes on a host's request.
    ///
    /// # Errors
    /// The status to answer with if there is no receiver, or too many requests wait.
    pub(crate) fn ask(&self, request: PendingRequest) -> Result<(), Status> {
        let sender = self.requests.get().ok_or(Status::INVALID_OPCODE.do_not_retry())?;
        sender.try_send(Some(request)).map_err(|error| match error {
            TrySendError::Full(_) => Status::COMMAND_INTERRUPTED,
            TrySendError::Disconnected(_) => Status::INTERNAL_ERROR,
        })
    }

    /// Wakes the receiver of hosts' requests for other work, which is awake if the channel is full.
    pub(crate) fn call_administration(&self) {
        if let Some(sender) = self.requests.get() {
            let _ = sender.try_send(None);
        }
    }

    /// Hosts that do not prove who they are, once.
    pub(crate) fn take_failed_logins(&self) -> Option<RefusedHosts> {
        self.failed_logins.take()
    }

    /// Hosts whose Connect is refused, once.
    pub(crate) fn take_refused_connects(&self) -> Option<RefusedHosts> {
        self.refused_connects.take()
    }

    /// Reports a host that failed to authenticate, if there is a receiver.
    #[cold]
    pub(crate) fn tell_failed_login(&self, host: impl FnOnce() -> RefusedHost) {
        if self.failed_logins.tell(host) {
            self.call_administration();
        }
    }

    /// Reports a host that is not let in for another reason. A crowd of these does not keep the others from being reported.
    #[cold]
    pub(crate) fn tell_refused_connect(&self, host: impl FnOnce() -> RefusedHost) {
        if self.refused_connects.tell(host) {
            self.call_administration();
        }
    }

    /// True if hosts may reserve namespaces.
    pub(crate) fn offers_reservations(&self) -> bool {
        self.offers_reservations
            && (!self.clusters.are_images_shared() || self.directory().directives.reservations.is_some())
    }

    /// True if reservations may outlive the target.
    pub(crate) fn keeps_reservations(&self) -> bool {
        self.has_archive || self.clusters.are_images_shared() && self.offers_reservations()
    }

    /// Directory of reservations, if they are kept; locked. Serializes changes of reservations by the
    /// worker and of namespaces by the administration. Reactors never take the lock.
    pub(crate) fn archive(&self) -> MutexGuard<'_, Option<ReservationDirectory>> {
        lock(&self.archive)
    }

    /// Another target may have the archive from now on.
    pub(crate) fn close_archive(&self) {
        *lock(&self.archive) = None;
    }

    /// The subsystem with this name.
    pub(crate) fn find(&self, nqn: &str) -> Option<Arc<Subsystem>> {
        if nqn == DISCOVERY_NQN {
            let own = self.directory().own_discovery.clone();
            return Some(own.unwrap_or_else(|| self.discovery.clone()));
        }
        let directory = self.directory();
        let mut all = directory.subsystems.iter().chain(&directory.own_discovery);
        all.find(|subsystem| subsystem.nqn == nqn).cloned()
    }

    /// All namespaces, with the names of their subsystems.
    pub(crate) fn namespaces(&self) -> Vec<(String, Arc<Namespace>)> {
        let of = |subsystem: &Arc<Subsystem>| {
            let nqn = subsystem.nqn.clone();
            subsystem.namespaces().into_iter().map(move |namespace| (nqn.clone(), namespace))
        };
        self.directory().subsystems.iter().flat_map(of).collect()
    }

    /// State for the new process, except for controllers.
    pub(crate) fn handed(&self) -> HandedTarget {
        let (directory, now) = (self.directory(), ring::now());
        let former_keys =
            directory.subsystems.iter().flat_map(|subsystem| subsystem.former_keys(now)).collect();
        let controllers = lock(&self.controllers);
        let mut uniquifiers: Vec<_> = controllers.uniquifiers.iter().map(|(id, of)| (*id, *of)).collect();
        uniquifiers.sort_unstable();
        HandedTarget {
            tag: self.tag.load(Ordering::Acquire),
            uniquifiers,
            generated_keys: self.generated_keys.handed(now),
            former_keys,
            ..HandedTarget::default()
        }
    }

    /// Accepts replaced keys of hosts, too, as long as the old process would have.
    pub(crate) fn take_former_keys(&self, handed: &[HandedFormerKey]) {
        let now = ring::now();
        for key in handed {
            if let Some(subsystem) = self.find(&key.subsystem) {
                subsystem.take_former_key(key, now);
            }
        }
    }

    /// Goes on with the old process' controllers: those that come get other instances than any before.
    pub(crate) fn go_on(&self, tag: u32, uniquifiers: &[(u16, u8)]) {
        let mut controllers = lock(&self.controllers);
        self.tag.store(tag, Ordering::Release);
        controllers.uniquifiers.extend(uniquifiers.iter().copied());
    }

    /// Makes a controller of `subsystem` for `host`, with the identifier that it had or was promised, if it was.
    ///
    /// # Errors
    /// Why the host gets none.
    pub(crate) fn add_controller(
        &self,
        subsystem: &Arc<Subsystem>,
        (host, is_proved): (&Host, bool),
        guest: &Guest,
        wanted: WantedId,
        make: impl FnOnce(ControllerInstance) -> Controller,
    ) -> Result<Arc<Controller>, NoController> {
        let mut guard = lock(&self.controllers);
        let controllers = &mut *guard;
        let displaced = controllers.claim_host_id(subsystem, host, is_proved)?;
        let id = match wanted {
            WantedId::Former(id) => id,
            WantedId::Promised(promise) if controllers.promises.hold(promise) => promise.id,
            WantedId::Promised(_) => return Err(Rule::Promises.into()),
            WantedId::Any => controllers.free_id(&self.controller_ids)?,
        };
        let in_excess = if subsystem.is_discovery {
            controllers.discovery_in_excess()
        } else {
            controllers.admission.take_controller(guest)?;
            None
        };
        let uniquifier = controllers.uniquifiers.entry(id).or_default();
        *uniquifier = uniquifier.checked_add(1).unwrap_or(1);
        let random_number = u64::from(self.tag.load(Ordering::Acquire)) << 32 | u64::from(random());
        let instance = ControllerInstance { controller_id: id, uniquifier: *uniquifier, random_number };
        let controller = Arc::new(make(instance));
        controllers.by_id.insert(id, controller.clone());
        drop(guard);
        displaced.iter().for_each(|displaced| self.displace(displaced, &host.nqn));
        if let Some(in_excess) = in_excess {
            self.refusals.count_discovery_ended();
            tracing::debug!(
                controller = in_excess.id,
                host = in_excess.host.nqn,
                "too many discovery controllers; the one silent for longest ends"
            );
            self.end_controller(&in_excess);
        }
        Ok(controller)
    }

    /// Gives a controller's host the place for another I/O queue.
    ///
    /// # Errors
    /// The rule by which it gets none.
    pub(crate) fn take_queue(&self, controller: &Controller) -> Result<(), Rule> {
        lock(&self.controllers).admission.take_queue(&controller.guest)
    }

    /// Gives the place of an I/O queue back.
    pub(crate) fn give_queue(&self, controller: &Controller) {
        lock(&self.controllers).admission.give_queue(&controller.guest);
    }

    /// Quotas for one host and one network.
    pub(crate) fn quotas(&self) -> Quotas {
        *lock(&self.controllers).admission.quotas()
    }

    /// True if the controller, should it exist, was created by this target.
    pub(crate) fn has_made(&self, instance: &ControllerInstance) -> bool {
        (instance.random_number >> 32) as u32 == self.tag.load(Ordering::Acquire)
    }

    /// Receiver of resets of other targets' controllers, if there is one.
    pub(crate) const fn peer_resets(&self) -> Option<&PeerResets> {
        self.peer_resets.as_ref()
    }

    /// Ends all controllers, and creates later ones with another tag. `passed` is called when no
    /// reactor has a queue of the ended controllers left.
    pub(crate) fn end_all_controllers(&self, tag: u32, passed: impl Fn() + Send + Sync + 'static) {
        {
            // A controller is created under the lock, where the tag is read.
            let _controllers = lock(&self.controllers);
            self.tag.store(tag, Ordering::Release);
        }
        for controller in self.controllers().iter().filter(|controller| !self.has_made(&controller.instance))
        {
            self.end_controller(controller);
        }
        self.mailboxes.raise(Fenced::Waiting, Then::Tell(Box::new(passed)));
    }

    /// The controller with this identifier, or the one that had it and has not ended altogether.
    pub(crate) fn controller_or_ending(&self, id: u16) -> Option<Arc<Controller>> {
        let controllers = lock(&self.controllers);
        controllers.by_id.get(&id).or_else(|| controllers.ending.get(&id)).cloned()
    }

    /// Controllers that have ended, while the storage may still work on their commands.
    pub(crate) fn ending_controllers(&self) -> Vec<Arc<Controller>> {
        let mut all: Vec<Arc<Controller>> = lock(&self.controllers).ending.values().cloned().collect();
        all.sort_unstable_by_key(|controller| controller.id);
        all
    }

    /// The controller with this identifier.
    pub(crate) fn controller(&self, id: u16) -> Option<Arc<Controller>> {
        lock(&self.controllers).by_id.get(&id).cloned()
    }

    /// All controllers, in the order of their identifiers.
    pub(crate) fn controllers(&self) -> Vec<Arc<Controller>> {
        let mut all: Vec<Arc<Controller>> = lock(&self.controllers).by_id.values().cloned().collect();
        all.sort_unstable_by_key(|controller| controller.id);
        all
    }

    /// The controllers of a subsystem, in the order of their identifiers.
    pub(crate) fn controllers_of(&self, subsystem: &Subsystem) -> Vec<Arc<Controller>> {
        let mut all = self.controllers();
        all.retain(|controller| std::ptr::eq(&*controller.subsystem, subsystem));
        all
    }

    /// Ends a controller: all its queues are closed. Its identifier is free again when no command
    /// of it can still take effect. Returns false if it has been ended already.
    pub(crate) fn end_controller(&self, controller: &Arc<Controller>) -> bool {
        // First: from here on its queues begin nothing, so that the fence below meets all that can still take effect.
        if !controller.end() {
            return false;
        }
        // In one step: its identifier is not free, and it cannot be found, until the fence has been passed.
        {
            let mut controllers = lock(&self.controllers);
            controllers.by_id.remove(&controller.id);
            controllers.ending.insert(controller.id, controller.clone());
        }
        self.mailboxes.raise(Fenced::Controller(controller.instance), Then::Gone(controller.clone()));
        true
    }

    /// Frees the identifier of an ended controller, none of whose commands can still take effect.
    pub(crate) fn forget_controller(&self, controller: &Controller) {
        let mut controllers = lock(&self.controllers);
        let was_there = controllers.ending.remove(&controller.id).is_some();
        if was_there && !controller.subsystem.is_discovery {
            controllers.admission.give_controller(&controller.guest);
        }
    }

    /// For how long commands of any controller that was lost may still take effect.
    pub(crate) fn longest_quiesce(&self) -> Duration {
        let subsystems = &self.directory().subsystems;
        subsystems.iter().map(|subsystem| subsystem.quiesce.reported()).max().unwrap_or_default()
    }

    /// Closes a controller's I/O queues wherever they are, for a reset or a shutdown that ends with their last command.
    pub(crate) fn quiesce(&self, controller: &Arc<Controller>, quiesce: Quiesce) {
        self.mailboxes
            .raise(Fenced::IoQueues(controller.instance), Then::Quiesced(controller.clone(), quiesce));
    }

    /// No command of the controller's I/O queues can still take effect.
    pub(crate) fn quiesced(&self, controller: &Arc<Controller>, quiesce: Quiesce) {
        if matches!(quiesce, Quiesce::Disable | Quiesce::Both) {
            controller.disabled();
        }
        // Caches are flushed only now, when no write can reach them any longer: CSTS.SHST promises that all of it is durable.
        if matches!(quiesce, Quiesce::ShutDown | Quiesce::Both) {
            // Any reactor does; a controller's own may be busy with its host's other queues.
            let reactor = usize::from(controller.id) % self.mailboxes.all().len();
            self.mailboxes.send(reactor, Message::FlushCaches(controller.clone()));
        }
    }

    /// Sends a message to every reactor.
    pub(crate) fn tell_reactors(&self, message: impl Fn() -> Message) {
        self.mailboxes.tell(message);
    }

    /// Does what was to be done when all reactors have passed a fence.
    pub(crate) fn after_fence(&self, then: &Then) {
        match then {
            Then::GoOn(Address { reactor, connection, serial }, slot) => {
                let (connection, serial, slot) = (*connection, *serial, *slot);
                self.mailboxes.send(*reactor, Message::FencePassed { connection, serial, slot });
            }
            Then::Finish(Address { reactor, connection, serial }, slot, status) => {
                let (connection, serial, slot, status) = (*connection, *serial, *slot, *status);
                let message = Message::Finish { connection, serial, slot, status, data: Vec::new() };
                self.mailboxes.send(*reactor, message);
            }
            Then::Reset(reset) => self.cross_reset_done(reset),
            Then::Quiesced(controller, quiesce) => self.quiesced(controller, *quiesce),
            Then::Gone(controller) => self.forget_controller(controller),
            Then::Tell(tell) => tell(),
        }
    }

    /// No command of the controller that another one was asked to reset can still take effect.
    fn cross_reset_done(&self, reset: &CrossReset) {
        let ended = CrossResetStatus::Successful;
        // Into the log before the host is answered or notified: it may read the log at once.
        let logged = reset.asked.state().cross_resets.end(&reset.impacted, ended);
        if let Some(command) = reset.command {
            self.mailboxes.answer(command, Status::SUCCESS, IMMEDIATE_RESET_SUCCESSFUL);
        } else if logged {
            self.notify(&reset.asked, Notice::CrossControllerReset);
        }
    }

    /// Tells the hosts of a namespace that it refuses writes from now on.
    pub(crate) fn tell_of_failure(&self, namespace: &Arc<Namespace>) {
        let nsids = BTreeSet::from([namespace.nsid]);
        for controller in self.controllers() {
            if controller.table().attachments().any(|a| Arc::ptr_eq(&a.namespace, namespace)) {
                controller.note_changed_namespaces(&nsids);
                self.notify(&controller, Notice::Namespaces);
                self.notify(&controller, Notice::Health);
            }
        }
    }

    /// Tells the controller's host that something happened, if it wants to know.
    pub(crate) fn notify(&self, controller: &Controller, notice: Notice) {
        self.mailboxes.notify(controller, notice);
    }
}
