//! Preparation of a change: opens, resizes and locks all that it needs. Nothing is visible before all of it is there, or after an error.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use secure_channel::SealingKey;
use uuid::Uuid;

use super::change_request::{Absence, ChangeRequest};
use super::standby;
use crate::backend::{Backend, BackendConfig, BackendError, Clusters, Opening};
use crate::limits::CEPH_OPENING_PATIENCE_MS;
use crate::ring::tcp;
use crate::secret_file::SecretFileError;
use crate::target::TargetError;
use crate::target::config::{
    Change, Directives, FabricConfig, NamespaceConfig, SubsystemConfig, check_quiesce_bound, namespaces_of,
};
use crate::target::fabric::Directory;
use crate::target::identity::{Identities, identities as identity};
use crate::target::image::{AbsentNamespace, ImageOpener, Images, OpenRequest, Outcome};
use crate::target::reactor::Listening;
use crate::target::reservation::ReservationDirectory;
use crate::target::reservation_worker;
use crate::target::served::{HostKeys, Namespace, Opened, Subsystem};
use crate::transport::congestion;

/// All that had to be opened, before anything is visible.
pub(crate) struct Prepared {
    /// The namespaces of all wanted subsystems, in the subsystems' order.
    pub(crate) namespaces: Vec<Opened>,
    pub(crate) listening: Vec<Listening>,
    /// With the real services of all ports.
    pub(crate) config: FabricConfig,
    pub(crate) absent: Vec<AbsentNamespace>,
    /// The secrets of all subsystems' hosts, in the subsystems' order.
    pub(crate) keys: Vec<HostKeys>,
}

/// A namespace that has failed, and its reopened file or device.
pub(crate) struct Reopened {
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) backend: Arc<Backend>,
}

/// Inputs for the preparation of a change: the state in effect, and the wanted one.
#[derive(Clone, Copy)]
pub(crate) struct Preparation<'a> {
    pub(crate) old: &'a Directory,
    pub(crate) wanted: &'a FabricConfig,
    pub(crate) directives: &'a Directives,
    pub(crate) changes: &'a [Change],
    pub(crate) coming: &'a BTreeSet<(&'a str, u32)>,
    pub(crate) archive: Option<&'a ReservationDirectory>,
    pub(crate) clusters: &'a Clusters,
    pub(crate) identities: &'a Identities,
    pub(crate) opener: &'a Arc<ImageOpener<Images>>,
    /// The request, with its options.
    pub(crate) request: &'a ChangeRequest<'a>,
    /// A failed namespace that continues with its reopened storage.
    pub(crate) reopened: Option<&'a Reopened>,
    /// Namespaces that were absent until now.
    pub(crate) absent: &'a [AbsentNamespace],
    pub(crate) absence: Absence,
    /// True if files and devices may be absent, in addition to images.
    pub(crate) may_disks_be_absent: bool,
    /// Key with which secrets in the configuration are encrypted.
    pub(crate) sealing_key: Option<&'a SealingKey>,
    /// Sockets that were open before this target was.
    pub(crate) inherited: &'a [Arc<tcp::Opened>],
}

/// The open namespaces of a subsystem with their configurations.
pub(crate) fn pairs<'a>(
    config: &'a SubsystemConfig,
    opened: &'a Opened,
) -> impl Iterator<Item = (&'a NamespaceConfig, &'a Arc<Namespace>)> {
    config.namespaces.iter().filter_map(|config| Some((config, opened.get(&config.nsid)?)))
}

/// Namespaces of subsystems that stay, which these changes add, replace or reopen.
pub(crate) fn coming(changes: &[Change]) -> BTreeSet<(&str, u32)> {
    namespaces_of(changes, |change| {
        use Change::{NamespaceAdded, NamespaceReopened, NamespaceReplaced};
        matches!(change, NamespaceAdded { .. } | NamespaceReplaced { .. } | NamespaceReopened { .. })
    })
}

