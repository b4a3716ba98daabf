//! File that lists this process' I/O queues for other programs, with flows and threads; it exists as
//! long as the queues. No function depends on it: its errors are logged at level debug.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::initiator::{PathShare, PathStatus};
use serde::Serialize;
use topology::Waited;
use topology::process_stat::{STARTED, stat_field};

/// An I/O queue and its connection; with MPTCP there is one for each subflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ListedQueue {
    /// The subsystem.
    nqn: String,
    controller: String,
    qid: u16,
    local: SocketAddr,
    peer: SocketAddr,
    /// The system's number of the thread that works on it.
    thread: i32,
    /// Time that the thread has waited, once it has reported it.
    #[serde(skip_serializing_if = "Option::is_none")]
    waited: Option<Waited>,
}

impl ListedQueue {
    /// Returns the queues of one thread, from its shares on each path.
    pub(crate) fn of_thread(
        nqn: &str,
        thread: i32,
        waited: Option<Waited>,
        paths: &[PathStatus],
        shares: &[PathShare],
    ) -> Vec<ListedQueue> {
        let mut queues = Vec::new();
        for (path, share) in paths.iter().zip(shares) {
            let controller = path.cntlid.map_or_else(String::new, |id| format!("cntlid {id}"));
            for connection in &share.connections {
                let subflows = connection.stream.iter().flat_map(|stream| &stream.subflows);
                queues.extend(subflows.map(|subflow| ListedQueue {
                    nqn: nqn.to_owned(),
                    controller: controller.clone(),
                    qid: connection.queue_id,
                    local: subflow.local,
                    peer: subflow.remote,
                    thread,
                    waited,
                }));
            }
        }
        queues
    }
}

/// The file's contents.
#[derive(Serialize)]
struct Contents<'a> {
    pid: u32,
    /// Tells this process from a later one with its number: field 22 of /proc/PID/stat, in clock ticks.
    start_time: u64,
    queues: Vec<&'a ListedQueue>,
}

/// The file of this process. Several runs at the same time share it.
#[derive(Debug)]
struct QueueFile {
    path: PathBuf,
    start_time: u64,
    /// The queues of each run, by its number.
    shares: Vec<(u64, Vec<ListedQueue>)>,
    next: u64,
}

static FILE: Mutex<Option<QueueFile>> = Mutex::new(None);

fn file() -> MutexGuard<'static, Option<QueueFile>> {
    FILE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Queues of one run in the file. Dropping it removes them; the last one removes the file.
#[derive(Debug)]
pub(crate) struct Share(Option<u64>);

impl Share {
    /// A part without queues.
    pub(crate) fn new() -> Self {
        let mut file = file();
        if file.is_none() {
            match QueueFile::new(&folder()) {
                Ok(new) => *file = Some(new),
                Err(error) => {
                    tracing::debug!(%error, "cannot write the queue file; other programs will not see these queues");
                }
            }
        }
        Self(file.as_mut().map(QueueFile::join))
    }

    /// These are its queues now.
    pub(crate) fn tell(&self, queues: Vec<ListedQueue>) {
        let mut file = file();
        let (Some(number), Some(file)) = (self.0, file.as_mut()) else { return };
        if let Err(error) = file.tell(number, queues) {
            tracing::debug!(%error, path = %file.path.display(), "cannot write the queue file; other programs will not see these queues");
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut file = file();
        if let (Some(number), Some(shared)) = (self.0, file.as_mut())
            && shared.leave(number)
        {
            *file = None;
        }
    }
}

/// Returns the folder of queue files: the system's for root, else the session's, else one of the
/// user.
fn folder() -> PathBuf {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return "/run/selvedge/queues".into();
    }
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    match session {
        Some(session) => session.join("selvedge/queues"),
        None => format!("/tmp/selvedge-{}/queues", user.as_raw()).into(),
    }
}

