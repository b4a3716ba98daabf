//! The target: serves namespaces to NVMe/TCP hosts. It opens everything first, listens then, and ends cleanly.
//! Protocol bytes are the `nvme` crate's, blocks are `backend`'s, time and sockets are `ring`'s.

mod admin;
mod allocation_worker;
mod authentication_worker;
mod change;
mod config;
mod controller;
mod error;
mod fabric;
pub mod hand_over;
mod handed_target;
mod identity;
mod image;
mod io;
mod lock;
mod messaging;
mod qos;
mod queue;
mod reactor;
mod report;
mod reservation;
mod reservation_worker;
mod served;
mod telemetry;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use allocation_worker::AllocationWorker;
use authentication_worker::AuthenticationWorker;
use change::ImageWatch;
use change::{Absence, ChangeRequest, Configurator};
pub use change::{EarlyImages, secret_file_faults};
pub use config::{
    AnaGroupConfig, BLOCK_SIZE_DEFAULT, Change, CommandQuiesce, Denial, Directives, FabricConfig, FormerText,
    GroupState, HostKeyConfig, KeyKind, KnownHost, MODEL_DEFAULT, NO_PORT, NamespaceConfig, NamespaceOwned,
    NetworkMask, Nguid, OtherPort, PortConfig, QosConfig, ReferralConfig, SealedSecret, SettingError,
    StorageConfig, SubsystemConfig, TlsUse, Visibility, WriteProtection, check_block_size, check_congestion,
    check_serial, check_subsystem_nqn, free_nsid, free_port, parse_uuid, parse_write_delay,
};
pub use controller::{AuthenticationStatus, ControllerStatus, Network, QueueStatus, TlsStatus};
pub use error::TargetError;
use fabric::Fabric;
pub use fabric::{Quotas, Reactors, TargetConfig};
pub use hand_over::HandOver;
pub use handed_target::{
    HandedController, HandedError, HandedFeatures, HandedFormerKey, HandedGeneratedKey, HandedKey,
    HandedNamespace, HandedProof, HandedQueue, HandedReservations, HandedSecret, HandedStream, HandedTarget,
};
pub use identity::{FORMER_NQN, MACHINE_ID_FILE, MachineId, NamespaceIdentities, write_down_former_uuids};
pub use image::AbsentNamespace;
use lock::lock;
pub use messaging::{
    AskingHost, HostRequest, HostRequests, LostController, PeerReset, PeerResets, PendingRequest, Pulse,
    RefusedHost, RefusedHosts, TakeReset, TargetEnded,
};
use nvme::cross_reset::ControllerInstance;
use reactor::{Listener, Reactor};
pub use reactor::{ReactorMetrics, ReactorStatus};
pub use report::{
    CONTENT_TYPE, ControllerMetrics, ErrorMetrics, Exposition, ExpositionPieces, HostKeyAge, HostKeyKind,
    Measured, Metrics, NamespaceFailure, NamespaceMetrics, NamespaceState, NamespaceStatus, OperationMetrics,
    PortStatus, StageMetrics, StorageMetrics, SubsystemMetrics, SubsystemStatus, TargetStatus,
    reported_queues,
};
pub use reservation::{RegistrantStatus, ReservationStatus};
use reservation_worker::ReservationWorker;
use served::Namespace;
pub use telemetry::{
    HandshakeKind, Histogram, Operation, Peculiarity, QueueMetrics, SizeClass, SlowCommand, SlowCommandLog,
    Stage,
};

use crate::backend::RbdConfig;
use crate::ceph::Cluster;
use crate::limits::{CONTROLLER_IDS, HOST_REQUESTS_MAX};
use crate::ring;
use crate::ring::{Moment, RingOptions};

/// A running target. Dropping it shuts it down.
#[derive(Debug)]
pub struct Target {
    fabric: Arc<Fabric>,
    configurator: Arc<Configurator>,
    reactors: Mutex<Vec<Reactor>>,
    reservation_worker: Mutex<Option<ReservationWorker>>,
    authenticator: Mutex<Option<AuthenticationWorker>>,
    allocation_worker: Mutex<Option<AllocationWorker>>,
    /// Connections from which nothing had come at the old process, until this one serves.
    resting: Mutex<Vec<messaging::Arrival>>,
    /// Hosts that the old process had to disconnect for this one.
    disconnected: Mutex<BTreeSet<String>>,
    /// Watches for images whose size has changed; started once there are images.
    image_watch: Mutex<Option<ImageWatch>>,
    started: SystemTime,
}

