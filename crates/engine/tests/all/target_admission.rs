//! However many strangers come, and whatever one host asks for: a host that may connect gets in, and its commands have
//! their turns.

use std::net::TcpStream;

use crate::raw_host::proof::{host_key, prove, secret};
use crate::raw_host::{
    Client, ENGINES, Give, Host, Options, SIZE, SPACES, Space, TestTarget, assert_status, subsystem,
};
use engine::backend::BackendConfig;
use engine::limits::{
    COPY_LENGTH_MAX, DISCOVERY_CONTROLLERS_MAX, DISCOVERY_KEEP_ALIVE_MS_MAX, HALF_OPEN_PER_REACTOR_MAX,
};
use engine::target::{NamespaceConfig, Quotas, SubsystemConfig};
use nvme::Status;
use nvme::discovery::DISCOVERY_NQN;
use nvme::fabrics::CONTROLLER_ID_ANY;
use nvme::features::FeatureId;
use nvme::io::{CopyFormat, IoCommand, encode_copy_ranges, encode_ranges};
use prerequisite::wait_until;

const MEMORY: Space = SPACES[1];
const NAMED_NQN: &str = "nqn.2014-08.org.example:named";

fn options(host_nqn: &str, id: u8) -> Options {
    Options { host_nqn: host_nqn.to_owned(), host_id: [id; 16], ..Options::default() }
}

fn discovery(id: u8) -> Options {
    let options = options(&format!("nqn.2014-08.org.example:stranger-{id}"), id);
    Options { subsystem_nqn: DISCOVERY_NQN.to_owned(), keep_alive_ms: 0, ..options }
}

/// Tries to connect an admin queue: the connection, and the status.
fn try_admin(target: &TestTarget, options: &Options) -> (Client, Status) {
    let mut admin = Client::initialized(target.address(), options.digests);
    let connect = nvme::fabrics::Connect { queue_size: 31, ..options.connect(0) };
    let reply = admin.connect(&connect, &options.data(CONTROLLER_ID_ANY));
    (admin, reply.status)
}

#[test]
fn discovery_controllers_take_no_place_from_hosts() {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        let strangers: Vec<Client> = (0..2 * DISCOVERY_CONTROLLERS_MAX)
            .map(|_| {
                let (admin, status) = try_admin(&target, &discovery(1));
                assert_eq!(status, Status::SUCCESS, "each that comes gets in");
                admin
            })
            .collect();
        wait_until("the oldest have gone for the newest", || {
            let status = target.target().status();
            status.controllers.len() == DISCOVERY_CONTROLLERS_MAX
        });
        let host = Host::connect(target.address());
        assert_eq!(host.io(1).read(MEMORY, 0, 1).status, Status::SUCCESS);
        let metrics = target.target().metrics();
        assert_eq!(metrics.discovery_ended, DISCOVERY_CONTROLLERS_MAX as u64);
        drop(strangers);
        wait_until("and none is left", || target.target().status().controllers.len() == 1);
    }
}

#[test]
fn a_discovery_controller_does_not_stay_for_a_day() {
    const DAY_MS: u32 = 24 * 3600 * 1000;
    let target = TestTarget::start(ENGINES[0]);
    for (options, expected) in [
        (Options { keep_alive_ms: DAY_MS, ..discovery(1) }, DISCOVERY_KEEP_ALIVE_MS_MAX),
        (Options { keep_alive_ms: DAY_MS, ..Options::default() }, DAY_MS),
    ] {
        let (mut client, status) = try_admin(&target, &options);
        assert_eq!(status, Status::SUCCESS);
        let keep_alive_ms = || {
            let mut controllers = target.target().status().controllers;
            controllers.sort_by_key(|controller| controller.cntlid);
            controllers.last().map(|controller| controller.keep_alive_ms)
        };
        assert_eq!(keep_alive_ms(), Some(expected));
        for (asked, expected) in [(5_000, 5_000), (DAY_MS, expected)] {
            let reply = client.set_feature(FeatureId::KEEP_ALIVE_TIMER, asked, false, Give::Nothing);
            assert_eq!((reply.status, keep_alive_ms()), (Status::SUCCESS, Some(expected)));
        }
    }
}

