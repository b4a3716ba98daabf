//! The connections to Ceph clusters that this target has for its images, kept in the state directory, so that the next one
//! to have the directory can put those of a target that was killed on their clusters' blocklists: then its images are available
//! at once, and not only when the cluster has missed it. When images are opened is not decided here.

use std::collections::BTreeSet;
use std::io;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use engine::ceph::{BeforeUse, CephError, Cluster};
use engine::limits::{CEPH_CONNECT_TIMEOUT_MS, CEPH_CONNECTIONS_KEPT_MAX, KILLED_TARGET_FENCE_S};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::state_directory::StateDirectory;

/// The version this program writes, and the only one it reads.
const VERSION: u32 = 1;
const NAME: &str = "ceph-connections.json";
/// Bytes of an identifier, a user's name or an address, of each more than any has.
const TEXT_BYTES_MAX: usize = 256;
/// Bytes of a file that is read: this number of connections with the longest texts and what stands around them.
const FILE_BYTES_MAX: u64 = (CEPH_CONNECTIONS_KEPT_MAX * (3 * TEXT_BYTES_MAX + 256)) as u64;

/// A directory that stays this process' until that has ended, since it has connections.
static KEPT: OnceLock<Arc<StateDirectory>> = OnceLock::new();

/// A connection, by what its cluster knows of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Connection {
    /// The cluster's identifier.
    fsid: String,
    /// The user, without `client.`.
    id: String,
    address: String,
}

impl Connection {
    fn of(cluster: &Cluster) -> Result<Self, CephError> {
        let id = cluster.options().id().to_owned();
        Ok(Self { fsid: cluster.fsid(), id, address: cluster.address()? })
    }

    fn is_sound(&self) -> bool {
        let is_text = |text: &String| {
            !text.is_empty() && text.len() <= TEXT_BYTES_MAX && !text.contains(char::is_control)
        };
        [&self.fsid, &self.id, &self.address].into_iter().all(is_text) && names_one(&self.address)
    }
}

/// True if an address is that of a single connection: a nonce of 0 stands for all connections of
/// its machine.
pub fn names_one(address: &str) -> bool {
    let mut parts = address.trim_start_matches('[').trim_end_matches(']').split(',');
    parts.all(|part| {
        let Some((place, nonce)) = part.rsplit_once('/') else { return false };
        place.contains(':') && nonce.parse::<u64>().is_ok_and(|nonce| nonce != 0)
    })
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    /// The lock under which it was written, which a copy of the directory has not.
    lock: u64,
    connections: Vec<Connection>,
}

/// The connections of this target, and those that are left of others before it.
#[derive(Debug)]
pub struct ClusterConnections {
    directory: Arc<StateDirectory>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    own: Vec<(Connection, Weak<Cluster>)>,
    /// Of targets that are dead.
    left: Vec<Connection>,
    /// Clusters and users by which it was tried to shut them out.
    tried: BTreeSet<(String, String)>,
}

impl Known {
    /// Connections to write down: those that have not ended, at most the newest
    /// `limits::CEPH_CONNECTIONS_KEPT_MAX`.
    fn kept(&mut self) -> Vec<&Connection> {
        self.own.retain(|(_, cluster)| cluster.strong_count() > 0);
        let all = || self.left.iter().chain(self.own.iter().map(|(connection, _)| connection));
        all().skip(all().count().saturating_sub(CEPH_CONNECTIONS_KEPT_MAX)).collect()
    }

    /// Left-over connections of this cluster and user; none at the second call.
    fn left_of(&mut self, new: &Connection) -> Vec<Connection> {
        let left = self.left.iter().filter(|left| (&left.fsid, &left.id) == (&new.fsid, &new.id));
        let left: Vec<Connection> = left.cloned().collect();
        let is_first = !left.is_empty() && self.tried.insert((new.fsid.clone(), new.id.clone()));
        if is_first { left } else { Vec::new() }
    }
}

