//! Where the control API is reached: a Unix socket that only its owner may use, or TCP for those who have a token.
//! It makes and removes the socket; what comes over it is the server's.

use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use uuid::Uuid;

use crate::failure::Failure;

/// An address of the control API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Unix(PathBuf),
    Tcp(SocketAddr),
    /// There is to be none.
    None,
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no control address: write unix:PATH, tcp:ADDR:PORT or none");
        match text.split_once(':') {
            None if text == "none" => Ok(Self::None),
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(path.into())),
            Some(("tcp", address)) => address.parse().map(Self::Tcp).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
            Self::None => f.write_str("none"),
        }
    }
}

/// The folder of the sockets whose place nobody chose, if there can be one: the system's for root, else the session's.
pub(crate) fn default_folder() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some("/run/selvedge".into());
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)?;
    runtime.is_absolute().then(|| runtime.join("selvedge"))
}

/// Where a target whose first port is `service` is administered, when nobody chose a place.
pub(crate) fn default_place(service: u16) -> Option<PathBuf> {
    default_folder().map(|folder| folder.join(format!("{service}.sock")))
}

/// The sockets in a folder behind which a process listens.
pub(crate) fn living_sockets(folder: &Path) -> Vec<PathBuf> {
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
pub(crate) enum Listening {
    Unix { listener: UnixListener, file: SocketFile },
    Tcp(TcpListener),
}

/// The file of a Unix socket.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode: what is there under the same name later may be another process's.
    identity: (u64, u64),
}

impl Listening {
    /// Listens there.
    pub(crate) fn on(endpoint: &Endpoint) -> Result<Option<Self>, Failure> {
        match endpoint {
            Endpoint::None => Ok(None),
            Endpoint::Unix(path) => {
                let failed = |error| {
                    Failure::failed(format!("the control socket {} cannot be made: {error}", path.display()))
                };
                let (listener, file) = listen(path).map_err(|error| match error.kind() {
                    io::ErrorKind::AddrInUse => Failure::failed(format!(
                        "another process listens on the control socket {}; end it, or choose another place with \
                         --control unix:PATH",
                        path.display()
                    )),
                    _ => failed(error),
                })?;
                Ok(Some(Self::Unix { listener, file }))
            }
            Endpoint::Tcp(address) => TcpListener::bind(address).map(Self::Tcp).map(Some).map_err(|error| {
                Failure::failed(format!(
                    "cannot listen on {address} for control: {error}; choose another with --control"
                ))
            }),
        }
    }

    /// The address, with the real port.
    pub(crate) fn endpoint(&self) -> Endpoint {
        match self {
            Self::Unix { file, .. } => Endpoint::Unix(file.path.clone()),
            Self::Tcp(listener) => listener.local_addr().map_or(Endpoint::None, Endpoint::Tcp),
        }
    }
}

/// Makes the socket in a folder of its own first, so that nobody else can connect before its mode says so, and moves it
/// to its place, over what a process that died left there.
fn listen(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
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
    let made = make(&folder.join("s"), &path);
    // It is empty now; one that cannot be removed is in nobody's way.
    let _ = fs::remove_dir(&folder);
    made
}

fn make(at: &Path, path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let listener = UnixListener::bind(at)?;
    let ready = || {
        fs::set_permissions(at, fs::Permissions::from_mode(0o600))?;
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
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for text in ["unix:/run/a.sock", "tcp:127.0.0.1:80", "tcp:[::1]:80", "none"] {
            assert_eq!(text.parse::<Endpoint>().map(|endpoint| endpoint.to_string()).as_deref(), Ok(text));
        }
        for text in ["", "unix:", "/run/a.sock", "tcp:", "tcp:80", "tcp:host:80", "http:x"] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_socket_is_its_owners_alone_and_goes_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let listening = Listening::on(&Endpoint::Unix(path.clone())).unwrap().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(living_sockets(folder.path()), std::slice::from_ref(&path));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        drop(listening);
        assert!(!path.exists());
    }

    #[test]
    fn a_living_process_keeps_its_socket_and_a_dead_one_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let endpoint = Endpoint::Unix(path.clone());
        let first = UnixListener::bind(&path).unwrap();
        let refused = Listening::on(&endpoint).unwrap_err().line().unwrap();
        assert!(refused.contains("--control unix:PATH"), "{refused}");
        drop(first);
        assert!(path.exists() && living_sockets(folder.path()).is_empty());
        let second = Listening::on(&endpoint).unwrap();
        assert_eq!(living_sockets(folder.path()).len(), 1);
        drop(second);
        fs::write(&path, "precious").unwrap();
        assert!(Listening::on(&endpoint).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
}
