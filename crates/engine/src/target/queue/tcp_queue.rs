//! One TCP stream, which is one queue: its socket, received and queued PDUs, and the host's flow
//! control. It knows no namespace and no command's meaning: its owner takes commands and data from
//! it, and hands back a `Next` for each command: a reply, or the step that comes before the reply.
//! There is no other way to answer a command.

use std::sync::Arc;
use std::time::Duration;

use nvme::tcp::digest::crc32c;
use nvme::tcp::{
    DataPdu, DecodeError, Digests, PduType, ReadyToTransfer, Receiver, Role, Transfer, Transmitter, flags,
};
use nvme::{CompletionEntry, Status};
use secure_channel::Alert;

use crate::backend::{Patience, is_within_page};
use crate::limits::{BUFFER_LENGTH_MAX, DATA_TO_CONTROLLER_MAX, LINGER_TIMEOUT_MS};
use crate::ring::{Buffer, Moment, Socket};
use crate::secure_stream::SecureStream;

/// Zeroes to send for namespaces that hold nothing.
pub(super) static ZEROES: [u8; BUFFER_LENGTH_MAX] = [0; BUFFER_LENGTH_MAX];

/// PDUs that the send list of a new queue has room for before it grows.
const PDUS_AT_FIRST: usize = 4;

/// Bytes for the host.
#[derive(Debug)]
pub(crate) enum Payload<H> {
    /// In a buffer, from its beginning.
    Buffer(Buffer),
    /// In memory that others use too, from this byte on.
    Memory { holder: H, offset: u64 },
    /// Nowhere: they are zeroes.
    Zeroes,
}

/// The reply to one command. The owner of a reply has to hand it on until a queue has taken it.
#[derive(Debug)]
#[must_use = "a command is answered by handing its reply to the queue"]
pub(crate) struct Reply<H> {
    command_id: u16,
    status: Status,
    result: u64,
    data: Option<(Payload<H>, u32)>,
}

impl<H> Reply<H> {
    /// An answer without data.
    pub(crate) const fn new(command_id: u16, status: Status, result: u64) -> Self {
        Self { command_id, status, result, data: None }
    }

    /// Success, with `length` bytes for the host.
    pub(crate) const fn with_data(command_id: u16, payload: Payload<H>, length: u32) -> Self {
        Self { command_id, status: Status::SUCCESS, result: 0, data: Some((payload, length)) }
    }

    /// The status.
    #[cfg(test)]
    pub(crate) const fn status(&self) -> Status {
        self.status
    }

    /// The command's identifier.
    #[cfg(test)]
    pub(crate) const fn command_id(&self) -> u16 {
        self.command_id
    }

    /// The data, if there is some.
    #[cfg(test)]
    pub(crate) fn data(&self) -> Option<(&Payload<H>, u32)> {
        self.data.as_ref().map(|(payload, length)| (payload, *length))
    }

    /// The completion, at this head of the submission queue.
    fn completion(&self, head: u16) -> CompletionEntry {
        CompletionEntry::new(self.command_id, self.status, self.result, head)
    }
}

/// Next step that a command wants of its queue.
#[derive(Debug)]
#[must_use = "the queue has to do it"]
pub(crate) enum Next<H> {
    /// Sends the reply.
    Reply(Reply<H>),
    /// Requests the command's data (R2T) into this buffer; the transfer tag is the number of the
    /// slot. Data that has a place in memory may go there at once.
    Request { slot: u16, command_id: u16, buffer: Buffer, place: Option<Place<H>> },
    /// Reads the command's data from its capsule into this buffer, after `skip` bytes of other
    /// data.
    Capsule { slot: u16, skip: usize, buffer: Buffer },
    /// Another command is answered first, which is one of a fused pair with this one, or was before this one came.
    After(Reply<H>, Box<Next<H>>),
    /// No step: the command waits, or has been answered already.
    Nothing,
}

