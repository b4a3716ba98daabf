//! The controllers that this process has of a namespace, in a file that the next `attach` of the same namespace finds when
//! this one was killed: what this one had sent must not undo what the next one writes. A lock on the file says whether its
//! process lives. How controllers are brought to rest is the engine's.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use attach::limits::{CONTROLLERS_FILE_BYTES_MAX, CONTROLLERS_KEPT_MAX};
use chart::units;
use engine::initiator::{
    ControllerFiles, ControllerRecord, Found, FoundContent, KeptControllers, PathOptions, Paths,
};
use engine::limits::KEEP_ALIVE_MS_USUAL;
use private_folder::{PrivateFolder, open_own};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::control::socket;
use crate::failure::Failure;

/// Suffix of the files' names.
const SUFFIX: &str = ".controllers";
/// The files' format.
const VERSION: u32 = 1;
/// A process that has just been killed holds its lock for a moment longer than its sockets.
const KILLED_FOR: Duration = Duration::from_millis(50);
/// Time after which waiting writes are reported.
const REPORTED_AFTER: Duration = Duration::from_secs(2);

/// Content of a file.
#[derive(Debug, Serialize, Deserialize)]
struct Content {
    version: u32,
    /// For people; the lock says whether it lives.
    pid: u32,
    subsystem_nqn: String,
    nsid: u32,
    controllers: Vec<ControllerRecord>,
}

/// Controllers of all namespaces that this process attaches.
#[derive(Debug)]
pub(super) struct AllControllers {
    /// Folder of the files; `None` if there is none.
    folder: Option<PathBuf>,
    all: Mutex<Vec<(Arc<Controllers>, Arc<Paths>)>>,
}

impl AllControllers {
    /// None yet. Where there is no place for files, a line says so.
    pub(super) fn new() -> Self {
        let folder = socket::kept_folder()
            .ok_or_else(|| "there is no runtime directory ($XDG_RUNTIME_DIR)".to_owned());
        let folder = folder.and_then(|folder| match PrivateFolder::make(&folder) {
            Ok(_) => Ok(folder),
            Err(error) => Err(error.to_string()),
        });
        let folder = folder.map_err(|reason| {
            eprintln!(
                "selvedge: {reason}: if this process is killed, the next one does not know of writes that may still be carried \
                 out"
            );
        });
        Self { folder: folder.ok(), all: Mutex::default() }
    }

    /// Connects the paths to a namespace. Nothing is written over them before what killed processes had sent is at rest.
    pub(super) fn connect(&self, mut options: PathOptions) -> Result<Arc<Paths>, Failure> {
        let controllers = self.folder.clone().zip(options.paths.first()).map(|(folder, path)| {
            Arc::new(in_folder(folder, &path.subsystem_nqn, options.nsid, path.keep_alive_ms))
        });
        if let Some(controllers) = &controllers {
            options.left_controllers = controllers.left_controllers().map_err(|error| {
                Failure::failed(format!("{} cannot be read: {error}", controllers.files().folder.display()))
            })?;
            options.record_store = Some(controllers.clone());
        }
        let paths = Paths::connect(options).map(Arc::new).map_err(Failure::failed)?;
        self.lock().extend(controllers.map(|controllers| (controllers, paths.clone())));
        Ok(paths)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Arc<Controllers>, Arc<Paths>)>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for processes that have been killed since: the one that had the place of this one has ended only now.
    pub(super) fn look_again(&self) {
        for (controllers, paths) in &*self.lock() {
            match controllers.left_controllers() {
                Ok(left_controllers) => paths.quiesce_left(&left_controllers),
                Err(error) => {
                    eprintln!("selvedge: {} cannot be read: {error}", controllers.files().folder.display());
                }
            }
        }
    }
}

/// The controllers of one attached namespace: this process's own, and those of processes that were killed.
type Controllers = KeptControllers<Files>;

/// For a namespace whose controllers get this keep alive time-out.
fn in_folder(folder: PathBuf, subsystem_nqn: &str, nsid: u32, keep_alive_ms: u32) -> Controllers {
    KeptControllers::new(Files::new(folder, subsystem_nqn, nsid, keep_alive_ms), CONTROLLERS_KEPT_MAX)
}

