//! A thread that waits for images that report a change, or are absent, and has the target look at them: hosts learn of a new
//! size at once, and soon of an image that is available again. What an image reports, and how, is `ceph`'s.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::change_request::{Absence, ChangeRequest};
use super::configurator::Configurator;
use super::image_reconnection::{self as reconnection, TRY_AGAIN};
use crate::backend::BackendConfig;
use crate::ceph::{Clusters, News};
use crate::limits::CEPH_CLOSE_TIMEOUT_MS;
use crate::ring::thread::{self, JoinHandle};
use crate::ring::{Vital, core};
use crate::target::config::FabricConfig;
use crate::target::fabric::{Fabric, Reactors, TargetConfig};

/// Longest sleep of the thread before it checks whether it is still needed.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);

/// The thread, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct ImageWatch {
    has_ended: Arc<AtomicBool>,
    news: Arc<News>,
    thread: Option<JoinHandle<()>>,
}

impl ImageWatch {
    /// Starts it; `None` when the system gives no thread, and then hosts learn of new sizes with the next change.
    pub(crate) fn start(configurator: &Arc<Configurator>) -> Option<Self> {
        let (news, has_ended) = (configurator.fabric().clusters().news(), Arc::new(AtomicBool::new(false)));
        let watch = {
            let configurator = configurator.clone();
            let (news, has_ended) = (news.clone(), has_ended.clone());
            move || {
                let _vital = Vital::begin();
                // What was absent from the beginning is tried again soon.
                let mut timeout = TRY_AGAIN;
                loop {
                    let is_new = news.wait(timeout);
                    if has_ended.load(Ordering::Acquire) {
                        return;
                    }
                    reconnection::start_all(&configurator, &has_ended);
                    if is_new || timeout == TRY_AGAIN {
                        let absence = if is_new { Absence::Allowed } else { Absence::TriedAgain };
                        let is_done = look(&configurator, absence);
                        timeout = if is_done { LOOK_AGAIN } else { TRY_AGAIN };
                    }
                }
            }
        };
        let spawned = thread::Builder::new().name("image-watch".to_owned()).spawn(watch);
        let thread = spawned.inspect_err(|error| tracing::warn!(%error, "no thread to watch images")).ok()?;
        Some(Self { has_ended, news, thread: Some(thread) })
    }
}

impl Drop for ImageWatch {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Release);
        self.news.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Has the target look at all namespaces, as with any other change; whether all is as it should be.
fn look(configurator: &Configurator, absence: Absence) -> bool {
    match configurator.carry_out(&ChangeRequest { absence, ..ChangeRequest::SAME }) {
        Ok(_) => configurator.fabric().absent().is_empty(),
        Err(_) if configurator.has_ended() => true,
        Err(error) => {
            tracing::warn!(%error, "cannot apply the change of an image; retrying");
            false
        }
    }
}

/// Waits until images that are no longer used are closed: only then are they free for other clients.
pub(crate) fn wait_for_closings(fabric: &Fabric) {
    if !fabric.clusters().image_closer().wait(Duration::from_millis(CEPH_CLOSE_TIMEOUT_MS)) {
        tracing::warn!("images are still being closed; their cluster does not answer");
    }
}

/// Connections to Ceph clusters, whose libraries' threads keep off the processors that have a reactor of their own.
pub(crate) fn clusters(config: &TargetConfig) -> Clusters {
    let taken: &[usize] = match &config.reactors {
        Reactors::Cpus(cpus) => cpus,
        Reactors::Count(_) => return Clusters::new(config.ceph.clone(), Vec::new()),
    };
    let left = core::available().into_iter().filter(|cpu| !taken.contains(cpu));
    Clusters::new(config.ceph.clone(), left.map(|cpu| cpu as u32).collect())
}

/// True if the configuration has images of Ceph clusters.
pub(crate) fn has_images(fabric: &FabricConfig) -> bool {
    let mut namespaces = fabric.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
    namespaces.any(|namespace| matches!(namespace.backend, BackendConfig::Rbd(_)))
}
