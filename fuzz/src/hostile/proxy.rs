//! A man in the middle: what the host sends reaches a good target as it is, and of what comes back some PDUs are not what
//! they should be. It says nothing of what the host has to make of that.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use nvme::tcp::digest::crc32c;
use nvme::tcp::{
    Chunk, DataPdu, Digests, Event, FatalError, PduType, ReadyToTransfer, Receiver, Role, Transmitter,
};
use nvme::{CompletionEntry, Status};
use rustix::event::{PollFd, PollFlags, poll};
use zerocopy::little_endian::{U16, U32};

use super::script::{Bend, How};

/// PDUs that a target sends in one conversation before it closes: a host that never stops asking does not get answers
/// forever.
const PDUS_MAX: usize = 150;

/// Bytes that a host relies on: of Identify Controller (MDTS, CNTLID, VER, OAES, CTRATT, CNTRLTYPE, AERL, SQES, NN, ONCS),
/// of Identify Namespace (NSZE, NSFEAT, NLBAF, FLBAS, MC, NMIC, the first format), of lists of namespaces and of their
/// names, and of a discovery log (NUMREC, RECFMT, the first record).
const FIELDS_AT: [usize; 34] = [
    77, 78, 80, 82, 92, 96, 111, 259, 512, 516, 519, 520, 0, 1, 4, 7, 24, 25, 26, 27, 30, 128, 130, 131, 2,
    3, 5, 8, 9, 12, 15, 16, 18, 1026,
];

/// A target that listens, and what it does otherwise.
pub(super) struct Proxy<'a> {
    listener: &'a TcpListener,
    good: SocketAddr,
    /// Readable when the conversation is over.
    stop: OwnedFd,
    bends: std::slice::Iter<'a, Bend>,
    next: Option<Bend>,
    sent: usize,
    links: Vec<Link>,
}

/// Connection of the host, and its way on.
struct Link {
    host: TcpStream,
    target: TcpStream,
    receiver: Receiver,
    transmitter: Transmitter<()>,
    /// The PDU whose data is coming.
    pending: Option<(Event, Vec<u8>)>,
    held: Vec<u8>,
    is_over: bool,
}

impl<'a> Proxy<'a> {
    pub(super) fn new(listener: &'a TcpListener, good: SocketAddr, stop: OwnedFd, bends: &'a [Bend]) -> Self {
        let mut bends = bends.iter();
        let next = bends.next().copied();
        Self { listener, good, stop, bends, next, sent: 0, links: Vec::new() }
    }

    /// Forwards bytes until the order to stop.
    pub(super) fn run(mut self) {
        loop {
            let mut polled =
                vec![PollFd::new(&self.stop, PollFlags::IN), PollFd::new(self.listener, PollFlags::IN)];
            for link in &self.links {
                polled.push(PollFd::new(&link.host, PollFlags::IN));
                polled.push(PollFd::new(&link.target, PollFlags::IN));
            }
            if poll(&mut polled, None).is_err() {
                continue;
            }
            let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
            if ready[0] {
                return;
            }
            if ready[1] {
                self.accept();
            }
            for (at, ready) in ready[2..].chunks_exact(2).enumerate() {
                if ready[0] {
                    self.links[at].pass_on();
                }
                if ready[1] {
                    self.answer(at);
                }
            }
            self.links.retain(|link| !link.is_over);
        }
    }

    fn accept(&mut self) {
        let Ok((host, _)) = self.listener.accept() else { return };
        let Ok(target) = TcpStream::connect(self.good) else { return };
        for stream in [&host, &target] {
            let _ = stream.set_nodelay(true);
            // A host that reads nothing must not keep the conversation from its end.
            let _ = stream.set_write_timeout(Some(Duration::from_millis(500)));
        }
        self.links.push(Link {
            host,
            target,
            receiver: Receiver::new(Role::Host, 1 << 20),
            transmitter: Transmitter::new(4),
            pending: None,
            held: Vec::new(),
            is_over: false,
        });
    }

    fn answer(&mut self, at: usize) {
        let mut room = [0; 32 << 10];
        let length = match self.links[at].target.read(&mut room) {
            Ok(length @ 1..) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => return,
            _ => {
                self.links[at].is_over = true;
                return;
            }
        };
        let mut input = &room[..length];
        while let Some((event, data)) = self.links[at].next(&mut input) {
            let how = self.how();
            let link = &mut self.links[at];
            link.send(event, data, how);
            if self.sent > PDUS_MAX || link.is_over {
                link.is_over = true;
                return;
            }
        }
    }

