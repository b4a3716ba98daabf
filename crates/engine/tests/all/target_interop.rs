//! Differences of other hosts are accepted where they do no harm, and counted.

use crate::raw_host::admin::{identify_controller, seen, set_features};
use crate::raw_host::{
    Client, ENGINES, Give, Host, Kind, Options, Reply, SPACES, Space, TestTarget, assert_status, pattern,
};
use engine::ring::Engine;
use engine::target::Peculiarity;
use nvme::command::admin_opcode;
use nvme::discovery::DISCOVERY_NQN;
use nvme::fabrics::{CONTROLLER_ID_ANY, Connect, ConnectData};
use nvme::features::{AsyncEventConfig, FeatureId, NumberOfQueues, Select};
use nvme::identify::bits::sgl_support;
use nvme::io::{IoCommand, encode_ranges};
use nvme::log_page::LogPageId;
use nvme::reservation::{AcquireAction, PersistenceChange, RegisterAction, ReservationType};
use nvme::tcp::{DataPdu, Digests, Initialize, PduType, flags};
use nvme::{SglDescriptor, Status, SubmissionEntry};
use zerocopy::IntoBytes;

/// A descriptor of no length and this type.
fn nothing(kind: u8) -> SglDescriptor {
    let mut descriptor = SglDescriptor::transport(0);
    descriptor.kind = kind;
    descriptor
}

/// SPDK's host describes the data that these commands do not have as a block of no length in the capsule.
#[test]
fn a_command_without_data_may_describe_it_as_it_likes() {
    for engine in ENGINES {
        let (target, mut host) = TestTarget::with_host(engine);
        let queues = NumberOfQueues::pairs(std::num::NonZero::new(2).unwrap()).encode();
        for kind in [0x00, 0x01, 0x10, 0x40, 0x5a, 0xff] {
            for entry in [
                set_features(FeatureId::NUMBER_OF_QUEUES, queues),
                set_features(FeatureId::ASYNC_EVENT_CONFIG, AsyncEventConfig::NAMESPACE_ATTRIBUTE),
                SubmissionEntry::new(admin_opcode::KEEP_ALIVE, 0),
            ] {
                let entry = SubmissionEntry { data: nothing(kind), ..entry };
                let reply = host.admin.run(entry, Give::AsIs(&[]));
                assert_eq!(reply.status, Status::SUCCESS, "opcode {:02x}h, type {kind:02x}h", entry.opcode);
            }
            let identify = SubmissionEntry { data: nothing(kind), ..identify_controller() };
            let reply = host.admin.run(identify, Give::AsIs(&[]));
            assert_status(reply.status, Status::DATA_SGL_LENGTH_INVALID, "what has data needs room for it");
        }
        // However often, it is one connection.
        assert_eq!(seen(&target, Peculiarity::EmptyDescriptor), 1);
        assert_eq!(target.target().status().peculiarities.get("empty_descriptor"), Some(&1));
        let mut queue = host.io(2);
        assert!(queue.read(SPACES[0], 0, 1).status.is_success());
        Host::connect(target.address());
        assert_eq!(seen(&target, Peculiarity::EmptyDescriptor), 1, "the usual host does nothing of it");
    }
}

const DIGESTS: [Digests; 2] = [Digests { header: false, data: false }, Digests { header: true, data: true }];

/// A write of `blocks` blocks from the first on, with this descriptor.
fn write(space: Space, blocks: u32, data: SglDescriptor) -> SubmissionEntry {
    let command = IoCommand::Write { start: 0, blocks, force_unit_access: false };
    SubmissionEntry { data, ..command.encode(space.nsid) }
}

fn expect(client: &mut Client, space: Space, data: &[u8], what: &str) {
    let reply = client.read(space, 0, data.len() as u32 / space.block);
    let same = space.kind == Kind::Null || reply.data == data;
    assert!(reply.status.is_success() && same, "{what} on {space:?}");
}

