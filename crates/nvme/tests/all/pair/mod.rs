//! A host and a controller in memory, built of `nvme::tcp` alone, with the bytes between them cut at random.
//! What is stored is a vector, and both ends do only what the tests ask for.

use std::collections::VecDeque;

use nvme::command::DataPointer;
use nvme::io::IoCommand;
use nvme::tcp::digest::crc32c;
use nvme::tcp::{
    Chunk, DataPdu, DecodeError, Digests, Event, FatalError, Initialize, Negotiated, PduType,
    ReadyToTransfer, Receiver, Role, Transfer, Transmitter, flags, negotiate, settle,
};
use nvme::{CompletionEntry, SglDescriptor, Status, SubmissionEntry};
use zerocopy::IntoBytes;

pub(super) const BLOCK: usize = 512;
pub(super) const SLOTS: u16 = 6;
/// Each slot's commands stay in blocks of their own, so that their order does not matter.
pub(super) const SLOT_BLOCKS: u32 = 64;
pub(super) const SLOT_BYTES: usize = SLOT_BLOCKS as usize * BLOCK;
pub(super) const BOTH: Digests = Digests { header: true, data: true };

/// SplitMix64: all chance of a test comes from one printed seed.
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 1 to `most`.
    pub(super) fn up_to(&mut self, most: u32) -> u32 {
        1 + (self.next() % u64::from(most)) as u32
    }

    pub(super) fn one_in(&mut self, count: u32) -> bool {
        self.up_to(count) == 1
    }

    pub(super) fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

/// End of a connection, as one end knows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ending {
    /// This end found the other to blame.
    Here(DecodeError),
    /// The other end sent a termination request.
    There { error: u16, information: u32 },
}

/// A command at the host, or the data of one at the controller.
#[derive(Default)]
pub(super) struct Slot {
    busy: bool,
    command_id: u16,
    pub(super) buffer: Vec<u8>,
    transfer: Option<Transfer>,
    /// Offset at which the data is stored.
    stored_at: usize,
    /// Uses of the buffer by the send list.
    pub(super) sends: u32,
    damaged: bool,
}

/// State that both ends have.
pub(super) struct End {
    receiver: Receiver,
    pub(super) transmitter: Transmitter<u16>,
    digests: Digests,
    pub(super) slots: Vec<Slot>,
    /// Place of the next data: a slot, and the offset in its buffer.
    incoming: Option<(u16, usize)>,
    pub(super) ending: Option<Ending>,
    /// Alignment of data in bytes: its offsets are multiples of this.
    alignment: u8,
    /// The number of data PDUs until one is sent with a wrong digest.
    pub(super) damage_in: Option<u32>,
    pub(super) random: Random,
}

impl End {
    fn new(role: Role, data_length_max: u32, seed: u64) -> Self {
        Self {
            receiver: Receiver::new(role, data_length_max),
            transmitter: Transmitter::new(4),
            digests: Digests::default(),
            slots: (0..SLOTS).map(|_| Slot::default()).collect(),
            incoming: None,
            ending: None,
            alignment: 4,
            damage_in: None,
            random: Random(seed),
        }
    }

    pub(super) fn slot(&mut self, index: u16) -> &mut Slot {
        &mut self.slots[usize::from(index)]
    }

    fn set_digests(&mut self, digests: Digests) {
        self.digests = digests;
        self.receiver.set_digests(digests);
        self.transmitter.set_digests(digests);
    }

    /// The data digest of a part of a slot's buffer; nonsense without digests, since it must not matter then.
    fn crc(&mut self, slot: u16, start: usize, end: usize) -> u32 {
        self.slot(slot).sends += 1;
        let crc = crc32c(&self.slot(slot).buffer[start..end]);
        let damaged = self.damage_in == Some(0);
        self.damage_in = self.damage_in.and_then(|left| left.checked_sub(1));
        if damaged || !self.digests.data { !crc } else { crc }
    }

    /// Sends data as the other end asked, and expects it as this one did.
    fn set_alignments(&mut self, theirs: u8, own: u8) {
        self.transmitter.set_alignment(theirs);
        self.alignment = own;
    }

