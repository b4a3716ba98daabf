//! The connections that a target's images share: a number of images to each, and what has to happen before the first.
//! What a connection is belongs to `cluster`, who may open an image to the gateways.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::late_images::LateImages;
use super::{CephError, Cluster, ClusterOptions, ImageCloser};
use crate::limits::{
    CEPH_CONNECT_TIMEOUT_MS, CEPH_OPERATION_TIMEOUT_MS, CEPH_RECONNECT_MS, IMAGES_PER_CLUSTER,
};
use crate::ring::lock::Mutex;
use crate::ring::{EventCount, Moment, now};
use crate::time_bound::TimeBound;

/// Use of Ceph clusters by a target.
#[derive(Clone, Debug)]
pub struct CephConfig {
    /// Number of images that share one connection to their cluster, from 1 on (ceph-nvmeof's
    /// `bdevs_per_cluster`).
    pub bdevs_per_cluster: usize,
    /// Commands that take longer fail, and may be tried again, in milliseconds; 0 lets them wait for as long as it takes.
    pub operation_timeout_ms: u64,
    /// Step that precedes the opening of the first image on a new connection.
    pub before_use: Option<BeforeUse>,
    /// Set if other targets serve the same images: each of them then needs an exclusive lock.
    pub are_images_shared: bool,
}

impl Default for CephConfig {
    fn default() -> Self {
        Self {
            bdevs_per_cluster: IMAGES_PER_CLUSTER,
            operation_timeout_ms: CEPH_OPERATION_TIMEOUT_MS,
            before_use: None,
            are_images_shared: false,
        }
    }
}

/// Is notified of a new connection before any image is opened on it, and may forbid that by an error.
#[derive(Clone)]
pub struct BeforeUse(pub Arc<Allowance>);

/// Takes a connection; `CephError::NotAllowed` says why it must not be used.
pub type Allowance = dyn Fn(&Arc<Cluster>) -> Result<(), CephError> + Send + Sync;

impl fmt::Debug for BeforeUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BeforeUse")
    }
}

/// The connections that a target's images share.
#[derive(Debug, Default)]
pub struct Clusters {
    config: CephConfig,
    /// The processors that the libraries' threads may use; all when it is empty.
    cpus: Vec<u32>,
    shared: Mutex<Vec<Shared>>,
    /// Connections that could not be made a moment ago, and why.
    failed: Mutex<Vec<(ClusterOptions, Moment, String)>>,
    late: Arc<LateImages>,
    closer: Arc<ImageCloser>,
    news: Arc<News>,
    refused: Arc<Refused>,
}

/// The latest generation of connections of which one was refused, counted from 1: it had been put
/// on the blocklist, and will never do anything again. A refusal is only recorded; no thread waits
/// for it, least of all one that is connecting.
#[derive(Debug, Default)]
struct Refused(AtomicU64);

/// A connection of some process, by what its cluster knows of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterConnection {
    /// The cluster's identifier.
    pub fsid: String,
    /// Addresses as the blocklist takes them.
    pub address: String,
}

/// A connection that images share.
#[derive(Debug)]
struct Shared {
    cluster: Weak<Cluster>,
    /// There are as many images on it as there are of these beside this one.
    users: Arc<()>,
}

/// Handle of a connection to a cluster, for one image.
#[derive(Debug)]
pub struct ClusterHandle {
    /// The connection.
    pub cluster: Arc<Cluster>,
    _user: Arc<()>,
    generation: u64,
    late: Arc<LateImages>,
    refused: Arc<Refused>,
}

impl ClusterHandle {
    /// Records that the cluster has refused an operation, since the connection is on the blocklist.
    pub fn note_refused(&self) {
        self.refused.0.fetch_max(self.generation + 1, Ordering::Release);
    }

    /// Keeps a locked image of a gateway open if a command on it may still be carried out, until
    /// this connection is shut out, which the gateway is asked for. Returns one that can be closed.
    pub fn keep_late<T: Send + 'static>(&self, image: T) -> Option<T> {
        // Without an address it stays open until the end.
        self.late.keep(self.generation, || self.cluster.address().unwrap_or_default(), image)
    }
}

impl Clusters {
    /// Connections by `config`, whose libraries' threads keep to `cpus` unless that is empty.
    pub fn new(config: CephConfig, cpus: Vec<u32>) -> Self {
        Self { config, cpus, late: Arc::new(LateImages::from_now_on()), ..Self::default() }
    }