/// Identify Controller says that offsets are supported (SGLS bit 20), so they are.
#[test]
fn data_in_the_capsule_may_begin_behind_other_bytes() {
    for (engine, digests) in ENGINES.into_iter().flat_map(|engine| DIGESTS.map(|digests| (engine, digests))) {
        let target = TestTarget::start(engine);
        let mut host = Host::connect_with(target.address(), Options { digests, ..Options::default() });
        let identify = host.admin.identified_controller();
        assert_ne!(identify.sgl_support.get() & sgl_support::OFFSET, 0);
        let mut queue = host.io(1);
        for (number, space) in SPACES.into_iter().enumerate() {
            for offset in [1, 4, 16, 512, 4095] {
                let data = pattern(2 * space.block as usize, u64::from(offset) + 100 * number as u64);
                let mut capsule = pattern(offset as usize, 1);
                capsule.extend_from_slice(&data);
                let mut entry = write(space, 2, SglDescriptor::in_capsule_at(offset, data.len() as u32));
                let reply = queue.run(entry, Give::AsIs(&capsule));
                assert_eq!(reply.status, Status::SUCCESS, "{space:?}, offset {offset}");
                expect(&mut queue, space, &data, "what begins behind the offset is written");
                // The same in pieces, as a network may bring it.
                let data = pattern(data.len(), u64::from(offset) + 1000);
                capsule[offset as usize..].copy_from_slice(&data);
                entry.command_id = 0x7777.into();
                let bytes = queue.frame_command(entry, &capsule);
                queue.expect_reply_to(0x7777);
                for piece in bytes.chunks(bytes.len() / 3) {
                    queue.send(piece);
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                assert_eq!(queue.wait().status, Status::SUCCESS, "{space:?}, offset {offset}, in pieces");
                expect(&mut queue, space, &data, "what came in pieces");
            }
        }
        // An admin command, and Connect itself.
        let mut timestamp = set_features(FeatureId::TIMESTAMP, 0);
        timestamp.data = SglDescriptor::in_capsule_at(8, 8);
        let time = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4, 5, 0, 0, 0];
        assert_eq!(host.admin.run(timestamp, Give::AsIs(&time)).status, Status::SUCCESS);
        let found = host.admin.get_feature(FeatureId::TIMESTAMP, Select::Current, 0, 8);
        assert_eq!(found.data[1..6], [2, 3, 4, 5, 0], "the lowest byte goes on");
        let mut entry = host.options.connect(2).encode();
        entry.data = SglDescriptor::in_capsule_at(64, 1024);
        let capsule = [&[0xee; 64], host.options.data(host.controller_id).as_bytes()].concat();
        let mut client = Client::initialized(target.address(), digests);
        assert_eq!(client.run(entry, Give::AsIs(&capsule)).status, Status::SUCCESS);
        assert!(client.read(SPACES[0], 0, 1).status.is_success(), "the queue works");
    }
}

#[test]
fn data_that_does_not_end_with_its_capsule_is_refused() {
    for engine in ENGINES {
        let (_target, host) = TestTarget::with_host(engine);
        let (mut queue, space) = (host.io(1), SPACES[0]);
        let before = pattern(512, 3);
        assert!(queue.write(space, 0, &before, true).status.is_success());
        let outside = [(16, 512, 512), (512, 512, 512), (u32::MAX, 512, 512), (16384, 512, 16384)];
        let unlike = [(16, 512, 1024), (0, 512, 1024), (0, 1024, 512)];
        for (cases, expected) in
            [(&outside[..], Status::SGL_OFFSET_INVALID), (&unlike[..], Status::DATA_SGL_LENGTH_INVALID)]
        {
            for &(offset, length, capsule) in cases {
                let entry = write(space, 1, SglDescriptor::in_capsule_at(offset, length));
                let reply = queue.run(entry, Give::AsIs(&vec![0xbb; capsule]));
                assert_status(reply.status, expected, &format!("{length} bytes at {offset} of {capsule}"));
            }
        }
        let mut far = SglDescriptor::in_capsule(512);
        far.address = (1_u64 << 32).into();
        let reply = queue.run(write(space, 1, far), Give::AsIs(&[0xbb; 512]));
        assert_status(reply.status, Status::SGL_OFFSET_INVALID, "an offset of 4 GiB is not one of 0");
        expect(&mut queue, space, &before, "nothing of it is written");
    }
}

