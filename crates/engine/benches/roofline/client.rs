//! The client of all servers: keeps a number of requests outstanding on each connection, and counts answers. A read asks
//! with 72 bytes for 24 + 4096, a write is 72 + 4096 bytes and has an answer of 24. Towards the target it opens the connection
//! as NVMe/TCP wants it; from then on the bytes are alike.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use engine::ring::{Socket, Span, SpanMut};
use nvme::fabrics::{CONTROLLER_ID_ANY, Connect, ConnectData, PropertyAccess, configuration, property};
use nvme::io::IoCommand;
use nvme::tcp::{CapsuleCommand, CommonHeader, Initialize, PduType};
use nvme::{SglDescriptor, SubmissionEntry};
use secure_channel::Peer;
use zerocopy::IntoBytes;

use crate::sealed::{Sealed, SetupStream};

pub(crate) const REQUEST: usize = 72;
pub(crate) const ANSWER_HEADER: usize = 24;
pub(crate) const BLOCK: usize = 4096;
/// Requests or answers with data that leave in one call, as the target sends them too.
pub(crate) const BATCH: usize = 64;
/// Answers are received in as large pieces as there are.
const RECEIVE: usize = 512 << 10;
const WARM_UP: Duration = Duration::from_millis(200);

/// Kind of request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

impl Direction {
    /// fio's word for it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Read => "randread",
            Self::Write => "randwrite",
        }
    }

    /// Kind of request with this word.
    pub(crate) fn of(word: &str) -> Option<Self> {
        [Self::Read, Self::Write].into_iter().find(|direction| direction.word() == word)
    }

    /// Bytes of a request.
    pub(crate) const fn request(self) -> usize {
        match self {
            Self::Read => REQUEST,
            Self::Write => REQUEST + BLOCK,
        }
    }

    /// Bytes of an answer.
    const fn answer(self) -> usize {
        match self {
            Self::Read => ANSWER_HEADER + BLOCK,
            Self::Write => ANSWER_HEADER,
        }
    }

    /// Offset of the command identifier in an answer: a data PDU has it in its header, a completion
    /// in its entry.
    pub(crate) const fn id_at(self) -> usize {
        match self {
            Self::Read => 8,
            Self::Write => 20,
        }
    }
}

/// Start of a connection.
#[derive(Clone, Copy)]
pub(crate) enum Opening {
    /// With the first request.
    None,
    /// With the handshake and Connect of an I/O queue, then commands to this namespace.
    Nvme { nqn: &'static str, nsid: u32 },
}

/// Parameters of a measurement.
pub(crate) struct Run {
    pub(crate) address: SocketAddr,
    pub(crate) connections: usize,
    pub(crate) depth: usize,
    pub(crate) blocks: u64,
    pub(crate) opening: Opening,
    pub(crate) direction: Direction,
    pub(crate) is_tls: bool,
}

struct Stream {
    socket: Socket,
    sealed: Option<Sealed>,
    /// Bytes of the answer that is coming in.
    partial: usize,
    /// The header of that answer, as far as it has come.
    header: [u8; ANSWER_HEADER],
    /// Headers of the requests that are to leave.
    requests: Vec<u8>,
    template: [u8; REQUEST],
    direction: Direction,
}

impl Run {
    /// Answers per second over `duration`, after a warm-up.
    pub(crate) fn per_second(&self, duration: Duration) -> f64 {
        let (_admin, sockets, nsid) = match self.opening {
            Opening::None => {
                let connect = |_| {
                    let stream = TcpStream::connect(self.address).expect("the server listens");
                    stream.set_nodelay(true).expect("no delay");
                    (stream, self.is_tls.then(|| Sealed::bare(Peer::Controller)))
                };
                (None, (0..self.connections).map(connect).collect::<Vec<_>>(), 1)
            }
            Opening::Nvme { nqn, nsid } => {
                let (admin, queues) =
                    open_controller((self.address, self.is_tls), nqn, self.connections, 256);
                let queues = queues.into_iter().map(|setup| (setup.stream, setup.sealed));
                (Some(admin), queues.collect(), nsid)
            }
        };
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let stream = |socket| Stream::new(socket, nsid, self.direction);
        let mut streams: Vec<Stream> = sockets.into_iter().map(stream).collect();
        let mut buffer = vec![0; RECEIVE];
        for stream in &mut streams {
            (0..self.depth).for_each(|id| stream.request(id as u16, &mut random, self.blocks));
            stream.send();
        }
        let mut round = |streams: &mut Vec<Stream>, until: Duration| {
            let (began, mut answers) = (Instant::now(), 0u64);
            loop {
                for stream in &mut *streams {
                    answers += stream.turn(&mut buffer, &mut random, self.blocks);
                }
                let elapsed = began.elapsed();
                if elapsed >= until {
                    return answers as f64 / elapsed.as_secs_f64();
                }
            }
        };
        round(&mut streams, WARM_UP);
        round(&mut streams, duration)
    }
}

impl Stream {
    fn new((socket, sealed): (TcpStream, Option<Sealed>), nsid: u32, direction: Direction) -> Self {
        let (start, blocks, force_unit_access) = (0, 1, false);
        let mut common = CommonHeader::new(PduType::CapsuleCommand, 0);
        let entry = match direction {
            Direction::Read => {
                let mut entry = IoCommand::Read { start, blocks, force_unit_access }.encode(nsid);
                entry.data = SglDescriptor::transport(BLOCK as u32);
                entry
            }
            Direction::Write => {
                common.pdu_length = (direction.request() as u32).into();
                common.data_offset = REQUEST as u8;
                let mut entry = IoCommand::Write { start, blocks, force_unit_access }.encode(nsid);
                entry.data = SglDescriptor::in_capsule(BLOCK as u32);
                entry
            }
        };
        let pdu = CapsuleCommand { common, entry };
        let mut template = [0; REQUEST];
        template.copy_from_slice(pdu.as_bytes());
        Self {
            socket: Socket::new(socket).expect("a socket"),
            sealed,
            partial: 0,
            header: [0; ANSWER_HEADER],
            requests: Vec::with_capacity(256 * REQUEST),
            template,
            direction,
        }
    }