    fn check_alignment(&self, pdu: &DataPdu) {
        assert_eq!(pdu.common.data_offset % self.alignment, 0, "data begins where this end wants it");
    }

    fn send_data(&mut self, pdu: DataPdu, slot: u16) {
        let start = pdu.offset.get() as usize;
        let end = start + pdu.length.get() as usize;
        let crc = self.crc(slot, start, end);
        self.transmitter.data(pdu, slot, start..end, Some(crc));
    }

    /// Up to `length` bytes of the send list.
    pub(super) fn send(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in self.transmitter.chunks() {
            bytes.extend_from_slice(match part {
                Chunk::Bytes(bytes) => bytes,
                Chunk::Payload { payload, start, end } => {
                    &self.slots[usize::from(*payload)].buffer[start..end]
                }
            });
            if bytes.len() >= length {
                bytes.truncate(length);
                break;
            }
        }
        let slots = &mut self.slots;
        self.transmitter.advance(bytes.len(), |slot| slots[usize::from(slot)].sends -= 1);
        bytes
    }

    /// Takes data of the current PDU, in either way.
    fn take_data(&mut self, input: &mut &[u8]) {
        let left = self.receiver.data_left().min(input.len());
        let (taken, rest) = input.split_at(left);
        if self.random.one_in(2) {
            self.receiver.data_received(taken);
            *input = rest;
        } else {
            assert_eq!(self.receiver.take_data(input, left), taken);
        }
        let (slot, at) = self.incoming.expect("data has a place to go to");
        self.slot(slot).buffer[at..at + taken.len()].copy_from_slice(taken);
        self.incoming = Some((slot, at + taken.len()));
    }

    /// Ends the connection for an error of the other end. `header` is the PDU's, when the receiver found it
    /// good.
    fn fail(&mut self, kind: PduType, error: DecodeError, header: &[u8]) {
        let faulty = self.receiver.faulty_header();
        let header = if faulty.is_empty() { header } else { faulty };
        self.transmitter.terminate(kind, error.error, error.information, header);
        self.ending = Some(Ending::Here(error));
    }
}

/// An end with the rules of its role.
pub(super) trait Owner {
    /// Type of PDU by which it ends a connection.
    const TERMINATION: PduType;
    fn end(&mut self) -> &mut End;
    fn on(&mut self, event: Event) -> Result<(), DecodeError>;

    fn receive(&mut self, mut input: &[u8]) {
        while self.end().ending.is_none() {
            if self.end().receiver.data_left() > 0 {
                if input.is_empty() {
                    return;
                }
                self.end().take_data(&mut input);
                continue;
            }
            match self.end().receiver.next(&mut input) {
                Ok(Some(event)) => {
                    if let Err(error) = self.on(event) {
                        self.end().fail(Self::TERMINATION, error, &header_of(&event));
                    }
                }
                Ok(None) if self.end().receiver.data_left() > 0 => {}
                Ok(None) => return,
                Err(error) => self.end().fail(Self::TERMINATION, error, &[]),
            }
        }
    }
}

/// The header of a PDU that was well-formed, but not allowed.
fn header_of(event: &Event) -> Vec<u8> {
    match event {
        Event::Initialize(pdu) => pdu.as_bytes().to_vec(),
        Event::Data(pdu) => pdu.as_bytes().to_vec(),
        Event::ReadyToTransfer(pdu) => pdu.as_bytes().to_vec(),
        _ => Vec::new(),
    }
}

fn range_error<E>(_: E) -> DecodeError {
    DecodeError::new(FatalError::DataTransferOutOfRange, 0)
}

pub(super) struct Host {
    pub(super) end: End,
    asked: Digests,
    /// As ICReq asked for it (HPDA).
    alignment: u8,
    pub(super) negotiated: Option<Negotiated>,
    /// Slot, status and whether the data came damaged.
    pub(super) completions: Vec<(u16, Status, bool)>,
    succeeds: bool,
    pub(super) pieces_sent: u32,
}

impl Owner for Host {
    const TERMINATION: PduType = PduType::HostTerminate;

    fn end(&mut self) -> &mut End {
        &mut self.end
    }

