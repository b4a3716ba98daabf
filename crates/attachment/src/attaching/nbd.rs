//! Listening sockets for NBD clients, and their URIs.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use attach::Listener;
use engine::address::NetAddress;
use engine::initiator::NamespaceInfo;
use nvme::discovery::Nqn;

use super::listen;
use super::record::{RecordedDisk, identity};
use crate::control::socket::{self, SocketFile};
use crate::failure::Failure;
use crate::flags::attach::NbdEndpoint;

/// Listening socket before clients are accepted.
pub(super) enum NbdListener {
    Unix { listener: UnixListener, file: SocketFile, path: PathBuf },
    Tcp { listener: TcpListener, address: SocketAddr },
}

impl NbdListener {
    pub(super) fn open(asked: &NbdEndpoint, nqn: &Nqn, namespace: &NamespaceInfo) -> Result<Self, Failure> {
        match asked {
            NbdEndpoint::Unix(path) => Self::unix(path),
            NbdEndpoint::Tcp(address) => Self::tcp(*address),
            NbdEndpoint::Default => {
                let folder = socket::make_kept_folder().ok_or_else(|| {
                    Failure::usage("there is no runtime directory ($XDG_RUNTIME_DIR): choose a path with --nbd unix:PATH")
                })?;
                Self::unix(&folder.join(socket_name(nqn, namespace)))
            }
        }
    }

    /// Listener of the old process, which has offered its socket and the address for clients.
    pub(super) fn inherited(
        asked: &NbdEndpoint,
        (nqn, namespace): (&Nqn, &NamespaceInfo),
        (listener, disk): (OwnedFd, &RecordedDisk),
    ) -> Result<Self, Failure> {
        let places: Vec<PathBuf> = match asked {
            NbdEndpoint::Unix(path) => std::path::absolute(path).into_iter().collect(),
            NbdEndpoint::Default => default_places(&socket_name(nqn, namespace)),
            NbdEndpoint::Tcp(asked) => {
                let listener = TcpListener::from(listener);
                let address = listener.local_addr().map_err(Failure::failed)?;
                let is_it =
                    asked.ip() == address.ip() && (asked.port() == 0 || asked.port() == address.port());
                return if is_it { Ok(Self::Tcp { listener, address }) } else { Err(elsewhere(disk)) };
            }
        };
        let path = places.into_iter().find(|path| disk.socket.as_ref() == Some(path));
        let path = path.ok_or_else(|| elsewhere(disk))?;
        let file = SocketFile::left_by_another(&path)
            .map_err(|error| Failure::failed(format!("the socket {}: {error}", path.display())))?;
        Ok(Self::Unix { listener: listener.into(), file, path })
    }

    /// Duplicate of the listening socket.
    pub(super) fn duplicate(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Unix { listener, .. } => listener.as_fd().try_clone_to_owned(),
            Self::Tcp { listener, .. } => listener.as_fd().try_clone_to_owned(),
        }
    }

    fn unix(path: &Path) -> Result<Self, Failure> {
        let (listener, file, path) = listen(path, "--nbd unix:PATH")?;
        Ok(Self::Unix { listener, file, path })
    }

    fn tcp(address: SocketAddr) -> Result<Self, Failure> {
        let listen = || {
            let listener = TcpListener::bind(address)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = listen().map_err(|error: io::Error| {
            Failure::failed(format!("cannot listen on {address}: {error}; choose another address with --nbd"))
        })?;
        if !address.ip().is_loopback() {
            eprintln!(
                "selvedge: every client that reaches {address} can use the disk: NBD has no encryption or login here"
            );
        }
        Ok(Self::Tcp { listener, address })
    }

    /// File of a Unix socket, the listening socket, and its address for clients.
    pub(super) fn parts(self) -> (Option<SocketFile>, Listener, Address) {
        match self {
            Self::Unix { listener, file, path } => {
                (Some(file), Listener::Unix(listener), Address::Unix(path))
            }
            Self::Tcp { listener, address } => (None, Listener::Tcp(listener), Address::Tcp(address)),
        }
    }
}

