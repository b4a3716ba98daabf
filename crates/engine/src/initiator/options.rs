//! Options of controllers and queues: plain values with defaults, as Linux has them. What people
//! type, and how it is spelled, belongs to the program.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use authentication::Secret;
use nvme::discovery::DISCOVERY_NQN;
use nvme::fabrics::CONTROLLER_ID_ANY;
use nvme::tcp::Digests;

use super::{ConcatKey, HostIdentity, TlsKeys};
use crate::limits::{ADMIN_IN_CAPSULE_LENGTH_MAX, CONNECT_TIMEOUT_MS};
use crate::ring::Engine;
use crate::transport::Transport;

/// Entries of an I/O queue unless asked otherwise, as with Linux.
const QUEUE_ENTRIES: u16 = 128;
/// Entries of an admin queue, as with Linux.
const ADMIN_QUEUE_ENTRIES: u16 = 32;
/// Keep alive time-out in milliseconds unless asked otherwise, as with Linux.
const KEEP_ALIVE_MS: u32 = 5_000;
/// Time a command may take, as with Linux.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// The secrets by which this host authenticates (DH-HMAC-CHAP).
#[derive(Clone, Debug)]
pub struct HostSecrets {
    /// The host's own.
    pub secret: Secret,
    /// The subsystem's, by which it has to authenticate too; with one, a target that does not is refused.
    pub controller_secret: Option<Secret>,
    /// Interval after which each queue authenticates again, beside its commands.
    pub reauth_interval: Option<Duration>,
}

/// Options of the connection to a controller.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Address on which the target listens.
    pub address: SocketAddr,
    /// Transport of the connections.
    pub transport: Transport,
    /// Congestion control of the connections by its name in the kernel, or `auto`, which follows the path of each; the
    /// system decides when absent.
    pub congestion: Option<String>,
    /// The subsystem's NQN.
    pub subsystem_nqn: String,
    /// Identity of this host.
    pub host: HostIdentity,
    /// The secrets of this host, for a target that asks for authentication.
    pub secrets: Option<Arc<HostSecrets>>,
    /// The keys of this host, for connections that are TLS; in clear without them.
    pub tls: Option<Arc<TlsKeys>>,
    /// Set if the key of the TLS connections comes out of the authentication by these secrets
    /// (secure channel concatenation). If they have an interval, it is replaced as often.
    pub concat: bool,
    /// Local address to connect from.
    pub host_traddr: Option<IpAddr>,
    /// Local interface to connect through.
    pub host_iface: Option<String>,
    /// Type of service of IPv4 packets; the system's when absent.
    pub tos: Option<u8>,
    /// Traffic class of IPv6 packets, and type of service where an IPv6 socket sends IPv4 packets and `tos` is absent;
    /// the system's when absent.
    pub tclass: Option<u8>,
    /// Local ports that I/O queues are connected from, for queue n at place n - 1: the first that is free of each. The
    /// system chooses for queues that have none here, or none that is free.
    pub io_queue_ports: Vec<Vec<u16>>,
    /// Digests to use on all connections.
    pub digests: Digests,
    /// I/O queues to ask for; the controller may grant fewer. 0 for none.
    pub io_queues: u16,
    /// Entries of each I/O queue, 1's based; the controller may allow fewer.
    pub queue_entries: u16,
    /// Keep alive time-out in milliseconds; 0 for none.
    pub keep_alive_ms: u32,
    /// Time one connection may take until its queue is live.
    pub connect_timeout: Duration,
    /// Time a command may take before its queue is given up.
    pub command_timeout: Duration,
    /// Ask for no submission queue flow control, so that reads may complete without a response PDU.
    pub disable_flow_control: bool,
    /// Bytes of the socket's send buffer; when absent, the system decides, below a bound for near peers.
    pub send_buffer: Option<usize>,
    /// Bytes of the socket's receive buffer; the system decides when absent.
    pub receive_buffer: Option<usize>,
    /// Machinery of the rings that the controller and its namespaces make.
    pub engine: Engine,
}

impl ConnectOptions {
    /// The defaults for `subsystem_nqn` at `address`: one I/O queue of 128 entries, 5 s keep alive, no
    /// digests.
    pub fn new(address: SocketAddr, subsystem_nqn: impl Into<String>) -> Self {
        Self {
            address,
            transport: Transport::Tcp,
            congestion: None,
            subsystem_nqn: subsystem_nqn.into(),
            host: HostIdentity::of_this_machine(),
            secrets: None,
            tls: None,
            concat: false,
            host_traddr: None,
            host_iface: None,
            tos: None,
            tclass: None,
            io_queue_ports: Vec::new(),
            digests: Digests::default(),
            io_queues: 1,
            queue_entries: QUEUE_ENTRIES,
            keep_alive_ms: KEEP_ALIVE_MS,
            connect_timeout: Duration::from_millis(CONNECT_TIMEOUT_MS),
            command_timeout: COMMAND_TIMEOUT,
            disable_flow_control: true,
            send_buffer: None,
            receive_buffer: None,
            engine: Engine::Automatic,
        }
    }

