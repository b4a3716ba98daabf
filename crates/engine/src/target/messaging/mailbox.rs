//! The way to a reactor: what others have to say to it, and the waker that makes it listen.
//! What it then does is the reactor's.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::abort::Abort;
use super::arrival::Arrival;
use super::authentication_done::AuthenticationDone;
use super::fence::Fence;
use super::hand_over_order::HandOverOrder;
use super::handshake::HandshakeDone;
use super::pulse::Pulse;
use crate::ring::Waker;
use crate::ring::channel::Sender;
use crate::sync::{Mutex, lock};
use crate::target::controller::Controller;
use crate::target::telemetry::ReactorTally;

/// Why commands are answered whose storage has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The namespaces are no longer accessible here, by their ANA states.
    Unreachable,
    /// The cluster no longer executes them, and their namespaces have been reopened.
    ShutOut,
}

/// News for a reactor.
#[derive(Debug)]
pub(crate) enum Message {
    /// A connection to serve.
    Connection(Arrival),
    /// A controller's keep alive time-out is shorter than it was.
    KeepAliveChanged,
    /// The controller with this identifier has something to tell its host.
    Events(u16),
    /// The I/O queues of this controller are at rest: the caches it may have written to are to be flushed for its shutdown.
    FlushCaches(Arc<Controller>),
    /// Hosts may see other namespaces than before.
    Refresh,
    /// Commands that the storage has are to be answered, where this is so of their namespaces.
    GiveUp(Loss),
    /// The slots of these commands are to be empty before the word is passed on.
    Fence(Arc<Fence>),
    /// No reactor is in the way of the fused pair in this slot now.
    FencePassed { connection: u32, serial: u64, slot: u16 },
    /// A fused pair has ended: commands that were held back for one try again.
    Resume,
    /// A command in a slot is done: its answer, and what is to be sent with it.
    Finish { connection: u32, serial: u64, slot: u16, status: nvme::Status, data: Vec<u8> },
    /// A command of an I/O queue is to be aborted.
    Abort(Arc<Abort>),
    /// A command of the connection with this token and serial number is answered.
    Answer { connection: u32, serial: u64, command_id: u16, status: nvme::Status, result: u64 },
    /// An admin command of that connection is answered with data.
    AnswerWith { connection: u32, serial: u64, command_id: u16, data: Vec<u8> },
    /// A step of the authentication of a connection's host is done.
    Authentication { connection: u32, serial: u64, done: Box<AuthenticationDone> },
    /// A step of the TLS handshake of a connection is done.
    Handshake { connection: u32, serial: u64, done: Box<HandshakeDone> },
    /// Tell that this reactor goes round.
    Pulse(Pulse),
    /// The process has no descriptor left for a host that comes: some half-open connections are to go.
    MakeRoom,
    /// A step of handing over the reactor's queues to another process, or of taking them over.
    HandOver(HandOverOrder),
    /// Finish what is under way, and end.
    Shutdown,
}

/// The way to a reactor.
#[derive(Debug)]
pub(crate) struct Mailbox {
    sender: Mutex<Sender<Message>>,
    waker: Waker,
    /// Number of the reactor.
    pub(crate) number: usize,
    connections: AtomicUsize,
    /// Connections that are not queues yet.
    half_open: AtomicUsize,
    pub(crate) tally: ReactorTally,
}

impl Mailbox {
    /// The way to reactor `number`, which `waker` wakes and which listens at the other end of `sender`.
    pub(crate) fn new(number: usize, sender: Sender<Message>, waker: Waker) -> Self {
        Self {
            sender: Mutex::new(sender),
            waker,
            number,
            connections: AtomicUsize::new(0),
            half_open: AtomicUsize::new(0),
            tally: ReactorTally::default(),
        }
    }

    /// Sends news; a reactor that has ended has no use for it.
    pub(crate) fn send(&self, message: Message) {
        let _ = lock(&self.sender).send(message);
        self.waker.wake();
    }

    /// Connections the reactor has, those on their way to it included.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Connections that are not queues yet.
    pub(crate) fn half_open(&self) -> usize {
        self.half_open.load(Ordering::Relaxed)
    }

    /// Records a connection on its way.
    pub(crate) fn count_connection(&self) {
        self.half_open.fetch_add(1, Ordering::Relaxed);
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that a connection has become a queue.
    pub(crate) fn count_queue(&self) {
        self.half_open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Records that a connection is gone that had become a queue, or had not.
    pub(crate) fn discount_connection(&self, was_queue: bool) {
        if !was_queue {
            self.half_open.fetch_sub(1, Ordering::Relaxed);
        }
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, feature = "loom"))]
pub(crate) mod races;