impl Target {
    /// Opens all namespaces, starts the reactors, and listens. Images of Ceph clusters that are not available within
    /// `limits::CEPH_OPENING_PATIENCE_MS` are left out for now ([`Self::absent`]), and come when they are. So are files and
    /// devices, where the configuration allows that.
    ///
    /// # Errors
    /// When the configuration is wrong, a file or device cannot be opened or an address not be had. Nothing listens then.
    pub fn start(config: &TargetConfig) -> Result<Self, TargetError> {
        if config.fabric.ports.is_empty() {
            return Err(TargetError::Config("a target needs an address to listen on".to_owned()));
        }
        check_reactors(&config.reactors)?;
        // Counted before reactors are kept on one each.
        ring::core::processors();
        let archive = config.state_dir.as_deref().map(reservation_worker::open_archive).transpose()?;
        check_controller_ids(config)?;
        let clusters = change::clusters(config);
        let fabric = Arc::new(Fabric::new(archive, config, clusters));
        let worker = ReservationWorker::start(&fabric).map_err(TargetError::Reactor)?;
        let authenticator = AuthenticationWorker::start(&fabric).map_err(TargetError::Reactor)?;
        let allocation_worker = AllocationWorker::start(&fabric).map_err(TargetError::Reactor)?;
        let options = RingOptions { engine: config.engine, poll_us_max: config.poll_us_max };
        let places: Vec<Option<usize>> = match &config.reactors {
            Reactors::Count(count) => vec![None; *count],
            Reactors::Cpus(cpus) => cpus.iter().copied().map(Some).collect(),
        };
        let mut reactors = Vec::with_capacity(places.len());
        for (number, cpu) in places.into_iter().enumerate() {
            reactors
                .push(Reactor::start(number, cpu, options, fabric.clone()).map_err(TargetError::Reactor)?);
        }
        fabric.mailboxes().introduce(reactors.iter().map(Reactor::mailbox).collect());
        let listener =
            Listener::start(Vec::new(), fabric.clone(), config.is_held).map_err(TargetError::Reactor)?;
        let target = Self {
            configurator: Arc::new(Configurator::new(fabric.clone(), listener)),
            fabric,
            image_watch: Mutex::default(),
            reactors: Mutex::new(reactors),
            reservation_worker: Mutex::new(Some(worker)),
            authenticator: Mutex::new(Some(authenticator)),
            allocation_worker: Mutex::new(Some(allocation_worker)),
            resting: Mutex::default(),
            disconnected: Mutex::default(),
            started: ring::wall_time(),
        };
        // A target that starts is one without anything that is given its configuration; what fails ends it again.
        let request = ChangeRequest { absence: Absence::Allowed, ..ChangeRequest::of(&config.fabric) };
        target.carry_out(&ChangeRequest { directives: Some(&config.directives), ..request })?;
        Ok(target)
    }

    /// The addresses it listens on, with the real ports.
    pub fn ports(&self) -> Vec<SocketAddr> {
        self.fabric.directory().config.ports.iter().map(|port| port.address.to_socket_addr()).collect()
    }

    /// Configuration in effect. A port whose number was to be chosen by the system has its actual
    /// number here.
    pub fn config(&self) -> FabricConfig {
        self.fabric.directory().config.clone()
    }

    /// Applies another configuration, either completely or not at all. Hosts are notified by
    /// asynchronous events; hosts whose subsystem and port remain stay connected.
    ///
    /// # Errors
    /// When the configuration contradicts itself, or a backend or an address is not available.
    pub fn apply(&self, wanted: &FabricConfig) -> Result<Vec<Change>, TargetError> {
        self.carry_out(&ChangeRequest::of(wanted))
    }

    /// The same; secrets of hosts that others replace are still accepted for `overlap`.
    ///
    /// # Errors
    /// As above.
    pub fn replace_secrets(
        &self,
        wanted: &FabricConfig,
        overlap: Duration,
    ) -> Result<Vec<Change>, TargetError> {
        self.carry_out(&ChangeRequest { overlap, ..ChangeRequest::of(wanted) })
    }

