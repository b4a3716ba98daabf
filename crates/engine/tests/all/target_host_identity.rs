//! Hosts with one HOSTID and different names: one that proves its name goes before one that claims it, and each has
//! reservations of its own.

use std::net::SocketAddr;
use std::path::Path;

use authentication::Secret;
use engine::backend::BackendConfig;
use engine::limits::REGISTRANTS_PER_NAME_MAX;
use engine::ring::Engine;
use engine::target::{NamespaceConfig, Reactors, Target, TargetConfig};
use nvme::command::admin_opcode;
use nvme::fabrics::{CONTROLLER_ID_ANY, Connect, InvalidParameter};
use nvme::reservation::{PersistenceChange, RegisterAction, ReservationType};
use nvme::{Status, SubmissionEntry};
use prerequisite::wait_until;

use crate::raw_host::proof::{host_key, prove, secret};
use crate::raw_host::{
    Client, ENGINES, Give, Host, NQN, Options, SPACES, Space, assert_status, configure, subsystem,
};
use crate::reservation_party::Party;

const SHARED_ID: [u8; 16] = [1; 16];
/// The namespace that is reserved.
const SPACE: Space = SPACES[0];
const TYPE: ReservationType = ReservationType::WriteExclusive;

/// Names of hosts that have a secret, and of those that have none.
const PROVED: [u8; 2] = [1, 2];
const UNPROVED: [u8; 2] = [3, 4];

fn name(host: u8) -> String {
    format!("nqn.2014-08.org.example:host-{host}")
}

fn key(host: u8) -> u64 {
    0x1000 + u64::from(host)
}

fn own_secret(host: u8) -> Option<Secret> {
    PROVED.contains(&host).then(|| secret(host))
}

fn start(engine: Engine, folder: &Path) -> Target {
    let namespace = NamespaceConfig {
        uuid: Some(uuid::Uuid::from_u128(1)),
        ..NamespaceConfig::new(1, BackendConfig::Memory { size: 1 << 20 }, 512)
    };
    let mut subsystem = subsystem(NQN, vec![namespace]);
    subsystem.host_keys = PROVED.iter().map(|host| host_key(folder, &name(*host), &secret(*host))).collect();
    subsystem.allow_any_host = false;
    subsystem.hosts = PROVED.iter().chain(&UNPROVED).map(|host| name(*host)).collect();
    let config = TargetConfig {
        reactors: Reactors::Count(2),
        state_dir: Some(folder.join("state")),
        ..configure(engine, vec![subsystem])
    };
    Target::start(&config).unwrap()
}

/// Connects the host with this number and the shared HOSTID, and proves its name if it has a secret.
///
/// # Errors
/// The status and the result that its Connect is refused with.
fn connect(address: SocketAddr, number: u8) -> Result<Party, (Status, u64)> {
    connect_by(address, number, SHARED_ID)
}

/// The same with this HOSTID.
fn connect_by(address: SocketAddr, number: u8, host_id: [u8; 16]) -> Result<Party, (Status, u64)> {
    let options = Options { host_nqn: name(number), host_id, ..Options::default() };
    let secret = own_secret(number);
    let proves = |client: &mut Client| {
        if let Some(secret) = &secret {
            prove(client, &options, secret).unwrap();
        }
    };
    let mut admin = Client::initialized(address, options.digests);
    let request = Connect { queue_size: 31, ..options.connect(0) };
    let reply = admin.connect(&request, &options.data(CONTROLLER_ID_ANY));
    if !reply.status.is_success() {
        return Err((reply.status, reply.result));
    }
    proves(&mut admin);
    let controller_id = reply.result as u16;
    let mut host = Host { admin, controller_id, options: options.clone(), address };
    host.enable();
    let queues = [1, 2].map(|queue_id| {
        let (mut client, reply) = host.try_io(queue_id);
        assert_eq!(reply.status, Status::SUCCESS);
        proves(&mut client);
        client
    });
    Ok(Party { host, queues: queues.into(), key: key(number) })
}

#[track_caller]
fn assert_in_use(connected: Result<(), &(Status, u64)>, what: &str) {
    let (status, result) = connected.expect_err(what);
    assert_status(*status, Status::CONNECT_INVALID_PARAMETERS, what);
    assert_eq!(*result, u64::from(InvalidParameter::HOST_ID.encode()), "{what}");
}

fn is_alive(party: &mut Party) -> bool {
    let keep_alive = SubmissionEntry::new(admin_opcode::KEEP_ALIVE, 0);
    party.host.admin.run(keep_alive, Give::Nothing).status.is_success()
}

/// Registers and reserves namespace 1, through a loss of power.
fn reserve(party: &mut Party) {
    let persistence = PersistenceChange::PersistThroughPowerLoss;
    let keys = (0, party.key);
    assert_status(
        party.register_with(1, RegisterAction::Register, keys, persistence),
        Status::SUCCESS,
        "register",
    );
    party.acquire(1, TYPE);
}

