//! A target that follows a script instead of a specification, and a host's loop around one queue.

pub(crate) mod controller;

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use engine::initiator::{
    Completion, Data, Ended, HostIdentity, InitiatorError, Queue, QueueOptions, QueueState, Request,
};
use engine::limits::RECEIVE_LENGTH;
use engine::ring::{Engine, Event as RingEvent, Readiness, Ring, RingOptions};
use nvme::fabrics::Connect;
use nvme::io::IoCommand;
use nvme::tcp::digest::crc32c;
use nvme::tcp::{
    Chunk, DataPdu, Digests, Event, PduType, ReadyToTransfer, Receiver, Role, Transmitter, flags, negotiate,
};
use nvme::{CompletionEntry, Status, SubmissionEntry};
use prerequisite::{Wait, patience};

use crate::raw_host::read_some;

/// The target's end of one connection.
pub(crate) struct Fake {
    pub(crate) stream: TcpStream,
    pub(crate) digests: Digests,
    alignment: u8,
    receiver: Receiver,
    pub(crate) transmitter: Transmitter<usize>,
    payloads: Vec<Vec<u8>>,
    input: Vec<u8>,
}

/// Runs `script` as the target of one connection, after the handshake of a queue when `handshake` is set.
pub(crate) fn target(
    data_to_controller_max: u32,
    script: impl FnOnce(&mut Fake) + Send + 'static,
) -> (SocketAddr, JoinHandle<()>) {
    raw_target(move |fake| {
        fake.handshake(data_to_controller_max);
        script(fake);
    })
}

/// The same, without the handshake.
pub(crate) fn raw_target(script: impl FnOnce(&mut Fake) + Send + 'static) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        script(&mut Fake::new(stream));
    });
    (address, thread)
}