/// A host may describe more room than a command needs (SGLS bit 18): one block is read into a page.
#[test]
fn a_descriptor_may_be_longer_than_the_data() {
    for (engine, digests) in ENGINES.into_iter().flat_map(|engine| DIGESTS.map(|digests| (engine, digests))) {
        let target = TestTarget::start(engine);
        let mut host = Host::connect_with(target.address(), Options { digests, ..Options::default() });
        let identify = host.admin.identified_controller();
        assert_ne!(identify.sgl_support.get() & sgl_support::OVERSIZE, 0);
        let mut queue = host.io(1);
        for (number, space) in SPACES.into_iter().enumerate() {
            let block = space.block as usize;
            let data = pattern(block + 3584, 10 + number as u64);
            for (entry, give) in [
                (write(space, 1, SglDescriptor::in_capsule(data.len() as u32)), Give::AsIs(&data[..])),
                (write(space, 1, SglDescriptor::default()), Give::Asked(&data)),
            ] {
                assert!(queue.write(space, 0, &pattern(2 * block, 77), true).status.is_success());
                let reply = queue.run(entry, give);
                assert_eq!(reply.status, Status::SUCCESS, "{space:?}");
                let mut expected = data[..block].to_vec();
                expected.extend_from_slice(&pattern(2 * block, 77)[block..]);
                expect(&mut queue, space, &expected, "a block is written and no more");
            }
            let read = IoCommand::Read { start: 0, blocks: 1, force_unit_access: false };
            let reply = queue.run(read.encode(space.nsid), Give::Room(1 << 20));
            assert_eq!((reply.status, reply.data.len()), (Status::SUCCESS, block), "a block is read");
            // Linux always sends the largest list of ranges there can be.
            let mut ranges = encode_ranges(&[(0, 1)]);
            ranges.resize(4096, 0xff);
            let discard = IoCommand::DatasetManagement { ranges: 1, deallocate: true }.encode(space.nsid);
            for give in [Give::Capsule(&ranges), Give::Asked(&ranges)] {
                assert_eq!(queue.run(discard, give).status, Status::SUCCESS, "{space:?}");
            }
        }
        let reply = host.admin.run(identify_controller(), Give::Room(8192));
        assert_eq!((reply.status, reply.data.len()), (Status::SUCCESS, 4096));
    }
}

fn connects(target: &TestTarget, connect: &Connect, data: &ConnectData) -> Reply {
    Client::initialized(target.address(), Digests::default()).connect(connect, data)
}

/// SPDK's measuring program names no host by default, and other clients say whatever they like.
#[test]
fn a_host_needs_no_proper_name_where_any_host_may_connect() {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        for (number, (name, kind)) in
            [("", Peculiarity::EmptyHostNqn), ("client-7", Peculiarity::OddHostNqn)].into_iter().enumerate()
        {
            let host_id = [7 + number as u8; 16];
            let options = Options { host_nqn: name.to_owned(), host_id, ..Options::default() };
            let host = Host::connect_with(target.address(), options);
            let mut queue = host.io(1);
            let data = pattern(4096, number as u64);
            assert!(queue.write(SPACES[1], 0, &data, true).status.is_success());
            expect(&mut queue, SPACES[1], &data, "its I/O works");
            assert_eq!(seen(&target, kind), 2, "the admin queue and the I/O queue");
            let other = ConnectData::new(
                host_id,
                host.controller_id,
                crate::raw_host::NQN,
                crate::raw_host::HOST_NQN,
            );
            let reply = connects(&target, &host.options.connect(2), &other);
            assert_status(reply.status, Status::CONNECT_INVALID_PARAMETERS, "another host's queue");
            let metrics = target.target().metrics().to_prometheus();
            let line = format!("selvedge_peculiarities_total{{kind=\"{}\"}} 2\n", kind.name());
            assert!(metrics.contains(&line), "{metrics}");
        }
        let discovery = Options {
            host_nqn: String::new(),
            subsystem_nqn: DISCOVERY_NQN.to_owned(),
            ..Options::default()
        };
        let mut host = Host::connect_with(target.address(), discovery);
        assert_eq!(host.admin.logged(LogPageId::DISCOVERY, 0, 1024).len(), 1024, "discovery is for all");
    }
}