#[test]
fn silent_connections_go_for_those_that_come() {
    for engine in ENGINES {
        let target = TestTarget::start_with(engine, |config| {
            config.reactors = engine::target::Reactors::Count(1);
        });
        let (_working, mut queue) = Host::with_queue(target.address());
        let silent: Vec<TcpStream> = (0..HALF_OPEN_PER_REACTOR_MAX + 200)
            .map(|_| TcpStream::connect(target.address()).unwrap())
            .collect();
        wait_until("the oldest have gone", || {
            let reactor = &target.target().status().reactors[0];
            (reactor.connections, reactor.half_open)
                == (HALF_OPEN_PER_REACTOR_MAX + 2, HALF_OPEN_PER_REACTOR_MAX)
        });
        let (_host, mut other) = Host::with_queue(target.address());
        assert_eq!(other.read(MEMORY, 0, 1).status, Status::SUCCESS, "who comes gets in");
        assert_eq!(queue.read(MEMORY, 0, 1).status, Status::SUCCESS, "and who works goes on");
        assert!(target.target().metrics().reactors[0].half_open_dropped >= 200);
        drop(silent);
        wait_until("none is left", || target.target().status().reactors[0].half_open == 0);
    }
}

#[test]
fn one_host_takes_no_more_than_its_quota() {
    let quotas = Quotas { controllers_per_host: 3, queues_per_host: 5, ..Quotas::default() };
    let target = TestTarget::start_with(ENGINES[0], |config| config.quotas = quotas);
    let (greedy, modest) = (options("nqn.2014-08.org.example:a", 1), options("nqn.2014-08.org.example:b", 2));
    let mut hosts: Vec<Host> = (0..3).map(|_| Host::connect_with(target.address(), greedy.clone())).collect();
    assert_status(try_admin(&target, &greedy).1, Status::CONNECT_CONTROLLER_BUSY, "its fourth controller");
    let mut queues: Vec<Client> = (1..=5).map(|queue_id| hosts[0].io(queue_id)).collect();
    assert_status(hosts[1].try_io(1).1.status, Status::CONNECT_CONTROLLER_BUSY, "its sixth I/O queue");
    let other = Host::connect_with(target.address(), modest);
    assert_eq!(other.io(1).read(MEMORY, 0, 1).status, Status::SUCCESS, "another host has its own");
    let status = target.target().status();
    assert_eq!(status.quotas, quotas);
    assert_eq!((status.refusals["controllers_per_host"], status.refusals["queues_per_host"]), (1, 1));
    // What it gives back it may have again.
    queues.pop();
    wait_until("a queue's place is free", || hosts[1].try_io(1).1.status.is_success());
    hosts.pop();
    wait_until("a controller's place is free", || try_admin(&target, &greedy).1.is_success());
}

#[test]
fn strangers_from_one_network_take_no_more_than_its_quota() {
    let quotas = Quotas { controllers_per_network: 4, queues_per_network: 2, ..Quotas::default() };
    let target = TestTarget::start_with(ENGINES[0], |config| {
        config.quotas = quotas;
        let subsystem = &mut config.fabric.subsystems[0];
        *subsystem = SubsystemConfig { hosts: vec![NAMED_NQN.to_owned()], ..subsystem.clone() };
    });
    let stranger = |id| options(&format!("nqn.2014-08.org.example:stranger-{id}"), id);
    let hosts: Vec<Host> = (1..=4).map(|id| Host::connect_with(target.address(), stranger(id))).collect();
    assert_status(try_admin(&target, &stranger(5)).1, Status::CONNECT_CONTROLLER_BUSY, "a fifth name");
    let _queues = [hosts[0].io(1), hosts[1].io(1)];
    assert_status(hosts[2].try_io(1).1.status, Status::CONNECT_CONTROLLER_BUSY, "a third queue");
    let named = Host::connect_with(target.address(), options(NAMED_NQN, 99));
    let mut queue = named.io(1);
    assert_eq!(queue.read(MEMORY, 0, 1).status, Status::SUCCESS, "a named host comes in from there, too");
}

#[test]
fn an_impostor_in_another_subsystem_uses_up_no_quota_of_a_host_that_proves_its_name() {
    const KEYED_NQN: &str = "nqn.2014-08.org.example:keyed";
    let folder = tempfile::tempdir().unwrap();
    let quotas = Quotas {
        controllers_per_host: 2,
        controllers_per_network: 2,
        queues_per_host: 1,
        queues_per_network: 1,
        ..Quotas::default()
    };
    let target = TestTarget::start_with(ENGINES[0], |config| {
        config.quotas = quotas;
        let namespace = NamespaceConfig::new(MEMORY.nsid, BackendConfig::Memory { size: SIZE }, MEMORY.block);
        let mut keyed = subsystem(KEYED_NQN, vec![namespace]);
        keyed.host_keys = vec![host_key(folder.path(), NAMED_NQN, &secret(1))];
        config.fabric.subsystems.push(keyed);
    });
    // Where its name need not be proved.
    let claimed = options(NAMED_NQN, 1);
    let impostors = [(); 2].map(|()| Host::connect_with(target.address(), claimed.clone()));
    assert_status(try_admin(&target, &claimed).1, Status::CONNECT_CONTROLLER_BUSY, "its third controller");
    let _queue = impostors[0].io(1);
    assert_status(impostors[1].try_io(1).1.status, Status::CONNECT_CONTROLLER_BUSY, "its second queue");

    let real = Options { subsystem_nqn: KEYED_NQN.to_owned(), ..claimed };
    let hosts = [(); 2].map(|()| {
        let mut admin = Client::initialized(target.address(), real.digests);
        let connect = nvme::fabrics::Connect { queue_size: 31, ..real.connect(0) };
        let controller_id = admin.connect(&connect, &real.data(CONTROLLER_ID_ANY)).result as u16;
        prove(&mut admin, &real, &secret(1)).unwrap();
        let mut host = Host { admin, controller_id, options: real.clone(), address: target.address() };
        host.enable();
        host
    });
    let (mut queue, reply) = hosts[0].try_io(1);
    assert_eq!(reply.status, Status::SUCCESS);
    prove(&mut queue, &real, &secret(1)).unwrap();
    assert_eq!(queue.read(MEMORY, 0, 1).status, Status::SUCCESS, "it has quotas of its own");
}

