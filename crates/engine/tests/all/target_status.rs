//! Commands that cannot be done get the status that says why, and cost nothing but themselves.

use crate::raw_host::admin::{abort, seen};
use crate::raw_host::{
    Client, ENGINES, Give, Host, Options, Reply, SPACES, Space, TestTarget, assert_status, pattern,
};
use engine::limits::{ADMIN_QUEUE_ENTRIES_MAX, ASYNC_EVENTS_MAX, NAMESPACES_MAX, QUEUE_ENTRIES_MAX};
use engine::target::{Peculiarity, SubsystemConfig};
use nvme::command::{admin_opcode, io_opcode};
use nvme::discovery::DISCOVERY_NQN;
use nvme::fabrics::{
    CONTROLLER_ID_ANY, Connect, ConnectData, InvalidParameter, PropertyAccess, configuration,
    controller_status, disconnect, property,
};
use nvme::features::{FeatureId, Select, value};
use nvme::identify::{Cns, CommandSet, IdentifyRequest, NSID_ALL};
use nvme::io::{IoCommand, encode_ranges};
use nvme::log_page::{LogPageId, LogPageRequest};
use nvme::tcp::Digests;
use nvme::{SglDescriptor, Status, SubmissionEntry};
use prerequisite::wait_until;
use zerocopy::IntoBytes;

const LOCKED_NQN: &str = "nqn.2014-08.org.example:locked";
const OTHER_HOST: &str = "nqn.2014-08.org.example:other-host";

fn start(engine: engine::ring::Engine) -> TestTarget {
    TestTarget::start_with(engine, |config| {
        config.fabric.subsystems.push(SubsystemConfig {
            allow_any_host: false,
            hosts: vec![OTHER_HOST.to_owned()],
            ..crate::raw_host::subsystem(LOCKED_NQN, Vec::new())
        });
    })
}

fn read(start: u64, blocks: u32) -> IoCommand {
    IoCommand::Read { start, blocks, force_unit_access: false }
}

fn write(start: u64, blocks: u32) -> IoCommand {
    IoCommand::Write { start, blocks, force_unit_access: false }
}

fn zeroes(start: u64, blocks: u32, deallocate: bool) -> IoCommand {
    IoCommand::WriteZeroes { start, blocks, force_unit_access: false, deallocate }
}

/// The queue works, and what was in the first blocks still is.
fn still_works(queue: &mut Client, space: Space, what: &str) {
    let reply = queue.read(space, 0, 8192 / space.block);
    assert_eq!(reply.status, Status::SUCCESS, "after {what}");
}

#[test]
fn invalid_commands_get_the_reason() {
    for engine in ENGINES {
        let target = start(engine);
        for digests in [Digests::default(), Digests { header: true, data: true }] {
            let host = Host::connect_with(target.address(), Options { digests, ..Options::default() });
            let mut queue = host.io(1);
            for space in SPACES {
                for opcode in [0x03, 0x06, 0x0f, 0x7e, 0x80, 0xff] {
                    let reply = queue.run(SubmissionEntry::new(opcode, space.nsid), Give::Nothing);
                    assert_status(reply.status, Status::INVALID_OPCODE, &format!("opcode {opcode:#x}"));
                    assert!(reply.status.is_do_not_retry());
                }
                outside(&mut queue, space);
                too_large(&mut queue, space);
                wrong_pointer(&mut queue, space);
                wrong_fields(&mut queue, space);
            }
            for nsid in [0, 5, 6, 9, NAMESPACES_MAX, NAMESPACES_MAX + 1, NSID_ALL - 1, NSID_ALL] {
                for command in [read(0, 1), write(0, 1), IoCommand::Flush, zeroes(0, 1, false)] {
                    let reply = queue.run(command.encode(nsid), Give::Room(512));
                    let what = format!("{command:?} on namespace {nsid}");
                    assert_status(reply.status, Status::INVALID_NAMESPACE, &what);
                }
            }
            still_works(&mut queue, SPACES[0], "invalid namespaces");
        }
    }
}

