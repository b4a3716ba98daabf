//! Images go over to another connection to their cluster when theirs is silent: the system sends again on one that was cut only
//! after about as long as the cut has lasted, and a new one is answered at once. Before an image is opened on the new connection,
//! the old one is on the cluster's blocklist. Gateways, whose connections are in their group's state, do it in their own way.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use super::change_request::ChangeRequest;
use super::configurator::Configurator;
use super::preparation::pairs;
use crate::backend::{Backend, BackendConfig, Device, RbdConfig};
use crate::ceph::{CephError, Cluster};
use crate::limits::{
    CEPH_CONNECT_TIMEOUT_MS, CEPH_FENCE_S, CEPH_OPENING_PATIENCE_MS, CEPH_REPLACEMENT_INTERVAL_MS,
    CEPH_REPLACEMENT_TIMEOUT_MS, CEPH_SILENCE_MS,
};
use crate::ring::channel::{Receiver, channel};
use crate::ring::{Vital, now, thread};
use crate::target::fabric::Fabric;
use crate::target::image::{OpenRequest, Outcome};

/// Interval of retries for absent images.
pub(crate) const TRY_AGAIN: Duration = Duration::from_secs(5);

/// Interval at which waits check whether the target has ended.
const LOOK: Duration = Duration::from_millis(50);
const SILENCE: Duration = Duration::from_millis(CEPH_SILENCE_MS);
const INTERVAL: Duration = Duration::from_millis(CEPH_REPLACEMENT_INTERVAL_MS);
/// Time limit for requests to the monitors, with a margin for a late error.
const MONITORS: Duration = Duration::from_millis(CEPH_CONNECT_TIMEOUT_MS + 1_000);

/// Pending response of a cluster. Arrives on a thread of its own, which ends with it.
type Answer<T> = Receiver<T>;

/// A connection with operations that took too long, and the images on it.
struct Reconnection {
    configurator: Arc<Configurator>,
    has_ended: Arc<AtomicBool>,
    silent: Arc<Cluster>,
    /// An image on it, about which the cluster is asked.
    image: RbdConfig,
    /// Set once blocklisting the connection was attempted: it is not used again then.
    is_condemned: Cell<bool>,
}

/// Looks after all connections with operations that took too long, each on a thread of its own.
pub(crate) fn start_all(configurator: &Arc<Configurator>, has_ended: &Arc<AtomicBool>) {
    let fabric = configurator.fabric();
    for silent in fabric.clusters().take_late() {
        let Some((_, image)) = images_on(fabric, &silent).into_iter().next() else {
            silent.note_punctual();
            continue;
        };
        let (configurator, has_ended) = (configurator.clone(), has_ended.clone());
        let is_condemned = Cell::new(false);
        let reconnection = Reconnection { configurator, has_ended, silent, image, is_condemned };
        let run = move || {
            let _vital = Vital::begin();
            reconnection.run();
        };
        let spawned = thread::Builder::new().name("ceph-reconnect".to_owned()).spawn(run);
        if let Err(error) = spawned {
            tracing::warn!(%error, "no thread to look after a connection that is late");
        }
    }
}

impl Reconnection {
    fn run(&self) {
        let mut old = self.ask(&self.silent);
        let mut patience = SILENCE;
        while !self.has_ended() {
            let began = now();
            if self.has_come_back(&mut old, patience) {
                return self.silent.note_punctual();
            }
            // The next tries are to follow each other closely.
            patience = LOOK;
            if self.try_another(&mut old).is_break() {
                return;
            }
            self.sleep(INTERVAL.saturating_sub(now().since(began)));
        }
    }

    /// True if the old connection responds after all within `patience`, or was blocklisted by
    /// another client. False for a connection that this target has tried to blocklist.
    fn has_come_back(&self, old: &mut Answer<Result<(), CephError>>, patience: Duration) -> bool {
        match self.wait(old, patience) {
            Some(Err(error)) if error.is_late() => {
                *old = self.ask(&self.silent);
                false
            }
            Some(_) => !self.is_condemned.get(),
            None => false,
        }
    }

