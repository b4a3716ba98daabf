//! Data of large writes that is received into memory, and reasons to receive it elsewhere.

use std::cell::Cell;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use nvme::tcp::digest::{DIGEST_LENGTH, crc32c};
use nvme::tcp::{Chunk, Digests, PduType, Transmitter, flags};
use prerequisite::wait_until;

use super::super::tcp_queue::{Next, Place};
use super::*;
use crate::backend::Memory;
use crate::ring::{Moment, Socket};

const SLOT: u16 = 3;
const COMMAND: u16 = 7;
/// Bytes of the memory, all of them 1 at first.
const SIZE: usize = 1 << 20;
/// Place of the data in it: blocks of 512 bytes, of which the first and the last share pages.
const OFFSET: usize = 3 * 512;
/// Bytes of a PDU, which fit into a new socket.
const LENGTH: usize = 48 << 10;

/// Memory that takes data at once, or not now.
#[derive(Clone, Debug)]
struct Holder(Rc<(Memory, Cell<bool>)>);

impl MemoryHolder for Holder {
    fn memory(&self) -> &Memory {
        &self.0.0
    }

    fn takes_data(&self) -> bool {
        self.0.1.get()
    }
}

/// A queue with one command whose data was requested, and its host.
struct Rig {
    queue: Queue<Holder>,
    holder: Holder,
    host: TcpStream,
    seen: Seen,
    data: Vec<u8>,
}

impl Rig {
    fn new(length: usize) -> Self {
        Self::with_digests(length, Digests::default())
    }

    fn with_digests(length: usize, digests: Digests) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let host = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, peer) = listener.accept().unwrap();
        let socket = Arc::new(Socket::new(stream).unwrap());
        let mut queue = Queue::new(1, socket, Moment(u64::MAX));
        queue.receiver.go_on_with(digests);
        queue.digests = digests;
        let memory = Memory::new(SIZE as u64).unwrap();
        assert_eq!(memory.write(0, &vec![1; SIZE]), SIZE);
        let holder = Holder(Rc::new((memory, Cell::new(true))));
        let place = Some(Place { holder: holder.clone(), offset: OFFSET as u64 });
        let buffer = Buffer::zeroed(length);
        queue.take(Next::Request { slot: SLOT, command_id: COMMAND, buffer, place });
        let data = (0..length).map(|at| (at % 241) as u8 + 2).collect();
        Self { queue, holder, host, seen: Seen::new(Arc::default(), peer), data }
    }

    /// The PDU with this part of the data.
    fn pdu(&self, part: Range<usize>) -> Vec<u8> {
        let (data, is_last) = (&self.data[part.clone()], part.end == self.data.len());
        let flags = if is_last { flags::LAST } else { 0 };
        let (offset, length) = (part.start as u32, data.len() as u32);
        let pdu = DataPdu::new(PduType::DataToController, flags, COMMAND, SLOT, offset, length);
        let mut transmitter = Transmitter::new(1);
        transmitter.set_digests(self.queue.digests);
        transmitter.data(pdu, (), 0..data.len(), Some(crc32c(data)));
        let mut bytes = Vec::new();
        for chunk in transmitter.chunks() {
            bytes.extend_from_slice(match chunk {
                Chunk::Bytes(bytes) => bytes,
                Chunk::Payload { start, end, .. } => &data[start..end],
            });
        }
        bytes
    }

    /// Sends bytes, and receives when all of them have come.
    fn come(&mut self, bytes: &[u8]) -> Vec<Incoming> {
        self.host.write_all(bytes).unwrap();
        wait_until("all bytes", || self.queue.socket.available() >= bytes.len());
        let mut space = vec![0; RECEIVE_AHEAD_LENGTH];
        let mut all = Vec::new();
        loop {
            let received = self.queue.receive(&mut space).unwrap_or_else(|_| panic!("the connection ends"));
            let Received::Bytes { length, .. } = received else { return all };
            let mut input = &space[..length];
            let mut next = || self.queue.next(&mut input, &mut self.seen);
            while let Some(incoming) = next().unwrap_or_else(|_| panic!("the connection ends")) {
                all.push(incoming);
            }
        }
    }

    /// Sends all of the data in one PDU.
    fn come_whole(&mut self) -> Vec<Incoming> {
        let pdu = self.pdu(0..self.data.len());
        self.come(&pdu)
    }

    fn memory(&self) -> Vec<u8> {
        let mut bytes = vec![0; SIZE];
        assert_eq!(self.holder.memory().read(0, &mut bytes, true), SIZE, "no page is kept");
        bytes
    }

    fn assert_untouched(&self) {
        assert!(self.memory().iter().all(|byte| *byte == 1), "nothing of the write has an effect");
    }

    #[track_caller]
    fn assert_placed(&self, incoming: &[Incoming]) {
        assert!(matches!(incoming, [Incoming::Placed { slot: SLOT, .. }]), "it is in its place");
        let (memory, end) = (self.memory(), OFFSET + self.data.len());
        assert!(memory[OFFSET..end] == self.data, "all of it");
        assert!(memory[..OFFSET].iter().chain(&memory[end..]).all(|byte| *byte == 1), "nothing else");
    }

    /// The data is left for another look.
    #[track_caller]
    fn assert_kept(&self, incoming: &[Incoming]) {
        let [Incoming::Data { slot: SLOT, buffer, is_intact: true }] = incoming else {
            panic!("it comes with its data")
        };
        assert!(buffer[..] == self.data);
        self.assert_untouched();
    }
}

