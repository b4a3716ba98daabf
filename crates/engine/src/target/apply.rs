//! Putting another configuration into effect while the target runs: everything that can fail is done first, then all
//! of it is made visible, then hosts are told. It runs on the administrator's thread, never on a reactor.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::TargetError;
use super::change::Change;
use super::clerk;
use super::config::{FabricConfig, NamespaceConfig, SubsystemConfig};
use super::controller::Controller;
use super::event::Notice;
use super::fabric::{Directory, Fabric};
use super::listener::{Listener, Listening, PortChange};
use super::mailbox::Message;
use super::namespace::Namespace;
use super::namespace_table::NamespaceTable;
use super::reservation_file::ReservationDirectory;
use super::subsystem::Subsystem;
use crate::backend::{Backend, BackendConfig};
use crate::ring::{self, thread};
use crate::transport::congestion;
use uuid::Uuid;

/// How long the caller waits for a removed namespace's last command, so that its file is free when he has his answer.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// All that had to be opened, before anything is visible.
struct Prepared {
    /// The namespaces of all wanted subsystems, in their order.
    namespaces: Vec<Vec<Arc<Namespace>>>,
    listening: Vec<Listening>,
    config: FabricConfig,
}

/// What of a subsystem is otherwise from now on.
#[derive(Default)]
struct Effects {
    /// Namespaces that hosts should look at again.
    nsids: BTreeSet<u32>,
    /// ANA groups whose descriptor changes, by their states or by their namespaces.
    groups: Vec<u32>,
    /// Those of them whose states change.
    states: Vec<u32>,
}

impl Fabric {
    /// Puts `wanted` into effect. Only one caller at a time.
    pub(super) fn apply(
        &self,
        wanted: &FabricConfig,
        listener: &Listener,
    ) -> Result<Vec<Change>, TargetError> {
        wanted.check()?;
        let old = self.directory();
        let wanted = with_services(&old.config, wanted);
        let mut changes = old.config.changes_to(&wanted);
        // Until all is visible, the clerk changes nothing that a namespace to come has read, or one to go leaves.
        let archive = self.archive();
        let prepared = prepare(&old, &wanted, &changes, archive.as_ref())?;
        changes.extend(rescan(&old, &wanted, &changes));
        let leaving = leaving(&old, &prepared.namespaces);
        let removed = removed(&leaving, &prepared.namespaces);
        let generation = old.generation + u64::from(changes.iter().any(is_in_discovery_log));
        let listening = self.commit(&old, prepared, &changes, generation);
        clerk::forget(archive.as_ref(), &removed);
        drop(archive);
        listener.change(port_change(&wanted, &changes, listening));
        let former = old.config.clone();
        drop(old);
        self.tell_hosts(&former, &changes);
        wait_for_release(&leaving);
        for change in &changes {
            tracing::info!("{change}");
        }
        Ok(changes)
    }

    /// Makes everything visible, and gives the new addresses to listen on.
    fn commit(
        &self,
        old: &Directory,
        prepared: Prepared,
        changes: &[Change],
        generation: u64,
    ) -> Vec<Listening> {
        let mut subsystems = Vec::with_capacity(prepared.config.subsystems.len());
        for (config, namespaces) in prepared.config.subsystems.iter().zip(prepared.namespaces) {
            for (namespace, config) in namespaces.iter().zip(&config.namespaces) {
                namespace.configure(config);
            }
            let kept = kept_subsystem(old, &config.nqn, changes);
            subsystems.push(match kept {
                Some(subsystem) => {
                    let groups =
                        effects_on(&config.nqn, old.config.subsystem(&config.nqn), config, changes).groups;
                    let mut state = subsystem.state_mut();
                    state.config = config.clone();
                    state.namespaces = namespaces.into_iter().map(|n| (n.nsid, n)).collect();
                    state.ana.update(&groups, config);
                    drop(state);
                    subsystem
                }
                None => Arc::new(Subsystem::new(config, namespaces)),
            });
        }
        let own_discovery = match (&old.own_discovery, &prepared.config.discovery_nqn) {
            (Some(own), Some(nqn)) if own.nqn == *nqn => Some(own.clone()),
            (_, Some(nqn)) => Some(Arc::new(Subsystem::discovery(nqn))),
            (_, None) => None,
        };
        self.publish(Directory { config: prepared.config, subsystems, own_discovery, generation });
        prepared.listening
    }

