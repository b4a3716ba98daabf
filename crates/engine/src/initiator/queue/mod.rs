//! One TCP connection as one NVMe queue, a state machine on its owner's ring: handshake, commands,
//! completions. It does not wait or spawn, reconnects for nothing but TLS keys that get old, and
//! knows nothing of namespaces; its owner calls it when there is news.

mod authenticate;
mod departures;
mod fault;
mod open;
mod receive;
mod renew;
mod request;
mod secure;
mod send;
mod slot;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nvme::command::admin_opcode;
use nvme::tcp::digest::crc32c;
use nvme::tcp::{Digests, Negotiated, Receiver, Transmitter};
use nvme::{SglDescriptor, Status};

pub use request::{Completion, Data, Ended, Lost, QueueState, Request, Timing};

use super::authentication_worker::AuthenticationWorker;
use super::{InitiatorError, QueueOptions};
use crate::limits::ADMIN_IN_CAPSULE_LENGTH_MAX;
use crate::ring::tcp::PendingConnection;
use crate::ring::{Buffer, Moment, Ring, Socket, observe};
use crate::secure_stream::SecureStream;
use departures::Departures;
use fault::Fault;
use slot::{Direction, Incoming, Slots};

/// The time-out scan runs this often within a command's time: that is how late it may notice.
const SCANS_PER_TIMEOUT: u32 = 8;
/// Of a connection in clear that does not get as far as its first answer.
const MAY_REQUIRE_TLS: &str =
    "it ends the connection at once: it may require TLS, for which --tls-key-file names this host's key";

/// A queue. Its owner's loop, on the thread of the ring it was opened on:
///
/// 1. `Ring::wait`, until `next_deadline` at most (not at all while `has_more`);
/// 2. `on_ready` for the events with its token, and again while `has_more`; `on_woken` when the ring was woken;
/// 3. `pop` until there is nothing, and `submit` what comes next;
/// 4. `flush`, always, even when nothing was submitted: answers to the target are queued too;
/// 5. `on_time` when `next_deadline` is over.
///
/// Commands need no allocation. Before it is dropped, `close` it, unless it is closed already: the
/// ring would go on watching its socket.
#[derive(Debug)]
pub struct Queue {
    options: QueueOptions,
    token: u32,
    state: QueueState,
    pending: Option<PendingConnection>,
    socket: Option<Arc<Socket>>,
    /// The TLS handshake, while it is under way.
    securing: Option<secure::Securing>,
    /// Index of the only key that it offers, once the target has not taken all of them together.
    offers_alone: Option<usize>,
    /// Set if another queue has found out that index, perhaps from another target.
    has_recalled: bool,
    /// TLS channel of the socket; `None` in clear.
    secure: Option<Box<SecureStream>>,
    /// Room for what is sealed, kept for the next time.
    sealed_space: Option<Buffer>,
    /// Set once its TLS keys should be replaced and cannot be: it reconnects when nothing is
    /// outstanding.
    is_worn: bool,
    receiver: Receiver,
    transmitter: Transmitter<u16>,
    slots: Slots,
    /// Commands whose last byte has not been handed to the socket.
    departures: Departures,
    ended: VecDeque<Ended>,
    negotiated: Negotiated,
    /// The data PDU that is coming in.
    incoming: Option<Incoming>,
    /// Length of the last data PDU in bytes.
    data_length_last: u32,
    /// The socket has no room; the ring tells when it has.
    blocked: bool,
    /// Time of the last look at the socket.
    clock: Moment,
    /// The last receive may have left something behind.
    more: bool,
    is_at_end: bool,
    controller_id: u16,
    connect_deadline: Moment,
    /// The authentication that is under way.
    exchange: Option<authenticate::Exchange>,
    /// Time of its next authentication.
    exchange_at: Option<Moment>,
    /// A message of it that is sent as soon as there is a slot, before other commands get one.
    message: Option<Vec<u8>>,
    worker: AuthenticationWorker,
    scan_at: Moment,
    error: Option<Arc<InitiatorError>>,
}

impl Queue {
    /// State of the queue.
    pub const fn state(&self) -> QueueState {
        self.state
    }

    /// Why it is closed; `None` while it is not.
    pub fn error(&self) -> Option<&InitiatorError> {
        self.error.as_deref()
    }

    /// Queue identifier (QID).
    pub const fn queue_id(&self) -> u16 {
        self.options.queue_id
    }

    /// The token its events carry.
    pub const fn token(&self) -> u32 {
        self.token
    }

    /// The target's address.
    pub const fn address(&self) -> SocketAddr {
        self.options.address
    }

    /// The controller it belongs to, known once it is live (CNTLID).
    pub const fn controller_id(&self) -> u16 {
        self.controller_id
    }

    /// Commands that `submit` takes now.
    pub const fn free_slots(&self) -> usize {
        match self.state {
            QueueState::Live if self.message.is_some() || self.is_worn => 0,
            QueueState::Live => self.slots.free(),
            _ => 0,
        }
    }

