//! Plays the host's part of a recording against a target, and holds what comes back against what came then. What a host has
//! from the target (CNTLID, TTAG) is put into its bytes as it is now.

use std::collections::HashMap;
use std::io::{ErrorKind, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Instant;

use nvme::SubmissionEntry;
use nvme::command::admin_opcode;
use nvme::fabrics::{ConnectData, fabrics_type};
use nvme::tcp::PduType;
use nvme::tcp::digest::crc32c;
use prerequisite::patience;
use zerocopy::FromBytes;

use super::format::{Change, Event, Recording};
use super::masks::{self, Answered, masks};
use super::wire::await_read;
use crate::raw_host::read_some;

/// Byte of CNTLID in Connect's data, and of the queue identifier in its entry.
const CONTROLLER_ID_AT: usize = std::mem::offset_of!(ConnectData, controller_id);
/// Byte of the submission entry in a command capsule.
const ENTRY: std::ops::Range<usize> = 8..72;

/// Keep Alive Timeout of a Connect, dword 12 of its submission entry (fabrics specification 3.3).
const KEEP_ALIVE: std::ops::Range<usize> = ENTRY.start + 48..ENTRY.start + 52;
/// Keep Alive Timeout requested instead of the recorded one, in milliseconds: a replay has no timer
/// that would send Keep Alive on a machine that stands still for seconds.
const KEEP_ALIVE_MS: u32 = 3_600_000;

/// Way in which the host's bytes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// A PDU at a time.
    Whole,
    /// In pieces of this number of bytes.
    Pieces(usize),
}

/// Connection, then and now.
struct Connection {
    stream: TcpStream,
    /// Bytes that came and were not waited for yet.
    input: Vec<u8>,
    early: Vec<Vec<u8>>,
    /// Commands without an answer, by their identifiers.
    commands: HashMap<u16, SubmissionEntry>,
    is_admin: bool,
    digests: (bool, bool),
    /// Tags of R2Ts as they were, and as they are.
    tags: HashMap<u16, u16>,
    /// Last PDU sent, and whether it had to be sent more often than it was recorded.
    sent: Vec<u8>,
    has_polled: bool,
}

/// A play of a recording.
pub(crate) struct Play<'a> {
    address: SocketAddr,
    cut: Cut,
    change: &'a dyn Fn(Change),
    connections: HashMap<usize, Connection>,
    /// The connection on which the host sent something last.
    sent_on: Option<usize>,
    /// Identifiers of controllers as they were, and as they are.
    controllers: HashMap<u16, u16>,
}

/// The recording as it came out this time, and where it differs.
pub(crate) struct Outcome {
    pub(crate) events: Vec<Event>,
    pub(crate) differences: Vec<String>,
}

impl<'a> Play<'a> {
    pub(crate) fn new(address: SocketAddr, cut: Cut, change: &'a dyn Fn(Change)) -> Self {
        Self { address, cut, change, connections: HashMap::new(), sent_on: None, controllers: HashMap::new() }
    }

    /// Plays it to its end, or to the first answer that does not come.
    pub(crate) fn run(mut self, recording: &Recording) -> Outcome {
        let mut outcome = Outcome { events: Vec::new(), differences: Vec::new() };
        for (number, event) in recording.events.iter().enumerate() {
            match self.step(event) {
                Ok(Some(other)) => {
                    outcome.differences.push(format!("event {number}: {}", difference(event, &other)));
                    outcome.events.push(other);
                }
                Ok(None) => outcome.events.push(event.clone()),
                Err(reason) => {
                    outcome.differences.push(format!("event {number}: {reason}"));
                    return outcome;
                }
            }
        }
        for (connection, replayed) in &mut self.connections {
            let _ = replayed.drain();
            for pdu in replayed.early.iter().filter(|pdu| !replayed.was_left(pdu)) {
                outcome.differences.push(format!("connection {connection}: one more PDU, {}", head(pdu)));
            }
        }
        outcome
    }

