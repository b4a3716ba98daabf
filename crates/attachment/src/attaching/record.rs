//! Record of each process with attached disks, in a runtime directory: command line and disks, for
//! recovery after its end. The file is locked as long as its process lives.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use attach::ublk::{DeviceId, DeviceState, FoundDevice};
use engine::initiator::NamespaceInfo;
use nvme::discovery::Nqn;
use private_folder::PrivateFolder;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::nvme_names::NvmeNames;
use super::process::Process;
use crate::control::socket;
use crate::failure::Failure;

/// Another version of the program may not know what another number means.
const VERSION: u32 = 1;
/// In the runtime directory.
pub(super) const FOLDER: &str = "attach";
const SUFFIX: &str = "json";
/// The end of the name of where a process waits for a new process.
const UPGRADE_SUFFIX: &str = "upgrade";
/// Bytes of a record: a command line has at most 128 KiB in an argument, and few arguments.
const LENGTH_MAX: u64 = 1 << 20;
/// Longest time for which another process holds the lock to inspect it.
const LOOKED_AT_FOR: Duration = Duration::from_secs(1);
/// Prefixes of secrets and keys in text form.
const SECRETS: [&str; 2] = ["DHHC-1:", "NVMeTLSkey-1:"];

/// Interface by which a process serves its disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "DiskWay")]
pub(super) enum AttachMethod {
    /// A block device.
    Ublk,
    /// An NBD server.
    Nbd,
    /// A vhost-user-blk device.
    VhostUser,
}

/// Record of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    version: u32,
    /// Command line without the program's name.
    pub(super) arguments: Vec<String>,
    pub(super) working_directory: PathBuf,
    pub(super) process: Process,
    #[serde(rename = "way")]
    pub(super) method: AttachMethod,
    pub(super) nqn: String,
    pub(super) disks: Vec<RecordedDisk>,
}

/// A namespace of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RecordedDisk {
    pub(super) nsid: u32,
    /// By which it is the same wherever it is found.
    pub(super) namespace: Uuid,
    /// Names for udev of a block device; absent in records of earlier versions, and without a path.
    #[serde(default)]
    pub(super) names: Option<NvmeNames>,
    pub(super) device: Option<RecordedDevice>,
    /// A Unix socket.
    pub(super) socket: Option<PathBuf>,
    /// TCP address for NBD clients.
    pub(super) address: Option<String>,
    /// True if nothing is written through it; absent in records of earlier versions.
    #[serde(default)]
    pub(super) read_only: bool,
    /// True if another process had the namespace attached when this one came: names of disks stay
    /// with that one.
    #[serde(default)]
    pub(super) is_second: bool,
}

impl RecordedDisk {
    /// Returns its place: a block device, a socket or an address.
    pub(super) fn place(&self) -> String {
        let device = self.device.map(|device| format!("/dev/ublkb{}", device.number));
        let socket = self.socket.as_ref().map(|socket| socket.display().to_string());
        device.or(socket).or_else(|| self.address.clone()).unwrap_or_default()
    }
}

/// A block device of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RecordedDevice {
    pub(super) number: u32,
    /// Mark that distinguishes the device from a later one with the same number.
    pub(super) mark: u64,
}

impl RecordedDevice {
    pub(super) fn is(self, found: &FoundDevice) -> bool {
        (self.number, self.mark) == (found.number, found.mark)
    }
}

impl From<DeviceId> for RecordedDevice {
    fn from(id: DeviceId) -> Self {
        Self { number: id.number, mark: id.mark }
    }
}

impl From<RecordedDevice> for DeviceId {
    fn from(device: RecordedDevice) -> Self {
        Self { number: device.number, mark: device.mark }
    }
}

/// By which a namespace is the same wherever it is found: its UUID or NGUID, else one made of its subsystem's name and its number.
pub(super) fn identity(nqn: &Nqn, namespace: &NamespaceInfo) -> Uuid {
    let id = namespace.uuid.or(namespace.nguid).map(Uuid::from_bytes);
    id.unwrap_or_else(|| {
        let name = format!("{nqn} {}", namespace.nsid);
        Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes())
    })
}

