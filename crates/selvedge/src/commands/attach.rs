//! `selvedge attach`: namespaces as disks for programs that know no NVMe, in the foreground until a signal ends it.

mod vhost_user;

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use attach::{Disk, Listener, Server, ServerOptions, Tally};
use chart::units;
use engine::initiator::{NamespaceInfo, PathState, Paths};
use engine::ring::RingOptions;
use nvme::discovery::Nqn;
use serde::Serialize;
use uuid::Uuid;

use super::bench::paths::{self, PathsAsked};
use super::discover;
use crate::config::connection::Connection;
use crate::config::workload::Queues;
use crate::control::socket::{self, SocketFile};
use crate::failure::Failure;
use crate::flags::OutputFormat;
use crate::flags::attach::{AttachFlags, NbdPlace};
use crate::report;
use crate::spec::size::Size;
use crate::stop::Stop;

/// How often it is looked whether there is anything left to serve, and whether a signal has come.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// A process that was killed still listens until the kernel has ended its ring: this is how long it is waited for.
const KILLED_FOR: Duration = Duration::from_secs(1);

/// Connects, serves, and ends.
pub(super) fn run(flags: &AttachFlags) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    vhost_user::check(flags)?;
    let connection = Connection::new(&flags.connection)?;
    eprintln!("connecting to {}", connection.addresses());
    let nqn = discover::subsystem(&connection, flags.nqn.as_ref())?;
    let _machine = paths::prepare_machine(&flags.connection, &flags.paths)?;
    let disks = disks(flags, &connection, &nqn)?;
    let ring = RingOptions {
        engine: flags.engine.into(),
        poll_us_max: flags.poll_us.unwrap_or(RingOptions::default().poll_us_max),
    };
    let options = ServerOptions { threads: flags.threads, ring };
    let attached = Attached::new(&nqn, &connection);
    match &flags.nbd {
        Some(place) => {
            let place = Place::open(place, &nqn, &disks[0].paths.namespace())?;
            serve_clients(flags, (place, disks), attached, options, &stop)
        }
        None => vhost_user::serve(flags, disks, attached, options, &stop),
    }
}

/// Listens on a Unix socket for its owner alone. `option` is what chooses another place.
fn listen(path: &Path, option: &str) -> Result<(UnixListener, SocketFile, PathBuf), Failure> {
    let shown = path.display();
    let path = std::path::absolute(path).map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
    let until = Instant::now() + KILLED_FOR;
    let listened = loop {
        match socket::listen(&path, false) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < until => {
                thread::sleep(KILLED_FOR / 20);
            }
            listened => break listened,
        }
    };
    let (listener, file) = listened.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Failure::failed(format!(
            "another process listens on {shown}: end it, or choose another place with {option}"
        )),
        io::ErrorKind::AlreadyExists => Failure::failed(format!(
            "{shown} is a file and not a socket: remove it, or choose another place with {option}"
        )),
        _ => Failure::failed(format!("the socket {shown} cannot be made: {error}")),
    })?;
    Ok((listener, file, path))
}

/// Serves NBD clients until a signal comes.
fn serve_clients(
    flags: &AttachFlags,
    (place, disks): (Place, Vec<Disk>),
    attached: Attached,
    options: ServerOptions,
    stop: &Stop,
) -> Result<(), Failure> {
    let all_paths: Vec<Arc<Paths>> = disks.iter().map(|disk| disk.paths.clone()).collect();
    let (socket, listener, address) = place.parts();
    let server = Server::start(disks, vec![listener], options);
    let server = server.map_err(|error| Failure::failed(format!("cannot serve NBD clients: {error}")))?;
    report::print_as(flags.output.output_format, &attached.with_clients(&server, &address))?;
    let has_failed = || {
        let said = "a thread of the NBD server has ended; see the log";
        server.has_failed().then(|| said.to_owned())
    };
    let outcome = watch(stop, &all_paths, has_failed);
    let tally = server.stop();
    drop(socket);
    if matches!(flags.output.output_format, OutputFormat::Normal) {
        eprintln!("{}", told(&tally));
    }
    outcome
}

