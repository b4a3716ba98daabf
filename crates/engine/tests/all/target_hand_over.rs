//! Hand-over of hosts to the new target while they write and read: no host connects again, and nothing is lost, torn or
//! done twice. Both targets are in one process, over one file, and share the listening socket.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use engine::backend::{BackendConfig, SyncFailure, SyncKind};
use engine::claims::{self, InheritedMemory};
use engine::initiator::{ConnectOptions, HostIdentity, PathOptions, TlsKeys, Volume};
use engine::limits::FREEZE_STALL_MS;
use engine::ring::Engine;
use engine::target::{
    HandOver, HandedNamespace, HandedTarget, HostKeyConfig, NamespaceConfig, QosConfig, Reactors,
    SubsystemConfig, Target, TargetConfig, TlsUse,
};
use nvme::command::admin_opcode;
use nvme::features::{AsyncEvent, FeatureId};
use nvme::io::IoCommand;
use nvme::log_page::{LogPageId, LogPageRequest};
use nvme::reservation::{PersistenceChange, RegisterAction, ReservationType};
use nvme::tcp::{DataPdu, Digests, PduType, flags};
use nvme::{Status, SubmissionEntry};
use secure_channel::ConfiguredPsk;

use crate::raw_host::{Client, ENGINES, Give, Host, NQN, Options, Random, assert_status, configure, pattern};
use crate::reservation_party::Party;
use crate::tls_renewal::{End, await_more};
use prerequisite::{patience, wait_until};

pub(crate) const TLS_HOST: &str = "nqn.2014-08.org.example:known";
pub(crate) const BLOCK: u32 = 512;
const SIZE: u64 = 16 << 20;
/// Number of writers, each of a part of the namespace.
const WRITERS: u64 = 2;
const PART_BYTES: u64 = 1 << 20;

/// Targets that follow each other.
pub(crate) struct Testbed {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) config: TargetConfig,
    target: Option<Target>,
}