/// Command line of a process: arguments and working directory.
#[derive(Clone, Debug)]
pub(super) struct CommandLine {
    pub(super) arguments: Vec<String>,
    pub(super) working_directory: PathBuf,
}

impl CommandLine {
    /// Returns the command line of this process.
    ///
    /// # Errors
    /// When it has a secret in it, which belongs into a file.
    pub(super) fn here() -> Result<Self, Failure> {
        Self::of(std::env::args_os().skip(1))
    }

    /// Returns the command line of a process with these arguments.
    ///
    /// # Errors
    /// As `here`'s.
    pub(super) fn of(arguments: impl Iterator<Item = OsString>) -> Result<Self, Failure> {
        let text = |argument: OsString| {
            let text = argument.into_string();
            text.map_err(|argument| Failure::usage(format!("{} is not UTF-8", argument.display())))
        };
        let arguments: Vec<String> = arguments.map(text).collect::<Result<_, _>>()?;
        if arguments.iter().any(|argument| SECRETS.iter().any(|secret| argument.contains(secret))) {
            return Err(Failure::usage(
                "a secret or a TLS key on the command line is seen by every user of this machine: write it into a file, and \
                 name that",
            ));
        }
        let working_directory = std::env::current_dir()
            .map_err(|error| Failure::failed(format!("the working directory is unknown: {error}")))?;
        Ok(Self { arguments, working_directory })
    }
}

impl Record {
    /// Returns the record of this process.
    pub(super) fn new(line: CommandLine, method: AttachMethod, nqn: &Nqn, disks: Vec<RecordedDisk>) -> Self {
        let CommandLine { arguments, working_directory } = line;
        // Without /proc, the process cannot be distinguished from another one, and no program will look.
        let process = Process::this().unwrap_or_default();
        Self { version: VERSION, arguments, working_directory, process, method, nqn: nqn.to_string(), disks }
    }

    /// Reads a record. `None` if it is of another version, or no record.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let record: Self = serde_json::from_slice(text).ok()?;
        (record.version == VERSION).then_some(record)
    }

    /// Returns the command line of the process.
    pub(super) fn command_line(&self) -> CommandLine {
        CommandLine { arguments: self.arguments.clone(), working_directory: self.working_directory.clone() }
    }

    /// Returns the places of its disks.
    pub(super) fn places(&self) -> Vec<String> {
        let mut places: Vec<String> = self.disks.iter().map(RecordedDisk::place).collect();
        places.dedup();
        places
    }

    fn sockets(&self) -> impl Iterator<Item = &PathBuf> {
        self.disks.iter().filter_map(|disk| disk.socket.as_ref())
    }

    /// Writes it down, locked, in the place of `previous` if that is given.
    ///
    /// # Errors
    /// When there is no place for it.
    pub(super) fn keep(&self, previous: Option<&Path>) -> Result<KeptRecord, String> {
        let path = match previous {
            Some(previous) => previous.to_owned(),
            None => {
                let folder = make_folder()?;
                self.replace_old_ones(&folder);
                folder.join(format!("{}.{SUFFIX}", Uuid::new_v4().simple()))
            }
        };
        self.write(&path).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn write(&self, path: &Path) -> io::Result<KeptRecord> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        let name = format!(".{}.new", Uuid::new_v4().simple());
        let new = folder.join(&name);
        let text = serde_json::to_vec_pretty(self)?;
        let made = PrivateFolder::open(folder)
            .and_then(|folder| folder.create_new(name.as_ref()))
            .map_err(io::Error::other)?;
        let ready = || {
            // Before anybody can see it.
            made.lock()?;
            (&made).write_all(&text)?;
            fs::rename(&new, path)
        };
        match ready() {
            Ok(()) => Ok(KeptRecord { path: path.to_owned(), record: self.clone(), lock: Some(made) }),
            Err(error) => {
                let _ = fs::remove_file(&new);
                Err(error)
            }
        }
    }

    /// Removes the records of sockets that are gone, or that this process has now.
    fn replace_old_ones(&self, folder: &Path) {
        for old in KnownRecord::in_folder(folder).into_iter().filter(|old| old.lock.is_some()) {
            let is_ours = |socket: &PathBuf| self.sockets().any(|own| own == socket) || !socket.exists();
            if old.record.method != AttachMethod::Ublk && old.record.sockets().all(is_ours) {
                old.remove();
            }
        }
    }
}

