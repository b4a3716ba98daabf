//! Shared state of a group of gateways: two objects of a Ceph cluster, and its blocklist. The store
//! decides nothing; it replaces a connection that the cluster has put on the blocklist.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::ceph::{CephError, Cluster, ClusterOptions, Object, ObjectChange, Pairs, Pool, Watch};
use engine::limits::{
    CEPH_CONNECT_TIMEOUT_MS, GATEWAY_CONNECT_TIMEOUT_MS, GATEWAY_CONNECTIONS_MAX, GATEWAY_LATE_MAX,
    GATEWAY_NOTIFY_TIMEOUT_MS, GATEWAY_OPERATION_TIMEOUT_MS, GATEWAYS_MAX,
};
use engine::ring::channel::SyncSender;
use engine::ring::thread;
use serde::de::DeserializeOwned;

use super::beat::Beat;
use super::presence::Presence;
use super::spec::GroupSpec;
use super::state::{GroupState, VERSION_KEY, version_in};
use super::state_error::StateError;

/// Error of the cluster for a connection that is on its blocklist (`ESHUTDOWN`).
const SHUT_OUT: i32 = 108;
/// Error of an operation that took too long (`ETIMEDOUT`).
const LATE: i32 = 110;

/// Looks whether anybody uses a connection yet that is to be closed, ten in an operation's time.
const CLOSE_LOOKS: usize = 50;

/// Why something shared cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// The cluster.
    #[error(transparent)]
    Ceph(#[from] CephError),
    /// The content was not written by a gateway.
    #[error("the gateways' group cannot be read: {0}")]
    Damaged(#[from] StateError),
    /// Others change the state each time before this gateway does.
    #[error("the gateways' group cannot be read: too many concurrent changes to the group")]
    Contended,
    /// The object has existed, and is gone.
    #[error("the gateways' group {0} no longer exists")]
    Gone(String),
    /// There are as many gateways as there can be.
    #[error(
        "the group has {max} gateways and can have no more; `selvedge gateways remove NAME` removes one that will not return",
        max = GATEWAYS_MAX
    )]
    Full,
    /// This gateway has made as many connections for images as it may.
    #[error(
        "this gateway has {max} connections for images, the most that others can put on the blocklist; let more images \
         share one (--bdevs-per-cluster)",
        max = GATEWAY_CONNECTIONS_MAX
    )]
    Connections,
    /// The other gateways have put this one on the blocklist.
    #[error("the other gateways have given this one up")]
    GivenUp,
    /// An image is in another cluster than the group.
    #[error(
        "it is cluster {fsid}, and the gateways' group {group} is in cluster {own}, where alone gateways can shut each other out; \
         serve it by a group of its own, in its cluster"
    )]
    OtherCluster {
        /// Cluster of the image.
        fsid: String,
        /// The group.
        group: String,
        /// Cluster of the group.
        own: String,
    },
}

impl StoreError {
    /// True if the cluster has only taken too long: the operation may have happened, or may happen
    /// yet.
    pub(crate) fn is_late(&self) -> bool {
        matches!(self, Self::Ceph(error) if error.code() == Some(LATE))
    }
}

/// Values of an object that are of this kind, by gateway name. Malformed ones are left out.
pub(crate) fn known_in<T: DeserializeOwned>(pairs: Pairs) -> BTreeMap<String, T> {
    let known = |(name, value): (String, Vec<u8>)| Some((name, serde_json::from_slice(&value).ok()?));
    pairs.into_iter().filter_map(known).collect()
}

/// Access to the shared state of a group of gateways.
#[derive(Debug)]
pub(crate) struct Store {
    spec: GroupSpec,
    /// Rings when others have changed something.
    signal: SyncSender<()>,
    connection: Mutex<Arc<Connection>>,
    /// Operations that were too late since the last one that was not.
    late: AtomicUsize,
    watch: Mutex<Option<Watch>>,
}

#[derive(Debug)]
struct Connection {
    cluster: Arc<Cluster>,
    group: Object,
    beats: Object,
    hosts: Object,
}

impl Connection {
    fn new(spec: &GroupSpec, connect_timeout_ms: u64) -> Result<Self, CephError> {
        let options = ClusterOptions {
            conf: spec.conf.clone(),
            id: spec.id.clone(),
            connect_timeout_ms,
            operation_timeout_ms: GATEWAY_OPERATION_TIMEOUT_MS,
            cpus: Vec::new(),
        };
        let cluster = Cluster::connect(&options)?;
        let pool = Arc::new(Pool::open(cluster.clone(), &spec.pool, &spec.namespace)?);
        let group = Object::new(pool.clone(), &format!("selvedge.group.{}", spec.group))?;
        let beats = Object::new(pool.clone(), &format!("selvedge.beats.{}", spec.group))?;
        let hosts = Object::new(pool, &format!("selvedge.hosts.{}", spec.group))?;
        Ok(Self { cluster, group, beats, hosts })
    }
}

