//! Servers that know nothing but how to answer each 72-byte request with 24 + 4096 bytes from a random place, or to put the
//! 4096 bytes behind it there and answer with 24: the most that sockets can do, busy, sleeping in epoll, and on io_uring. All
//! answers that are ready leave in one call.
#![allow(unsafe_code)]

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::thread::JoinHandle;
use std::time::Duration;

use engine::backend::{Backend, BackendConfig, Clusters, Opening};
use engine::ring::core;
use engine::ring::{Socket, Span, SpanMut};
use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode};

use secure_channel::Peer;

use crate::client::{ANSWER_HEADER, BATCH, BLOCK, Direction, REQUEST, send_all};
use crate::sealed::Sealed;

/// Bytes that are received in one call: what the target receives at most.
const RECEIVE: usize = 256 << 10;
/// Room behind them for what one call leaves of a request.
const REST: usize = 520 << 10;

/// Way in which a server waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Never: it asks again and again.
    Busy,
    /// Asleep in epoll.
    Epoll,
    /// Asleep in io_uring, which has received already when it wakes.
    Uring,
}

impl Style {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Style::Busy => "bare, busy recv",
            Style::Epoll => "bare, epoll",
            Style::Uring => "bare, io_uring",
        }
    }
}

/// A server that runs until its connections end.
pub(crate) struct BareServer {
    address: SocketAddr,
    thread: Option<JoinHandle<Duration>>,
}

impl BareServer {
    pub(crate) fn start(
        (style, is_tls): (Style, bool),
        cpu: usize,
        span: u64,
        connections: usize,
        direction: Direction,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
        let address = listener.local_addr().expect("an address");
        let thread = std::thread::spawn(move || {
            core::pin_to(cpu).expect("the server's processor");
            // The same kind of memory as the target's, filled as the target's is.
            let backend = Backend::open(
                &BackendConfig::Memory { size: span },
                Opening::alone(4096, &Clusters::default()),
            )
            .expect("memory");
            let Backend::Memory(memory) = backend else { unreachable!("memory was asked for") };
            let block: Vec<u8> = (0..BLOCK).map(|at| at as u8).collect();
            for at in 0..span / BLOCK as u64 {
                assert_eq!(memory.write(at * BLOCK as u64, &block), BLOCK, "it has no other user");
            }
            let accept = |_| Stream::new(listener.accept().expect("a connection").0, direction, is_tls);
            let streams: Vec<Stream> = (0..connections).map(accept).collect();
            let before = core::thread_time();
            match style {
                Style::Busy => busy(streams, &memory),
                Style::Epoll => epoll(streams, &memory),
                Style::Uring => uring(streams, &memory),
            }
            core::thread_time().saturating_sub(before)
        });
        Self { address, thread: Some(thread) }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until its connections have ended: the processor time that answering took.
    pub(crate) fn finish(mut self) -> Duration {
        self.thread.take().map_or(Duration::ZERO, |thread| thread.join().expect("the server ends well"))
    }
}

impl Drop for BareServer {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server ends well");
        }
    }
}

type Memory = engine::backend::Memory;

struct Stream {
    socket: Socket,
    sealed: Option<Sealed>,
    buffer: Vec<u8>,
    filled: usize,
    headers: Box<[[u8; ANSWER_HEADER]; BATCH]>,
    direction: Direction,
}

impl Stream {
    fn new(stream: TcpStream, direction: Direction, is_tls: bool) -> Self {
        stream.set_nodelay(true).expect("no delay");
        Self {
            socket: Socket::new(stream).expect("a socket"),
            sealed: is_tls.then(|| Sealed::bare(Peer::Host)),
            buffer: vec![0; if is_tls { RECEIVE + REST } else { RECEIVE }],
            filled: 0,
            headers: Box::new([[0; ANSWER_HEADER]; BATCH]),
            direction,
        }
    }