/// The host of an association is the admin queue's. A Python client makes up another identifier for each queue.
#[test]
fn the_host_identifier_of_an_association_is_its_admin_queues() {
    for engine in ENGINES {
        let (target, mut host) = TestTarget::with_host(engine);
        let mut queues: Vec<Client> = (1..=2)
            .map(|queue_id| {
                let data = ConnectData::new(
                    [queue_id; 16],
                    host.controller_id,
                    crate::raw_host::NQN,
                    crate::raw_host::HOST_NQN,
                );
                let mut client = Client::initialized(target.address(), Digests::default());
                let reply = client.connect(&host.options.connect(queue_id.into()), &data);
                assert_eq!(reply.status, Status::SUCCESS, "queue {queue_id}");
                client
            })
            .collect();
        assert_eq!(seen(&target, Peculiarity::IoQueueHostId), 2);
        let id = host.admin.get_feature(FeatureId::HOST_IDENTIFIER, Select::Current, 1, 16);
        assert_eq!(id.data, [7; 16]);
        // What one queue reserves, the other may use, and another host may not.
        let nsid = SPACES[1].nsid;
        let register = IoCommand::ReservationRegister {
            action: RegisterAction::Register,
            ignore_existing_key: false,
            persistence: PersistenceChange::NoChange,
        };
        let keys = [0_u64, 5].map(u64::to_le_bytes).concat();
        assert!(queues[0].run(register.encode(nsid), Give::Capsule(&keys)).status.is_success());
        let acquire = IoCommand::ReservationAcquire {
            action: AcquireAction::Acquire,
            ignore_existing_key: false,
            kind: ReservationType::WriteExclusive,
        };
        let keys = [5_u64, 0].map(u64::to_le_bytes).concat();
        assert!(queues[1].run(acquire.encode(nsid), Give::Capsule(&keys)).status.is_success());
        for queue in &mut queues {
            assert!(queue.write(SPACES[1], 0, &pattern(4096, 1), true).status.is_success());
        }
        let other = Options {
            host_id: [1; 16],
            host_nqn: "nqn.2014-08.org.example:b".to_owned(),
            ..Options::default()
        };
        let other = Host::connect_with(target.address(), other);
        let reply = other.io(1).write(SPACES[1], 0, &pattern(4096, 1), true);
        assert_status(
            reply.status,
            Status::RESERVATION_CONFLICT,
            "who has a queue's identifier is not its host",
        );
    }
}

#[test]
fn connect_takes_more_than_is_usual() {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        let options = Options::default();
        let data = options.data(CONTROLLER_ID_ANY);
        // A Python client asks for 136 entries.
        for queue_size in [135, 255] {
            let connect = Connect { queue_size, ..options.connect(0) };
            assert_eq!(connects(&target, &connect, &data).status, Status::SUCCESS, "{queue_size}");
        }
        let long = Connect { keep_alive_ms: u32::MAX, ..options.connect(0) };
        assert_eq!(connects(&target, &long, &data).status, Status::SUCCESS);
        assert_eq!(seen(&target, Peculiarity::LongKeepAlive), 1);
        let mut longer = options.connect(0).encode();
        longer.data = SglDescriptor::in_capsule(1536);
        let capsule = [data.as_bytes(), &[0xff; 512]].concat();
        let mut client = Client::initialized(target.address(), Digests::default());
        assert_eq!(
            client.run(longer, Give::AsIs(&capsule)).status,
            Status::SUCCESS,
            "more data than it needs"
        );
        // Both other targets grant as many queues as there can be, whatever was asked for.
        let mut host = Host::connect(target.address());
        let asked = NumberOfQueues::pairs(std::num::NonZero::new(4).unwrap()).encode();
        let reply = host.admin.set_feature(FeatureId::NUMBER_OF_QUEUES, asked, false, Give::Nothing);
        assert_eq!((reply.status, reply.result as u32), (Status::SUCCESS, asked));
        host.io(4);
        assert_eq!(seen(&target, Peculiarity::UngrantedQueue), 0);
        assert!(host.io(5).read(SPACES[0], 0, 1).status.is_success());
        assert_eq!(seen(&target, Peculiarity::UngrantedQueue), 1);
        let reply =
            host.admin.set_feature(FeatureId::KEEP_ALIVE_TIMER, 48 * 3600 * 1000, false, Give::Nothing);
        assert_eq!(reply.status, Status::SUCCESS, "two days");
    }
}