/// The subsystem with this name, if it stays what it is.
pub(crate) fn kept_subsystem(old: &Directory, nqn: &str, changes: &[Change]) -> Option<Arc<Subsystem>> {
    let replaced = changes.iter().any(|c| matches!(c, Change::SubsystemReplaced { nqn: of } if of == nqn));
    let known = old.subsystems.iter().find(|subsystem| subsystem.nqn == nqn);
    known.filter(|_| !replaced).cloned()
}

/// Checks that ports that stay open keep their transport, and that configured congestion controls
/// are available.
fn check_ports(old: &FabricConfig, wanted: &FabricConfig, changes: &[Change]) -> Result<(), TargetError> {
    for port in &wanted.ports {
        let open = old.ports.iter().find(|open| open.id == port.id && open.address == port.address);
        if open.is_some_and(|open| open.transport != port.transport) {
            // The new socket would have to listen before the old one is closed, and cannot.
            return Err(TargetError::Config(format!(
                "port {}: {} cannot become {} while it is open; remove it and add it again",
                port.id, port.address, port.transport
            )));
        }
        let changes = changes
            .iter()
            .any(|change| matches!(change, Change::PortCongestionChanged { port: id } if *id == port.id));
        if changes && let Some(name) = congestion::choice(port.congestion.as_deref()) {
            congestion::check(name)
                .map_err(|error| TargetError::Config(format!("port {}: {error}", port.id)))?;
        }
    }
    Ok(())
}

/// All that is wrong with the files of secrets that a configuration names, where a target would be refused for the first. This
/// user may not be the one that the target runs as.
pub fn secret_file_faults(config: &FabricConfig) -> Vec<SecretFileError> {
    let of = |subsystem: &SubsystemConfig| {
        let faults = HostKeys::faults(&subsystem.host_keys).into_iter();
        faults.map(|fault| of_subsystem(subsystem, fault)).collect::<Vec<_>>()
    };
    config.subsystems.iter().flat_map(of).collect()
}

fn of_subsystem(subsystem: &SubsystemConfig, error: SecretFileError) -> SecretFileError {
    error.of(format_args!("subsystem {}", subsystem.nqn))
}

