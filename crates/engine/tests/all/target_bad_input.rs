//! Bytes that no conforming host sends end that connection alone, with the error the specification
//! names for them.

use std::io::{ErrorKind, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use crate::raw_host::{
    Client, ENGINES, Give, Host, Kind, Options, Random, SPACES, Space, TestTarget, assert_status, pattern,
    read_some,
};
use engine::limits::{ADMIN_IN_CAPSULE_LENGTH_MAX, IN_CAPSULE_LENGTH_MAX};
use nvme::command::{admin_opcode, io_opcode};
use nvme::fabrics::{CONTROLLER_ID_ANY, PropertyAccess, property};
use nvme::io::IoCommand;
use nvme::tcp::{
    DataPdu, Digests, Event, FatalError, Initialize, PduType, ReadyToTransfer, Terminate, flags,
};
use nvme::{SglDescriptor, Status, SubmissionEntry};
use prerequisite::{Wait, wait_until};
use zerocopy::IntoBytes;

const PLAIN: Digests = Digests { header: false, data: false };
const BOTH: Digests = Digests { header: true, data: true };
/// Entries of the queues that are misused.
const ENTRIES: u16 = 4;
/// Offsets in the common header.
const FLAGS: usize = 1;
const HEADER_LENGTH: usize = 2;
const DATA_OFFSET: usize = 3;
const PDU_LENGTH: usize = 4;

/// State of a connection when it is misused.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Opened,
    Initialized,
    Admin,
    Queue(Digests),
}

/// Bytes to send: the faulty PDU, and the information that has to come back with the error.
type Make = fn(&mut Client) -> (Vec<u8>, u32);

/// A way to break the rules.
struct Case {
    name: &'static str,
    stage: Stage,
    error: FatalError,
    make: Make,
}

const fn case(name: &'static str, stage: Stage, error: FatalError, make: Make) -> Case {
    Case { name, stage, error, make }
}

fn initialize(change: impl FnOnce(&mut Initialize)) -> Vec<u8> {
    let mut request = Initialize::new(PduType::InitializeRequest, 0, 0);
    change(&mut request);
    request.as_bytes().to_vec()
}

fn read_command() -> SubmissionEntry {
    let mut entry = IoCommand::Read { start: 0, blocks: 1, force_unit_access: false }.encode(1);
    entry.data = SglDescriptor::transport(512);
    entry
}

/// A command capsule without data, with one byte of the common header replaced.
fn command_with(client: &mut Client, at: usize, value: u8) -> Vec<u8> {
    let mut bytes = client.frame_command(read_command(), &[]);
    bytes[at] = value;
    bytes
}

/// A write capsule with 4 KiB of data, with one byte of the common header replaced.
fn write_with(client: &mut Client, at: usize, value: u8) -> Vec<u8> {
    let mut bytes = write_of(client, 4096);
    bytes[at] = value;
    bytes
}

fn write_of(client: &mut Client, length: usize) -> Vec<u8> {
    let blocks = length as u32 / 512;
    let mut entry = IoCommand::Write { start: 0, blocks, force_unit_access: false }.encode(1);
    entry.data = SglDescriptor::in_capsule(length as u32);
    client.frame_command(entry, &pattern(length, 1))
}

/// Begins a write of 16 KiB whose data the target asks for.
fn begin_write(client: &mut Client) -> ReadyToTransfer {
    client.answers = false;
    let command = IoCommand::Write { start: 0, blocks: 32, force_unit_access: false };
    client.submit(command.encode(7), Give::Asked(&pattern(16 << 10, 2)));
    client.ready_to_transfer()
}

/// An H2CData PDU for a write that was begun, after `change`; `length` bytes of data really follow.
fn data_with(client: &mut Client, length: usize, change: impl FnOnce(&mut DataPdu)) -> Vec<u8> {
    let request = begin_write(client);
    let (id, tag) = (request.command_id.get(), request.transfer_tag.get());
    let mut pdu = DataPdu::new(PduType::DataToController, flags::LAST, id, tag, 0, length as u32);
    change(&mut pdu);
    client.frame_data(pdu, &pattern(length, 3))
}