#[test]
fn a_subsystem_gives_its_controllers_as_many_queues_as_it_says() {
    let target = TestTarget::start(Engine::Automatic);
    let before = Host::connect(target.address());
    let _kept = before.io(3);
    target.apply(|fabric| fabric.subsystems[0].io_queues_max = Some(2));
    let _granted_before = before.io(4);
    let mut host = Host::connect(target.address());
    let asked = NumberOfQueues::pairs(std::num::NonZero::new(4).unwrap()).encode();
    let reply = host.admin.set_feature(FeatureId::NUMBER_OF_QUEUES, asked, false, Give::Nothing);
    let granted = NumberOfQueues::decode(reply.result as u32).unwrap();
    assert_eq!((reply.status, granted.submission.get()), (Status::SUCCESS, 2));
    host.io(2);
    assert_eq!(host.try_io(3).1.status, Status::CONNECT_INVALID_PARAMETERS.do_not_retry());
    for wrong in [0, 129] {
        let refused = target.try_apply(|fabric| fabric.subsystems[0].io_queues_max = Some(wrong));
        assert!(refused.unwrap_err().to_string().contains("1 to 128 I/O queues"), "{wrong}");
    }
}

#[test]
fn a_host_may_have_a_few_commands_more_than_its_queue_has_entries() {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        let host = Host::connect_with(target.address(), Options { entries: 4, ..Options::default() });
        let (mut queue, space) = (host.io(1), SPACES[4]);
        queue.answers = false;
        let data = pattern(16 << 10, 9);
        let begin = |queue: &mut Client, number: u64| {
            let command = IoCommand::Write { start: 32 * number, blocks: 32, force_unit_access: false };
            queue.submit(command.encode(space.nsid), Give::Asked(&data));
            queue.ready_to_transfer()
        };
        let requests: Vec<_> = (0..8).map(|number| begin(&mut queue, number)).collect();
        assert_eq!(seen(&target, Peculiarity::QueueOverrun), 1);
        for request in &requests {
            queue.answer(request);
        }
        for _ in &requests {
            assert_eq!(queue.wait().status, Status::SUCCESS);
        }
        queue.answers = true;
        expect(&mut queue, space, &data, "all of it is written");
    }
}

/// A queue of the host whose ICReq and whose own data are aligned in some way.
fn aligned_queue(host: &Host, queue_id: u16, dwords: u8, own: u8) -> Client {
    let digests = host.options.digests;
    let mut request = Initialize::new(PduType::InitializeRequest, digests.bits(), 0);
    request.data_alignment = dwords - 1;
    let mut client = Client::open(host.address);
    client.initialize_with(&request, digests);
    client.align(own);
    let data = host.options.data(host.controller_id);
    assert_eq!(client.connect(&host.options.connect(queue_id), &data).status, Status::SUCCESS);
    client
}

