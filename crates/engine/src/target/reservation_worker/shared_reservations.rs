//! Reservation commands on namespaces that several gateways serve in turn: the cluster has what a command changed before it
//! counts, and before its host has an answer.

use std::sync::Arc;

use nvme::Status;

use crate::backend::Backend;
use crate::ceph::{CephError, Clusters};
use crate::limits::RESERVATION_TRIES_MAX;
use crate::target::lock::lock;
use crate::target::messaging::{Asker, Then};
use crate::target::reservation::{Outcome, Reservations, SharedReservationError, SharedReservations};
use crate::target::served::Namespace;

/// Has a command change a namespace's reservations, and keeps them. It is decided once more where it turns out that they were
/// other ones than was known.
pub(super) fn change(
    namespace: &Namespace,
    shared: &SharedReservations,
    decide: impl Fn(&mut Reservations) -> Result<Outcome, Status>,
) -> Result<Outcome, Status> {
    // Giving the image back waits for the hold: a change that was answered is stored before the
    // next owner reads.
    let mut hold = shared.hold();
    let refused = |error: SharedReservationError| refusal(namespace, &error);
    let mut tried = 0;
    loop {
        if !hold.is_taken() {
            return Err(refused(SharedReservationError::NotHere));
        }
        if hold.is_doubtful() {
            namespace.take_reservations(&mut hold).map_err(refused)?;
        }
        let mut state = lock(&namespace.reservations).clone();
        let outcome = decide(&mut state)?;
        if !outcome.changed {
            return Ok(outcome);
        }
        tried += 1;
        match hold.save(&state) {
            Ok(()) => {
                namespace.go_by(state);
                return Ok(outcome);
            }
            Err(SharedReservationError::Claimed { .. }) if tried < RESERVATION_TRIES_MAX => {}
            Err(error) => return Err(refused(error)),
        }
    }
}

/// A namespace's reservations as they are.
pub(super) fn look(namespace: &Namespace, shared: &SharedReservations) -> Result<Reservations, Status> {
    let mut hold = shared.hold();
    let refused = |error: SharedReservationError| refusal(namespace, &error);
    if !hold.is_taken() {
        return Err(refused(SharedReservationError::NotHere));
    }
    if hold.is_doubtful() {
        namespace.take_reservations(&mut hold).map_err(refused)?;
    }
    Ok(lock(&namespace.reservations).clone())
}

/// Checks that commands can be aborted. Whether the cluster still carries out those that took too
/// long is unknown until this gateway is blocklisted and reconnects, which `has_late` asks for.
pub(super) fn check_abort(clusters: &Clusters, outcome: &Outcome) -> Result<(), Status> {
    let promises = !outcome.aborts.is_empty();
    if promises && clusters.has_late() { Err(Status::NAMESPACE_NOT_READY) } else { Ok(()) }
}

/// Answers a command that has others aborted, when these have ended: with success unless they have taken too long.
pub(super) fn aborted(clusters: Arc<Clusters>, asker: Asker, slot: u16) -> Then {
    Then::Tell(Box::new(move || {
        let status = if clusters.has_late() { Status::NAMESPACE_NOT_READY } else { Status::SUCCESS };
        asker.finish(slot, status, Vec::new());
    }))
}

/// The status of a command that cannot be kept: that of a write to the image that fails for the same reason.
fn refusal(namespace: &Namespace, error: &SharedReservationError) -> Status {
    let (nqn, nsid) = (&namespace.nqn, namespace.nsid);
    tracing::warn!(%error, subsystem = nqn, nsid, "a reservation command fails");
    match error {
        SharedReservationError::Ceph(error) if CephError::is_late(error) => Status::NAMESPACE_NOT_READY,
        SharedReservationError::Ceph(error) if error.is_shut_out() => {
            if let Backend::Device(device) = &*namespace.backend {
                device.note_refused();
            }
            Status::INTERNAL_PATH_ERROR
        }
        SharedReservationError::NotHere | SharedReservationError::Claimed { .. } => {
            Status::INTERNAL_PATH_ERROR
        }
        _ => Status::INTERNAL_ERROR,
    }
}
