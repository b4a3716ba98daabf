//! Connection of a host: frames PDUs, sends them or any other bytes, and sorts what comes back by command.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use nvme::tcp::digest::crc32c;
use nvme::tcp::{
    Chunk, CommonHeader, DataPdu, Digests, Event, Initialize, Negotiated, PduType, ReadyToTransfer, Receiver,
    Role, Terminate, Transmitter, flags, settle,
};
use nvme::{SglDescriptor, Status, SubmissionEntry};
use prerequisite::patience;
use zerocopy::FromBytes;
use zerocopy::little_endian::U16;

/// The data of a command.
#[derive(Clone, Copy)]
pub(crate) enum Give<'a> {
    /// None in either direction.
    Nothing,
    /// Room for data from the target.
    Room(u32),
    /// Within the capsule.
    Capsule(&'a [u8]),
    /// Data on the target's request.
    Asked(&'a [u8]),
    /// Data as the entry says: its descriptor is left alone.
    AsIs(&'a [u8]),
}

/// Result of a command.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) command_id: u16,
    pub(crate) status: Status,
    pub(crate) result: u64,
    /// The queue head (SQHD); `None` when the SUCCESS flag stood for the completion.
    pub(crate) head: Option<u16>,
    pub(crate) data: Vec<u8>,
    /// R2Ts that came.
    pub(crate) asked: usize,
}

/// Termination of the connection by the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Termination {
    pub(crate) error: u16,
    pub(crate) information: u32,
    /// The header it found faulty.
    pub(crate) header: Vec<u8>,
}

#[derive(Default)]
struct Pending {
    payload: Vec<u8>,
    data: Vec<u8>,
    asked: usize,
}

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    pub(crate) digests: Digests,
    /// Most bytes it puts into one H2CData PDU.
    pub(crate) piece: usize,
    /// Set if each R2T is answered when it arrives.
    pub(crate) answers: bool,
    /// Alignment of data from the target in bytes: its offsets are multiples of this.
    alignment: u8,
    receiver: Receiver,
    transmitter: Transmitter<usize>,
    input: Vec<u8>,
    pending: HashMap<u16, Pending>,
    next_id: u16,
}