    /// Has all images go over to a new connection if that is answered and the old one still is not; breaks when there is
    /// nothing left to be done.
    fn try_another(&self, old: &mut Answer<Result<(), CephError>>) -> ControlFlow<()> {
        let options = self.silent.options().clone();
        let connect = move || Cluster::connect_within(&options, CEPH_REPLACEMENT_TIMEOUT_MS);
        let new = match self.within(MONITORS, connect) {
            Some(Ok(new)) => new,
            Some(Err(error)) => {
                tracing::debug!(%error, "there is no other connection in place of a silent one yet");
                return ControlFlow::Continue(());
            }
            None => return ControlFlow::Continue(()),
        };
        let (answer, end) = (self.ask(&new), now().after(MONITORS));
        let answered = loop {
            // After an outage of the whole cluster, both connections may respond within a moment.
            match self.wait(&answer, LOOK) {
                None if now() < end && !self.has_ended() => {
                    if self.has_come_back(old, Duration::ZERO) {
                        self.silent.note_punctual();
                        return ControlFlow::Break(());
                    }
                }
                answered => break answered,
            }
        };
        if self.has_come_back(old, INTERVAL) {
            self.silent.note_punctual();
            return ControlFlow::Break(());
        }
        if !matches!(answered, Some(Ok(()))) {
            return ControlFlow::Continue(());
        }
        match self.condemn(&new) {
            Ok(()) if self.open_all(&new) => ControlFlow::Break(()),
            Ok(()) => ControlFlow::Continue(()),
            Err(flow) => flow,
        }
    }

    /// Puts the old connection on the blocklist. An error says whether that can still be.
    fn condemn(&self, new: &Arc<Cluster>) -> Result<(), ControlFlow<()>> {
        if let Err(error) = self.fabric().clusters().allow(new) {
            tracing::warn!(%error, "a silent connection is kept for now");
            return Err(ControlFlow::Continue(()));
        }
        // The monitors may carry out a request although their reply was lost.
        let was_condemned = self.is_condemned.replace(true);
        match self.fence(new) {
            Ok(()) => {
                self.silent.note_shut_out();
                Ok(())
            }
            Err(error) if error.is_forbidden() && !was_condemned => {
                self.is_condemned.set(false);
                tracing::info!(
                    "client.{} may not put a silent connection of its own on the blocklist, so that its images wait for that \
                     connection; give it the capability mon 'profile rbd'",
                    new.options().id()
                );
                // It stays looked after, so that it is not asked for again.
                Err(ControlFlow::Break(()))
            }
            Err(error) => {
                tracing::warn!(%error, "a silent connection is not on the blocklist yet");
                Err(ControlFlow::Continue(()))
            }
        }
    }

    /// Sees to it that nothing more of the old connection is carried out once the new one does something.
    fn fence(&self, new: &Arc<Cluster>) -> Result<(), CephError> {
        let (address, fencing) = (self.silent.address()?, new.clone());
        let fenced = self.within(MONITORS, move || {
            fencing.blocklist(&address, CEPH_FENCE_S)?;
            fencing.wait_for_latest_map()
        });
        fenced.unwrap_or_else(|| {
            let source = io::Error::from_raw_os_error(libc::ETIMEDOUT);
            Err(CephError::Failed { what: "shutting out", name: "a silent connection".to_owned(), source })
        })
    }