/// The files of one attached namespace, in a folder.
#[derive(Debug)]
struct Files {
    folder: PathBuf,
    namespace: Namespace,
    /// The name of the own file.
    name: String,
    /// The own file, locked. Several, where it is not known which one is in place.
    own: Mutex<Vec<File>>,
}

/// A namespace, by which its files are named. Its UUID is known only when it is too late to look for files.
#[derive(Debug)]
struct Namespace {
    subsystem_nqn: String,
    nsid: u32,
    prefix: String,
}

/// The file of a process that was killed.
#[derive(Debug)]
struct Left {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
    /// Why it is not known what is in it.
    problem: Option<String>,
    /// Lock, shared by the processes that wait for the file's controllers.
    _file: Option<File>,
}

impl Files {
    fn new(folder: PathBuf, subsystem_nqn: &str, nsid: u32, keep_alive_ms: u32) -> Self {
        let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{subsystem_nqn} {nsid}").as_bytes());
        let prefix = format!("{id}.");
        let random = Uuid::new_v4().simple().to_string();
        // The time-out is in the name for those who cannot read the content.
        let name = format!("{prefix}{keep_alive_ms}.{}{SUFFIX}", &random[..12]);
        let namespace = Namespace { subsystem_nqn: subsystem_nqn.to_owned(), nsid, prefix };
        Self { folder, namespace, name, own: Mutex::default() }
    }

    /// The files of processes that were killed, and how many are of living ones.
    fn look(&self, known: &[(u64, u64)]) -> io::Result<(Vec<Found<Left>>, usize)> {
        let (mut found, mut living) = (Vec::new(), 0);
        for entry in fs::read_dir(&self.folder)? {
            let Ok(name) = entry?.file_name().into_string() else { continue };
            if !name.starts_with(&self.namespace.prefix) || !name.ends_with(SUFFIX) || name == self.name {
                continue;
            }
            match Left::open(self.folder.join(&name), &self.namespace) {
                Some(one) if known.contains(&one.left.identity) => {}
                Some(one) => found.push(one),
                None => living += 1,
            }
        }
        Ok((found, living))
    }
}

impl ControllerFiles for Files {
    type Left = Left;

    fn write(&self, own: &[ControllerRecord]) -> io::Result<()> {
        let mut files = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        // Another process may have removed the folder meanwhile.
        let folder = PrivateFolder::make(&self.folder).map_err(io::Error::other)?;
        if own.is_empty() {
            folder.remove(&self.name).map_err(io::Error::other)?;
            files.clear();
            return Ok(());
        }
        let content = Content {
            version: VERSION,
            pid: std::process::id(),
            subsystem_nqn: self.namespace.subsystem_nqn.clone(),
            nsid: self.namespace.nsid,
            controllers: own.to_vec(),
        };
        let bytes = serde_json::to_vec(&content).map_err(io::Error::other)?;
        let replacement = folder.prepare(&self.name, &bytes).map_err(io::Error::other)?;
        let file = replacement.open().map_err(io::Error::other)?;
        // Locked before it has its name: other processes take this one for alive.
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        match replacement.commit() {
            Ok(()) => *files = vec![file],
            Err(error) => {
                files.push(file);
                return Err(io::Error::other(error));
            }
        }
        Ok(())
    }

    fn find(&self, known: &mut dyn Iterator<Item = &Left>) -> io::Result<Vec<Found<Left>>> {
        let known: Vec<(u64, u64)> = known.map(|left| left.identity).collect();
        let until = Instant::now() + KILLED_FOR;
        loop {
            let (found, living) = self.look(&known)?;
            if living == 0 || Instant::now() >= until {
                found.iter().for_each(|one| one.left.tell());
                return Ok(found);
            }
            std::thread::sleep(KILLED_FOR / 10);
        }
    }

    fn remove(&self, left: Left) {
        let found = fs::symlink_metadata(&left.path);
        if found.is_ok_and(|found| (found.dev(), found.ino()) == left.identity)
            && let Err(error) = fs::remove_file(&left.path)
        {
            tracing::warn!(
                target: "selvedge::commands::attach::controllers",
                path = %left.path.display(), %error, "a file of controllers that are at rest cannot be removed"
            );
        }
    }
}

