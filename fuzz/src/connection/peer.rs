//! One connection of a host that may do anything. A shadow of the target's receiver hears all that is sent, so that the
//! peer knows which commands the target has taken, whatever bytes they were made of, and what it may answer.

use std::fmt;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use engine::limits::DATA_TO_CONTROLLER_MAX;
use nvme::command::{DataPointer, admin_opcode};
use nvme::fabrics::Connect;
use nvme::io::IoCommand;
use nvme::tcp::{
    Chunk, DataPdu, Digests, Event, ReadyToTransfer, Receiver, Role, Transmitter, negotiate, settle,
};
use nvme::{CompletionEntry, Status, SubmissionEntry};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::testbed::{MAGIC, SPACES};

/// The timeout of everything that has none of its own. It does not measure speed: a busy machine gets the time it
/// needs.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// The type of a Connect (FCTYPE).
const CONNECT: u8 = 1;
/// Bytes of buffers that a connection's commands hold before the target may let others wait.
const HELD_BYTES_MAX: u32 = 4 << 20;

/// A command that the target has taken and not answered.
pub(super) struct Outstanding {
    pub(super) entry: SubmissionEntry,
    /// Bytes of data that may come for it.
    room: u32,
    pub(super) received: Vec<u8>,
    /// Set if the target can answer it without further bytes.
    is_sure: bool,
}

impl fmt::Debug for Outstanding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { entry, room, received, is_sure } = self;
        write!(f, "{entry:?}, {} of {room} bytes, sure: {is_sure}", received.len())
    }
}

/// Completion and data of a command.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: Status,
    pub(super) result: u64,
    pub(super) data: Vec<u8>,
}

pub(super) struct Peer {
    stream: TcpStream,
    pub(super) digests: Digests,
    transmitter: Transmitter<()>,
    receiver: Receiver,
    shadow: Receiver,
    held_back: Vec<u8>,
    pub(super) outstanding: Vec<Outstanding>,
    pub(super) asked: Vec<ReadyToTransfer>,
    pub(super) answers: Vec<Answer>,
    /// True for an I/O queue, as the target knows it.
    pub(super) is_io: bool,
    /// True if it may see the hidden namespace.
    pub(super) is_bystander: bool,
    is_initialized: bool,
    sends_data: Option<usize>,
    reads_data: Option<u16>,
    succeeds: bool,
    /// The target has to end the connection.
    pub(super) is_faulty: bool,
    is_terminated: bool,
    pub(super) is_ended: bool,
}

