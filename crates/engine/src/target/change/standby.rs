//! Images change hands between gateways: taking the locks of those that this target is to write to from now on, and giving
//! back those of others. Who is to have which is the configuration's to say.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::backend::{BackendConfig, BackendError};
use crate::limits::IMAGES_AT_A_TIME;
use crate::target::config::{Change, Directives, FabricConfig, STANDBY};
use crate::target::fabric::Directory;
use crate::target::lock::lock;
use crate::target::served::{Namespace, Opened};

/// A namespace whose image changes hands.
pub(crate) struct Handover<'a> {
    /// The place of its subsystem among all.
    subsystem: usize,
    namespace: &'a Namespace,
    is_standby: bool,
}

/// The namespaces whose images change hands.
pub(crate) fn handovers<'a>(
    (wanted, directives): (&FabricConfig, &Directives),
    namespaces: &'a [Opened],
    changes: &[Change],
) -> Vec<Handover<'a>> {
    let is_named = |of: &str, number: u32| {
        changes.iter().any(|change| {
            matches!(change, Change::NamespaceChanged { nqn, nsid, fields }
                if nqn == of && *nsid == number && fields.contains(&STANDBY))
        })
    };
    let mut handovers = Vec::new();
    for (at, (subsystem, opened)) in wanted.subsystems.iter().zip(namespaces).enumerate() {
        for config in subsystem.namespaces.iter().filter(|config| is_named(&subsystem.nqn, config.nsid)) {
            if let Some(namespace) = opened.get(&config.nsid) {
                let is_standby = directives.is_standby(&subsystem.nqn, config.nsid);
                handovers.push(Handover { subsystem: at, namespace, is_standby });
            }
        }
    }
    handovers
}

/// The images that were opened for this target to write to, which nobody has yet.
pub(crate) fn newly_opened<'a>(
    (wanted, directives): (&FabricConfig, &Directives),
    namespaces: &'a [Opened],
    old: &Directory,
) -> Vec<Handover<'a>> {
    let mut handovers = Vec::new();
    for (at, (subsystem, opened)) in wanted.subsystems.iter().zip(namespaces).enumerate() {
        let before = old.subsystems.iter().find(|before| before.nqn == subsystem.nqn);
        let before = before.map(|before| before.state());
        for config in &subsystem.namespaces {
            let Some(namespace) = opened.get(&config.nsid) else { continue };
            let known = before.as_ref().and_then(|before| before.namespaces.get(&config.nsid));
            let is_open = known.is_some_and(|known| Arc::ptr_eq(known, namespace));
            let is_standby = directives.is_standby(&subsystem.nqn, config.nsid);
            if matches!(config.backend, BackendConfig::Rbd(_)) && !is_standby && !is_open {
                handovers.push(Handover { subsystem: at, namespace, is_standby: false });
            }
        }
    }
    handovers
}

/// Takes the locks of all images that are this target's to write to; those that are not available, by their subsystems'
/// places and their identifiers.
pub(crate) fn take(handovers: &[Handover<'_>]) -> Vec<((usize, u32), BackendError)> {
    let coming: Vec<_> = handovers.iter().filter(|handover| !handover.is_standby).collect();
    let failures = for_all(&coming, false);
    let place = |at: usize| (coming[at].subsystem, coming[at].namespace.nsid);
    failures.into_iter().map(|(at, error)| (place(at), error)).collect()
}

/// Gives back what `take` took.
pub(crate) fn take_none(handovers: &[Handover<'_>]) {
    release(handovers, false);
}

/// Gives the locks of all images back that are others' to write to. What was begun is written first.
pub(crate) fn give_back(handovers: &[Handover<'_>]) {
    release(handovers, true);
}

fn release(handovers: &[Handover<'_>], is_standby: bool) {
    let going: Vec<_> = handovers.iter().filter(|handover| handover.is_standby == is_standby).collect();
    for (at, error) in for_all(&going, true) {
        // The next owner asks for it, or takes it from a connection that is gone.
        tracing::warn!(%error, nsid = going[at].namespace.nsid, "an image stays locked");
    }
}

/// Gives these images back, or takes them; the failures, by their places.
#[cfg(not(feature = "simulation"))]
pub(crate) fn set_standby(namespaces: &[&Namespace], is_standby: bool) -> Vec<(usize, BackendError)> {
    let handovers: Vec<Handover<'_>> =
        namespaces.iter().map(|&namespace| Handover { subsystem: 0, namespace, is_standby }).collect();
    let handovers: Vec<&Handover<'_>> = handovers.iter().collect();
    for_all(&handovers, is_standby)
}

/// Does it for all, some at a time, since each waits for the cluster; the failures, by their places.
fn for_all(handovers: &[&Handover<'_>], is_standby: bool) -> Vec<(usize, BackendError)> {
    if handovers.is_empty() {
        return Vec::new();
    }
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(handover) = handovers.get(at) else { return };
            if let Err(error) = handover.namespace.set_standby(is_standby) {
                lock(&failures).push((at, error));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..handovers.len().min(IMAGES_AT_A_TIME) {
            scope.spawn(work);
        }
        work();
    });
    failures.into_inner().unwrap_or_else(PoisonError::into_inner)
}