/// Blocks that are not there, also where a sum does not fit into 64 bits.
fn outside(queue: &mut Client, space: Space) {
    let end = space.blocks();
    let places =
        [(end, 1), (end - 1, 2), (end - 7, 8), (1 << 52, 1), (1 << 55, 8), (u64::MAX, 1), (u64::MAX - 3, 8)];
    for (start, blocks) in places {
        let data = vec![0xaa; blocks as usize * space.block as usize];
        let length = data.len() as u32;
        for (command, give) in [
            (read(start, blocks), Give::Room(length)),
            (write(start, blocks), Give::Asked(&data)),
            (zeroes(start, blocks, false), Give::Nothing),
            (zeroes(start, blocks, true), Give::Nothing),
            (IoCommand::Compare { start, blocks }, Give::Asked(&data)),
        ] {
            let reply = queue.run(command.encode(space.nsid), give);
            assert_status(reply.status, Status::LBA_OUT_OF_RANGE, &format!("{command:?} on {space:?}"));
            assert_eq!(reply.asked, 0, "its data is not asked for");
        }
        if data.len() <= 16 << 10 {
            let reply = queue.run(write(start, blocks).encode(space.nsid), Give::Capsule(&data));
            assert_status(reply.status, Status::LBA_OUT_OF_RANGE, "in the capsule");
        }
        let ranges = encode_ranges(&[(0, 0), (start, blocks)]);
        let command = IoCommand::DatasetManagement { ranges: 2, deallocate: true };
        for give in [Give::Capsule(&ranges), Give::Asked(&ranges)] {
            let reply = queue.run(command.encode(space.nsid), give);
            assert_status(reply.status, Status::LBA_OUT_OF_RANGE, &format!("a range of {space:?}"));
        }
    }
    still_works(queue, space, "blocks outside");
}

/// More than the limits that Identify tells.
fn too_large(queue: &mut Client, space: Space) {
    let blocks = (1 << 20) / space.block + 1;
    for command in [read(0, blocks), write(0, blocks), IoCommand::Compare { start: 0, blocks }] {
        let reply = queue.run(command.encode(space.nsid), Give::Room(blocks * space.block));
        assert_status(reply.status, Status::INVALID_FIELD, &format!("{command:?} on {space:?}"));
        assert_eq!(reply.asked, 0);
    }
    still_works(queue, space, "too large a transfer");
}

fn wrong_pointer(queue: &mut Client, space: Space) {
    let block = space.block;
    let data = pattern(2 * block as usize, 1);
    let kind = |kind: u8, length: u32| {
        let mut descriptor = SglDescriptor::transport(length);
        descriptor.kind = kind;
        descriptor
    };
    let mut offset = SglDescriptor::in_capsule(block);
    offset.address = 16.into();
    let one = &data[..block as usize];
    for (command, descriptor, capsule, expected) in [
        (read(0, 1), SglDescriptor::transport(block - 4), &[][..], Status::DATA_SGL_LENGTH_INVALID),
        (read(0, 1), SglDescriptor::transport(0), &[], Status::DATA_SGL_LENGTH_INVALID),
        (read(0, 1), SglDescriptor::in_capsule(block), &[], Status::SGL_TYPE_INVALID),
        (read(0, 1), kind(0x40, block), &[], Status::SGL_TYPE_INVALID),
        (read(0, 1), kind(0x00, block), &[], Status::SGL_TYPE_INVALID),
        (write(0, 2), SglDescriptor::in_capsule(block), one, Status::DATA_SGL_LENGTH_INVALID),
        (write(0, 1), SglDescriptor::in_capsule(2 * block), one, Status::DATA_SGL_LENGTH_INVALID),
        (write(0, 1), SglDescriptor::in_capsule(block), &data, Status::DATA_SGL_LENGTH_INVALID),
        (write(0, 1), SglDescriptor::transport(block), one, Status::DATA_SGL_LENGTH_INVALID),
        (write(0, 1), SglDescriptor::transport(block - 1), &[], Status::DATA_SGL_LENGTH_INVALID),
        (write(0, 1), kind(0x20, block), &[], Status::SGL_TYPE_INVALID),
        (write(0, 1), offset, one, Status::SGL_OFFSET_INVALID),
    ] {
        let mut entry = command.encode(space.nsid);
        entry.data = descriptor;
        let reply = queue.run(entry, Give::AsIs(capsule));
        let what = format!("{command:?} with {descriptor:?} and {} bytes on {space:?}", capsule.len());
        assert_status(reply.status, expected, &what);
    }
    for flags in [0x00, 0x80, 0xc0] {
        let mut entry = read(0, 1).encode(space.nsid);
        entry.flags = flags;
        let reply = queue.run(entry, Give::Room(block));
        assert_status(reply.status, Status::INVALID_FIELD, "a data pointer that is not an SGL");
    }
    still_works(queue, space, "wrong data pointers");
}

