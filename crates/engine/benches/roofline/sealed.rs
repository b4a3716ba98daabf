//! TLS records around what a server and its client say: sealed and opened where they stand, and nothing else. Bare servers have
//! their keys from nowhere; those of a target come of a handshake.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use engine::ring::{Socket, Span, SpanMut};
use secure_channel::{
    ConfiguredPsk, DATA_BYTES_MAX, Derivation, HEADER_BYTES, IdentityVersion, Names, OVERHEAD_BYTES, Opened,
    Opener, Peer, RecordLimit, Sealer, Suite, TrafficSecret,
};
use tls_handshake::{Handshake, Progress};

use crate::client::send_all;

/// Bytes that are received in one call, or sealed: what the target takes at most, and more than a batch.
const SPACE: usize = 512 << 10;

/// Both directions.
pub(crate) struct Sealed {
    sealer: Sealer,
    opener: Opener,
    incoming: Vec<u8>,
    filled: usize,
    outgoing: Vec<u8>,
    /// Start of the record that is being filled, and the bytes of data in it.
    record: usize,
    data_bytes: usize,
}

/// The key that the target's host has.
pub(crate) fn key() -> ConfiguredPsk {
    ConfiguredPsk::new(&[0x5e; 32], None).expect("a key of 32 bytes")
}

impl Sealed {
    /// A channel with fixed secrets, without a handshake. The peer is what the other end is.
    pub(crate) fn bare(peer: Peer) -> Self {
        let secret = |byte| TrafficSecret::new(Suite::Aes128Gcm, &[byte; 32]).expect("a secret of 32 bytes");
        let (host, controller) = (secret(1), secret(2));
        match peer {
            Peer::Host => Self::new(&controller, &host, peer),
            Peer::Controller => Self::new(&host, &controller, peer),
        }
    }

    /// The host's end, after a handshake.
    fn open(stream: &mut TcpStream, host: &str, subsystem: &str) -> Self {
        let names = Names::new(host, subsystem).expect("names");
        let key = key().retained(&names, Derivation::Standard);
        let key = key.tls_psk(&names, Suite::Aes128Gcm, IdentityVersion::One).expect("a key");
        let mut handshake = Handshake::of_host(&[key]).expect("a handshake");
        let (mut came, mut output) = (Vec::new(), Vec::new());
        loop {
            let mut rest = &came[..];
            let progress = handshake.step(&mut rest, &mut output).expect("the target has the key");
            let rest = rest.to_vec();
            stream.write_all(&output).expect("the target listens");
            output.clear();
            if let Progress::Done(established) = progress {
                let mut sealed = Self::new(&established.sending, &established.receiving, Peer::Controller);
                sealed.incoming[..rest.len()].copy_from_slice(&rest);
                sealed.filled = rest.len();
                return sealed;
            }
            came.resize(16 << 10, 0);
            let length = stream.read(&mut came).expect("the target answers");
            assert!(length > 0, "the target ended the handshake");
            came.truncate(length);
        }
    }

    fn new(sending: &TrafficSecret, receiving: &TrafficSecret, peer: Peer) -> Self {
        Self {
            sealer: Sealer::new(sending, RecordLimit::default()),
            opener: Opener::new(receiving, peer),
            incoming: vec![0; SPACE],
            filled: 0,
            outgoing: vec![0; SPACE],
            record: 0,
            data_bytes: 0,
        }
    }

    /// Receives once: how many bytes came.
    pub(crate) fn receive(&mut self, socket: &Socket) -> io::Result<usize> {
        let received = socket.receive(&mut [SpanMut::new(&mut self.incoming[self.filled..])])?;
        self.filled += received;
        Ok(received)
    }

    /// Takes bytes that were received elsewhere.
    pub(crate) fn put(&mut self, bytes: &[u8], take: impl FnMut(&[u8])) {
        self.incoming[self.filled..][..bytes.len()].copy_from_slice(bytes);
        self.filled += bytes.len();
        self.deliver(take);
    }

    /// Gives what is in the records that have come whole.
    pub(crate) fn deliver(&mut self, mut take: impl FnMut(&[u8])) {
        let mut at = 0;
        loop {
            let stream = &mut self.incoming[at..self.filled];
            match self.opener.open(stream).expect("the peer has the same key") {
                Opened::Incomplete { .. } => break,
                Opened::Data { record_bytes, data } => {
                    take(&stream[data]);
                    at += record_bytes;
                }
                Opened::Nothing { record_bytes } => at += record_bytes,
                other => panic!("the peer sends {other:?}"),
            }
        }
        self.incoming.copy_within(at..self.filled, 0);
        self.filled -= at;
    }

    /// Queues this number of bytes; `copy` gives those from a place on.
    pub(crate) fn push(&mut self, length: usize, mut copy: impl FnMut(usize, &mut [u8])) {
        let mut done = 0;
        while done < length {
            if self.data_bytes == DATA_BYTES_MAX {
                self.end_record();
            }
            let taken = (length - done).min(DATA_BYTES_MAX - self.data_bytes);
            let at = self.record + HEADER_BYTES + self.data_bytes;
            copy(done, &mut self.outgoing[at..][..taken]);
            self.data_bytes += taken;
            done += taken;
        }
    }

    /// Queues these bytes.
    pub(crate) fn push_slice(&mut self, bytes: &[u8]) {
        self.push(bytes.len(), |from, room| room.copy_from_slice(&bytes[from..][..room.len()]));
    }

    fn end_record(&mut self) {
        let record = self.record..self.record + self.data_bytes + OVERHEAD_BYTES;
        self.sealer
            .seal(&mut self.outgoing[record.clone()], self.data_bytes)
            .expect("a key that is not worn");
        (self.record, self.data_bytes) = (record.end, 0);
    }

    /// Queued bytes, sealed.
    fn sealed(&mut self) -> &[u8] {
        if self.data_bytes > 0 {
            self.end_record();
        }
        &self.outgoing[..std::mem::take(&mut self.record)]
    }

    /// Sends what is queued; false when the peer is gone.
    pub(crate) fn send(&mut self, socket: &Socket) -> bool {
        let records = self.sealed();
        send_all(socket, &[Span::new(records)])
    }
}

/// A stream in clear or sealed, for the messages before the first request.
pub(crate) struct SetupStream {
    pub(crate) stream: TcpStream,
    pub(crate) sealed: Option<Sealed>,
    came: Vec<u8>,
}

impl SetupStream {
    /// Opens a stream to a subsystem of the target.
    pub(crate) fn open(mut stream: TcpStream, is_tls: bool, host: &str, subsystem: &str) -> Self {
        let sealed = is_tls.then(|| Sealed::open(&mut stream, host, subsystem));
        Self { stream, sealed, came: Vec::new() }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let Some(sealed) = &mut self.sealed else {
            return self.stream.write_all(bytes).expect("the target listens");
        };
        sealed.push_slice(bytes);
        self.stream.write_all(sealed.sealed()).expect("the target listens");
    }

    pub(crate) fn read(&mut self, room: &mut [u8]) {
        let Some(sealed) = &mut self.sealed else {
            return self.stream.read_exact(room).expect("the target answers");
        };
        let mut bytes = [0; 4096];
        sealed.deliver(|data| self.came.extend_from_slice(data));
        while self.came.len() < room.len() {
            let length = self.stream.read(&mut bytes).expect("the target answers");
            assert!(length > 0, "the target is gone");
            sealed.put(&bytes[..length], |data| self.came.extend_from_slice(data));
        }
        room.copy_from_slice(&self.came[..room.len()]);
        self.came.drain(..room.len());
    }
}
