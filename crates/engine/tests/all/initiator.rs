//! The initiator against our own target over loopback: connect, identify, discovery, reads and writes of all
//! shapes.

use std::net::SocketAddr;
use std::time::Duration;

use crate::raw_host::configure;
use engine::backend::BackendConfig;
use engine::initiator::{
    CommandQueues, ConnectOptions, Controller, InitiatorError, PathOptions, PathQueues, Paths, Volume,
};
use engine::ring::{Engine, Ring, RingOptions};
use engine::target::{NamespaceConfig, QosConfig, SubsystemConfig, Target};
use nvme::Status;
use nvme::command::admin_opcode;
use nvme::fabrics::InvalidParameter;
use nvme::tcp::Digests;
use prerequisite::{Wait, patience, wait_until};

const NQN: &str = "nqn.2014-08.org.example:test";
const SIZE: u64 = 64 << 20;

fn target(engine: Engine) -> (Target, SocketAddr) {
    let namespace =
        |nsid, block_size| NamespaceConfig::new(nsid, BackendConfig::Memory { size: SIZE }, block_size);
    let subsystem = SubsystemConfig::new(NQN, "1", "test").with(vec![namespace(1, 512), namespace(7, 4096)]);
    let target = Target::start(&configure(engine, vec![subsystem])).unwrap();
    let address = target.ports()[0];
    (target, address)
}

fn options(address: SocketAddr, engine: Engine) -> ConnectOptions {
    ConnectOptions { engine, ..ConnectOptions::new(address, NQN) }
}

/// Bytes that differ from place to place.
fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[test]
fn a_controller_tells_of_itself_and_its_namespaces() {
    for engine in [Engine::IoUring, Engine::Epoll] {
        let (target, address) = target(engine);
        let controller =
            Controller::connect(ConnectOptions { io_queues: 3, ..options(address, engine) }).unwrap();
        assert_eq!(controller.io_queues(), 3);
        assert!(controller.transfer_length_max() >= 128 << 10);
        assert_eq!(controller.namespace_ids().unwrap(), [1, 7]);
        let namespaces = controller.namespaces().unwrap();
        assert_eq!(namespaces.iter().map(|namespace| namespace.block_size).collect::<Vec<_>>(), [512, 4096]);
        assert!(namespaces.iter().all(|namespace| namespace.size_bytes() == SIZE));
        assert!(namespaces.iter().all(|namespace| namespace.uuid.is_some()));
        assert!(controller.namespace(2).is_err());
        let reply = controller.admin(nvme::SubmissionEntry::new(0xff, 0), None, 0).unwrap();
        assert_eq!(reply.status.without_flags(), Status::INVALID_OPCODE);
        controller.disconnect().unwrap();
        let entry = nvme::SubmissionEntry::new(admin_opcode::KEEP_ALIVE, 0);
        assert!(matches!(controller.admin(entry, None, 0), Err(InitiatorError::Disconnected { .. })));
        wait_until("the connection has ended", || target.connections() == 0);
    }
}

#[test]
fn each_namespace_has_a_volatile_cache_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = BackendConfig::File { path: folder.path().join("disk"), size: Some(SIZE) };
    let memory = BackendConfig::Memory { size: SIZE };
    let namespaces = vec![NamespaceConfig::new(1, file, 4096), NamespaceConfig::new(2, memory, 4096)];
    let subsystem = SubsystemConfig::new(NQN, "1", "test").with(namespaces);
    let target = Target::start(&configure(Engine::Epoll, vec![subsystem])).unwrap();
    let controller = Controller::connect(options(target.ports()[0], Engine::Epoll)).unwrap();
    assert!(controller.has_volatile_cache(1).unwrap(), "a file is durable after a Flush");
    assert!(!controller.has_volatile_cache(2).unwrap(), "memory has nothing to flush");
    controller.disconnect().unwrap();
    assert!(controller.has_volatile_cache(1).is_err(), "nothing is known without a connection");
}

#[test]
fn a_controller_has_no_more_queues_than_granted() {
    let (target, address) = target(Engine::Automatic);
    let mut config = target.config();
    config.subsystems[0].io_queues_max = Some(2);
    target.apply(&config).unwrap();
    let wanted = ConnectOptions { io_queues: 4, ..options(address, Engine::Automatic) };
    let controller = Controller::connect(wanted).unwrap();
    assert_eq!(controller.io_queues(), 2);
    let volume = Volume::on_controller(&controller, 1).unwrap();
    volume.write_at(0, &[1; 512]).unwrap();
}