impl Testbed {
    pub(crate) fn new(engine: Engine, change: impl FnOnce(&mut NamespaceConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let keys = folder.path().join("host");
        fs::write(&keys, format!("{}\n", *psk().reveal())).unwrap();
        fs::set_permissions(&keys, fs::Permissions::from_mode(0o600)).unwrap();
        let backend = BackendConfig::File { path: folder.path().join("disk"), size: Some(SIZE) };
        let mut namespace = NamespaceConfig::new(1, backend, BLOCK);
        namespace.shared_storage = true;
        namespace.uuid = Some(uuid::Uuid::from_u128(0x715));
        change(&mut namespace);
        let mut subsystem = SubsystemConfig::new(NQN, "1", "test").with(vec![namespace]);
        subsystem.host_keys = vec![HostKeyConfig::tls(TLS_HOST, keys)];
        let mut config = configure(engine, vec![subsystem]);
        config.reactors = Reactors::Count(2);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = &mut config.fabric.ports[0];
        (port.tls, port.address) = (Some(TlsUse::Allowed), listener.local_addr().unwrap().into());
        config.inherited = vec![Arc::new(listener)];
        let target = Some(Target::start(&config).unwrap());
        Self { folder, config, target }
    }

    pub(crate) fn target(&self) -> &Target {
        self.target.as_ref().unwrap()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.target().ports()[0]
    }

    fn controllers(&self) -> BTreeSet<u16> {
        self.target().status().controllers.iter().map(|controller| controller.cntlid).collect()
    }

    /// The new target, which accepts nothing yet.
    pub(crate) fn next(&self) -> Target {
        claims::inherit_memories(self.target().memories().unwrap());
        Target::start(&TargetConfig { is_held: true, ..self.config.clone() }).unwrap()
    }

    /// The new target takes over.
    pub(crate) fn pass_on(&mut self) {
        let next = self.next();
        self.give(next, self.freeze());
    }

    /// Brings the target to rest, which waits for hosts and storage as long as any machine lets them take.
    pub(crate) fn freeze(&self) -> HandOver {
        self.target().freeze_within(patience(), patience()).unwrap()
    }

    pub(crate) fn give(&mut self, next: Target, hand_over: HandOver) {
        // As it goes to another process.
        let text = serde_json::to_string(&hand_over.state).unwrap();
        let state: HandedTarget = serde_json::from_str(&text).unwrap();
        assert_eq!(state, hand_over.state);
        assert_eq!(next.take_over(HandOver { state, ..hand_over }).unwrap(), []);
        self.target.replace(next).unwrap().leave();
        self.target().go_on();
    }
}

fn psk() -> ConfiguredPsk {
    ConfiguredPsk::new(&[7; 32], None).unwrap()
}

fn connect(address: SocketAddr, digests: bool, is_tls: bool) -> Volume {
    let host = if is_tls { TLS_HOST.to_owned() } else { format!("nqn.2014-08.org.example:clear-{digests}") };
    let path = ConnectOptions {
        host: HostIdentity::from_nqn(&host),
        tls: is_tls.then(|| Arc::new(TlsKeys::new(vec![psk()]))),
        digests: Digests { header: digests, data: digests },
        io_queues: 2,
        ..ConnectOptions::new(address, NQN)
    };
    Volume::connect(PathOptions { controller_loss: Some(Duration::ZERO), ..PathOptions::new(vec![path], 1) })
        .unwrap()
}

/// Writes pieces of many lengths and compares them until `is_over`, and counts them.
fn write_until(volume: &Volume, part: u64, is_over: &AtomicBool, count: &AtomicU64) {
    let mut random = Random::new(part);
    while !is_over.load(Ordering::Acquire) {
        let most = if random.below(4) == 0 { PART_BYTES / 2 } else { 16 << 10 };
        let length = u64::from(BLOCK) * (1 + random.below(most / u64::from(BLOCK)));
        let offset =
            part * PART_BYTES + u64::from(BLOCK) * random.below((PART_BYTES - length) / u64::from(BLOCK));
        let data = random.bytes(length as usize);
        volume.write_at(offset, &data).expect("no write fails");
        let mut found = vec![0; data.len()];
        volume.read_at(offset, &mut found).expect("no read fails");
        assert!(found == data, "{length} bytes at {offset} come back as others");
        count.fetch_add(1, Ordering::Release);
    }
}

fn under_load(engine: Engine, rounds: usize, change: impl FnOnce(&mut NamespaceConfig)) {
    let mut testbed = Testbed::new(engine, change);
    let address = testbed.address();
    let volumes =
        [connect(address, false, false), connect(address, true, false), connect(address, true, true)];
    let before = testbed.controllers();
    let is_over = AtomicBool::new(false);
    let counts: Vec<AtomicU64> = volumes.iter().map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        let (is_over, counts) = (&is_over, &counts);
        for (number, volume) in volumes.iter().enumerate() {
            for writer in 0..WRITERS {
                let part = number as u64 * WRITERS + writer;
                scope.spawn(move || write_until(volume, part, is_over, &counts[number]));
            }
        }
        // Also where this fails: the writers would not end otherwise.
        let ends = End(is_over);
        for _ in 0..rounds {
            await_more(counts, 3);
            testbed.pass_on();
        }
        await_more(counts, 3);
        drop(ends);
    });
    assert_eq!(testbed.controllers(), before, "the same associations");
    for volume in &volumes {
        assert_eq!(volume.status()[0].reconnects, 0);
    }
    assert!(testbed.folder.path().exists());
}

#[test]
fn hosts_that_write_notice_nothing_of_twenty_upgrades() {
    ENGINES.into_iter().for_each(|engine| under_load(engine, 10, |_| ()));
}

pub(crate) fn in_memory(namespace: &mut NamespaceConfig) {
    (namespace.backend, namespace.shared_storage) = (BackendConfig::Memory { size: SIZE }, false);
}

