//! Registrations that the administration drops: those of hosts that it denies, and those of a namespace that it clears. Hosts
//! that lose theirs get a notice. Commands under way are not aborted: who has no registration is refused by others' reservations
//! from then on, as any other host.

use std::sync::Arc;

use nvme::Status;

use super::shared_reservations;
use super::worker::{commit, notify};
use crate::target::TargetError;
use crate::target::config::{Change, FabricConfig};
use crate::target::fabric::Fabric;
use crate::target::lock::lock;
use crate::target::reservation::{Outcome, ReservationDirectory, Reservations};
use crate::target::served::Namespace;

/// Drops registrations of hosts whose NQN `is_meant`; the hosts that had one.
///
/// # Errors
/// When the others cannot be kept. All stays as it was then.
fn drop_hosts(
    fabric: &Fabric,
    archive: Option<&ReservationDirectory>,
    namespace: &Arc<Namespace>,
    is_meant: &dyn Fn(&str) -> bool,
) -> Result<Vec<String>, Status> {
    let names = |state: &Reservations| -> Vec<String> {
        let registrants = state.registrants().iter().filter(|registrant| is_meant(&registrant.host_nqn));
        registrants.map(|registrant| registrant.host_nqn.clone()).collect()
    };
    let dropped = std::cell::RefCell::new(Vec::new());
    let decide = |state: &mut Reservations| {
        dropped.replace(names(state));
        Ok(state.drop_hosts(is_meant))
    };
    let outcome: Outcome = match namespace.shared_reservations() {
        Some(shared) => shared_reservations::change(namespace, shared, decide)?,
        None => {
            let mut state = lock(&namespace.reservations).clone();
            let outcome = decide(&mut state)?;
            if outcome.changed {
                commit(archive, namespace, state)?;
            }
            outcome
        }
    };
    for (host, kind) in outcome.notices {
        notify(fabric, namespace, host, kind);
    }
    Ok(dropped.into_inner())
}

/// Drops the registrations of hosts that were allowed in `old` and are not now, in subsystems whose access changes. A host that
/// keeps its connections still relies on its reservations, and has them until it loses the connections, too.
pub(crate) fn drop_denied(
    fabric: &Fabric,
    archive: Option<&ReservationDirectory>,
    old: &FabricConfig,
    changes: &[Change],
) {
    let directory = fabric.directory();
    for change in changes {
        let Change::AccessChanged { nqn } = change else { continue };
        let (Some(before), Some(now)) = (old.subsystem(nqn), directory.config.subsystem(nqn)) else {
            continue;
        };
        let is_denied = |host: &str| before.lets_stay(host) && !now.lets_stay(host);
        for namespace in fabric.find(nqn).iter().flat_map(|subsystem| subsystem.namespaces()) {
            let is_elsewhere =
                namespace.shared_reservations().is_some_and(|shared| !shared.hold().is_taken());
            let has_some =
                lock(&namespace.reservations).registrants().iter().any(|of| is_denied(&of.host_nqn));
            if is_elsewhere || !has_some {
                continue;
            }
            let nsid = namespace.nsid;
            match drop_hosts(fabric, archive, &namespace, &is_denied) {
                Ok(hosts) => tracing::info!(
                    subsystem = nqn,
                    nsid,
                    ?hosts,
                    "Dropped registrations of a namespace: their hosts are no longer on the subsystem's list"
                ),
                Err(status) => tracing::warn!(
                    subsystem = nqn, nsid, %status,
                    "Registrations of hosts that are no longer on the list stay; clear them: selvedge namespace clear-reservations"
                ),
            }
        }
    }
}

/// Drops all registrations of a namespace, or those of one host, by an operator's order; the hosts that had one.
///
/// # Errors
/// When the namespace is not there, or what stays cannot be kept.
pub(crate) fn clear(
    fabric: &Fabric,
    (nqn, nsid): (&str, u32),
    host: Option<&str>,
) -> Result<Vec<String>, TargetError> {
    let refused = |reason: String| {
        TargetError::Reservations(format!("namespace {nsid} of {nqn}: its registrations stay: {reason}"))
    };
    // Before the namespace is looked up: none is removed meanwhile.
    let archive = fabric.archive();
    let namespace = fabric.find(nqn).and_then(|subsystem| subsystem.state().namespaces.get(&nsid).cloned());
    let namespace = namespace.ok_or_else(|| refused("it is not served here".to_owned()))?;
    let is_meant = |name: &str| host.is_none_or(|host| host == name);
    drop_hosts(fabric, archive.as_ref(), &namespace, &is_meant).map_err(|status| refused(status.to_string()))
}
