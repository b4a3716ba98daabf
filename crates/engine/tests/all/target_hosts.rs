//! Two hosts at one target: what one says of itself, sets and aborts is nothing to the other.

use std::net::SocketAddr;
use std::path::Path;

use crate::raw_host::admin::abort;
use crate::raw_host::{
    Client, ENGINES, Give, Host, NQN, Options, Reply, SPACES, TestTarget, assert_status, configure, pattern,
    subsystem,
};
use crate::reservation_party::Party;
use engine::backend::BackendConfig;
use engine::ring::Engine;
use engine::target::{NO_PORT, NamespaceConfig, Reactors, Target, TargetConfig};
use nvme::command::admin_opcode;
use nvme::discovery::{DISCOVERY_NQN, DiscoveryLog, SubsystemType, transport_requirements};
use nvme::fabrics::{CONTROLLER_ID_ANY, Connect, InvalidParameter};
use nvme::features::{FeatureId, Select, value};
use nvme::identify::NSID_ALL;
use nvme::identify::bits::controller_attributes;
use nvme::io::IoCommand;
use nvme::log_page::LogPageId;
use nvme::reservation::{AcquireAction, PersistenceChange, RegisterAction, ReservationType};
use nvme::{Status, SubmissionEntry};
use prerequisite::wait_until;

const SECOND: &str = "nqn.2014-08.org.example:second";
const IN_USE: Status = Status::CONNECT_INVALID_PARAMETERS;

/// Two subsystems, the first with namespaces 1 and 2, whose UUIDs are their own.
fn start(engine: Engine, state_dir: Option<&Path>) -> Target {
    let namespace = |nsid| NamespaceConfig {
        uuid: Some(uuid::Uuid::from_u128(u128::from(nsid))),
        ..NamespaceConfig::new(nsid, BackendConfig::Memory { size: 1 << 20 }, 512)
    };
    let subsystems = vec![subsystem(NQN, vec![namespace(1), namespace(2)]), subsystem(SECOND, Vec::new())];
    let config = TargetConfig {
        reactors: Reactors::Count(2),
        state_dir: state_dir.map(Path::to_owned),
        ..configure(engine, subsystems)
    };
    Target::start(&config).unwrap()
}

/// A host with this name and this identifier.
fn options(name: u8, id: u8) -> Options {
    let host_nqn = format!("nqn.2014-08.org.example:host-{name}");
    Options { host_nqn, host_id: [id; 16], ..Options::default() }
}

fn at(subsystem_nqn: &str, options: Options) -> Options {
    Options { subsystem_nqn: subsystem_nqn.to_owned(), ..options }
}

/// Sends a Connect of an admin queue, and returns its answer.
fn connect(address: SocketAddr, options: &Options) -> (Client, Reply) {
    let mut client = Client::initialized(address, options.digests);
    let connect = Connect { queue_size: 31, ..options.connect(0) };
    let reply = client.connect(&connect, &options.data(CONTROLLER_ID_ANY));
    (client, reply)
}

#[track_caller]
fn assert_in_use(address: SocketAddr, options: &Options, what: &str) {
    let (_, reply) = connect(address, options);
    assert_eq!(reply.status, IN_USE.do_not_retry(), "{what}");
    assert_eq!(reply.result, u64::from(InvalidParameter::HOST_ID.encode()), "{what}");
}

fn connects(address: SocketAddr, options: &Options) -> bool {
    connect(address, options).1.status.is_success()
}

/// Finding 12.
#[test]
fn an_identifier_is_one_hosts_as_long_as_it_is_connected() {
    for engine in ENGINES {
        let target = start(engine, None);
        let address = target.ports()[0];
        // A host that asks a discovery service by it does not take it from its owner.
        let stranger = Host::connect_admin(address, at(DISCOVERY_NQN, options(9, 1)));
        let a = Host::connect_with(address, options(1, 1));
        assert_in_use(address, &options(2, 1), "another name");
        let again = Host::connect_with(address, options(1, 1));
        let other_part = Host::connect_with(address, options(1, 3));
        assert!(connects(address, &at(SECOND, options(2, 1))), "another subsystem is another world");
        assert!(connects(address, &options(2, 2)), "an identifier of its own");
        drop((a, stranger));
        assert_in_use(address, &options(2, 1), "it has a second controller");
        drop((again, other_part));
        wait_until("it is free again", || connects(address, &options(2, 1)));
    }
}

