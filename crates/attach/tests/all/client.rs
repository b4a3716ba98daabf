//! An NBD client by hand: what it writes and reads is up to the test.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

use prerequisite::patience;
use rustix::net::{AddressFamily, SocketType};
use rustls::{ClientConnection, StreamOwned};

/// The cookie before the first.
const COOKIE: u64 = 0x1234_5678_0000_0000;

pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const DISCONNECT: u16 = 2;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const TRIM: u16 = 4;
pub(crate) const CACHE: u16 = 5;
pub(crate) const WRITE_ZEROES: u16 = 6;
pub(crate) const BLOCK_STATUS: u16 = 7;

pub(crate) const FUA: u16 = 1;
pub(crate) const NO_HOLE: u16 = 2;
pub(crate) const DF: u16 = 4;
const PAYLOAD_LEN: u16 = 32;

pub(crate) const INVALID: u32 = 22;
pub(crate) const NO_SPACE: u32 = 28;
pub(crate) const NOT_PERMITTED: u32 = 1;

/// The form of requests and replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Simple,
    Structured,
    Extended,
}

pub(crate) const FORMS: [Form; 3] = [Form::Simple, Form::Structured, Form::Extended];

/// A part of a reply.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) cookie: u64,
    pub(crate) is_last: bool,
    pub(crate) kind: u16,
    pub(crate) payload: Vec<u8>,
    /// Of a simple reply, or an error chunk.
    pub(crate) error: u32,
}

/// Result of all of a reply.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) error: u32,
    /// Pieces of data by their offsets.
    pub(crate) pieces: Vec<(u64, Vec<u8>)>,
    pub(crate) status: Vec<u8>,
}

pub(crate) struct Client<S = UnixStream> {
    pub(crate) stream: S,
    pub(crate) form: Form,
    next_cookie: u64,
}

impl Client {
    pub(crate) fn connect(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).expect("a server listens");
        stream.set_read_timeout(Some(patience())).expect("it can have one");
        Self { stream, form: Form::Simple, next_cookie: COOKIE }
    }

    /// The same connection, to send on while the other one receives.
    pub(crate) fn second_end(&self) -> Self {
        let stream = self.stream.try_clone().expect("another descriptor");
        Self { stream, form: self.form, next_cookie: self.next_cookie }
    }

    /// The same connection by TLS, which the server takes.
    pub(crate) fn secure(
        mut self,
        tls: ClientConnection,
    ) -> Client<StreamOwned<ClientConnection, UnixStream>> {
        self.greet();
        self.option(5, &[]);
        Client { stream: StreamOwned::new(tls, self.stream), form: self.form, next_cookie: self.next_cookie }
    }
}

impl Client<TcpStream> {
    /// Client at this address of the loopback interface.
    pub(crate) fn connect_from(from: [u8; 4], server: SocketAddr) -> Self {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        rustix::net::bind(&socket, &SocketAddr::from((from, 0))).expect("an address of loopback");
        rustix::net::connect(&socket, &server).expect("a server listens");
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(patience())).expect("it can have one");
        Self { stream, form: Form::Simple, next_cookie: COOKIE }
    }
}

impl<S: Read + Write> Client<S> {
    /// Reads the server's greeting, and answers it.
    pub(crate) fn greet(&mut self) {
        assert_eq!(self.bytes(18), b"NBDMAGICIHAVEOPT\0\x03");
        self.stream.write_all(&3u32.to_be_bytes()).expect("flags");
    }

    /// Chooses an export by NBD_OPT_GO, in this form of headers and with `base:allocation` where that goes.
    pub(crate) fn go(mut self, name: &str, form: Form) -> Self {
        self.greet();
        self.choose(name, form)
    }

    /// The same behind the greeting.
    pub(crate) fn choose(mut self, name: &str, form: Form) -> Self {
        self.form = form;
        let name = [&(name.len() as u32).to_be_bytes(), name.as_bytes()].concat();
        match form {
            Form::Simple => {}
            Form::Structured => self.option(8, &[]),
            Form::Extended => self.option(11, &[]),
        }
        if form != Form::Simple {
            let query = [&[0, 0, 0, 1, 0, 0, 0, 15], &b"base:allocation"[..]].concat();
            self.option(10, &[&name[..], &query].concat());
        }
        self.option(7, &[&name[..], &[0, 1, 0, 3]].concat());
        self
    }

    /// Sends an option, and reads answers until it is acknowledged.
    pub(crate) fn option(&mut self, option: u32, data: &[u8]) {
        self.answers(option, data);
    }