#[test]
fn blocks_in_memory_are_the_new_targets_too() {
    ENGINES.into_iter().for_each(|engine| under_load(engine, 10, in_memory));
}

#[test]
fn memory_that_grows_shrinks_and_is_blank_in_part_goes_on() {
    const GROWN: u64 = 64 << 20;
    let mut testbed = Testbed::new(Engine::Automatic, in_memory);
    let party = Host::connect(testbed.address());
    let mut host = party.io(1);
    let data = pattern(16 << 10, 1);
    let put = |host: &mut Client, block| {
        assert_status(
            host.run(write(block, data.len()), Give::Capsule(&data)).status,
            Status::SUCCESS,
            "a write",
        );
    };
    put(&mut host, 0);
    let resize = |testbed: &mut Testbed, size| {
        let mut fabric = testbed.target().config();
        fabric.subsystems[0].namespaces[0].backend = BackendConfig::Memory { size };
        testbed.target().apply(&fabric).unwrap();
        testbed.config.fabric.subsystems[0].namespaces[0].backend = BackendConfig::Memory { size };
    };
    resize(&mut testbed, GROWN);
    let (last, middle) = (GROWN / u64::from(BLOCK) - 32, SIZE / u64::from(BLOCK));
    put(&mut host, last);
    testbed.pass_on();
    assert!(read(&mut host, 0, 16 << 10) == data && read(&mut host, last, 16 << 10) == data);
    assert!(read(&mut host, middle, 16 << 10).iter().all(|byte| *byte == 0), "it was never written");
    put(&mut host, middle);
    resize(&mut testbed, SIZE);
    testbed.pass_on();
    resize(&mut testbed, GROWN);
    testbed.pass_on();
    assert!(read(&mut host, 0, 16 << 10) == data);
    for block in [middle, last] {
        assert!(read(&mut host, block, 16 << 10).iter().all(|byte| *byte == 0), "it was cut off");
    }
}

#[test]
fn what_is_not_the_memory_it_should_be_is_refused_and_the_old_target_goes_on() {
    let testbed = Testbed::new(Engine::Automatic, in_memory);
    let party = Host::connect(testbed.address());
    let mut host = party.io(1);
    let [InheritedMemory { namespace, room, file }] =
        testbed.target().memories().unwrap().try_into().unwrap();
    let refused = |room, file| {
        claims::inherit_memories(vec![InheritedMemory { namespace, room, file }]);
        let held = TargetConfig { is_held: true, ..testbed.config.clone() };
        let reason = Target::start(&held).expect_err("it cannot be").to_string();
        assert!(claims::forget().is_empty(), "it was tried");
        reason
    };
    let plain = tempfile::tempfile().unwrap();
    plain.set_len(room).unwrap();
    let reason = refused(room, plain.into());
    assert!(reason.contains("namespace 1") && reason.contains("not"), "{reason}");
    let reason = refused(2 * room, file.try_clone().unwrap());
    assert!(reason.contains("instead of"), "{reason}");
    let reason = refused(1 << 20, file);
    assert!(reason.contains("no room"), "{reason}");
    assert!(read(&mut host, 0, BLOCK).iter().all(|byte| *byte == 0));
}

/// A write with its data in the capsule, as bytes.
fn write_bytes(client: &mut Client, id: u16, block: u64, data: &[u8]) -> Vec<u8> {
    let mut entry = write(block, data.len());
    entry.command_id = id.into();
    entry.data = nvme::SglDescriptor::in_capsule(data.len() as u32);
    client.expect_reply_to(id);
    client.frame_command(entry, data)
}

pub(crate) fn write(block: u64, length: usize) -> SubmissionEntry {
    let blocks = length as u32 / BLOCK;
    IoCommand::Write { start: block, blocks, force_unit_access: false }.encode(1)
}

pub(crate) fn read(queue: &mut Client, block: u64, length: u32) -> Vec<u8> {
    let command = IoCommand::Read { start: block, blocks: length / BLOCK, force_unit_access: false };
    let reply = queue.run(command.encode(1), Give::Room(length));
    assert_status(reply.status, Status::SUCCESS, "a read");
    reply.data
}