/// A target that keeps its state in `folder`, at which host 1 has registered with this namespace through power loss.
fn start_and_register(engine: Engine, folder: &Path, nsid: u32) -> (Target, Party) {
    let target = start(engine, Some(folder));
    let mut a = Party::connect(target.ports()[0], 1);
    let persistence = PersistenceChange::PersistThroughPowerLoss;
    let status = a.register_with(nsid, RegisterAction::Register, (0, 7), persistence);
    assert_status(status, Status::SUCCESS, "register");
    (target, a)
}

#[test]
fn registrations_that_come_with_a_namespace_end_no_host_with_their_identifier() {
    for engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let (target, mut a) = start_and_register(engine, folder.path(), 1);
        a.acquire_with(1, AcquireAction::Acquire, ReservationType::WriteExclusive, (7, 0));
        let address = target.ports()[0];
        let mut other = Host::connect_with(address, at(SECOND, options(2, 1)));
        let mut wanted = target.config();
        let moved = wanted.subsystems[0].namespaces.remove(0);
        wanted.subsystems[1].namespaces.push(moved);
        target.apply(&wanted).unwrap();
        let reply = other.admin.run(SubmissionEntry::new(admin_opcode::KEEP_ALIVE, 0), Give::Nothing);
        assert_status(reply.status, Status::SUCCESS, "it notices nothing");
        let mut queue = other.io(1);
        let written = queue.write(SPACES[0], 0, &pattern(512, 1), true).status;
        assert_status(written, Status::RESERVATION_CONFLICT, "it is not the registered host");
    }
}

#[test]
fn hosts_without_identifier_may_do_all_but_reserve() {
    let folder = tempfile::tempdir().unwrap();
    let target = start(Engine::Automatic, Some(folder.path()));
    let address = target.ports()[0];
    let mut nobodies = [1, 2].map(|name| Host::connect_with(address, options(name, 0)));
    for host in &mut nobodies {
        let mut queue = host.io(1);
        let data = pattern(512, u64::from(host.controller_id));
        assert_status(queue.write(SPACES[0], 0, &data, true).status, Status::SUCCESS, "write");
        assert_eq!(queue.read(SPACES[0], 0, 1).data, data);
        let attributes = host.admin.identified_controller().controller_attributes.get();
        assert_ne!(attributes & controller_attributes::RESERVATION_HOST_ID, 0, "it is known beforehand");
    }
    let mut unnamed = Party::connect(address, 0);
    let not_initialized = Status::HOST_ID_NOT_INITIALIZED;
    for nsid in [1, NSID_ALL] {
        let status = unnamed.set_feature(FeatureId::RESERVATION_PERSISTENCE, nsid, 1);
        assert_status(status, not_initialized, "persistence");
    }
    let mut discovery = Host::connect_admin(address, at(DISCOVERY_NQN, options(1, 0)));
    let page = discovery.admin.logged(LogPageId::DISCOVERY, 0, 16 << 10);
    let log = DiscoveryLog::parse(&page).unwrap();
    for entry in log.entries.iter().filter(|entry| entry.subsystem_type == SubsystemType::NVM) {
        assert_ne!(entry.transport_requirements & transport_requirements::ZERO_HOST_ID, 0);
    }
}

#[test]
fn persistence_is_for_those_who_are_registered() {
    let folder = tempfile::tempdir().unwrap();
    let target = start(Engine::Automatic, Some(folder.path()));
    let mut parties = [1, 2].map(|number| Party::connect(target.ports()[0], number));
    let [a, b] = &mut parties;
    let feature = FeatureId::RESERVATION_PERSISTENCE;
    assert_status(b.set_feature(feature, 1, 1), Status::SUCCESS, "no host is registered");
    assert_status(b.set_feature(feature, 1, 0), Status::SUCCESS, "no host is registered");
    a.register(2);
    assert_status(a.set_feature(feature, 2, 1), Status::SUCCESS, "A is registered");
    let conflict = Status::RESERVATION_CONFLICT;
    assert_status(b.set_feature(feature, 2, 0), conflict, "B would have A's registration lost");
    assert_status(b.set_feature(feature, NSID_ALL, 1), conflict, "on all, one of which is A's");
    assert_eq!(b.get_feature(feature, 1, Select::Current), Ok(0), "nothing is half done");
    assert_eq!(b.get_feature(feature, 2, Select::Current), Ok(value::PERSIST_THROUGH_POWER_LOSS));
    b.register(2);
    assert_status(b.set_feature(feature, 2, 0), Status::SUCCESS, "B is registered, too");
}