impl Fake {
    fn new(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(patience())).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            digests: Digests::default(),
            alignment: 4,
            receiver: Receiver::new(Role::Controller, 1 << 20),
            transmitter: Transmitter::new(16),
            payloads: Vec::new(),
            input: Vec::new(),
        }
    }

    /// ICReq and ICResp, Connect and its completion.
    pub(crate) fn handshake(&mut self, data_to_controller_max: u32) {
        self.handshake_aligned(data_to_controller_max, 4);
    }

    /// The same, where data has to begin at multiples of this number of bytes (CPDA).
    pub(crate) fn handshake_aligned(&mut self, data_to_controller_max: u32, alignment: u8) {
        self.handshake_with_result(data_to_controller_max, alignment, 5);
    }

    /// The same, where Connect has this result. Returns the identifier of the queue.
    pub(crate) fn handshake_with_result(
        &mut self,
        data_to_controller_max: u32,
        alignment: u8,
        result: u64,
    ) -> u16 {
        let Some(Event::Initialize(request)) = self.next() else { panic!("ICReq comes first") };
        let (mut response, agreed) = negotiate(&request, data_to_controller_max).unwrap();
        response.data_alignment = alignment / 4 - 1;
        self.alignment = alignment;
        self.transmitter.initialize(&response);
        self.send();
        self.digests = agreed.digests;
        self.receiver.set_digests(agreed.digests);
        self.transmitter.set_digests(agreed.digests);
        let (entry, data) = self.command();
        assert_eq!(data.len(), 1024, "Connect carries its data");
        let connect = Connect::decode(&entry);
        assert_eq!(connect.record_format, 0);
        self.complete(&entry, Status::SUCCESS, result);
        connect.queue_id
    }

    /// The next event; `None` at the end of the stream.
    pub(crate) fn next(&mut self) -> Option<Event> {
        loop {
            let mut rest = &self.input[..];
            let event = self.receiver.next(&mut rest).expect("a host sends no nonsense");
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

    fn fill(&mut self) -> bool {
        let mut room = [0; 65536];
        let received = read_some(&mut self.stream, &mut room).unwrap_or(0);
        self.input.extend_from_slice(&room[..received]);
        received > 0
    }

    /// The data of the event that was just taken.
    pub(crate) fn data(&mut self) -> Vec<u8> {
        let mut data = Vec::new();
        loop {
            let mut rest = &self.input[..];
            data.extend_from_slice(self.receiver.take_data(&mut rest, usize::MAX));
            let event = self.receiver.next(&mut rest).unwrap();
            let used = self.input.len() - rest.len();
            self.input.drain(..used);
            match event {
                Some(Event::DataEnd { digest_matches: true }) => return data,
                Some(event) => panic!("{event:?}"),
                None if self.receiver.data_left() > 0 && !self.input.is_empty() => {}
                None => assert!(self.fill(), "data ends early"),
            }
        }
    }

    /// The next command and its in-capsule data.
    pub(crate) fn command(&mut self) -> (SubmissionEntry, Vec<u8>) {
        match self.next() {
            Some(Event::Command { entry, data_length: 0 }) => (entry, Vec::new()),
            Some(Event::Command { entry, .. }) => (entry, self.data()),
            other => panic!("a command, not {other:?}"),
        }
    }

    pub(crate) fn complete(&mut self, entry: &SubmissionEntry, status: Status, result: u64) {
        self.transmitter.response(CompletionEntry::new(entry.command_id.get(), status, result, 0));
        self.send();
    }

    /// Queues data for the host.
    pub(crate) fn c2h(&mut self, command_id: u16, flags: u8, offset: usize, bytes: &[u8]) {
        let pdu = DataPdu::new(PduType::DataToHost, flags, command_id, 0, offset as u32, bytes.len() as u32);
        let crc = crc32c(bytes);
        self.payloads.push(bytes.to_vec());
        self.transmitter.data(pdu, self.payloads.len() - 1, 0..bytes.len(), Some(crc));
    }

    /// Asks for data and takes it: all PDUs up to the one with LAST.
    pub(crate) fn ask(
        &mut self,
        entry: &SubmissionEntry,
        tag: u16,
        offset: u32,
        length: u32,
    ) -> Vec<(usize, Vec<u8>)> {
        let command_id = entry.command_id.get();
        self.transmitter.ready_to_transfer(ReadyToTransfer::new(command_id, tag, offset, length));
        self.send();
        let mut pieces = Vec::new();
        loop {
            let Some(Event::Data(pdu)) = self.next() else { panic!("data was asked for") };
            assert_eq!((pdu.command_id.get(), pdu.transfer_tag.get()), (command_id, tag));
            assert_eq!(pdu.common.data_offset % self.alignment, 0, "data begins where the target wants it");
            pieces.push((pdu.offset.get() as usize, self.data()));
            if pdu.common.flags & flags::LAST != 0 {
                return pieces;
            }
        }
    }

    /// True if the event that was just taken has data.
    pub(crate) fn has_data(&self) -> bool {
        self.receiver.data_left() > 0
    }

    /// Sends what is queued.
    pub(crate) fn send(&mut self) {
        let bytes = self.take_bytes();
        let _ = self.stream.write_all(&bytes);
    }

    /// Takes what is queued, to be sent in another way.
    pub(crate) fn take_bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in self.transmitter.chunks() {
            match part {
                Chunk::Bytes(part) => bytes.extend_from_slice(part),
                Chunk::Payload { payload, start, end } => {
                    bytes.extend_from_slice(&self.payloads[*payload][start..end]);
                }
            }
        }
        self.transmitter.advance(bytes.len(), |_| ());
        bytes
    }

    /// Waits for the host's termination request: its fatal error status.
    pub(crate) fn terminated(&mut self) -> Option<u16> {
        loop {
            match self.next() {
                Some(Event::Terminate { error, .. }) => return Some(error),
                Some(_) => {
                    if self.has_data() {
                        self.data();
                    }
                }
                None => return None,
            }
        }
    }
}

/// A host with one queue.
pub(crate) struct Host {
    pub(crate) ring: Ring,
    pub(crate) queue: Queue,
    scratch: Vec<u8>,
}