fn wrong_fields(queue: &mut Client, space: Space) {
    // A write can only be the second of a pair, and its first has failed already.
    let failed = Status::ABORTED_FAILED_FUSED;
    for (fused, expected) in [(1, Status::INVALID_FIELD), (2, failed), (3, Status::INVALID_FIELD)] {
        let mut entry = write(0, 1).encode(space.nsid);
        entry.flags |= fused;
        let reply = queue.run(entry, Give::Room(space.block));
        assert_status(reply.status, expected, "a fused command");
    }
    for entry in
        [PropertyAccess { offset: 0, wide: true, value: 0 }.encode_get(), Connect::encode(&connect(3))]
    {
        let reply = queue.run(entry, Give::AsIs(&[]));
        assert_status(reply.status, Status::INVALID_OPCODE, "a Fabrics command of the admin queue");
    }
    still_works(queue, space, "wrong fields");
}

fn connect(queue_id: u16) -> Connect {
    Options::default().connect(queue_id)
}

/// SPDK's hosts before 26.05 ask for 65,536 blocks, whatever the limit.
#[test]
fn write_zeroes_beyond_its_limit_are_done_and_counted() {
    const BLOCKS: u64 = 1 << 16;
    for engine in ENGINES {
        let target = TestTarget::start_with(engine, |config| {
            for namespace in &mut config.fabric.subsystems[0].namespaces {
                if let engine::backend::BackendConfig::Memory { size } = &mut namespace.backend
                    && namespace.nsid == SPACES[1].nsid
                {
                    *size = (BLOCKS + 1) * 4096;
                }
            }
        });
        let host = Host::connect(target.address());
        let (mut queue, space) = (host.io(1), SPACES[1]);
        let reply = queue.run(zeroes(0, 8192, true).encode(space.nsid), Give::Nothing);
        assert_eq!(reply.status, Status::SUCCESS, "32 MiB are the limit");
        assert_eq!(seen(&target, Peculiarity::LongWriteZeroes), 0);
        let data = pattern(4096, 3);
        for deallocate in [false, true] {
            for block in [0, 8192, BLOCKS - 1, BLOCKS] {
                assert_eq!(queue.write(space, block, &data, true).status, Status::SUCCESS);
            }
            let reply = queue.run(zeroes(0, 1 << 16, deallocate).encode(space.nsid), Give::Nothing);
            assert_eq!(reply.status, Status::SUCCESS, "256 MiB");
            for block in [0, 8192, BLOCKS - 1] {
                assert_eq!(queue.read(space, block, 1).data, [0; 4096], "block {block}");
            }
            assert_eq!(queue.read(space, BLOCKS, 1).data, data, "the block behind them");
        }
        assert_eq!(seen(&target, Peculiarity::LongWriteZeroes), 1, "one connection");
    }
}