    /// Ends the controllers that have nothing here any more, and tells the others what is otherwise.
    fn tell_hosts(&self, old: &FabricConfig, changes: &[Change]) {
        let directory = self.directory();
        let discovery_changed = changes.iter().any(is_in_discovery_log);
        let mut notices = Vec::new();
        for controller in self.controllers() {
            if !may_stay(&controller, &directory) {
                tracing::info!(
                    controller = controller.id,
                    host = controller.host.nqn,
                    "a host loses its controller by a change of the configuration"
                );
                self.end_controller(&controller);
            } else if controller.subsystem.is_discovery {
                if discovery_changed {
                    notices.push((controller, Notice::DiscoveryLog));
                }
            } else {
                let news = show(&controller, old, changes);
                notices.extend(news.into_iter().map(|notice| (controller.clone(), notice)));
            }
        }
        // All queues work with what is so now before a host hears of it: it may use it that very moment.
        self.tell_reactors(|| Message::Refresh);
        for (controller, notice) in notices {
            self.notify(&controller, notice);
        }
    }
}

/// Lets a controller's host see what is there now; what it is to be told.
fn show(controller: &Controller, old: &FabricConfig, changes: &[Change]) -> Vec<Notice> {
    let subsystem = &controller.subsystem;
    let config = subsystem.state().config.clone();
    let effects = effects_on(&subsystem.nqn, old.subsystem(&subsystem.nqn), &config, changes);
    let before = controller.table();
    let after = Arc::new(subsystem.table_for(&controller.host.nqn, controller.port));
    let mut nsids = BTreeSet::from_iter(before.differences(&after));
    nsids.extend(effects.nsids.iter().filter(|nsid| after.get(**nsid).is_some()));
    // A namespace that comes or goes is told of as that, and not as a change of its group too (Base 5.1.2).
    let group_in = |table: &NamespaceTable, nsid| table.attachment(nsid).map(|attachment| attachment.group);
    let regrouped = nsids.iter().any(|nsid| {
        let groups = (group_in(&before, *nsid), group_in(&after, *nsid));
        matches!(groups, (Some(before), Some(after)) if before != after)
    });
    let restated = effects.states.iter().any(|group| after.attachments().any(|a| a.group == *group));
    controller.set_table(after);
    let mut notices = Vec::new();
    if !nsids.is_empty() {
        controller.note_changed_namespaces(&nsids);
        notices.push(Notice::Namespaces);
    }
    if regrouped || restated {
        notices.push(Notice::Ana);
    }
    notices
}

/// What becomes of the ports, where these open.
fn port_change(wanted: &FabricConfig, changes: &[Change], open: Vec<Listening>) -> PortChange {
    let mut change = PortChange { open, ..PortChange::default() };
    for of in changes {
        match of {
            Change::PortRemoved { port } => change.close.push(*port),
            Change::PortCongestionChanged { port } => {
                let config = wanted.ports.iter().find(|config| config.id == *port);
                let asked = config.and_then(|config| config.congestion.as_deref());
                change.congestion.push((*port, congestion::choice(asked).map(str::to_owned)));
            }
            _ => {}
        }
    }
    change
}

/// What carries a port that is open stays, and a congestion control that one is to have must be to be had.
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

/// Ports that want any free service and are open already keep the one they have.
fn with_services(old: &FabricConfig, wanted: &FabricConfig) -> FabricConfig {
    let mut wanted = wanted.clone();
    for port in wanted.ports.iter_mut().filter(|port| port.address.port() == 0) {
        if let Some(open) = old.ports.iter().find(|open| open.id == port.id)
            && open.address.ip() == port.address.ip()
        {
            port.address.set_port(open.address.port());
        }
    }
    wanted
}

/// The subsystem with this name, if it stays what it is.
fn kept_subsystem(old: &Directory, nqn: &str, changes: &[Change]) -> Option<Arc<Subsystem>> {
    let replaced = changes.iter().any(|c| matches!(c, Change::SubsystemReplaced { nqn: of } if of == nqn));
    let known = old.subsystems.iter().find(|subsystem| subsystem.nqn == nqn);
    known.filter(|_| !replaced).cloned()
}