/// The record of this process. It goes when this is dropped.
#[derive(Debug)]
pub(super) struct KeptRecord {
    path: PathBuf,
    record: Record,
    /// Held as long as the process lives.
    lock: Option<File>,
}

impl KeptRecord {
    /// Returns the record and its path.
    pub(super) fn content(&self) -> (Record, PathBuf) {
        (self.record.clone(), self.path.clone())
    }

    /// Leaves it to the next process.
    pub(super) fn leave(mut self) {
        self.lock = None;
    }
}

impl Drop for KeptRecord {
    fn drop(&mut self) {
        if let Some(lock) = &self.lock {
            remove(&self.path, lock);
        }
    }
}

/// The record of another process.
#[derive(Debug)]
pub(super) struct KnownRecord {
    pub(super) path: PathBuf,
    pub(super) record: Record,
    /// Lock of an ended process' record: while it is held, no other process takes the record over.
    pub(super) lock: Option<File>,
}

impl KnownRecord {
    /// All that this user may see, in all runtime directories.
    pub(super) fn all() -> Vec<Self> {
        let folders = socket::kept_folders();
        let mut all: Vec<Self> =
            folders.iter().flat_map(|folder| Self::in_folder(&folder.join(FOLDER))).collect();
        all.sort_by_key(|known| {
            let device = known.record.disks.first().and_then(|disk| disk.device);
            (device.map(|device| device.number), known.path.clone())
        });
        all
    }

    fn in_folder(folder: &Path) -> Vec<Self> {
        // One that others may write could have anything in it.
        let Ok(folder) = PrivateFolder::open(folder) else { return Vec::new() };
        let Ok(entries) = fs::read_dir(folder.path()) else { return Vec::new() };
        let paths = entries.flatten().map(|entry| entry.path());
        paths
            .filter(|path| path.extension().is_some_and(|extension| extension == SUFFIX))
            .filter_map(|path| Self::open(&folder, path))
            .collect()
    }

    fn open(folder: &PrivateFolder, path: PathBuf) -> Option<Self> {
        let file = folder.open_to_append(path.file_name()?).ok()?;
        Self::of_file(folder, path, file)
    }

    /// Reads the record in a file that was opened at this path.
    fn of_file(folder: &PrivateFolder, path: PathBuf, file: File) -> Option<Self> {
        let mut text = Vec::new();
        (&file).take(LENGTH_MAX).read_to_end(&mut text).ok()?;
        let record = Record::parse(&text)?;
        let until = Instant::now() + LOOKED_AT_FOR;
        let is_locked = loop {
            match file.try_lock() {
                Ok(()) => break true,
                // Another process that lists what there is has the lock for a moment.
                Err(TryLockError::WouldBlock) if !record.process.is_there() && Instant::now() < until => {
                    thread::sleep(LOOKED_AT_FOR / 20);
                }
                Err(TryLockError::WouldBlock) => break false,
                Err(TryLockError::Error(_)) => return None,
            }
        };
        // A process that has taken it over meanwhile has another file there, and its disks are not to be missed.
        if is_locked && !is_same(&path, &file) {
            return Self::open(folder, path);
        }
        let lock = is_locked.then_some(file);
        Some(Self { path, record, lock })
    }

    /// True if its process is alive.
    pub(super) const fn is_alive(&self) -> bool {
        self.lock.is_none()
    }