#[test]
fn queues_are_connected_from_the_ports_of_their_place() {
    let (_target, address) = target(Engine::Epoll);
    // Below those that the system gives to others' connections meanwhile, and where another run of the tests hardly looks.
    let first = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap();
    let mut free = (first..).filter(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok());
    let mut free_port = || free.next().expect("a free port");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ports = [free_port(), free_port()];
    let in_use = taken.local_addr().unwrap().port();
    let io_queue_ports = vec![vec![ports[0]], vec![in_use, ports[1]], vec![in_use]];
    let path = ConnectOptions { io_queues: 4, io_queue_ports, ..options(address, Engine::Epoll) };
    let paths = Paths::connect(PathOptions::once(path, 1)).unwrap();
    let mut ring = Ring::new(RingOptions { engine: Engine::Epoll, poll_us_max: 0 }).unwrap();
    let mut queues = PathQueues::open(&paths, &mut ring, 0, 0, 1, 8);
    let (mut events, mut scratch) = (Vec::new(), vec![0; engine::limits::RECEIVE_LENGTH]);
    let wait = Wait::begin("the queues are ready");
    while !queues.is_ready() {
        assert!(queues.error().is_none());
        wait.check();
        queues.flush(&mut ring);
        events.clear();
        ring.wait(Some(Duration::from_millis(10)), &mut events).unwrap();
        let now = ring.now();
        queues.on_events(&mut ring, &mut scratch, &events, now);
        queues.turn(&mut ring, now);
    }
    let report = queues.report();
    let local = |at: usize| report[0].connections[at].stream.as_ref().unwrap().subflows[0].local.port();
    assert_eq!([local(0), local(1)], ports);
    assert!(local(2) != in_use && local(3) != in_use, "the system chooses for those");
    queues.close(&mut ring);
}

#[test]
fn what_is_written_is_read() {
    for engine in [Engine::IoUring, Engine::Epoll] {
        for digests in [Digests::default(), Digests { header: true, data: true }] {
            let (_target, address) = target(engine);
            let options = ConnectOptions { io_queues: 2, digests, ..options(address, engine) };
            for nsid in [1, 7] {
                let controller = Controller::connect(options.clone()).unwrap();
                write_and_read(&Volume::on_controller(&controller, nsid).unwrap());
            }
        }
    }
}

fn write_and_read(namespace: &Volume) {
    let block = namespace.block_size() as usize;
    // One block, in-capsule, just over it, one piece, and many.
    for (index, length) in
        [block, 8 << 10, 20 << 10, 256 << 10, 3 << 20, (9 << 20) + block].into_iter().enumerate()
    {
        let offset = (index as u64) * (10 << 20) + 4096;
        let written = pattern(length, index as u64 + 99);
        namespace.write_at(offset, &written).unwrap();
        let mut read = vec![0; length];
        namespace.read_at(offset, &mut read).unwrap();
        assert!(read == written, "{length} bytes at {offset}");
        assert!(namespace.compare(offset, &written[..block]).unwrap());
        assert!(!namespace.compare(offset, &pattern(block, 5)).unwrap());
    }
    namespace.flush().unwrap();
    namespace.write_durable_at(0, &pattern(block, 3)).unwrap();
    namespace.write_zeroes(0, 40 << 20, false).unwrap();
    let mut read = vec![1; 1 << 20];
    namespace.read_at(30 << 20, &mut read).unwrap();
    assert!(read.iter().all(|byte| *byte == 0));
    namespace.deallocate(0, SIZE).unwrap();
    namespace.read_at(0, &mut []).unwrap();
}

#[test]
fn unaligned_and_outside_requests_are_the_callers_mistake() {
    let (_target, address) = target(Engine::Automatic);
    let controller = Controller::connect(options(address, Engine::Automatic)).unwrap();
    let namespace = Volume::on_controller(&controller, 7).unwrap();
    let mut data = vec![0; 4096];
    for (offset, length) in [(1, 4096), (0, 100), (SIZE, 4096), (u64::MAX - 4095, 4096)] {
        let error = namespace.read_at(offset, &mut data[..length]).unwrap_err();
        assert!(matches!(error, InitiatorError::ApiMisuse(_)), "{error}");
    }
    assert!(matches!(
        Volume::on_controller(&controller, 3),
        Err(InitiatorError::CommandFailed { .. } | InitiatorError::NoNamespace { .. })
    ));
}

