//! The status of a controller and its queues: a snapshot, made on request.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use authentication::Authenticated;
use serde::Serialize;

use crate::ring::Socket;
use crate::ring::tcp::stream_info;
use crate::secure_stream::Protection;
use crate::transport::StreamInfo;

/// A controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Controller")]
pub struct ControllerStatus {
    /// Controller identifier (CNTLID).
    pub cntlid: u16,
    /// The subsystem's name.
    pub subsystem: String,
    /// The host's name.
    pub host_nqn: String,
    /// The host's identifier.
    pub host_id: uuid::Uuid,
    /// The port it came by.
    pub port: u16,
    /// True if the controller accepts I/O commands.
    pub ready: bool,
    /// True if the host has disconnected, and the storage still works on its commands.
    pub ending: bool,
    /// The keep alive time-out in milliseconds, 0 for none.
    pub keep_alive_ms: u32,
    /// Parameters of the host's authentication. Without it the host was not required to
    /// authenticate, and its name is unproved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication: Option<AuthenticationStatus>,
    /// Queues, the admin queue first.
    pub queues: Vec<QueueStatus>,
}

/// Parameters of a host's authentication.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Authentication")]
pub struct AuthenticationStatus {
    /// The hash function.
    pub dhchap_hash: &'static str,
    /// The group of the key exchange.
    pub dhchap_dhgroup: &'static str,
    /// True if the subsystem has authenticated too.
    pub bidirectional: bool,
}

impl From<Authenticated> for AuthenticationStatus {
    fn from(how: Authenticated) -> Self {
        Self {
            dhchap_hash: how.hash.name(),
            dhchap_dhgroup: how.group.name(),
            bidirectional: how.is_bidirectional,
        }
    }
}

/// A queue, which is a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Queue")]
pub struct QueueStatus {
    /// Queue identifier, 0 for the admin queue.
    pub queue_id: u16,
    /// Entries it has.
    pub entries: u16,
    /// The reactor that serves it.
    pub reactor: usize,
    /// The host's end.
    pub peer: Option<SocketAddr>,
    /// TCP or MPTCP state of the connection as the kernel reports it; `None` if it has just ended.
    pub stream: Option<StreamInfo>,
    /// TLS parameters; absent without TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsStatus>,
}

/// TLS parameters of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Tls")]
pub struct TlsStatus {
    /// The cipher suite.
    pub cipher: &'static str,
    /// The identity of the host's key.
    pub psk_identity: String,
    /// Derivation of the host's key: `standard`, or `compat` as in libnvme before 2025.
    pub derivation: &'static str,
}

impl From<&Protection> for TlsStatus {
    fn from(protection: &Protection) -> Self {
        Self {
            cipher: protection.suite.name(),
            psk_identity: protection.identity.to_string(),
            derivation: protection.derivation.name(),
        }
    }
}

/// A queue that is there, and where to ask for what its connection is doing.
#[derive(Debug)]
pub(crate) struct OpenQueue {
    pub(crate) queue_id: u16,
    pub(crate) entries: u16,
    pub(crate) reactor: usize,
    pub(crate) peer: SocketAddr,
    /// Socket, which the connection owns: a status request does not keep it open.
    pub(crate) socket: Weak<Socket>,
    pub(crate) protection: Option<Arc<Protection>>,
}

/// A queue as it is looked at, without a lock that its controller's commands wait for.
pub(crate) struct Look {
    status: QueueStatus,
    socket: Option<Arc<Socket>>,
}

impl OpenQueue {
    pub(crate) fn look(&self) -> Look {
        let Self { queue_id, entries, reactor, peer, ref socket, ref protection } = *self;
        let tls = protection.as_deref().map(TlsStatus::from);
        let status = QueueStatus { queue_id, entries, reactor, peer: Some(peer), stream: None, tls };
        Look { status, socket: socket.upgrade() }
    }
}

impl Look {
    /// Status of the queue; asks the kernel.
    pub(crate) fn status(self) -> QueueStatus {
        let stream = self.socket.and_then(|socket| stream_info(&*socket).ok());
        QueueStatus { stream, ..self.status }
    }
}