    /// Does what the host did, or waits for what the target did: what came instead, if that is not the same.
    fn step(&mut self, event: &Event) -> Result<Option<Event>, String> {
        match event {
            Event::Open(connection) => {
                let replayed = Connection::open(self.address)?;
                self.connections.insert(*connection, replayed);
            }
            Event::Host(connection, pdu) => {
                let (pdu, cut) = (self.adapted(*connection, pdu)?, self.cut);
                let before = self.sent_on.replace(*connection).filter(|before| before != connection);
                if let Some(other) = before.and_then(|before| self.connections.get(&before)) {
                    await_read(&other.stream);
                }
                let replayed = self.replayed(*connection)?;
                replayed.send(&pdu, cut)?;
                replayed.sent = pdu;
            }
            Event::Target(connection, expected) => {
                return self.await_answer(*connection, expected);
            }
            Event::HostEnds(connection) => {
                // It may have ended it already.
                let _ = self.replayed(*connection)?.stream.shutdown(Shutdown::Write);
            }
            Event::TargetEnds(connection) => self.replayed(*connection)?.await_end()?,
            Event::Change(change) => (self.change)(*change),
        }
        Ok(None)
    }

    fn replayed(&mut self, connection: usize) -> Result<&mut Connection, String> {
        self.connections.get_mut(&connection).ok_or_else(|| format!("connection {connection} is not open"))
    }

    /// A PDU of the host, as it would be sent now.
    fn adapted(&mut self, connection: usize, pdu: &[u8]) -> Result<Vec<u8>, String> {
        let controllers = self.controllers.clone();
        let replayed = self.replayed(connection)?;
        let mut pdu = pdu.to_vec();
        match PduType::from_number(pdu[0]) {
            Some(PduType::InitializeRequest) => replayed.digests = (pdu[11] & 1 != 0, pdu[11] & 2 != 0),
            Some(PduType::CapsuleCommand) if pdu.len() >= ENTRY.end => {
                let entry =
                    SubmissionEntry::read_from_bytes(&pdu[ENTRY]).map_err(|error| error.to_string())?;
                replayed.commands.insert(entry.command_id.get(), entry);
                if is_connect(&entry) {
                    replayed.is_admin = entry.cdw10.get() >> 16 == 0;
                    if pdu[KEEP_ALIVE] != [0; 4] {
                        pdu[KEEP_ALIVE].copy_from_slice(&KEEP_ALIVE_MS.to_le_bytes());
                    }
                    let data = replayed.data_of(&pdu);
                    let at = data.start + CONTROLLER_ID_AT;
                    if let Some(field) = pdu.get_mut(at..at + 2) {
                        let id = u16::from_le_bytes([field[0], field[1]]);
                        field.copy_from_slice(&controllers.get(&id).unwrap_or(&id).to_le_bytes());
                    }
                }
            }
            Some(PduType::DataToController) if pdu.len() >= 24 => {
                let tag = u16::from_le_bytes([pdu[10], pdu[11]]);
                let now = *replayed.tags.get(&tag).unwrap_or(&tag);
                pdu[10..12].copy_from_slice(&now.to_le_bytes());
            }
            _ => {}
        }
        replayed.digest_again(&mut pdu);
        Ok(pdu)
    }

    fn await_answer(&mut self, connection: usize, expected: &[u8]) -> Result<Option<Event>, String> {
        let cut = self.cut;
        let replayed = self.replayed(connection)?;
        let actual = replayed.poll(expected, cut)?;
        replayed.check_digests(&actual)?;
        let kind = PduType::from_number(expected[0]);
        if kind == Some(PduType::ReadyToTransfer) {
            let tag = |pdu: &[u8]| u16::from_le_bytes([pdu[10], pdu[11]]);
            replayed.tags.insert(tag(expected), tag(&actual));
        }
        let answered = replayed.answered(expected);
        let same = without_masks(expected, &answered) == without_masks(&actual, &answered);
        replayed.note_answer(expected);
        if let Some(entry) = answered.entry
            && kind == Some(PduType::CapsuleResponse)
            && is_connect(&entry)
            && replayed.is_admin
        {
            let id = |pdu: &[u8]| u16::from_le_bytes([pdu[8], pdu[9]]);
            self.controllers.insert(id(expected), id(&actual));
        }
        Ok((!same).then_some(Event::Target(connection, actual)))
    }
}

fn is_connect(entry: &SubmissionEntry) -> bool {
    entry.opcode == admin_opcode::FABRICS && entry.fabrics_type() == fabrics_type::CONNECT
}