/// Opens and resizes all that has to be. Until it is done nothing is visible, and after an error nothing is.
fn prepare(
    old: &Directory,
    wanted: &FabricConfig,
    changes: &[Change],
    archive: Option<&ReservationDirectory>,
) -> Result<Prepared, TargetError> {
    check_places(wanted)?;
    check_ports(&old.config, wanted, changes)?;
    let mut config = wanted.clone();
    let mut namespaces = Vec::with_capacity(wanted.subsystems.len());
    for subsystem in &wanted.subsystems {
        let kept = kept_subsystem(old, &subsystem.nqn, changes);
        let mut opened = Vec::with_capacity(subsystem.namespaces.len());
        for namespace in &subsystem.namespaces {
            opened.push(open_or_keep(old, kept.as_deref(), subsystem, namespace, changes, archive)?);
        }
        namespaces.push(opened);
    }
    let added = |id| changes.iter().any(|change| matches!(change, Change::PortAdded { port } if *port == id));
    let mut listening = Vec::new();
    for port in config.ports.iter_mut().filter(|port| added(port.id)) {
        let socket = Listening::open(port)?;
        port.address = socket.address();
        listening.push(socket);
    }
    // Last, since nothing can fail after it but itself.
    resize_all(wanted, &namespaces, changes)?;
    Ok(Prepared { namespaces, listening, config })
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

/// Gives every namespace the size it is to have. Those that grow come first: they can still go back when one fails,
/// while what was cut off is gone.
fn resize_all(
    wanted: &FabricConfig,
    namespaces: &[Vec<Arc<Namespace>>],
    changes: &[Change],
) -> Result<(), TargetError> {
    let mut growing = Vec::new();
    let mut others = Vec::new();
    for (subsystem, opened) in wanted.subsystems.iter().zip(namespaces) {
        for (config, namespace) in subsystem.namespaces.iter().zip(opened) {
            let is_named = changes.iter().any(|change| {
                matches!(change, Change::NamespaceResized { nqn, nsid }
                    if *nqn == subsystem.nqn && *nsid == config.nsid)
            });
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
                if let Err(error) = namespace.resize(&former) {
                    tracing::warn!(%error, nsid = namespace.nsid, "a namespace stays larger than it was");
                }
            }
            return Err(TargetError::Namespace { nqn: nqn.clone(), nsid: config.nsid, source });
        }
        grown.push((namespace, former));
    }
    Ok(())
}

fn open_or_keep(
    old: &Directory,
    kept: Option<&Subsystem>,
    subsystem: &SubsystemConfig,
    config: &NamespaceConfig,
    changes: &[Change],
    archive: Option<&ReservationDirectory>,
) -> Result<Arc<Namespace>, TargetError> {
    let is_this = |nqn: &str, nsid: u32| nqn == subsystem.nqn && nsid == config.nsid;
    let replaced = changes.iter().any(|change| match change {
        Change::NamespaceAdded { nqn, nsid } | Change::NamespaceReplaced { nqn, nsid } => is_this(nqn, *nsid),
        _ => false,
    });
    if let Some(kept) = kept
        && !replaced
        && let Some(namespace) = kept.state().namespaces.get(&config.nsid)
    {
        return Ok(namespace.clone());
    }
    // A file that another namespace gives up in the same change is taken over as it is open, which is good enough for
    // blocks that are no smaller than those it was opened for.
    let namespace = match given_up(old, config, changes) {
        Some(backend) => Namespace::on(&subsystem.nqn, config, backend),
        None => Namespace::open(&subsystem.nqn, config)?,
    };
    clerk::restore(archive, &subsystem.nqn, &namespace)?;
    Ok(Arc::new(namespace))
}