#[test]
fn io_needs_an_enabled_controller() {
    for engine in ENGINES {
        let target = start(engine);
        let mut host = Host::connect_admin(target.address(), Options::default());
        assert_status(host.try_io(1).1.status, Status::CONNECT_CONTROLLER_BUSY, "before CC.EN");
        host.enable();
        let mut queue = host.io(1);
        still_works(&mut queue, SPACES[0], "enabling");
        // A normal shutdown: the queue ends, and none comes in its place.
        let enabled = host.admin.property(property::CONFIGURATION, false).result;
        let value = enabled | u64::from(configuration::SHUTDOWN_NORMAL);
        assert_eq!(host.admin.set_property(property::CONFIGURATION, value).status, Status::SUCCESS);
        wait_until("the shutdown is complete", || {
            let status = host.admin.property(property::STATUS, false).result as u32;
            status & controller_status::SHUTDOWN_MASK == controller_status::SHUTDOWN_COMPLETE
        });
        queue.expect_end();
        assert_status(host.try_io(2).1.status, Status::CONNECT_CONTROLLER_BUSY, "after shutdown");
        // A configuration that cannot be is a fatal status, and no enabled controller.
        let mut host = Host::connect_admin(target.address(), Options::default());
        let value = configuration::ENABLE | 3 << configuration::PAGE_SIZE_SHIFT;
        assert_eq!(host.admin.set_property(property::CONFIGURATION, value.into()).status, Status::SUCCESS);
        let status = host.admin.property(property::STATUS, false).result as u32;
        assert_eq!(status, controller_status::FATAL);
    }
}

#[test]
fn the_first_command_is_connect() {
    for engine in ENGINES {
        let target = start(engine);
        let data = pattern(512, 1);
        let get = PropertyAccess { offset: property::STATUS, wide: false, value: 0 };
        for (entry, give) in [
            (read(0, 1).encode(1), Give::Room(512)),
            (write(0, 1).encode(1), Give::Capsule(&data)),
            (write(0, 1).encode(1), Give::Asked(&data)),
            (IoCommand::Flush.encode(1), Give::Nothing),
            (SubmissionEntry::new(admin_opcode::IDENTIFY, 0), Give::Room(4096)),
            (SubmissionEntry::new(admin_opcode::KEEP_ALIVE, 0), Give::Nothing),
            (SubmissionEntry::new(admin_opcode::ASYNC_EVENT_REQUEST, 0), Give::Nothing),
            (get.encode_get(), Give::Nothing),
            (disconnect(), Give::Nothing),
        ] {
            let mut client = Client::initialized(target.address(), Digests::default());
            let reply = client.run(entry, give);
            assert_status(reply.status, Status::COMMAND_SEQUENCE_ERROR, &format!("{entry:?}"));
            let options = Options::default();
            let reply = client.connect(&options.connect(0), &options.data(CONTROLLER_ID_ANY));
            assert_eq!(reply.status, Status::SUCCESS, "Connect is still possible");
            let reply = client.connect(&options.connect(0), &options.data(CONTROLLER_ID_ANY));
            assert_status(reply.status, Status::COMMAND_SEQUENCE_ERROR, "a second Connect");
        }
    }
}

/// Sends one Connect on a connection of its own.
fn try_connect(target: &TestTarget, connect: &Connect, data: &ConnectData) -> Reply {
    Client::initialized(target.address(), Digests::default()).connect(connect, data)
}

#[track_caller]
fn refused(reply: &Reply, parameter: InvalidParameter, what: &str) {
    assert_eq!(reply.status, Status::CONNECT_INVALID_PARAMETERS.do_not_retry(), "{what}");
    assert_eq!(InvalidParameter::decode(reply.result as u32), parameter, "{what}");
}

/// The same, where the host may come again with another controller.
#[track_caller]
fn refused_now(reply: &Reply, parameter: InvalidParameter, what: &str) {
    assert_eq!(reply.status, Status::CONNECT_INVALID_PARAMETERS, "{what}");
    assert_eq!(InvalidParameter::decode(reply.result as u32), parameter, "{what}");
}

