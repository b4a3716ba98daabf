//! The one owner of what is served: checks, applies and stores one change after the other. None may shrink a namespace in passing.

use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, SystemTime};

use engine::backend::{BackendConfig, BackendError, RbdConfig};
use engine::ceph::Cluster;
use engine::ring::Vital;
use engine::target::{
    Change, EarlyImages, FabricConfig, KeyKind, KnownHost, Metrics, NamespaceConfig, ReservationStatus,
    SealedSecret, SlowCommandLog, SubsystemConfig, Target, TargetError, TargetStatus, WriteProtection,
};
use private_folder::Replacement;
use serde_json::Value;
use topology::Machine;

use super::absent_images;
use super::audit::AuditLog;
use super::config_store::ConfigStore;
use super::difference;
use super::live::examiner::Examiner;
use super::live::hub::SharedHub;
use super::live::packet_paths::PacketPaths;
use super::refusal::Refusal;
use super::sweeps::SweepBoard;
use super::tasks::Tasks;
use super::write_hold::{OwnHold, WriteHold};
use crate::confinement::Confinement;
use crate::spec::size::Size;
use crate::state::StateFile;
use gateway::Membership;

/// The target with everything that its API shows, and the store of its configuration.
#[derive(Debug)]
pub struct Administration {
    target: Arc<Target>,
    /// Store of the configuration. The holder of the lock may change what is served.
    store: Mutex<ConfigStore>,
    /// Locked for writing by a hand-over, for reading by changes that do not wait for long ones.
    handing_over: RwLock<()>,
    /// Set once another process serves in place of this one, which makes all further changes.
    has_left: AtomicBool,
    /// Long tasks. They change nothing that is served, and need no lock of these.
    tasks: Tasks,
    /// The gateway that this target is, if it is one.
    membership: Option<Arc<Membership>>,
    /// Audit log of changes.
    audit: AuditLog,
    /// Rights that the process has given up.
    confinement: Confinement,
    /// Viewers of the live page.
    live: SharedHub,
    /// Findings about the target.
    examiner: Examiner,
    /// Sweeps that are published here.
    sweeps: SweepBoard,
    /// Packet paths of the target's connections.
    packet_paths: PacketPaths,
}

/// Permissions that a request for a change gives with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Namespaces may become smaller, and lose what is beyond their new end.
    pub shrink: bool,
    /// Files of secrets have others in them, and for this time those that these replace are still accepted.
    pub(crate) new_secrets: Option<Duration>,
    /// Files of secrets are read again here, as they may have changed. Other changes do not fail for a file of another subsystem.
    pub(crate) rereads_secrets: bool,
}

/// Result of a change.
#[derive(Debug, Default)]
pub struct Made {
    pub changes: Vec<Change>,
    /// The same with what was before and after, for the audit log, if one is kept.
    pub(super) record: Vec<Value>,
}