    /// The same for a host that asks for it, unless another host has reserved a namespace that changes: nothing is then.
    /// Reservations stay as they are from the look at them until all is changed. Files of secrets are not read: a host neither
    /// ends the overlap of another one's secrets nor fails for its file.
    ///
    /// # Errors
    /// As above, and `TargetError::Reserved`.
    pub fn apply_for(&self, wanted: &FabricConfig, host: &KnownHost) -> Result<Vec<Change>, TargetError> {
        self.carry_out(&ChangeRequest { host: Some(host), keeps_secrets: true, ..ChangeRequest::of(wanted) })
    }

    /// Checks that a host may make a change that another component applies: no namespace that
    /// changes is reserved by another host.
    ///
    /// # Errors
    /// `TargetError::Reserved`.
    pub fn check_reserved(&self, wanted: &FabricConfig, host: &KnownHost) -> Result<(), TargetError> {
        self.fabric.check_reserved(wanted, host)
    }

    /// The same as [`Self::apply`], with other run-time orders beside it. Files of secrets are read for hosts that have others
    /// than before: what a group of gateways agrees on must not fail for a file that has become wrong meanwhile.
    ///
    /// # Errors
    /// As there.
    pub fn apply_directed(
        &self,
        wanted: &FabricConfig,
        directives: &Directives,
        overlap: Duration,
    ) -> Result<Vec<Change>, TargetError> {
        let directives = Some(directives);
        self.carry_out(&ChangeRequest {
            directives,
            overlap,
            keeps_secrets: true,
            ..ChangeRequest::of(wanted)
        })
    }

    /// Starts to open the images that `wanted` needs in addition to those in effect. Applying
    /// `wanted` later takes the images that are open by that time, and fails for the others; a
    /// change without images does not wait for a cluster meanwhile.
    pub fn open_early(&self, wanted: &FabricConfig, directives: &Directives) -> EarlyImages {
        EarlyImages::begin(&self.fabric, wanted, directives)
    }

    /// The same for one namespace that is to come to the subsystem of this name, in this opening of images and with whether another
    /// target writes to it first. All that is served need not be compared for that.
    pub fn open_one_early(&self, nqn: &str, config: &NamespaceConfig, opening: (u64, bool)) -> EarlyImages {
        EarlyImages::begin_one(&self.fabric, nqn, config, opening)
    }

    /// Lets no write to these namespaces, by their subsystems, begin until this moment that is asked for from now on. What was
    /// asked for before may still be carried out. Whether all of them are there; those that are, are held in any case.
    pub fn hold_writes(&self, namespaces: &[(String, u32)], until: Moment) -> bool {
        self.for_namespaces(namespaces, |namespace| namespace.hold_writes(until.0))
    }

    /// True if all of these namespaces have been held without interruption, and `until` is not
    /// over.
    pub fn holds_writes(&self, namespaces: &[(String, u32)], until: Moment) -> bool {
        let is_held = std::cell::Cell::new(ring::now() < until);
        // A namespace that was reopened is another one, and holds no writes.
        let are_there = self.for_namespaces(namespaces, |namespace| {
            is_held.set(is_held.get() && namespace.shaper.holds_writes(until.0));
        });
        are_there && is_held.get()
    }

    /// Lets them go on.
    pub fn release_writes(&self, namespaces: &[(String, u32)]) {
        self.for_namespaces(namespaces, |namespace| namespace.hold_writes(0));
    }

    fn for_namespaces(&self, namespaces: &[(String, u32)], act: impl Fn(&Namespace)) -> bool {
        let find = |(nqn, nsid): &(String, u32)| self.fabric.find(nqn)?.state().namespaces.get(nsid).cloned();
        let found: Vec<Arc<Namespace>> = namespaces.iter().filter_map(find).collect();
        found.iter().for_each(|namespace| act(namespace));
        found.len() == namespaces.len()
    }

    /// The run-time orders in effect.
    pub fn directives(&self) -> Directives {
        self.fabric.directory().directives.clone()
    }

    /// Reopens the file or device of a namespace whose sync has failed, and which has refused
    /// writes and Flush since. The caller asserts that the storage is in order again. Hosts keep
    /// the namespace, and may write again.
    ///
    /// # Errors
    /// When it has not failed, commands from before are still under way, or it cannot be opened. It stays as it was then.
    pub fn reopen(&self, nqn: &str, nsid: u32) -> Result<(), TargetError> {
        self.carry_out(&ChangeRequest { reopen: Some((nqn, nsid)), ..ChangeRequest::SAME }).map(drop)
    }