#[test]
fn a_refused_admin_connect_says_where_the_fault_is() {
    for engine in ENGINES {
        let target = start(engine);
        let options = Options::default();
        let good = options.data(CONTROLLER_ID_ANY);
        let (long, bell) = (format!("nqn.{}", "x".repeat(240)), "nqn.2014-08.org.example:\x07bell");
        for name in ["nqn.2014-08.org.example:missing", "", "no name", &long, bell] {
            let data = ConnectData::new([7; 16], CONTROLLER_ID_ANY, name, &options.host_nqn);
            refused(&try_connect(&target, &connect(0), &data), InvalidParameter::SUBSYSTEM_NQN, name);
            // Of its own for each name: a host that has just gone may still be there.
            let host_id = [1 + (name.len() % 200) as u8; 16];
            let data = ConnectData::new(host_id, CONTROLLER_ID_ANY, crate::raw_host::NQN, name);
            let reply = try_connect(&target, &connect(0), &data);
            if name == long || name == bell {
                refused(&reply, InvalidParameter::HOST_NQN, name);
            } else {
                assert_eq!(reply.status, Status::SUCCESS, "any host may connect");
            }
            let data = ConnectData::new([7; 16], CONTROLLER_ID_ANY, LOCKED_NQN, name);
            if name != long && name != bell {
                let reply = try_connect(&target, &connect(0), &data);
                assert_status(reply.status, Status::CONNECT_INVALID_HOST, "who is not on the list may not");
            }
        }
        for bytes in [[0xff; 256], [b'n'; 256]] {
            let mut data = good;
            data.host_nqn = bytes;
            refused(&try_connect(&target, &connect(0), &data), InvalidParameter::HOST_NQN, "garbage");
            data = good;
            data.subsystem_nqn = bytes;
            refused(&try_connect(&target, &connect(0), &data), InvalidParameter::SUBSYSTEM_NQN, "garbage");
        }
        let data = ConnectData::new([7; 16], CONTROLLER_ID_ANY, LOCKED_NQN, &options.host_nqn);
        let before = target.target().status().refusals["not_allowed"];
        assert!(before > 0, "others were not on it either");
        let reply = try_connect(&target, &connect(0), &data);
        assert_status(reply.status, Status::CONNECT_INVALID_HOST, "a host that is not on the list");
        assert_eq!(target.target().status().refusals["not_allowed"], before + 1);
        let before = target.target().status().refusals["unknown_subsystem"];
        let data = ConnectData::new([7; 16], CONTROLLER_ID_ANY, "nqn.2026-01.org.example:typo", OTHER_HOST);
        refused(
            &try_connect(&target, &connect(0), &data),
            InvalidParameter::SUBSYSTEM_NQN,
            "no such subsystem",
        );
        assert_eq!(target.target().status().refusals["unknown_subsystem"], before + 1);
        let data = ConnectData::new([7; 16], CONTROLLER_ID_ANY, LOCKED_NQN, OTHER_HOST);
        assert_eq!(try_connect(&target, &connect(0), &data).status, Status::SUCCESS, "one that is");
        for queue_size in [0, ADMIN_QUEUE_ENTRIES_MAX, u16::MAX] {
            let wrong = Connect { queue_size, ..connect(0) };
            refused(&try_connect(&target, &wrong, &good), InvalidParameter::QUEUE_SIZE, "queue size");
        }
        let largest = Connect { queue_size: ADMIN_QUEUE_ENTRIES_MAX - 1, ..connect(0) };
        assert_eq!(try_connect(&target, &largest, &good).status, Status::SUCCESS, "the largest queue");
        for id in [0, 1, 0xfffe] {
            let reply = try_connect(&target, &connect(0), &options.data(id));
            refused(&reply, InvalidParameter::CONTROLLER_ID, "a static controller");
        }
        for record_format in [1, 0xffff] {
            let reply = try_connect(&target, &Connect { record_format, ..connect(0) }, &good);
            assert_status(reply.status, Status::CONNECT_INCOMPATIBLE_FORMAT, "record format");
        }
        let mut client = Client::initialized(target.address(), Digests::default());
        let reply = client.run(connect(0).encode(), Give::Capsule(&good.as_bytes()[..1020]));
        assert_status(reply.status, Status::DATA_SGL_LENGTH_INVALID, "data too short");
        assert_eq!(client.connect(&connect(0), &good).status, Status::SUCCESS, "then as it should be");
    }
}