impl ClusterConnections {
    /// Reads the connections in a directory that this process has taken, whose previous owner is
    /// therefore dead. An unreadable file counts as empty.
    pub fn open(directory: Arc<StateDirectory>) -> Arc<Self> {
        let left = read(&directory).unwrap_or_else(|reason| {
            let path = directory.folder.path().join(NAME);
            tracing::warn!(
                reason,
                "{} is damaged and not used: images of a target that was killed may take half a minute to become available",
                path.display()
            );
            Vec::new()
        });
        Arc::new(Self { directory, known: Mutex::new(Known { left, ..Known::default() }) })
    }

    /// Reads the connections in a directory that another live process has as well, whose place this
    /// one is to take.
    pub fn beside(directory: Arc<StateDirectory>) -> Arc<Self> {
        let connections = Self::open(directory);
        let mut known = connections.lock();
        known.tried = known.left.iter().map(|left| (left.fsid.clone(), left.id.clone())).collect();
        drop(known);
        connections
    }

    /// Forgets the connections of the old process, which have ended.
    pub fn forget_left(&self) {
        let mut known = self.lock();
        known.left.clear();
        self.write(&mut known);
    }

    /// Records each new connection before it is used, and shuts out those that are left of its cluster.
    pub fn before_use(self: &Arc<Self>) -> BeforeUse {
        let this = self.clone();
        BeforeUse(Arc::new(move |cluster| {
            this.note(cluster);
            // Without it an image is available later after the next kill, and not less now.
            Ok(())
        }))
    }

    /// Forgets the connections that have ended, as all have when the target has ended in order.
    pub fn end(&self) {
        let mut known = self.lock();
        self.write(&mut known);
        if !known.own.is_empty() {
            let _ = KEPT.set(self.directory.clone());
        }
    }

    fn note(self: &Arc<Self>, cluster: &Arc<Cluster>) {
        let new = match Connection::of(cluster) {
            Ok(new) if new.is_sound() => new,
            Ok(new) => return tracing::warn!(?new, "a connection without a valid name is not recorded"),
            Err(error) => return tracing::warn!(%error, "a connection is not kept"),
        };
        let left = {
            let mut known = self.lock();
            known.own.push((new.clone(), Arc::downgrade(cluster)));
            self.write(&mut known);
            known.left_of(&new)
        };
        if !left.is_empty() {
            self.shut_out(cluster, left);
        }
    }

    /// Puts connections of dead targets on the blocklist of their cluster, and waits until `cluster` works by a map that
    /// has them; not for longer than connecting may take, since Ceph's library may wait forever for a map.
    fn shut_out(self: &Arc<Self>, cluster: &Arc<Cluster>, left: Vec<Connection>) {
        let (bell, done) = sync_channel(1);
        let (this, cluster) = (self.clone(), cluster.clone());
        let work = move || {
            let began = Instant::now();
            let addresses: Vec<&str> = left.iter().map(|connection| connection.address.as_str()).collect();
            let outcome = cluster.blocklist_all(&addresses, KILLED_TARGET_FENCE_S);
            let outcome = outcome.and_then(|()| cluster.wait_for_latest_map());
            if tell(&addresses, outcome, cluster.options().id(), began.elapsed()) {
                let mut known = this.lock();
                known.left.retain(|connection| !left.contains(connection));
                this.write(&mut known);
            }
            // Before the waiting thread goes on: it may be the last then that has it.
            drop(cluster);
            let _ = bell.send(());
        };
        if let Err(error) = thread::Builder::new().name("ceph-fence".to_owned()).spawn(work) {
            return tracing::warn!(%error, "cannot start a thread to add connections to the blocklist");
        }
        if done.recv_timeout(Duration::from_millis(CEPH_CONNECT_TIMEOUT_MS)).is_err() {
            tracing::warn!(
                "the cluster has not put the connections of a killed target on the blocklist yet; its images follow later"
            );
        }
    }