    fn on(&mut self, event: Event) -> Result<(), DecodeError> {
        match event {
            Event::Initialize(response) => {
                let negotiated = settle(&response, self.asked)?;
                self.end.set_alignments(negotiated.data_alignment, 4 * (self.alignment + 1));
                self.negotiated = Some(negotiated);
                self.end.set_digests(self.asked);
            }
            Event::Response(entry) => self.complete(entry.command_id.get() - 100, entry.status()),
            Event::Data(pdu) => {
                self.end.check_alignment(&pdu);
                let slot = pdu.command_id.get() - 100;
                let transfer = self.end.slot(slot).transfer.as_mut().expect("a read");
                let range = transfer.accept(&pdu).map_err(range_error)?;
                self.end.incoming = Some((slot, range.start));
                self.succeeds = pdu.is_success();
            }
            Event::DataEnd { digest_matches } => {
                let (slot, _) = self.end.incoming.take().expect("data came before its end");
                self.end.slot(slot).damaged |= !digest_matches;
                if self.succeeds {
                    self.complete(slot, Status::SUCCESS);
                }
            }
            Event::ReadyToTransfer(asked) => self.send_asked(&asked)?,
            Event::Terminate { error, information } => {
                self.end.ending = Some(Ending::There { error, information });
            }
            Event::Command { .. } => panic!("a command at a host"),
        }
        Ok(())
    }
}

impl Host {
    pub(super) fn submit(&mut self, slot: u16, command: IoCommand, data: Vec<u8>, in_capsule: bool) {
        let length = data.len();
        let mut entry = command.encode(1);
        entry.command_id = (slot + 100).into();
        let reads = matches!(command, IoCommand::Read { .. });
        let transfer = reads.then(|| Transfer::new(0..length as u32, 0));
        assert_eq!(self.end.slot(slot).sends, 0, "the buffer is still on the send list");
        *self.end.slot(slot) = Slot { busy: true, buffer: data, transfer, ..Slot::default() };
        if in_capsule {
            entry.data = SglDescriptor::in_capsule(length as u32);
            let crc = self.end.crc(slot, 0, length);
            self.end.transmitter.command(entry, Some((slot, length, crc)));
        } else {
            entry.data = SglDescriptor::transport(length as u32);
            self.end.transmitter.command(entry, None);
        }
    }

    fn complete(&mut self, slot: u16, status: Status) {
        assert!(self.end.slot(slot).busy, "completed twice");
        self.end.slot(slot).busy = false;
        let damaged = self.end.slot(slot).damaged;
        self.completions.push((slot, status, damaged));
    }

    fn send_asked(&mut self, asked: &ReadyToTransfer) -> Result<(), DecodeError> {
        let piece_max = self.negotiated.expect("negotiated").data_to_controller_max;
        let (slot, tag) = (asked.command_id.get() - 100, asked.transfer_tag.get());
        let (mut at, end) = (asked.offset.get(), asked.offset.get() + asked.length.get());
        if end as usize > self.end.slot(slot).buffer.len() {
            return Err(range_error(()));
        }
        while at < end {
            let length = piece_max.min(end - at);
            let last = if at + length == end { flags::LAST } else { 0 };
            let pdu = DataPdu::new(PduType::DataToController, last, slot + 100, tag, at, length);
            self.end.send_data(pdu, slot);
            at += length;
            self.pieces_sent += 1;
        }
        Ok(())
    }
}

pub(super) struct Controller {
    pub(super) end: End,
    pub(super) data_to_controller_max: u32,
    /// As ICResp asks for it (CPDA).
    alignment: u8,
    pub(super) stored: Vec<u8>,
    /// Makes the next R2T ask for more than there is.
    pub(super) asks_too_much: bool,
}

impl Owner for Controller {
    const TERMINATION: PduType = PduType::ControllerTerminate;

    fn end(&mut self) -> &mut End {
        &mut self.end
    }