    /// Drops all registrations of a namespace, or those of the host with this NQN; the NQNs of hosts that had one. The
    /// reservation goes with its last holder.
    ///
    /// # Errors
    /// When the namespace is not served here, or what stays cannot be kept.
    pub fn clear_reservations(
        &self,
        nqn: &str,
        nsid: u32,
        host: Option<&str>,
    ) -> Result<Vec<String>, TargetError> {
        reservation_worker::clear(&self.fabric, (nqn, nsid), host)
    }

    /// The registrations of a namespace, if it is served here.
    pub fn reservations(&self, nqn: &str, nsid: u32) -> Option<ReservationStatus> {
        let namespace = self.fabric.find(nqn)?.state().namespaces.get(&nsid).cloned()?;
        let status = lock(&namespace.reservations).status();
        Some(status)
    }

    /// Returns true if the file or device of a namespace has grown, unless the configuration has its size. The file system may
    /// take long to answer; no I/O waits for it.
    pub fn has_grown(&self) -> bool {
        let directory = self.fabric.directory();
        let mut namespaces = directory.subsystems.iter().flat_map(|subsystem| subsystem.namespaces());
        namespaces.any(|namespace| namespace.has_grown())
    }

    /// Extends namespaces that [have grown](Self::has_grown), and notifies hosts. Returns true if there was one.
    ///
    /// # Errors
    /// When the change cannot be carried out: it is tried again with the next look.
    pub fn notice_growth(&self) -> Result<bool, TargetError> {
        let has_grown = self.has_grown();
        if has_grown {
            self.carry_out(&ChangeRequest::SAME)?;
        }
        Ok(has_grown)
    }

    /// The namespaces that refuse writes since their storage could not be synchronized.
    pub fn failures(&self) -> Vec<NamespaceFailure> {
        report::failures(&self.fabric)
    }

    /// The namespaces that are configured and not there, since their images or disks are not available.
    pub fn absent(&self) -> Vec<AbsentNamespace> {
        self.fabric.absent()
    }

    fn carry_out(&self, request: &ChangeRequest<'_>) -> Result<Vec<Change>, TargetError> {
        let changes = self.configurator.carry_out(request)?;
        if change::has_images(&self.fabric.directory().config) || !self.fabric.absent().is_empty() {
            let mut image_watch = lock(&self.image_watch);
            if image_watch.is_none() {
                *image_watch = ImageWatch::start(&self.configurator);
            }
        }
        Ok(changes)
    }

    /// The addresses by which clusters know the connections of its images.
    ///
    /// # Errors
    /// When Ceph's library does not tell.
    pub fn cluster_addresses(&self) -> Result<Vec<String>, crate::ceph::CephError> {
        self.fabric.clusters().addresses()
    }

    /// Answers all commands at the storage whose namespaces are no longer accessible here by their
    /// ANA state: hosts retry them on another path at once, however long the storage takes. The
    /// caller ensures that the remaining operations have ended before any target, this one
    /// included, serves these namespaces again.
    pub fn give_up_commands(&self) {
        self.fabric.tell_reactors(|| messaging::Message::GiveUp(messaging::Loss::Unreachable));
    }

    /// True if a host has asked for another host's commands to be aborted, and some of this target
    /// take too long. The host's command can be completed once this target's connections are
    /// blocklisted.
    pub fn awaits_fence(&self) -> bool {
        self.fabric.clusters().awaits_fence()
    }

    /// True if a cluster has blocklisted one of this target's connections. Images open on that
    /// connection stay unusable.
    pub fn is_refused(&self) -> bool {
        self.fabric.clusters().are_refused()
    }

    /// No further image is opened on the connections to clusters that there are, since these can no longer be used.
    pub fn forget_cluster_connections(&self) {
        self.fabric.clusters().forget();
    }

    /// Waits until all connections of its images work by the newest maps of their clusters: what others' connections had
    /// under way that are on a blocklist by then does not happen after anything that this target does from now on.
    ///
    /// # Errors
    /// When a cluster does not answer.
    pub fn wait_for_latest_maps(&self) -> Result<(), crate::ceph::CephError> {
        self.fabric.clusters().wait_for_latest_maps()
    }

