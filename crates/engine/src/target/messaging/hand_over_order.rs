//! Messages to a reactor when its queues are handed over to another process, and its answers.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nvme::Status;

use super::arrival::Arrival;
use crate::hand_over::HandOverError;
use crate::ring::channel::Sender;
use crate::ring::{Moment, Socket};
use crate::target::handed_target::{HandedController, HandedQueue};

/// Step of a hand-over.
#[derive(Debug)]
pub(crate) enum HandOverOrder {
    /// Quiesce all queues for another process.
    Freeze(Freeze),
    /// Take over a queue from another process.
    Adopt(Box<Adoption>),
    /// Resume the queues that were quiesced or taken over.
    Thaw,
    /// Close the quiesced queues, which the other process serves from now on, without notice to
    /// their hosts.
    Leave,
}

/// Bring all queues to rest, and say how they are.
#[derive(Clone, Debug)]
pub(crate) struct Freeze {
    /// Start time, from which the limits for hosts that still have to send or receive data are
    /// counted.
    pub(crate) begun: Moment,
    /// Time without progress after which a host's connection is closed.
    pub(crate) stall: Duration,
    /// From then on the attempt ends if the storage still works on something.
    pub(crate) deadline: Moment,
    /// From then on hosts are closed that still owe something: later, so that none is where the attempt ends on another reactor.
    pub(crate) hosts_deadline: Moment,
    pub(crate) answer: Sender<Result<FrozenReactor, HandOverError>>,
}

/// A reactor whose connections are all at rest.
#[derive(Debug, Default)]
pub(crate) struct FrozenReactor {
    pub(crate) connections: Vec<Frozen>,
    /// Hosts, with their addresses, of which a connection was closed because it did not come to rest
    /// in time.
    pub(crate) disconnected: BTreeSet<String>,
}

/// A connection at rest.
#[derive(Debug)]
pub(crate) struct Frozen {
    pub(crate) socket: Arc<Socket>,
    pub(crate) port: u16,
    pub(crate) peer: SocketAddr,
    /// The queue that it is; `None` for a connection from which nothing has come.
    pub(crate) queue: Option<HandedQueue>,
}

/// Reason for which a queue of the old process is not taken over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdoptionError {
    /// Read entries beyond the size of the queue.
    #[error("{head} of {entries} entries cannot have been read")]
    Entries {
        /// Number of entries that were read.
        head: u16,
        /// Size of the queue.
        entries: u16,
    },
    /// Cipher suite that this process does not know.
    #[error("its cipher suite is unknown")]
    Suite,
    /// TLS key that does not go with its cipher suite.
    #[error("a TLS key has a wrong length")]
    KeyLength,
    /// Malformed TLS identity of the stream.
    #[error("its TLS identity is none")]
    Identity,
    /// Malformed TLS identity of the controller's generated key.
    #[error("the identity of its generated TLS key is none")]
    GeneratedIdentity,
    /// Generated key that has expired, or is not allowed at this port.
    #[error("its generated TLS key is unknown or not allowed")]
    GeneratedKey,
    /// Authentication with parameters that this process does not know.
    #[error("its authentication is of an unknown kind")]
    Proof,
    /// Refusal of the host's Connect.
    #[error("{0}")]
    Refused(Status),
    /// Host that needs to authenticate by the present configuration.
    #[error("its host has to authenticate now")]
    Unauthenticated,
    /// Failure of the ring.
    #[error("it cannot be watched: {0}")]
    Watch(io::Error),
}

/// A queue of the old process to be taken over. It stays quiesced until the `Thaw`.
#[derive(Debug)]
pub(crate) struct Adoption {
    pub(crate) arrival: Arrival,
    pub(crate) queue: HandedQueue,
    /// The controller, with its admin queue.
    pub(crate) controller: HandedController,
    pub(crate) answer: Sender<Result<(), AdoptionError>>,
}
