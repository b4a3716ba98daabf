//! What a reactor is told when its queues go over to another process, and what it says.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::arrival::Arrival;
use crate::ring::channel::Sender;
use crate::ring::{Moment, Socket};
use crate::target::succession::{HandedController, HandedQueue};

/// What becomes of a reactor's queues.
#[derive(Debug)]
pub(crate) enum Succession {
    /// They come to rest for another process.
    Freeze(Freeze),
    /// One comes from another process.
    Adopt(Box<Adoption>),
    /// What was brought to rest, or taken over, goes on.
    Thaw,
    /// What was brought to rest is another process' from now on: it is closed without a word to its hosts.
    Leave,
}

/// Bring all queues to rest, and say how they are.
#[derive(Clone, Debug)]
pub(crate) struct Freeze {
    /// When that began: from then on hosts have their time to send and to take what they owe.
    pub(crate) begun: Moment,
    /// How long they may neither send nor take anything.
    pub(crate) stall: Duration,
    /// From then on the attempt ends if the storage still works on something.
    pub(crate) deadline: Moment,
    /// From then on hosts are closed that still owe something: later, so that none is where the attempt ends on another reactor.
    pub(crate) hosts_deadline: Moment,
    pub(crate) answer: Sender<Result<Vec<Frozen>, String>>,
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

/// A queue of the former process to be taken over. It rests until it is told to go on.
#[derive(Debug)]
pub(crate) struct Adoption {
    pub(crate) arrival: Arrival,
    pub(crate) queue: HandedQueue,
    /// The controller, with its admin queue.
    pub(crate) controller: HandedController,
    pub(crate) answer: Sender<Result<(), String>>,
}