    /// Longest time that a command may be at an image. Where gateways share images, the one that
    /// takes over has shut the others out before, however long their commands take.
    pub fn time_bound(&self) -> TimeBound {
        match self.config.operation_timeout_ms {
            _ if self.config.are_images_shared => TimeBound::Unknown,
            0 => TimeBound::None("a command waits for its cluster without end (--ceph-timeout 0)"),
            timeout_ms => TimeBound::Known(Duration::from_millis(timeout_ms), "--ceph-timeout".to_owned()),
        }
    }

    /// A handle for one more image on a connection as `id` with this configuration file; on a new one when all are full.
    ///
    /// # Errors
    /// When no connection is available, or the new one must not be used.
    pub fn handle(&self, conf: Option<&Path>, id: Option<&str>) -> Result<ClusterHandle, CephError> {
        let options = ClusterOptions {
            conf: conf.map(Path::to_owned),
            id: id.map(str::to_owned),
            connect_timeout_ms: CEPH_CONNECT_TIMEOUT_MS,
            operation_timeout_ms: self.config.operation_timeout_ms,
            cpus: self.cpus.clone(),
        };
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.retain(|known| known.cluster.strong_count() > 0);
        for known in &*shared {
            let Some(cluster) = known.cluster.upgrade() else { continue };
            if *cluster.options() == options
                && Arc::strong_count(&known.users) <= self.config.bdevs_per_cluster.max(1)
            {
                return Ok(self.handle_on(cluster, known.users.clone()));
            }
        }
        let cluster = self.connect(&options)?;
        self.allow(&cluster)?;
        let users = Arc::new(());
        shared.push(Shared { cluster: Arc::downgrade(&cluster), users: users.clone() });
        Ok(self.handle_on(cluster, users))
    }

    /// A handle of a connection. The caller has locked the connections, and they are not
    /// forgotten meanwhile.
    fn handle_on(&self, cluster: Arc<Cluster>, user: Arc<()>) -> ClusterHandle {
        let (generation, late, refused) = (self.late.generation(), self.late.clone(), self.refused.clone());
        ClusterHandle { cluster, _user: user, generation, late, refused }
    }

    /// A connection as `id` with this configuration file that images share already, to look at others by it. It takes no place.
    pub fn shared(&self, conf: Option<&Path>, id: Option<&str>) -> Option<Arc<Cluster>> {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = shared.iter().filter_map(|known| known.cluster.upgrade());
        known.find(|cluster| {
            let options = cluster.options();
            (options.conf.as_deref(), options.id.as_deref()) == (conf, id)
        })
    }

    /// Does what has to happen before the first image is opened on a new connection.
    ///
    /// # Errors
    /// When it must not be used.
    pub fn allow(&self, cluster: &Arc<Cluster>) -> Result<(), CephError> {
        let Some(BeforeUse(before_use)) = &self.config.before_use else { return Ok(()) };
        before_use(cluster)
    }