const OPENING: [Case; 10] = [
    case("a command before ICReq", Stage::Opened, FatalError::PduSequence, |client| {
        (client.frame_command(read_command(), &[]), 0)
    }),
    case("data before ICReq", Stage::Opened, FatalError::PduSequence, |client| {
        let pdu = DataPdu::new(PduType::DataToController, flags::LAST, 0, 0, 0, 512);
        (client.frame_data(pdu, &[0; 512]), 0)
    }),
    case("an unknown type", Stage::Opened, FatalError::InvalidHeaderField, |_| {
        (initialize(|request| request.common.kind = 0x0b), 0)
    }),
    case("ICResp from a host", Stage::Opened, FatalError::InvalidHeaderField, |_| {
        (initialize(|request| request.common.kind = PduType::InitializeResponse as u8), 0)
    }),
    case("a short header length", Stage::Opened, FatalError::InvalidHeaderField, |_| {
        (initialize(|request| request.common.header_length = 127), HEADER_LENGTH as u32)
    }),
    case("a long PDU length", Stage::Opened, FatalError::InvalidHeaderField, |_| {
        (initialize(|request| request.common.pdu_length = 132.into()), PDU_LENGTH as u32)
    }),
    case("another format version", Stage::Opened, FatalError::UnsupportedParameter, |_| {
        (initialize(|request| request.format_version = 1.into()), 8)
    }),
    case("an alignment of more than 128 bytes", Stage::Opened, FatalError::UnsupportedParameter, |_| {
        (initialize(|request| request.data_alignment = 32), 10)
    }),
    case("a second ICReq", Stage::Initialized, FatalError::PduSequence, |_| (initialize(|_| {}), 0)),
    case("R2T from a host", Stage::Initialized, FatalError::InvalidHeaderField, |client| {
        let pdu = ReadyToTransfer::new(0, 0, 0, 512);
        (client.frame(|transmitter| transmitter.ready_to_transfer(pdu), &[]), 0)
    }),
];

const COMMANDS: [Case; 12] = [
    case("an unknown type", Stage::Queue(PLAIN), FatalError::InvalidHeaderField, |client| {
        (command_with(client, 0, 0x08), 0)
    }),
    case("no digest flag with digests", Stage::Queue(BOTH), FatalError::InvalidHeaderField, |client| {
        (command_with(client, FLAGS, 0), FLAGS as u32)
    }),
    case("a wrong header length", Stage::Queue(PLAIN), FatalError::InvalidHeaderField, |client| {
        (command_with(client, HEADER_LENGTH, 71), HEADER_LENGTH as u32)
    }),
    case("a PDU shorter than its header", Stage::Queue(PLAIN), FatalError::InvalidHeaderField, |client| {
        (command_with(client, PDU_LENGTH, 71), PDU_LENGTH as u32)
    }),
    case("a PDU of 4 GiB", Stage::Queue(PLAIN), FatalError::InvalidHeaderField, |client| {
        let mut bytes = write_of(client, 4096);
        bytes[PDU_LENGTH..PDU_LENGTH + 4].fill(0xff);
        (bytes, PDU_LENGTH as u32)
    }),
    case("data within the header", Stage::Queue(PLAIN), FatalError::InvalidHeaderField, |client| {
        (write_with(client, DATA_OFFSET, 68), DATA_OFFSET as u32)
    }),
    case("data at an odd offset", Stage::Queue(PLAIN), FatalError::InvalidHeaderField, |client| {
        (write_with(client, DATA_OFFSET, 74), DATA_OFFSET as u32)
    }),
    case("data where the digest is", Stage::Queue(BOTH), FatalError::InvalidHeaderField, |client| {
        (write_with(client, DATA_OFFSET, 72), DATA_OFFSET as u32)
    }),
    case("a wrong header digest", Stage::Queue(BOTH), FatalError::HeaderDigest, |client| {
        let mut bytes = client.frame_command(read_command(), &[]);
        bytes[74] ^= 1;
        let digest = u32::from_le_bytes(bytes[72..76].try_into().unwrap());
        (bytes, digest)
    }),
    case("a capsule over the limit", Stage::Queue(PLAIN), FatalError::TransferLimitExceeded, |client| {
        (write_of(client, IN_CAPSULE_LENGTH_MAX + 512), 0)
    }),
    case("an admin capsule over the limit", Stage::Admin, FatalError::TransferLimitExceeded, |client| {
        let mut entry = SubmissionEntry::new(admin_opcode::SET_FEATURES, 0);
        entry.data = SglDescriptor::in_capsule(ADMIN_IN_CAPSULE_LENGTH_MAX as u32 + 4);
        (client.frame_command(entry, &[0; ADMIN_IN_CAPSULE_LENGTH_MAX + 4]), 0)
    }),
    case("twice as many commands as entries", Stage::Queue(BOTH), FatalError::PduSequence, |client| {
        for _ in 0..2 * ENTRIES {
            begin_write(client);
        }
        let mut entry = IoCommand::Write { start: 0, blocks: 32, force_unit_access: false }.encode(7);
        entry.command_id = client.free_id().into();
        entry.data = SglDescriptor::transport(16 << 10);
        (client.frame_command(entry, &[]), 0)
    }),
];