/// Order in which two hosts come, if the second gets in, and if the first stays then.
const ORDERS: [((u8, u8), bool, bool); 4] = [
    ((PROVED[0], PROVED[1]), true, true),
    ((PROVED[0], UNPROVED[0]), false, true),
    ((UNPROVED[0], PROVED[0]), true, false),
    ((UNPROVED[0], UNPROVED[1]), false, true),
];

#[test]
fn a_connected_host_keeps_off_only_hosts_that_prove_no_more_than_it() {
    for engine in ENGINES {
        for ((first, second), gets_in, stays) in ORDERS {
            let what = format!("{engine:?}: host {second} after host {first}");
            let folder = tempfile::tempdir().unwrap();
            let target = start(engine, folder.path());
            let address = target.ports()[0];
            let mut held = connect(address, first).unwrap();
            let came = connect(address, second).map(|mut party| {
                assert!(is_alive(&mut party), "{what}");
                party
            });
            if gets_in {
                assert!(came.is_ok(), "{what}");
            } else {
                assert_in_use(came.as_ref().map(drop), &what);
            }
            assert_eq!(target.metrics().displaced, u64::from(!stays), "{what}");
            if stays {
                assert!(is_alive(&mut held), "{what}");
            } else {
                held.host.admin.wait_until_gone();
                assert_in_use(connect(address, first).as_ref().map(drop), &what);
            }
        }
    }
}

#[test]
fn a_registration_keeps_no_other_host_off_and_is_its_hosts_alone() {
    for restarts in [false, true] {
        for ((first, second), ..) in ORDERS {
            let what = format!("host {second} after host {first}, restart: {restarts}");
            let folder = tempfile::tempdir().unwrap();
            let mut target = start(ENGINES[1], folder.path());
            let mut holder = connect(target.ports()[0], first).unwrap();
            reserve(&mut holder);
            drop(holder);
            wait_until("it is gone", || target.status().controllers.is_empty());
            if restarts {
                drop(target);
                target = start(ENGINES[1], folder.path());
            }
            let mut other =
                connect(target.ports()[0], second).unwrap_or_else(|status| panic!("{what}: {status:?}"));
            other.check_access(SPACE, true, false, &what);
            other.register(1);
            let report = other.report(1);
            let seen: Vec<_> = report.registrants.iter().map(|of| (of.host_id, of.key, of.holds)).collect();
            assert_eq!(seen, [(SHARED_ID, key(first), true), (SHARED_ID, other.key, false)], "{what}");
            drop(other);
            wait_until("it is gone", || target.status().controllers.is_empty());
            let mut holder = connect(target.ports()[0], first).unwrap();
            holder.check_access(SPACE, true, true, &what);
        }
    }
}

/// State that the first host has when the second one comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Connected,
    /// Gone, with a reservation.
    Registered,
    ConnectedAndRegistered,
    /// Gone, with a reservation, and the target has started again since.
    Restarted,
}

impl First {
    const ALL: [Self; 4] = [Self::Connected, Self::Registered, Self::ConnectedAndRegistered, Self::Restarted];

    fn is_connected(self) -> bool {
        matches!(self, Self::Connected | Self::ConnectedAndRegistered)
    }

    fn has_reservation(self) -> bool {
        self != Self::Connected
    }
}

/// Brings the first host into this state: the target, and the host if it is connected.
fn first_host(first: First, number: u8, folder: &Path) -> (Target, Option<Party>) {
    let target = start(ENGINES[1], folder);
    let mut party = connect(target.ports()[0], number).unwrap();
    if first.has_reservation() {
        reserve(&mut party);
    }
    if first.is_connected() {
        return (target, Some(party));
    }
    drop(party);
    wait_until("it is gone", || target.status().controllers.is_empty());
    if first != First::Restarted {
        return (target, None);
    }
    drop(target);
    (start(ENGINES[1], folder), None)
}

#[test]
fn each_order_of_two_hosts_has_its_outcome_in_each_state() {
    for first in First::ALL {
        for (numbers, gets_in_beside, stays_beside) in ORDERS {
            let what = format!("host {} after host {}, which is {first:?}", numbers.1, numbers.0);
            let folder = tempfile::tempdir().unwrap();
            let (target, mut held) = first_host(first, numbers.0, folder.path());
            let came = connect(target.ports()[0], numbers.1);
            let stays = held.is_some() && stays_beside;
            assert_eq!(target.metrics().displaced, u64::from(held.is_some() && !stays), "{what}");
            match &mut held {
                Some(held) if stays => held.check_access(SPACE, true, true, &what),
                Some(held) => held.host.admin.wait_until_gone(),
                None => {}
            }
            if !gets_in_beside && held.is_some() {
                assert_in_use(came.as_ref().map(drop), &what);
                continue;
            }
            let mut second = came.unwrap_or_else(|refused| panic!("{what}: {refused:?}"));
            // A reservation outlives its host's connection, and its target, until an operator clears it.
            second.check_access(SPACE, true, !first.has_reservation(), &what);
            target.clear_reservations(NQN, 1, None).unwrap();
            second.check_access(SPACE, true, true, &what);
        }
    }
}