impl Administration {
    /// Administers `target`. With a state file, what is served now is kept from here on.
    pub fn new(target: Arc<Target>, state: Option<StateFile>) -> io::Result<Self> {
        if let Some(state) = &state
            && let Err(error) = state.write(&target.config())
        {
            // What is served is known without it. A change has to be kept, and is refused until it can be.
            if !matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
                return Err(error);
            }
            tracing::warn!(
                "the state cannot be written ({error}); hosts are served, and changes are refused until there is space"
            );
        }
        let store = state.map_or(ConfigStore::Nowhere, ConfigStore::File);
        Ok(Self::with(target, store, None))
    }

    /// Administers a gateway's target: what is changed is changed for all gateways of its group.
    pub fn of_gateway(target: Arc<Target>, membership: Arc<Membership>) -> Self {
        Self::with(target, ConfigStore::Group(membership.clone()), Some(membership))
    }

    fn with(target: Arc<Target>, store: ConfigStore, membership: Option<Arc<Membership>>) -> Self {
        let (audit, confinement) = (AuditLog::none(), Confinement::none());
        let (store, tasks) = (Mutex::new(store), Tasks::default());
        let (live, examiner) = (SharedHub::default(), Examiner::default());
        Self {
            target,
            store,
            handing_over: RwLock::new(()),
            has_left: AtomicBool::new(false),
            tasks,
            membership,
            audit,
            confinement,
            live,
            examiner,
            sweeps: SweepBoard::default(),
            packet_paths: PacketPaths::on(Machine::live()),
        }
    }

    /// The same, with a record of who has changed what.
    #[must_use]
    pub fn audited(self, audit: AuditLog) -> Self {
        Self { audit, ..self }
    }

    /// Lets nothing be changed, and no controller be ended, as long as the guard is there.
    pub fn hold_still(&self) -> impl Sized + '_ {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        (store, self.handing_over.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Leaves all further changes to another process, also those that wait for the guard of [`Self::hold_still`].
    pub fn leave(&self) {
        self.has_left.store(true, Ordering::Release);
    }

    pub const fn audit(&self) -> &AuditLog {
        &self.audit
    }

    /// The same in a process that has given this up.
    #[must_use]
    pub fn confined(self, confinement: Confinement) -> Self {
        Self { confinement, ..self }
    }

    /// The same on this machine, which may be one that knows what the process has given up to ask.
    #[must_use]
    pub fn on_machine(self, machine: Machine) -> Self {
        Self { packet_paths: PacketPaths::on(machine), ..self }
    }

    /// Rights that the process has given up.
    pub(super) const fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    /// A secret as a configuration may have it; nothing where the target has no key to seal it with.
    pub(super) fn seal(&self, secret: &str, kind: KeyKind, nqn: &str, host: &str) -> Option<SealedSecret> {
        self.target.seal(secret, kind, nqn, host)
    }

    /// A connection to an image's cluster that the target has already.
    pub(super) fn image_connection(&self, image: &RbdConfig) -> Option<Arc<Cluster>> {
        self.target.image_connection(image)
    }

    /// Begins to open the image of a namespace that is to come to the subsystem of this name, before anybody waits for the change.
    pub(super) fn open_early(&self, nqn: &str, namespace: &NamespaceConfig) -> Option<EarlyImages> {
        match &self.membership {
            Some(membership) => membership.open_one_early(nqn, namespace),
            None => {
                let opening = (self.target.directives().opening, false);
                Some(self.target.open_one_early(nqn, namespace, opening))
            }
        }
    }

    /// The gateway that this target is, if it is one.
    pub fn membership(&self) -> Option<&Membership> {
        self.membership.as_deref()
    }

    /// Configuration that is served now.
    pub fn fabric(&self) -> FabricConfig {
        match &self.membership {
            Some(membership) => membership.fabric_shown(),
            None => self.target.config(),
        }
    }

    /// The same, with the UUIDs by which hosts know the namespaces that are there.
    pub fn shown(&self) -> FabricConfig {
        self.fabric().with_identities(&self.target.namespace_identities())
    }

    /// Time at which the target started.
    pub fn started(&self) -> SystemTime {
        self.target.started()
    }

    /// Connected hosts, ports and namespaces.
    pub fn status(&self) -> TargetStatus {
        absent_images::in_status(self.target.status(), self.membership())
    }

    /// Commands that took long.
    pub(super) fn slow_commands(&self) -> SlowCommandLog {
        self.target.slow_commands()
    }

    /// Commands that take so long are kept from now on; none are without a time.
    pub(super) fn keep_slow_commands(&self, threshold: Option<Duration>) {
        self.target.keep_slow_commands(threshold);
    }

    /// Counters of the target.
    pub fn metrics(&self) -> Metrics {
        absent_images::in_metrics(self.target.metrics(), self.membership())
    }

    pub(super) const fn live(&self) -> &SharedHub {
        &self.live
    }

    pub(super) const fn examiner(&self) -> &Examiner {
        &self.examiner
    }

    /// Packet paths of the target's connections.
    pub(super) const fn packet_paths(&self) -> &PacketPaths {
        &self.packet_paths
    }

    pub(super) const fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Sweeps that tell how far they are.
    pub(super) const fn sweeps(&self) -> &SweepBoard {
        &self.sweeps
    }

    /// Reopens a namespace that has failed. The configuration stays as it is.
    pub(crate) fn reopen(&self, nqn: &str, nsid: u32) -> Result<(), Refusal> {
        let _guard = self.lock()?;
        Ok(self.target.reopen(nqn, nsid)?)
    }

    /// Extends namespaces whose file or device has grown. Returns true if there was one.
    ///
    /// # Errors
    /// When the change cannot be carried out.
    pub(crate) fn notice_growth(&self) -> Result<bool, TargetError> {
        // A file system may take long to answer, and nothing has to wait for that.
        if !self.target.has_grown() {
            return Ok(false);
        }
        // A change as any other: not while another one is made, nor while the target is handed over.
        let Ok(_guard) = self.lock() else { return Ok(false) };
        self.target.notice_growth()
    }

    /// The registrations of a namespace, if it is available here.
    pub(crate) fn reservations(&self, nqn: &str, nsid: u32) -> Option<ReservationStatus> {
        self.target.reservations(nqn, nsid)
    }

    /// Clears the registrations of a namespace, or those of one host; the hosts that had one.
    pub(crate) fn clear_reservations(
        &self,
        nqn: &str,
        nsid: u32,
        host: Option<&str>,
    ) -> Result<Vec<String>, Refusal> {
        let _guard = self.lock()?;
        let cleared = self.target.clear_reservations(nqn, nsid, host)?;
        tracing::info!(subsystem = nqn, nsid, hosts = ?cleared, "Cleared registrations of a namespace by an operator's order");
        Ok(cleared)
    }

    /// Ends a controller, unless another process has it; true if there was one.
    pub(crate) fn reset_controller(&self, cntlid: u16) -> Result<bool, Refusal> {
        // Before the wait: after a hand-over that fails, a new controller may have the identifier.
        let instance = self.target.controller_instance(cntlid);
        let _stays = self.stay()?;
        Ok(instance.is_some_and(|instance| self.target.reset_instance(instance)))
    }

    /// Lets no write to these namespaces begin that is asked for from now on, at any gateway of the group.
    pub(super) fn hold_writes(&self, namespaces: &[(String, u32)]) -> Result<WriteHold<'_>, Refusal> {
        self.check_serves()?;
        if let Some(membership) = &self.membership {
            return Ok(WriteHold::Group(membership.hold_writes(namespaces)?));
        }
        // While this exists, no new process takes over, and no namespace is reopened.
        let store = self.lock()?;
        Ok(WriteHold::Own(OwnHold::take(store, &self.target, namespaces)?))
    }

    /// Changes that `edit` would make, without making them.
    pub(crate) fn rehearse(
        &self,
        permissions: Permissions,
        edit: impl FnOnce(&mut FabricConfig) -> Result<(), Refusal>,
    ) -> Result<Vec<Change>, Refusal> {
        let before = self.fabric();
        let mut wanted = before.clone();
        edit(&mut wanted)?;
        wanted.subsystems.iter_mut().for_each(SubsystemConfig::forget_kept);
        check(&before, &wanted, permissions)?;
        if self.membership.is_some() {
            wanted.check_shared()?;
        } else {
            wanted.check()?;
        }
        // To say which UUID a namespace has does not change it.
        let before = before.with_identities(&self.target.namespace_identities());
        Ok(before.changes_to(&wanted.recognized(&before)))
    }

    /// Changes what is served as `edit` says, and keeps it. Nothing is changed by an error.
    pub fn change<T>(
        &self,
        permissions: Permissions,
        edit: impl FnOnce(&mut FabricConfig) -> Result<T, Refusal>,
    ) -> Result<(T, Made), Refusal> {
        self.make(permissions, None, edit)
    }

    /// The same for a host, unless another host has reserved a namespace that it changes. From the moment at which `edit` sees the
    /// configuration until the change is in effect, there is no other change.
    pub(super) fn change_for<T>(
        &self,
        host: &KnownHost,
        edit: impl FnOnce(&mut FabricConfig) -> Result<T, Refusal>,
    ) -> Result<(T, Made), Refusal> {
        self.make(Permissions::default(), Some(host), edit)
    }

    fn make<T>(
        &self,
        permissions: Permissions,
        host: Option<&KnownHost>,
        edit: impl FnOnce(&mut FabricConfig) -> Result<T, Refusal>,
    ) -> Result<(T, Made), Refusal> {
        let store = self.lock()?;
        if let ConfigStore::Group(membership) = &*store {
            return self.change_all(membership, permissions, host, edit);
        }
        let state = match &*store {
            ConfigStore::File(state) => Some(state),
            _ => None,
        };
        let overlap = permissions.new_secrets.unwrap_or_default();
        let rereads = permissions.rereads_secrets || permissions.new_secrets.is_some();
        let before = self.fabric();
        let mut wanted = before.clone();
        let outcome = edit(&mut wanted)?;
        wanted.subsystems.iter_mut().for_each(SubsystemConfig::forget_kept);
        let apply = |wanted: &FabricConfig| match host {
            Some(host) => self.target.apply_for(wanted, host),
            None if rereads => self.target.replace_secrets(wanted, overlap),
            None => self.target.apply_directed(wanted, &self.target.directives(), overlap),
        };
        if wanted == before {
            // A device may have another size than when it was last looked at.
            let changes = apply(&wanted)?;
            return Ok((outcome, self.made(changes, &before, &wanted)));
        }
        check(&before, &wanted, permissions)?;
        wanted.check()?;
        // What ends in the middle is neither the one nor the other configuration; a process that is started again is one.
        let _vital = Vital::begin();
        // The state is written first and counts last: a full disk is found out before anything is in effect, and
        // after a power failure in between, the next process finds the state from before.
        let prepared = match state {
            Some(state) => Some(state.prepare(&wanted).map_err(|error| Refusal::not_kept(&error))?),
            None => None,
        };
        let changes = apply(&wanted).map_err(|error| self.refused(error))?;
        let kept = self.keep(state, prepared, &wanted);
        if let Err(error) = kept {
            tracing::error!(%error, "cannot write the state; reverted to the previous configuration");
            if let Err(error) = self.target.apply(&before) {
                tracing::error!(%error, "cannot revert to the previous configuration");
            }
            // The file may be the new one already, where only the last step failed.
            if let Some(Err(error)) = state.map(|state| state.write(&before)) {
                tracing::error!(%error, "the state file may contain the refused configuration; check it before a restart");
            }
            return Err(Refusal::not_kept(&error));
        }
        for change in &changes {
            tracing::info!(%change, "the configuration changed");
        }
        Ok((outcome, self.made(changes, &before, &wanted)))
    }

    /// Changes what all gateways of a group serve.
    fn change_all<T>(
        &self,
        membership: &Membership,
        permissions: Permissions,
        host: Option<&KnownHost>,
        edit: impl FnOnce(&mut FabricConfig) -> Result<T, Refusal>,
    ) -> Result<(T, Made), Refusal> {
        // Before the turn: it waits for the group's cluster.
        membership.catch_up();
        let turn = membership.serving_guard();
        let before = membership.fabric(&turn);
        let mut wanted = before.clone();
        let outcome = edit(&mut wanted)?;
        wanted.subsystems.iter_mut().for_each(SubsystemConfig::forget_kept);
        if wanted == before && permissions.new_secrets.is_none() {
            return Ok((outcome, Made::default()));
        }
        check(&before, &wanted, permissions)?;
        wanted.check_shared()?;
        let early = membership.open_early(&turn, &wanted)?;
        // Who has the turn keeps the gateway from all else, and a cluster may take long to open an image.
        drop(turn);
        membership.await_images(&early)?;
        let turn = membership.serving_guard();
        if membership.fabric(&turn) != before {
            return Err(Refusal::changed().hint("look at it, and ask again"));
        }
        host.map(|host| self.target.check_reserved(&wanted, host)).transpose()?;
        let changes = membership.put(&turn, &wanted, permissions.new_secrets)?;
        for change in &changes {
            tracing::info!(%change, "the configuration changed");
        }
        Ok((outcome, self.made(changes, &before, &wanted)))
    }

    fn made(&self, changes: Vec<Change>, before: &FabricConfig, after: &FabricConfig) -> Made {
        let is_kept = self.audit.is_kept();
        let record = if is_kept { difference::recorded(&changes, before, after) } else { Vec::new() };
        Made { changes, record }
    }

    fn keep(
        &self,
        state: Option<&StateFile>,
        prepared: Option<Replacement<'_>>,
        wanted: &FabricConfig,
    ) -> io::Result<()> {
        let (Some(state), Some(prepared)) = (state, prepared) else { return Ok(()) };
        let served = self.fabric();
        // A free service that was asked for has become a real one, and hosts will look for that one.
        if served == *wanted {
            Ok(prepared.commit()?)
        } else {
            drop(prepared);
            state.write(&served)
        }
    }

    /// Why the target refuses a change. What the kernel refuses is not to be found in a file's mode.
    fn refused(&self, error: TargetError) -> Refusal {
        let is_denied = matches!(
            &error,
            TargetError::Namespace { source: BackendError::Open { source, .. }, .. }
                if source.kind() == ErrorKind::PermissionDenied
        );
        let refusal = Refusal::from(error);
        if !is_denied || !self.confinement.has_paths {
            return refusal;
        }
        refusal.hint(
            "the target opens only what was listed when it started, by [storage] of its access file or --confine-to; add the \
             folder there, and start it again",
        )
    }

    /// Lock for a change, or the reason why none is made here from now on.
    fn lock(&self) -> Result<MutexGuard<'_, ConfigStore>, Refusal> {
        // What panicked here had changed nothing yet, or has ended the process.
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_serves().map(|()| store)
    }

    /// Guard that keeps the target in this process, for a change that is over at once.
    pub(super) fn stay(&self) -> Result<RwLockReadGuard<'_, ()>, Refusal> {
        let guard = self.handing_over.read().unwrap_or_else(PoisonError::into_inner);
        self.check_serves().map(|()| guard)
    }

    /// Refuses a change once another process makes all changes.
    pub(super) fn check_serves(&self) -> Result<(), Refusal> {
        if self.has_left.load(Ordering::Acquire) { Err(Refusal::served_elsewhere()) } else { Ok(()) }
    }
}