#[test]
fn whose_connect_is_refused_is_reported_with_the_reason() {
    const LOCKED: &str = "nqn.2014-08.org.example:locked";
    const STRANGER: &str = "nqn.2014-08.org.example:stranger";
    let target = TestTarget::start_with(ENGINES[0], |config| {
        config.quotas = Quotas { controllers_per_host: 1, ..Quotas::default() };
        let mut locked = SubsystemConfig::new(LOCKED, "L", "test");
        locked.hosts = vec![NAMED_NQN.to_owned()];
        locked.allow_any_host = false;
        config.fabric.subsystems.push(locked);
    });
    let refused = target.target().refused_connects().expect("they are not taken yet");
    assert!(target.target().refused_connects().is_none(), "one can take them");
    let at = |nqn: &str, options: Options| Options { subsystem_nqn: nqn.to_owned(), ..options };
    let (_one, status) = try_admin(&target, &options(STRANGER, 1));
    assert_eq!((status, refused.take()), (Status::SUCCESS, (Vec::new(), 0)));
    for (options, subsystem, reason) in [
        (options(STRANGER, 1), crate::raw_host::NQN, "the host has as many controllers as one host may have"),
        (options(NAMED_NQN, 1), crate::raw_host::NQN, "is in use by nqn.2014-08.org.example:stranger"),
        (at(LOCKED, options(STRANGER, 1)), LOCKED, "the host is not on the subsystem's list"),
        (at("nqn.none", options(STRANGER, 1)), "nqn.none", "there is no such subsystem on this port"),
    ] {
        let (_client, status) = try_admin(&target, &options);
        assert!(!status.is_success(), "{reason}");
        let (report, omitted) = refused.take();
        let [report] = &report[..] else { panic!("{reason}: {report:?}") };
        assert_eq!((report.host.as_ref(), omitted), (Some(&options.host_nqn), 0), "{reason}");
        assert_eq!(report.subsystem.as_deref(), Some(subsystem), "{reason}");
        assert!(report.reason.contains(reason), "{reason}: {}", report.reason);
        assert!(report.address.ip().is_loopback(), "{reason}: {}", report.address);
    }
    assert_eq!(target.target().failed_logins().expect("they are not taken yet").take(), (Vec::new(), 0));
}

/// A copy of the first `size` bytes of the namespace behind themselves, whose list is the data.
fn long_copy(size: u64) -> (IoCommand, Vec<u8>) {
    let block = u64::from(MEMORY.block);
    assert!(size <= COPY_LENGTH_MAX);
    let ranges: Vec<(u64, u32)> =
        (0..4).map(|at| (at * size / 4 / block, (size / 4 / block) as u32)).collect();
    let (format, start) = (CopyFormat::Format0, size / block);
    let command = IoCommand::Copy { start, ranges: 4, format, force_unit_access: false };
    (command, encode_copy_ranges(format, &ranges))
}

/// Sends `count` of them at once, so that they come in one turn.
fn send_copies(queue: &mut Client, count: u16, size: u64) {
    let (copy, list) = long_copy(size);
    let mut bytes = Vec::new();
    for number in 0..count {
        let mut entry = copy.encode(MEMORY.nsid);
        entry.command_id = (1000 + number).into();
        entry.data = nvme::SglDescriptor::in_capsule(list.len() as u32);
        bytes.extend_from_slice(&queue.frame_command(entry, &list));
    }
    queue.expect_answers((0..count).map(|number| 1000 + number));
    queue.send(&bytes);
}