#[test]
fn a_refused_io_connect_says_where_the_fault_is() {
    for engine in ENGINES {
        let target = start(engine);
        let host = Host::connect(target.address());
        let (options, id) = (host.options.clone(), host.controller_id);
        let good = options.data(id);
        for other in [id + 1, 0, CONTROLLER_ID_ANY] {
            let reply = try_connect(&target, &connect(1), &options.data(other));
            refused_now(&reply, InvalidParameter::CONTROLLER_ID, "no such controller");
        }
        let data = ConnectData::new([7; 16], id, DISCOVERY_NQN, &options.host_nqn);
        let reply = try_connect(&target, &connect(1), &data);
        refused_now(&reply, InvalidParameter::CONTROLLER_ID, "a controller of another subsystem");
        let data = ConnectData::new([7; 16], id, crate::raw_host::NQN, OTHER_HOST);
        let reply = try_connect(&target, &connect(1), &data);
        refused_now(&reply, InvalidParameter::HOST_NQN, "another host's controller");
        for queue_size in [0, QUEUE_ENTRIES_MAX, u16::MAX] {
            let wrong = Connect { queue_size, ..connect(1) };
            refused(&try_connect(&target, &wrong, &good), InvalidParameter::QUEUE_SIZE, "queue size");
        }
        for queue_id in [129, 1000, u16::MAX] {
            let reply = try_connect(&target, &connect(queue_id), &good);
            refused(&reply, InvalidParameter::QUEUE_ID, "a queue that no controller has");
        }
        let record = Connect { record_format: 1, ..connect(1) };
        let reply = try_connect(&target, &record, &good);
        assert_status(reply.status, Status::CONNECT_INCOMPATIBLE_FORMAT, "record format");
        let mut queue = host.io(1);
        let reply = try_connect(&target, &connect(1), &good);
        assert_eq!(reply.status, Status::COMMAND_SEQUENCE_ERROR, "a queue twice, for now");
        still_works(&mut queue, SPACES[0], "a second Connect for the queue");
        let largest = Connect { queue_size: QUEUE_ENTRIES_MAX - 1, ..connect(128) };
        assert_eq!(try_connect(&target, &largest, &good).status, Status::SUCCESS, "the last, and largest");
        let discovery = Options { subsystem_nqn: DISCOVERY_NQN.to_owned(), ..options };
        let host = Host::connect_admin(target.address(), discovery);
        let reply = try_connect(&target, &connect(1), &host.options.data(host.controller_id));
        refused(&reply, InvalidParameter::QUEUE_ID, "an I/O queue of a discovery controller");
    }
}

#[test]
fn unknown_properties_are_invalid_fields() {
    for engine in ENGINES {
        let target = start(engine);
        let mut host = Host::connect(target.address());
        let admin = &mut host.admin;
        for (offset, wide) in [
            (property::CAPABILITIES, false),
            (property::VERSION, true),
            (property::CONFIGURATION, true),
            (property::STATUS, true),
            (property::SUBSYSTEM_RESET, false),
            (0x0c, false),
            (0x1000, false),
            (u32::MAX, true),
        ] {
            let reply = admin.property(offset, wide);
            assert_status(reply.status, Status::INVALID_FIELD, &format!("get of {offset:#x}, wide {wide}"));
        }
        let mut entry = PropertyAccess { offset: property::STATUS, wide: false, value: 0 }.encode_get();
        entry.cdw10 = 2.into();
        assert_status(admin.run(entry, Give::Nothing).status, Status::INVALID_FIELD, "16 bytes");
        for (offset, wide) in [
            (property::CAPABILITIES, true),
            (property::STATUS, false),
            (property::VERSION, false),
            (property::CONFIGURATION, true),
            (0x40, false),
        ] {
            let entry = PropertyAccess { offset, wide, value: 1 }.encode_set();
            let reply = admin.run(entry, Give::Nothing);
            assert_status(reply.status, Status::INVALID_FIELD, &format!("set of {offset:#x}, wide {wide}"));
        }
        let status = admin.property(property::STATUS, false).result as u32;
        assert_eq!(status, controller_status::READY, "nothing has changed");
    }
}