    /// The defaults for the discovery service at `address`: no I/O queues and no keep alive.
    pub fn discovery(address: SocketAddr) -> Self {
        Self { io_queues: 0, keep_alive_ms: 0, ..Self::new(address, DISCOVERY_NQN) }
    }

    /// The place for the key that comes out of the authentication, if one is to.
    pub(super) fn concat_key(&self) -> Option<Arc<ConcatKey>> {
        self.concat.then(Arc::default)
    }

    /// Options of the admin queue.
    pub(super) fn admin_queue(&self) -> QueueOptions {
        QueueOptions {
            address: self.address,
            transport: self.transport,
            congestion: self.congestion.clone(),
            secrets: self.secrets.clone(),
            tls: self.tls.clone(),
            concat: None,
            host_traddr: self.host_traddr,
            host_iface: self.host_iface.clone(),
            tos: self.tos,
            tclass: self.tclass,
            source_ports: Vec::new(),
            digests: self.digests,
            queue_id: 0,
            entries: ADMIN_QUEUE_ENTRIES,
            host: self.host.clone(),
            subsystem_nqn: self.subsystem_nqn.clone(),
            controller_id: CONTROLLER_ID_ANY,
            keep_alive_ms: self.keep_alive_ms,
            connect_timeout: self.connect_timeout,
            command_timeout: self.command_timeout,
            in_capsule_length: ADMIN_IN_CAPSULE_LENGTH_MAX,
            takes_key_updates: false,
            disable_flow_control: false,
            send_buffer: self.send_buffer,
            receive_buffer: self.receive_buffer,
        }
    }
}

/// Options of a queue. [`Controller::queue_options`](super::Controller::queue_options) fills them
/// in.
#[derive(Clone, Debug)]
pub struct QueueOptions {
    /// Address on which the target listens.
    pub address: SocketAddr,
    /// Transport of the connections.
    pub transport: Transport,
    /// Congestion control of the connections by its name in the kernel, or `auto`, which follows the path of each; the
    /// system decides when absent.
    pub congestion: Option<String>,
    /// The secrets of this host, for a target that asks for authentication.
    pub secrets: Option<Arc<HostSecrets>>,
    /// The keys of this host, for connections that are TLS; in clear without them.
    pub tls: Option<Arc<TlsKeys>>,
    /// The key that comes out of the authentication of the admin queue, instead of these; in clear until it is there.
    pub concat: Option<Arc<ConcatKey>>,
    /// Local address to connect from.
    pub host_traddr: Option<IpAddr>,
    /// Local interface to connect through.
    pub host_iface: Option<String>,
    /// Type of service of IPv4 packets; the system's when absent.
    pub tos: Option<u8>,
    /// Traffic class of IPv6 packets, and type of service where an IPv6 socket sends IPv4 packets and `tos` is absent;
    /// the system's when absent.
    pub tclass: Option<u8>,
    /// Local ports to connect from: the first that is free; the system chooses where there is none, or none free.
    pub source_ports: Vec<u16>,
    /// Digests to use.
    pub digests: Digests,
    /// Queue identifier (QID); 0 is the admin queue and makes a controller.
    pub queue_id: u16,
    /// Entries, 1's based: at most one less is outstanding. Between 2 and `limits::QUEUE_ENTRIES_MAX`.
    pub entries: u16,
    /// Identity of this host.
    pub host: HostIdentity,
    /// The subsystem's NQN.
    pub subsystem_nqn: String,
    /// The association's controller; `CONTROLLER_ID_ANY` with the admin queue (CNTLID).
    pub controller_id: u16,
    /// Keep alive time-out in milliseconds, 0 for none; only the admin queue's counts (KATO).
    pub keep_alive_ms: u32,
    /// Time until the queue has to be live.
    pub connect_timeout: Duration,
    /// Time a command may take before the queue is given up.
    pub command_timeout: Duration,
    /// Most bytes of data that travel within a command capsule, from IOCCSZ. Fabrics and admin commands:
    /// 8,192.
    pub in_capsule_length: usize,
    /// Set if the target is known to take new TLS keys on a connection (KeyUpdate). To others an
    /// I/O queue reconnects before its keys are used up.
    pub takes_key_updates: bool,
    /// Ask for no submission queue flow control.
    pub disable_flow_control: bool,
    /// Bytes of the socket's send buffer; when absent, the system decides, below a bound for near peers.
    pub send_buffer: Option<usize>,
    /// Bytes of the socket's receive buffer; the system decides when absent.
    pub receive_buffer: Option<usize>,
}
