//! Hand-over of images of Ceph clusters: each process has its own handle, and the owner of an
//! image's exclusive lock writes to it. The old process gives the locks back when all is
//! quiesced, since its library has then carried out or refused all requests, and refuses later
//! ones; the new process takes them before it reports that it has taken over.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::ceph::{CephError, ClusterConnection};
use crate::hand_over::HandOverError;
use crate::limits::{CEPH_FENCE_S, IMAGES_BACK_MS};
use crate::ring::{now, thread};
use crate::target::Target;
use crate::target::change;
use crate::target::served::Namespace;

/// Interval of attempts to lock an image again.
const TRY_AGAIN: Duration = Duration::from_millis(200);

impl Target {
    /// The namespaces whose images need their locks, which this target has: by subsystem and identifier.
    pub fn locked_images(&self) -> BTreeSet<(String, u32)> {
        let images = self.images_to_release().into_iter();
        images.map(|namespace| (namespace.nqn.clone(), namespace.nsid)).collect()
    }

    fn images_to_release(&self) -> Vec<Arc<Namespace>> {
        let directives = self.directives();
        let is_ours = |(nqn, namespace): &(String, Arc<Namespace>)| {
            namespace.backend.needs_lock() && !directives.is_standby(nqn, namespace.nsid)
        };
        let namespaces = self.fabric.namespaces().into_iter().filter(is_ours);
        namespaces.map(|(_, namespace)| namespace).collect()
    }

    /// The connections of its images, by which another process can shut this one out.
    ///
    /// # Errors
    /// When Ceph's library does not tell.
    pub fn cluster_connections(&self) -> Result<Vec<ClusterConnection>, CephError> {
        self.fabric.clusters().connections()
    }

    /// Gives the locks of all images back, for the process that goes on in this one's place. All has to rest: what this one
    /// began is done, and what it would begin now is refused by the library.
    ///
    /// # Errors
    /// Which image stays locked, or may be written to yet. [`Self::take_images_back`] is due then.
    pub fn release_images(&self) -> Result<(), HandOverError> {
        let images = self.images_to_release();
        // Looked at only now: until all rested, a command could become late.
        if let Some(late) = images.iter().find(|namespace| namespace.backend.has_been_late()) {
            return Err(HandOverError::ImageLate { nqn: late.nqn.clone(), nsid: late.nsid });
        }
        let images: Vec<&Namespace> = images.iter().map(Arc::as_ref).collect();
        let failures = change::set_standby(&images, true);
        match failures.into_iter().next() {
            None => Ok(()),
            Some((at, error)) => Err(HandOverError::ImageLocked {
                nqn: images[at].nqn.clone(),
                nsid: images[at].nsid,
                source: Box::new(error),
            }),
        }
    }

    /// Has the locks of all images again that were given back, in place of another process that is not to serve. Where that one
    /// is gone, or may not know yet, its connections are shut out first: it has, or will have, the locks.
    pub fn take_images_back(&self, from: &[ClusterConnection]) {
        let images = self.images_to_release();
        if !from.is_empty()
            && !images.is_empty()
            && let Err(error) = self.shut_out(from)
        {
            tracing::warn!(
                %error,
                "the connections of the new process to the cluster are not blocklisted; hosts can write to its images when it \
                 has ended"
            );
        }
        let mut images: Vec<&Namespace> = images.iter().map(Arc::as_ref).collect();
        let end = now().after(Duration::from_millis(IMAGES_BACK_MS));
        loop {
            let failures = change::set_standby(&images, false);
            let Some((_, error)) = failures.first() else { return };
            if now() >= end {
                return tracing::error!(
                    %error,
                    count = failures.len(),
                    "images are locked by another process; their hosts cannot write until it has ended"
                );
            }
            tracing::warn!(%error, "an image is not available again yet; retrying");
            images = failures.iter().map(|(at, _)| images[*at]).collect();
            thread::sleep(TRY_AGAIN);
        }
    }

    /// Forbids the connections of another process everything, for good: it may have been stopped, and go on at any time.
    ///
    /// # Errors
    /// When a cluster refuses, or does not answer.
    pub fn shut_out(&self, connections: &[ClusterConnection]) -> Result<(), CephError> {
        self.fabric.clusters().shut_out(connections, CEPH_FENCE_S)
    }

    /// Closes images that stayed open because of late commands, and whose connections have these
    /// addresses, which are on the blocklist now.
    pub fn close_shut_out(&self, addresses: &BTreeSet<String>) {
        self.fabric.clusters().close_shut_out(addresses);
    }
}