/// Begins all that a host may have begun when the targets change: a command in part, one whose data
/// it was asked for, commands behind that one, and a request for an event.
fn begun(engine: Engine, digests: Digests) {
    let mut testbed = Testbed::new(engine, |_| ());
    let mut host = Host::connect_with(testbed.address(), Options { digests, ..Options::default() });
    let reply = host.admin.set_feature(FeatureId::ASYNC_EVENT_CONFIG, 0x100, false, Give::Nothing);
    assert_status(reply.status, Status::SUCCESS, "events are wanted");
    let event = host.admin.submit(SubmissionEntry::new(admin_opcode::ASYNC_EVENT_REQUEST, 0), Give::Nothing);
    let (mut asked, mut torn) = (host.io(1), host.io(2));
    let large = pattern(32 << 10, 1);
    asked.submit(write(0, large.len()), Give::Asked(&large));
    let request = asked.ready_to_transfer();
    let (small, last) = (pattern(4 << 10, 2), pattern(BLOCK as usize, 3));
    let begin = write_bytes(&mut torn, 1, 200, &last);
    torn.send(&begin[..50]);
    let next = testbed.next();
    let hand_over = std::thread::scope(|scope| {
        let freezing = scope.spawn(|| testbed.freeze());
        // Whatever comes first: it is kept for later, or done at once.
        let bytes = write_bytes(&mut asked, 77, 100, &small);
        asked.send(&bytes);
        asked.answer(&request);
        freezing.join().unwrap()
    });
    testbed.give(next, hand_over);
    torn.send(&begin[50..]);
    assert_status(torn.wait().status, Status::SUCCESS, "the command that had come in part");
    for _ in 0..2 {
        assert_status(asked.wait().status, Status::SUCCESS, "those that were under way");
    }
    assert!(read(&mut torn, 0, 32 << 10) == large && read(&mut asked, 100, 4 << 10) == small);
    assert!(read(&mut asked, 200, BLOCK) == last);
    let mut fabric = testbed.target().config();
    let mut more = fabric.subsystems[0].namespaces[0].clone();
    (more.nsid, more.backend, more.uuid) = (2, BackendConfig::Null { size: 1 << 20 }, None);
    more.shared_storage = false;
    fabric.subsystems[0].namespaces.push(more);
    testbed.target().apply(&fabric).unwrap();
    let notice = host.admin.wait();
    assert_eq!((notice.command_id, notice.status), (event, Status::SUCCESS));
    assert_eq!(AsyncEvent::decode(notice.result as u32), AsyncEvent::NAMESPACE_ATTRIBUTE_CHANGED);
    assert_eq!(host.io(3).outstanding(), 0, "the controller takes more queues");
}

#[test]
fn what_a_host_has_begun_goes_on_with_the_new_target() {
    for engine in ENGINES {
        for digests in [Digests::default(), Digests { header: true, data: true }] {
            begun(engine, digests);
        }
    }
}

#[test]
fn a_reservation_that_no_file_keeps_goes_on() {
    let mut testbed = Testbed::new(Engine::Automatic, in_memory);
    let (mut holder, mut other) =
        (Party::connect(testbed.address(), 1), Party::connect(testbed.address(), 2));
    holder.register(1);
    holder.acquire(1, ReservationType::WriteExclusive);
    testbed.pass_on();
    let data = pattern(BLOCK as usize, 1);
    let write = |party: &mut Party| party.queues[0].run(write(0, data.len()), Give::Capsule(&data)).status;
    assert_status(write(&mut other), Status::RESERVATION_CONFLICT, "it is reserved");
    assert_status(write(&mut holder), Status::SUCCESS, "for this host");
    holder.register_with(1, RegisterAction::Unregister, (holder.key, 0), PersistenceChange::NoChange);
    assert_status(write(&mut other), Status::SUCCESS, "it is free");
}