const DATA: [Case; 9] = [
    case("data that was not asked for", Stage::Queue(PLAIN), FatalError::InvalidHeaderField, |client| {
        let pdu = DataPdu::new(PduType::DataToController, flags::LAST, 1, 1, 0, 512);
        (client.frame_data(pdu, &[0; 512]), 10)
    }),
    case("an unknown transfer tag", Stage::Queue(PLAIN), FatalError::InvalidHeaderField, |client| {
        (data_with(client, 16 << 10, |pdu| pdu.transfer_tag = 0xfffe.into()), 10)
    }),
    case("another command's identifier", Stage::Queue(PLAIN), FatalError::InvalidHeaderField, |client| {
        (data_with(client, 16 << 10, |pdu| pdu.command_id = 0x7777.into()), 8)
    }),
    case("a length that is not the data's", Stage::Queue(PLAIN), FatalError::InvalidHeaderField, |client| {
        (data_with(client, 16 << 10, |pdu| pdu.length = 4096.into()), 16)
    }),
    case("an offset past the end", Stage::Queue(PLAIN), FatalError::DataTransferOutOfRange, |client| {
        (data_with(client, 16 << 10, |pdu| pdu.offset = 512.into()), 0)
    }),
    case("an offset that wraps", Stage::Queue(BOTH), FatalError::DataTransferOutOfRange, |client| {
        (data_with(client, 16 << 10, |pdu| pdu.offset = (u32::MAX - 511).into()), 0)
    }),
    case("more data than asked for", Stage::Queue(PLAIN), FatalError::DataTransferOutOfRange, |client| {
        (data_with(client, 20 << 10, |_| {}), 0)
    }),
    case("data out of turn", Stage::Queue(PLAIN), FatalError::PduSequence, |client| {
        (data_with(client, 4096, |pdu| pdu.offset = (12 << 10).into()), 0)
    }),
    case("a PDU over MAXH2CDATA", Stage::Queue(PLAIN), FatalError::TransferLimitExceeded, |client| {
        (data_with(client, (1 << 20) + 512, |_| {}), 0)
    }),
];

/// Bystanders that must notice nothing: another queue of the same controller, and another host.
struct Bystanders {
    queues: Vec<(Client, Vec<u8>)>,
    _hosts: Vec<Host>,
}

const WATCHED: Space = SPACES[1];

impl Bystanders {
    fn new(host: &Host, address: SocketAddr) -> Self {
        let options = Options {
            host_nqn: "nqn.2014-08.org.example:other-host".to_owned(),
            host_id: [9; 16],
            ..Options::default()
        };
        let other = Host::connect_with(address, options);
        let mut queues = Vec::new();
        for (number, mut queue) in [host.io(1), other.io(1)].into_iter().enumerate() {
            let data = pattern(8192, 100 + number as u64);
            assert!(queue.write(WATCHED, 1000 + 8 * number as u64, &data, true).status.is_success());
            queues.push((queue, data));
        }
        Self { queues, _hosts: vec![other] }
    }