    /// Asks every reactor whether it goes round. What this gives tells later how many have answered; one that hangs does not.
    pub fn ask_pulse(&self) -> Pulse {
        let pulse = Pulse::of(lock(&self.reactors).len());
        self.fabric.tell_reactors(|| messaging::Message::Pulse(pulse.clone()));
        pulse
    }

    /// A secret as a configuration may have it, for a host of a subsystem; nothing without a key to seal it with.
    pub fn seal(&self, secret: &str, kind: KeyKind, nqn: &str, host: &str) -> Option<SealedSecret> {
        Some(SealedSecret::seal(self.fabric.sealing_key.as_deref()?, secret, kind, nqn, host))
    }

    /// A connection that images of this one's cluster share already, if there is one.
    pub fn image_connection(&self, image: &RbdConfig) -> Option<Arc<Cluster>> {
        self.fabric.clusters().shared(image.conf.as_deref(), image.id.as_deref())
    }

    /// The UUIDs by which hosts know the namespaces that are there.
    pub fn namespace_identities(&self) -> NamespaceIdentities {
        self.fabric.namespace_identities()
    }

    /// Start time.
    pub const fn started(&self) -> SystemTime {
        self.started
    }

    /// Status: ports, subsystems, namespaces, controllers and reactors.
    pub fn status(&self) -> TargetStatus {
        let directory = self.fabric.directory();
        let ports = directory.config.ports.iter();
        let (living, ending) = (self.fabric.controllers(), self.fabric.ending_controllers());
        let controllers = living.iter().chain(&ending);
        TargetStatus {
            ports: ports.map(PortStatus::of).collect(),
            subsystems: report::subsystems(&self.fabric),
            namespaces: report::namespaces(&self.fabric),
            controllers: controllers.map(|controller| controller.status()).collect(),
            reactors: lock(&self.reactors).iter().map(Reactor::status).collect(),
            quotas: self.fabric.quotas(),
            refusals: self.fabric.refusals.read().into_iter().collect(),
            peculiarities: report::counts_by_name(self.fabric.peculiarities.counts()),
            host_keys: report::host_key_ages(&self.fabric),
        }
    }

    /// Counters and gauges. Walks over all counters; costs nothing on the data path.
    pub fn metrics(&self) -> Metrics {
        Metrics::of(&self.fabric, &lock(&self.reactors), self.started)
    }

    /// Commands that took long, the latest of them, since it was last said what is long.
    pub fn slow_commands(&self) -> SlowCommandLog {
        self.fabric.slow_commands.read()
    }

    /// Commands that take so long are kept from now on, to be read; none are without a time. Those that were kept go.
    pub fn keep_slow_commands(&self, threshold: Option<Duration>) {
        self.fabric.slow_commands.set_threshold(threshold);
    }

    /// Ends the controller with this identifier as if its host had been silent for too long; the host may come back.
    /// Whether there was one.
    pub fn reset_controller(&self, cntlid: u16) -> bool {
        self.controller_instance(cntlid).is_some_and(|instance| self.reset_instance(instance))
    }

    /// Instance of the controller with this identifier, if there is one.
    pub fn controller_instance(&self, cntlid: u16) -> Option<ControllerInstance> {
        self.fabric.controller(cntlid).map(|controller| controller.instance)
    }

    /// Ends this controller, and no later one with its identifier, as [`Self::reset_controller`]
    /// does. Whether it was there.
    pub fn reset_instance(&self, instance: ControllerInstance) -> bool {
        let found = self.fabric.controller(instance.controller_id);
        let found = found.filter(|controller| controller.instance == instance);
        if let Some(controller) = &found {
            self.fabric.end_controller(controller);
        }
        found.is_some()
    }

    /// Ends all controllers, and gives later ones the new `tag` (`TargetConfig::tag`). `passed` is
    /// called once no command of an ended controller can still begin, unless the target ends
    /// before.
    pub fn end_all_controllers(&self, tag: u32, passed: impl Fn() + Send + Sync + 'static) {
        self.fabric.end_all_controllers(tag, passed);
    }

    /// Ends a controller whose host has lost its path to this target, and has asked another target
    /// to reset it. `at_rest` is called once no command of the controller can still take effect,
    /// unless the target ends before. Returns false, and does nothing, if this target has not
    /// created the controller since [`Self::end_all_controllers`], or it is another host's.
    pub fn reset_for_peer(&self, lost: &LostController, at_rest: impl Fn() + Send + Sync + 'static) -> bool {
        admin::answer_peer(lost, &self.fabric, at_rest)
    }