/// The namespaces, each by paths of its own.
fn disks(flags: &AttachFlags, connection: &Connection, nqn: &Nqn) -> Result<Vec<Disk>, Failure> {
    let queues = Queues { count: flags.threads, entries: flags.queue_size };
    let mut disks: Vec<Disk> = Vec::with_capacity(flags.nsid.len());
    for nsid in &flags.nsid {
        let name = nsid.to_string();
        if disks.iter().any(|disk| disk.name == name) {
            return Err(Failure::usage(format!("namespace {nsid} is named twice")));
        }
        let asked = PathsAsked { flags: &flags.paths, nsid: *nsid, is_kept: true, quiesce: true };
        let options = paths::options(&asked, (connection, nqn), queues, flags.engine.into(), None)?;
        let paths = Paths::connect(options).map(Arc::new).map_err(Failure::failed)?;
        let description = format!("namespace {nsid} of {nqn}");
        disks.push(Disk { name, description, paths, is_read_only: flags.read_only });
    }
    Ok(disks)
}

/// Waits for a signal, or until nothing is left to serve.
fn watch(
    stop: &Stop,
    all_paths: &[Arc<Paths>],
    has_failed: impl Fn() -> Option<String>,
) -> Result<(), Failure> {
    while !stop.is_asked() {
        std::thread::sleep(LOOK_INTERVAL);
        if let Some(reason) = has_failed() {
            return Err(Failure::failed(reason));
        }
        let is_dead = |paths: &Arc<Paths>| paths.status().iter().all(|path| path.state == PathState::Dead);
        if all_paths.iter().all(is_dead) {
            let status = all_paths[0].status();
            let reason = status.iter().find_map(|path| path.error.clone()).unwrap_or_default();
            return Err(Failure::failed(format!("all paths have been given up: {reason}")));
        }
    }
    Ok(())
}

fn told(tally: &Tally) -> String {
    let Tally { clients, requests, errors } = *tally;
    format!(
        "detached after {} of {}, {} answered with an error",
        units::plural(requests, "request"),
        units::plural(clients, "client"),
        units::grouped(errors)
    )
}

/// Where clients connect, before anybody listens.
enum Place {
    Unix { listener: UnixListener, file: SocketFile, path: PathBuf },
    Tcp { listener: TcpListener, address: SocketAddr },
}

impl Place {
    fn open(asked: &NbdPlace, nqn: &Nqn, namespace: &NamespaceInfo) -> Result<Self, Failure> {
        match asked {
            NbdPlace::Unix(path) => Self::unix(path),
            NbdPlace::Tcp(address) => Self::tcp(*address),
            NbdPlace::Default => {
                let folder = socket::make_default_folder().ok_or_else(|| {
                    Failure::usage("there is no runtime directory ($XDG_RUNTIME_DIR): choose a place with --nbd unix:PATH")
                })?;
                Self::unix(&folder.join(socket_name(nqn, namespace)))
            }
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
            Failure::failed(format!("cannot listen on {address}: {error}; choose another place with --nbd"))
        })?;
        if !address.ip().is_loopback() {
            eprintln!(
                "selvedge: whoever reaches {address} can use the disk: NBD has no encryption or login here"
            );
        }
        Ok(Self::Tcp { listener, address })
    }

    /// The file of the socket, if there is one, what listens, and its address for clients.
    fn parts(self) -> (Option<SocketFile>, Listener, Address) {
        match self {
            Self::Unix { listener, file, path } => {
                (Some(file), Listener::Unix(listener), Address::Unix(path))
            }
            Self::Tcp { listener, address } => (None, Listener::Tcp(listener), Address::Tcp(address)),
        }
    }
}

