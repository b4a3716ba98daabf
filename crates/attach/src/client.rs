//! A client: its connection, from the handshake to its end, and how much of it is worked on at a time. What becomes of its
//! requests is in `commands`.

use std::collections::VecDeque;
use std::io;

use engine::ring::{Buffer, Readiness, Ring, Socket};
use engine::secure_stream::SecureStream;
use nbd::limits::HANDSHAKE_OUTPUT_BYTES_MAX;
use nbd::{Command, Handshake, Headers, ProtocolError, Replies, Session, Step, Tls};
use secure_channel::Alert;

use crate::buffer_budget::BufferBudget;
use crate::client_faults::ClientFault;
use crate::client_limiter::{ClientPermit, ClientStage};
use crate::extents::ExtentAnswer;
use crate::input::{Input, Received};
use crate::limits::{
    CLIENT_BUFFER_BYTES_MAX, CLIENT_COMMANDS_MAX, CLIENT_EXTENTS_MAX, CLIENT_REPLIES_MAX,
    CLIENT_REQUESTS_MAX, RECEIVES_PER_TURN,
};
use crate::output::Output;
use crate::storage::Storage;
use crate::tls::Securing;

/// Phase of a connection.
pub(crate) enum Phase {
    Handshake(Handshake),
    /// TLS' handshake, from which it comes back to the one before.
    Securing(Box<Securing>),
    Transmission(Session),
    /// The client sends no more; its requests are still answered.
    Ending,
    /// The client is gone; its outstanding commands at a target still end.
    Gone,
}

/// Part of a request that is being received.
pub(crate) enum Incoming {
    /// No request: a header comes next.
    Nothing,
    /// Data of a request that was refused.
    Refused { left: u32 },
    /// Data of the write with this key; `left` bytes have no buffer yet.
    Data { slot: usize, left: u32, buffer: Option<Buffer>, filled: usize },
}

/// Why no more is taken of what a client has sent.
pub(crate) enum Needs {
    Bytes,
    /// Something of what it has under way has to end first.
    Room,
}

pub(crate) struct Client {
    pub(crate) slot: usize,
    /// Number that distinguishes it from former clients in its slot.
    pub(crate) number: u64,
    /// Address or name of the client, for the log.
    pub(crate) peer: String,
    /// `None` once it is closed.
    pub(crate) socket: Option<Socket>,
    pub(crate) phase: Phase,
    /// TLS, once its handshake is complete.
    pub(crate) secure: Option<Box<SecureStream>>,
    /// TLS' handshake has begun since this was looked at.
    begins_tls: bool,
    /// Set once the end of the output has been announced to the client.
    has_last_words: bool,
    pub(crate) input: Input,
    pub(crate) incoming: Incoming,
    pub(crate) output: Output,
    /// Requests that commands are still to be made of.
    pub(crate) listed: VecDeque<usize>,
    pub(crate) requests: usize,
    /// Requests that wait for the state of blocks.
    extents: usize,
    pub(crate) commands: usize,
    /// Set once it has sent a command since its commands were cancelled last.
    pub(crate) has_uncancelled: bool,
    pub(crate) held_bytes: usize,
    /// Key of its party in the budget of buffers.
    pub(crate) party: Option<usize>,
    /// Permit to be one of the server's clients.
    pub(crate) permit: Option<ClientPermit>,
    /// Stage that is recorded with the permit.
    pub(crate) stage: ClientStage,
    pub(crate) is_readable: bool,
    /// Set once the end of the input was seen, which only reading shows.
    pub(crate) has_end: bool,
    awaits_writable: bool,
    /// Set while its input is not read, or not made into commands, until some of its requests or
    /// commands have ended.
    needs_room: bool,
    /// Set while its input is not read, since it is to be handed over.
    pub(crate) is_frozen: bool,
}