    fn check(&mut self, what: &str) {
        for (number, (queue, data)) in self.queues.iter_mut().enumerate() {
            let reply = queue.read(WATCHED, 1000 + 8 * number as u64, 2);
            assert!(reply.status.is_success() && reply.data == *data, "bystander {number} after {what}");
        }
    }
}

fn misuse(cases: &[Case]) {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        let address = target.address();
        let mut host = Host::connect_with(address, Options { entries: ENTRIES, ..Options::default() });
        let mut bystanders = Bystanders::new(&host, address);
        for (number, case) in cases.iter().enumerate() {
            let what = format!("{} ({:?}, {engine:?})", case.name, case.stage);
            let mut admin = None;
            let mut client = match case.stage {
                Stage::Opened => Client::open(address),
                Stage::Initialized => Client::initialized(address, PLAIN),
                Stage::Admin => {
                    let host = admin.insert(Host::connect(address));
                    std::mem::replace(&mut host.admin, Client::open(address))
                }
                Stage::Queue(digests) => {
                    host.options.digests = digests;
                    host.io(2 + number as u16)
                }
            };
            let (bytes, information) = (case.make)(&mut client);
            client.send(&bytes);
            // What follows it is never looked at.
            let behind = client.frame_command(read_command(), &[]);
            let _ = client.stream.write_all(&behind);
            let end = client.expect_termination();
            assert_eq!((end.error, end.information), (case.error as u16, information), "{what}");
            assert!(end.header.len() >= 8 && bytes.starts_with(&end.header), "{what}: its header comes back");
            bystanders.check(&what);
        }
    }
}

#[test]
fn a_faulty_opening_is_answered_with_its_error() {
    misuse(&OPENING);
}

#[test]
fn a_faulty_command_capsule_is_answered_with_its_error() {
    misuse(&COMMANDS);
}

#[test]
fn faulty_data_is_answered_with_its_error() {
    misuse(&DATA);
}

#[test]
fn a_termination_request_of_the_host_ends_the_connection_without_another() {
    for engine in ENGINES {
        let (target, host) = TestTarget::with_host(engine);
        let mut bystanders = Bystanders::new(&host, target.address());
        let mut queue = host.io(2);
        begin_write(&mut queue);
        let request = Terminate::new(PduType::HostTerminate, FatalError::HeaderDigest, 5, 0);
        queue.send(request.as_bytes());
        queue.expect_end();
        bystanders.check("H2CTermReq");
    }
}

#[test]
fn nothing_follows_a_termination_request_though_storage_is_still_at_work() {
    for engine in ENGINES {
        let (target, host) = TestTarget::with_host(engine);
        let mut bystanders = Bystanders::new(&host, target.address());
        for round in 0..20 {
            let mut queue = host.io(2 + round);
            // Reads of memory that fill the way to a host which does not read, reads of a file, and what ends it all.
            let mut bytes = Vec::new();
            for number in 0..30_u16 {
                let (nsid, blocks) = if number < 6 { (2, 256) } else { (8, 16) };
                let mut entry = IoCommand::Read { start: 0, blocks, force_unit_access: false }.encode(nsid);
                entry.command_id = number.into();
                entry.data = SglDescriptor::transport(blocks << 12);
                bytes.extend(queue.frame_command(entry, &[]));
            }
            bytes.extend(command_with(&mut queue, HEADER_LENGTH, 0));
            queue.send(&bytes);
            std::thread::sleep(Duration::from_millis(20));
            let end = queue.expect_termination();
            assert_eq!((end.error, end.information), (FatalError::InvalidHeaderField as u16, 2));
        }
        bystanders.check("storage outliving its connection");
    }
}

#[test]
fn a_terminated_connection_is_closed_though_its_host_stays() {
    for engine in ENGINES {
        let (target, _host) = TestTarget::with_host(engine);
        let before = target.connections();
        let mut client = Client::initialized(target.address(), PLAIN);
        wait_until("the connection is there", || target.connections() == before + 1);
        client.send(&initialize(|_| {}));
        client.expect_termination();
        wait_until("the target closes it", || target.connections() == before);
        // The host has its end open all the time.
        drop(client);
    }
}

