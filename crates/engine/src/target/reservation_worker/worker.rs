//! The reservation worker: a thread that does reservation commands one after the other, and keeps what is to outlive
//! the target. Commands that wait for a cluster have threads of their own.
//! What the commands mean is in `reservation`. Reactors hand them over, and never wait for a disk.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use nvme::Status;
use nvme::io::IoCommand;
use nvme::log_page::ReservationNotification;
use nvme::reservation::{AcquireData, PersistenceChange, RegisterData, ReleaseData, encode_report};
use uuid::Uuid;
use zerocopy::FromBytes;

use super::backlogs::{Backlog, Backlogs};
use super::shared_reservations;
use super::turns::Turns;
use crate::limits::RESERVATION_JOBS_MAX;
use crate::ring::Vital;
use crate::ring::channel::sync_channel;
use crate::ring::thread::{self, JoinHandle};
use crate::target::TargetError;
use crate::target::controller::{Controller, Notice};
use crate::target::fabric::Fabric;
use crate::target::lock::lock;
use crate::target::messaging::{Fenced, Job, Task, Then};
use crate::target::reservation::{
    Acquire, HostDigest, Outcome, Register, Release, ReservationDirectory, Reservations,
};
use crate::target::served::Namespace;

/// The folder below the state directory.
const FOLDER: &str = "reservations";

/// The running worker. Dropping it ends it, after the jobs it has.
#[derive(Debug)]
pub(crate) struct ReservationWorker {
    fabric: Arc<Fabric>,
    thread: Option<JoinHandle<()>>,
}

impl ReservationWorker {
    /// Starts the worker, which takes the fabric's jobs from then on.
    pub(crate) fn start(fabric: &Arc<Fabric>) -> io::Result<Self> {
        let (sender, jobs) = sync_channel::<Job>(RESERVATION_JOBS_MAX);
        let desk = fabric.clone();
        let thread = thread::Builder::new().name("reservations".to_owned()).spawn(move || {
            let _vital = Vital::begin();
            let backlogs = {
                let desk = desk.clone();
                Backlogs::new(move |job| work(&desk, job))
            };
            let mut turns = Turns::default();
            loop {
                // Everything that has come, before the next one is chosen.
                while let Ok(job) = jobs.try_recv() {
                    turns.put(party(&job), job);
                }
                let Some(job) = turns.next().or_else(|| jobs.recv().ok()) else { return };
                match backlog(&desk, &job.task) {
                    None => work(&desk, job),
                    Some(backlog) => {
                        let host = job.controller.host.nqn.clone();
                        backlogs.hand(backlog, host, job).unwrap_or_else(refuse);
                    }
                }
            }
        })?;
        fabric.reservation_jobs.open(sender);
        Ok(Self { fabric: fabric.clone(), thread: Some(thread) })
    }
}

impl Drop for ReservationWorker {
    fn drop(&mut self) {
        self.fabric.reservation_jobs.close();
        // A panic there has ended the process.
        let _ = self.thread.take().map(JoinHandle::join);
        self.fabric.close_archive();
    }
}

/// Party that has turns: a host, by its name and whether that is proved.
fn party(job: &Job) -> (String, bool) {
    (job.controller.host.nqn.clone(), job.controller.is_proved)
}

/// Opens the place below the state directory where reservations are kept.
pub(crate) fn open_archive(state_dir: &Path) -> Result<ReservationDirectory, TargetError> {
    let folder = state_dir.join(FOLDER);
    ReservationDirectory::open(&folder).map_err(|error| TargetError::Reservations(error.to_string()))
}

/// Restores the stored reservations of a namespace that is not visible to hosts yet.
pub(crate) fn restore(
    archive: Option<&ReservationDirectory>,
    nqn: &str,
    namespace: &Namespace,
) -> Result<(), TargetError> {
    let Some(archive) = archive else { return Ok(()) };
    let kept = archive.load(Uuid::from_bytes(namespace.uuid)).map_err(|error| {
        TargetError::Reservations(format!("reservations of namespace {} of {nqn}: {error}", namespace.nsid))
    })?;
    if let Some(reservations) = kept {
        namespace.go_by(reservations);
    }
    Ok(())
}