/// Memory that a write's data goes to, from this byte on, if the write was admitted.
#[derive(Debug)]
pub(crate) struct Place<H> {
    pub(crate) holder: H,
    pub(crate) offset: u64,
}

/// Destination of the data of the PDU that is being received.
#[derive(Debug)]
pub(super) enum Receiving {
    /// Nowhere.
    Discard,
    /// Into the buffer of the transfer with this number, from this byte on.
    Transfer { slot: u16, at: usize },
    /// Into a buffer as far as there is room, after `skip` bytes that go nowhere.
    Capsule { slot: u16, buffer: Buffer, skip: usize, at: usize },
}

/// Data that was asked for.
#[derive(Debug)]
pub(super) struct Requested<H> {
    pub(super) command_id: u16,
    pub(super) buffer: Buffer,
    pub(super) place: Option<Place<H>>,
    /// The data is in its place: the write has taken effect.
    pub(super) is_placed: bool,
    pub(super) transfer: Transfer,
    /// False once a data digest of the transfer did not match.
    pub(super) is_intact: bool,
}

/// The rest of a page of memory whose beginning has left: it stays as it was then, while the page may be written.
#[derive(Debug)]
pub(super) struct Remainder {
    pub(super) page: Buffer,
    /// Offset of the rest in the page.
    pub(super) at: usize,
}

impl Remainder {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.page[self.at..]
    }
}

/// A queue that sends, among others, memory that an `H` holds.
#[derive(Debug)]
pub(crate) struct Queue<H> {
    pub(super) token: u32,
    pub(super) socket: Arc<Socket>,
    /// TLS records of the connection, `None` without TLS.
    pub(super) secure: Option<Box<SecureStream>>,
    pub(super) receiver: Receiver,
    pub(super) receiving: Receiving,
    /// The last data PDU was a large one.
    pub(super) is_after_large: bool,
    /// Data that was asked for, by the numbers of the slots.
    pub(super) requested: Vec<Option<Requested<H>>>,
    pub(super) transmitter: Transmitter<Payload<H>>,
    /// Saved rest of a page, sent before the rest of the first payload in the send list.
    pub(super) remainder: Option<Remainder>,
    pub(super) digests: Digests,
    /// The socket takes no more; the ring tells when it does.
    pub(super) blocked: bool,
    /// Sending stopped before a page of memory that is being written.
    pub(super) is_cut: bool,
    pub(super) patience: Patience,
    /// The host sends no more: what is there is read to its end.
    pub(super) ended: bool,
    /// Something came since the last look.
    pub(super) received_since_look: bool,
    /// A termination request or the end of the stream has been queued.
    terminated: bool,
    /// Time at which the connection is closed in any case: limits handshakes and lingering.
    deadline: Option<Moment>,
    pub(super) flow_control: bool,
    pub(super) entries: u16,
    /// Head of the host's submission queue (SQHD).
    pub(super) head: u16,
}

impl<H> Queue<H> {
    /// The queue of a stream that has just come. It has to be connected before `deadline`.
    pub(crate) fn new(token: u32, socket: Arc<Socket>, deadline: Moment) -> Self {
        Self {
            token,
            socket,
            secure: None,
            receiver: Receiver::new(Role::Controller, DATA_TO_CONTROLLER_MAX),
            receiving: Receiving::Discard,
            is_after_large: false,
            requested: Vec::new(),
            transmitter: Transmitter::new(PDUS_AT_FIRST),
            remainder: None,
            digests: Digests::default(),
            blocked: false,
            is_cut: false,
            patience: Patience::default(),
            ended: false,
            received_since_look: false,
            terminated: false,
            deadline: Some(deadline),
            flow_control: true,
            entries: 1,
            head: 0,
        }
    }

    pub(crate) const fn socket(&self) -> &Arc<Socket> {
        &self.socket
    }

    /// Entries it has.
    pub(crate) const fn entries(&self) -> u16 {
        self.entries
    }