#[test]
fn marks_of_blocks_and_the_error_log_go_on() {
    for change in [|_: &mut NamespaceConfig| (), in_memory] {
        let mut testbed = Testbed::new(Engine::Automatic, change);
        let mut host = Host::connect(testbed.address());
        let mut queue = host.io(1);
        for (start, blocks) in [(0, 2), (100, 1), (32_767, 1)] {
            let mark = IoCommand::WriteUncorrectable { start, blocks }.encode(1);
            assert_status(queue.run(mark, Give::Nothing).status, Status::SUCCESS, "blocks are marked");
        }
        let status = |queue: &mut Client, start| {
            let command = IoCommand::Read { start, blocks: 1, force_unit_access: false };
            queue.run(command.encode(1), Give::Room(BLOCK)).status.without_flags()
        };
        for start in [0, 100, 1 << 20] {
            assert_ne!(status(&mut queue, start), Status::SUCCESS);
        }
        let errors = |host: &mut Host| {
            let reply = host.admin.log_page(&LogPageRequest::new(LogPageId::ERROR_INFORMATION, 0, 8 * 64));
            assert_status(reply.status, Status::SUCCESS, "the error log");
            reply.data
        };
        let before = errors(&mut host);
        assert!(before[2 * 64] == 1 && before[3 * 64..].iter().all(|byte| *byte == 0), "three errors");
        for _ in 0..2 {
            testbed.pass_on();
            assert!(errors(&mut host) == before, "it is the same");
        }
        for (start, expected) in [(0, true), (1, true), (2, false), (99, false), (100, true), (32_767, true)]
        {
            let found = status(&mut queue, start);
            assert_eq!(found == Status::UNRECOVERED_READ_ERROR, expected, "block {start}: {found:?}");
        }
        let data = pattern(BLOCK as usize, 1);
        assert_status(
            queue.run(write(100, data.len()), Give::Capsule(&data)).status,
            Status::SUCCESS,
            "a write",
        );
        testbed.pass_on();
        assert!(read(&mut queue, 100, BLOCK) == data, "it was written since");
        assert_ne!(errors(&mut host)[0], before[0], "errors are counted on");
    }
}

#[test]
fn a_namespace_whose_storage_has_failed_refuses_writes_in_the_new_target_too() {
    let mut testbed = Testbed::new(Engine::Automatic, |_| ());
    let party = Host::connect(testbed.address());
    let mut queue = party.io(1);
    let next = testbed.next();
    let mut hand_over = testbed.freeze();
    assert_eq!(hand_over.state.namespaces, [], "all is as the storage says");
    let failure = SyncFailure { kind: SyncKind::Sync, errno: 5, at: std::time::SystemTime::UNIX_EPOCH };
    let failed = HandedNamespace {
        namespace: uuid::Uuid::from_u128(0x715),
        marks: Vec::new(),
        failure: Some(failure),
    };
    hand_over.state.namespaces.push(failed.clone());
    testbed.give(next, hand_over);
    let data = pattern(BLOCK as usize, 1);
    let mut status = || queue.run(write(0, data.len()), Give::Capsule(&data)).status;
    for _ in 0..2 {
        assert!(!status().is_success(), "it is unknown what is there");
        assert_eq!(testbed.target().failures().len(), 1);
        let next = testbed.next();
        let hand_over = testbed.freeze();
        assert_eq!(hand_over.state.namespaces, std::slice::from_ref(&failed));
        testbed.give(next, hand_over);
    }
    testbed.target().reopen(NQN, 1).unwrap();
    assert_status(status(), Status::SUCCESS, "it was reopened");
}