/// Creates the folder and its parent, writable by this user alone.
fn make_private(folder: &Path) -> io::Result<()> {
    let above = folder.parent().unwrap_or(folder);
    for path in [above, folder] {
        match fs::DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // An existing one may be a link, or another user's.
        let found = fs::symlink_metadata(path)?;
        let is_ours = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
        if !is_ours || found.mode() & 0o022 != 0 {
            let text = format!("{} is not a folder of this user alone", path.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
    }
    Ok(())
}

impl QueueFile {
    fn new(folder: &Path) -> io::Result<Self> {
        make_private(folder)?;
        let stat = fs::read_to_string("/proc/self/stat")?;
        let start_time = stat_field(&stat, STARTED)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/self/stat has no start time"))?;
        let path = folder.join(format!("{}.json", std::process::id()));
        Ok(Self { path, start_time, shares: Vec::new(), next: 0 })
    }

    fn join(&mut self) -> u64 {
        self.next += 1;
        self.shares.push((self.next, Vec::new()));
        self.next
    }

    fn tell(&mut self, number: u64, queues: Vec<ListedQueue>) -> io::Result<()> {
        let Some((_, share)) = self.shares.iter_mut().find(|(of, _)| *of == number) else { return Ok(()) };
        if *share == queues {
            return Ok(());
        }
        *share = queues;
        self.write()
    }

    /// Takes a run's queues out. Whether it was the last, and the file is gone.
    fn leave(&mut self, number: u64) -> bool {
        self.shares.retain(|(of, _)| *of != number);
        let outcome = if self.shares.is_empty() { fs::remove_file(&self.path) } else { self.write() };
        if let Err(error) = outcome {
            tracing::debug!(%error, path = %self.path.display(), "cannot remove the queue file; other programs still see closed queues");
        }
        self.shares.is_empty()
    }

    /// Writes a new file and renames it: readers see a whole file.
    fn write(&self) -> io::Result<()> {
        let queues = self.shares.iter().flat_map(|(_, queues)| queues).collect();
        let contents = Contents { pid: std::process::id(), start_time: self.start_time, queues };
        let text = serde_json::to_string(&contents).map_err(io::Error::other)? + "\n";
        let beside = self.path.with_extension("new");
        // One that is left of a process that died with our number would be in the way.
        let _ = fs::remove_file(&beside);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&beside, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn queue(qid: u16, port: u16) -> ListedQueue {
        ListedQueue {
            nqn: "nqn.a".to_owned(),
            controller: "cntlid 3".to_owned(),
            qid,
            local: SocketAddr::from(([10, 0, 0, 1], port)),
            peer: SocketAddr::from(([10, 0, 0, 2], 4420)),
            thread: 77,
            waited: None,
        }
    }

    fn read(file: &QueueFile) -> serde_json::Value {
        serde_json::from_str(&fs::read_to_string(&file.path).unwrap()).unwrap()
    }

    #[test]
    fn runs_share_the_file_and_the_last_removes_it() {
        let above = tempfile::tempdir().unwrap();
        let mut file = QueueFile::new(&above.path().join("selvedge/queues")).unwrap();
        let (one, two) = (file.join(), file.join());
        file.tell(one, vec![queue(1, 5000)]).unwrap();
        let contents = read(&file);
        assert_eq!(contents["pid"], std::process::id());
        assert!(contents["start_time"].as_u64() > Some(0));
        let expected = serde_json::json!([{
            "nqn": "nqn.a", "controller": "cntlid 3", "qid": 1, "local": "10.0.0.1:5000",
            "peer": "10.0.0.2:4420", "thread": 77,
        }]);
        assert_eq!(contents["queues"], expected);
        let waited = Some(Waited { at_ns: 9, waited_ns: 4 });
        file.tell(one, vec![ListedQueue { waited, ..queue(1, 5000) }]).unwrap();
        let published = &read(&file)["queues"][0]["waited"];
        assert_eq!(*published, serde_json::json!({ "at_ns": 9, "waited_ns": 4 }));
        file.tell(two, vec![queue(1, 5001), queue(2, 5002)]).unwrap();
        assert_eq!(read(&file)["queues"].as_array().unwrap().len(), 3);
        assert!(!file.leave(one));
        assert_eq!(read(&file)["queues"][0]["local"], "10.0.0.1:5001");
        assert!(file.leave(two));
        assert!(!file.path.exists());
        assert_eq!(fs::read_dir(file.path.parent().unwrap()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_of_others_is_not_used() {
        let above = tempfile::tempdir().unwrap();
        let real = above.path().join("real");
        fs::create_dir(&real).unwrap();
        let link = above.path().join("link");
        symlink(&real, &link).unwrap();
        assert_eq!(make_private(&link.join("queues")).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        fs::set_permissions(&real, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(make_private(&real.join("queues")).is_err());
        fs::set_permissions(&real, fs::Permissions::from_mode(0o700)).unwrap();
        make_private(&real.join("queues")).unwrap();
        assert!(make_private(&above.path().join("none/of/these")).is_err());
    }
}