/// Refuses the change from `before` to `wanted` if it does what it may not.
fn check(before: &FabricConfig, wanted: &FabricConfig, permissions: Permissions) -> Result<(), Refusal> {
    if wanted.ports.is_empty() {
        let refusal = Refusal::conflict("no address would be left to listen on").about("ports");
        return Err(refusal.hint("add another port first"));
    }
    if let Some(text) = wanted.former_texts_beside(before).first() {
        return Err(Refusal::unprocessable(text.reason()).about(&text.path));
    }
    for (at, subsystem) in wanted.subsystems.iter().enumerate() {
        let Some(old) = before.subsystem(&subsystem.nqn).map(SubsystemConfig::by_nsid) else { continue };
        for (number, namespace) in subsystem.namespaces.iter().enumerate() {
            let old = old.get(&namespace.nsid).filter(|old| old.backend.is_same_place(&namespace.backend));
            let Some(old) = old else { continue };
            let field = |name: &str| format!("subsystems[{at}].namespaces[{number}].{name}");
            check_namespace(old, namespace, permissions, field)?;
        }
    }
    Ok(())
}

fn check_namespace(
    old: &NamespaceConfig,
    new: &NamespaceConfig,
    permissions: Permissions,
    field: impl Fn(&str) -> String,
) -> Result<(), Refusal> {
    if let (Some(before), Some(after)) = (bytes(&old.backend), bytes(&new.backend))
        && after < before
        && !permissions.shrink
    {
        let (before, after) = (Size(before), Size(after));
        let what = format!("namespace {} would become smaller: {before} to {after}", new.nsid);
        let hint = "data beyond its new end is lost; if that is intended, set \"shrink\": true";
        return Err(Refusal::conflict(what).about(field("size")).hint(hint));
    }
    if old.write_protection == WriteProtection::Permanent
        && new.write_protection != WriteProtection::Permanent
    {
        let what = format!("namespace {} is protected against writes forever", new.nsid);
        return Err(Refusal::conflict(what).about(field("write_protection")));
    }
    Ok(())
}

