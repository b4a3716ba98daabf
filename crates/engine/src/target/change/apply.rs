//! Putting another configuration into effect while the target runs: everything that can fail is done first, then all
//! of it is made visible, then hosts are notified. In another order a change that fails half-way would have to be undone
//! under the eyes of hosts, or a host would act on a notification and find the old state. It runs on the
//! administrator's thread, never on a reactor.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use uuid::Uuid;

use super::change_request::ChangeRequest;
use super::preparation::{Preparation, Prepared, Reopened, coming, kept_subsystem, open_requests, pairs};
use super::standby;
use crate::backend::{self, BackendConfig};
use crate::ring::{self, thread};
use crate::target::TargetError;
use crate::target::config::{
    BLOCK_SIZE_DEFAULT, Change, Directives, FabricConfig, KnownHost, NamespaceConfig, RESERVATIONS,
    SubsystemConfig, TlsUse,
};
use crate::target::controller::{Controller, Notice};
use crate::target::fabric::{Directory, Fabric};
use crate::target::identity::NamespaceIdentities;
use crate::target::image::OpenRequest;
use crate::target::messaging::{Fenced, Loss, Message, Then};
use crate::target::reactor::{Listener, Listening, PortChange};
use crate::target::reservation::{Abandoned, Access, HostDigest};
use crate::target::reservation_worker;
use crate::target::served::{Namespace, NamespaceTable, Opened, Subsystem};

/// Gives a namespace the size of its blocks where none was said. That of a device which is not there is still to be found out.
fn settle_block_size(namespace: &mut NamespaceConfig) {
    namespace.default_block_size();
    if let (0, Some(path)) = (namespace.block_size, namespace.backend.path()) {
        namespace.block_size = match backend::sector_bytes(path) {
            Ok(..=512) => 512,
            // Where they are larger than any block, opening it says so.
            Ok(_) => BLOCK_SIZE_DEFAULT,
            Err(_) => 0,
        };
    }
}

/// Time for which the caller waits for a removed namespace's last command, after which its file is
/// normally free.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Effects of changes on one subsystem's hosts.
#[derive(Default)]
struct Effects {
    /// Namespaces that hosts should look at again.
    nsids: BTreeSet<u32>,
    /// ANA groups whose descriptor changes, by their states or by their namespaces.
    groups: Vec<u32>,
    /// ANA groups whose states change.
    states: Vec<u32>,
}