    /// Queues a request for a random block with command identifier `id`.
    fn request(&mut self, id: u16, random: &mut u64, blocks: u64) {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let block = ((*random >> 33) % blocks) as u32;
        self.template[10..12].copy_from_slice(&id.to_le_bytes());
        self.template[48..52].copy_from_slice(&block.to_le_bytes());
        self.requests.extend_from_slice(&self.template);
    }

    fn send(&mut self) {
        static DATA: [u8; BLOCK] = [0x5a; BLOCK];
        if let Some(sealed) = &mut self.sealed {
            for requests in self.requests.chunks(BATCH * REQUEST) {
                match self.direction {
                    Direction::Read => sealed.push_slice(requests),
                    Direction::Write => requests.chunks_exact(REQUEST).for_each(|request| {
                        sealed.push_slice(request);
                        sealed.push_slice(&DATA);
                    }),
                }
                assert!(sealed.send(&self.socket), "the server is gone");
            }
            return self.requests.clear();
        }
        for requests in self.requests.chunks(BATCH * REQUEST) {
            let mut spans = [Span::EMPTY; 2 * BATCH];
            let count = match self.direction {
                Direction::Read => {
                    spans[0] = Span::new(requests);
                    1
                }
                Direction::Write => {
                    for (pair, request) in spans.chunks_exact_mut(2).zip(requests.chunks_exact(REQUEST)) {
                        (pair[0], pair[1]) = (Span::new(request), Span::new(&DATA));
                    }
                    2 * requests.len() / REQUEST
                }
            };
            assert!(send_all(&self.socket, &spans[..count]), "the server is gone");
        }
        self.requests.clear();
    }

    /// Receives what has come, asks again for each answer that is whole, and counts those.
    fn turn(&mut self, buffer: &mut [u8], random: &mut u64, blocks: u64) -> u64 {
        let mut answers = 0;
        let came = match self.sealed.take() {
            None => {
                let came = self.socket.receive(&mut [SpanMut::new(buffer)]);
                if let Ok(received) = came {
                    self.take(&buffer[..received], &mut answers, random, blocks);
                }
                came
            }
            Some(mut sealed) => {
                let came = sealed.receive(&self.socket);
                sealed.deliver(|data| self.take(data, &mut answers, random, blocks));
                self.sealed = Some(sealed);
                came
            }
        };
        match came {
            Ok(0) => panic!("the server ended the connection"),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return 0,
            Err(error) => panic!("the server is gone: {error}"),
        }
        if answers > 0 {
            self.send();
        }
        answers
    }

    /// Takes bytes of answers, and asks again for each that is whole.
    fn take(&mut self, bytes: &[u8], answers: &mut u64, random: &mut u64, blocks: u64) {
        let mut at = 0;
        while at < bytes.len() {
            if self.partial < ANSWER_HEADER {
                let taken = (ANSWER_HEADER - self.partial).min(bytes.len() - at);
                self.header[self.partial..self.partial + taken].copy_from_slice(&bytes[at..at + taken]);
                self.partial += taken;
                at += taken;
                self.ask_again(answers, random, blocks);
                continue;
            }
            let taken = (self.direction.answer() - self.partial).min(bytes.len() - at);
            self.partial += taken;
            at += taken;
            self.ask_again(answers, random, blocks);
        }
    }