impl Client {
    pub(crate) fn new((slot, number): (usize, u64), socket: Socket, peer: String, tls: Tls) -> Self {
        let handshake = Handshake::with_tls(tls);
        let mut output = Output::default();
        handshake.greet(&mut output.text);
        Self {
            slot,
            number,
            peer,
            socket: Some(socket),
            phase: Phase::Handshake(handshake),
            secure: None,
            begins_tls: false,
            has_last_words: false,
            input: Input::new(),
            incoming: Incoming::Nothing,
            output,
            listed: VecDeque::new(),
            requests: 0,
            extents: 0,
            commands: 0,
            has_uncancelled: false,
            held_bytes: 0,
            party: None,
            permit: None,
            stage: ClientStage::Handshake,
            is_readable: true,
            has_end: false,
            awaits_writable: false,
            needs_room: false,
            is_frozen: false,
        }
    }

    /// Takes the socket, to close it.
    pub(crate) const fn take_socket(&mut self) -> Option<Socket> {
        self.socket.take()
    }

    /// Records the stage of its connection where that is another one. Returns false if the connection is to be closed for another.
    pub(crate) fn record_stage(&mut self) -> bool {
        let stage = match (&self.phase, &self.secure) {
            (Phase::Handshake(_) | Phase::Securing(_), None) => ClientStage::Handshake,
            (Phase::Handshake(_) | Phase::Securing(_), Some(_)) => ClientStage::Secure,
            (Phase::Transmission(_) | Phase::Ending | Phase::Gone, _) => ClientStage::Settled,
        };
        let has_changed = std::mem::replace(&mut self.stage, stage) != stage;
        !has_changed || self.permit.as_ref().is_none_or(|permit| permit.record(stage))
    }

    /// True if the socket has no room for the rest of its output.
    pub(crate) const fn awaits_writable(&self) -> bool {
        self.awaits_writable
    }

    pub(crate) const fn is_securing(&self) -> bool {
        matches!(self.phase, Phase::Securing(_))
    }

    /// True if the TLS handshake has begun since the last call.
    pub(crate) const fn begins_tls(&mut self) -> bool {
        std::mem::replace(&mut self.begins_tls, false)
    }

    pub(crate) const fn is_gone(&self) -> bool {
        matches!(self.phase, Phase::Gone)
    }

    /// The disk that it has chosen, by its index.
    pub(crate) const fn disk(&self) -> Option<usize> {
        match &self.phase {
            Phase::Transmission(session) => Some(session.export),
            _ => None,
        }
    }

    /// True if nothing of it is left.
    pub(crate) const fn is_over(&self) -> bool {
        self.is_gone() && self.requests == 0
    }

    /// An event of its socket.
    pub(crate) const fn ready(&mut self, readiness: Readiness) {
        self.is_readable |= readiness.readable;
        self.has_end |= readiness.ended;
        if readiness.writable {
            self.awaits_writable = false;
        }
    }

    /// Takes what it sends, as much as there is room for, and makes commands of it. Whether it wants another turn. What is in
    /// `scratch` afterwards is of no use.
    pub(crate) fn serve(&mut self, storage: &mut Storage, scratch: &mut [u8]) -> bool {
        let mut receives = RECEIVES_PER_TURN;
        self.issue(storage);
        loop {
            let needs = self.take(storage);
            self.issue(storage);
            self.needs_room = matches!(needs, Ok(Needs::Room)) || !self.listed.is_empty();
            match needs {
                Ok(Needs::Room) => {
                    self.cancel_if_ended(storage);
                    return false;
                }
                Ok(Needs::Bytes) if !self.is_readable => return false,
                Ok(Needs::Bytes) if receives == 0 => return true,
                Ok(Needs::Bytes) => {
                    receives -= 1;
                    match self.secure {
                        Some(_) => self.receive_records(storage, scratch),
                        None => self.receive(storage),
                    }
                }
                Err(error) => {
                    if let Some(times) = storage.faults.count(ClientFault::Protocol) {
                        tracing::warn!(client = self.peer, %error, times, "NBD client breaks the protocol; closing the connection");
                    }
                    self.leave(storage);
                    return false;
                }
            }
        }
    }