#[test]
fn invalid_admin_commands_get_the_reason() {
    for engine in ENGINES {
        let target = start(engine);
        let mut host = Host::connect(target.address());
        let admin = &mut host.admin;
        for opcode in [0x00, 0x01, 0x04, 0x05, 0x0d, 0x10, 0x14, 0x7c, 0x80, 0xc0, 0xff] {
            let reply = admin.run(SubmissionEntry::new(opcode, 0), Give::Nothing);
            assert_status(reply.status, Status::INVALID_OPCODE, &format!("opcode {opcode:#x}"));
        }
        let reply = admin.run(SubmissionEntry::new(io_opcode::FLUSH, 1), Give::Nothing);
        assert_status(reply.status, Status::INVALID_OPCODE, "an I/O command");
        let reply = admin.run(disconnect(), Give::Nothing);
        assert_status(reply.status, Status::INVALID_QUEUE_TYPE, "Disconnect belongs to I/O queues");
        let unknown = SubmissionEntry::new(admin_opcode::FABRICS, 0x3f);
        assert_status(admin.run(unknown, Give::Nothing).status, Status::INVALID_OPCODE, "a Fabrics type");
        let mut prp = SubmissionEntry::new(admin_opcode::IDENTIFY, 0);
        (prp.flags, prp.cdw10) = (0, 1.into());
        assert_status(admin.run(prp, Give::Room(4096)).status, Status::INVALID_FIELD, "PRP instead of SGL");
        let mut nowhere = SubmissionEntry::new(admin_opcode::IDENTIFY, 0);
        nowhere.cdw10 = 1.into();
        let reply = admin.run(nowhere, Give::Room(0));
        assert_status(reply.status, Status::DATA_SGL_LENGTH_INVALID, "Identify without room");
        let reply = admin.run(nowhere, Give::Capsule(&[0; 64]));
        assert_status(reply.status, Status::DATA_SGL_LENGTH_INVALID, "Identify with data");
        invalid_identifies(admin);
        invalid_log_pages(admin);
        let abort = abort(1, 1);
        let reply = admin.run(abort, Give::Nothing);
        assert_eq!((reply.status, reply.result & 1), (Status::SUCCESS, 1), "nothing there to abort");
    }
}

fn invalid_identifies(admin: &mut Client) {
    for cns in [0x04, 0x09, 0x14, 0x15, 0x17, 0x18, 0x19, 0x1d, 0x30, 0xff] {
        let reply = admin.identify(0, IdentifyRequest::new(Cns(cns)));
        assert_status(reply.status, Status::INVALID_FIELD, &format!("CNS {cns:#x}"));
    }
    for cns in [Cns::COMMAND_SET_NAMESPACE, Cns::COMMAND_SET_CONTROLLER] {
        let request = IdentifyRequest { command_set: CommandSet::ZONED, ..IdentifyRequest::new(cns) };
        assert_status(admin.identify(1, request).status, Status::INVALID_FIELD, "another command set");
    }
    for (cns, nsid) in [
        (Cns::NAMESPACE, 0),
        (Cns::NAMESPACE, 4097),
        (Cns::NAMESPACE_DESCRIPTORS, 0),
        (Cns::NAMESPACE_DESCRIPTORS, 5),
        (Cns::NAMESPACE_DESCRIPTORS, NSID_ALL),
        (Cns::INDEPENDENT_NAMESPACE, 0),
        (Cns::ATTACHED_CONTROLLER_LIST, 5),
        (Cns::ACTIVE_NAMESPACE_LIST, NSID_ALL),
        (Cns::ACTIVE_NAMESPACE_LIST, NSID_ALL - 1),
    ] {
        let reply = admin.identify(nsid, IdentifyRequest::new(cns));
        assert_status(reply.status, Status::INVALID_NAMESPACE, &format!("{cns:?} of namespace {nsid}"));
    }
}

fn invalid_log_pages(admin: &mut Client) {
    for id in [0x06, 0x0d, 0x70, 0x81, 0xc0, 0xff] {
        let reply = admin.log_page(&LogPageRequest::new(LogPageId(id), 0, 512));
        assert_status(reply.status, Status::INVALID_LOG_PAGE, &format!("log page {id:#x}"));
    }
    let smart = LogPageRequest::new(LogPageId::SMART, 0, 512);
    for wrong in [
        LogPageRequest { offset: 516, ..smart },
        LogPageRequest { offset: 2, ..smart },
        LogPageRequest { offset: u64::MAX - 3, ..smart },
        LogPageRequest { offset_is_index: true, ..smart },
        LogPageRequest::new(LogPageId::SMART, 0, (1 << 20) + 4),
    ] {
        assert_status(admin.log_page(&wrong).status, Status::INVALID_FIELD, &format!("{wrong:?}"));
    }
}