/// The command that a PDU of the target belongs to.
fn command_of(pdu: &[u8]) -> Option<u16> {
    let at = match PduType::from_number(pdu[0])? {
        PduType::CapsuleResponse => 20,
        PduType::DataToHost | PduType::ReadyToTransfer => 8,
        _ => return None,
    };
    Some(u16::from_le_bytes([*pdu.get(at)?, *pdu.get(at + 1)?]))
}

/// Features by which two PDUs are the same answer, however they differ: type, command, and the
/// place of data.
fn likeness(pdu: &[u8]) -> (u8, Option<u16>, Option<&[u8]>) {
    let place = if pdu[0] == PduType::DataToHost as u8 { pdu.get(12..16) } else { None };
    (pdu[0], command_of(pdu), place)
}

fn without_masks(pdu: &[u8], answered: &Answered) -> Vec<u8> {
    let mut bytes = pdu.to_vec();
    for (_, range) in masks(pdu, answered) {
        if let Some(masked) = bytes.get_mut(range) {
            masked.fill(0);
        }
    }
    bytes
}

fn difference(expected: &Event, actual: &Event) -> String {
    let (Event::Target(connection, expected), Event::Target(_, actual)) = (expected, actual) else {
        return "something else".to_owned();
    };
    let differs = |(at, (old, new)): (usize, (&u8, &u8))| {
        (old != new).then(|| format!("byte {at} was {old:02x}h and is {new:02x}h"))
    };
    let bytes: Vec<String> = expected.iter().zip(actual).enumerate().filter_map(differs).take(8).collect();
    let lengths = (expected.len(), actual.len());
    format!("connection {connection}, command {:04x?}: {bytes:?}, lengths {lengths:?}", command_of(expected))
}

/// The header of a PDU, for messages.
fn head(pdu: &[u8]) -> String {
    format!("{:02x?} ({} bytes)", &pdu[..pdu.len().min(24)], pdu.len())
}

impl Connection {
    fn open(address: SocketAddr) -> Result<Self, String> {
        let stream = TcpStream::connect_timeout(&address, patience()).map_err(|error| error.to_string())?;
        let set = stream.set_read_timeout(Some(patience())).and_then(|()| stream.set_nodelay(true));
        set.map_err(|error| error.to_string())?;
        Ok(Self {
            stream,
            input: Vec::new(),
            early: Vec::new(),
            commands: HashMap::new(),
            is_admin: true,
            digests: (false, false),
            tags: HashMap::new(),
            sent: Vec::new(),
            has_polled: false,
        })
    }

    fn send(&mut self, bytes: &[u8], cut: Cut) -> Result<(), String> {
        let length = match cut {
            Cut::Whole => bytes.len(),
            Cut::Pieces(length) => length,
        };
        for piece in bytes.chunks(length.max(1)) {
            self.stream.write_all(piece).map_err(|error| format!("the target takes no more: {error}"))?;
        }
        Ok(())
    }

    /// The answer to what was sent last. A controller may be at rest sooner or later than it was: what asks whether it is is
    /// sent until it is, as the host would have done.
    fn poll(&mut self, expected: &[u8], cut: Cut) -> Result<Vec<u8>, String> {
        let began = Instant::now();
        loop {
            let actual = self.answer_like(expected)?;
            let answered = self.answered(expected);
            let is_at_rest =
                !masks::tells_ready(&actual, &answered) || masks::tells_ready(expected, &answered);
            if is_at_rest || began.elapsed() > patience() {
                return Ok(actual);
            }
            self.has_polled = true;
            let again = self.sent.clone();
            self.send(&again, cut)?;
        }
    }