impl Left {
    /// Opens the file of a process; `None` while that lives, or when it has just ended in order.
    fn open(path: PathBuf, namespace: &Namespace) -> Option<Found<Self>> {
        let identity = fs::symlink_metadata(&path).map(|found| (found.dev(), found.ino())).ok()?;
        let file = match open_own(&path) {
            Ok(file) => file,
            Err(error) if error.is_missing() => return None,
            Err(error) => {
                return Some(Self::unreadable(path, identity, None, format!("cannot be read: {error}")));
            }
        };
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return None,
            Err(error) => {
                return Some(Self::unreadable(
                    path,
                    identity,
                    Some(file),
                    format!("cannot be locked: {error}"),
                ));
            }
        }
        // A living process puts a new file in the place of the one that it lets go.
        let is =
            |found: io::Result<fs::Metadata>| found.is_ok_and(|found| (found.dev(), found.ino()) == identity);
        if !is(file.metadata()) || !is(fs::symlink_metadata(&path)) {
            return None;
        }
        match controllers(&file, namespace) {
            Ok(controllers) => {
                let content = FoundContent::Controllers(controllers);
                Some(Found { left: Self { path, identity, problem: None, _file: Some(file) }, content })
            }
            Err(reason) => Some(Self::unreadable(path, identity, Some(file), reason)),
        }
    }

    /// Returns an entry for a file that cannot be read.
    fn unreadable(path: PathBuf, identity: (u64, u64), file: Option<File>, problem: String) -> Found<Self> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let keep_alive_ms = name.split('.').nth(1).and_then(|text| text.parse().ok());
        let keep_alive_ms = keep_alive_ms.unwrap_or(KEEP_ALIVE_MS_USUAL);
        let left = Self { path, identity, problem: Some(problem), _file: file };
        Found { left, content: FoundContent::Unreadable { keep_alive_ms } }
    }

    /// Prints the problem of the file.
    fn tell(&self) {
        if let Some(problem) = &self.problem {
            eprintln!(
                "selvedge: {} {problem}: its process was killed, and writes wait for the longest time that may take (remove \
                 the file and start again if nothing of that process can still be carried out)",
                self.path.display()
            );
        }
    }
}