/// The client itself checks where the data of each PDU begins (HPDA). Data to the target may begin anywhere (CPDA 0).
#[test]
fn data_begins_where_the_host_wants_it() {
    for (engine, digests) in ENGINES.into_iter().flat_map(|engine| DIGESTS.map(|digests| (engine, digests))) {
        let target = TestTarget::start(engine);
        let host = Host::connect_with(target.address(), Options { digests, ..Options::default() });
        for (number, dwords) in [1, 2, 3, 8, 17, 32].into_iter().enumerate() {
            let mut queue = aligned_queue(&host, 1 + number as u16, dwords, 4 * (33 - dwords));
            for space in SPACES {
                for (in_capsule, blocks) in [(true, 2), (false, 2), (false, (256 << 10) / space.block)] {
                    let data = pattern((blocks * space.block) as usize, number as u64 + 10);
                    assert!(queue.write(space, 0, &data, in_capsule).status.is_success(), "{space:?}");
                    expect(&mut queue, space, &data, "what was written with padding");
                }
            }
        }
    }
}

#[test]
fn what_other_targets_do_not_look_at_is_not_refused() {
    for engine in ENGINES {
        let (target, host) = TestTarget::with_host(engine);
        let space = SPACES[4];
        // Unknown digests.
        let mut client = Client::open(target.address());
        let request = Initialize::new(PduType::InitializeRequest, 0xf4, 0);
        client.initialize_with(&request, Digests::default());
        let data = host.options.data(host.controller_id);
        assert!(client.connect(&host.options.connect(1), &data).status.is_success());
        assert_eq!(seen(&target, Peculiarity::UnknownDigests), 1);
        // Flags of digests that are not there.
        let data = pattern(4096, 5);
        let mut entry = write(space, 8, SglDescriptor::in_capsule(4096));
        entry.command_id = 0x1234.into();
        let mut bytes = client.frame_command(entry, &data);
        bytes[1] |= flags::HEADER_DIGEST | flags::DATA_DIGEST;
        client.expect_reply_to(0x1234);
        client.send(&bytes);
        assert_eq!(client.wait().status, Status::SUCCESS);
        expect(&mut client, space, &data, "the flags mean nothing");
        assert_eq!(seen(&target, Peculiarity::StrayDigestFlags), 1);
        // Data that does not say where it begins, as Lightbits' discovery client sends it with Connect.
        let data = pattern(4096, 6);
        let mut entry = write(space, 8, SglDescriptor::in_capsule(4096));
        entry.command_id = 0x1235.into();
        let mut bytes = client.frame_command(entry, &data);
        bytes[3] = 0;
        client.expect_reply_to(0x1235);
        client.send(&bytes);
        assert_eq!(client.wait().status, Status::SUCCESS);
        expect(&mut client, space, &data, "it begins behind the header");
        assert_eq!(seen(&target, Peculiarity::UnsetDataOffset), 1);
        // LAST_PDU on every PDU, and on none.
        client.answers = false;
        for (round, last) in [flags::LAST, 0].into_iter().enumerate() {
            let data = pattern(64 << 10, 20 + round as u64);
            let command = IoCommand::Write { start: 0, blocks: 128, force_unit_access: false };
            let id = client.submit(command.encode(space.nsid), Give::Asked(&data));
            let tag = client.ready_to_transfer().transfer_tag.get();
            for at in (0..data.len()).step_by(16 << 10) {
                let piece = &data[at..at + (16 << 10)];
                let pdu = DataPdu::new(PduType::DataToController, last, id, tag, at as u32, 16 << 10);
                let bytes = client.frame_data(pdu, piece);
                client.send(&bytes);
            }
            assert_eq!(client.wait().status, Status::SUCCESS);
            expect(&mut client, space, &data, "its place says where data belongs");
        }
        assert_eq!(seen(&target, Peculiarity::LastFlag), 1);
        // Protection information of a namespace that has none.
        for space in SPACES {
            let mut read =
                IoCommand::Read { start: 0, blocks: 1, force_unit_access: false }.encode(space.nsid);
            read.cdw12 = (0xf << 26).into();
            assert!(client.run(read, Give::Room(space.block)).status.is_success());
        }
        assert_eq!(seen(&target, Peculiarity::ProtectionInformation), 1);
    }
}
