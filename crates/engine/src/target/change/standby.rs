//! Images change hands between gateways: taking the locks of those that this target is to write to from now on, and giving
//! back those of others. Who is to have which is the configuration's to say.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::backend::{BackendConfig, BackendError};
use crate::ceph::note_late_operation;
use crate::limits::{CEPH_GIVE_BACK_PATIENCE_MS, IMAGES_AT_A_TIME};
use crate::ring::channel::channel;
use crate::ring::{self, thread};
use crate::target::config::{Change, Directives, FabricConfig, NamespaceConfig, STANDBY, namespaces_of};
use crate::target::fabric::Directory;
use crate::target::image::{ImageOpener, Images};
use crate::target::lock::lock;
use crate::target::served::{Namespace, Opened};

/// A namespace whose image changes hands.
pub(crate) struct Handover<'a> {
    /// The place of its subsystem among all.
    subsystem: usize,
    namespace: &'a Arc<Namespace>,
    is_standby: bool,
}

/// The namespaces whose images change hands.
pub(crate) fn handovers<'a>(
    (wanted, directives): (&FabricConfig, &Directives),
    namespaces: &'a [Opened],
    changes: &[Change],
) -> Vec<Handover<'a>> {
    let mut handovers = Vec::new();
    let changing_hands = changing_hands(changes);
    for (at, (subsystem, opened)) in wanted.subsystems.iter().zip(namespaces).enumerate() {
        let going =
            |config: &&NamespaceConfig| changing_hands.contains(&(subsystem.nqn.as_str(), config.nsid));
        for config in subsystem.namespaces.iter().filter(going) {
            if let Some(namespace) = opened.get(&config.nsid) {
                let is_standby = directives.is_standby(&subsystem.nqn, config.nsid);
                handovers.push(Handover { subsystem: at, namespace, is_standby });
            }
        }
    }
    handovers
}

/// Namespaces with the lock of an image that is handed to or from another gateway.
fn changing_hands(changes: &[Change]) -> BTreeSet<(&str, u32)> {
    namespaces_of(
        changes,
        |change| matches!(change, Change::NamespaceChanged { fields, .. } if fields.contains(&STANDBY)),
    )
}

/// Images that were opened for this target to write to, and are not locked yet.
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
    let namespaces: Vec<&Namespace> = coming.iter().map(|handover| &**handover.namespace).collect();
    let failures = for_all(&namespaces, false);
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

/// Sees to it that images are given back whose namespaces are not there yet, since they are just being opened and locked, and are
/// another gateway's from now on.
pub(crate) fn give_back_early(opener: &ImageOpener<Images>, directives: &Directives, changes: &[Change]) {
    let changing_hands = changing_hands(changes);
    let goes =
        |place: (&str, u32)| directives.is_standby(place.0, place.1) && changing_hands.contains(&place);
    if !opener.await_given_back(goes, Duration::from_millis(CEPH_GIVE_BACK_PATIENCE_MS)) {
        tracing::warn!(
            "an image that is being opened is not given back yet, since its cluster does not answer"
        );
        // It may be had here after the next owner has it: who gives it away has to shut this connection out first.
        note_late_operation();
    }
}

/// Some at a time, since each waits for the cluster. One that does not answer keeps the caller, who has others to serve, only for
/// a while: an image that is not given back then counts as a command that has taken too long. Who is to have it next has to shut
/// this connection out first.
fn release(handovers: &[Handover<'_>], is_standby: bool) {
    let going = handovers.iter().filter(|handover| handover.is_standby == is_standby);
    let going: Vec<Arc<Namespace>> = going.map(|handover| handover.namespace.clone()).collect();
    let (count, going) = (going.len(), Arc::new(going));
    let (report, ended) = channel();
    let next = Arc::new(AtomicUsize::new(0));
    for _ in 0..count.min(IMAGES_AT_A_TIME) {
        let (going, next, report) = (going.clone(), next.clone(), report.clone());
        let work = move || {
            while let Some(namespace) = going.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = namespace.set_standby(true) {
                    tracing::warn!(%error, nsid = namespace.nsid, "an image stays locked");
                }
                // The receiver may have stopped waiting.
                let _ = report.send(());
            }
        };
        if let Err(error) = thread::Builder::new().name("image-release".to_owned()).spawn(work) {
            tracing::warn!(%error, "no thread to give images back");
        }
    }
    drop(report);
    let end = ring::now().after(Duration::from_millis(CEPH_GIVE_BACK_PATIENCE_MS));
    for done in 0..count {
        if ended.recv_timeout(end.since(ring::now())).is_err() {
            tracing::warn!(
                count = count - done,
                "images are not given back yet, since their cluster does not answer"
            );
            // What is under way on them may be carried out after all that the next owner does, once
            // it has ended here as too late, and the lock is free. Recorded now, it is visible
            // before another gateway takes the images.
            if is_standby {
                note_late_operation();
            }
            return;
        }
    }
}

/// Gives these images back, or takes them; the failures, by their places.
pub(crate) fn set_standby(namespaces: &[&Namespace], is_standby: bool) -> Vec<(usize, BackendError)> {
    for_all(namespaces, is_standby)
}

/// Does it for all, some at a time, since each waits for the cluster; the failures, by their places.
fn for_all(namespaces: &[&Namespace], is_standby: bool) -> Vec<(usize, BackendError)> {
    if namespaces.is_empty() {
        return Vec::new();
    }
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(namespace) = namespaces.get(at) else { return };
            if let Err(error) = namespace.set_standby(is_standby) {
                lock(&failures).push((at, error));
            }
        }
    };
    thread::side_by_side(namespaces.len().min(IMAGES_AT_A_TIME), work);
    failures.into_inner().unwrap_or_else(PoisonError::into_inner)
}