    /// Change to the next PDU.
    fn how(&mut self) -> Option<How> {
        self.sent += 1;
        let bend = self.next.as_mut()?;
        if bend.after > 0 {
            bend.after -= 1;
            return None;
        }
        let how = bend.how;
        self.next = self.bends.next().copied();
        Some(how)
    }
}

impl Link {
    /// The host's bytes, as they are.
    fn pass_on(&mut self) {
        let mut room = [0; 32 << 10];
        match self.host.read(&mut room) {
            Ok(length @ 1..) if self.target.write_all(&room[..length]).is_ok() => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => self.is_over = true,
        }
    }

    /// The next PDU that has come whole, with its data.
    fn next(&mut self, input: &mut &[u8]) -> Option<(Event, Vec<u8>)> {
        loop {
            if self.receiver.data_left() > 0 {
                if input.is_empty() {
                    return None;
                }
                let data = self.receiver.take_data(input, usize::MAX);
                if let Some((_, all)) = &mut self.pending {
                    all.extend_from_slice(data);
                }
                continue;
            }
            match self.receiver.next(input).expect("a good target") {
                Some(Event::DataEnd { .. }) => return self.pending.take(),
                Some(event @ Event::Data(_)) => self.pending = Some((event, Vec::new())),
                Some(event) => {
                    if let Event::Initialize(response) = event {
                        let digests =
                            Digests { header: response.digests & 1 != 0, data: response.digests & 2 != 0 };
                        self.receiver.set_digests(digests);
                    }
                    return Some((event, Vec::new()));
                }
                None if self.receiver.data_left() > 0 => {}
                None => return None,
            }
        }
    }

    fn send(&mut self, mut event: Event, mut data: Vec<u8>, how: Option<How>) {
        let mut bytes = Vec::new();
        if let Some(how) = how {
            bend(&mut event, &mut data, how);
            self.insert(&event, how, &mut bytes);
        }
        let begun = bytes.len();
        self.frame(&event, &data, &mut bytes);
        if let Event::Initialize(response) = event {
            let digests = Digests { header: response.digests & 1 != 0, data: response.digests & 2 != 0 };
            self.transmitter.set_digests(digests);
        }
        let pdu = begun..bytes.len();
        match how {
            Some(How::Byte { at, turned }) => {
                let at = begun + usize::from(at) % pdu.len();
                bytes[at] ^= turned.max(1);
            }
            Some(How::Digest) => *bytes.last_mut().expect("a PDU has bytes") ^= 0x55,
            Some(How::Drop) => return,
            Some(How::Twice) => bytes.extend_from_within(pdu),
            Some(How::Hold) => {
                self.held = bytes;
                return;
            }
            Some(How::Close) => {
                self.is_over = true;
                return;
            }
            Some(How::Reset) => {
                let _ = rustix::net::sockopt::set_socket_linger(&self.host, Some(Duration::ZERO));
                self.is_over = true;
                return;
            }
            _ => {}
        }
        bytes.append(&mut self.held);
        let cut = if let Some(How::Split(cut)) = how { usize::from(cut).min(bytes.len()) } else { 0 };
        let (first, rest) = bytes.split_at(cut);
        if self.host.write_all(first).is_err() || self.host.write_all(rest).is_err() {
            self.is_over = true;
        }
    }

    fn frame(&mut self, event: &Event, data: &[u8], bytes: &mut Vec<u8>) {
        match event {
            Event::Initialize(pdu) => self.transmitter.initialize(pdu),
            Event::Response(entry) => self.transmitter.response(*entry),
            Event::Data(pdu) => {
                let mut pdu = *pdu;
                pdu.common.flags &= !3;
                self.transmitter.data(pdu, (), 0..data.len(), Some(crc32c(data)));
            }
            Event::ReadyToTransfer(pdu) => {
                let mut pdu = *pdu;
                pdu.common.flags &= !3;
                pdu.common.pdu_length = U32::new(24);
                self.transmitter.ready_to_transfer(pdu);
            }
            Event::Terminate { information, .. } => {
                let kind = PduType::ControllerTerminate;
                self.transmitter.terminate(kind, FatalError::PduSequence, *information, &[]);
            }
            Event::Command { .. } | Event::DataEnd { .. } => unreachable!("no target sends these PDUs"),
        }
        for part in self.transmitter.chunks() {
            match part {
                Chunk::Bytes(part) => bytes.extend_from_slice(part),
                Chunk::Payload { start, end, .. } => bytes.extend_from_slice(&data[start..end]),
            }
        }
        self.transmitter.clear(|()| {});
    }

