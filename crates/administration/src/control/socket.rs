//! The socket of the control API: a Unix socket, for its owner alone unless others have rights, or TCP. It makes and removes
//! it; what comes over it is the server's.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use uuid::Uuid;

use crate::failure::Failure;
use crate::spec::endpoint::Endpoint;

/// Default folder of sockets for root, and for services.
const SYSTEM_FOLDER: &str = "/run/selvedge";
/// Folder for files of root that a later process or a client has to find. The other folder may belong
/// to a target that runs as another user, and is removed with its content when that target stops.
const KEPT_FOLDER: &str = "/run/selvedge-attach";
/// Folder of those folders, and the beginning of the names of others there: each gateway of the packages has one.
const RUN: &str = "/run";
const GATEWAY_FOLDERS: &str = "selvedge-gateway-";
/// Connections that wait until they are accepted, as many as those of the standard library's sockets.
const BACKLOG: i32 = 128;

/// Parts of the environment from which the folder of sockets follows.
struct Surroundings {
    is_root: bool,
    /// The folders that systemd has made for a service.
    runtime_directory: Option<OsString>,
    /// The session's.
    session: Option<OsString>,
}

impl Surroundings {
    fn here() -> Self {
        Self {
            is_root: rustix::process::geteuid().is_root(),
            runtime_directory: env::var_os("RUNTIME_DIRECTORY"),
            session: env::var_os("XDG_RUNTIME_DIR"),
        }
    }

    /// All folders that may have sockets, the one for this process's own first.
    fn folders(&self) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        // Several are separated by colons (systemd.exec(5)).
        let service = self.runtime_directory.as_ref().and_then(|all| env::split_paths(all).next());
        folders.extend(service);
        if self.is_root {
            folders.push(SYSTEM_FOLDER.into());
        }
        folders.extend(self.session.as_ref().map(|session| Path::new(session).join("selvedge")));
        folders.retain(|folder| folder.is_absolute());
        folders
    }

    /// All folders that may have sockets of other processes, too.
    fn known_folders(&self) -> Vec<PathBuf> {
        let mut folders = self.folders();
        // A service's, which its own user may ask too.
        folders.push(SYSTEM_FOLDER.into());
        folders.sort();
        folders.dedup();
        folders
    }

    /// True if the sockets of all services are meant. A service means its own.
    fn means_all_services(&self) -> bool {
        self.is_root && self.runtime_directory.is_none()
    }

    /// The folder of what belongs to attached disks. A service of another user than root can make none beside its own.
    fn kept_folder(&self) -> Option<PathBuf> {
        let folder = self.folders().into_iter().next()?;
        Some(if self.is_root && folder == Path::new(SYSTEM_FOLDER) { KEPT_FOLDER.into() } else { folder })
    }
}

/// Default folder of sockets, if there can be one: the service's, the system's for root, or the
/// session's.
fn default_folder() -> Option<PathBuf> {
    Surroundings::here().folders().into_iter().next()
}

/// The folder of what a process keeps for one that comes after it was killed, if there can be one.
pub fn kept_folder() -> Option<PathBuf> {
    Surroundings::here().kept_folder()
}

/// Creates that folder, and returns its path. If it cannot be created, creating what is in it fails
/// with the reason.
pub fn make_kept_folder() -> Option<PathBuf> {
    kept_folder().map(made)
}

/// All folders where such things may be, also those of a service.
pub fn kept_folders() -> Vec<PathBuf> {
    let mut folders = Surroundings::here().known_folders();
    folders.push(KEPT_FOLDER.into());
    folders.dedup();
    folders
}

/// All folders that may have sockets at their default place.
pub fn default_folders() -> Vec<PathBuf> {
    let surroundings = Surroundings::here();
    let mut folders = surroundings.known_folders();
    if surroundings.means_all_services() {
        folders.extend(gateway_folders(Path::new(RUN)));
    }
    folders
}