    /// Receives once and answers; false at the end of the stream.
    fn turn(&mut self, memory: &Memory) -> bool {
        let Self { socket, sealed, buffer, filled, .. } = self;
        let came = match sealed {
            None => {
                let came = socket.receive(&mut [SpanMut::new(&mut buffer[*filled..])]);
                *filled += came.as_ref().copied().unwrap_or(0);
                came
            }
            Some(sealed) => {
                let came = sealed.receive(socket);
                sealed.deliver(|data| append(buffer, filled, data));
                came
            }
        };
        match came {
            Ok(0) => false,
            Ok(_) => self.answer_all(memory),
            Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
        }
    }

    /// Takes what was received elsewhere.
    fn put(&mut self, bytes: &[u8]) {
        let Self { sealed, buffer, filled, .. } = self;
        match sealed {
            None => append(buffer, filled, bytes),
            Some(sealed) => sealed.put(bytes, |data| append(buffer, filled, data)),
        }
    }

    fn answer_all(&mut self, memory: &Memory) -> bool {
        let length = self.direction.request();
        let whole = self.filled / length;
        if self.sealed.is_some() {
            return self.answer_sealed(length, whole, memory);
        }
        for first in (0..whole).step_by(BATCH) {
            let count = (whole - first).min(BATCH);
            let requests = self.buffer[first * length..].chunks_exact(length).take(count);
            for (header, request) in self.headers.iter_mut().zip(requests.clone()) {
                // The command identifier goes back in the answer, as it has to in the protocol.
                let at = self.direction.id_at();
                header[at..at + 2].copy_from_slice(&request[10..12]);
            }
            let mut spans = [Span::EMPTY; 2 * BATCH];
            for ((pair, header), request) in spans.chunks_exact_mut(2).zip(&*self.headers).zip(requests) {
                let block = u64::from(u32::from_le_bytes(request[48..52].try_into().expect("four bytes")));
                pair[0] = Span::new(header);
                match self.direction {
                    Direction::Read => pair[1] = memory.span(block * BLOCK as u64, BLOCK),
                    Direction::Write => {
                        let written = memory.write(block * BLOCK as u64, &request[REQUEST..]);
                        assert_eq!(written, BLOCK, "it has no other user");
                    }
                }
            }
            let answers = match self.direction {
                Direction::Read => &spans[..2 * count],
                // The headers lie behind one another.
                Direction::Write => &[Span::new(self.headers[..count].as_flattened())],
            };
            if !send_all(&self.socket, answers) {
                return false;
            }
        }
        self.buffer.copy_within(whole * length..self.filled, 0);
        self.filled -= whole * length;
        true
    }
}

impl Stream {
    /// The same in records.
    fn answer_sealed(&mut self, length: usize, whole: usize, memory: &Memory) -> bool {
        let Self { socket, sealed: Some(sealed), buffer, headers, .. } = self else { return false };
        let (at, header) = (self.direction.id_at(), &mut headers[0]);
        for batch in buffer[..whole * length].chunks(BATCH * length) {
            for request in batch.chunks_exact(length) {
                header[at..at + 2].copy_from_slice(&request[10..12]);
                sealed.push_slice(header);
                let block = u64::from(u32::from_le_bytes(request[48..52].try_into().expect("four bytes")));
                let start = block * BLOCK as u64;
                match self.direction {
                    Direction::Read => sealed.push(BLOCK, |from, room| {
                        assert_eq!(memory.read(start + from as u64, room, true), room.len(), "it is there");
                    }),
                    Direction::Write => {
                        assert_eq!(memory.write(start, &request[REQUEST..]), BLOCK, "it has no other user");
                    }
                }
            }
            if !sealed.send(socket) {
                return false;
            }
        }
        self.buffer.copy_within(whole * length..self.filled, 0);
        self.filled -= whole * length;
        true
    }
}

fn append(buffer: &mut [u8], filled: &mut usize, bytes: &[u8]) {
    buffer[*filled..][..bytes.len()].copy_from_slice(bytes);
    *filled += bytes.len();
}