impl Fabric {
    /// Carries out a request. Only its configurator calls this, one request after the other.
    pub(super) fn apply(
        &self,
        request: &ChangeRequest<'_>,
        listener: &Listener,
    ) -> Result<Vec<Change>, TargetError> {
        let ChangeRequest { absence, reconnected, host, .. } = *request;
        let old = self.directory();
        let wanted = request.wanted.unwrap_or(&old.config);
        let directives = request.directives.unwrap_or(&old.directives).clone();
        directives.check(wanted)?;
        // Before anything is locked: it waits for commands from before the failure.
        let reopened = request.reopen.map(|(nqn, nsid)| self.reopen(nqn, nsid)).transpose()?;
        let wanted = self.complete(&old.config, wanted);
        let mut changes = self.changes(&old, &wanted, &directives);
        changes.extend(replacements(reconnected, reopened.as_ref()));
        // Locked until all is visible: the reservation worker could change what was checked, or read.
        let archive = self.archive();
        host.map(|host| check_reservations(&old, &changes, host)).transpose()?;
        let preparation = Preparation {
            old: &old,
            wanted: &wanted,
            directives: &directives,
            changes: &changes,
            coming: &coming(&changes),
            archive: archive.as_ref(),
            clusters: self.clusters(),
            identities: self.identities(),
            opener: self.opener(),
            request,
            reopened: reopened.as_ref(),
            absent: &self.absent(),
            absence,
            may_disks_be_absent: self.may_disks_be_absent(),
            sealing_key: self.sealing_key.as_deref(),
            inherited: self.inherited(),
        };
        let prepared = preparation.prepare();
        // Before the error is returned: hosts of a namespace that failed while it was resized learn of it in any case.
        old.subsystems.iter().flat_map(|s| s.namespaces()).for_each(|n| self.note_failure(&n));
        let prepared = prepared?;
        changes.extend(rescan(&old, &wanted, &changes));
        // Both before `commit`, which replaces the namespaces of the subsystems that stay: afterwards `old` has the new ones.
        let leaving = leaving(&old, &prepared.namespaces);
        let removed = removed(&old, &prepared);
        let images = prepared.namespaces.clone();
        let listening = self.commit(&old, prepared, (&directives, request.overlap), &changes);
        reservation_worker::forget(archive.as_ref(), &removed);
        reservation_worker::drop_denied(self, archive.as_ref(), &old.config, &changes);
        forget_shared(&leaving, &directives);
        drop(archive);
        // Only after the change has succeeded: after one that fails, the images of the old configuration are still wanted.
        self.opener().keep(&open_requests(&wanted, &directives));
        // The sockets listen since `prepare`, but are accepted from only now: a host that connected before `commit` would be
        // refused, since its port and subsystem were not there.
        listener.change(port_change(&wanted, &changes, listening));
        let former = old.config.clone();
        // It keeps removed subsystems and their namespaces alive, whose release is awaited below.
        drop(old);
        self.tell_hosts(&former, &changes);
        // After hosts know the new ANA states: a write to an image without its lock fails, where another gateway could do it.
        standby::give_back(&standby::handovers((&wanted, &directives), &images, &changes));
        drop(images);
        standby::give_back_early(self.opener(), &directives, &changes);
        self.trim_resized(&changes);
        // Last, since it may take until its timeout, and no host should have to wait for that.
        wait_for_release(&leaving);
        self.give_up_lost(!reconnected.is_empty());
        changes.iter().for_each(|change| tracing::info!("{change}"));
        Ok(changes)
    }

    /// Ends the commands on images whose connections to a cluster were replaced: the old connections
    /// do not carry them out, and they may be repeated.
    fn give_up_lost(&self, has_reconnected: bool) {
        if has_reconnected {
            self.tell_reactors(|| Message::GiveUp(Loss::ShutOut));
        }
    }

    /// Checks that a host may have this configuration: no namespace that changes is reserved by
    /// another host.
    pub(crate) fn check_reserved(&self, wanted: &FabricConfig, host: &KnownHost) -> Result<(), TargetError> {
        let old = self.directory();
        let wanted = self.complete(&old.config, wanted);
        check_reservations(&old, &self.changes(&old, &wanted, &old.directives), host)
    }

    /// `wanted` with all that it leaves to the target but free services, which are found when they are opened.
    pub(super) fn complete(&self, old: &FabricConfig, wanted: &FabricConfig) -> FabricConfig {
        let mut wanted = wanted.clone().settled(old);
        for subsystem in &mut wanted.subsystems {
            if subsystem.serial.is_empty() {
                subsystem.serial = self.identities().serial(subsystem);
            }
            // In each way in which a namespace is made it comes by here.
            subsystem.namespaces.iter_mut().for_each(settle_block_size);
        }
        wanted
    }

    /// Changes from the configuration in effect to `wanted`. Naming the UUID that a namespace has
    /// already is not a change.
    pub(super) fn changes(
        &self,
        directory: &Directory,
        wanted: &FabricConfig,
        directives: &Directives,
    ) -> Vec<Change> {
        let old = directory.config.clone().with_identities(&self.namespace_identities());
        let wanted = wanted.clone().recognized(&old);
        let mut changes = old.changes_to(&wanted);
        directory.directives.changes_to(directives, &old, &wanted, &mut changes);
        changes
    }