#[test]
fn commands_that_wait_for_limits_are_no_reason_to_wait() {
    let limit = |namespace: &mut NamespaceConfig| {
        namespace.qos = QosConfig { iops: Some(1), ..QosConfig::default() };
    };
    let mut testbed = Testbed::new(Engine::Automatic, limit);
    let host = Host::connect(testbed.address());
    let mut queue = host.io(1);
    let data = pattern(BLOCK as usize, 1);
    for block in 0..100 {
        queue.submit(write(block, data.len()), Give::Capsule(&data));
    }
    // The limit itself would let them end in 100 s.
    let next = testbed.next();
    let hand_over = testbed.target().freeze_within(patience(), Duration::from_secs(60)).unwrap();
    testbed.give(next, hand_over);
    while queue.outstanding() > 0 {
        assert_status(queue.wait().status, Status::SUCCESS, "a write");
    }
    assert_eq!(testbed.controllers(), BTreeSet::from([host.controller_id]));
}

#[test]
fn only_a_host_that_stops_amid_a_pdu_is_closed() {
    let mut testbed = Testbed::new(Engine::Automatic, |_| ());
    let (honest, stopped) = (
        Host::connect(testbed.address()),
        Host::connect_with(testbed.address(), Options::named("nqn.2014-08.org.example:stops")),
    );
    let (mut queue, mut amid) = (honest.io(1), stopped.io(1));
    let data = pattern(4096, 1);
    let bytes = write_bytes(&mut amid, 1, 0, &data);
    amid.send(&bytes[..1000]);
    let mut asked = stopped.io(2);
    asked.submit(write(0, 32 << 10), Give::Asked(&pattern(32 << 10, 1)));
    let _ = asked.ready_to_transfer();
    let silent = Client::open(testbed.address());
    let next = testbed.next();
    let stall = Duration::from_millis(FREEZE_STALL_MS);
    let hand_over = testbed.target().freeze_within(stall, patience()).unwrap();
    // The host has two connections, and counts once.
    let disconnected = BTreeSet::from(["nqn.2014-08.org.example:stops at 127.0.0.1".to_owned()]);
    assert_eq!(hand_over.state.disconnected, disconnected);
    testbed.give(next, hand_over);
    assert_eq!(testbed.target().disconnected(), disconnected);
    amid.wait_until_gone();
    asked.wait_until_gone();
    assert!(read(&mut queue, 0, BLOCK).iter().all(|byte| *byte == 0));
    drop(silent);
}

#[test]
fn a_host_that_goes_hears_so_while_the_other_target_has_its_connection_open() {
    for is_taken in [true, false] {
        let testbed = Testbed::new(Engine::Automatic, |_| ());
        let host = Host::connect(testbed.address());
        let (mut goes, mut stays, next) = (host.io(1), host.io(2), testbed.next());
        assert_eq!(next.take_over(testbed.freeze()).unwrap(), []);
        let (serves, rests) = if is_taken { (&next, testbed.target()) } else { (testbed.target(), &next) };
        serves.go_on();
        goes.stream.shutdown(Shutdown::Write).unwrap();
        goes.wait_until_gone();
        rests.leave();
        assert!(read(&mut stays, 0, BLOCK).iter().all(|byte| *byte == 0));
    }
}

#[test]
fn who_only_connects_is_not_heard_by_a_target_that_does_not_serve_yet() {
    let testbed = Testbed::new(Engine::Automatic, |_| ());
    let mut client = Client::open(testbed.address());
    wait_until("it is accepted", || testbed.target().connections() == 1);
    let next = testbed.next();
    let hand_over = testbed.freeze();
    assert_eq!(hand_over.arrivals.len(), 1);
    assert_eq!(next.take_over(hand_over).unwrap(), []);
    assert_eq!(next.connections(), 0, "what it says first would be lost for the other one");
    next.disown();
    testbed.target().go_on();
    client.initialize(Digests::default());
}

#[test]
fn who_only_connects_is_served_by_the_next() {
    let mut testbed = Testbed::new(Engine::Automatic, |_| ());
    let mut before = Client::open(testbed.address());
    let next = testbed.next();
    let hand_over = testbed.freeze();
    let mut meanwhile = Client::open(testbed.address());
    testbed.give(next, hand_over);
    before.initialize(Digests::default());
    meanwhile.initialize(Digests::default());
}