    /// True if it is TLS.
    pub const fn is_secure(&self) -> bool {
        self.secure.is_some()
    }

    /// Commands that are outstanding.
    pub const fn outstanding(&self) -> usize {
        self.slots.count() - self.slots.free()
    }

    /// True if `pop` has something. Sending may end a queue, too: look before waiting.
    pub fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// True if the socket may have more to read. Its readiness is not reported again: call
    /// `on_ready` again with `readable`, after the completions were served.
    pub const fn has_more(&self) -> bool {
        self.more
    }

    /// True if `flush` has something to do: to send, or to end the connection. While the socket has
    /// no room, it has not.
    pub fn has_unsent(&self) -> bool {
        let is_sealed = || self.secure.as_ref().is_some_and(|secure| secure.outbound.has_unsent());
        !self.blocked && (!self.transmitter.is_empty() || is_sealed() || self.is_done_with_keys())
    }

    /// The socket, for its options and statistics; `None` once closed.
    pub fn socket(&self) -> Option<&Socket> {
        self.socket.as_deref()
    }

    /// Queues a command; `flush` sends it.
    ///
    /// # Errors
    /// Gives the request back when there is no free slot or the queue is not live.
    ///
    /// # Panics
    /// When the data is longer than 4 GiB, which no buffer is.
    pub fn submit(&mut self, request: Request) -> Result<(), Request> {
        if self.free_slots() == 0 {
            return Err(request);
        }
        self.start(request, false)
    }