    fn write(&self, known: &mut Known) {
        let kept = known.kept();
        let outcome = if kept.is_empty() {
            self.directory.folder.remove(NAME).map_err(io::Error::from)
        } else {
            self.replace(&kept)
        };
        if let Err(error) = outcome {
            tracing::warn!(
                %error,
                "the connections to clusters cannot be kept in {}: should this target be killed, its images may take half \
                 a minute to become available again",
                self.directory.folder.path().display()
            );
        }
    }

    fn replace(&self, kept: &[&Connection]) -> io::Result<()> {
        let connections = kept.iter().map(|&connection| connection.clone()).collect();
        let written = Written { version: VERSION, lock: self.directory.lock_inode(), connections };
        Ok(self.directory.folder.prepare(NAME, &serde_json::to_vec_pretty(&written)?)?.commit()?)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says what became of connections that were to be shut out; whether they need no further try.
fn tell(addresses: &[&str], outcome: Result<(), CephError>, id: &str, took: Duration) -> bool {
    let is_forbidden = |error: &CephError| {
        error.code().is_some_and(|code| [Errno::PERM, Errno::ACCESS].map(Errno::raw_os_error).contains(&code))
    };
    match outcome {
        Ok(()) => {
            let took_ms = took.as_millis() as u64;
            tracing::info!(?addresses, took_ms, "the connections of a dead target are on the blocklist");
            true
        }
        Err(error) if is_forbidden(&error) => {
            tracing::info!(
                "client.{id} may not put the connections of a dead target on the blocklist, so that its images may take \
                 half a minute to become available; give it the capability mon 'profile rbd'"
            );
            true
        }
        Err(error) => {
            tracing::warn!(%error, "the connections of a dead target are not on the blocklist");
            false
        }
    }
}

/// Reads the connections that previous owners have written into a directory. The error describes
/// the damage of the file.
fn read(directory: &StateDirectory) -> Result<Vec<Connection>, String> {
    let Some(text) = directory.folder.read(NAME, FILE_BYTES_MAX).map_err(|error| error.to_string())? else {
        return Ok(Vec::new());
    };
    let written: Written = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    if written.version != VERSION {
        return Err(format!("it has version {}, and this program knows {VERSION}", written.version));
    }
    if written.connections.len() > CEPH_CONNECTIONS_KEPT_MAX {
        return Err(format!("it has more than {CEPH_CONNECTIONS_KEPT_MAX} connections"));
    }
    if let Some(wrong) = written.connections.iter().find(|connection| !connection.is_sound()) {
        return Err(format!("{wrong:?} is not a connection"));
    }
    if written.lock != directory.lock_inode() {
        tracing::info!(
            "the connections in a copy of a state directory are another target's, which may live; they are left alone"
        );
        return Ok(Vec::new());
    }
    Ok(written.connections)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn take(folder: &tempfile::TempDir) -> Arc<StateDirectory> {
        let directory = StateDirectory::take(folder.path());
        Arc::new(directory.unwrap_or_else(|failure| panic!("{failure:?}")))
    }

    fn connection(number: usize) -> Connection {
        let address = format!("10.0.0.1:0/{}", number + 1);
        Connection { fsid: "cluster".to_owned(), id: "user".to_owned(), address }
    }

    fn known(connections: &ClusterConnections) -> Vec<Connection> {
        connections.lock().kept().into_iter().cloned().collect()
    }

    /// Leaves the folder of a target that had these left-over connections, and was killed.
    fn killed_with(folder: &tempfile::TempDir, left: &[Connection]) {
        let connections = ClusterConnections::open(take(folder));
        let mut known = connections.lock();
        known.left = left.to_vec();
        connections.write(&mut known);
    }

    #[test]
    fn connections_are_there_after_a_kill_and_gone_after_an_orderly_end() {
        let folder = tempfile::tempdir().unwrap();
        killed_with(&folder, &[connection(0), connection(1)]);
        let connections = ClusterConnections::open(take(&folder));
        assert_eq!(known(&connections), [connection(0), connection(1)]);
        connections.lock().left.clear();
        // One that has ended.
        connections.lock().own.push((connection(2), Weak::new()));
        connections.end();
        assert!(!folder.path().join(NAME).exists());
    }

    #[test]
    fn each_cluster_and_user_is_tried_once() {
        let folder = tempfile::tempdir().unwrap();
        let other = Connection { fsid: "other".to_owned(), ..connection(7) };
        killed_with(&folder, &[connection(0), other.clone(), connection(1)]);
        let connections = ClusterConnections::open(take(&folder));
        let mut known = connections.lock();
        let stranger = Connection { id: "stranger".to_owned(), ..connection(9) };
        assert_eq!(known.left_of(&stranger), []);
        assert_eq!(known.left_of(&connection(9)), [connection(0), connection(1)]);
        assert_eq!(known.left_of(&connection(9)), []);
        assert_eq!(known.left_of(&other), std::slice::from_ref(&other));
    }

    #[test]
    fn those_of_a_process_that_lives_are_kept_and_not_tried() {
        let folder = tempfile::tempdir().unwrap();
        killed_with(&folder, &[connection(0)]);
        let connections = ClusterConnections::beside(take(&folder));
        assert_eq!(connections.lock().left_of(&connection(9)), []);
        assert_eq!(known(&connections), [connection(0)]);
        connections.forget_left();
        assert!(!folder.path().join(NAME).exists());
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let folder = tempfile::tempdir().unwrap();
        let many: Vec<Connection> = (0..=CEPH_CONNECTIONS_KEPT_MAX).map(connection).collect();
        killed_with(&folder, &many);
        assert_eq!(known(&ClusterConnections::open(take(&folder))), many[1..]);
    }

    #[test]
    fn what_is_damaged_is_as_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        killed_with(&folder, &[connection(0)]);
        let whole = fs::read_to_string(&path).unwrap();
        let many: Vec<Connection> = (0..=CEPH_CONNECTIONS_KEPT_MAX).map(connection).collect();
        let lock = take(&folder).lock_inode();
        let many = serde_json::to_string(&Written { version: VERSION, lock, connections: many }).unwrap();
        let long = whole.replace("cluster", &"c".repeat(TEXT_BYTES_MAX + 1));
        // All that a machine has must not be shut out by it.
        let (all, none) = (whole.replace(":0/1\"", ":0/0\""), whole.replace(":0/1\"", "\""));
        let huge = whole.clone() + &" ".repeat(FILE_BYTES_MAX as usize);
        let newer = whole.replace("\"version\": 1", "\"version\": 2");
        let torn = &whole[..whole.len() / 2];
        for text in ["", "[]", "\0\0\0\0", torn, &many, &long, &all, &none, &huge, &newer] {
            assert_ne!(text, whole);
            fs::write(&path, text).unwrap();
            let directory = take(&folder);
            assert!(read(&directory).is_err(), "{text:.80}");
            assert_eq!(known(&ClusterConnections::open(directory)), []);
        }
        fs::write(&path, [0xff; 64]).unwrap();
        assert!(read(&take(&folder)).is_err());
    }

    #[test]
    fn a_copy_of_a_directory_blocklists_no_client() {
        let (folder, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        killed_with(&folder, &[connection(0)]);
        fs::copy(folder.path().join(NAME), copy.path().join(NAME)).unwrap();
        assert_eq!(known(&ClusterConnections::open(take(&copy))), []);
        assert_eq!(known(&ClusterConnections::open(take(&folder))), [connection(0)]);
    }

    #[test]
    fn addresses_of_single_connections_differ_from_others() {
        for (address, is_one) in [
            ("10.0.0.1:0/123", true),
            ("v2:10.0.0.1:0/123", true),
            ("[v2:10.0.0.1:0/123,v1:10.0.0.1:0/123]", true),
            ("[v2:10.0.0.1:0/123,v1:10.0.0.1:0/0]", false),
            ("10.0.0.1:0/0", false),
            ("10.0.0.1", false),
            ("10.0.0.0/24", false),
            ("", false),
        ] {
            assert_eq!(names_one(address), is_one, "{address}");
        }
    }
}