impl Preparation<'_> {
    /// Reads the secrets of all hosts again, even if nothing else changes: a file may have been replaced.
    fn read_keys(&self) -> Result<Vec<HostKeys>, TargetError> {
        let read = |subsystem: &SubsystemConfig| {
            let known = self.old.subsystems.iter().find(|known| known.nqn == subsystem.nqn);
            let known = known.filter(|_| self.request.keeps_secrets).map(|known| known.state());
            let known = known.as_deref().map(|state| (&state.config, &state.keys));
            let wrong = |error| TargetError::Config(of_subsystem(subsystem, error).to_string());
            HostKeys::read(subsystem, known, self.sealing_key).map_err(wrong)
        };
        self.wanted.subsystems.iter().map(read).collect()
    }

    /// Opens, locks and resizes all that has to be.
    pub(crate) fn prepare(&self) -> Result<Prepared, TargetError> {
        // What needs nothing opened comes first: a configuration that is wrong is refused without side effects.
        check_places(self.wanted)?;
        check_ports(&self.old.config, self.wanted, self.changes)?;
        let keys = self.read_keys()?;
        self.begin_opening();
        let mut absent = Vec::new();
        let mut namespaces = Vec::with_capacity(self.wanted.subsystems.len());
        for subsystem in &self.wanted.subsystems {
            namespaces.push(self.open_all(subsystem, &mut absent)?);
        }
        // All locks together: of a dead target each costs a round trip to the cluster's monitors. Before the ports are open:
        // hosts must not connect and wait while the cluster finds out that a target is dead.
        let failures =
            standby::take(&standby::newly_opened((self.wanted, self.directives), &namespaces, self.old));
        self.leave_out_all(failures, &mut namespaces, &mut absent)?;
        // After opening, since only an open backend knows its identity, and before images change hands.
        for (subsystem, opened) in self.wanted.subsystems.iter().zip(&namespaces) {
            let identities = opened
                .iter()
                .map(|(nsid, namespace)| (*nsid, Uuid::from_bytes(namespace.uuid), namespace.nguid));
            identity::check_distinct(&subsystem.nqn, identities)?;
        }
        let is_added = |id| {
            self.changes.iter().any(|change| matches!(change, Change::PortAdded { port } if *port == id))
        };
        let (mut config, mut listening) = (self.wanted.clone(), Vec::new());
        pin_files(&mut config, &namespaces);
        for port in config.ports.iter_mut().filter(|port| is_added(port.id)) {
            let socket = Listening::open(port, self.inherited)?;
            port.address = socket.address().into();
            listening.push(socket);
        }
        // After the sockets: a port that cannot be opened must not cost another gateway its lock.
        self.take_images(&mut namespaces, &mut absent)?;
        self.check_quiesce(&namespaces)?;
        // Last: blocks that are cut off cannot be restored, so nothing that comes after may fail.
        resize_all(self.wanted, &namespaces, self.changes)?;
        Ok(Prepared { namespaces, listening, config, absent, keys })
    }

    fn comes(&self, nqn: &str, nsid: u32) -> bool {
        self.coming.contains(&(nqn, nsid))
    }

    /// The image of a namespace, as it is opened beside others.
    fn image_of(&self, subsystem: &SubsystemConfig, config: &NamespaceConfig) -> OpenRequest {
        OpenRequest::of(&subsystem.nqn, config, self.directives.opening)
    }

    fn was_absent(&self, nqn: &str, nsid: u32) -> Option<&AbsentNamespace> {
        self.absent.iter().find(|absent| absent.nsid == nsid && absent.nqn == nqn)
    }

    /// True if this change retries an absent namespace.
    fn is_tried_again(&self, subsystem: &SubsystemConfig, config: &NamespaceConfig) -> bool {
        match self.absence {
            Absence::Refused => false,
            Absence::Allowed => self.opener.is_done(&self.image_of(subsystem, config)),
            Absence::TriedAgain => true,
        }
    }

    /// Begins to open all images that are needed and may be absent, beside each other, and waits a while for those that come
    /// with this change: before hosts can connect, so that they find what is available.
    fn begin_opening(&self) {
        if self.absence == Absence::Refused {
            return;
        }
        let mut due = Vec::new();
        for subsystem in &self.wanted.subsystems {
            let is_kept = kept_subsystem(self.old, &subsystem.nqn, self.changes).is_some();
            let is_due = |config: &&NamespaceConfig| {
                let comes = !is_kept || self.comes(&subsystem.nqn, config.nsid);
                let is_absent = || self.was_absent(&subsystem.nqn, config.nsid).is_some();
                is_opened_beside(self.directives, subsystem, config)
                    && (comes || self.absence == Absence::TriedAgain && is_absent())
            };
            let configs = subsystem.namespaces.iter().filter(is_due);
            due.extend(configs.map(|config| self.image_of(subsystem, config)));
        }
        self.opener.begin(&due);
        // Only images that come with this change are awaited: what was tried before reports when it is open.
        if self.absence == Absence::Allowed {
            self.opener.wait(&due, Duration::from_millis(CEPH_OPENING_PATIENCE_MS));
        }
    }

    /// The namespaces of a subsystem, those that are there.
    fn open_all(
        &self,
        subsystem: &SubsystemConfig,
        absent: &mut Vec<AbsentNamespace>,
    ) -> Result<Opened, TargetError> {
        let kept = kept_subsystem(self.old, &subsystem.nqn, self.changes);
        let mut opened = Opened::new();
        for config in &subsystem.namespaces {
            let comes = kept.is_none() || self.comes(&subsystem.nqn, config.nsid);
            if let (false, Some(was_absent)) = (comes, self.was_absent(&subsystem.nqn, config.nsid))
                && !self.is_tried_again(subsystem, config)
            {
                absent.push(was_absent.clone());
                continue;
            }
            match self.open_or_keep(kept.as_deref().filter(|_| !comes), subsystem, config) {
                Ok(namespace) => drop(opened.insert(config.nsid, namespace)),
                Err(error) => self.leave_out(subsystem, config, error, absent)?,
            }
        }
        Ok(opened)
    }

    /// Does without a namespace for now, if that is allowed.
    fn leave_out(
        &self,
        subsystem: &SubsystemConfig,
        config: &NamespaceConfig,
        error: TargetError,
        absent: &mut Vec<AbsentNamespace>,
    ) -> Result<(), TargetError> {
        let was_absent = self.was_absent(&subsystem.nqn, config.nsid);
        // A new one alone, of a cluster without configuration, is a mistake in the flags, as a missing file is.
        let is_mistake =
            was_absent.is_none() && self.wanted.has_one_namespace() && error.is_misconfiguration();
        let is_image = matches!(config.backend, BackendConfig::Rbd(_)) && !is_mistake;
        let is_null = matches!(config.backend, BackendConfig::Null { .. });
        let may_be_absent = is_image || self.may_disks_be_absent && !is_null;
        if self.absence == Absence::Refused || !may_be_absent {
            return Err(error);
        }
        let mut now =
            AbsentNamespace { nqn: subsystem.nqn.clone(), nsid: config.nsid, reason: error.to_string() };
        // That it is tried is no other reason, unless there is more to say by now.
        if let TargetError::Namespace { source: BackendError::Pending { owner, .. }, .. } = &error
            && let Some(before) = was_absent
            && owner.as_ref().is_none_or(|owner| before.reason.contains(owner))
        {
            now.reason.clone_from(&before.reason);
        }
        if !self.absent.contains(&now) {
            tracing::warn!(%error, "namespace is not available yet; serving the others and retrying");
        }
        absent.push(now);
        Ok(())
    }

    /// Checks that new namespaces keep their subsystem's Command Quiesce Time, and all of them if
    /// that changes.
    fn check_quiesce(&self, namespaces: &[Opened]) -> Result<(), TargetError> {
        for (subsystem, opened) in self.wanted.subsystems.iter().zip(namespaces) {
            let nqn = &subsystem.nqn;
            let is_other =
                |change: &Change| matches!(change, Change::CommandQuiesceChanged { nqn: of } if of == nqn);
            let is_due =
                kept_subsystem(self.old, nqn, self.changes).is_none() || self.changes.iter().any(is_other);
            let comes = |nsid| self.comes(nqn, nsid) || self.was_absent(nqn, nsid).is_some();
            for config in subsystem.namespaces.iter().filter(|config| is_due || comes(config.nsid)) {
                let (bound, place) = match (&config.backend, opened.get(&config.nsid)) {
                    // The same for all, be they there or not.
                    (BackendConfig::Rbd(image), _) => (self.clusters.time_bound(), image.to_string()),
                    (_, Some(open)) => (open.backend.time_bound(), open.backend.place()),
                    (_, None) => continue,
                };
                check_quiesce_bound(subsystem, config, &bound, &place)?;
            }
        }
        Ok(())
    }

    /// Takes the images that this target is to write to from now on; those that are not available are left out.
    fn take_images(
        &self,
        namespaces: &mut [Opened],
        absent: &mut Vec<AbsentNamespace>,
    ) -> Result<(), TargetError> {
        let handovers = standby::handovers((self.wanted, self.directives), namespaces, self.changes);
        let failures = standby::take(&handovers);
        if let (Absence::Refused, false) = (self.absence, failures.is_empty()) {
            // Nothing of this change takes effect.
            standby::take_none(&handovers);
        }
        drop(handovers);
        self.leave_out_all(failures, namespaces, absent)
    }

    /// Leaves out namespaces whose images are not available, if that is allowed.
    fn leave_out_all(
        &self,
        failures: Vec<((usize, u32), BackendError)>,
        namespaces: &mut [Opened],
        absent: &mut Vec<AbsentNamespace>,
    ) -> Result<(), TargetError> {
        for ((at, nsid), source) in failures {
            let subsystem = &self.wanted.subsystems[at];
            let Some(config) = subsystem.namespaces.iter().find(|config| config.nsid == nsid) else {
                continue;
            };
            let error = TargetError::Namespace { nqn: subsystem.nqn.clone(), nsid, source };
            self.leave_out(subsystem, config, error, absent)?;
            namespaces[at].remove(&nsid);
        }
        Ok(())
    }

    fn open_or_keep(
        &self,
        kept: Option<&Subsystem>,
        subsystem: &SubsystemConfig,
        config: &NamespaceConfig,
    ) -> Result<Arc<Namespace>, TargetError> {
        if let Some(kept) = kept
            && let Some(namespace) = kept.state().namespaces.get(&config.nsid)
        {
            return Ok(namespace.clone());
        }
        if let Some(request) =
            self.request.reconnected.iter().find(|r| r.place() == (&*subsystem.nqn, config.nsid))
        {
            return self.go_on(request, subsystem, config);
        }
        if let Some(Reopened { namespace: former, backend }) = self.reopened
            && (&former.nqn, former.nsid) == (&subsystem.nqn, config.nsid)
        {
            // Also where nothing but its place is known of it, and the next start would give it another one.
            let uuid = if former.backend.identity() == backend.identity() {
                Uuid::from_bytes(former.uuid)
            } else {
                self.identities.namespace(&subsystem.nqn, config, backend)?
            };
            let namespace = Namespace::on(&subsystem.nqn, config, uuid, backend.clone());
            // Reservations and marks are copied before the namespace is visible: a command in between would pass a
            // reservation of another host.
            if uuid.as_bytes() == &former.uuid {
                namespace.succeed(former);
            } else {
                // What was put in its place is another disk, with marks and reservations of its own.
                reservation_worker::restore(self.archive, &subsystem.nqn, &namespace)?;
            }
            return Ok(Arc::new(namespace));
        }
        // A file that another namespace gives up in the same change is taken over as it is open, which is good enough
        // for blocks that are no smaller than those it was opened for.
        let backend = match self.opened_beside(subsystem, config)? {
            Some(backend) => Arc::new(backend),
            None => match given_up(self.old, config, self.changes) {
                Some(backend) => backend,
                None => Arc::new(self.open(subsystem, config)?),
            },
        };
        let uuid = self.identities.namespace(&subsystem.nqn, config, &backend)?;
        let namespace = self.shared(Namespace::on(&subsystem.nqn, config, uuid, backend), config);
        // By its UUID, so after that is known, and before a host can see the namespace without its reservations.
        reservation_worker::restore(self.archive, &subsystem.nqn, &namespace)?;
        Ok(Arc::new(namespace))
    }

    /// The same, where several gateways serve it in turn: its reservations are read when its image is taken.
    fn shared(&self, namespace: Namespace, config: &NamespaceConfig) -> Namespace {
        if !self.clusters.are_images_shared() || !matches!(config.backend, BackendConfig::Rbd(_)) {
            return namespace;
        }
        let added = self.directives.added(&namespace.nqn, namespace.nsid);
        namespace.sharing_reservations(added)
    }

    /// Opens the backend of a namespace.
    fn open(&self, subsystem: &SubsystemConfig, config: &NamespaceConfig) -> Result<Backend, TargetError> {
        let opening = Opening {
            block_size: config.block_size,
            is_shared: config.shared_storage,
            pin: config.file_pin.as_ref(),
            is_retry: self.absence == Absence::TriedAgain,
            is_standby: self.directives.is_standby(&subsystem.nqn, config.nsid),
            namespace: config.uuid,
            clusters: self.clusters,
        };
        Backend::open(&config.backend, opening).map_err(|source| TargetError::Namespace {
            nqn: subsystem.nqn.clone(),
            nsid: config.nsid,
            source,
        })
    }

    /// The same namespace on an image that was opened for it on another connection.
    fn go_on(
        &self,
        request: &OpenRequest,
        subsystem: &SubsystemConfig,
        config: &NamespaceConfig,
    ) -> Result<Arc<Namespace>, TargetError> {
        let nqn = &subsystem.nqn;
        let gone = || TargetError::Config(format!("namespace {} of {nqn} was replaced", config.nsid));
        let open = self.old.subsystems.iter().find(|open| open.nqn == *nqn).ok_or_else(gone)?;
        let former = open.state().namespaces.get(&config.nsid).cloned().ok_or_else(gone)?;
        let Outcome::Opened(backend) = self.opener.outcome(request) else { return Err(gone()) };
        let uuid = self.identities.namespace(nqn, config, &backend)?;
        let namespace = self.shared(Namespace::on(nqn, config, uuid, Arc::new(backend)), config);
        // Under the same name there may be another image by now, which must not inherit the reservations of this one.
        if namespace.uuid == former.uuid {
            namespace.succeed(&former);
        }
        Ok(Arc::new(namespace))
    }

    /// The image of a namespace, if it is one of those that are opened beside each other; an error while that is under way.
    fn opened_beside(
        &self,
        subsystem: &SubsystemConfig,
        config: &NamespaceConfig,
    ) -> Result<Option<Backend>, TargetError> {
        let BackendConfig::Rbd(image) = &config.backend else { return Ok(None) };
        let failed =
            |source| TargetError::Namespace { nqn: subsystem.nqn.clone(), nsid: config.nsid, source };
        let pending = |owner| failed(BackendError::Pending { image: image.to_string(), owner });
        let is_standby = self.directives.is_standby(&subsystem.nqn, config.nsid);
        match self.opener.outcome(&self.image_of(subsystem, config).early(is_standby)) {
            Outcome::Opened(backend) => return Ok(Some(backend)),
            Outcome::Failed(error) => return Err(failed(error)),
            Outcome::Pending(_) => return Err(pending(None)),
            Outcome::Unknown => {}
        }
        match self.opener.outcome(&self.image_of(subsystem, config)) {
            Outcome::Opened(backend) => Ok(Some(backend)),
            Outcome::Failed(error) => Err(failed(error)),
            Outcome::Pending(owner) => Err(pending(owner)),
            Outcome::Unknown
                if self.absence != Absence::Refused
                    && is_opened_beside(self.directives, subsystem, config) =>
            {
                Err(pending(None))
            }
            Outcome::Unknown => match self.opener.is_busy_with(&config.backend) {
                Some(owner) => Err(pending(owner)),
                None => Ok(None),
            },
        }
    }
}