fn elsewhere(disk: &RecordedDisk) -> Failure {
    Failure::failed(format!(
        "the old process listens on {}, and this one has another address: restart it instead",
        disk.place()
    ))
}

/// Returns the default name of a socket: that of the namespace, wherever it is found.
fn socket_name(nqn: &Nqn, namespace: &NamespaceInfo) -> String {
    // Sockets that end with .sock are those of targets.
    format!("{}.nbd", identity(nqn, namespace))
}

/// Returns all places at which a process may have made a socket of this name by default: earlier versions made those of root in
/// the folder of targets, where the old process of an upgrade may still listen.
fn default_places(name: &str) -> Vec<PathBuf> {
    socket::kept_folders().iter().map(|folder| folder.join(name)).collect()
}

/// Address for clients.
pub(super) enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl Address {
    /// A disk that is found there.
    pub(super) fn record(&self, disk: RecordedDisk) -> RecordedDisk {
        match self {
            Self::Unix(path) => RecordedDisk { socket: Some(path.clone()), ..disk },
            Self::Tcp(address) => {
                RecordedDisk { address: Some(NetAddress::from(*address).to_string()), ..disk }
            }
        }
    }

    /// Returns the URI of a disk for clients (doc/uri.md of the NBD project).
    pub(super) fn uri(&self, name: &str, has_tls: bool) -> String {
        let scheme = if has_tls { "nbds" } else { "nbd" };
        match self {
            Self::Unix(path) => {
                format!("{scheme}+unix:///{name}?socket={}", escaped(&path.to_string_lossy()))
            }
            // RFC 6874 has the percent sign before an interface escaped.
            Self::Tcp(address) => {
                format!("{scheme}://{}/{name}", NetAddress::from(*address).to_string().replace('%', "%25"))
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "{address}"),
        }
    }
}

/// A path in a URI's query.
fn escaped(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'~' => text.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => text.push(byte.into()),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_what_clients_read() {
        assert_eq!(
            Address::Unix("/run/a b/ü.nbd".into()).uri("1", false),
            "nbd+unix:///1?socket=/run/a%20b/%C3%BC.nbd"
        );
        assert_eq!(Address::Tcp("[::1]:10809".parse().unwrap()).uri("2", false), "nbd://[::1]:10809/2");
        assert_eq!(Address::Tcp("[::1]:10809".parse().unwrap()).uri("2", true), "nbds://[::1]:10809/2");
        assert_eq!(Address::Unix("/a".into()).uri("1", true), "nbds+unix:///1?socket=/a");
    }

    #[test]
    fn a_socket_at_the_default_place_of_any_version_is_taken_over() {
        let places = default_places("a.nbd");
        for place in ["/run/selvedge/a.nbd", "/run/selvedge-attach/a.nbd"] {
            assert!(places.contains(&place.into()), "{place}: {places:?}");
        }
        let default = socket::kept_folder().map(|folder| folder.join("a.nbd"));
        assert!(default.is_none_or(|default| places.contains(&default)));
    }

    #[test]
    fn a_socket_of_a_living_process_and_a_file_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.nbd");
        let living = NbdListener::unix(&path).unwrap();
        let refused = NbdListener::unix(&path).err().and_then(|failure| failure.line()).unwrap();
        assert!(refused.contains("another process listens") && refused.contains("--nbd"), "{refused}");
        drop(living);
        assert!(!path.exists());
        // As a process that was killed leaves it.
        drop(UnixListener::bind(&path).unwrap());
        drop(NbdListener::unix(&path).unwrap());
        std::fs::write(&path, "precious").unwrap();
        let refused = NbdListener::unix(&path).err().and_then(|failure| failure.line()).unwrap();
        assert!(refused.contains("not a socket"), "{refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }
}