    /// The digests that were agreed on.
    pub(crate) const fn digests(&self) -> Digests {
        self.digests
    }

    /// Sends a part of a handshake, which comes before all PDUs.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.transmitter.raw(bytes);
    }

    /// From now on everything goes through this, in both directions.
    pub(crate) fn secure(&mut self, stream: SecureStream) {
        self.secure = Some(Box::new(stream));
    }

    /// True if no bytes wait to be sent.
    pub(crate) fn is_flushed(&self) -> bool {
        self.unsent_bytes() == 0
    }

    /// Bytes on their way to the host.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.transmitter.length() + self.secure.as_ref().map_or(0, |secure| secure.outbound.length())
    }

    /// True if the host does not read its responses and this many bytes wait, in which case no further commands are taken.
    pub(crate) fn is_congested(&self, unsent_max: usize) -> bool {
        (self.blocked || self.is_cut) && self.unsent_bytes() >= unsent_max
    }

    /// True if data of a PDU is still to come.
    pub(crate) fn is_amid_data(&self) -> bool {
        self.receiver.data_left() > 0
    }

    /// True once a termination request or the end of the stream has been queued.
    pub(crate) const fn is_terminated(&self) -> bool {
        self.terminated
    }

    /// True if the queue needs another turn, because a page that it has to send is being written.
    pub(crate) const fn wants_turn(&self) -> bool {
        self.is_cut
    }

    /// The host sends no more.
    pub(crate) const fn end_input(&mut self) {
        self.ended = true;
    }

    /// True if bytes were received since the previous call.
    pub(crate) fn take_received_since_look(&mut self) -> bool {
        let has_received = std::mem::replace(&mut self.received_since_look, false);
        if let Some(secure) = &mut self.secure
            && !has_received
        {
            secure.inbound.trim();
        }
        has_received
    }

    /// True if the connection's deadline has passed.
    pub(crate) fn is_overdue(&self, now: Moment) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// True if the connection has a deadline.
    pub(crate) const fn has_deadline(&self) -> bool {
        self.deadline.is_some()
    }

    /// Sets the time at which the connection is closed in any case; `None` removes it.
    pub(crate) const fn close_at(&mut self, deadline: Option<Moment>) {
        self.deadline = deadline;
    }

    /// The host's queue was read by one entry.
    pub(crate) const fn count_entry(&mut self) {
        self.head = if self.head + 1 >= self.entries { 0 } else { self.head + 1 };
    }

    /// Turns the connection into a queue after its Connect command, the first entry, and queues the
    /// response. If the host has disabled flow control, the response says so (SQHD FFFFh).
    pub(crate) fn connected(&mut self, entries: u16, flow_control: bool, (command_id, result): (u16, u64)) {
        const NO_FLOW_CONTROL: u16 = 0xffff;
        self.flow_control = flow_control;
        self.entries = entries;
        self.head = 1;
        self.deadline = None;
        let head = if flow_control { self.head } else { NO_FLOW_CONTROL };
        self.transmitter.response(CompletionEntry::new(command_id, Status::SUCCESS, result, head));
    }

    /// Does what a command wants next.
    pub(crate) fn take(&mut self, next: Next<H>) {
        match next {
            Next::Reply(reply) => self.reply(reply),
            Next::Request { slot, command_id, buffer, place } => {
                self.request((slot, command_id), buffer, place);
            }
            Next::Capsule { slot, skip, buffer } => {
                self.receiving = Receiving::Capsule { slot, buffer, skip, at: 0 };
            }
            Next::After(reply, next) => {
                self.reply(reply);
                self.take(*next);
            }
            Next::Nothing => {}
        }
    }

    /// Answers a command.
    pub(crate) fn reply(&mut self, mut reply: Reply<H>) {
        // Without a completion the host never learns how far its queue was read, so that flow control forbids it.
        let is_in_data = !self.flow_control;
        if let Some((payload, length)) = reply.data.take() {
            let success = if is_in_data { flags::SUCCESS } else { 0 };
            let pdu =
                DataPdu::new(PduType::DataToHost, flags::LAST | success, reply.command_id, 0, 0, length);
            let range = 0..length as usize;
            let crc = self.digest_of(&payload, range.end);
            self.transmitter.data(pdu, payload, range, crc);
            if is_in_data {
                return;
            }
        }
        let head = if self.flow_control { self.head } else { 0 };
        self.transmitter.response(reply.completion(head));
    }

    /// The data digest of a payload, 0 where there is none. That of memory which others write is known when it leaves.
    fn digest_of(&self, payload: &Payload<H>, length: usize) -> Option<u32> {
        match payload {
            _ if !self.digests.data => Some(0),
            Payload::Buffer(buffer) => Some(crc32c(&buffer[..length])),
            Payload::Zeroes => Some(crc32c(&ZEROES[..length])),
            Payload::Memory { offset, .. } => {
                debug_assert!(is_within_page(*offset, length as u64), "its rest could not be kept");
                None
            }
        }
    }

    /// Asks the host for the data of a command, all of it at once.
    fn request(&mut self, (slot, command_id): (u16, u16), buffer: Buffer, place: Option<Place<H>>) {
        let length = buffer.len() as u32;
        let at = usize::from(slot);
        if self.requested.len() <= at {
            self.requested.resize_with(at + 1, || None);
        }
        let transfer = Transfer::new(0..length, slot);
        let (is_placed, is_intact) = (false, true);
        self.requested[at] = Some(Requested { command_id, buffer, place, is_placed, transfer, is_intact });
        self.transmitter.ready_to_transfer(ReadyToTransfer::new(command_id, slot, 0, length));
    }

    /// Has data that comes from now on looked at before it goes anywhere: some of the commands were
    /// ended meanwhile.
    pub(crate) fn place_nothing(&mut self) {
        self.requested.iter_mut().flatten().for_each(|requested| requested.place = None);
    }

    /// Says why the connection ends, as the specification wants it; the end of the stream follows when that has left.
    pub(crate) fn terminate(&mut self, error: &DecodeError, header: &[u8], now: Moment) {
        self.transmitter.terminate(PduType::ControllerTerminate, error.error, error.information, header);
        if let Some(secure) = &mut self.secure {
            secure.outbound.close_with(Alert::CLOSE_NOTIFY);
        }
        self.linger(now);
    }

    /// The header of the PDU that could not be decoded.
    pub(crate) fn faulty_header(&self) -> Vec<u8> {
        self.receiver.faulty_header().to_vec()
    }

    /// Says that it ends, after all that was under way. A socket that is closed while its host still sends breaks the
    /// connection, and answers on their way are lost with it: the host gets some time to end it, too.
    pub(crate) fn disconnect(&mut self, now: Moment) {
        match &mut self.secure {
            // The stream ends when that has left.
            Some(secure) => secure.outbound.close_with(Alert::CLOSE_NOTIFY),
            None => self.socket.shut_down_sending(),
        }
        self.linger(now);
    }

    /// Ends the stream after a record that is not valid under the session's keys. Sends the TLS
    /// alert, and nothing that is queued.
    pub(crate) fn break_off(&mut self, alert: Option<Alert>, now: Moment) {
        self.transmitter.clear(|_| ());
        if let (Some(secure), Some(alert)) = (&mut self.secure, alert) {
            secure.outbound.close_with(alert);
        }
        self.linger(now);
    }

    /// Closes the connection once the queued bytes have left.
    pub(crate) fn hang_up(&mut self, now: Moment) {
        self.linger(now);
    }

    /// From now on nothing is sent and nothing that comes matters, until the host ends the connection too.
    fn linger(&mut self, now: Moment) {
        self.terminated = true;
        self.deadline = Some(now.after(Duration::from_millis(LINGER_TIMEOUT_MS)));
    }
}