/// The folders of gateways.
fn gateway_folders(run: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(run).into_iter().flatten().flatten();
    let gateways = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(GATEWAY_FOLDERS));
    let mut folders: Vec<PathBuf> = gateways.map(|entry| entry.path()).collect();
    folders.sort();
    folders
}

/// Default socket of a target whose first port is `service`.
pub(crate) fn default_path(service: u16) -> Option<PathBuf> {
    default_folder().map(|folder| folder.join(format!("{service}.sock")))
}

/// Creates the default folder of sockets, and returns its path. If it cannot be created, creating
/// the socket fails with the reason.
pub fn make_default_folder() -> Option<PathBuf> {
    default_folder().map(made)
}

fn made(folder: PathBuf) -> PathBuf {
    let _ = fs::DirBuilder::new().mode(0o700).recursive(true).create(&folder);
    folder
}

/// Removes the sockets that killed targets have left in a folder. A socket has a listener before it
/// is moved to its place, so a socket without one is that of a target that has ended.
pub fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
        let is_ours = path.file_name().and_then(|name| name.to_str()).is_some_and(is_named_for_port);
        let Ok(before) = fs::symlink_metadata(&path) else { continue };
        if !is_ours || !before.file_type().is_socket() {
            continue;
        }
        let refused =
            UnixStream::connect(&path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        // Another target may have come to the same place meanwhile.
        let is_same = || {
            fs::symlink_metadata(&path)
                .is_ok_and(|now| (now.dev(), now.ino()) == (before.dev(), before.ino()))
        };
        if refused && is_same() && fs::remove_file(&path).is_ok() {
            tracing::info!(socket = %path.display(), "removed the socket of a target that has ended");
        }
    }
}

/// Checks the name of a socket: targets make such ones where no place was chosen, for administrators and for the process that goes
/// on in place of this one.
fn is_named_for_port(name: &str) -> bool {
    let name = name.strip_suffix(".upgrade").unwrap_or(name);
    name.strip_suffix(".sock").is_some_and(|port| port.parse::<u16>().is_ok())
}

/// The sockets in a folder behind which a process listens.
pub fn living_sockets(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let mut living: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "sock"))
        .filter(|path| UnixStream::connect(path).is_ok())
        .collect();
    living.sort();
    living
}

/// A socket that listens. A Unix socket's file goes when this is dropped.
#[derive(Debug)]
pub enum Listening {
    Unix { listener: UnixListener, file: SocketFile },
    Tcp(TcpListener),
}

/// The file of a Unix socket.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode: what is there under the same name later may be another process's.
    identity: (u64, u64),
}

impl SocketFile {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adopts the file of a socket that another process has created and hands over.
    ///
    /// # Errors
    /// When there is none.
    pub fn left_by_another(path: &Path) -> io::Result<Self> {
        let file = fs::symlink_metadata(path)?;
        if !file.file_type().is_socket() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file of this name"));
        }
        Ok(Self { path: path.to_owned(), identity: (file.dev(), file.ino()) })
    }

    /// Leaves the file to another process.
    pub fn leave(mut self) {
        // No file is this one.
        self.identity = (0, 0);
    }
}

impl Listening {
    /// Listens there. Whether a process of another user may connect to a Unix socket, `is_open_to_others` says; what it may
    /// do then is said elsewhere.
    pub fn on(endpoint: &Endpoint, is_open_to_others: bool) -> Result<Option<Self>, Failure> {
        match endpoint {
            Endpoint::None => Ok(None),
            Endpoint::Unix(path) => {
                let failed = |error| {
                    Failure::failed(format!(
                        "the control socket {} cannot be created: {error}; choose another with --control unix:PATH",
                        path.display()
                    ))
                };
                let (listener, file) = listen(path, is_open_to_others).map_err(|error| match error.kind() {
                    io::ErrorKind::AddrInUse => Failure::failed(format!(
                        "another process listens on the control socket {}; end it, or choose another with --control unix:PATH",
                        path.display()
                    )),
                    _ => failed(error),
                })?;
                Ok(Some(Self::Unix { listener, file }))
            }
            Endpoint::Tcp(_) | Endpoint::Tls { .. } => {
                let address = endpoint.socket_address().ok_or_else(|| {
                    Failure::usage(format!(
                        "{endpoint} is not an address of this machine: write tls:ADDR:PORT"
                    ))
                })?;
                TcpListener::bind(address).map(Self::Tcp).map(Some).map_err(|error| {
                    Failure::failed(format!(
                        "cannot listen on {address} for control: {error}; choose another with --control"
                    ))
                })
            }
        }
    }