    /// Opens further images on `new`, which was permitted, for as long as it is in use, and no
    /// others on `silent`.
    pub fn replace(&self, silent: &Arc<Cluster>, new: &Arc<Cluster>) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.retain(|known| known.cluster.as_ptr() != Arc::as_ptr(silent));
        shared.push(Shared { cluster: Arc::downgrade(new), users: Arc::new(()) });
    }

    /// The connections with operations that took too long, which the caller looks after from now on. Those of a group's gateways
    /// are the group's business.
    pub fn take_late(&self) -> Vec<Arc<Cluster>> {
        let mut late = if self.config.are_images_shared { Vec::new() } else { self.all() };
        late.retain(|cluster| cluster.take_late());
        late
    }

    /// Has those looked after as well that reach the same cluster in the same way as this one, which is silent.
    pub fn suspect_others(&self, silent: &Cluster) {
        for cluster in self.all().iter().filter(|cluster| cluster.options() == silent.options()) {
            cluster.note_late();
        }
        self.news.tell();
    }

    fn all(&self) -> Vec<Arc<Cluster>> {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.iter().filter_map(|known| known.cluster.upgrade()).collect()
    }

    /// A new connection. One that failed a moment ago is not tried again at once: many images ask, and each would
    /// wait for as long as the first.
    fn connect(&self, options: &ClusterOptions) -> Result<Arc<Cluster>, CephError> {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.retain(|(_, when, _)| now().since(*when) < Duration::from_millis(CEPH_RECONNECT_MS));
        if let Some((.., reason)) = failed.iter().find(|(known, ..)| known == options) {
            return Err(CephError::AsBefore { reason: reason.clone() });
        }
        Cluster::connect(options).inspect_err(|error| {
            failed.push((options.clone(), now(), error.to_string()));
        })
    }

    /// The addresses of all connections there are.
    ///
    /// # Errors
    /// When the library does not tell.
    pub fn addresses(&self) -> Result<Vec<String>, CephError> {
        self.all().iter().map(|cluster| cluster.address()).collect()
    }

    /// All connections there are, as another process can shut them out.
    ///
    /// # Errors
    /// When the library does not tell.
    pub fn connections(&self) -> Result<Vec<ClusterConnection>, CephError> {
        let connection = |cluster: &Arc<Cluster>| {
            Ok(ClusterConnection { fsid: cluster.fsid(), address: cluster.address()? })
        };
        self.all().iter().map(connection).collect()
    }

    /// Puts connections of another process on the blocklists of their clusters for this number of seconds, and waits until those
    /// of this one work by maps that have them.
    ///
    /// # Errors
    /// When a cluster refuses, does not answer, or this process is not connected to it.
    pub fn shut_out(&self, connections: &[ClusterConnection], seconds: u32) -> Result<(), CephError> {
        let all = self.all();
        let fsids: BTreeSet<&String> = connections.iter().map(|connection| &connection.fsid).collect();
        for fsid in fsids {
            let of = |connection: &&ClusterConnection| connection.fsid == *fsid;
            let addresses: Vec<&str> = connections.iter().filter(of).map(|one| &*one.address).collect();
            let outcomes = all.iter().filter(|cluster| cluster.fsid() == *fsid);
            // One user may do it where another may not.
            let mut outcomes = outcomes.map(|cluster| cluster.blocklist_all(&addresses, seconds));
            let not_connected =
                || CephError::NotAllowed { reason: format!("cluster {fsid} is not used here") };
            let first = outcomes.next().ok_or_else(not_connected)?;
            first.or_else(|error| outcomes.find(Result::is_ok).ok_or(error)?)?;
        }
        self.wait_for_latest_maps()
    }

    /// No further image is opened on the connections that there are; those that are open stay.
    pub fn forget(&self) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        self.late.forget();
        shared.clear();
    }

    /// Closes images that stayed open because of late commands, and whose connections have these
    /// addresses: they are on the blocklist now.
    pub fn close_shut_out(&self, addresses: &BTreeSet<String>) {
        let images = self.late.shut_out(addresses);
        if !images.is_empty() {
            self.closer.close(images, false);
        }
    }

    /// True if an operation on these connections has taken too long, and may still be carried out:
    /// as long as that is so, a command that has ended may yet take effect. A gateway that shuts
    /// others out is asked to do it with this one.
    pub fn has_late(&self) -> bool {
        self.late.has_late()
    }

    /// True if [`Self::has_late`] was asked while it was true, or an image stays open because of it.
    pub fn awaits_fence(&self) -> bool {
        self.late.awaits_fence()
    }

    /// True if a cluster has refused an operation on one of these connections, since it is on the
    /// blocklist.
    pub fn are_refused(&self) -> bool {
        self.refused.0.load(Ordering::Acquire) > self.late.generation()
    }

    /// Waits until all connections there are work by the newest maps of their clusters, the blocklists included. One that is
    /// made later does so from the beginning.
    ///
    /// # Errors
    /// When a cluster does not answer.
    pub fn wait_for_latest_maps(&self) -> Result<(), CephError> {
        self.all().iter().try_for_each(|cluster| cluster.wait_for_latest_map())
    }

    /// True if other targets serve the same images.
    pub const fn are_images_shared(&self) -> bool {
        self.config.are_images_shared
    }

    /// Notices of changes to images.
    pub fn news(&self) -> Arc<News> {
        self.news.clone()
    }

    /// Closer of images that are no longer used.
    pub fn image_closer(&self) -> Arc<ImageCloser> {
        self.closer.clone()
    }
}

/// Notice that an image's header has changed since the last look.
#[derive(Debug, Default)]
pub struct News {
    is_new: AtomicBool,
    event_count: EventCount,
}

impl News {
    /// There is something to be looked at.
    pub fn tell(&self) {
        self.is_new.store(true, Ordering::Release);
        self.event_count.notify_all();
    }

    /// Wakes who waits, with news or without.
    pub fn wake(&self) {
        self.event_count.notify_all();
    }

    /// Waits for a notice, for `timeout` at most; true if there is one. Each is returned once.
    pub fn wait(&self, timeout: Duration) -> bool {
        let seen = self.event_count.count();
        if !self.is_new.load(Ordering::Acquire) {
            self.event_count.wait(seen, timeout);
        }
        self.is_new.swap(false, Ordering::AcqRel)
    }
}