    fn on(&mut self, event: Event) -> Result<(), DecodeError> {
        match event {
            Event::Initialize(request) => {
                let (mut response, negotiated) = negotiate(&request, self.data_to_controller_max)?;
                response.data_alignment = self.alignment;
                self.end.set_alignments(negotiated.data_alignment, 4 * (self.alignment + 1));
                self.end.transmitter.initialize(&response);
                self.end.set_digests(negotiated.digests);
            }
            Event::Command { entry, data_length } => self.start(&entry, data_length),
            Event::Data(pdu) => {
                assert!(pdu.length.get() <= self.data_to_controller_max);
                self.end.check_alignment(&pdu);
                let tag = pdu.transfer_tag.get();
                let transfer = self.end.slot(tag).transfer.as_mut().expect("an R2T is open");
                let range = transfer.accept(&pdu).map_err(range_error)?;
                self.end.incoming = Some((tag, range.start));
            }
            Event::DataEnd { digest_matches } => {
                let (index, at) = self.end.incoming.take().expect("data came before its end");
                self.end.slot(index).damaged |= !digest_matches;
                if self.end.slot(index).transfer.is_none_or(|transfer| transfer.remaining() == 0) {
                    self.go_on(index, at);
                }
            }
            Event::Terminate { error, information } => {
                self.end.ending = Some(Ending::There { error, information });
            }
            Event::Response(_) | Event::ReadyToTransfer(_) => panic!("{event:?} at a controller"),
        }
        Ok(())
    }
}

impl Controller {
    fn start(&mut self, entry: &SubmissionEntry, data_length: usize) {
        let command_id = entry.command_id.get();
        let pointer = entry.data_pointer().expect("a descriptor of NVMe/TCP");
        let command = IoCommand::decode(entry).expect("a known command");
        let (IoCommand::Read { start, blocks, .. } | IoCommand::Write { start, blocks, .. }) = command else {
            return self.respond(command_id, Status::SUCCESS);
        };
        let (at, length) = (start as usize * BLOCK, blocks as usize * BLOCK);
        assert_eq!(pointer.length() as usize, length);
        let free = self.end.slots.iter().position(|slot| !slot.busy && slot.sends == 0);
        let index = free.expect("as many slots as the host has") as u16;
        let buffer = self.stored[at..at + length].to_vec();
        *self.end.slot(index) = Slot { busy: true, command_id, buffer, stored_at: at, ..Slot::default() };
        match pointer {
            _ if !command.sends_data() => self.answer_read(index),
            DataPointer::InCapsule { .. } => {
                assert_eq!(data_length, length);
                self.end.incoming = Some((index, 0));
            }
            DataPointer::Transport { .. } => {
                assert_eq!(data_length, 0);
                self.go_on(index, 0);
            }
        }
    }

    /// Asks for the next stretch of a write, or ends it when all has come.
    fn go_on(&mut self, index: u16, at: usize) {
        let Slot { command_id, stored_at, damaged, .. } = *self.end.slot(index);
        let rest = self.end.slot(index).buffer.len() - at;
        if rest == 0 {
            let data = std::mem::take(self.end.slot(index)).buffer;
            let status = if damaged { Status::TRANSIENT_TRANSPORT_ERROR } else { Status::SUCCESS };
            if !damaged {
                self.stored[stored_at..stored_at + data.len()].copy_from_slice(&data);
            }
            return self.respond(command_id, status);
        }
        let (at, mut length) = (at as u32, 4 * self.end.random.up_to(rest as u32 / 4));
        self.end.slot(index).transfer = Some(Transfer::new(at..at + length, index));
        if std::mem::take(&mut self.asks_too_much) {
            length = rest as u32 + 4;
        }
        let pdu = ReadyToTransfer::new(command_id, index, at, length);
        self.end.transmitter.ready_to_transfer(pdu);
    }

    /// Sends the data of a read in pieces, with the success in the last of them or behind it.
    fn answer_read(&mut self, index: u16) {
        let Slot { command_id, .. } = *self.end.slot(index);
        let length = self.end.slot(index).buffer.len() as u32;
        let success = if self.end.random.one_in(2) { flags::SUCCESS } else { 0 };
        let mut at = 0;
        while at < length {
            let piece = (4 * self.end.random.up_to(4096)).min(length - at);
            let flags = if at + piece == length { flags::LAST | success } else { 0 };
            self.end.send_data(DataPdu::new(PduType::DataToHost, flags, command_id, 0, at, piece), index);
            at += piece;
        }
        if success == 0 {
            self.respond(command_id, Status::SUCCESS);
        }
        self.end.slot(index).busy = false;
    }

