//! A target with namespaces of memory, and a server of NBD clients or of vhost-user front ends over it.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use attach::{Disk, Listener, Server, ServerOptions, ServerTls, VhostUserServer};
use engine::backend::BackendConfig;
use engine::initiator::{ConnectOptions, PathOptions, Paths};
use engine::target::{
    FabricConfig, NamespaceConfig, PortConfig, Reactors, SubsystemConfig, Target, TargetConfig,
    WriteProtection,
};
use prerequisite::wait_until;

use crate::client::Client;
use crate::relay::Relay;

pub(crate) const NQN: &str = "nqn.2014-08.org.example:disk";
pub(crate) const SIZE: u64 = 80 << 20;

/// Properties of a server.
pub(crate) struct Plan {
    pub(crate) block_bytes: u32,
    pub(crate) is_read_only: bool,
    /// Protection of the namespaces when the server starts.
    pub(crate) protection: WriteProtection,
    pub(crate) threads: u16,
    /// File of the first namespace, instead of memory.
    pub(crate) file: Option<PathBuf>,
    /// Connection by one path, through a relay.
    pub(crate) is_relayed: bool,
    /// Clients that are accepted at a time.
    pub(crate) clients_max: usize,
}

impl Default for Plan {
    fn default() -> Self {
        let protection = WriteProtection::None;
        Self {
            block_bytes: 4096,
            is_read_only: false,
            protection,
            threads: 1,
            file: None,
            is_relayed: false,
            clients_max: usize::MAX,
        }
    }
}

pub(crate) struct World {
    // Dropped in this order: the server, then what it stands on.
    pub(crate) server: Option<Server>,
    pub(crate) paths: Vec<Arc<Paths>>,
    pub(crate) relay: Option<Relay>,
    pub(crate) target: Target,
    socket: PathBuf,
    /// Address beside the socket.
    pub(crate) address: SocketAddr,
    /// For other servers.
    pub(crate) listener: Option<UnixListener>,
    threads: u16,
    /// Clients that the next server accepts at a time.
    pub(crate) clients_max: usize,
    _folder: tempfile::TempDir,
}

impl World {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self::with_tls(plan, None)
    }

    pub(crate) fn with_tls(plan: &Plan, tls: Option<ServerTls>) -> Self {
        let target = target(plan);
        let relay = plan.is_relayed.then(|| Relay::to(target.ports()[0]));
        let addresses = relay.as_ref().map_or_else(|| target.ports(), |relay| vec![relay.address]);
        let disks = disks(&addresses, plan);
        let paths = disks.iter().map(|disk| disk.paths.clone()).collect();
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("nbd");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let (threads, clients_max) = (plan.threads, plan.clients_max);
        let options = ServerOptions { threads, clients_max, ..ServerOptions::default() };
        let tcp = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = tcp.local_addr().expect("an address");
        let listeners = vec![Listener::Unix(listener.try_clone().expect("a descriptor")), Listener::Tcp(tcp)];
        let server = Server::start_with(disks, listeners, tls, options).expect("a server");
        let (threads, listener) = (plan.threads, Some(listener));
        Self {
            server: Some(server),
            paths,
            relay,
            target,
            socket,
            address,
            listener,
            threads,
            clients_max,
            _folder: folder,
        }
    }

    /// Another server, over paths of its own, that serves on command.
    pub(crate) fn next(&self, tls: Option<ServerTls>) -> Server {
        let disks = disks(&self.target.ports(), &Plan { threads: self.threads, ..Plan::default() });
        let (threads, clients_max) = (self.threads, self.clients_max);
        let options = ServerOptions { threads, clients_max, is_held: true, ..ServerOptions::default() };
        let listener = self.listener.as_ref().expect("a socket").try_clone().expect("a descriptor");
        let listeners = vec![Listener::Unix(listener)];
        Server::start_with(disks, listeners, tls, options).expect("a server")
    }

    /// True if clients can connect.
    pub(crate) fn is_listening(&self) -> bool {
        UnixStream::connect(&self.socket).is_ok()
    }

    /// A client that has said nothing yet.
    pub(crate) fn stranger(&self) -> Client {
        Client::connect(&self.socket)
    }

    /// Gives all namespaces another write protection, and waits until the paths of the first server know it.
    pub(crate) fn protect(&self, protection: WriteProtection) {
        protect(&self.target, &self.paths, protection);
    }
}

/// The same with a socket for vhost-user front ends for each namespace.
pub(crate) struct VhostWorld {
    pub(crate) server: Option<VhostUserServer>,
    pub(crate) sockets: Vec<PathBuf>,
    pub(crate) paths: Vec<Arc<Paths>>,
    pub(crate) relay: Option<Relay>,
    target: Target,
    listeners: Vec<UnixListener>,
    threads: u16,
    _folder: tempfile::TempDir,
}