    /// The UUIDs of all namespaces that are there.
    pub(crate) fn namespace_identities(&self) -> NamespaceIdentities {
        let directory = self.directory();
        let of = |subsystem: &Arc<Subsystem>| {
            let identity = |namespace: Arc<Namespace>| {
                ((subsystem.nqn.clone(), namespace.nsid), Uuid::from_bytes(namespace.uuid))
            };
            subsystem.namespaces().into_iter().map(identity).collect::<Vec<_>>()
        };
        directory.subsystems.iter().flat_map(of).collect()
    }

    /// Truncates files again that became shorter, once no write is under way that began when they were longer. The new size is
    /// visible already, so that no such write begins after the fence has been passed.
    fn trim_resized(&self, changes: &[Change]) {
        for change in changes {
            let Change::NamespaceResized { nqn, nsid } = change else { continue };
            let directory = self.directory();
            let mut subsystems = directory.subsystems.iter().filter(|subsystem| subsystem.nqn == *nqn);
            let namespace = subsystems.find_map(|subsystem| subsystem.state().namespaces.get(nsid).cloned());
            let Some(namespace) = namespace else { continue };
            let has_passed = Arc::new(AtomicBool::new(false));
            let passed = has_passed.clone();
            let tell = move || passed.store(true, Ordering::Release);
            self.mailboxes().raise(Fenced::Beyond(namespace.clone()), Then::Tell(Box::new(tell)));
            let deadline = ring::now().after(RELEASE_TIMEOUT);
            while !has_passed.load(Ordering::Acquire) && ring::now() < deadline {
                thread::sleep(Duration::from_millis(1));
            }
            if let Err(error) = namespace.trim() {
                tracing::warn!(%error, nsid, "the file may be longer than its namespace, since writes were under way");
            } else if !has_passed.load(Ordering::Acquire) {
                tracing::warn!(
                    nsid,
                    "writes behind the new end take long: the file may become longer than its namespace"
                );
            }
        }
    }

    /// Makes everything visible, and gives the new addresses to listen on.
    fn commit(
        &self,
        old: &Directory,
        prepared: Prepared,
        (directives, overlap): (&Directives, Duration),
        changes: &[Change],
    ) -> Vec<Listening> {
        let generation = old.generation + u64::from(changes.iter().any(is_in_discovery_log));
        self.tell_of_arrivals(&prepared);
        // Nothing fails from here on. Before hosts can write: files that were made for what fails are removed.
        prepared.namespaces.iter().flat_map(Opened::values).for_each(|namespace| namespace.backend.keep());
        let mut subsystems = Vec::with_capacity(prepared.config.subsystems.len());
        let opened = prepared.namespaces.into_iter().zip(prepared.keys);
        for (config, (namespaces, keys)) in prepared.config.subsystems.iter().zip(opened) {
            for (config, namespace) in pairs(config, &namespaces) {
                namespace.configure(config);
            }
            for namespace in namespaces.values() {
                namespace.was_added_by(directives.added(&config.nqn, namespace.nsid));
            }
            let kept = kept_subsystem(old, &config.nqn, changes);
            subsystems.push(match kept {
                Some(subsystem) => {
                    let groups =
                        effects_on(&config.nqn, old.config.subsystem(&config.nqn), config, changes).groups;
                    // Under one lock: readers of the subsystem find the namespaces and ANA groups
                    // of one configuration.
                    let mut state = subsystem.state_mut();
                    subsystem.quiesce.configure(config);
                    state.reconfigure(config, namespaces);
                    state.ana.update(&groups, config);
                    state.keys = state.keys.succeeded_by(keys, overlap, ring::now());
                    drop(state);
                    subsystem
                }
                None => Arc::new(Subsystem::new(config, namespaces, keys)),
            });
        }
        let own_discovery = match (&old.own_discovery, &prepared.config.discovery_nqn) {
            (Some(own), Some(nqn)) if own.nqn == *nqn => Some(own.clone()),
            (_, Some(nqn)) => Some(Arc::new(Subsystem::discovery(nqn))),
            (_, None) => None,
        };
        self.note_absent(prepared.absent);
        // Last, in one step: a host that connects from now on finds every subsystem complete.
        let config = (prepared.config, directives.clone());
        self.publish(Directory::new(config, subsystems, own_discovery, generation));
        prepared.listening
    }

