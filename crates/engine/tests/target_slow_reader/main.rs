//! Memory of a target whose hosts ask for as much as they may and read nothing: four hundred megabytes of log pages by a stranger,
//! as many of reservation reports by a host, and refusals without end by connections that are not queues. Others are served
//! meanwhile, and a host that reads in the end gets all of it. A process of its own, whose memory no other test changes.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use engine::backend::BackendConfig;
use engine::limits::{
    ADMIN_QUEUE_ENTRIES_MAX, BUFFER_LENGTH_MAX, CONNECTION_BUFFER_BYTES_MAX, HALF_OPEN_SEND_BYTES_MAX,
};
use engine::target::{
    FabricConfig, NamespaceConfig, PortConfig, Reactors, SubsystemConfig, Target, TargetConfig,
};
use nvme::command::admin_opcode;
use nvme::discovery::DISCOVERY_NQN;
use nvme::fabrics::{CONTROLLER_ID_ANY, Connect, ConnectData, PropertyAccess, configuration, property};
use nvme::io::IoCommand;
use nvme::log_page::{LogPageId, LogPageRequest};
use nvme::tcp::{Chunk, CommonHeader, Digests, Initialize, PduType, Transmitter};
use nvme::{CompletionEntry, SglDescriptor, SubmissionEntry};
use prerequisite::patience;
use zerocopy::{FromBytes as _, IntoBytes as _};

const NQN: &str = "nqn.2014-08.org.example:test";
/// Commands of a burst, of a megabyte each: a queue may have twice as many as its entries.
const COMMANDS: u16 = 400;
/// Entries of each queue.
const ENTRIES: u16 = ADMIN_QUEUE_ENTRIES_MAX;
/// Bytes of a PDU's header before its data.
const HEADER_BYTES: usize = 24;
/// Connections that are not queues.
const HALF_OPEN: usize = 16;
/// Kilobytes of each beside the answers that may wait when more commands are taken: those to one receive, and the connection.
const CONNECTION_KB: usize = 256;
/// Rounds of the reactor, at least, after which it has done what it will.
const ROUNDS: usize = 50;
/// Kilobytes beside answers: connections, and what an allocator keeps.
const MORE_KB: usize = 16 << 10;

const _: () = assert!(ENTRIES < COMMANDS && COMMANDS < 2 * ENTRIES);

/// The most memory that this process has had, in kB.
fn peak_kb() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The bytes of what `queue` puts into a send list; the payload is `data`.
fn frame(queue: impl FnOnce(&mut Transmitter<()>), data: &[u8]) -> Vec<u8> {
    let mut transmitter = Transmitter::new(1);
    queue(&mut transmitter);
    let mut bytes = Vec::new();
    for part in transmitter.chunks() {
        match part {
            Chunk::Bytes(part) => bytes.extend_from_slice(part),
            Chunk::Payload { start, end, .. } => bytes.extend_from_slice(&data[start..end]),
        }
    }
    bytes
}

/// A queue of a host, which reads when the test says so.
struct Queue {
    stream: TcpStream,
    controller_id: u16,
}

impl Queue {
    /// A connection that is not a queue yet.
    fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(patience())).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut queue = Self { stream, controller_id: CONTROLLER_ID_ANY };
        let request = Initialize::new(PduType::InitializeRequest, Digests::default().bits(), 0);
        queue.send(&frame(|transmitter| transmitter.initialize(&request), &[]));
        queue.read_pdu();
        queue
    }

    /// Connects a queue of a subsystem; an I/O queue of the controller with this identifier.
    fn connect(
        address: SocketAddr,
        (host, subsystem): (&str, &str),
        (queue_id, controller_id): (u16, u16),
    ) -> Self {
        let mut queue = Self::open(address);
        let connect = Connect {
            record_format: 0,
            queue_id,
            queue_size: ENTRIES - 1,
            attributes: Connect::DISABLE_FLOW_CONTROL,
            keep_alive_ms: 0,
        };
        // Each name has an identifier of its own.
        let data = ConnectData::new([host.len() as u8; 16], controller_id, subsystem, host);
        queue.controller_id = queue.run(connect.encode(), data.as_bytes()) as u16;
        queue
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    fn read_pdu(&mut self) -> Vec<u8> {
        let mut pdu = vec![0; size_of::<CommonHeader>()];
        self.stream.read_exact(&mut pdu).unwrap();
        let (header, _) = CommonHeader::read_from_prefix(&pdu).unwrap();
        let length = header.pdu_length.get() as usize;
        pdu.resize(length, 0);
        self.stream.read_exact(&mut pdu[size_of::<CommonHeader>()..]).unwrap();
        pdu
    }

    /// Does a command with data in its capsule, or without data; its result.
    fn run(&mut self, mut entry: SubmissionEntry, data: &[u8]) -> u64 {
        if !data.is_empty() {
            entry.data = SglDescriptor::in_capsule(data.len() as u32);
        }
        let payload = (!data.is_empty()).then_some(((), data.len(), 0));
        self.send(&frame(|transmitter| transmitter.command(entry, payload), data));
        let pdu = self.read_pdu();
        let completion = CompletionEntry::read_from_bytes(&pdu[size_of::<CommonHeader>()..]).unwrap();
        assert!(completion.status().is_success(), "{}", completion.status());
        completion.result()
    }

    /// Sends this number of the same command, which asks for this number of bytes.
    fn ask(&mut self, entry: &SubmissionEntry, commands: u16, length: usize) {
        let mut bytes = Vec::new();
        for command_id in 0..commands {
            let mut entry = *entry;
            entry.command_id = command_id.into();
            entry.data = SglDescriptor::transport(length as u32);
            bytes.extend(frame(|transmitter| transmitter.command(entry, None), &[]));
        }
        self.send(&bytes);
    }

    /// Has a command answered, for which the only reactor has at least one round.
    fn round(&mut self) {
        self.ask(&log_page(LogPageId::SUPPORTED_LOG_PAGES, 4096), 1, 4096);
        self.read(1, 4096);
    }

    /// Reads the answers to commands that have asked for this number of bytes each.
    fn read(&mut self, commands: u16, length: usize) {
        for number in 0..commands {
            let pdu = self.read_pdu();
            assert_eq!(pdu[0], PduType::DataToHost as u8, "answer {number}");
            assert_eq!(pdu.len(), HEADER_BYTES + length, "answer {number}");
        }
    }
}