#[test]
fn a_data_digest_mismatch_costs_the_command_only() {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        let digests = Digests { header: false, data: true };
        let mut host = Host::connect_with(target.address(), Options { digests, ..Options::default() });
        let mut queue = host.io(1);
        for space in SPACES {
            let good = pattern(16 << 10, 5);
            assert_eq!(queue.write(space, 0, &good, false).status, Status::SUCCESS);
            for opcode in [io_opcode::WRITE, io_opcode::COMPARE] {
                for pieces in [None, Some(1), Some(2)] {
                    let status = run_spoiled(&mut queue, space, opcode, pieces);
                    let what = format!("{engine:?} {space:?} opcode {opcode} in pieces: {pieces:?}");
                    assert_status(status, Status::TRANSIENT_TRANSPORT_ERROR, &what);
                    assert!(!status.is_do_not_retry(), "{what}: the same may succeed next time");
                    let reply = queue.read(space, 0, (16 << 10) / space.block);
                    assert_eq!(reply.status, Status::SUCCESS, "{what}: the connection goes on");
                    assert!(space.kind == Kind::Null || reply.data == good, "{what}: nothing was written");
                }
            }
        }
        spoiled_connect(&mut host);
    }
}

/// Sends a write or compare of other data, one byte of which is not what its digest says, in this number of pieces or in
/// the capsule.
fn run_spoiled(queue: &mut Client, space: Space, opcode: u8, pieces: Option<usize>) -> Status {
    let data = pattern(16 << 10, 6);
    let mut entry = IoCommand::Write { start: 0, blocks: (16 << 10) / space.block, force_unit_access: false }
        .encode(space.nsid);
    entry.opcode = opcode;
    let Some(pieces) = pieces else {
        entry.data = SglDescriptor::in_capsule(data.len() as u32);
        entry.command_id = queue.free_id().into();
        let mut bytes = queue.frame_command(entry, &data);
        bytes[100] ^= 0x80;
        queue.send(&bytes);
        return match queue.event() {
            Some(Event::Response(entry)) => entry.status(),
            other => panic!("a completion should come, not {other:?}"),
        };
    };
    queue.answers = false;
    queue.submit(entry, Give::Asked(&data));
    let request = queue.ready_to_transfer();
    let (id, tag) = (request.command_id.get(), request.transfer_tag.get());
    let length = data.len() / pieces;
    for (number, piece) in data.chunks(length).enumerate() {
        let last = if number + 1 == pieces { flags::LAST } else { 0 };
        let offset = (number * length) as u32;
        let pdu = DataPdu::new(PduType::DataToController, last, id, tag, offset, piece.len() as u32);
        let mut bytes = queue.frame_data(pdu, piece);
        if number == 0 {
            bytes[24] ^= 1;
        }
        queue.send(&bytes);
    }
    queue.answers = true;
    queue.wait().status
}

fn spoiled_connect(host: &mut Host) {
    let mut client = Client::initialized(host.address, host.options.digests);
    let (connect, data) = (host.options.connect(2), host.options.data(host.controller_id));
    let mut bytes = client.frame_command(connect.encode(), data.as_bytes());
    bytes[600] ^= 1;
    client.send(&bytes);
    match client.event() {
        Some(Event::Response(entry)) => {
            assert_status(entry.status(), Status::TRANSIENT_TRANSPORT_ERROR, "a spoiled Connect");
        }
        other => panic!("a completion should come, not {other:?}"),
    }
    assert_eq!(client.connect(&connect, &data).status, Status::SUCCESS, "the next one is whole");
}