impl Store {
    /// Connects to the group's cluster. `signal` is sent when other gateways have changed something.
    pub(crate) fn connect(spec: GroupSpec, signal: SyncSender<()>) -> Result<Self, CephError> {
        let connection = Mutex::new(Arc::new(Connection::new(&spec, CEPH_CONNECT_TIMEOUT_MS)?));
        Ok(Self { spec, signal, connection, late: AtomicUsize::new(0), watch: Mutex::default() })
    }

    /// Group, and the way to its cluster.
    pub(crate) const fn spec(&self) -> &GroupSpec {
        &self.spec
    }

    /// The state as it is now; that of a group that is not there yet is empty.
    pub(crate) fn state(&self) -> Result<GroupState, StoreError> {
        let pairs = self.look_after(self.connection().group.pairs(""))?;
        Ok(GroupState::of_pairs(&pairs.unwrap_or_default())?)
    }

    /// The state's version.
    pub(crate) fn version(&self) -> Result<u64, StoreError> {
        let pairs = self.look_after(self.connection().group.pairs(VERSION_KEY))?;
        let pairs = pairs.ok_or_else(|| StoreError::Gone(self.spec.to_string()))?;
        version_in(&pairs).ok_or(StoreError::Damaged(StateError::NoVersion))
    }

    /// Replaces `before` by `after`, with the next version. `false` if another gateway has changed
    /// it.
    pub(crate) fn change(&self, before: &GroupState, after: &mut GroupState) -> Result<bool, StoreError> {
        after.end_broken_hold(before);
        let change = after.change_from(before);
        Ok(self.look_after(self.connection().group.change(&change))?)
    }

    /// Tells the other gateways that something has changed.
    pub(crate) fn tell(&self) {
        // One that is dead never answers, and all see the change with their next beat anyway.
        if let Err(error) = self.connection().group.notify(GATEWAY_NOTIFY_TIMEOUT_MS) {
            tracing::debug!(%error, "not all gateways have heard of a change");
        }
    }

    /// Says that a gateway lives.
    pub(crate) fn beat(&self, name: &str, beat: &Beat) -> Result<(), StoreError> {
        let value = serde_json::to_vec(beat).expect("plain data");
        let set = Pairs::from([(name.to_owned(), value)]);
        let change = ObjectChange { set, ..ObjectChange::default() };
        self.look_after(self.connection().beats.change(&change)).map(drop)?;
        Ok(())
    }

    /// Takes away what a gateway has said last.
    pub(crate) fn forget_beat(&self, name: &str) -> Result<(), StoreError> {
        let change = ObjectChange { remove: vec![name.to_owned()], ..ObjectChange::default() };
        self.look_after(self.connection().beats.change(&change)).map(drop)?;
        Ok(())
    }

    /// The last beats of all gateways. What is not a beat is left out.
    pub(crate) fn beats(&self) -> Result<BTreeMap<String, Beat>, StoreError> {
        let pairs = self.look_after(self.connection().beats.pairs(""))?.unwrap_or_default();
        Ok(known_in(pairs))
    }

    /// Says which hosts are at a gateway.
    pub(crate) fn say_presence(&self, name: &str, presence: &Presence) -> Result<(), StoreError> {
        let value = serde_json::to_vec(presence).expect("plain data");
        let set = Pairs::from([(name.to_owned(), value)]);
        let change = ObjectChange { set, ..ObjectChange::default() };
        self.look_after(self.connection().hosts.change(&change)).map(drop)?;
        Ok(())
    }

    /// Reports of gateways on their hosts. Malformed ones are left out.
    pub(crate) fn presences(&self) -> Result<BTreeMap<String, Presence>, StoreError> {
        let pairs = self.look_after(self.connection().hosts.pairs(""))?.unwrap_or_default();
        Ok(known_in(pairs))
    }

    /// Takes away what these gateways have said of their hosts.
    pub(crate) fn forget_presences(&self, names: Vec<String>) -> Result<(), StoreError> {
        let change = ObjectChange { remove: names, ..ObjectChange::default() };
        self.look_after(self.connection().hosts.change(&change)).map(drop)?;
        Ok(())
    }