/// True if an image that may be absent is opened and locked on a thread of its own. An image whose
/// lock another gateway has is only opened.
fn is_opened_beside(directives: &Directives, subsystem: &SubsystemConfig, config: &NamespaceConfig) -> bool {
    matches!(config.backend, BackendConfig::Rbd(_)) && !directives.is_standby(&subsystem.nqn, config.nsid)
}

/// The images of a configuration that may be opened so.
pub(crate) fn open_requests(config: &FabricConfig, directives: &Directives) -> Vec<OpenRequest> {
    let of = |subsystem: &SubsystemConfig| {
        let configs = subsystem.namespaces.iter();
        let configs = configs.filter(|config| is_opened_beside(directives, subsystem, config));
        configs.map(|config| OpenRequest::of(&subsystem.nqn, config, directives.opening)).collect::<Vec<_>>()
    };
    config.subsystems.iter().flat_map(of).collect()
}

/// No file or device may be two namespaces' at a time. One that is open already would not be locked a second time.
fn check_places(wanted: &FabricConfig) -> Result<(), TargetError> {
    let mut known = HashMap::new();
    for subsystem in &wanted.subsystems {
        for namespace in &subsystem.namespaces {
            let (BackendConfig::File { path, .. } | BackendConfig::Block { path }) = &namespace.backend
            else {
                continue;
            };
            if let Some(other) = known.insert(path, namespace.nsid) {
                return Err(TargetError::Config(format!(
                    "subsystem {}: namespaces {other} and {} cannot both be {}",
                    subsystem.nqn,
                    namespace.nsid,
                    path.display()
                )));
            }
        }
    }
    Ok(())
}