/// The bytes of a well-behaved conversation, of which random ones will be changed.
fn conversation(host: &Host, random: &mut Random) -> Vec<u8> {
    let mut client = Client::open(host.address);
    let mut bytes = initialize(|_| {});
    let options = &host.options;
    let is_io = random.below(2) == 0;
    let (queue_id, controller_id) =
        if is_io { (3 + random.below(100) as u16, host.controller_id) } else { (0, CONTROLLER_ID_ANY) };
    let connect = options.connect(queue_id).encode();
    bytes.extend(client.frame_command(connect, options.data(controller_id).as_bytes()));
    let get = PropertyAccess { offset: property::STATUS, wide: false, value: 0 };
    let mut identify = SubmissionEntry::new(admin_opcode::IDENTIFY, 0);
    identify.cdw10 = 1.into();
    identify.data = SglDescriptor::transport(4096);
    for _ in 0..random.below(6) {
        let next = match random.below(4) {
            0 => client.frame_command(get.encode_get(), &[]),
            1 => client.frame_command(identify, &[]),
            2 => client.frame_command(read_command(), &[]),
            _ => write_of(&mut client, 4096),
        };
        bytes.extend(next);
    }
    bytes
}

#[test]
fn random_bytes_harm_no_bystander() {
    const CONNECTIONS: usize = 2000;
    let mut random = Random::seeded("random bytes");
    for engine in ENGINES {
        let (target, mut host) = TestTarget::with_host(engine);
        let mut bystanders = Bystanders::new(&host, target.address());
        let before = target.connections();
        for number in 0..CONNECTIONS {
            let bytes = if random.below(3) == 0 {
                let length = random.below(400) as usize;
                random.bytes(length)
            } else {
                let mut bytes = conversation(&host, &mut random);
                for _ in 0..random.below(4) {
                    // Headers are the more interesting part: most changes go to the front.
                    let reach = if random.below(2) == 0 { bytes.len() } else { 220 };
                    let at = random.below(reach as u64) as usize;
                    bytes[at] = random.next() as u8;
                }
                bytes.truncate(1 + random.below(bytes.len() as u64 * 2) as usize);
                bytes
            };
            let mut client = Client::open(target.address());
            // The target may have ended the connection already.
            let _ = client.stream.write_all(&bytes);
            if random.below(4) == 0 {
                let _ = client.stream.shutdown(Shutdown::Write);
            }
            drop(client);
            if number % 250 == 0 {
                bystanders.check("random bytes");
            }
        }
        wait_until("the connections are gone", || target.connections() == before);
        bystanders.check("all random bytes");
        assert!(host.admin.property(property::STATUS, false).status.is_success());
        assert!(Host::connect(target.address()).io(1).read(WATCHED, 0, 1).status.is_success());
    }
}

/// Bytes that a host that never finishes its Connect has sent so far.
const UNFINISHED: [&str; 4] = ["nothing", "ICReq", "half a Connect", "a byte now and then"];

#[test]
fn who_never_finishes_its_connect_is_closed() {
    std::thread::scope(|scope| {
        for engine in ENGINES {
            scope.spawn(move || {
                let (target, _host, mut queue) = TestTarget::with_queue(engine);
                std::thread::scope(|scope| {
                    for what in UNFINISHED {
                        let address = target.address();
                        scope.spawn(move || dawdle(address, what));
                    }
                });
                assert!(queue.read(WATCHED, 0, 1).status.is_success(), "who did finish stays");
            });
        }
    });
}

fn dawdle(address: SocketAddr, what: &str) {
    let mut client = Client::open(address);
    if what == "ICReq" || what == "half a Connect" {
        client.initialize(PLAIN);
    }
    if what == "half a Connect" {
        let options = Options::default();
        let data = options.data(CONTROLLER_ID_ANY);
        let bytes = client.frame_command(options.connect(0).encode(), data.as_bytes());
        client.send(&bytes[..bytes.len() / 2]);
    }
    client.stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let slowly = initialize(|_| {});
    let mut left = slowly.iter();
    let wait = Wait::begin(what);
    loop {
        wait.check();
        if what == "a byte now and then"
            && let Some(byte) = left.next()
            && client.stream.write_all(&[*byte]).is_err()
        {
            return;
        }
        match read_some(&mut client.stream, &mut [0; 64]) {
            Ok(0) => return,
            Ok(_) => panic!("there is nothing to say to {what}"),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
            Err(error) => panic!("{error}"),
        }
    }
}