impl Peer {
    pub(super) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, PATIENCE).expect("the target takes connections");
        stream.set_nonblocking(true).expect("a socket");
        stream.set_nodelay(true).expect("a socket");
        Self {
            stream,
            digests: Digests::default(),
            transmitter: Transmitter::new(4),
            receiver: Receiver::new(Role::Host, 1 << 20),
            shadow: Receiver::new(Role::Controller, DATA_TO_CONTROLLER_MAX),
            held_back: Vec::new(),
            outstanding: Vec::new(),
            asked: Vec::new(),
            answers: Vec::new(),
            is_io: false,
            is_bystander: false,
            is_initialized: false,
            sends_data: None,
            reads_data: None,
            succeeds: false,
            is_faulty: false,
            is_terminated: false,
            is_ended: false,
        }
    }

    /// The bytes of what `queue` puts into the send list; the payload is `data`.
    pub(super) fn frame(&mut self, data: &[u8], queue: impl FnOnce(&mut Transmitter<()>)) -> Vec<u8> {
        queue(&mut self.transmitter);
        let mut bytes = Vec::new();
        for part in self.transmitter.chunks() {
            match part {
                Chunk::Bytes(part) => bytes.extend_from_slice(part),
                Chunk::Payload { start, end, .. } => bytes.extend_from_slice(&data[start..end]),
            }
        }
        self.transmitter.clear(|()| {});
        bytes
    }

    /// Sends bytes behind those that were held back, but for the last ones where `cut` says how many go now.
    pub(super) fn send(&mut self, bytes: &[u8], cut: Option<u8>) {
        let mut all = std::mem::take(&mut self.held_back);
        all.extend_from_slice(bytes);
        if let Some(cut) = cut {
            self.held_back = all.split_off(usize::from(cut).min(all.len()));
        }
        self.hear(&all);
        let (began, mut rest) = (Instant::now(), &all[..]);
        while !rest.is_empty() && !self.is_ended {
            match self.stream.write(rest) {
                Ok(sent) => rest = &rest[sent..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    assert!(began.elapsed() < PATIENCE, "the target takes nothing more");
                    self.wait(PollFlags::IN | PollFlags::OUT);
                    self.pump();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The target has ended the connection, and may have said why.
                Err(_) => {
                    self.pump();
                    self.is_ended = true;
                }
            }
        }
    }

    /// Records what the target's receiver makes of the bytes that are sent.
    fn hear(&mut self, bytes: &[u8]) {
        let mut input = bytes;
        while !self.is_faulty {
            if self.shadow.data_left() > 0 {
                if input.is_empty() {
                    return;
                }
                self.shadow.take_data(&mut input, usize::MAX);
                continue;
            }
            match self.shadow.next(&mut input) {
                Ok(Some(event)) => self.has_sent(event),
                Ok(None) if self.shadow.data_left() > 0 => {}
                Ok(None) => return,
                Err(_) => self.is_faulty = true,
            }
        }
    }

    fn has_sent(&mut self, event: Event) {
        match event {
            Event::Initialize(request) => match negotiate(&request, DATA_TO_CONTROLLER_MAX) {
                Ok((_, agreed)) => {
                    self.digests = agreed.digests;
                    self.shadow.set_digests(agreed.digests);
                    self.transmitter.set_digests(agreed.digests);
                }
                Err(_) => self.is_faulty = true,
            },
            Event::Command { entry, data_length } => {
                let pointer = entry.data_pointer();
                let room = match pointer {
                    Ok(DataPointer::Transport { length }) => length,
                    _ => 0,
                };
                let is_async = !self.is_io && entry.opcode == admin_opcode::ASYNC_EVENT_REQUEST;
                let waits_for_data = room > 0 && sends_data(&entry);
                let held: u32 = self.outstanding.iter().map(|command| command.room).sum();
                let is_sure = !is_async && !waits_for_data && entry.fused() == 0 && held < HELD_BYTES_MAX;
                let is_whole = data_length == 0;
                self.outstanding.push(Outstanding {
                    entry,
                    room,
                    received: Vec::new(),
                    is_sure: is_sure && is_whole,
                });
                self.sends_data = (!is_whole && is_sure).then(|| self.outstanding.len() - 1);
            }
            Event::DataEnd { .. } => {
                // It may have been answered before its data had come whole, and then it is another's place.
                let command = self.sends_data.take().and_then(|at| self.outstanding.get_mut(at));
                if let Some(command) = command {
                    command.is_sure = !sends_data(&command.entry) || command.room == 0;
                }
            }
            Event::Data(_) => self.sends_data = None,
            Event::Terminate { .. } => self.is_faulty = true,
            Event::Response(_) | Event::ReadyToTransfer(_) => unreachable!("no host sends these"),
        }
    }

    /// Receives all that has come.
    pub(super) fn pump(&mut self) {
        let mut room = [0; 64 << 10];
        while !self.is_ended {
            match self.stream.read(&mut room) {
                Ok(0) => self.is_ended = true,
                Ok(length) => self.receive(&room[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.is_ended = true,
            }
        }
    }

    fn receive(&mut self, mut input: &[u8]) {
        loop {
            if self.receiver.data_left() > 0 {
                if input.is_empty() {
                    return;
                }
                let data = self.receiver.take_data(&mut input, usize::MAX);
                let id = self.reads_data.expect("data belongs to a command");
                self.command(id).received.extend_from_slice(data);
                continue;
            }
            assert!(input.is_empty() || !self.is_terminated, "something follows a termination request");
            match self.receiver.next(&mut input) {
                Ok(Some(event)) => self.has_come(event),
                Ok(None) if self.receiver.data_left() > 0 => {}
                Ok(None) => return,
                Err(error) => panic!("the target sends what no controller may: {error}"),
            }
        }
    }

    fn has_come(&mut self, event: Event) {
        match event {
            Event::Initialize(response) => {
                assert!(!self.is_initialized, "a second ICResp");
                self.is_initialized = true;
                let agreed = settle(&response, self.digests).expect("an answer to what was asked");
                self.receiver.set_digests(agreed.digests);
            }
            Event::Response(entry) => self.complete(&entry),
            Event::Data(pdu) => self.begins(&pdu),
            Event::DataEnd { digest_matches } => {
                assert!(digest_matches, "the target's data digest is wrong");
                let id = self.reads_data.take().expect("data belongs to a command");
                if self.succeeds {
                    self.complete(&CompletionEntry::new(id, Status::SUCCESS, 0, 0));
                }
            }
            Event::ReadyToTransfer(asked) => {
                let command = self.command(asked.command_id.get());
                let end = u64::from(asked.offset.get()) + u64::from(asked.length.get());
                assert!(asked.length.get() > 0 && end <= u64::from(command.room), "{asked:?} of {command:?}");
                self.asked.push(asked);
            }
            Event::Terminate { .. } => self.is_terminated = true,
            Event::Command { .. } => unreachable!("no controller sends a command"),
        }
    }

    /// The outstanding command of this identifier; of several, the first.
    fn command(&mut self, id: u16) -> &mut Outstanding {
        let found = self.outstanding.iter_mut().find(|command| command.entry.command_id.get() == id);
        found.unwrap_or_else(|| panic!("an answer to command {id:#x}, which is not outstanding"))
    }

    fn is_twice(&self, id: u16) -> bool {
        self.outstanding.iter().filter(|command| command.entry.command_id.get() == id).count() > 1
    }

    fn begins(&mut self, pdu: &DataPdu) {
        let id = pdu.command_id.get();
        let is_twice = self.is_twice(id);
        let command = self.command(id);
        let end = u64::from(pdu.offset.get()) + u64::from(pdu.length.get());
        if !is_twice {
            assert_eq!(pdu.offset.get() as usize, command.received.len(), "{pdu:?} of {command:?}");
            assert!(
                end <= u64::from(command.room),
                "more data than there is room for: {pdu:?} of {command:?}"
            );
        }
        assert!(pdu.is_last() || !pdu.is_success(), "SUCCESS before the end");
        self.reads_data = Some(id);
        self.succeeds = pdu.is_success();
    }

    fn complete(&mut self, completion: &CompletionEntry) {
        let (id, status) = (completion.command_id.get(), completion.status());
        let is_twice = self.is_twice(id);
        self.command(id);
        let at = self.outstanding.iter().position(|command| command.entry.command_id.get() == id);
        let command = self.outstanding.remove(at.expect("it was found"));
        self.sends_data = self.sends_data.and_then(|sends| match sends.cmp(&at.unwrap_or(0)) {
            std::cmp::Ordering::Less => Some(sends),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(sends - 1),
        });
        self.asked.retain(|asked| asked.command_id.get() != id);
        if self.is_io && !is_twice && !self.is_bystander {
            judge(&command, status);
        }
        let is_connect =
            command.entry.opcode == admin_opcode::FABRICS && command.entry.fabrics_type() == CONNECT;
        if is_connect && status.is_success() {
            self.is_io = Connect::decode(&command.entry).queue_id > 0;
        }
        let Outstanding { entry, received, .. } = command;
        assert!(
            self.is_bystander || !is_secret(&received),
            "data of a namespace that this host may not see: {entry:?}"
        );
        self.answers.push(Answer { status, result: completion.result(), data: received });
    }

    /// True if the target owes a response that needs no further bytes.
    pub(super) fn is_owed(&self) -> bool {
        let is_open = !self.is_ended && !self.is_terminated;
        let is_between = self.held_back.is_empty() && self.shadow.data_left() == 0;
        is_open && (self.is_faulty || is_between && self.outstanding.iter().any(|command| command.is_sure))
    }

    /// Waits until nothing more is owed; a connection that breaks the rules is owed its end.
    pub(super) fn await_owed(&mut self) {
        self.wait_while("what is owed does not come", Self::is_owed);
    }

    /// Receives while `wanted` holds and the connection stands.
    pub(super) fn wait_while(&mut self, what: &str, wanted: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        self.pump();
        while wanted(self) && !self.is_ended {
            assert!(began.elapsed() < PATIENCE, "{what}: {:?}", self.outstanding);
            self.wait(PollFlags::IN);
            self.pump();
        }
    }

    fn wait(&self, flags: PollFlags) {
        let limit = Timespec { tv_sec: 1, tv_nsec: 0 };
        // The caller checks what has come.
        let _ = poll(&mut [PollFd::new(&self.stream, flags)], Some(&limit));
    }

    /// Says that no more is sent: the target has to end the connection too.
    pub(super) fn half_close(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
        self.is_faulty = true;
    }

    /// Goes without a word.
    pub(super) fn reset(&mut self) {
        let _ = rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO));
        self.is_ended = true;
    }
}