    /// The hosts that have a controller here, other than that of the discovery service, with the controllers' subsystems.
    pub fn guests(&self) -> BTreeSet<(String, String)> {
        let controllers = self.fabric.controllers();
        let guests = controllers.iter().filter(|controller| !controller.subsystem.is_discovery);
        guests.map(|guest| (guest.subsystem.nqn.clone(), guest.host.nqn.clone())).collect()
    }

    /// True if a host has a controller of a subsystem, other than the discovery subsystem, here.
    pub fn has_hosts(&self) -> bool {
        self.fabric.controllers().iter().any(|controller| !controller.subsystem.is_discovery)
    }

    /// Receiver of hosts' administrative requests; only the first call returns one. From then on
    /// namespace management is offered to hosts where a subsystem's configuration names a storage
    /// directory.
    pub fn host_requests(&self) -> Option<HostRequests> {
        let (sender, receiver) = ring::channel::sync_channel(HOST_REQUESTS_MAX);
        self.fabric.take_requests(sender).then_some(HostRequests(receiver))
    }

    /// Wakes the receiver of hosts' requests for other work.
    pub fn call_administration(&self) {
        self.fabric.call_administration();
    }

    /// Receiver of hosts that fail to authenticate; `HostRequests` is woken when there are some.
    /// Only the first call returns one.
    pub fn failed_logins(&self) -> Option<RefusedHosts> {
        self.fabric.take_failed_logins()
    }

    /// The same for hosts whose Connect is refused.
    pub fn refused_connects(&self) -> Option<RefusedHosts> {
        self.fabric.take_refused_connects()
    }

    /// Processor time all reactors have used.
    pub fn cpu_time(&self) -> Duration {
        lock(&self.reactors).iter().map(Reactor::cpu_time).sum()
    }

    /// Connections there are now.
    pub fn connections(&self) -> usize {
        lock(&self.reactors).iter().map(|reactor| reactor.mailbox().connections()).sum()
    }

    /// Stops listening, lets outstanding commands finish (for `limits::SHUTDOWN_TIMEOUT_MS` at most), closes all
    /// connections and all backends.
    pub fn shutdown(&self) {
        self.configurator.end();
        let mut reactors = lock(&self.reactors);
        for reactor in &*reactors {
            reactor.mailbox().send(messaging::Message::Shutdown);
        }
        for reactor in reactors.drain(..) {
            reactor.join();
        }
        // No connection waits for the workers now. They finish what they have begun.
        drop(lock(&self.reservation_worker).take());
        drop(lock(&self.authenticator).take());
        drop(lock(&self.allocation_worker).take());
        {
            // Not while its lock is held: it may wait for an administrator who waits for that.
            let image_watch = lock(&self.image_watch).take();
            drop(image_watch);
        }
        self.fabric.opener().end();
        self.fabric.forget_all();
        change::wait_for_closings(&self.fabric);
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// Checks that there are identifiers for controllers.
fn check_controller_ids(config: &TargetConfig) -> Result<(), TargetError> {
    let (ids, all) = (&config.controller_ids, CONTROLLER_IDS);
    if ids.is_empty() || ids.start() < all.start() || ids.end() > all.end() {
        return Err(TargetError::Config(format!(
            "controllers cannot have the identifiers {ids:?}; they go from {} to {}",
            all.start(),
            all.end()
        )));
    }
    Ok(())
}

/// Checks how many reactors there are to be, and where.
fn check_reactors(reactors: &Reactors) -> Result<(), TargetError> {
    let none = || Err(TargetError::Config("a target needs at least one reactor".to_owned()));
    match reactors {
        Reactors::Count(0) => none(),
        Reactors::Cpus(cpus) if cpus.is_empty() => none(),
        Reactors::Cpus(cpus) => {
            let available = crate::ring::core::available();
            match cpus.iter().find(|cpu| !available.contains(cpu)) {
                Some(cpu) => {
                    let available: Vec<String> = available.iter().map(ToString::to_string).collect();
                    let available = available.join(", ");
                    Err(TargetError::Config(format!(
                        "CPU {cpu} is not available to this process; available are {available}"
                    )))
                }
                None => Ok(()),
            }
        }
        Reactors::Count(_) => Ok(()),
    }
}