    /// Says which namespaces were absent and are there now.
    fn tell_of_arrivals(&self, prepared: &Prepared) {
        for before in self.absent() {
            let mut subsystems = prepared.config.subsystems.iter().zip(&prepared.namespaces);
            let is_here = |(known, opened): (&SubsystemConfig, &Opened)| {
                known.nqn == before.nqn && opened.contains_key(&before.nsid)
            };
            if subsystems.any(is_here) {
                tracing::info!(
                    subsystem = before.nqn,
                    nsid = before.nsid,
                    "a namespace is available that was not"
                );
            }
        }
    }

    /// Ends the controllers that no longer have anything here, and notifies the others of what has changed.
    fn tell_hosts(&self, old: &FabricConfig, changes: &[Change]) {
        let directory = self.directory();
        let discovery_changed = changes.iter().any(is_in_discovery_log);
        let mut notices = Vec::new();
        // Computed once for all hosts of a subsystem.
        let mut effects: HashMap<*const Subsystem, Effects> = HashMap::new();
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
                let subsystem = &controller.subsystem;
                let effects = effects.entry(Arc::as_ptr(subsystem)).or_insert_with(|| {
                    let before = old.subsystem(&subsystem.nqn);
                    effects_on(&subsystem.nqn, before, &subsystem.state().config, changes)
                });
                let news = show(&controller, effects);
                notices.extend(news.into_iter().map(|notice| (controller.clone(), notice)));
            }
        }
        // Queues learn of the new namespaces before hosts are notified: messages to a reactor are read in order, so a command
        // that a host sends because of its event never meets the old table.
        self.tell_reactors(|| Message::Refresh);
        for (controller, notice) in notices {
            self.notify(&controller, notice);
        }
    }
}

/// Sees that a host changes no namespace that it may not write to since another has reserved it: to take it away, to hide it
/// and to protect it are no less than a write.
fn check_reservations(old: &Directory, changes: &[Change], host: &KnownHost) -> Result<(), TargetError> {
    let digest = HostDigest::of(&host.nqn, host.host_id.as_bytes());
    for change in changes {
        let (Change::NamespaceRemoved { nqn, nsid }
        | Change::NamespaceReplaced { nqn, nsid }
        | Change::NamespaceResized { nqn, nsid }
        | Change::NamespaceChanged { nqn, nsid, .. }) = change
        else {
            continue;
        };
        let subsystem = old.subsystems.iter().find(|subsystem| subsystem.nqn == *nqn);
        let namespace = subsystem.and_then(|subsystem| subsystem.state().namespaces.get(nsid).cloned());
        if namespace.is_some_and(|n| n.reservation_forbids(digest, Access::Write)) {
            return Err(TargetError::Reserved { nqn: nqn.clone(), nsid: *nsid });
        }
    }
    Ok(())
}