/// True if a command sends data to the target, by its opcode.
fn sends_data(entry: &SubmissionEntry) -> bool {
    match entry.opcode {
        admin_opcode::FABRICS => entry.fabrics_type() & 3 == 1,
        opcode => opcode & 3 == 1,
    }
}

/// A command of an I/O queue that went well is one that could go well.
fn judge(command: &Outstanding, status: Status) {
    let Ok((decoded, _)) = IoCommand::decode_fused(&command.entry) else { return };
    if !status.is_success() || command.entry.opcode == admin_opcode::FABRICS {
        return;
    }
    let nsid = command.entry.nsid.get();
    let Some(space) = SPACES.iter().find(|space| space.nsid == nsid && space.is_public) else {
        assert!(matches!(decoded, IoCommand::Flush), "a command went well on namespace {nsid}: {command:?}");
        return;
    };
    let (start, blocks, length) = match decoded {
        IoCommand::Read { start, blocks, .. } => (start, blocks, u64::from(blocks) * u64::from(space.block)),
        IoCommand::Write { start, blocks, .. }
        | IoCommand::Compare { start, blocks }
        | IoCommand::Verify { start, blocks }
        | IoCommand::WriteZeroes { start, blocks, .. }
        | IoCommand::WriteUncorrectable { start, blocks } => (start, blocks, 0),
        _ => return,
    };
    let end = start.checked_add(blocks.into());
    assert!(end.is_some_and(|end| end <= space.blocks()), "beyond the namespace: {command:?}");
    assert_eq!(command.received.len() as u64, length, "{command:?}");
}

fn is_secret(data: &[u8]) -> bool {
    data.chunks_exact(8).any(|word| word == MAGIC)
}