    /// PDUs that no good target would send before this one.
    fn insert(&mut self, event: &Event, how: How, bytes: &mut Vec<u8>) {
        let own = match event {
            Event::Response(entry) => entry.command_id.get(),
            Event::Data(pdu) => pdu.command_id.get(),
            Event::ReadyToTransfer(pdu) => pdu.command_id.get(),
            _ => 0,
        };
        let inserted = match how {
            How::Request { id, tag, offset, length } => {
                Event::ReadyToTransfer(ReadyToTransfer::new(id, tag, offset, length))
            }
            How::RequestOwn { offset, length } => {
                Event::ReadyToTransfer(ReadyToTransfer::new(own, 0, offset.into(), length.into()))
            }
            How::Response { id, status } => {
                Event::Response(CompletionEntry::new(id, Status::from_bits(status & !1), 0, 0))
            }
            How::Terminate(information) => Event::Terminate { error: 1, information: information.into() },
            How::Raw(raw) => {
                bytes.extend_from_slice(&raw);
                return;
            }
            _ => return,
        };
        self.frame(&inserted, &[], bytes);
    }
}

/// Changes what a PDU says.
fn bend(event: &mut Event, data: &mut Vec<u8>, how: How) {
    match (how, &mut *event) {
        (How::Status(status), Event::Response(entry)) => {
            *entry = with(entry, Status::from_bits(status & !1), entry.result());
        }
        (How::Result(result), Event::Response(entry)) => *entry = with(entry, entry.status(), result),
        (How::TurnResult { bit }, Event::Response(entry)) => {
            *entry = with(entry, entry.status(), entry.result() ^ 1 << (bit % 64));
        }
        (How::CommandId(id), Event::Response(entry)) => entry.command_id = U16::new(id),
        (How::CommandId(id), Event::Data(pdu)) => pdu.command_id = U16::new(id),
        (How::CommandId(id), Event::ReadyToTransfer(pdu)) => pdu.command_id = U16::new(id),
        (How::Offset(offset), Event::Data(pdu)) => {
            pdu.offset = U32::new(pdu.offset.get().wrapping_add_signed(offset));
        }
        (How::Offset(offset), Event::ReadyToTransfer(pdu)) => {
            pdu.offset = U32::new(pdu.offset.get().wrapping_add_signed(offset));
        }
        (How::Shorter(by), Event::ReadyToTransfer(pdu)) => {
            pdu.length = U32::new(pdu.length.get().wrapping_sub(by.into()));
        }
        (How::Shorter(by), Event::Data(pdu)) => shorten(pdu, data, by.into()),
        (How::Flags(turned), Event::Data(pdu)) => pdu.common.flags ^= turned,
        (How::Flags(turned), Event::Initialize(pdu)) => pdu.digests ^= turned,
        (How::Result(limit), Event::Initialize(pdu)) => pdu.limit = U32::new(limit as u32),
        (How::Data { at, value }, _) if !data.is_empty() => {
            let at = usize::from(at) % data.len();
            data[at] = value;
        }
        (How::Field { which, value }, _) => {
            let at = FIELDS_AT[usize::from(which) % FIELDS_AT.len()];
            if let Some(byte) = data.get_mut(at) {
                *byte = value;
            }
        }
        (How::Number { at, value }, _) if data.len() >= 4 => {
            let at = usize::from(at) % (data.len() - 3);
            data[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        (How::Fill(value), _) => data.fill(value),
        _ => {}
    }
}

fn with(entry: &CompletionEntry, status: Status, result: u64) -> CompletionEntry {
    CompletionEntry::new(entry.command_id.get(), status, result, entry.submission_queue_head.get())
}

fn shorten(pdu: &mut DataPdu, data: &mut Vec<u8>, by: usize) {
    // A PDU of no data is none that can be framed.
    data.truncate(data.len().saturating_sub(by).max(1));
    pdu.length = U32::new(data.len() as u32);
}