/// An I/O queue of 32 entries that takes 8 KiB in a capsule.
pub(crate) fn queue_options(address: SocketAddr) -> QueueOptions {
    QueueOptions {
        transport: engine::transport::Transport::Tcp,
        congestion: None,
        address,
        secrets: None,
        tls: None,
        concat: None,
        host_traddr: None,
        host_iface: None,
        tos: None,
        tclass: None,
        source_ports: Vec::new(),
        digests: Digests::default(),
        queue_id: 1,
        entries: 32,
        host: HostIdentity::from_nqn("nqn.2014-08.org.example:host"),
        subsystem_nqn: "nqn.2014-08.org.example:fake".to_owned(),
        controller_id: 5,
        keep_alive_ms: 0,
        connect_timeout: patience(),
        command_timeout: patience(),
        in_capsule_length: 8192,
        takes_key_updates: false,
        disable_flow_control: true,
        send_buffer: None,
        receive_buffer: None,
    }
}

impl Host {
    pub(crate) fn open(engine: Engine, options: &QueueOptions) -> Self {
        let mut ring = Ring::new(RingOptions { engine, poll_us_max: 0 }).unwrap();
        let queue = Queue::open(&mut ring, 3, options).unwrap();
        Self { ring, queue, scratch: vec![0; RECEIVE_LENGTH] }
    }

    /// A host whose queue is live.
    pub(crate) fn live(engine: Engine, options: &QueueOptions) -> Self {
        let mut host = Self::open(engine, options);
        host.run(|queue| queue.state() == QueueState::Live);
        host
    }

    /// Turns the loop until `done`.
    pub(crate) fn run(&mut self, done: impl Fn(&Queue) -> bool) {
        let wait = Wait::begin("the queue gets there");
        while !done(&self.queue) {
            wait.check();
            self.turn();
        }
    }

    /// Does one turn of the loop that the queue's documentation describes.
    fn turn(&mut self) {
        self.queue.flush(&mut self.ring);
        let now = self.ring.now();
        let deadline =
            self.queue.next_deadline().map_or(Duration::from_millis(100), |moment| moment.since(now));
        let timeout = if self.queue.has_more() { Duration::ZERO } else { deadline };
        let mut events = Vec::new();
        self.ring.wait(Some(timeout), &mut events).unwrap();
        if self.queue.has_more() {
            self.queue.on_ready(&mut self.ring, &mut self.scratch, Readiness::READABLE);
        }
        for event in events {
            match event {
                RingEvent::Ready { token: 3, readiness } => {
                    self.queue.on_ready(&mut self.ring, &mut self.scratch, readiness);
                }
                RingEvent::Woken => self.queue.on_woken(&mut self.ring),
                _ => {}
            }
        }
        let now = self.ring.now();
        self.queue.on_time(&mut self.ring, now);
    }

    pub(crate) fn submit(&mut self, command: IoCommand, data: Data, user: u64) {
        self.queue.submit(Request { entry: command.encode(1), data, user }).expect("there is a slot");
    }

    /// Waits for all commands to be answered.
    pub(crate) fn completions(&mut self) -> Vec<Completion> {
        self.run(|queue| queue.outstanding() == 0);
        std::iter::from_fn(|| self.queue.pop()).map(|ended| ended.answer().expect("an answer")).collect()
    }

    /// Waits for the one command to end.
    pub(crate) fn completion(&mut self) -> Completion {
        let mut completions = self.completions();
        assert_eq!(completions.len(), 1, "one command was outstanding");
        completions.remove(0)
    }

    /// Waits for the queue to close; what came back.
    pub(crate) fn closed(&mut self) -> (InitiatorError, Vec<Ended>) {
        self.run(|queue| queue.state() == QueueState::Closed);
        let ended = std::iter::from_fn(|| self.queue.pop()).collect();
        (self.queue.error().unwrap().clone(), ended)
    }
}