/// Records the open file of each namespace with a pin that names none yet: a file that was made for it, or named first.
fn pin_files(config: &mut FabricConfig, namespaces: &[Opened]) {
    for (subsystem, opened) in config.subsystems.iter_mut().zip(namespaces) {
        for config in &mut subsystem.namespaces {
            let open = opened.get(&config.nsid).and_then(|namespace| namespace.backend.pin());
            let Some(pin) = config.file_pin.as_mut().filter(|pin| pin.file.is_none()) else { continue };
            pin.file = open.and_then(|open| open.file.clone());
        }
    }
}

/// Gives every namespace the size it is to have. Those that grow come first: they can still go back when one fails,
/// while what was cut off is gone.
fn resize_all(wanted: &FabricConfig, namespaces: &[Opened], changes: &[Change]) -> Result<(), TargetError> {
    let (mut growing, mut others) = (Vec::new(), Vec::new());
    let resized = namespaces_of(changes, |change| matches!(change, Change::NamespaceResized { .. }));
    for (subsystem, opened) in wanted.subsystems.iter().zip(namespaces) {
        for (config, namespace) in pairs(subsystem, opened) {
            let is_named = resized.contains(&(subsystem.nqn.as_str(), config.nsid));
            let blocks = config.backend.size().map(|bytes| bytes >> namespace.block_shift());
            // A file that was taken over from another namespace may have had another size there.
            if !is_named && blocks.is_none_or(|blocks| blocks == namespace.blocks()) {
                continue;
            }
            let grows = blocks.is_some_and(|blocks| blocks > namespace.blocks());
            let list = if grows { &mut growing } else { &mut others };
            list.push((&subsystem.nqn, config, namespace));
        }
    }
    let mut grown: Vec<(&Namespace, BackendConfig)> = Vec::new();
    for (nqn, config, namespace) in growing.into_iter().chain(others) {
        let mut former = config.backend.clone();
        if let BackendConfig::Memory { size }
        | BackendConfig::Null { size }
        | BackendConfig::File { size: Some(size), .. } = &mut former
        {
            *size = namespace.blocks() << namespace.block_shift();
        }
        let outcome = namespace.resize(&config.backend);
        if let Err(source) = outcome {
            for (namespace, former) in grown {
                if let Err(error) = namespace.shrink_back(&former) {
                    tracing::warn!(%error, nsid = namespace.nsid, "a namespace stays larger than it was");
                }
            }
            return Err(TargetError::Namespace { nqn: nqn.clone(), nsid: config.nsid, source });
        }
        grown.push((namespace, former));
    }
    Ok(())
}

/// The open backend of a file or device that a namespace leaves behind in this change.
fn given_up(old: &Directory, config: &NamespaceConfig, changes: &[Change]) -> Option<Arc<Backend>> {
    config.backend.path()?;
    let goes = |nqn: &str, nsid: u32| {
        changes.iter().any(|change| match change {
            Change::NamespaceRemoved { nqn: of, nsid: number }
            | Change::NamespaceReplaced { nqn: of, nsid: number } => of == nqn && *number == nsid,
            Change::SubsystemRemoved { nqn: of } | Change::SubsystemReplaced { nqn: of } => of == nqn,
            _ => false,
        })
    };
    for subsystem in &old.config.subsystems {
        for former in &subsystem.namespaces {
            let same = former.backend.is_same_place(&config.backend)
                && former.block_size <= config.block_size
                && matches!(former.backend, BackendConfig::File { .. } | BackendConfig::Block { .. });
            if same && goes(&subsystem.nqn, former.nsid) {
                let open = old.subsystems.iter().find(|open| open.nqn == subsystem.nqn)?;
                return open.state().namespaces.get(&former.nsid).map(|namespace| namespace.backend.clone());
            }
        }
    }
    None
}