fn controllers(file: &File, namespace: &Namespace) -> Result<Vec<ControllerRecord>, String> {
    let mut bytes = Vec::new();
    let read = file.take(CONTROLLERS_FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.len() as u64 > CONTROLLERS_FILE_BYTES_MAX {
        return Err(format!("has more than {CONTROLLERS_FILE_BYTES_MAX} bytes"));
    }
    parse(&bytes, &namespace.subsystem_nqn, namespace.nsid)
}

/// Controllers of a namespace in a file with this content.
pub(super) fn parse(bytes: &[u8], subsystem_nqn: &str, nsid: u32) -> Result<Vec<ControllerRecord>, String> {
    let content: Content = serde_json::from_slice(bytes).map_err(|error| format!("is invalid: {error}"))?;
    if content.version != VERSION {
        return Err(format!("is of version {}, not {VERSION}", content.version));
    }
    if content.subsystem_nqn != subsystem_nqn || content.nsid != nsid {
        return Err(format!("is about namespace {} of {}", content.nsid, content.subsystem_nqn));
    }
    // Without a keep alive a controller would never end by itself, and none is made so.
    if content.controllers.len() > CONTROLLERS_KEPT_MAX
        || content.controllers.iter().any(|one| one.keep_alive_ms == 0)
    {
        return Err("has controllers that no attach has".to_owned());
    }
    Ok(content.controllers)
}

/// Reports writes that wait for long: for the controllers of a killed process, or of a lost path.
#[derive(Debug)]
pub(super) struct WaitNotice {
    left_controllers: Wait,
    lost: Wait,
}

impl WaitNotice {
    pub(super) fn new() -> Self {
        // Writes wait for left controllers since before the process has anything to look at.
        let left_controllers = Wait { since: Some(Instant::now()), is_reported: false };
        Self { left_controllers, lost: Wait::default() }
    }

    /// Prints a line when writes have waited for long, and another one when they continue.
    pub(super) fn look(&mut self, all_paths: &[Arc<Paths>]) {
        let now = Instant::now();
        let longest =
            |wait: fn(&Paths) -> Option<Duration>| all_paths.iter().filter_map(|paths| wait(paths)).max();
        match self.left_controllers.changed(longest(Paths::wait_for_left_controllers), now) {
            Some(WaitChange::Begun(left)) => eprintln!(
                "selvedge: an attach process of this disk was killed; writes wait until the commands that it had sent have ended, \
                 for {} at most",
                units::plural(left.as_secs() + 1, "second")
            ),
            Some(WaitChange::Over(_)) => eprintln!("selvedge: writes continue"),
            None => {}
        }
        match self.lost.changed(longest(Paths::wait_for_lost), now) {
            Some(WaitChange::Begun(left)) => tracing::warn!(
                target: "selvedge::commands::attach::controllers",
                "writes without a response on a lost path wait until the target has ended them, for {} at most; other I/O goes on",
                units::plural(left.as_secs() + 1, "second")
            ),
            Some(WaitChange::Over(lasted)) => tracing::warn!(
                target: "selvedge::commands::attach::controllers",
                "writes of a lost path go on, after {}",
                units::plural(lasted.as_secs().max(1), "second")
            ),
            None => {}
        }
    }
}

/// Wait of writes: its begin, and whether a line has reported it.
#[derive(Debug, Default)]
struct Wait {
    since: Option<Instant>,
    is_reported: bool,
}

/// Change of a wait that is worth a line.
#[derive(Debug, PartialEq, Eq)]
enum WaitChange {
    /// Writes have waited for some time, and wait for this time at most.
    Begun(Duration),
    /// Writes continue, after this time.
    Over(Duration),
}

impl Wait {
    /// Records that writes wait for this time at most, or do not wait.
    fn changed(&mut self, left: Option<Duration>, now: Instant) -> Option<WaitChange> {
        let Some(left) = left else {
            let since = self.since.take();
            return since
                .filter(|_| std::mem::take(&mut self.is_reported))
                .map(|since| WaitChange::Over(now - since));
        };
        let since = *self.since.get_or_insert(now);
        if self.is_reported || now - since < REPORTED_AFTER {
            return None;
        }
        self.is_reported = true;
        Some(WaitChange::Begun(left))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use engine::initiator::ControllerRecordStore as _;

    use super::*;

    const NQN: &str = "nqn.2014-08.org.example:disk";

    #[test]
    fn a_long_wait_is_reported_once_with_its_end_and_a_short_one_never() {
        let (mut wait, begin) = (Wait::default(), Instant::now());
        let second = Duration::from_secs(1);
        let mut at = |seconds: u32, left: Option<u32>| {
            wait.changed(left.map(|left| second * left), begin + second * seconds)
        };
        assert_eq!([at(0, None), at(1, Some(9)), at(2, None)], [None, None, None]);
        assert_eq!([at(10, Some(40)), at(11, Some(39))], [None, None], "the first one has been forgotten");
        assert_eq!(at(12, Some(38)), Some(WaitChange::Begun(second * 38)));
        assert_eq!(
            [at(13, Some(37)), at(50, None), at(51, None)],
            [None, Some(WaitChange::Over(second * 40)), None]
        );
    }

    fn record(controller_id: u16) -> ControllerRecord {
        ControllerRecord {
            address: ([127, 0, 0, 1], 4420).into(),
            subsystem_nqn: NQN.to_owned(),
            host_nqn: "nqn.2014-08.org.example:host".to_owned(),
            host_id: Uuid::from_u128(1),
            controller_id,
            random_number: u64::MAX - u64::from(controller_id),
            command_quiesce_ms: 500,
            ..ControllerRecord::unknown(5000)
        }
    }

    fn controllers(folder: &Path) -> Controllers {
        in_folder(folder.to_owned(), NQN, 1, 5000)
    }

    fn files(folder: &Path) -> Vec<PathBuf> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn a_living_process_keeps_its_file_to_itself_and_an_orderly_one_leaves_none() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (controllers(folder.path()), controllers(folder.path()));
        assert!(files(folder.path()).is_empty(), "there is nothing to say yet");
        one.save(&record(1)).unwrap();
        other.save(&record(2)).unwrap();
        one.save(&record(3)).unwrap();
        let all = files(folder.path());
        assert_eq!(all.len(), 2);
        for path in &all {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert!(
            one.left_controllers().unwrap().is_empty()
                && controllers(folder.path()).left_controllers().unwrap().is_empty()
        );
        for id in [1, 3] {
            one.quiesced(&record(id));
        }
        assert_eq!(files(folder.path()).len(), 1);
        other.quiesced(&record(2));
        assert!(files(folder.path()).is_empty());
    }

    #[test]
    fn what_a_killed_process_leaves_is_there_until_all_of_it_is_at_rest() {
        let folder = tempfile::tempdir().unwrap();
        let killed = controllers(folder.path());
        killed.save(&record(1)).unwrap();
        killed.save(&record(2)).unwrap();
        drop(killed);
        let elsewhere = in_folder(folder.path().to_owned(), NQN, 2, 5000);
        assert!(elsewhere.left_controllers().unwrap().is_empty(), "it had another namespace");
        // Two that come after it wait both, and neither counts on the other.
        let next = [(); 2].map(|()| controllers(folder.path()));
        for one in &next {
            assert_eq!(one.left_controllers().unwrap(), [record(1), record(2)]);
            assert!(one.left_controllers().unwrap().is_empty(), "it is found once");
            one.save(&record(7)).unwrap();
        }
        next[0].quiesced(&record(1));
        drop(next);
        // They have been killed as well.
        let last = controllers(folder.path());
        let found = last.left_controllers().unwrap();
        assert_eq!(found.len(), 4, "{found:?}");
        found.iter().for_each(|record| last.quiesced(record));
        assert!(files(folder.path()).is_empty());
    }

    #[test]
    fn what_cannot_be_read_stands_for_the_longest_time() {
        let folder = tempfile::tempdir().unwrap();
        let killed = controllers(folder.path());
        killed.save(&record(1)).unwrap();
        drop(killed);
        let path = files(folder.path()).remove(0);
        let good = fs::read_to_string(&path).unwrap();
        let bad = [
            String::new(),
            good[..good.len() / 2].to_owned(),
            good.replace("\"version\":1", "\"version\":2"),
            good.replace("\"nsid\":1", "\"nsid\":2"),
            good.replace("\"keep_alive_ms\":5000", "\"keep_alive_ms\":0"),
            good.replace("\"random_number\":", "\"random_number\":-"),
            " ".repeat(CONTROLLERS_FILE_BYTES_MAX as usize + 1),
        ];
        for text in bad {
            assert_ne!(text, good);
            fs::write(&path, text).unwrap();
            let next = controllers(folder.path());
            assert_eq!(next.left_controllers().unwrap(), [ControllerRecord::unknown(5000)]);
            next.quiesced(&ControllerRecord::unknown(5000));
            assert!(!path.exists());
        }
        // Nor does anything but a file say that there was nothing.
        let nameless =
            folder.path().join(format!("{}x{SUFFIX}", controllers(folder.path()).files().namespace.prefix));
        fs::create_dir(&nameless).unwrap();
        assert_eq!(
            controllers(folder.path()).left_controllers().unwrap(),
            [ControllerRecord::unknown(KEEP_ALIVE_MS_USUAL)]
        );
        fs::remove_dir(&nameless).unwrap();
        fs::write(&path, good).unwrap();
        assert_eq!(controllers(folder.path()).left_controllers().unwrap(), [record(1)]);
    }

    #[test]
    fn a_controller_that_cannot_be_kept_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let own = controllers(folder.path());
        own.save(&record(1)).unwrap();
        fs::remove_dir_all(folder.path()).unwrap();
        own.save(&record(2)).expect("a folder that is gone is made again");
        fs::remove_dir_all(folder.path()).unwrap();
        fs::write(folder.path(), "a file").unwrap();
        assert!(own.save(&record(3)).unwrap_err().to_string().contains("folder"));
        fs::remove_file(folder.path()).unwrap();
        own.quiesced(&record(1));
        drop(own);
        assert_eq!(
            controllers(folder.path()).left_controllers().unwrap(),
            [record(2)],
            "what was refused is not there"
        );
    }
}