impl Client {
    /// A connection with nothing sent yet.
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, patience()).unwrap();
        stream.set_read_timeout(Some(patience())).unwrap();
        stream.set_write_timeout(Some(patience())).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            digests: Digests::default(),
            piece: 1 << 20,
            answers: true,
            alignment: 4,
            receiver: Receiver::new(Role::Host, 1 << 20),
            transmitter: Transmitter::new(4),
            input: Vec::new(),
            pending: HashMap::new(),
            next_id: 0,
        }
    }

    /// A connection after ICReq and ICResp.
    pub(crate) fn initialized(address: SocketAddr, digests: Digests) -> Self {
        let mut client = Self::open(address);
        let negotiated = client.initialize(digests);
        assert!(negotiated.data_to_controller_max >= 4096);
        client
    }

    pub(crate) fn initialize(&mut self, digests: Digests) -> Negotiated {
        self.initialize_with(&Initialize::new(PduType::InitializeRequest, digests.bits(), 0), digests)
    }

    /// A handshake with any request, of which these digests have to come.
    pub(crate) fn initialize_with(&mut self, request: &Initialize, digests: Digests) -> Negotiated {
        let bytes = self.frame(|transmitter| transmitter.initialize(request), &[]);
        self.send(&bytes);
        let Some(Event::Initialize(response)) = self.event() else { panic!("ICResp comes first") };
        let negotiated = settle(&response, digests).unwrap();
        self.alignment = 4 * (request.data_alignment + 1);
        self.digests = digests;
        self.receiver.set_digests(digests);
        self.transmitter.set_digests(digests);
        negotiated
    }

    /// Lets its own data begin at multiples of this number of bytes.
    pub(crate) fn align(&mut self, alignment: u8) {
        self.transmitter.set_alignment(alignment);
    }

    /// Sends any bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The bytes of what `queue` puts into the send list; the payload with token 0 is `payload`.
    pub(crate) fn frame(&mut self, queue: impl FnOnce(&mut Transmitter<usize>), payload: &[u8]) -> Vec<u8> {
        queue(&mut self.transmitter);
        let mut bytes = Vec::new();
        for part in self.transmitter.chunks() {
            match part {
                Chunk::Bytes(part) => bytes.extend_from_slice(part),
                Chunk::Payload { start, end, .. } => bytes.extend_from_slice(&payload[start..end]),
            }
        }
        self.transmitter.clear(|_| {});
        bytes
    }

    /// The bytes of a command capsule.
    pub(crate) fn frame_command(&mut self, entry: SubmissionEntry, data: &[u8]) -> Vec<u8> {
        let payload = (!data.is_empty()).then(|| (0, data.len(), crc32c(data)));
        self.frame(|transmitter| transmitter.command(entry, payload), data)
    }

    /// The bytes of an H2CData PDU.
    pub(crate) fn frame_data(&mut self, pdu: DataPdu, data: &[u8]) -> Vec<u8> {
        let crc = crc32c(data);
        self.frame(|transmitter| transmitter.data(pdu, 0, 0..data.len(), Some(crc)), data)
    }

    /// An identifier no command has now.
    pub(crate) fn free_id(&mut self) -> u16 {
        loop {
            self.next_id = self.next_id.wrapping_add(1);
            if !self.pending.contains_key(&self.next_id) {
                return self.next_id;
            }
        }
    }

    /// Sends a command, and gives its identifier.
    pub(crate) fn submit(&mut self, mut entry: SubmissionEntry, give: Give<'_>) -> u16 {
        let id = self.free_id();
        entry.command_id = U16::new(id);
        let mut pending = Pending::default();
        let capsule = match give {
            Give::Nothing => &[][..],
            Give::Room(length) => {
                entry.data = SglDescriptor::transport(length);
                &[]
            }
            Give::Capsule(data) => {
                entry.data = SglDescriptor::in_capsule(data.len() as u32);
                data
            }
            Give::Asked(data) => {
                entry.data = SglDescriptor::transport(data.len() as u32);
                pending.payload = data.to_vec();
                &[]
            }
            Give::AsIs(data) => data,
        };
        self.pending.insert(id, pending);
        let bytes = self.frame_command(entry, capsule);
        self.send(&bytes);
        id
    }

    /// Expects an answer to a command with this identifier, whose bytes the test sends itself.
    pub(crate) fn expect_reply_to(&mut self, command_id: u16) {
        self.pending.insert(command_id, Pending::default());
    }

    /// Does a command from its start to its end. Others must not be under way.
    pub(crate) fn run(&mut self, entry: SubmissionEntry, give: Give<'_>) -> Reply {
        let id = self.submit(entry, give);
        let reply = self.wait();
        assert_eq!(reply.command_id, id, "the answer to the only command");
        reply
    }

    /// Commands under way.
    pub(crate) fn outstanding(&self) -> usize {
        self.pending.len()
    }

    /// Records commands that are sent as bytes.
    pub(crate) fn expect_answers(&mut self, ids: impl Iterator<Item = u16>) {
        self.pending.extend(ids.map(|id| (id, Pending::default())));
    }

    /// True if something has come that was not received.
    pub(crate) fn has_input(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let has_input = self.stream.peek(&mut [0]).is_ok();
        self.stream.set_nonblocking(false).unwrap();
        has_input
    }

    /// Completions, of 24 bytes each, that have come and were not received.
    pub(crate) fn answers_so_far(&self) -> usize {
        self.stream.set_nonblocking(true).unwrap();
        let mut room = vec![0; 1 << 20];
        let come = self.stream.peek(&mut room).unwrap_or_default();
        self.stream.set_nonblocking(false).unwrap();
        come / 24
    }

    /// The end of any command.
    pub(crate) fn wait(&mut self) -> Reply {
        loop {
            match self.event().expect("the connection goes on") {
                Event::Response(entry) => {
                    let id = entry.command_id.get();
                    let pending = self.pending.remove(&id).expect("an answer to a command under way");
                    let head = Some(entry.submission_queue_head.get());
                    return reply(id, entry.status(), entry.result(), head, pending);
                }
                Event::Data(pdu) => {
                    assert_eq!(
                        pdu.common.data_offset % self.alignment,
                        0,
                        "data begins where it was asked to"
                    );
                    let data = self.take_data();
                    let id = pdu.command_id.get();
                    let pending = self.pending.get_mut(&id).expect("data of a command under way");
                    assert_eq!(pdu.offset.get() as usize, pending.data.len(), "data comes in order");
                    pending.data.extend_from_slice(&data);
                    if pdu.is_success() {
                        assert!(pdu.is_last(), "SUCCESS stands at the end only");
                        let pending = self.pending.remove(&id).expect("as above");
                        return reply(id, Status::SUCCESS, 0, None, pending);
                    }
                }
                Event::ReadyToTransfer(request) => {
                    let pending = self.pending.get_mut(&request.command_id.get());
                    pending.expect("R2T for a command under way").asked += 1;
                    if self.answers {
                        self.answer(&request);
                    }
                }
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    /// The next R2T; nothing else may come before.
    pub(crate) fn ready_to_transfer(&mut self) -> ReadyToTransfer {
        match self.event() {
            Some(Event::ReadyToTransfer(request)) => request,
            other => panic!("an R2T should come, not {other:?}"),
        }
    }

    /// Sends what an R2T asks for.
    pub(crate) fn answer(&mut self, request: &ReadyToTransfer) {
        let (id, tag) = (request.command_id.get(), request.transfer_tag.get());
        let (start, length) = (request.offset.get() as usize, request.length.get() as usize);
        let payload = self.pending[&id].payload.clone();
        let end = start + length;
        assert!(length > 0 && end <= payload.len(), "an R2T within the command's data");
        for at in (start..end).step_by(self.piece) {
            let piece = &payload[at..(at + self.piece).min(end)];
            let last = if at + piece.len() == end { flags::LAST } else { 0 };
            let pdu = DataPdu::new(PduType::DataToController, last, id, tag, at as u32, piece.len() as u32);
            let bytes = self.frame_data(pdu, piece);
            self.send(&bytes);
        }
    }

    /// The next event, `None` at the end of the stream.
    pub(crate) fn event(&mut self) -> Option<Event> {
        loop {
            let mut rest = &self.input[..];
            let event = self.receiver.next(&mut rest).expect("the target sends no nonsense");
            let used = self.input.len() - rest.len();
            self.input.drain(..used);
            if event.is_some() {
                return event;
            }
            if !self.fill() {
                return None;
            }
        }
    }

    /// The data of the PDU whose event was just taken.
    pub(crate) fn take_data(&mut self) -> Vec<u8> {
        let mut data = Vec::new();
        loop {
            let mut rest = &self.input[..];
            let event = self.receiver.next(&mut rest).expect("the target sends no nonsense");
            let skipped = self.input.len() - rest.len();
            self.input.drain(..skipped);
            match event {
                Some(Event::DataEnd { digest_matches }) => {
                    assert!(digest_matches, "the target's data digest is right");
                    return data;
                }
                Some(other) => panic!("unexpected {other:?} within data"),
                None => {}
            }
            let mut rest = &self.input[..];
            data.extend_from_slice(self.receiver.take_data(&mut rest, usize::MAX));
            let used = self.input.len() - rest.len();
            self.input.drain(..used);
            if used == 0 {
                assert!(self.fill(), "the stream ends within data");
            }
        }
    }

    /// Receives more; false at the end of the stream.
    fn fill(&mut self) -> bool {
        let mut room = vec![0; 256 << 10];
        let received = read_some(&mut self.stream, &mut room).expect("something comes in time");
        self.input.extend_from_slice(&room[..received]);
        received > 0
    }

    /// Waits for the proper end of the stream; nothing more may come before it.
    pub(crate) fn expect_end(&mut self) {
        let event = self.event();
        assert_eq!(event, None, "the stream ends");
    }

    /// Waits until the connection is gone, however it went and whatever still comes.
    pub(crate) fn wait_until_gone(&mut self) {
        let mut room = [0; 4096];
        loop {
            match read_some(&mut self.stream, &mut room) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
                Err(error) => panic!("the connection has not ended: {error}"),
            }
        }
    }

    /// Reads to the end of the stream, which a termination request has to stand at.
    pub(crate) fn expect_termination(&mut self) -> Termination {
        while self.fill() {}
        let mut rest = &self.input[..];
        loop {
            let (common, _) = CommonHeader::read_from_prefix(rest).expect("a termination request comes");
            let length = common.pdu_length.get() as usize;
            assert!(length >= 8 && length <= rest.len(), "a whole PDU at the end of the stream");
            let (pdu, behind) = rest.split_at(length);
            if common.kind == PduType::ControllerTerminate as u8 {
                assert!(behind.is_empty(), "nothing follows a termination request");
                let (request, header) = Terminate::read_from_prefix(pdu).unwrap();
                assert_eq!(usize::from(common.header_length), size_of::<Terminate>());
                let (error, information) = (request.error.get(), request.information.get());
                return Termination { error, information, header: header.to_vec() };
            }
            rest = behind;
        }
    }
}

fn reply(command_id: u16, status: Status, result: u64, head: Option<u16>, pending: Pending) -> Reply {
    Reply { command_id, status, result, head, data: pending.data, asked: pending.asked }
}

/// Reads what there is. A machine that is stopped and goes on ends a wait that has a limit before its time: it is waited again.
pub(crate) fn read_some(stream: &mut impl Read, room: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match stream.read(room) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