    /// Checks that the cluster with this identifier is the group's.
    ///
    /// # Errors
    /// `OtherCluster`: connections on the group's blocklist can go on writing there.
    pub(crate) fn is_of(&self, fsid: &str) -> Result<(), StoreError> {
        let own = self.connection().cluster.fsid();
        if fsid == own {
            return Ok(());
        }
        Err(StoreError::OtherCluster { fsid: fsid.to_owned(), group: self.spec.to_string(), own })
    }

    /// Puts these connections on the blocklist for this number of seconds, and waits until this one works by a map that has them.
    pub(crate) fn fence(&self, addresses: &BTreeSet<String>, seconds: u32) -> Result<(), StoreError> {
        let connection = self.connection();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        connection.cluster.blocklist_all(&addresses, seconds)?;
        Ok(self.look_after(connection.cluster.wait_for_latest_map())?)
    }

    /// Makes another connection when this one is silent, which takes a while. The first that the cluster answers is used.
    pub(crate) fn keep_connected(&self) -> Result<(), StoreError> {
        if !self.is_silent() {
            return Ok(());
        }
        let connection = Arc::new(Connection::new(&self.spec, GATEWAY_CONNECT_TIMEOUT_MS)?);
        if !self.is_silent() {
            return Ok(());
        }
        tracing::info!(group = %self.spec, "reconnected to the cluster, which did not answer on the previous connection");
        let silent = std::mem::replace(&mut *self.lock(), connection);
        self.late.store(0, Ordering::Relaxed);
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The library may not let go of them before the cluster answers, or their time is over.
        let close = move || {
            drop(watch);
            // Users of the old connection get an error within an operation's time, and are not kept
            // waiting by its end.
            for _ in 0..CLOSE_LOOKS {
                if Arc::strong_count(&silent) == 1 {
                    break;
                }
                thread::sleep(Duration::from_millis(GATEWAY_OPERATION_TIMEOUT_MS / 10));
            }
        };
        if let Err(error) = thread::Builder::new().name("gateway-close".to_owned()).spawn(close) {
            tracing::warn!(%error, "cannot start a thread to close a Ceph connection");
        }
        Ok(())
    }

    /// True if the cluster has not answered for a while.
    fn is_silent(&self) -> bool {
        self.late.load(Ordering::Relaxed) >= GATEWAY_LATE_MAX
    }

    /// Sees to it that changes of others are heard of.
    pub(crate) fn keep_watching(&self) -> Result<(), StoreError> {
        // A cluster that is silent may keep who asks it for this, and there is nothing to be heard.
        if self.is_silent() {
            return Ok(());
        }
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        if watch.as_ref().is_some_and(|watch| !watch.is_lost()) {
            return Ok(());
        }
        *watch = None;
        *watch = Some(self.look_after(Watch::start(&self.connection().group, self.signal.clone()))?);
        Ok(())
    }

    fn connection(&self) -> Arc<Connection> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Connection>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reconnects when the cluster has put this connection on the blocklist. The caller has to
    /// retry the operation.
    fn look_after<T>(&self, outcome: Result<T, CephError>) -> Result<T, CephError> {
        let Err(error) = &outcome else {
            self.late.store(0, Ordering::Relaxed);
            return outcome;
        };
        if error.code() == Some(LATE) {
            self.late.fetch_add(1, Ordering::Relaxed);
        }
        if error.code() == Some(SHUT_OUT) {
            tracing::warn!(group = %self.spec, "the cluster has put this gateway's connection on its blocklist; reconnecting");
            *self.lock() = Arc::new(Connection::new(&self.spec, GATEWAY_CONNECT_TIMEOUT_MS)?);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_shared_state_says_what_to_do() {
        let [fsid, group, own] = ["a", "rbd/gw", "b"].map(str::to_owned);
        for (error, said) in [
            (
                StoreError::Damaged(StateError::NoConfiguration),
                "the gateways' group cannot be read: it has no configuration",
            ),
            (
                StoreError::Contended,
                "the gateways' group cannot be read: too many concurrent changes to the group",
            ),
            (StoreError::Gone("rbd/gw".to_owned()), "the gateways' group rbd/gw no longer exists"),
            (StoreError::GivenUp, "the other gateways have given this one up"),
            (
                StoreError::OtherCluster { fsid, group, own },
                "it is cluster a, and the gateways' group rbd/gw is in cluster b, where alone gateways can shut each other \
                 out; serve it by a group of its own, in its cluster",
            ),
        ] {
            assert_eq!(error.to_string(), said);
        }
        for (error, hint) in [
            (StoreError::Full, "`selvedge gateways remove NAME` removes one that will not return"),
            (StoreError::Connections, "let more images share one (--bdevs-per-cluster)"),
        ] {
            assert!(error.to_string().ends_with(hint), "{error}");
        }
    }
}