    /// Opens all images on the new connection, and has their namespaces go on there; whether all do.
    fn open_all(&self, new: &Arc<Cluster>) -> bool {
        let (clusters, opener) = (self.fabric().clusters(), self.fabric().opener());
        clusters.replace(&self.silent, new);
        let mut reported = BTreeSet::new();
        while !self.has_ended() {
            let left = images_on(self.fabric(), &self.silent);
            if left.is_empty() {
                tracing::info!(image = %self.image, "images have gone over from a silent connection to another");
                // Taking a dead one's lock may have put it there for a shorter time.
                if let Err(error) = self.fence(new) {
                    tracing::debug!(%error, "a connection that was replaced");
                }
                clusters.suspect_others(&self.silent);
                return true;
            }
            let requests: Vec<OpenRequest> = left.into_iter().map(|(request, _)| request).collect();
            opener.begin(&requests);
            opener.wait(&requests, Duration::from_millis(CEPH_OPENING_PATIENCE_MS));
            let (ready, others): (Vec<OpenRequest>, Vec<OpenRequest>) =
                requests.into_iter().partition(|request| opener.is_opened(request));
            for other in &others {
                if let Outcome::Failed(error) = opener.outcome(other)
                    && reported.insert(error.to_string())
                {
                    tracing::warn!(%error, "cannot open an image over the new connection yet; retrying");
                }
            }
            if !ready.is_empty() && self.go_over(&ready) {
                continue;
            }
            if !matches!(self.wait(&self.ask(new), SILENCE), Some(Ok(()))) {
                return false;
            }
            self.sleep(TRY_AGAIN);
        }
        false
    }

    /// Has namespaces go on by images that are open; whether they do.
    fn go_over(&self, ready: &[OpenRequest]) -> bool {
        match self.configurator.carry_out(&ChangeRequest { reconnected: ready, ..ChangeRequest::SAME }) {
            Ok(_) => true,
            Err(_) if self.configurator.has_ended() => false,
            Err(error) => {
                tracing::warn!(%error, "cannot move namespaces to the new connection; retrying");
                false
            }
        }
    }

    /// Asks a cluster something by a connection.
    fn ask(&self, cluster: &Arc<Cluster>) -> Answer<Result<(), CephError>> {
        let (cluster, image) = (cluster.clone(), self.image.clone());
        answer(move || cluster.ask(&image.pool, &image.namespace, &image.image))
    }

    /// Does something on a thread of its own, and waits for its outcome for this time: Ceph's library may take longer.
    fn within<T: Send + 'static>(
        &self,
        patience: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        self.wait(&answer(work), patience)
    }

    /// Waits for an answer for this time, unless the target ends.
    fn wait<T>(&self, answer: &Answer<T>, patience: Duration) -> Option<T> {
        let end = now().after(patience);
        loop {
            let left = end.since(now());
            match answer.recv_timeout(left.min(LOOK)) {
                Ok(answer) => return Some(answer),
                Err(RecvTimeoutError::Timeout) if left > LOOK && !self.has_ended() => {}
                Err(_) => return None,
            }
        }
    }

    fn sleep(&self, time: Duration) {
        let end = now().after(time);
        while now() < end && !self.has_ended() {
            thread::sleep(LOOK.min(end.since(now())));
        }
    }

    fn fabric(&self) -> &Fabric {
        self.configurator.fabric()
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }
}

/// Does something on a thread of its own.
fn answer<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Answer<T> {
    let (sender, answer) = channel();
    let ask = move || {
        // The receiver may have stopped waiting.
        let _ = sender.send(work());
    };
    if let Err(error) = thread::Builder::new().name("ceph-ask".to_owned()).spawn(ask) {
        tracing::warn!(%error, "no thread to ask a cluster");
    }
    answer
}

/// The images that are open on a connection, as they would be opened on another, and where they are.
fn images_on(fabric: &Fabric, cluster: &Arc<Cluster>) -> Vec<(OpenRequest, RbdConfig)> {
    let mut images = Vec::new();
    let directory = fabric.directory();
    for subsystem in &directory.subsystems {
        let state = subsystem.state();
        for (config, namespace) in pairs(&state.config, &state.namespaces) {
            if let (Backend::Device(Device::Rbd(rbd)), BackendConfig::Rbd(image)) =
                (&*namespace.backend, &config.backend)
                && Arc::ptr_eq(rbd.cluster(), cluster)
            {
                images.push((
                    OpenRequest::of(&subsystem.nqn, config, directory.directives.opening).reconnecting(),
                    image.clone(),
                ));
            }
        }
    }
    images
}