#[test]
fn a_storage_that_does_not_answer_ends_the_attempt_and_nothing_else() {
    let testbed = Testbed::new(Engine::Automatic, |namespace| namespace.write_delay_ms = 6000);
    let host = Host::connect(testbed.address());
    let (mut slow, mut sending) = (host.io(1), host.io(2));
    let (data, large) = (pattern(4096, 1), pattern(32 << 10, 2));
    slow.submit(write(0, data.len()), Give::Capsule(&data));
    let id = sending.submit(write(100, large.len()), Give::Asked(&large));
    let request = sending.ready_to_transfer();
    let pdu =
        DataPdu::new(PduType::DataToController, flags::LAST, id, request.transfer_tag.get(), 0, 32 << 10);
    let bytes = sending.frame_data(pdu, &large);
    let (most, rest) = bytes.split_at(bytes.len() - 100);
    let reason = std::thread::scope(|scope| {
        let freezing = scope.spawn(|| {
            let (stall, patience) = (Duration::from_secs(60), Duration::from_secs(2));
            testbed.target().freeze_within(stall, patience).map(drop).unwrap_err().to_string()
        });
        // Commands of a queue with a slow storage and of one with a slow host are kept, and go on amid a PDU of that host.
        std::thread::sleep(Duration::from_millis(300));
        for (queue, block) in [(&mut slow, 8), (&mut sending, 16)] {
            let bytes = write_bytes(queue, 99, block, &data);
            queue.send(&bytes);
        }
        for some in most.chunks(most.len() / 60) {
            std::thread::sleep(Duration::from_millis(40));
            sending.send(some);
        }
        freezing.join().unwrap()
    });
    assert!(reason.contains("storage") && reason.contains("queue 1"), "{reason}");
    sending.send(rest);
    for queue in [&mut slow, &mut sending] {
        for _ in 0..2 {
            assert_status(queue.wait().status, Status::SUCCESS, "what was under way, and what was kept");
        }
    }
    for (block, expected) in [(0, &data), (8, &data), (16, &data), (100, &large)] {
        assert!(read(&mut sending, block, expected.len() as u32) == *expected, "block {block}");
    }
}

#[test]
fn a_host_that_may_not_connect_any_longer_is_not_taken_over() {
    const ALLOWED: &str = "nqn.2014-08.org.example:allowed";
    let mut testbed = Testbed::new(Engine::Automatic, |_| ());
    let both = [ALLOWED, "nqn.2014-08.org.example:removed"];
    let hosts = both.map(|nqn| Host::connect_with(testbed.address(), Options::named(nqn)));
    let [mut allowed, mut removed] = hosts.each_ref().map(|host| host.io(1));
    let subsystem = &mut testbed.config.fabric.subsystems[0];
    subsystem.allow_any_host = false;
    subsystem.hosts = vec![ALLOWED.to_owned(), TLS_HOST.to_owned()];
    let next = testbed.next();
    let failed = next.take_over(testbed.freeze()).unwrap();
    let expected = [0, 1].map(|id| format!("{} queue {id}", both[1]));
    assert!(failed.iter().map(|(name, _)| name).eq(&expected), "{failed:?}");
    testbed.target.replace(next).unwrap().leave();
    testbed.target().go_on();
    removed.wait_until_gone();
    assert!(read(&mut allowed, 0, BLOCK).iter().all(|byte| *byte == 0));
}

#[test]
fn queues_beyond_a_limit_that_has_become_lower_go_on() {
    let mut testbed = Testbed::new(Engine::Automatic, |_| ());
    let host = Host::connect(testbed.address());
    let mut queue = host.io(3);
    testbed.config.fabric.subsystems[0].io_queues_max = Some(2);
    testbed.pass_on();
    assert!(read(&mut queue, 0, BLOCK).iter().all(|byte| *byte == 0));
    let status = Host::connect(testbed.address()).try_io(3).1.status;
    assert_eq!(status, Status::CONNECT_INVALID_PARAMETERS.do_not_retry());
}