impl VhostWorld {
    pub(crate) fn new(plan: &Plan) -> Self {
        let target = target(plan);
        let folder = tempfile::tempdir().expect("a folder");
        let sockets: Vec<_> = ["first", "second"].map(|name| folder.path().join(name)).into();
        let listeners = sockets.iter().map(|socket| UnixListener::bind(socket).expect("a socket"));
        let listeners: Vec<_> = listeners.collect();
        let relay = plan.is_relayed.then(|| Relay::to(target.ports()[0]));
        let addresses = relay.as_ref().map_or_else(|| target.ports(), |relay| vec![relay.address]);
        let disks = disks(&addresses, plan);
        let paths = disks.iter().map(|disk| disk.paths.clone()).collect();
        let options = ServerOptions { threads: plan.threads, ..ServerOptions::default() };
        let server = VhostUserServer::start(disks.into_iter().zip(copies(&listeners)).collect(), options);
        let (server, threads) = (Some(server.expect("a server")), plan.threads);
        Self { server, sockets, paths, relay, target, listeners, threads, _folder: folder }
    }

    /// Another server, over paths of its own, that serves on command.
    pub(crate) fn next(&self) -> VhostUserServer {
        let disks = disks(&self.target.ports(), &Plan { threads: self.threads, ..Plan::default() });
        let options = ServerOptions { threads: self.threads, is_held: true, ..ServerOptions::default() };
        VhostUserServer::start(disks.into_iter().zip(copies(&self.listeners)).collect(), options)
            .expect("a server")
    }

    /// Gives a namespace another size, and waits until the server's paths know it.
    pub(crate) fn resize(&self, nsid: u32, bytes: u64) {
        let mut fabric = self.target.config();
        let namespaces = fabric.subsystems.iter_mut().flat_map(|subsystem| &mut subsystem.namespaces);
        let namespace = namespaces.filter(|namespace| namespace.nsid == nsid);
        namespace.for_each(|namespace| namespace.backend = BackendConfig::Memory { size: bytes });
        self.target.apply(&fabric).expect("another size");
        wait_until("the paths know the size", || self.paths[nsid as usize - 1].size_bytes() == bytes);
    }

    /// Gives all namespaces another write protection, and waits until the server's paths know it.
    pub(crate) fn protect(&self, protection: WriteProtection) {
        protect(&self.target, &self.paths, protection);
    }
}

fn protect(target: &Target, all_paths: &[Arc<Paths>], protection: WriteProtection) {
    let mut fabric = target.config();
    let namespaces = fabric.subsystems.iter_mut().flat_map(|subsystem| &mut subsystem.namespaces);
    namespaces.for_each(|namespace| namespace.write_protection = protection);
    target.apply(&fabric).expect("another protection");
    let knows = |paths: &Arc<Paths>| paths.namespace().is_write_protected != protection.is_none();
    wait_until("the paths know the protection", || all_paths.iter().all(knows));
}

fn copies(listeners: &[UnixListener]) -> Vec<UnixListener> {
    listeners.iter().map(|listener| listener.try_clone().expect("a descriptor")).collect()
}

fn target(plan: &Plan) -> Target {
    let namespaces = [1, 2].map(|nsid| {
        let backend = match &plan.file {
            Some(path) if nsid == 1 => BackendConfig::File { path: path.clone(), size: Some(SIZE) },
            _ => BackendConfig::Memory { size: SIZE / u64::from(nsid) },
        };
        let mut namespace = NamespaceConfig::new(nsid, backend, plan.block_bytes);
        namespace.uuid = Some(uuid::Uuid::from_u128(u128::from(nsid) << 96));
        namespace.write_protection = plan.protection;
        namespace
    });
    let ports: Vec<_> = (1..=2).map(|id| PortConfig::new(id, ([127, 0, 0, 1], 0).into())).collect();
    let subsystems = vec![SubsystemConfig::new(NQN, "serial", "model").with(namespaces.to_vec())];
    let fabric = FabricConfig { ports, subsystems, ..FabricConfig::default() };
    Target::start(&TargetConfig { fabric, reactors: Reactors::Count(1), ..TargetConfig::default() })
        .expect("a target")
}

fn disks(addresses: &[SocketAddr], plan: &Plan) -> Vec<Disk> {
    let disk = |nsid: u32| Disk {
        name: nsid.to_string(),
        description: String::new(),
        paths: connect(addresses, nsid, plan.threads),
        is_read_only: plan.is_read_only,
    };
    [1, 2].map(disk).into()
}

fn connect(addresses: &[SocketAddr], nsid: u32, threads: u16) -> Arc<Paths> {
    let path = |address: &SocketAddr| ConnectOptions {
        io_queues: threads,
        queue_entries: 32,
        ..ConnectOptions::new(*address, NQN)
    };
    let options = PathOptions {
        reconnect_delay: Duration::from_millis(100),
        ..PathOptions::new(addresses.iter().map(path).collect(), nsid)
    };
    Arc::new(Paths::connect(options).expect("paths"))
}