#[test]
fn what_a_host_sets_is_its_own_controllers() {
    let target = start(Engine::Automatic, None);
    let mut parties = [1, 2].map(|number| Party::connect(target.ports()[0], number));
    let [a, b] = &mut parties;
    for (feature, nsid, value) in [
        (FeatureId::RESERVATION_NOTIFICATION_MASK, 1, value::MASK_RESERVATION_RELEASED),
        (FeatureId::RESERVATION_NOTIFICATION_MASK, NSID_ALL, value::MASK_RESERVATION_PREEMPTED),
        (FeatureId::KEEP_ALIVE_TIMER, 0, 60_000),
        (FeatureId::ASYNC_EVENT_CONFIG, 0, 0x900),
        (FeatureId::ARBITRATION, 0, 3),
        (FeatureId::TEMPERATURE_THRESHOLD, 0, 300),
        (FeatureId::WRITE_ATOMICITY, 0, 1),
    ] {
        let nsid_read = if nsid == NSID_ALL { 1 } else { nsid };
        let before = a.get_feature(feature, nsid_read, Select::Current);
        assert_status(b.set_feature(feature, nsid, value), Status::SUCCESS, &format!("{feature:?}"));
        assert_eq!(b.get_feature(feature, nsid_read, Select::Current), Ok(value), "{feature:?}");
        assert_eq!(a.get_feature(feature, nsid_read, Select::Current), before, "{feature:?}");
    }
}

#[test]
fn a_host_aborts_its_own_commands_only() {
    for engine in ENGINES {
        let target = start(engine, None);
        let mut parties = [1, 2].map(|number| Party::connect(target.ports()[0], number));
        let [a, b] = &mut parties;
        let data = pattern(512, 5);
        let queue = &mut a.queues[0];
        queue.answers = false;
        let command = IoCommand::Write { start: 3, blocks: 1, force_unit_access: false };
        let id = queue.submit(command.encode(1), Give::Asked(&data));
        let request = queue.ready_to_transfer();
        let abort = abort(1, id);
        let reply = b.host.admin.run(abort, Give::Nothing);
        assert_eq!((reply.status, reply.result & 1), (Status::SUCCESS, 1), "B has no such command");
        queue.answer(&request);
        let reply = queue.wait();
        assert_eq!((reply.command_id, reply.status), (id, Status::SUCCESS), "A's command goes on");
    }
}

#[test]
fn a_host_that_leaves_the_list_may_keep_its_connections() {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        let nqn = || options(1, 1).host_nqn;
        target.apply(|fabric| {
            fabric.subsystems[0].allow_any_host = false;
            fabric.subsystems[0].hosts = vec![nqn()];
        });
        let host = Host::connect_with(target.address(), options(1, 1));
        let mut queue = host.io(1);
        target.apply(|fabric| {
            fabric.subsystems[0].hosts.clear();
            fabric.subsystems[0].kept_hosts = vec![nqn()];
        });
        assert_eq!(queue.read(SPACES[0], 0, 1).status, Status::SUCCESS, "it stays");
        assert!(!host.try_io(2).1.status.is_success(), "another queue");
        assert!(!connect(target.address(), &options(1, 1)).1.status.is_success(), "another controller");
        target.apply(|fabric| fabric.subsystems[0].kept_hosts.clear());
        queue.expect_end();
    }
}

#[test]
fn a_subsystem_is_found_at_the_addresses_of_its_networks() {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        let networks = |networks: &[&str]| {
            target.apply(|fabric| {
                fabric.subsystems[0].ports = vec![NO_PORT];
                fabric.subsystems[0].networks = networks.iter().map(|text| text.parse().unwrap()).collect();
            });
        };
        networks(&["192.0.2.0/24", "127.0.0.0/8"]);
        let (_host, mut queue) = Host::with_queue(target.address());
        assert_eq!(queue.read(SPACES[0], 0, 1).status, Status::SUCCESS);
        networks(&["192.0.2.0/24"]);
        queue.expect_end();
        assert!(!connect(target.address(), &Options::default()).1.status.is_success());
        networks(&["127.0.0.1"]);
        assert!(connect(target.address(), &Options::default()).1.status.is_success());
        let too_many = target.try_apply(|fabric| {
            fabric.subsystems[0].networks =
                (0..65).map(|at| format!("10.0.{at}.0/24").parse().unwrap()).collect();
        });
        assert!(too_many.unwrap_err().to_string().contains("at most 64 networks"));
    }
}