    /// The address, with the real port.
    pub fn endpoint(&self) -> Endpoint {
        match self {
            Self::Unix { file, .. } => Endpoint::Unix(file.path.clone()),
            Self::Tcp(listener) => {
                listener.local_addr().map_or(Endpoint::None, |address| Endpoint::Tcp(address.into()))
            }
        }
    }
}

/// Creates the socket in a folder of its own first, since no other process may connect before its
/// mode is set, and moves it to its place, replacing the socket of a process that died.
///
/// # Errors
/// `AddrInUse` when a process listens there, `AlreadyExists` when there is a file but not a socket, or the system's.
pub fn listen(path: &Path, is_open_to_others: bool) -> io::Result<(UnixListener, SocketFile)> {
    let path = std::path::absolute(path)?;
    match fs::symlink_metadata(&path) {
        Ok(file) if !file.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file of this name"));
        }
        Ok(_) if UnixStream::connect(&path).is_ok() => return Err(io::ErrorKind::AddrInUse.into()),
        _ => {}
    }
    let parent = path.parent().unwrap_or(Path::new("/"));
    let mut private = fs::DirBuilder::new();
    private.mode(0o700);
    if default_folder().as_deref() == Some(parent) {
        private.recursive(true).create(parent)?;
        private.recursive(false);
    }
    let name = Uuid::new_v4().simple().to_string();
    let folder = parent.join(format!(".{}", &name[..8]));
    private.create(&folder)?;
    let made = make(&folder.join("s"), &path, is_open_to_others);
    // The folder is empty now; a failure to remove it does no harm.
    let _ = fs::remove_dir(&folder);
    made
}

fn make(at: &Path, path: &Path, is_open_to_others: bool) -> io::Result<(UnixListener, SocketFile)> {
    let listener = bound(at)?;
    let ready = || {
        if is_open_to_others {
            open_to_others(at)?;
        }
        let file = fs::symlink_metadata(at)?;
        fs::rename(at, path)?;
        Ok(SocketFile { path: path.to_owned(), identity: (file.dev(), file.ino()) })
    };
    match ready() {
        Ok(file) => Ok((listener, file)),
        Err(error) => {
            let _ = fs::remove_file(at);
            Err(error)
        }
    }
}