    /// The block devices of it that are still there.
    pub(super) fn devices<'a>(&self, found: &'a [FoundDevice]) -> Vec<&'a FoundDevice> {
        let recorded = self.record.disks.iter().filter_map(|disk| disk.device);
        recorded.filter_map(|device| found.iter().find(|found| device.is(found))).collect()
    }

    /// Returns the devices that can be taken over. The kernel may still count a device as served
    /// whose process has just ended.
    pub(super) fn recoverable<'a>(&self, found: &'a [FoundDevice]) -> Vec<&'a FoundDevice> {
        let devices = if self.is_alive() { Vec::new() } else { self.devices(found) };
        let waits = |device: &&FoundDevice| device.state != DeviceState::Dead && device.owner.is_none();
        devices.into_iter().filter(waits).collect()
    }

    /// Removes that of a process that is gone, and where that one waited for a new process.
    pub(super) fn remove(&self) {
        if let Some(lock) = &self.lock {
            remove(&self.path, lock);
            if let Some(folder) = self.path.parent() {
                remove_unused(&upgrade_place(folder, self.record.process.pid));
            }
        }
    }
}

/// Returns the path of the socket at which a process with a record in this folder waits for its
/// new process.
pub(super) fn upgrade_place(folder: &Path, process: u32) -> PathBuf {
    folder.join(format!("{process}.{UPGRADE_SUFFIX}"))
}

/// Removes the upgrade sockets of killed processes: the processes that took over their disks have their own.
pub(super) fn remove_left_places() {
    socket::kept_folders().iter().for_each(|folder| remove_left_places_in(&folder.join(FOLDER)));
}

fn remove_left_places_in(folder: &Path) {
    let Ok(folder) = PrivateFolder::open(folder) else { return };
    let entries = fs::read_dir(folder.path()).into_iter().flatten().flatten();
    for place in entries.map(|entry| entry.path()) {
        let is_one = place.extension().is_some_and(|extension| extension == UPGRADE_SUFFIX);
        let process = place.file_stem().and_then(|name| name.to_str()?.parse::<u32>().ok());
        // One that begins to wait has its place before it can be reached there.
        if is_one && process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            remove_unused(&place);
        }
    }
}

/// The number of a process that is gone may be another process' by now, which waits there.
fn remove_unused(place: &Path) {
    if UnixStream::connect(place).is_err() {
        let _ = fs::remove_file(place);
    }
}

/// The folder of this process's records, made if need be.
///
/// # Errors
/// When there is no place for it.
pub(super) fn make_folder() -> Result<PathBuf, String> {
    let folder = socket::kept_folder().ok_or("there is no runtime directory")?.join(FOLDER);
    PrivateFolder::make(&folder).map_err(|error| error.to_string())?;
    Ok(folder)
}

fn remove(path: &Path, file: &File) {
    if is_same(path, file) {
        // One that stays is one of a process that is gone.
        let _ = fs::remove_file(path);
    }
}