    /// Keeps the commands of a client that sends no more from being sent again when their path is lost. It is answered as long as
    /// it listens, but may be gone, and ask for the same over another connection.
    fn cancel_if_ended(&mut self, storage: &mut Storage) {
        if self.has_end && self.commands > 0 && std::mem::take(&mut self.has_uncancelled) {
            storage.cancel(self.slot);
        }
    }

    fn receive(&mut self, storage: &mut Storage) {
        let Some(socket) = &self.socket else { return };
        let (rest, rest_alone) = match &mut self.incoming {
            Incoming::Data { buffer: Some(buffer), filled, left, .. } => (&mut buffer[*filled..], *left > 0),
            _ => (Default::default(), false),
        };
        match self.input.receive(socket, rest, rest_alone) {
            Ok((received, count)) => {
                if let Incoming::Data { filled, .. } = &mut self.incoming {
                    *filled += count;
                }
                match received {
                    Received::Some => {}
                    Received::All => self.is_readable = self.has_end,
                    Received::Nothing => self.is_readable = false,
                    Received::End => {
                        self.has_end = true;
                        self.end(storage);
                    }
                }
            }
            Err(error) => {
                tracing::debug!(client = self.peer, %error, "NBD client lost");
                self.leave(storage);
            }
        }
    }

    /// Takes what has been received, as far as there is room.
    fn take(&mut self, storage: &mut Storage) -> Result<Needs, ProtocolError> {
        loop {
            match (&mut self.phase, &mut self.incoming) {
                (Phase::Ending | Phase::Gone, _) => return Ok(Needs::Room),
                // A handshake of TLS is handed over at its end alone.
                (phase, _) if self.is_frozen && !matches!(phase, Phase::Securing(_)) => {
                    return Ok(Needs::Room);
                }
                (Phase::Handshake(handshake), _) => {
                    let step = handshake.step(self.input.bytes(), &storage.exports, &mut self.output.text)?;
                    match step {
                        // So much is to be sent that no more is answered.
                        Step::NeedsMore if self.output.text.len() > HANDSHAKE_OUTPUT_BYTES_MAX => {
                            return Ok(Needs::Room);
                        }
                        Step::NeedsMore => return Ok(Needs::Bytes),
                        Step::Took(count) => drop(self.input.take(count)),
                        Step::Secures(count) => {
                            self.input.take(count);
                            let options = std::mem::take(handshake);
                            self.phase = Phase::Securing(Box::new(Securing::new(options)));
                            self.begins_tls = true;
                        }
                        Step::Chosen(count, session) => {
                            self.input.take(count);
                            self.phase = Phase::Transmission(session);
                        }
                        Step::Ended => self.end(storage),
                    }
                }
                (Phase::Securing(_), _) => return Ok(self.take_flight()),
                (Phase::Transmission(_), Incoming::Refused { left }) => {
                    *left -= self.input.take(*left as usize) as u32;
                    if *left > 0 {
                        return Ok(Needs::Bytes);
                    }
                    self.incoming = Incoming::Nothing;
                }
                (Phase::Transmission(_), Incoming::Data { .. }) => {
                    if let Some(needs) = self.take_data(storage) {
                        return Ok(needs);
                    }
                }
                (Phase::Transmission(session), Incoming::Nothing) => {
                    let session = *session;
                    if self.has_enough() {
                        return Ok(Needs::Room);
                    }
                    let Some((count, request)) = nbd::Request::read(self.input.bytes(), session.headers)?
                    else {
                        return Ok(Needs::Bytes);
                    };
                    self.input.take(count);
                    self.request(&request, &session, storage);
                }
            }
        }
    }

    /// True if it has as many requests under way, or replies to read, as it may have.
    fn has_enough(&self) -> bool {
        self.requests >= CLIENT_REQUESTS_MAX
            || self.extents >= CLIENT_EXTENTS_MAX
            || self.commands >= CLIENT_COMMANDS_MAX
            || self.output.len() >= CLIENT_REPLIES_MAX
            || self.held_bytes >= CLIENT_BUFFER_BYTES_MAX
    }