    /// Counts the answer if it is whole, and asks for the next one.
    fn ask_again(&mut self, answers: &mut u64, random: &mut u64, blocks: u64) {
        if self.partial == self.direction.answer() {
            self.partial = 0;
            *answers += 1;
            let at = self.direction.id_at();
            let id = u16::from_le_bytes([self.header[at], self.header[at + 1]]);
            self.request(id, random, blocks);
        }
    }
}

/// Sends all of `spans`; what does not fit is tried again at once, which only happens when the other end is behind.
pub(crate) fn send_all(socket: &Socket, spans: &[Span<'_>]) -> bool {
    let mut skip = 0;
    let total: usize = spans.iter().map(Span::len).sum();
    while skip < total {
        let mut left = [Span::EMPTY; 2 * BATCH];
        let mut count = 0;
        let mut before = 0;
        for span in spans {
            let from = skip.saturating_sub(before).min(span.len());
            before += span.len();
            if from < span.len() {
                left[count] = span.skip(from);
                count += 1;
            }
        }
        match socket.send(&left[..count]) {
            Ok(sent) => skip += sent,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(_) => return false,
        }
    }
    true
}

/// The name of the host.
pub(crate) const HOST: &str = "nqn.2026-01.io.selvedge:roofline-client";

/// Opens an admin queue and `queues` I/O queues of `entries` entries without flow control, so that answers need no completion of
/// their own.
pub(crate) fn open_controller(
    to: (SocketAddr, bool),
    nqn: &str,
    queues: usize,
    entries: u16,
) -> (SetupStream, Vec<SetupStream>) {
    let mut admin = initialize(to, nqn);
    let controller = connect(&mut admin, nqn, 0, CONTROLLER_ID_ANY, 32);
    let enable =
        configuration::ENABLE | configuration::SUBMISSION_ENTRY_SIZE | configuration::COMPLETION_ENTRY_SIZE;
    let access = PropertyAccess { offset: property::CONFIGURATION, wide: false, value: u64::from(enable) };
    command(&mut admin, access.encode_set(), &[]);
    let io = (1..=queues).map(|queue_id| {
        let mut setup = initialize(to, nqn);
        connect(&mut setup, nqn, queue_id as u16, controller, entries);
        setup
    });
    let io = io.collect();
    (admin, io)
}

fn initialize((address, is_tls): (SocketAddr, bool), nqn: &str) -> SetupStream {
    let stream = TcpStream::connect(address).expect("the target listens");
    stream.set_nodelay(true).expect("no delay");
    let mut setup = SetupStream::open(stream, is_tls, HOST, nqn);
    setup.write(Initialize::new(PduType::InitializeRequest, 0, 0).as_bytes());
    setup.read(&mut [0; 128]);
    setup
}

fn connect(setup: &mut SetupStream, nqn: &str, queue_id: u16, controller_id: u16, entries: u16) -> u16 {
    let connect = Connect {
        record_format: 0,
        queue_id,
        queue_size: entries - 1,
        attributes: Connect::DISABLE_FLOW_CONTROL,
        keep_alive_ms: 0,
    };
    let data = ConnectData::new([7; 16], controller_id, nqn, HOST);
    command(setup, connect.encode(), data.as_bytes()) as u16
}

/// Sends a command with its data and waits for its completion: the result.
fn command(setup: &mut SetupStream, entry: SubmissionEntry, data: &[u8]) -> u32 {
    let mut common = CommonHeader::new(PduType::CapsuleCommand, 0);
    common.pdu_length = ((REQUEST + data.len()) as u32).into();
    common.data_offset = if data.is_empty() { 0 } else { REQUEST as u8 };
    setup.write(CapsuleCommand { common, entry }.as_bytes());
    if !data.is_empty() {
        setup.write(data);
    }
    let mut response = [0; 24];
    setup.read(&mut response);
    assert_eq!(u16::from_le_bytes([response[22], response[23]]), 0, "the target refuses a command");
    u32::from_le_bytes(response[8..12].try_into().expect("four bytes"))
}

/// Writes every block of a namespace of 4096-byte blocks once.
pub(crate) fn fill(to: (SocketAddr, bool), nqn: &str, nsid: u32, span: u64) {
    let (_admin, mut queues) = open_controller(to, nqn, 1, 256);
    let block: Vec<u8> = (0..BLOCK).map(|at| at as u8).collect();
    for start in 0..span / BLOCK as u64 {
        let mut entry = IoCommand::Write { start, blocks: 1, force_unit_access: false }.encode(nsid);
        entry.data = SglDescriptor::in_capsule(BLOCK as u32);
        command(&mut queues[0], entry, &block);
    }
}