    /// The next PDU that came, `None` at the end of the stream.
    fn next_pdu(&mut self) -> Result<Option<Vec<u8>>, String> {
        loop {
            if let Some(length) = self.input.get(4..8) {
                let length = u32::from_le_bytes(length.try_into().expect("4 bytes")) as usize;
                if length < 8 {
                    return Err(format!("a PDU of {length} bytes"));
                }
                if self.input.len() >= length {
                    return Ok(Some(self.input.drain(..length).collect()));
                }
            }
            let mut room = [0; 65536];
            match read_some(&mut self.stream, &mut room) {
                Ok(0) => return Ok(None),
                Ok(received) => self.input.extend_from_slice(&room[..received]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(format!("nothing more comes: {error}")),
            }
        }
    }

    /// The next answer that is the same kind of thing; answers to other commands may come before.
    fn answer_like(&mut self, expected: &[u8]) -> Result<Vec<u8>, String> {
        let wanted = likeness(expected);
        if let Some(at) = self.early.iter().position(|pdu| likeness(pdu) == wanted) {
            return Ok(self.early.remove(at));
        }
        loop {
            match self.next_pdu() {
                Ok(Some(pdu)) if likeness(&pdu) == wanted => return Ok(pdu),
                Ok(Some(pdu)) => self.early.push(pdu),
                Ok(None) => return Err(format!("the stream ends, instead of {}", head(expected))),
                Err(reason) => return Err(format!("{reason}, instead of {}", head(expected))),
            }
        }
    }

    fn await_end(&mut self) -> Result<(), String> {
        while let Some(pdu) = self.next_pdu()? {
            self.early.push(pdu);
        }
        Ok(())
    }

    /// Takes what has come and was not waited for.
    fn drain(&mut self) -> Result<(), String> {
        let _ = self.stream.shutdown(Shutdown::Write);
        self.await_end()
    }

    /// Range of the data of a capsule.
    fn data_of(&self, pdu: &[u8]) -> std::ops::Range<usize> {
        let digest = if self.digests.1 { 4 } else { 0 };
        // Some hosts leave the offset out.
        let start = match pdu[3] {
            0 => usize::from(pdu[2]) + if self.digests.0 { 4 } else { 0 },
            offset => usize::from(offset),
        };
        start.min(pdu.len())..pdu.len().saturating_sub(digest).max(start.min(pdu.len()))
    }

    /// Recomputes the digests of a PDU whose bytes were changed.
    fn digest_again(&self, pdu: &mut [u8]) {
        let kind = PduType::from_number(pdu[0]);
        if kind.is_none_or(PduType::is_without_digest) {
            return;
        }
        let header = usize::from(pdu[2]);
        if self.digests.0 {
            let digest = crc32c(&pdu[..header]).to_le_bytes();
            pdu[header..header + 4].copy_from_slice(&digest);
        }
        let data = self.data_of(pdu);
        if self.digests.1 && kind.is_some_and(PduType::carries_data) && !data.is_empty() && pdu[3] != 0 {
            let digest = crc32c(&pdu[data.clone()]).to_le_bytes();
            pdu[data.end..].copy_from_slice(&digest);
        }
    }

    fn check_digests(&self, pdu: &[u8]) -> Result<(), String> {
        let mut again = pdu.to_vec();
        self.digest_again(&mut again);
        if again == pdu { Ok(()) } else { Err(format!("a wrong digest in {}", head(pdu))) }
    }

    fn answered(&self, pdu: &[u8]) -> Answered {
        let entry = command_of(pdu).and_then(|id| self.commands.get(&id)).copied();
        let waiting = self.commands.values().filter(|entry| !self.is_event_request(entry)).count();
        let own = entry.is_some_and(|entry| !self.is_event_request(&entry));
        let others = waiting.saturating_sub(usize::from(own));
        Answered {
            entry,
            is_admin: self.is_admin,
            among_several: others > 0 || self.has_polled,
            digests: self.digests,
        }
    }

    /// True if the host went without waiting for this answer to a command of its.
    fn was_left(&self, pdu: &[u8]) -> bool {
        let entry = command_of(pdu).and_then(|id| self.commands.get(&id));
        entry.is_some_and(|entry| !self.is_event_request(entry))
    }

    fn is_event_request(&self, entry: &SubmissionEntry) -> bool {
        self.is_admin && entry.opcode == admin_opcode::ASYNC_EVENT_REQUEST
    }

    /// Records that a command has its answer.
    fn note_answer(&mut self, pdu: &[u8]) {
        /// SUCCESS of C2HData: no other answer follows.
        const SUCCESS: u8 = 1 << 3;
        let is_last = pdu[0] == PduType::CapsuleResponse as u8
            || (pdu[0] == PduType::DataToHost as u8 && pdu[1] & SUCCESS != 0);
        if let Some(id) = command_of(pdu).filter(|_| is_last) {
            self.commands.remove(&id);
        }
    }
}