#[test]
fn invalid_features_get_the_reason() {
    for engine in ENGINES {
        let target = start(engine);
        let mut host = Host::connect(target.address());
        let queue = host.io(1);
        let admin = &mut host.admin;
        for id in [0x00, 0x03, 0x0c, 0x19, 0x80, 0xff].map(FeatureId) {
            let reply = admin.get_feature(id, Select::Current, 0, 0);
            assert_status(reply.status, Status::INVALID_FIELD, &format!("get of {id:?}"));
            let reply = admin.set_feature(id, 0, false, Give::Nothing);
            assert_status(reply.status, Status::INVALID_FIELD, &format!("set of {id:?}"));
        }
        let reply = admin.set_feature(FeatureId::ARBITRATION, 0, true, Give::Nothing);
        assert_status(reply.status, Status::FEATURE_NOT_SAVEABLE, "saving");
        let reply = admin.set_feature(FeatureId::VOLATILE_WRITE_CACHE, 0, false, Give::Nothing);
        assert_status(reply.status, Status::FEATURE_NOT_CHANGEABLE, "the write cache");
        for (id, wrong) in
            [(FeatureId::POWER_MANAGEMENT, 1), (FeatureId::ERROR_RECOVERY, value::DEALLOCATED_ERROR)]
        {
            let reply = admin.set_feature(id, wrong, false, Give::Nothing);
            assert_status(reply.status, Status::INVALID_FIELD, &format!("{id:?}"));
        }
        let reply = admin.set_feature(FeatureId::TIMESTAMP, 0, false, Give::Capsule(&[0; 4]));
        assert_status(reply.status, Status::DATA_SGL_LENGTH_INVALID, "half a timestamp");
        let reply = admin.get_feature(FeatureId::HOST_IDENTIFIER, Select::Current, 0, 16);
        assert_status(reply.status, Status::INVALID_FIELD, "a host identifier of 64 bits");
        let reply = admin.set_feature(FeatureId::NUMBER_OF_QUEUES, 0x0003_0003, false, Give::Nothing);
        assert_status(reply.status, Status::COMMAND_SEQUENCE_ERROR, "there are queues already");
        drop(queue);
        wait_until("the queue is gone", || {
            admin
                .set_feature(FeatureId::NUMBER_OF_QUEUES, 0x0003_0003, false, Give::Nothing)
                .status
                .is_success()
        });
        let reply = admin.set_feature(FeatureId::NUMBER_OF_QUEUES, 0xffff_ffff, false, Give::Nothing);
        assert_status(reply.status, Status::INVALID_FIELD, "65,536 queues");
    }
}

#[test]
fn there_is_a_limit_to_events_that_wait() {
    for engine in ENGINES {
        let target = start(engine);
        let mut host = Host::connect(target.address());
        let entry = SubmissionEntry::new(admin_opcode::ASYNC_EVENT_REQUEST, 0);
        for _ in 0..ASYNC_EVENTS_MAX {
            host.admin.submit(entry, Give::Nothing);
        }
        for _ in 0..3 {
            let id = host.admin.submit(entry, Give::Nothing);
            let reply = host.admin.wait();
            assert_eq!(reply.command_id, id, "only the one too many is answered");
            assert_status(reply.status, Status::ASYNC_EVENT_LIMIT_EXCEEDED, "one too many");
        }
        let keep_alive = SubmissionEntry::new(admin_opcode::KEEP_ALIVE, 0);
        assert_eq!(host.admin.run(keep_alive, Give::Nothing).status, Status::SUCCESS, "others go on");
        assert_eq!(host.admin.outstanding(), ASYNC_EVENTS_MAX);
    }
}