/// Removes what was kept of namespaces that are no more.
pub(crate) fn forget(archive: Option<&ReservationDirectory>, removed: &[Uuid]) {
    let Some(archive) = archive else { return };
    for namespace in removed {
        if let Err(error) = archive.remove(*namespace) {
            tracing::warn!(%namespace, %error, "a removed namespace leaves its reservations behind");
        }
    }
}

/// Backlog of a task that waits for a cluster.
fn backlog(fabric: &Fabric, task: &Task) -> Option<Backlog> {
    match task {
        Task::Command { namespace, .. } => {
            namespace.shared_reservations().map(|_| Backlog::Namespace(namespace.uuid))
        }
        Task::Persistence { namespaces, .. } => {
            fabric.clusters().are_images_shared().then(|| backlog_of_persistence(namespaces))
        }
    }
}

/// Backlog of a change of Reservation Persistence: that of a single namespace waits for no cluster
/// but its own.
fn backlog_of_persistence(namespaces: &[Arc<Namespace>]) -> Backlog {
    match namespaces {
        [namespace] => Backlog::Namespace(namespace.uuid),
        _ => Backlog::Persistence,
    }
}

/// Answers a job whose backlog has too many: the host may send it again.
fn refuse(job: Job) {
    let Job { asker, task, .. } = job;
    match task {
        Task::Command { slot, .. } => asker.finish(slot, Status::COMMAND_INTERRUPTED, Vec::new()),
        Task::Persistence { .. } => asker.answer(Status::COMMAND_INTERRUPTED, 0),
    }
}

fn work(fabric: &Fabric, job: Job) {
    let Job { controller, asker, task, share: _share } = job;
    match task {
        Task::Command { namespace, command, data, slot } => {
            let done = do_command(fabric, &controller, &namespace, &command, &data);
            let (outcome, data) = match done {
                Ok(done) => done,
                Err(status) => return asker.finish(slot, status, Vec::new()),
            };
            for (host, kind) in &outcome.notices {
                notify(fabric, &namespace, *host, *kind);
            }
            if outcome.aborts.is_empty() {
                return asker.finish(slot, Status::SUCCESS, data);
            }
            // By now no reactor lets another command of theirs through. The command is done when the last of the
            // earlier ones has ended.
            let then = match namespace.shared_reservations() {
                None => Then::Finish(asker.address(), slot, Status::SUCCESS),
                Some(_) => shared_reservations::aborted(fabric.clusters().clone(), asker, slot),
            };
            fabric.mailboxes().raise(Fenced::Hosts(namespace, outcome.aborts), then);
        }
        Task::Persistence { namespaces, persists } => {
            let outcome = set_persistence(fabric, (&controller, asker.peer), &namespaces, persists);
            asker.answer(outcome.err().unwrap_or(Status::SUCCESS), 0);
        }
    }
}

/// Does a reservation command: what follows from it, and the data of a report.
fn do_command(
    fabric: &Fabric,
    controller: &Controller,
    namespace: &Arc<Namespace>,
    command: &IoCommand,
    data: &[u8],
) -> Result<(Outcome, Vec<u8>), Status> {
    if let IoCommand::ReservationReport { extended, .. } = *command {
        return Ok((Outcome::default(), report(fabric, controller, namespace, extended)?));
    }
    let decide = |state: &mut Reservations| {
        check_served(fabric, namespace)?;
        let outcome = execute(state, fabric, controller, command, data)?;
        if namespace.shared_reservations().is_some() {
            shared_reservations::check_abort(fabric.clusters(), &outcome)?;
        }
        Ok(outcome)
    };
    let outcome = match namespace.shared_reservations() {
        Some(shared) => shared_reservations::change(namespace, shared, decide)?,
        None => {
            // Held to the end: the administration must not remove the namespace and what is kept of it in between.
            let archive = fabric.archive();
            let mut state = lock(&namespace.reservations).clone();
            let outcome = decide(&mut state)?;
            if outcome.changed {
                commit(archive.as_ref(), namespace, state)?;
            }
            outcome
        }
    };
    Ok((outcome, Vec::new()))
}