fn log_page(id: LogPageId, length: usize) -> SubmissionEntry {
    let mut entry = SubmissionEntry::new(admin_opcode::GET_LOG_PAGE, 0);
    let [cdw10, cdw11, cdw12, cdw13, cdw14] = LogPageRequest::new(id, 0, length as u64).encode();
    (entry.cdw10, entry.cdw11, entry.cdw12) = (cdw10.into(), cdw11.into(), cdw12.into());
    (entry.cdw13, entry.cdw14) = (cdw13.into(), cdw14.into());
    entry
}

/// Has `slow` ask for a burst, while `other` has its own commands answered; the kilobytes that the process had more at most.
fn burst(slow: &mut Queue, other: &mut Queue, entry: &SubmissionEntry) -> usize {
    let before = peak_kb();
    slow.ask(entry, COMMANDS, BUFFER_LENGTH_MAX);
    (0..ROUNDS).for_each(|_| other.round());
    let grown = peak_kb() - before;
    slow.read(COMMANDS, BUFFER_LENGTH_MAX);
    grown
}

/// Has connections that are not queues send commands, each of which is refused, until nothing more is taken; the kilobytes that
/// the process had more at most.
fn refusals(address: SocketAddr, other: &mut Queue) -> usize {
    let before = peak_kb();
    let keep_alive = SubmissionEntry::new(admin_opcode::KEEP_ALIVE, 0);
    let commands = frame(|transmitter| transmitter.command(keep_alive, None), &[]).repeat(4096);
    let mut strangers: Vec<(TcpStream, usize)> =
        (0..HALF_OPEN).map(|_| (Queue::open(address).stream, 0)).collect();
    strangers.iter().for_each(|(stream, _)| stream.set_nonblocking(true).unwrap());
    let mut rounds_without = 0;
    while rounds_without < ROUNDS {
        rounds_without += 1;
        for (stream, at) in &mut strangers {
            // Where the last call has stopped, which may be amid a command.
            while let Ok(length @ 1..) = stream.write(&commands[*at..]) {
                *at = (*at + length) % commands.len();
                rounds_without = 0;
            }
        }
        other.round();
    }
    peak_kb() - before
}

#[test]
fn answers_that_their_host_does_not_read_take_little_memory_and_come_when_it_reads() {
    let namespace = NamespaceConfig::new(1, BackendConfig::Memory { size: 1 << 20 }, 4096);
    let subsystem = SubsystemConfig::new(NQN, "1", "test").with(vec![namespace]);
    let ports = vec![PortConfig::new(1, "127.0.0.1:0".parse().unwrap())];
    let fabric = FabricConfig { ports, subsystems: vec![subsystem], ..FabricConfig::default() };
    let config = TargetConfig { fabric, reactors: Reactors::Count(1), ..TargetConfig::default() };
    let target = Target::start(&config).unwrap();
    let address = target.ports()[0];
    let any = (0, CONTROLLER_ID_ANY);
    let mut other = Queue::connect(address, ("nqn.2014-08.org.example:other", NQN), any);

    let mut stranger = Queue::connect(address, ("nqn.2014-08.org.example:stranger", DISCOVERY_NQN), any);
    let grown = burst(&mut stranger, &mut other, &log_page(LogPageId::DISCOVERY, BUFFER_LENGTH_MAX));
    println!("log pages: {grown} kB more at most");
    assert!(grown < MORE_KB, "{grown} kB");

    let grown = refusals(address, &mut other);
    println!("refusals: {grown} kB more at most");
    assert!(grown < HALF_OPEN * (HALF_OPEN_SEND_BYTES_MAX / 1024 + CONNECTION_KB), "{grown} kB");

    let names = ("nqn.2014-08.org.example:host", NQN);
    let mut host = Queue::connect(address, names, any);
    let enabled =
        configuration::ENABLE | configuration::SUBMISSION_ENTRY_SIZE | configuration::COMPLETION_ENTRY_SIZE;
    let enable = PropertyAccess { offset: property::CONFIGURATION, wide: false, value: enabled.into() };
    host.run(enable.encode_set(), &[]);
    let mut queue = Queue::connect(address, names, (1, host.controller_id));
    let report = IoCommand::ReservationReport { dwords: BUFFER_LENGTH_MAX as u32 / 4, extended: true };
    let grown = burst(&mut queue, &mut other, &report.encode(1));
    println!("reservation reports: {grown} kB more at most");
    assert!(grown < CONNECTION_BUFFER_BYTES_MAX / 1024 + MORE_KB, "{grown} kB");
}