    /// A request whose data, if it has some, comes next.
    fn request(&mut self, request: &nbd::Request, session: &Session, storage: &mut Storage) {
        let replies = Replies { headers: session.headers, cookie: request.cookie, offset: request.offset };
        let export = &storage.judged[session.export];
        let size = storage.size_bytes(session.export);
        storage.tally.requests += 1;
        match request.command(session, export, size) {
            Ok(Command::Disconnect) => self.end(storage),
            Ok(Command::Cache) => self.output.put(Some(replies.done()), None),
            Ok(Command::BlockStatus) => {
                let block_bytes = export.block_bytes;
                let id = (self.slot, self.number);
                let is_asked = session.headers != Headers::Simple
                    && storage.ask_extent(id, session.export, replies, (request.offset, request.length));
                match is_asked {
                    true => {
                        self.requests += 1;
                        self.extents += 1;
                    }
                    false => self.output.put(Some(replies.extent(request.length, false, block_bytes)), None),
                }
            }
            Ok(command) => return self.begin(command, request, replies, session.export, storage),
            Err(error) => {
                storage.tally.errors += 1;
                self.output.put(Some(replies.failed(error)), None);
            }
        }
        if request.payload_bytes > 0 {
            self.incoming = Incoming::Refused { left: request.payload_bytes };
        }
    }

    /// Sends the answer to a block status request.
    pub(crate) fn extent_came(&mut self, answer: &ExtentAnswer, block_bytes: u32) {
        self.requests -= 1;
        self.extents -= 1;
        if !self.is_gone() {
            let head = answer.replies.extent(answer.length, answer.is_hole, block_bytes);
            self.output.put(Some(head), None);
        }
    }

    /// Fills the buffer of a write, and sends it when it is full. Says what it needs to go on.
    fn take_data(&mut self, storage: &mut Storage) -> Option<Needs> {
        let Incoming::Data { slot, left, buffer, filled } = &mut self.incoming else { return None };
        let slot = *slot;
        let Some(space) = buffer else {
            return match self.data_buffer(slot, storage) {
                true => None,
                false => Some(Needs::Room),
            };
        };
        *filled += self.input.copy(&mut space[*filled..]);
        if *filled < space.len() {
            return Some(Needs::Bytes);
        }
        // Other clients may have taken the room that there was when the buffer was.
        if !storage.has_room_for(slot) {
            return Some(Needs::Room);
        }
        let is_last = *left == 0;
        let full = buffer.take();
        if is_last {
            self.incoming = Incoming::Nothing;
        }
        if let Some(full) = full {
            self.write(slot, full, is_last, storage);
        }
        None
    }

    /// Sends what there is to send. Whether it wants another turn, because there was no room for more before.
    pub(crate) fn send(&mut self, storage: &mut Storage, ring: &mut Ring) -> bool {
        let Some(socket) = self.socket.as_ref().filter(|_| !self.awaits_writable && !self.is_gone()) else {
            return false;
        };
        let (before, mut freed) = (self.output.len() + self.output.text.len(), 0);
        let sent = match &mut self.secure {
            None => self.output.send(socket, &mut storage.pool, &mut freed),
            Some(secure) => {
                let is_over = matches!(self.phase, Phase::Ending) && self.requests == 0;
                if is_over && !std::mem::replace(&mut self.has_last_words, true) {
                    secure.outbound.close_with(Alert::CLOSE_NOTIFY);
                }
                self.output.send_sealed(socket, secure, &mut storage.pool, &mut freed)
            }
        };
        // As `let_go`, which would need the socket too.
        self.held_bytes -= freed;
        self.party.iter().for_each(|party| storage.budget.free(*party, freed));
        match sent {
            Ok(true) if matches!(self.phase, Phase::Ending) && self.requests == 0 => self.leave(storage),
            Ok(true) => {}
            Ok(false) => match ring.await_writable(socket, self.slot as u32) {
                Ok(()) => self.awaits_writable = true,
                Err(error) => self.lost(&error, storage),
            },
            Err(error) => self.lost(&error, storage),
        }
        self.needs_room && !self.is_gone() && self.output.len() + self.output.text.len() < before
    }