fn is_same(path: &Path, file: &File) -> bool {
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    match (fs::symlink_metadata(path), file.metadata()) {
        (Ok(named), Ok(open)) => identity(named) == identity(open),
        _ => false,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn record() -> Record {
        record_of(3, u64::MAX)
    }

    /// Returns the record of a process that has attached a block device.
    pub(in super::super) fn record_of(number: u32, mark: u64) -> Record {
        let line = CommandLine { arguments: vec!["attach".into()], working_directory: "/tmp".into() };
        let device = Some(RecordedDevice { number, mark });
        let namespace = Uuid::from_u128(7);
        let disk = RecordedDisk {
            nsid: 1,
            namespace,
            names: None,
            device,
            socket: None,
            address: None,
            read_only: false,
            is_second: false,
        };
        Record::new(line, AttachMethod::Ublk, &Nqn::new("nqn.a").unwrap(), vec![disk])
    }

    #[test]
    fn places_of_killed_processes_go_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        // No process has this number: it is above what Linux gives.
        let [dead, waits] = [u32::MAX, u32::MAX - 1].map(|number| upgrade_place(folder.path(), number));
        let begins = upgrade_place(folder.path(), std::process::id());
        let _waiting = UnixListener::bind(&waits).unwrap();
        [&dead, &begins].into_iter().for_each(|place| drop(UnixListener::bind(place).unwrap()));
        remove_left_places_in(folder.path());
        assert_eq!([&dead, &waits, &begins].map(|place| place.exists()), [false, true, true]);
    }

    #[test]
    fn a_record_is_locked_as_long_as_its_process_lives() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        let kept = record().write(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let known = || KnownRecord::in_folder(folder.path());
        assert!(known()[0].is_alive());
        // A killed process closes its files, and removes none.
        kept.leave();
        let gone = known();
        assert!(!gone[0].is_alive());
        assert_eq!(gone[0].record.disks[0].device, record().disks[0].device);
        assert!(known()[0].is_alive(), "two processes take over the same");
        let next = gone[0].record.write(&path).unwrap();
        drop(gone);
        assert!(known()[0].is_alive());
        drop(next);
        assert!(known().is_empty());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_record_that_is_replaced_while_it_is_read_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        record().write(&path).unwrap().leave();
        let private = PrivateFolder::open(folder.path()).unwrap();
        let open = || private.open_to_append("a.json".as_ref()).unwrap();
        let former = open();
        let next = record_of(4, 7).write(&path).unwrap();
        let known = KnownRecord::of_file(&private, path.clone(), former).expect("the next process's");
        assert!(known.is_alive());
        assert_eq!(known.record.disks[0].device, Some(RecordedDevice { number: 4, mark: 7 }));
        let former = open();
        next.leave();
        fs::remove_file(&path).unwrap();
        assert!(KnownRecord::of_file(&private, path, former).is_none(), "it was removed");
    }

    #[test]
    fn what_is_not_a_record_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.json"), "{").unwrap();
        fs::write(folder.path().join("b.json"), r#"{"version": 2}"#).unwrap();
        assert!(KnownRecord::in_folder(folder.path()).is_empty());
        record().write(&folder.path().join("c.json")).unwrap().leave();
        assert_eq!(KnownRecord::in_folder(folder.path()).len(), 1);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(KnownRecord::in_folder(folder.path()).is_empty(), "others may write there");
    }

    #[test]
    fn records_of_sockets_go_with_them() {
        let folder = tempfile::tempdir().unwrap();
        let socket = |name: &str| {
            let mut record = record();
            record.method = AttachMethod::Nbd;
            record.disks[0].device = None;
            record.disks[0].socket = Some(folder.path().join(name));
            record
        };
        for name in ["there", "gone", "ours"] {
            socket(name).write(&folder.path().join(format!("{name}.json"))).unwrap().leave();
        }
        record().write(&folder.path().join("device.json")).unwrap().leave();
        ["there", "ours"].iter().for_each(|name| fs::write(folder.path().join(name), "").unwrap());
        socket("ours").replace_old_ones(folder.path());
        let mut left: Vec<PathBuf> =
            KnownRecord::in_folder(folder.path()).into_iter().map(|known| known.path).collect();
        left.sort();
        assert_eq!(left, ["device.json", "there.json"].map(|name| folder.path().join(name)));
    }

    #[test]
    fn a_secret_is_not_written_down() {
        let line = |words: &[&str]| CommandLine::of(words.iter().map(OsString::from));
        assert_eq!(line(&["attach", "-S", "host.key"]).unwrap().arguments, ["attach", "-S", "host.key"]);
        for words in
            [&["attach", "-S", "DHHC-1:00:abc:"][..], &["attach", "--tls-key-file=NVMeTLSkey-1:01:abc:"]]
        {
            assert!(matches!(line(words), Err(Failure::Usage(_))), "{words:?}");
        }
    }
}