/// The open backend of a file or device that a namespace leaves behind in this change.
fn given_up(old: &Directory, config: &NamespaceConfig, changes: &[Change]) -> Option<Arc<Backend>> {
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

/// Looks whether devices and files whose size nobody named have another one now.
fn rescan(old: &Directory, wanted: &FabricConfig, changes: &[Change]) -> Vec<Change> {
    let mut resized = Vec::new();
    for config in &wanted.subsystems {
        let Some(subsystem) = kept_subsystem(old, &config.nqn, changes) else { continue };
        for namespace in subsystem.namespaces() {
            if namespace.rescan() {
                resized.push(Change::NamespaceResized { nqn: config.nqn.clone(), nsid: namespace.nsid });
            }
        }
    }
    resized
}

/// The namespaces that are not in the new configuration.
fn leaving(old: &Directory, staying: &[Vec<Arc<Namespace>>]) -> Vec<Weak<Namespace>> {
    let stays: HashMap<*const Namespace, ()> =
        staying.iter().flatten().map(|namespace| (Arc::as_ptr(namespace), ())).collect();
    let all = old.subsystems.iter().flat_map(|subsystem| subsystem.namespaces());
    all.filter(|namespace| !stays.contains_key(&Arc::as_ptr(namespace)))
        .map(|namespace| Arc::downgrade(&namespace))
        .collect()
}

/// The identities that leave for good, which another namespace does not have from now on.
fn removed(leaving: &[Weak<Namespace>], staying: &[Vec<Arc<Namespace>>]) -> Vec<Uuid> {
    let stays: BTreeSet<[u8; 16]> = staying.iter().flatten().map(|namespace| namespace.uuid).collect();
    let leaving = leaving.iter().filter_map(Weak::upgrade).map(|namespace| namespace.uuid);
    leaving.filter(|uuid| !stays.contains(uuid)).map(Uuid::from_bytes).collect()
}

fn wait_for_release(leaving: &[Weak<Namespace>]) {
    let deadline = ring::now().after(RELEASE_TIMEOUT);
    while leaving.iter().any(|namespace| namespace.strong_count() > 0) && ring::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
}

/// What the changes mean for one subsystem's hosts.
fn effects_on(
    nqn: &str,
    before: Option<&SubsystemConfig>,
    after: &SubsystemConfig,
    changes: &[Change],
) -> Effects {
    let mut effects = Effects::default();
    let group_of = |config: Option<&SubsystemConfig>, nsid| {
        let mut namespaces = config.into_iter().flat_map(|config| &config.namespaces);
        namespaces.find(|namespace| namespace.nsid == nsid).map(|namespace| namespace.ana_group)
    };
    for change in changes {
        match change {
            Change::NamespaceAdded { nqn: of, nsid }
            | Change::NamespaceRemoved { nqn: of, nsid }
            | Change::NamespaceReplaced { nqn: of, nsid }
                if of == nqn =>
            {
                effects.groups.extend(group_of(before, *nsid));
                effects.groups.extend(group_of(Some(after), *nsid));
            }
            Change::NamespaceResized { nqn: of, nsid } if of == nqn => {
                effects.nsids.insert(*nsid);
            }
            Change::NamespaceChanged { nqn: of, nsid, fields } if of == nqn => {
                if fields.iter().any(|field| matches!(*field, "write_protection" | "ana_group")) {
                    effects.nsids.insert(*nsid);
                }
                if fields.contains(&"ana_group") {
                    effects.groups.extend(group_of(before, *nsid));
                    effects.groups.extend(group_of(Some(after), *nsid));
                }
            }
            Change::AnaGroupChanged { nqn: of, group } if of == nqn => {
                effects.groups.push(*group);
                effects.states.push(*group);
            }
            _ => {}
        }
    }
    effects.groups.sort_unstable();
    effects.groups.dedup();
    effects
}

/// Whether hosts find something else by discovery after it.
const fn is_in_discovery_log(change: &Change) -> bool {
    matches!(
        change,
        Change::PortAdded { .. }
            | Change::PortRemoved { .. }
            | Change::PortChanged { .. }
            | Change::SubsystemAdded { .. }
            | Change::SubsystemRemoved { .. }
            | Change::AccessChanged { .. }
            | Change::ReferralsChanged
            | Change::DiscoveryNqnChanged
    )
}

/// Whether the controller's subsystem, its host's right to it, and the port it came by are still there.
fn may_stay(controller: &Controller, directory: &Directory) -> bool {
    let subsystem = &controller.subsystem;
    let Some(port) = directory.port(controller.port) else { return false };
    if subsystem.is_discovery {
        return true;
    }
    let is_there = directory.subsystems.iter().any(|known| Arc::ptr_eq(known, subsystem));
    is_there && subsystem.allows(&controller.host.nqn) && subsystem.is_on(port)
}