    /// The same, with the answers' data.
    pub(crate) fn answers(&mut self, option: u32, data: &[u8]) -> Vec<Vec<u8>> {
        let mut answers = Vec::new();
        let length = (data.len() as u32).to_be_bytes();
        let bytes = [b"IHAVEOPT", &option.to_be_bytes()[..], &length, data].concat();
        self.stream.write_all(&bytes).expect("an option");
        loop {
            let head = self.bytes(20);
            let field = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
            assert_eq!(field(8), option);
            answers.push(self.bytes(field(16) as usize));
            match field(12) {
                1 => return answers,
                kind => assert!(kind < 1 << 31, "option {option}: error {kind:#x}"),
            }
        }
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).expect("as many bytes");
        bytes
    }

    /// Sends a request, and says by what it will be known.
    pub(crate) fn send(&mut self, kind: u16, flags: u16, (offset, length): (u64, u64), data: &[u8]) -> u64 {
        self.next_cookie += 1;
        let (flags, cookie) = (
            if self.form == Form::Extended && kind == WRITE { flags | PAYLOAD_LEN } else { flags },
            self.next_cookie.to_be_bytes(),
        );
        let (magic, length) = match self.form {
            Form::Extended => (0x21e4_1c71u32, length.to_be_bytes().to_vec()),
            _ => (0x2560_9513, (length as u32).to_be_bytes().to_vec()),
        };
        let head = [&magic.to_be_bytes()[..], &flags.to_be_bytes(), &kind.to_be_bytes(), &cookie].concat();
        let bytes = [head, offset.to_be_bytes().to_vec(), length, data.to_vec()].concat();
        self.stream.write_all(&bytes).expect("a request");
        self.next_cookie
    }

    /// The next part of a reply; what a simple one carries has to be known.
    pub(crate) fn chunk(&mut self, simple_length: usize) -> Chunk {
        let magic = u32::from_be_bytes(self.bytes(4).try_into().expect("four bytes"));
        let number = |bytes: &[u8]| bytes.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
        let (flags, kind, cookie, length) = match magic {
            0x6744_6698 => {
                assert_ne!(self.form, Form::Extended);
                let head = self.bytes(12);
                let error = number(&head[..4]) as u32;
                let payload = self.bytes(if error == 0 { simple_length } else { 0 });
                return Chunk { cookie: number(&head[4..]), is_last: true, kind: 0, payload, error };
            }
            0x668e_33ef => {
                assert_eq!(self.form, Form::Structured);
                let head = self.bytes(16);
                (number(&head[..2]), number(&head[2..4]), number(&head[4..12]), number(&head[12..]))
            }
            0x6e8a_278c => {
                assert_eq!(self.form, Form::Extended);
                let head = self.bytes(28);
                (number(&head[..2]), number(&head[2..4]), number(&head[4..12]), number(&head[20..]))
            }
            other => panic!("no reply begins with {other:#x}"),
        };
        let payload = self.bytes(length as usize);
        let error = if kind == 1 << 15 | 1 { number(&payload[..4]) as u32 } else { 0 };
        Chunk { cookie, is_last: flags & 1 != 0, kind: kind as u16, payload, error }
    }

    /// All of the reply to the one request that is outstanding.
    pub(crate) fn answer(&mut self, cookie: u64, offset: u64, simple_length: usize) -> Answer {
        let mut answer = Answer::default();
        loop {
            let mut chunk = self.chunk(simple_length);
            assert_eq!(chunk.cookie, cookie);
            answer.error = answer.error.max(chunk.error);
            match chunk.kind {
                0 if !chunk.payload.is_empty() => answer.pieces.push((offset, chunk.payload)),
                1 => {
                    let data = chunk.payload.split_off(8);
                    let at = u64::from_be_bytes(chunk.payload.try_into().expect("eight bytes"));
                    answer.pieces.push((at, data));
                }
                5 | 6 => answer.status = chunk.payload,
                _ => {}
            }
            if chunk.is_last {
                return answer;
            }
        }
    }

    /// A request without data in either direction, and its error.
    pub(crate) fn ask(&mut self, kind: u16, flags: u16, extent: (u64, u64)) -> u32 {
        let cookie = self.send(kind, flags, extent, &[]);
        self.answer(cookie, extent.0, 0).error
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8], flags: u16) -> u32 {
        let cookie = self.send(WRITE, flags, (offset, data.len() as u64), data);
        self.answer(cookie, offset, 0).error
    }

    /// Data of a successful read of the whole range.
    pub(crate) fn read(&mut self, offset: u64, length: usize, flags: u16) -> Vec<u8> {
        let cookie = self.send(READ, flags, (offset, length as u64), &[]);
        let mut answer = self.answer(cookie, offset, length);
        assert_eq!(answer.error, 0);
        assert!(flags & DF == 0 || answer.pieces.len() == 1);
        answer.pieces.sort_by_key(|(at, _)| *at);
        let mut data = Vec::with_capacity(length);
        for (at, piece) in answer.pieces {
            assert_eq!(at, offset + data.len() as u64, "pieces follow one another");
            data.extend(piece);
        }
        assert_eq!(data.len(), length);
        data
    }

    /// True once the server has closed the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}