    /// The next command that has ended, in the order in which they did.
    pub fn pop(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    /// Latest time of the next call of `on_time`.
    pub fn next_deadline(&self) -> Option<Moment> {
        match self.state {
            QueueState::Closed => None,
            QueueState::Live if self.outstanding() == 0 => self.exchange_at,
            QueueState::Live => Some(self.exchange_at.map_or(self.scan_at, |at| at.min(self.scan_at))),
            _ => Some(self.connect_deadline),
        }
    }

    /// Closes the queue when its handshake, or a command, takes longer than it may.
    pub fn on_time(&mut self, ring: &mut Ring, now: Moment) {
        if self.state == QueueState::Live && self.exchange_at.is_some_and(|at| now >= at) {
            // Set again when it is done; until then its commands have the time that commands have.
            self.exchange_at = None;
            self.begin_exchange();
        }
        let late = match self.state {
            QueueState::Closed => return,
            QueueState::Live if now < self.scan_at => return,
            QueueState::Live => {
                self.scan_at = now.after(self.options.command_timeout / SCANS_PER_TIMEOUT);
                self.scan(now).then_some(("a command's completion", self.options.command_timeout))
            }
            _ if now < self.connect_deadline => return,
            QueueState::Connecting => Some(("the TCP connection", self.options.connect_timeout)),
            QueueState::Securing => {
                Some(("the target's part of the TLS handshake", self.options.connect_timeout))
            }
            QueueState::Ending => Some((
                "the target's end of a connection whose keys are used up",
                self.options.connect_timeout,
            )),
            QueueState::Initializing => Some(("the answer to ICReq", self.options.connect_timeout)),
            QueueState::Joining => Some(("the answer to Fabrics Connect", self.options.connect_timeout)),
            QueueState::Authenticating => {
                Some(("the target's part of authentication", self.options.connect_timeout))
            }
        };
        if let Some((what, after)) = late {
            self.shut(ring, InitiatorError::TimedOut { address: self.options.address, what, after });
        }
    }

    /// Closes the connection. Commands that are outstanding come back as `Ended::Lost`.
    pub fn close(&mut self, ring: &mut Ring) {
        self.shut(ring, InitiatorError::Disconnected { address: self.options.address });
    }

    /// Closes the connection as one that is lost: nothing that is still on its way to the controller shall arrive, so
    /// the stream is reset instead of ended. Outstanding commands come back as with `close`.
    pub fn abandon(&mut self, ring: &mut Ring) {
        if let Some(socket) = &self.socket {
            socket.reset_when_closed();
        }
        self.close(ring);
    }

    /// True if a command is over its time. Submitting reads no clock: a command's time counts from
    /// the first scan that sees it.
    fn scan(&mut self, now: Moment) -> bool {
        let timeout: Duration = self.options.command_timeout;
        let mut late = false;
        for slot in self.slots.iter_mut().filter(|slot| slot.active && !slot.patient) {
            if slot.seen == Moment(0) {
                slot.seen = now;
            }
            late |= now.since(slot.seen) >= timeout;
        }
        late
    }

    /// Puts a command into a slot and onto the send list.
    fn start(&mut self, request: Request, is_exchange: bool) -> Result<(), Request> {
        let Some(index) = self.slots.take() else { return Err(request) };
        let command_id = self.slots.command_id(index);
        let Request { mut entry, data, user } = request;
        let in_capsule_length = match entry.opcode {
            admin_opcode::FABRICS => ADMIN_IN_CAPSULE_LENGTH_MAX,
            _ => self.options.in_capsule_length,
        };
        entry.command_id = command_id.into();
        let slot = self.slots.get_mut(index);
        slot.user = user;
        slot.is_exchange = is_exchange;
        slot.patient = self.options.queue_id == 0 && entry.opcode == admin_opcode::ASYNC_EVENT_REQUEST;
        let (direction, buffer) = match data {
            Data::None => (Direction::None, None),
            Data::Receive(buffer) => (Direction::Receive, Some(buffer)),
            Data::Send(buffer) if !buffer.is_empty() && buffer.len() <= in_capsule_length => {
                (Direction::Capsule, Some(buffer))
            }
            Data::Send(buffer) => (Direction::Send, Some(buffer)),
        };
        let length = buffer.as_ref().map_or(0, |buffer| buffer.len());
        slot.length = u32::try_from(length).expect("a buffer is at most limits::BUFFER_LENGTH_MAX long");
        slot.direction = direction;
        slot.transfer = nvme::tcp::Transfer::new(0..slot.length, 0);
        if direction == Direction::Capsule {
            slot.sends = 1;
            entry.data = SglDescriptor::in_capsule(slot.length);
            let bytes = buffer.as_deref().unwrap_or_default();
            let crc = data_crc(self.negotiated.digests, bytes);
            self.transmitter.command(entry, Some((index, length, crc)));
        } else {
            entry.data = SglDescriptor::transport(slot.length);
            self.transmitter.command(entry, None);
        }
        slot.buffer = buffer;
        self.departures.push(index, self.transmitter.length());
        Ok(())
    }

    /// Ends the command in slot `index`.
    fn complete(&mut self, index: u16, status: Status, result: u64) -> Result<(), Box<Fault>> {
        let slot = self.slots.get_mut(index);
        let status =
            if slot.damaged && status.is_success() { Status::TRANSIENT_TRANSPORT_ERROR } else { status };
        let (user, data, timing) = (slot.user, slot.buffer.take(), slot.timing);
        let completion = Completion { user, status, result, data, timing };
        let is_exchange = slot.is_exchange;
        self.slots.give(index);
        if is_exchange {
            return self.exchanged(&completion);
        }
        if self.state == QueueState::Live {
            self.ended.push_back(Ended::Answered(completion));
            self.send_message();
            return Ok(());
        }
        self.joined(&completion)
    }

    /// Closes the connection for `error`, and ends all commands.
    fn shut(&mut self, ring: &mut Ring, error: InitiatorError) {
        if self.state == QueueState::Closed {
            return;
        }
        let error = match (self.state, &error) {
            // What answers like this need not be a target at all.
            (
                QueueState::Initializing,
                InitiatorError::TimedOut { .. }
                | InitiatorError::Protocol { .. }
                | InitiatorError::Closed { .. },
            ) => InitiatorError::NoHandshake { reason: Box::new(error) },
            (QueueState::Initializing, InitiatorError::Terminated { address, .. })
                if self.secure.is_none() =>
            {
                InitiatorError::TlsFailed { address: *address, why: MAY_REQUIRE_TLS.to_owned() }
            }
            // Linux' target has a handshake done that takes what is in clear for nonsense.
            (QueueState::Initializing, InitiatorError::Broken { address, error })
                if self.secure.is_none() && error.kind() == io::ErrorKind::ConnectionReset =>
            {
                InitiatorError::TlsFailed { address: *address, why: MAY_REQUIRE_TLS.to_owned() }
            }
            _ => self.unproved(error),
        };
        tracing::debug!(queue = self.options.queue_id, %error, "queue closed");
        if let Some(observation) = error.observation() {
            observe(observation);
        }
        if let Some(pending) = self.pending.take() {
            ring.unwatch(&pending, self.token);
        }
        self.say_goodbye();
        self.securing = None;
        if let Some(socket) = self.socket.take() {
            ring.unwatch(&socket, self.token);
            // The ring may hold on to the socket until its next wait: the peer is to know at once.
            socket.shut_down_sending();
        }
        let error = Arc::new(error);
        self.transmitter.clear(|_| ());
        self.message = None;
        self.incoming = None;
        self.more = false;
        let live = self.state == QueueState::Live;
        self.state = QueueState::Closed;
        for index in 0..self.slots.count() as u16 {
            let slot = self.slots.get_mut(index);
            if !slot.active {
                continue;
            }
            let (user, data, is_exchange) = (slot.user, slot.buffer.take(), slot.is_exchange);
            self.slots.give(index);
            // Before it is live, the only command is its own.
            if live && !is_exchange {
                self.ended.push_back(Ended::Lost(Lost { user, data, error: error.clone() }));
            }
        }
        self.error = Some(error);
    }
}

/// The data digest of `bytes`, when digests are in use.
fn data_crc(digests: Digests, bytes: &[u8]) -> u32 {
    if digests.data { crc32c(bytes) } else { 0 }
}