    /// True if it may hold these further bytes of buffers. Otherwise it is served once there is room.
    pub(crate) fn may_hold(&self, bytes: usize, budget: &mut BufferBudget) -> bool {
        let is_enough = self.held_bytes > 0 && self.held_bytes + bytes > CLIENT_BUFFER_BYTES_MAX;
        !is_enough && self.party.is_none_or(|party| budget.has_room(party, self.held_bytes, bytes))
    }

    /// Counts bytes of buffers that it holds.
    pub(crate) fn hold(&mut self, bytes: usize, budget: &mut BufferBudget) {
        self.held_bytes += bytes;
        self.party.iter().for_each(|party| budget.take(*party, bytes));
    }

    /// The same of those that it does not hold any longer.
    pub(crate) fn let_go(&mut self, bytes: usize, budget: &mut BufferBudget) {
        self.held_bytes -= bytes;
        self.party.iter().for_each(|party| budget.free(*party, bytes));
    }

    /// Leaves its party, as nothing of it is left.
    pub(crate) fn part(&mut self, storage: &mut Storage) {
        self.party.take().into_iter().for_each(|party| storage.budget.part(party, self.held_bytes));
    }

    pub(crate) fn lost(&mut self, error: &io::Error, storage: &mut Storage) {
        tracing::debug!(client = self.peer, %error, "NBD client lost");
        self.leave(storage);
    }

    /// Ends the input of the client.
    pub(crate) fn end(&mut self, storage: &mut Storage) {
        if !self.is_gone() {
            self.phase = Phase::Ending;
            self.drop_incoming(storage);
        }
    }

    /// Ends the client with the server: one that has chosen no disk yet gets the reason with the answer to its next option.
    pub(crate) fn shut_down(&mut self, storage: &mut Storage) {
        match &mut self.phase {
            Phase::Handshake(handshake) => handshake.refuse(),
            _ => self.end(storage),
        }
    }

    /// Ends the client, whose time for the TLS handshake is over.
    pub(crate) fn end_late(&mut self, storage: &mut Storage) {
        if let Some(times) = storage.faults.count(ClientFault::Late) {
            tracing::warn!(
                client = self.peer,
                times,
                "TLS handshake of an NBD client is not complete in time; closing the connection"
            );
        }
        self.leave(storage);
    }

    /// Ends the client at a hand-over, since other clients wait for the buffers of its unread replies.
    pub(crate) fn end_unread(&mut self, storage: &mut Storage) {
        tracing::warn!(
            client = self.peer,
            buffer_bytes = self.held_bytes,
            "NBD client leaves its replies unread, and other clients wait for their buffers; closing the connection for the upgrade"
        );
        storage.tally.unread += 1;
        self.leave(storage);
    }

    /// Logs a client that is not handed over since its replies are unread.
    pub(crate) fn report_unread(&self) {
        if self.is_stalled() {
            tracing::warn!(
                client = self.peer,
                "NBD client leaves its replies unread; the upgrade does not wait, and the new process has no connection to it"
            );
        }
    }

    /// Ends the output too. Only its outstanding commands at a target are left.
    pub(crate) fn leave(&mut self, storage: &mut Storage) {
        if self.is_gone() {
            return;
        }
        tracing::debug!(client = self.peer, "NBD client disconnected");
        self.phase = Phase::Gone;
        self.secure = None;
        let freed = self.output.clear(&mut storage.pool);
        self.let_go(freed, &mut storage.budget);
        storage.forget_extents((self.slot, self.number));
        self.requests -= std::mem::take(&mut self.extents);
        self.drop_incoming(storage);
        self.give_up(storage);
        if self.commands > 0 && std::mem::take(&mut self.has_uncancelled) {
            storage.cancel(self.slot);
        }
    }
}