/// Listening socket whose file is its owner's alone from the beginning. A mode that is set by the file's name afterwards could be
/// set on another file, where the folder belongs to another user.
fn bound(at: &Path) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // The file gets the mode of the socket.
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(0o600))?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(at)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Lets other users connect to the socket at this path, if it is one.
fn open_to_others(at: &Path) -> io::Result<()> {
    let file = rustix::fs::open(at, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::Socket {
        return Err(io::Error::other("its folder has been changed by another process"));
    }
    // Such a descriptor has no other way to a mode.
    fs::set_permissions(format!("/proc/self/fd/{}", file.as_raw_fd()), fs::Permissions::from_mode(0o666))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours =
            fs::symlink_metadata(&self.path).is_ok_and(|file| (file.dev(), file.ino()) == self.identity);
        if ours {
            // One that stays is replaced by the next target.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_socket_is_its_owners_alone_and_goes_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let listening = Listening::on(&Endpoint::Unix(path.clone()), false).unwrap().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(living_sockets(folder.path()), std::slice::from_ref(&path));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        drop(listening);
        assert!(!path.exists());
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_socket_is_its_owners_alone_from_the_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("s");
        let listener = bound(&at).unwrap();
        assert_eq!(mode(&at), 0o600);
        open_to_others(&at).unwrap();
        assert_eq!(mode(&at), 0o666);
        UnixStream::connect(&at).unwrap();
        drop(listener.accept().unwrap());
    }

    #[test]
    fn a_file_in_the_place_of_a_socket_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let [precious, at] = ["precious", "s"].map(|name| folder.path().join(name));
        fs::write(&precious, "precious").unwrap();
        fs::set_permissions(&precious, fs::Permissions::from_mode(0o600)).unwrap();
        let links: [fn(&Path, &Path) -> io::Result<()>; 2] =
            [|to, at| std::os::unix::fs::symlink(to, at), |to, at| fs::hard_link(to, at)];
        for link in links {
            link(&precious, &at).unwrap();
            assert!(open_to_others(&at).is_err());
            fs::remove_file(&at).unwrap();
        }
        assert_eq!(mode(&precious), 0o600);
    }

    #[test]
    fn a_service_has_its_folder_and_others_have_theirs() {
        let folders = |is_root, runtime_directory: Option<&str>, session: Option<&str>| {
            let surroundings = Surroundings {
                is_root,
                runtime_directory: runtime_directory.map(Into::into),
                session: session.map(Into::into),
            };
            surroundings.folders().into_iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(folders(false, None, None), [""; 0]);
        assert_eq!(folders(true, None, None), ["/run/selvedge"]);
        assert_eq!(folders(false, None, Some("/run/user/7")), ["/run/user/7/selvedge"]);
        assert_eq!(folders(false, Some("/run/a:/run/b"), None), ["/run/a"]);
        assert_eq!(folders(true, Some("/run/a"), None), ["/run/a", "/run/selvedge"]);
        assert_eq!(
            folders(false, Some("a"), Some("b")),
            [""; 0],
            "a service's working directory is anywhere"
        );
    }

    #[test]
    fn gateways_of_the_packages_are_found_by_root_and_by_no_other_service() {
        let unit = include_str!("../../../../packaging/systemd/selvedge-gateway@.service");
        assert!(unit.contains(&format!(" --control unix:{RUN}/{GATEWAY_FOLDERS}%i/control.sock ")), "{unit}");
        let run = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let folder = run.path().join(name);
            fs::create_dir(&folder).unwrap();
            folder
        };
        let [_, _, second, first] =
            ["selvedge", "other", "selvedge-gateway-rbd-b", "selvedge-gateway-rbd-a"].map(folder);
        assert_eq!(gateway_folders(run.path()), [first, second]);
        assert!(gateway_folders(&run.path().join("missing")).is_empty());
        let means_all = |is_root, service: Option<&str>| {
            let runtime_directory = service.map(Into::into);
            Surroundings { is_root, runtime_directory, session: None }.means_all_services()
        };
        assert!(means_all(true, None) && !means_all(true, Some("/run/a")) && !means_all(false, None));
    }

    #[test]
    fn a_gateways_file_may_name_its_group() {
        let unit = include_str!("../../../../packaging/systemd/selvedge-gateway@.service");
        let lines = ["Environment=GROUP=%I", "EnvironmentFile=/etc/selvedge/gateway-%i.conf"];
        let at = lines.map(|line| unit.find(&format!("\n{line}\n")).expect(line));
        assert!(at[0] < at[1] && unit.contains(" --gateway-group ${GROUP} "), "{unit}");
    }

    #[test]
    fn purging_the_package_removes_all_folders_of_root() {
        let script = include_str!("../../../../packaging/deb/postrm");
        let (_, purge) = script.split_once("\npurge)\n").expect("a part about purging");
        let removals = purge.lines().filter_map(|line| line.trim().strip_prefix("rm -rf "));
        let removed: Vec<&str> = removals.flat_map(str::split_whitespace).collect();
        assert!([SYSTEM_FOLDER, KEPT_FOLDER].iter().all(|folder| removed.contains(folder)), "{removed:?}");
    }

    #[test]
    fn purging_the_package_leaves_records_of_disks_that_are_attached() {
        let script = include_str!("../../../../packaging/deb/postrm");
        let part =
            script.split_once("    attached=\n").and_then(|(_, rest)| rest.split_once("    # Tokens "));
        let (part, _) = part.expect("a part about attached disks");
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("kept");
        let part = part
            .replace(KEPT_FOLDER, kept.to_str().unwrap())
            .replace("/dev/ublkb", &folder.path().join("ublkb").display().to_string());
        let purge = || {
            let status = Command::new("sh").args(["-euc", &format!("attached=\n{part}")]).status().unwrap();
            assert!(status.success());
            kept.exists()
        };
        fs::create_dir_all(kept.join("attach")).unwrap();
        let record = fs::File::create(kept.join("attach/1.json")).unwrap();
        record.lock().unwrap();
        assert!(purge(), "its process lives");
        drop(record);
        let device = folder.path().join("ublkb0");
        fs::write(&device, "").unwrap();
        assert!(purge(), "a device waits for the next process");
        fs::remove_file(device).unwrap();
        assert!(!purge());
    }

    #[test]
    fn files_of_attached_disks_stay_when_a_target_stops() {
        let folder = |is_root, runtime_directory: Option<&str>, session: Option<&str>| {
            let surroundings = Surroundings {
                is_root,
                runtime_directory: runtime_directory.map(Into::into),
                session: session.map(Into::into),
            };
            surroundings.kept_folder().map(|path| path.display().to_string())
        };
        assert_eq!(folder(true, None, None).as_deref(), Some("/run/selvedge-attach"));
        assert_eq!(folder(true, Some("/run/a"), None).as_deref(), Some("/run/a"));
        assert_eq!(folder(true, Some("/run/selvedge"), None).as_deref(), Some("/run/selvedge-attach"));
        assert_eq!(folder(false, Some("/run/selvedge"), None).as_deref(), Some("/run/selvedge"), "its own");
        assert_eq!(folder(false, None, Some("/run/user/7")).as_deref(), Some("/run/user/7/selvedge"));
        assert_eq!(folder(false, None, Some("relative")), None);
    }

    #[test]
    fn sockets_of_dead_targets_are_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in
            ["4420.sock", "4420.sock.upgrade", "4421.sock", "4424.sock.upgrade", "other.sock", "70000.sock"]
        {
            drop(UnixListener::bind(path(name)).unwrap());
        }
        fs::write(path("4422.sock"), "a file").unwrap();
        let living = ["4423.sock", "4423.sock.upgrade"].map(|name| UnixListener::bind(path(name)).unwrap());
        sweep(folder.path());
        let mut left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["4422.sock", "4423.sock", "4423.sock.upgrade", "70000.sock", "other.sock"]);
        drop(living);
    }

    #[test]
    fn a_living_process_keeps_its_socket_and_a_dead_one_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let endpoint = Endpoint::Unix(path.clone());
        let first = UnixListener::bind(&path).unwrap();
        let refused = Listening::on(&endpoint, false).unwrap_err().line().unwrap();
        assert_eq!(refused.matches("--control unix:PATH").count(), 1, "{refused}");
        drop(first);
        assert!(path.exists() && living_sockets(folder.path()).is_empty());
        let second = Listening::on(&endpoint, false).unwrap();
        assert_eq!(living_sockets(folder.path()).len(), 1);
        drop(second);
        fs::write(&path, "precious").unwrap();
        let refused = Listening::on(&endpoint, false).unwrap_err().line().unwrap();
        assert_eq!(refused.matches("--control unix:PATH").count(), 1, "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
}