#[test]
fn a_host_of_many_identifiers_leaves_others_their_registrations() {
    let folder = tempfile::tempdir().unwrap();
    let target = start(ENGINES[1], folder.path());
    let address = target.ports()[0];
    for number in 0..=REGISTRANTS_PER_NAME_MAX as u8 {
        let mut greedy = connect_by(address, UNPROVED[0], [0x80 + number; 16]).unwrap();
        let keys = (0, greedy.key);
        let status = greedy.register_with(1, RegisterAction::Register, keys, PersistenceChange::NoChange);
        let is_one_more = usize::from(number) == REGISTRANTS_PER_NAME_MAX;
        let expected = if is_one_more { Status::INTERNAL_ERROR } else { Status::SUCCESS };
        assert_status(status, expected, &format!("registration {number}"));
    }
    let mut other = connect(address, PROVED[0]).unwrap();
    other.register(1);
    assert_eq!(target.reservations(NQN, 1).unwrap().registrants.len(), REGISTRANTS_PER_NAME_MAX + 1);
}

#[test]
fn a_denied_host_leaves_no_registration() {
    let folder = tempfile::tempdir().unwrap();
    let target = start(ENGINES[1], folder.path());
    let address = target.ports()[0];
    let mut squatter = connect(address, UNPROVED[0]).unwrap();
    reserve(&mut squatter);
    let mut other = connect(address, PROVED[0]).unwrap();
    other.check_access(SPACE, true, false, "before");
    let mut wanted = target.config();
    wanted.subsystems[0].hosts.retain(|host| *host != name(UNPROVED[0]));
    target.apply(&wanted).unwrap();
    other.check_access(SPACE, true, true, "after");
    assert_eq!(target.reservations(NQN, 1).unwrap().registrants, []);
    drop((other, target));
    let target = start(ENGINES[1], folder.path());
    assert_eq!(target.reservations(NQN, 1).unwrap().registrants, [], "nothing of it is kept");
}

#[test]
fn a_denied_host_that_keeps_its_connections_keeps_its_reservation() {
    let folder = tempfile::tempdir().unwrap();
    let target = start(ENGINES[1], folder.path());
    let address = target.ports()[0];
    let mut holder = connect(address, PROVED[0]).unwrap();
    reserve(&mut holder);
    let mut other = connect(address, PROVED[1]).unwrap();
    let mut wanted = target.config();
    let denied = name(PROVED[0]);
    wanted.subsystems[0].hosts.retain(|host| *host != denied);
    wanted.subsystems[0].host_keys.retain(|key| key.host != denied);
    wanted.subsystems[0].kept_hosts.push(denied);
    target.apply(&wanted).unwrap();
    other.check_access(SPACE, true, false, "the holder relies on it");
    holder.check_access(SPACE, true, true, "the holder stays");
    wanted.subsystems[0].kept_hosts.clear();
    target.apply(&wanted).unwrap();
    other.check_access(SPACE, true, true, "the holder is gone");
    assert_eq!(target.reservations(NQN, 1).unwrap().registrants, []);
}

#[test]
fn an_operator_clears_the_registrations_of_one_host_or_of_all() {
    let folder = tempfile::tempdir().unwrap();
    let target = start(ENGINES[1], folder.path());
    let address = target.ports()[0];
    let mut first = connect(address, PROVED[0]).unwrap();
    let mut second = connect(address, PROVED[1]).unwrap();
    reserve(&mut first);
    second.register(1);
    let seen = target.reservations(NQN, 1).unwrap();
    assert_eq!((seen.kind, seen.persists, seen.registrants.len()), (Some("write_exclusive"), true, 2));
    assert_eq!(seen.registrants.iter().map(|of| of.holds).collect::<Vec<_>>(), [true, false]);
    let cleared = |host: Option<&str>| target.clear_reservations(NQN, 1, host).unwrap();
    assert_eq!(cleared(Some(&name(UNPROVED[0]))), [""; 0], "it has none");
    second.await_event();
    assert_eq!(cleared(Some(&name(PROVED[0]))), [name(PROVED[0])]);
    second.check_access(SPACE, true, true, "the reservation went with its holder");
    assert_eq!(cleared(None), [name(PROVED[1])]);
    second.expect_event();
    assert_eq!(target.reservations(NQN, 1).unwrap().registrants, []);
    let error = target.clear_reservations(NQN, 9, None).unwrap_err().to_string();
    assert!(error.contains("not served here"), "{error}");
    assert!(target.reservations(NQN, 9).is_none());
}