fn execute(
    state: &mut Reservations,
    fabric: &Fabric,
    controller: &Controller,
    command: &IoCommand,
    data: &[u8],
) -> Result<Outcome, Status> {
    let short = Status::DATA_SGL_LENGTH_INVALID.do_not_retry();
    let host = &controller.host;
    match *command {
        IoCommand::ReservationRegister { action, ignore_existing_key, persistence } => {
            if persistence == PersistenceChange::PersistThroughPowerLoss {
                check_keeps(fabric, controller)?;
            }
            let (data, _) = RegisterData::read_from_prefix(data).map_err(|_| short)?;
            let (current_key, new_key) = (data.current_key.get(), data.new_key.get());
            let register = Register { action, ignore_existing_key, persistence, current_key, new_key };
            state.check_room((&host.id, host.nqn.as_str()), controller.is_proved, action)?;
            state.register(host.id, &host.nqn, &register)
        }
        IoCommand::ReservationAcquire { action, ignore_existing_key, kind } => {
            let (data, _) = AcquireData::read_from_prefix(data).map_err(|_| short)?;
            let (current_key, preempt_key) = (data.current_key.get(), data.preempt_key.get());
            let acquire = Acquire { action, ignore_existing_key, kind, current_key, preempt_key };
            state.acquire(host.digest, &acquire)
        }
        IoCommand::ReservationRelease { action, ignore_existing_key, kind } => {
            let (data, _) = ReleaseData::read_from_prefix(data).map_err(|_| short)?;
            let current_key = data.current_key.get();
            state.release(host.digest, &Release { action, ignore_existing_key, kind, current_key })
        }
        _ => Err(Status::INVALID_OPCODE.do_not_retry()),
    }
}

/// Sees that a registration that is to persist can be kept. Linux has no other kind, and shows the status as `EINVAL`.
fn check_keeps(fabric: &Fabric, controller: &Controller) -> Result<(), Status> {
    if fabric.keeps_reservations() {
        return Ok(());
    }
    if let Some(times) = fabric.refusals.count_unkept() {
        let (host, subsystem) = (&controller.host.nqn, &controller.subsystem.nqn);
        tracing::warn!(
            host,
            controller = controller.id,
            subsystem,
            times,
            "Refused a registration that persists through power loss, as each one of Linux does: the target has no \
             state directory (--state-dir)"
        );
    }
    Err(Status::INVALID_FIELD.do_not_retry())
}

fn report(
    fabric: &Fabric,
    controller: &Controller,
    namespace: &Namespace,
    extended: bool,
) -> Result<Vec<u8>, Status> {
    // Identifiers of 128 bits, which fabrics have only, do not fit the other form.
    if !extended {
        return Err(Status::HOST_ID_INCONSISTENT.do_not_retry());
    }
    let controllers = fabric.controllers_of(&controller.subsystem);
    let state = match namespace.shared_reservations() {
        Some(shared) => shared_reservations::look(namespace, shared)?,
        None => lock(&namespace.reservations).clone(),
    };
    let registrants = state.reported(|host| {
        let own = controllers.iter().filter(|other| other.host.digest == host);
        own.map(|other| other.id).collect()
    });
    let kind = state.reservation().map(|reservation| reservation.kind);
    Ok(encode_report(state.generation(), kind, state.persists(), &registrants, extended))
}

/// Sets whether registrations on these namespaces persist, on all of them or, where the host may not have one, on none:
/// what others have registered is kept or lost as those say who are registered.
fn set_persistence(
    fabric: &Fabric,
    (controller, address): (&Controller, SocketAddr),
    namespaces: &[Arc<Namespace>],
    persists: bool,
) -> Result<(), Status> {
    if fabric.clusters().are_images_shared() {
        return set_shared_persistence(fabric, (controller, address), namespaces, persists);
    }
    let archive = fabric.archive();
    for namespace in namespaces {
        check_served(fabric, namespace)?;
        let state = lock(&namespace.reservations);
        check_may_set(&state, fabric, (controller, address), namespace)?;
    }
    for namespace in namespaces {
        let mut state = lock(&namespace.reservations).clone();
        if state.set_persists(persists) {
            commit(archive.as_ref(), namespace, state)?;
        }
    }
    Ok(())
}