fn busy(mut streams: Vec<Stream>, memory: &Memory) {
    while !streams.is_empty() {
        streams.retain_mut(|stream| stream.turn(memory));
    }
}

fn epoll(mut streams: Vec<Stream>, memory: &Memory) {
    use rustix::event::epoll;
    let descriptor = epoll::create(epoll::CreateFlags::CLOEXEC).expect("epoll");
    let mut open = streams.len();
    for (at, stream) in streams.iter().enumerate() {
        // SAFETY: the socket lives in `streams` for as long as this function runs.
        let socket = unsafe { std::os::fd::BorrowedFd::borrow_raw(stream.socket.as_raw_fd()) };
        epoll::add(&descriptor, socket, epoll::EventData::new_u64(at as u64), epoll::EventFlags::IN)
            .expect("add");
    }
    let mut events = Vec::with_capacity(64);
    while open > 0 {
        events.clear();
        epoll::wait(&descriptor, rustix::buffer::spare_capacity(&mut events), None).expect("wait");
        for event in &events {
            let stream = &mut streams[event.data.u64() as usize];
            if !stream.turn(memory) {
                // SAFETY: as above.
                let socket = unsafe { std::os::fd::BorrowedFd::borrow_raw(stream.socket.as_raw_fd()) };
                epoll::delete(&descriptor, socket).expect("delete");
                open -= 1;
            }
        }
    }
}

const BUFFERS: u16 = 256;
const BUFFER_LENGTH: usize = 8 << 10;

/// Multishot receive into provided buffers, answers sent directly.
fn uring(mut streams: Vec<Stream>, memory: &Memory) {
    let mut ring: IoUring =
        IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(256).expect("io_uring");
    let mut buffers = vec![0u8; usize::from(BUFFERS) * BUFFER_LENGTH];
    provide(&mut ring, &mut buffers, 0, BUFFERS);
    for at in 0..streams.len() {
        receive(&mut ring, &streams, at);
    }
    let mut open = vec![true; streams.len()];
    let mut done: Vec<cqueue::Entry> = Vec::new();
    while open.contains(&true) {
        ring.submit_and_wait(1).expect("enter");
        done.extend(ring.completion());
        for entry in done.drain(..) {
            if entry.user_data() == u64::MAX {
                continue;
            }
            let at = entry.user_data() as usize;
            let mut alive = open[at];
            if let Some(buffer) = cqueue::buffer_select(entry.flags()).filter(|_| alive) {
                let length = entry.result().max(0) as usize;
                let start = usize::from(buffer) * BUFFER_LENGTH;
                let stream = &mut streams[at];
                stream.put(&buffers[start..start + length]);
                alive = stream.answer_all(memory);
                provide(&mut ring, &mut buffers, buffer, 1);
            }
            if entry.result() == 0 || !alive || (entry.result() < 0 && entry.result() != -libc::ENOBUFS) {
                open[at] = false;
            } else if !cqueue::more(entry.flags()) {
                receive(&mut ring, &streams, at);
            }
        }
    }
}

fn provide(ring: &mut IoUring, buffers: &mut [u8], first: u16, count: u16) {
    let start = usize::from(first) * BUFFER_LENGTH;
    let pointer = buffers[start..].as_mut_ptr();
    let entry = opcode::ProvideBuffers::new(pointer, BUFFER_LENGTH as i32, count, 0, first).build();
    // SAFETY: the buffers live in `uring` for as long as its ring does, and are read only between their completion
    // and the next time they are provided.
    unsafe { ring.submission().push(&entry.user_data(u64::MAX)).expect("room") };
}

fn receive(ring: &mut IoUring, streams: &[Stream], at: usize) {
    let entry = opcode::RecvMulti::new(Fd(streams[at].socket.as_raw_fd()), 0).build();
    // SAFETY: the entry refers to provided buffers only, see `provide`.
    unsafe { ring.submission().push(&entry.user_data(at as u64)).expect("room") };
}