/// Shows the present namespaces to a controller's host. Returns the notices that the host has to get.
fn show(controller: &Controller, effects: &Effects) -> Vec<Notice> {
    let before = controller.table();
    let after = controller.subsystem.table_for(&controller.host.nqn, controller.port);
    let mut nsids = BTreeSet::from_iter(before.differences(&after));
    nsids.extend(effects.nsids.iter().filter(|nsid| after.get(**nsid).is_some()));
    // A namespace that comes or goes is announced as that, and not as a change of its group too (Base 5.1.2).
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

/// Changes that the configurations do not show: namespaces whose image was opened on another
/// connection, or reopened.
fn replacements(reconnected: &[OpenRequest], reopened: Option<&Reopened>) -> impl Iterator<Item = Change> {
    let replaced = reconnected.iter().map(|request| {
        let (nqn, nsid) = request.place();
        Change::NamespaceReplaced { nqn: nqn.to_owned(), nsid }
    });
    replaced.chain(reopened.map(|Reopened { namespace, .. }| {
        let (nqn, nsid) = (namespace.nqn.clone(), namespace.nsid);
        Change::NamespaceReopened { nqn, nsid }
    }))
}

/// Changes of the ports, of which `open` are the new ones.
fn port_change(wanted: &FabricConfig, changes: &[Change], open: Vec<Listening>) -> PortChange {
    let mut change = PortChange { open, ..PortChange::default() };
    for of in changes {
        match of {
            Change::PortRemoved { port } => change.close.push(*port),
            Change::PortCongestionChanged { port } => {
                let config = wanted.ports.iter().find(|config| config.id == *port);
                let asked = config.and_then(|config| config.congestion.clone());
                change.congestion.push((*port, asked));
            }
            _ => {}
        }
    }
    change
}

/// Looks for changed sizes of devices and files whose size is not configured.
fn rescan(old: &Directory, wanted: &FabricConfig, changes: &[Change]) -> Vec<Change> {
    let mut resized = Vec::new();
    for config in &wanted.subsystems {
        let Some(subsystem) = kept_subsystem(old, &config.nqn, changes) else { continue };
        let keeps_size = |namespace: &&NamespaceConfig| {
            namespace.disable_auto_resize && matches!(namespace.backend, BackendConfig::Rbd(_))
        };
        let kept: BTreeSet<u32> = config.namespaces.iter().filter(keeps_size).map(|n| n.nsid).collect();
        for namespace in subsystem.namespaces() {
            if !kept.contains(&namespace.nsid) && namespace.rescan() {
                resized.push(Change::NamespaceResized { nqn: config.nqn.clone(), nsid: namespace.nsid });
            }
        }
    }
    resized
}

/// The namespaces that are not in the new configuration.
fn leaving(old: &Directory, staying: &[Opened]) -> Vec<Weak<Namespace>> {
    let stays: HashMap<*const Namespace, ()> =
        staying.iter().flat_map(BTreeMap::values).map(|namespace| (Arc::as_ptr(namespace), ())).collect();
    let all = old.subsystems.iter().flat_map(|subsystem| subsystem.namespaces());
    all.filter(|namespace| !stays.contains_key(&Arc::as_ptr(namespace)))
        .map(|namespace| Arc::downgrade(&namespace))
        .collect()
}

/// The identities that leave for good, which no namespace is to have from now on. One that is absent will have its own again
/// when its image is there.
fn removed(old: &Directory, prepared: &Prepared) -> Vec<Uuid> {
    let stays: BTreeSet<[u8; 16]> =
        prepared.namespaces.iter().flat_map(BTreeMap::values).map(|namespace| namespace.uuid).collect();
    let is_absent =
        |nqn: &str, nsid| prepared.absent.iter().any(|absent| absent.nqn == nqn && absent.nsid == nsid);
    let mut removed = Vec::new();
    for (config, subsystem) in old.config.subsystems.iter().zip(&old.subsystems) {
        let wanted = prepared.config.subsystem(&config.nqn);
        for (config, namespace) in pairs(config, &subsystem.state().namespaces) {
            if stays.contains(&namespace.uuid) {
                continue;
            }
            let wanted = wanted.and_then(|wanted| wanted.namespaces.iter().find(|n| n.nsid == config.nsid));
            let comes_back = wanted.is_some_and(|wanted| wanted.backend.is_same_place(&config.backend))
                && is_absent(&subsystem.nqn, config.nsid);
            if !comes_back {
                removed.push(Uuid::from_bytes(namespace.uuid));
            }
        }
    }
    removed
}

/// Removes stored reservations of removed namespaces in the background. If that fails, they are
/// left behind, and ignored by later namespaces.
fn forget_shared(leaving: &[Weak<Namespace>], directives: &Directives) {
    let removed = |namespace: &Arc<Namespace>| directives.is_removed(&namespace.nqn, namespace.nsid);
    let leaving = leaving.iter().filter_map(Weak::upgrade).filter(removed);
    let abandoned: Vec<Abandoned> =
        leaving.filter_map(|namespace| namespace.shared_reservations()?.abandon()).collect();
    if abandoned.is_empty() {
        return;
    }
    let work = move || {
        for error in abandoned.into_iter().filter_map(|abandoned| abandoned.remove().err()) {
            tracing::warn!(%error, "a removed namespace leaves its reservations behind");
        }
    };
    if let Err(error) = thread::Builder::new().name("forget".to_owned()).spawn(work) {
        tracing::warn!(%error, "no thread to remove reservations of removed namespaces");
    }
}

fn wait_for_release(leaving: &[Weak<Namespace>]) {
    let deadline = ring::now().after(RELEASE_TIMEOUT);
    // One that was shut out is held by commands that end when its connection does.
    let is_held =
        |namespace: &Weak<Namespace>| namespace.upgrade().is_some_and(|held| !held.backend.is_shut_out());
    while leaving.iter().any(is_held) && ring::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Effects of the changes on one subsystem's hosts.
fn effects_on(
    nqn: &str,
    before: Option<&SubsystemConfig>,
    after: &SubsystemConfig,
    changes: &[Change],
) -> Effects {
    let mut effects = Effects::default();
    let before = before.map(SubsystemConfig::by_nsid).unwrap_or_default();
    let after = after.by_nsid();
    let groups_of = |nsid: u32| {
        let configs = [before.get(&nsid), after.get(&nsid)];
        configs.into_iter().flatten().map(|namespace| namespace.ana_group)
    };
    for change in changes {
        match change {
            Change::NamespaceAdded { nqn: of, nsid }
            | Change::NamespaceRemoved { nqn: of, nsid }
            | Change::NamespaceReplaced { nqn: of, nsid }
            | Change::NamespaceReopened { nqn: of, nsid }
                if of == nqn =>
            {
                effects.groups.extend(groups_of(*nsid));
            }
            Change::NamespaceResized { nqn: of, nsid } if of == nqn => {
                effects.nsids.insert(*nsid);
            }
            Change::NamespaceChanged { nqn: of, nsid, fields } if of == nqn => {
                if fields
                    .iter()
                    .any(|field| matches!(*field, "write_protection" | "ana_group" | RESERVATIONS))
                {
                    effects.nsids.insert(*nsid);
                }
                if fields.contains(&"ana_group") {
                    effects.groups.extend(groups_of(*nsid));
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

/// True if the change affects the discovery log.
const fn is_in_discovery_log(change: &Change) -> bool {
    matches!(
        change,
        Change::PortAdded { .. }
            | Change::PortRemoved { .. }
            | Change::PortChanged { .. }
            | Change::PortTlsChanged { .. }
            | Change::SubsystemAdded { .. }
            | Change::SubsystemRemoved { .. }
            | Change::AccessChanged { .. }
            | Change::ReferralsChanged
            | Change::DiscoveryNqnChanged
    )
}

/// True if the controller's subsystem and port remain, and its host may still use them.
fn may_stay(controller: &Controller, directory: &Directory) -> bool {
    let subsystem = &controller.subsystem;
    let Some(port) = directory.port(controller.port) else { return false };
    // Who came in clear before TLS was required may be anybody, and all that it does may be read and changed.
    if directory.tls_on(port.id) == TlsUse::Required && !controller.state().is_secure() {
        return false;
    }
    if subsystem.is_discovery {
        return true;
    }
    let is_there = directory.subsystems.iter().any(|known| Arc::ptr_eq(known, subsystem));
    // Who came before its host had to authenticate may be anybody.
    let is_proved = controller.proof.is_some() || !subsystem.wants_proof(&controller.host.nqn);
    let host = &controller.host.nqn;
    is_there && is_proved && (subsystem.allows(host) || subsystem.keeps(host)) && subsystem.is_on(port)
}