/// Bytes of a backend, as far as they are known before it is opened.
fn bytes(backend: &BackendConfig) -> Option<u64> {
    match backend {
        BackendConfig::Memory { size } | BackendConfig::Null { size } => Some(*size),
        BackendConfig::File { size: Some(size), .. } => Some(*size),
        BackendConfig::File { path, size: None } => std::fs::metadata(path).ok().map(|file| file.size()),
        BackendConfig::Block { .. } | BackendConfig::Rbd(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use engine::target::PortConfig;

    use super::*;

    fn fabric(size: u64, write_protection: WriteProtection) -> FabricConfig {
        let namespace = NamespaceConfig {
            write_protection,
            ..NamespaceConfig::new(1, BackendConfig::Memory { size }, 4096)
        };
        let subsystem = SubsystemConfig::new("nqn.test:a", "A", "Selvedge").with(vec![namespace]);
        let ports = vec![PortConfig::new(1, ([127, 0, 0, 1], 4420).into())];
        FabricConfig { ports, subsystems: vec![subsystem], ..FabricConfig::default() }
    }

    #[test]
    fn a_namespace_becomes_smaller_only_on_purpose() {
        let (large, small) = (fabric(2 << 20, WriteProtection::None), fabric(1 << 20, WriteProtection::None));
        let refusal = check(&large, &small, Permissions::default()).unwrap_err();
        let found = (refusal.status, refusal.field.as_deref());
        assert_eq!(found, (409, Some("subsystems[0].namespaces[0].size")));
        assert_eq!(check(&large, &small, Permissions { shrink: true, ..Permissions::default() }), Ok(()));
        assert_eq!(check(&small, &large, Permissions::default()), Ok(()));
    }

    #[test]
    fn a_port_is_left() {
        let fabric = fabric(1 << 20, WriteProtection::None);
        let deaf = FabricConfig { ports: Vec::new(), ..fabric.clone() };
        assert_eq!(check(&fabric, &deaf, Permissions::default()).unwrap_err().status, 409);
    }

    #[test]
    fn permanent_protection_stays() {
        let permanent = fabric(1 << 20, WriteProtection::Permanent);
        let shrink = Permissions { shrink: true, ..Permissions::default() };
        for less in [WriteProtection::None, WriteProtection::On, WriteProtection::UntilRestart] {
            assert!(check(&permanent, &fabric(1 << 20, less), shrink).is_err());
            assert_eq!(check(&fabric(1 << 20, less), &permanent, Permissions::default()), Ok(()));
        }
        let gone = FabricConfig { subsystems: Vec::new(), ..permanent.clone() };
        assert_eq!(check(&permanent, &gone, Permissions::default()), Ok(()));
    }
}