    fn respond(&mut self, command_id: u16, status: Status) {
        self.end.transmitter.response(CompletionEntry::new(command_id, status, 0, 0));
    }
}

pub(super) struct Pair {
    pub(super) host: Host,
    pub(super) controller: Controller,
    pub(super) to_controller: VecDeque<u8>,
    pub(super) to_host: VecDeque<u8>,
    pub(super) random: Random,
}

impl Pair {
    /// A host that has sent its request to open a connection, and a controller that has not received it yet.
    pub(super) fn new(seed: u64, request: Initialize, asked: Digests) -> Self {
        println!("seed {seed}: replay with TCP_PAIR_SEED={seed}");
        let mut random = Random(seed);
        let data_to_controller_max = [4096, 8192, 1 << 20][random.next() as usize % 3];
        let mut host = End::new(Role::Host, SLOT_BYTES as u32, random.next());
        host.transmitter.initialize(&request);
        let controller = End::new(Role::Controller, data_to_controller_max, random.next());
        let stored = random.bytes(usize::from(SLOTS) * SLOT_BYTES);
        Self {
            host: Host {
                end: host,
                asked,
                alignment: request.data_alignment,
                negotiated: None,
                completions: Vec::new(),
                succeeds: false,
                pieces_sent: 0,
            },
            controller: Controller {
                end: controller,
                data_to_controller_max,
                alignment: 0,
                stored,
                asks_too_much: false,
            },
            to_controller: VecDeque::new(),
            to_host: VecDeque::new(),
            random,
        }
    }

    pub(super) fn open(seed: u64, digests: Digests) -> Self {
        Self::open_aligned(seed, digests, (0, 0))
    }

    /// The same with what host and controller ask for (HPDA and CPDA).
    pub(super) fn open_aligned(seed: u64, digests: Digests, (host, controller): (u8, u8)) -> Self {
        let mut request = Initialize::new(PduType::InitializeRequest, digests.bits(), 0);
        request.data_alignment = host;
        let mut pair = Self::new(seed, request, digests);
        pair.controller.alignment = controller;
        pair.run();
        assert_eq!(pair.host.negotiated.map(|negotiated| negotiated.digests), Some(digests));
        assert_eq!(pair.controller.end.digests, digests);
        pair
    }

    /// Lets some bytes move: out of a send list, and into a receiver, cut anywhere.
    pub(super) fn step(&mut self) {
        let most = [3, 100, 9000][self.random.next() as usize % 3];
        let [send, receive] = [(); 2].map(|()| self.random.up_to(most) as usize);
        if self.random.one_in(2) {
            self.to_controller.extend(self.host.end.send(send));
            let length = receive.min(self.to_controller.len());
            let piece: Vec<u8> = self.to_controller.drain(..length).collect();
            self.controller.receive(&piece);
        } else {
            self.to_host.extend(self.controller.end.send(send));
            let length = receive.min(self.to_host.len());
            let piece: Vec<u8> = self.to_host.drain(..length).collect();
            self.host.receive(&piece);
        }
    }

    fn is_quiet(&self) -> bool {
        let empty = |end: &End| end.transmitter.is_empty();
        let nothing_on_the_way = self.to_controller.is_empty() && self.to_host.is_empty();
        nothing_on_the_way && empty(&self.host.end) && empty(&self.controller.end)
    }

    pub(super) fn run(&mut self) {
        for _ in 0..10_000_000 {
            if self.is_quiet() {
                return;
            }
            self.step();
        }
        panic!("the pair never comes to rest");
    }

    /// Runs one command by itself, and gives its status and whether its data came damaged.
    pub(super) fn execute(&mut self, command: IoCommand, data: Vec<u8>, in_capsule: bool) -> (Status, bool) {
        self.host.submit(0, command, data, in_capsule);
        self.run();
        let (_, status, damaged) = self.host.completions.pop().expect("the command completed");
        (status, damaged)
    }
}