#[test]
fn many_threads_share_a_namespace() {
    let (_target, address) = target(Engine::Automatic);
    let options = ConnectOptions { io_queues: 4, queue_entries: 8, ..options(address, Engine::Automatic) };
    let controller = Controller::connect(options).unwrap();
    let namespace = Volume::on_controller(&controller, 7).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let namespace = namespace.clone();
            scope.spawn(move || {
                for round in 0..20 {
                    let offset = thread * (8 << 20);
                    let written = pattern(1 << 20, thread * 1000 + round);
                    namespace.write_at(offset, &written).unwrap();
                    let mut read = vec![0; written.len()];
                    namespace.read_at(offset, &mut read).unwrap();
                    assert!(read == written, "thread {thread}, round {round}");
                }
            });
        }
    });
}

#[test]
fn discovery_names_the_subsystem() {
    let (_target, address) = target(Engine::Automatic);
    let controller = Controller::connect(ConnectOptions::discovery(address)).unwrap();
    let records = controller.discovery_log().unwrap();
    let entry = records.entries.iter().find(|entry| entry.nqn().is_ok_and(|nqn| nqn == NQN)).unwrap();
    assert_eq!(entry.service_id(), address.port().to_string());
    assert!(Volume::on_controller(&controller, 1).is_err());
}

#[test]
fn a_refusal_says_what_is_wrong() {
    let (_target, address) = target(Engine::Automatic);
    let error =
        Controller::connect(ConnectOptions::new(address, "nqn.2014-08.org.example:other")).unwrap_err();
    let InitiatorError::Refused { queue_id: 0, status, field, .. } = &error else { panic!("{error}") };
    assert_eq!(status.without_flags(), Status::CONNECT_INVALID_PARAMETERS);
    assert_eq!(*field, Some(InvalidParameter::SUBSYSTEM_NQN));
    assert!(error.to_string().contains("subsystem NQN"), "{error}");
}

#[test]
fn an_address_without_a_listener_is_reported() {
    let free = prerequisite::free_address();
    for engine in [Engine::IoUring, Engine::Epoll] {
        let error = Controller::connect(options(free, engine)).unwrap_err();
        assert!(matches!(error, InitiatorError::Connect { .. }), "{error}");
        assert!(error.to_string().contains("is a target listening"), "{error}");
    }
}

#[test]
fn a_target_that_ends_is_noticed() {
    for engine in [Engine::IoUring, Engine::Epoll] {
        let (target, address) = target(engine);
        let controller = Controller::connect(options(address, engine)).unwrap();
        let namespace = Volume::on_controller(&controller, 1).unwrap();
        namespace.write_at(0, &[1; 512]).unwrap();
        target.shutdown();
        let error = namespace.read_at(0, &mut [0; 512]).unwrap_err();
        let lost = matches!(error, InitiatorError::Closed { .. } | InitiatorError::Broken { .. });
        assert!(lost, "{error}");
        wait_until("the admin queue notices too", || controller.check().is_err());
    }
}

mod by_the_clock {
    use super::*;

    #[test]
    #[ignore = "by the clock: the suite machine has it"]
    fn keep_alive_keeps_the_controller() {
        let (_target, address) = target(Engine::Automatic);
        let options = ConnectOptions { keep_alive_ms: 1000, ..options(address, Engine::Automatic) };
        let controller = Controller::connect(options).unwrap();
        std::thread::sleep(Duration::from_millis(2500));
        controller.check().unwrap();
        controller.namespaces().unwrap();
    }
}

#[test]
fn a_request_longer_than_a_queue_that_times_out_ends() {
    let (target, address) = target(Engine::Automatic);
    let mut config = target.config();
    config.subsystems[0].namespaces[0].qos = QosConfig { write_bytes: Some(4096), ..QosConfig::default() };
    target.apply(&config).unwrap();
    let controller = Controller::connect(ConnectOptions {
        io_queues: 1,
        queue_entries: 2,
        command_timeout: Duration::from_secs(3),
        ..options(address, Engine::Automatic)
    })
    .unwrap();
    let namespace = Volume::on_controller(&controller, 1).unwrap();
    // Several commands, of which one has a slot and the others wait for it.
    let data = vec![1; 6 * controller.transfer_length_max()];
    let (sender, outcome) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(namespace.write_at(0, &data)));
    let outcome = outcome.recv_timeout(patience()).expect("a command that waits for a slot ends");
    assert!(matches!(outcome, Err(InitiatorError::TimedOut { .. })), "{outcome:?}");
}