#[test]
fn a_burst_of_copies_leaves_others_their_turns() {
    for engine in ENGINES {
        let target = TestTarget::start_with(engine, |config| {
            config.reactors = engine::target::Reactors::Count(1);
        });
        let options = Options { entries: 512, ..Options::default() };
        let greedy = Host::connect_with(target.address(), options);
        let host = Host::connect(target.address());
        let (mut copies, mut reads) = (greedy.io(1), host.io(1));
        let data: Vec<u8> = crate::raw_host::pattern(4 << 20, 5);
        for (at, piece) in data.chunks(1 << 20).enumerate() {
            let start = (at << 20) as u64 / u64::from(MEMORY.block);
            assert_eq!(copies.write(MEMORY, start, piece, false).status, Status::SUCCESS);
        }
        const COPIES: usize = 300;
        send_copies(&mut copies, COPIES as u16, 4 << 20);
        wait_until("the copies have begun", || copies.has_input());
        assert_eq!(reads.read(MEMORY, 0, 1).status, Status::SUCCESS);
        let done = copies.answers_so_far();
        assert!(done < COPIES / 2, "a read waits for {done} of {COPIES} copies of 4 MiB");
        while copies.outstanding() > 0 {
            assert_eq!(copies.wait().status, Status::SUCCESS);
        }
        let mut copied = Vec::new();
        for at in 4..8 {
            copied.extend(copies.read(MEMORY, (at << 20) / u64::from(MEMORY.block), 256).data);
        }
        assert!(copied == data, "and all of it is where it belongs");
    }
}

#[test]
fn copies_on_many_queues_leave_others_their_turns() {
    const QUEUES: u16 = 64;
    const COPIES: u16 = 60;
    for engine in ENGINES {
        let target = TestTarget::start_with(engine, |config| {
            config.reactors = engine::target::Reactors::Count(1);
        });
        let options = Options { entries: 128, ..Options::default() };
        let greedy = Host::connect_with(target.address(), options);
        let (_host, mut reads) = Host::with_queue(target.address());
        let mut queues: Vec<Client> = (1..=QUEUES).map(|id| greedy.io(id)).collect();
        for queue in &mut queues {
            send_copies(queue, COPIES, 1 << 20);
        }
        wait_until("all have begun", || queues.iter().all(Client::has_input));
        let done = |queues: &[Client]| queues.iter().map(Client::answers_so_far).sum::<usize>();
        let mut fewest = usize::MAX;
        for _ in 0..20 {
            let before = done(&queues);
            assert_eq!(reads.read(MEMORY, 0, 1).status, Status::SUCCESS);
            let now = done(&queues);
            if now == usize::from(QUEUES * COPIES) {
                break;
            }
            fewest = fewest.min(now - before);
        }
        // A machine that is busy elsewhere may be late with an answer, and not with all.
        assert!(fewest < usize::from(QUEUES) / 2, "each read waits for {fewest} copies of 1 MiB or more");
        for queue in &mut queues {
            while queue.outstanding() > 0 {
                assert_eq!(queue.wait().status, Status::SUCCESS);
            }
        }
    }
}

#[test]
fn zeroing_in_pieces_is_zeroing_of_all() {
    for engine in ENGINES {
        let (_target, _host, mut queue) = TestTarget::with_queue(engine);
        let ones = vec![1; 1 << 20];
        let blocks_per_mib = (1 << 20) / u64::from(MEMORY.block);
        let fill = |queue: &mut Client| {
            for mib in 0..8 {
                assert_eq!(queue.write(MEMORY, mib * blocks_per_mib, &ones, false).status, Status::SUCCESS);
            }
        };
        let zeroes = |queue: &mut Client| -> usize {
            let read = (0..8).map(|mib| queue.read(MEMORY, mib * blocks_per_mib, blocks_per_mib as u32).data);
            read.map(|data| data.iter().filter(|byte| **byte == 0).count()).sum()
        };
        fill(&mut queue);
        let blocks = (7 * blocks_per_mib) as u32 - 2;
        let command =
            IoCommand::WriteZeroes { start: 1, blocks, force_unit_access: false, deallocate: false };
        for _ in 0..3 {
            queue.submit(command.encode(MEMORY.nsid), Give::Nothing);
        }
        for _ in 0..3 {
            assert_eq!(queue.wait().status, Status::SUCCESS);
        }
        assert_eq!(zeroes(&mut queue), blocks as usize * MEMORY.block as usize);
        fill(&mut queue);
        let mib = blocks_per_mib as u32;
        let ranges = encode_ranges(&[(0, 0), (1, 3 * mib), (4 * blocks_per_mib, 4 * mib)]);
        let command = IoCommand::DatasetManagement { ranges: 3, deallocate: true };
        let reply = queue.run(command.encode(MEMORY.nsid), Give::Capsule(&ranges));
        assert_eq!(reply.status, Status::SUCCESS);
        assert_eq!(zeroes(&mut queue) as u64, 7 * blocks_per_mib * u64::from(MEMORY.block));
    }
}