/// The same where other gateways serve them too: those that this one does not serve now are not its to change.
fn set_shared_persistence(
    fabric: &Fabric,
    by: (&Controller, SocketAddr),
    namespaces: &[Arc<Namespace>],
    persists: bool,
) -> Result<(), Status> {
    for sets in [false, true] {
        for namespace in namespaces {
            let Some(shared) = namespace.shared_reservations() else { continue };
            shared_reservations::change(namespace, shared, |state| {
                check_served(fabric, namespace)?;
                check_may_set(state, fabric, by, namespace)?;
                Ok(Outcome { changed: sets && state.set_persists(persists), ..Outcome::default() })
            })?;
        }
    }
    Ok(())
}

/// Sees that a host is registered where others are.
fn check_may_set(
    state: &Reservations,
    fabric: &Fabric,
    (controller, address): (&Controller, SocketAddr),
    namespace: &Namespace,
) -> Result<(), Status> {
    let host = &controller.host;
    if state.registrants().is_empty() || state.is_registered(host.digest) {
        return Ok(());
    }
    if let Some(times) = fabric.refusals.count_unregistered() {
        let (host, subsystem, nsid) = (&host.nqn, &controller.subsystem.nqn, namespace.nsid);
        tracing::warn!(
            host, %address, controller = controller.id, subsystem, nsid, times,
            "Refused to set Reservation Persistence: others are registered, and it is not"
        );
    }
    Err(Status::RESERVATION_CONFLICT.do_not_retry())
}

/// A namespace that was removed while its command was on its way keeps nothing.
fn check_served(fabric: &Fabric, namespace: &Arc<Namespace>) -> Result<(), Status> {
    let is_this = |known: &Arc<Namespace>| Arc::ptr_eq(known, namespace);
    let directory = fabric.directory();
    let mut subsystems = directory.subsystems.iter();
    let served =
        subsystems.any(|subsystem| subsystem.state().namespaces.get(&namespace.nsid).is_some_and(is_this));
    if served { Ok(()) } else { Err(Status::INVALID_NAMESPACE.do_not_retry()) }
}

/// Keeps another state if it is to outlive the target, and lets it count then. What cannot be kept does not count.
pub(super) fn commit(
    archive: Option<&ReservationDirectory>,
    namespace: &Namespace,
    state: Reservations,
) -> Result<(), Status> {
    let was_kept = lock(&namespace.reservations).persists();
    if was_kept || state.persists() {
        let archive = archive.ok_or(Status::INTERNAL_ERROR)?;
        archive.save(Uuid::from_bytes(namespace.uuid), &state).map_err(|error| {
            tracing::error!(nsid = namespace.nsid, %error, "a reservation command fails");
            // The file may be the new one already, where only the last step failed.
            if let Err(error) = archive.save(Uuid::from_bytes(namespace.uuid), &lock(&namespace.reservations))
            {
                tracing::error!(
                    nsid = namespace.nsid,
                    %error,
                    "the file may have the reservations that were refused: a restart would restore them"
                );
            }
            Status::INTERNAL_ERROR
        })?;
    }
    namespace.go_by(state);
    Ok(())
}

/// Tells a host by each of its controllers that sees the namespace.
pub(super) fn notify(
    fabric: &Fabric,
    namespace: &Arc<Namespace>,
    host: HostDigest,
    kind: ReservationNotification,
) {
    for controller in fabric.controllers() {
        let sees = || controller.table().attachments().any(|a| Arc::ptr_eq(&a.namespace, namespace));
        if controller.host.digest == host
            && controller.is_ready()
            && sees()
            && controller.note_reservation(kind, namespace.nsid)
        {
            fabric.notify(&controller, Notice::Reservation);
        }
    }
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