#[test]
fn data_that_has_come_whole_is_received_in_its_place() {
    let mut rig = Rig::new(LENGTH);
    let incoming = rig.come_whole();
    rig.assert_placed(&incoming);
}

#[test]
fn a_write_has_no_effect_before_the_last_of_its_data_has_come() {
    let mut rig = Rig::new(LENGTH);
    let pdu = rig.pdu(0..LENGTH);
    let (first, rest) = pdu.split_at(RECEIVE_AHEAD_LENGTH + 1800);
    assert!(rig.come(first).is_empty());
    rig.assert_untouched();
    let incoming = rig.come(rest);
    rig.assert_placed(&incoming);
}

#[test]
fn a_write_has_no_effect_before_its_last_pdu_has_come() {
    let mut rig = Rig::new(2 * LENGTH);
    let [first, second] = [0..LENGTH, LENGTH..2 * LENGTH].map(|part| rig.pdu(part));
    assert!(rig.come(&first).is_empty());
    rig.assert_untouched();
    let incoming = rig.come(&second);
    rig.assert_placed(&incoming);
}

#[test]
fn data_for_a_namespace_with_flags_is_looked_at_first() {
    let mut rig = Rig::new(LENGTH);
    rig.holder.0.1.set(false);
    let incoming = rig.come_whole();
    rig.assert_kept(&incoming);
}

#[test]
fn data_of_an_ended_command_is_looked_at_first() {
    let mut rig = Rig::new(LENGTH);
    rig.queue.place_nothing();
    let incoming = rig.come_whole();
    rig.assert_kept(&incoming);
}

#[test]
fn a_page_that_is_being_sent_is_not_received_into() {
    let mut rig = Rig::new(LENGTH);
    let page = (OFFSET + LENGTH) as u64 - 512;
    assert_eq!(rig.holder.memory().hold(page, 512, true), 512);
    let incoming = rig.come_whole();
    rig.holder.memory().release(page, 512);
    rig.assert_kept(&incoming);
}

#[test]
fn data_with_a_digest_has_no_effect_before_it_is_compared() {
    let digests = Digests { header: true, data: true };
    let mut rig = Rig::with_digests(LENGTH, digests);
    let incoming = rig.come_whole();
    rig.assert_kept(&incoming);
    let mut rig = Rig::with_digests(LENGTH, digests);
    let mut pdu = rig.pdu(0..LENGTH);
    let last = pdu.len() - DIGEST_LENGTH - 1;
    pdu[last] ^= 1;
    let incoming = rig.come(&pdu);
    assert!(matches!(incoming[..], [Incoming::Data { slot: SLOT, is_intact: false, .. }]));
    rig.assert_untouched();
}

#[test]
fn a_digest_of_headers_keeps_no_data_from_its_place() {
    let mut rig = Rig::with_digests(LENGTH, Digests { header: true, data: false });
    let incoming = rig.come_whole();
    rig.assert_placed(&incoming);
}

/// Fills the place of a write whose data comes in these parts, of which each receive call gets one;
/// `None` is a page for which the kernel finds no memory. The outcome, with the rig.
fn filled_by(calls: &[Option<Range<usize>>]) -> (Result<usize, io::Result<usize>>, Rig) {
    let mut rig = Rig::new(LENGTH);
    let start = calls.iter().flatten().next().map_or(0, |part| part.start);
    let mut buffer = vec![0; LENGTH];
    buffer[..start].copy_from_slice(&rig.data[..start]);
    let mut writer = rig.holder.0.0.writer(OFFSET as u64, LENGTH).expect("no page is in use");
    let mut calls = calls.iter();
    let mut space = vec![0; RECEIVE_AHEAD_LENGTH];
    let outcome = fill(&mut writer, &mut buffer, start..LENGTH, &mut space, |spans| {
        match calls.next() {
            Some(Some(part)) => {
                rig.host.write_all(&rig.data[part.clone()])?;
                wait_until("the part", || rig.queue.socket.available() >= part.len());
            }
            Some(None) => return Err(io::Error::from_raw_os_error(libc::EFAULT)),
            None => {}
        }
        rig.queue.socket.receive(spans)
    });
    drop(writer);
    (outcome, rig)
}

#[test]
fn data_that_finds_no_memory_in_its_place_is_copied_there() {
    let placed = [Incoming::Placed { slot: SLOT, buffer: Buffer::zeroed(LENGTH) }];
    let parts = || [600..20_480, 20_480..32_000, 32_000..LENGTH].map(Some);
    let (outcome, rig) = filled_by(&parts());
    assert!(outcome.is_ok_and(|received| received == 20_480 - 600));
    rig.assert_placed(&placed);
    // Not even the first page.
    let (outcome, rig) = filled_by(&[&[None][..], &parts()[..]].concat());
    assert!(outcome.is_ok_and(|received| received == 0));
    rig.assert_placed(&placed);
}

#[test]
fn data_that_is_lost_after_a_part_is_in_its_place_ends_the_connection() {
    let (outcome, _rig) = filled_by(&[Some(0..20_480)]);
    assert!(matches!(outcome, Err(Err(error)) if error.kind() == io::ErrorKind::WouldBlock));
}