/// The name of a socket whose place nobody chose: that of the namespace, wherever it is found.
fn socket_name(nqn: &Nqn, namespace: &NamespaceInfo) -> String {
    let id = namespace.uuid.or(namespace.nguid).map(Uuid::from_bytes);
    let id = id.unwrap_or_else(|| {
        let name = format!("{nqn} {}", namespace.nsid);
        Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes())
    });
    // Sockets that end with .sock are those of targets.
    format!("{id}.nbd")
}

/// Where clients connect.
enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl Address {
    /// What clients open a disk by (doc/uri.md of the NBD project).
    fn uri(&self, name: &str) -> String {
        match self {
            Self::Unix(path) => format!("nbd+unix:///{name}?socket={}", escaped(&path.to_string_lossy())),
            Self::Tcp(address) => format!("nbd://{address}/{name}"),
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

/// What is printed once clients can connect.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Attached {
    nqn: String,
    /// Where the target is: one address, or several separated by commas.
    addresses: String,
    /// Where NBD clients connect: `unix:PATH`, or an address and a port.
    #[serde(skip_serializing_if = "Option::is_none")]
    nbd: Option<String>,
    /// Threads that serve the disks.
    threads: usize,
    disks: Vec<AttachedDisk>,
}

/// A namespace that is attached.
#[derive(Serialize, schemars::JsonSchema)]
struct AttachedDisk {
    nsid: u32,
    /// By which NBD clients open it.
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<String>,
    /// Where vhost-user front ends connect.
    #[serde(skip_serializing_if = "Option::is_none")]
    socket: Option<PathBuf>,
    size_bytes: u64,
    block_bytes: u32,
    read_only: bool,
}

impl Attached {
    fn new(nqn: &Nqn, connection: &Connection) -> Self {
        let (nqn, addresses) = (nqn.to_string(), connection.addresses());
        Self { nqn, addresses, nbd: None, threads: 0, disks: Vec::new() }
    }

    fn with_clients(mut self, server: &Server, address: &Address) -> Self {
        let disk = |export: &nbd::Export| AttachedDisk {
            nsid: export.name.parse().unwrap_or_default(),
            uri: Some(address.uri(&export.name)),
            socket: None,
            size_bytes: export.size,
            block_bytes: export.block_bytes,
            read_only: export.is_read_only,
        };
        self.nbd = Some(address.to_string());
        self.threads = server.threads();
        self.disks = server.exports().iter().map(disk).collect();
        self
    }
}

impl AttachedDisk {
    /// What programs open.
    fn place(&self) -> String {
        let socket = self.socket.as_ref().map(|socket| format!("vhost-user socket {}", socket.display()));
        socket.or_else(|| self.uri.clone()).unwrap_or_default()
    }
}

impl fmt::Display for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for disk in &self.disks {
            let access = if disk.read_only { ", read only" } else { "" };
            writeln!(
                f,
                "namespace {} of {}: {}, blocks of {} bytes{access}\n{}",
                disk.nsid,
                self.nqn,
                Size(disk.size_bytes),
                disk.block_bytes,
                disk.place()
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_what_clients_read() {
        assert_eq!(
            Address::Unix("/run/a b/ü.nbd".into()).uri("1"),
            "nbd+unix:///1?socket=/run/a%20b/%C3%BC.nbd"
        );
        assert_eq!(Address::Tcp("[::1]:10809".parse().unwrap()).uri("2"), "nbd://[::1]:10809/2");
    }

    #[test]
    fn a_socket_of_a_living_process_and_a_file_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.nbd");
        let living = Place::unix(&path).unwrap();
        let refused = Place::unix(&path).err().and_then(|failure| failure.line()).unwrap();
        assert!(refused.contains("another process listens") && refused.contains("--nbd"), "{refused}");
        drop(living);
        assert!(!path.exists());
        // As a process that was killed leaves it.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        drop(Place::unix(&path).unwrap());
        std::fs::write(&path, "precious").unwrap();
        let refused = Place::unix(&path).err().and_then(|failure| failure.line()).unwrap();
        assert!(refused.contains("not a socket"), "{refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }
}
