//! Two thousand connections of hosts that fail to authenticate in the most expensive group, again and again: a host that has its
//! secret gets in, and one that is served goes on. Strangers also leave identifiers for controllers.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use authentication::{Group, Secret};
use engine::backend::BackendConfig;
use engine::initiator::{ConnectOptions, Controller, HostIdentity, HostSecrets, PathOptions, Volume};
use engine::limits::PROMISED_IDS_PER_NETWORK_MAX;
use engine::ring::Engine;
use engine::target::{HostKeyConfig, NamespaceConfig, Reactors, SubsystemConfig, Target, TargetConfig};
use nvme::Status;
use nvme::authentication::{Body, Message, Negotiate, Reply, Transfer};
use nvme::fabrics::CONTROLLER_ID_ANY;
use prerequisite::{patience, wait_until};

use crate::raw_host::{Client, Give, Options, configure};

const NQN: &str = "nqn.2014-08.org.example:test";
const HONEST: &str = "nqn.2014-08.org.example:honest";
const THREADS: usize = 8;
const CONNECTIONS_PER_THREAD: usize = 250;
/// Names that the impostors take, each of a host that has a secret.
const NAMES: usize = 1000;

fn send(client: &mut Client, body: Body) -> Status {
    let message = Message { transaction: 1, body }.encode();
    let entry = Transfer { length: message.len() as u32 }.encode_send();
    client.run(entry, Give::Capsule(&message)).status
}

fn receive(client: &mut Client) -> Option<Body> {
    let entry = Transfer { length: 4096 }.encode_receive();
    let reply = client.run(entry, Give::Room(4096));
    Message::decode(&reply.data).ok().map(|message| message.body)
}

/// Connects an admin queue in the name of a host.
fn connect(target: &Target, host_nqn: &str) -> (Client, Status) {
    let options = Options {
        subsystem_nqn: NQN.to_owned(),
        host_nqn: host_nqn.to_owned(),
        host_id: [7; 16],
        ..Options::default()
    };
    let mut client = Client::initialized(target.ports()[0], options.digests);
    let connect = nvme::fabrics::Connect { queue_size: 31, ..options.connect(0) };
    let status = client.connect(&connect, &options.data(CONTROLLER_ID_ANY)).status;
    (client, status)
}

/// An impostor up to where the target has to work for it.
fn begin(target: &Target, number: usize) -> Option<Client> {
    let (mut client, status) = connect(target, &format!("nqn.2014-08.org.example:host-{}", number % NAMES));
    if status != Status::SUCCESS {
        return None;
    }
    let offer = Negotiate { concatenation: 0, hashes: vec![1], groups: vec![Group::Ffdhe8192.id()] };
    (send(&mut client, Body::Negotiate(offer)) == Status::SUCCESS).then_some(client)
}

/// Opens many at once, then answers the challenges of some with nonsense, and starts over until the
/// end.
fn storm(target: &Target, first: usize, (stop, failed): (&AtomicBool, &AtomicUsize)) {
    let mut number = first;
    let mut waiting = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let mut next = || {
            number += 1;
            // The target may close those that are too many at any point.
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| begin(target, number))).ok().flatten()
        };
        while waiting.len() < CONNECTIONS_PER_THREAD && !stop.load(Ordering::Relaxed) {
            waiting.extend(next());
        }
        let Some(mut client) = waiting.pop() else { continue };
        let answered = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let Some(Body::Challenge(challenge)) = receive(&mut client) else { return false };
            let exchange = challenge.exchange;
            let nonsense = Reply { response: vec![5; 32], challenge: None, sequence: 0, exchange };
            send(&mut client, Body::Reply(nonsense));
            matches!(receive(&mut client), Some(Body::Failure1(_)))
        }));
        failed.fetch_add(usize::from(answered.unwrap_or(false)), Ordering::Relaxed);
    }
}

/// The time within which all but one in a hundred of these came, and the longest.
fn high(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort_unstable();
    (times[times.len() * 99 / 100], times[times.len() - 1])
}

#[test]
fn an_honest_host_gets_in_during_a_storm_of_impostors() {
    let usual = std::panic::take_hook();
    // Impostors have no name: what they run into is theirs.
    let tells = move |panic: &std::panic::PanicHookInfo<'_>| {
        if std::thread::current().name().is_some() {
            usual(panic);
        }
    };
    std::panic::set_hook(Box::new(tells));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    let secret = Secret::new(&[1; 32], None).unwrap();
    fs::write(&path, &*secret.reveal()).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let namespace = NamespaceConfig::new(1, BackendConfig::Memory { size: 1 << 20 }, 4096);
    let mut subsystem = SubsystemConfig::new(NQN, "1", "test").with(vec![namespace]);
    let names = (0..NAMES).map(|number| format!("nqn.2014-08.org.example:host-{number}"));
    let names = names.chain([HONEST.to_owned()]);
    subsystem.host_keys = names.map(|name| HostKeyConfig::new(&name, path.clone())).collect();
    // The worst case, which is off without a list.
    subsystem.dhchap_dhgroup = [&Group::DEFAULT[..], &[Group::Ffdhe8192]].concat();
    engine::ring::core::raise_descriptor_limit();
    let config = TargetConfig { reactors: Reactors::Count(2), ..configure(Engine::Epoll, vec![subsystem]) };
    let target = Target::start(&config).unwrap();
    let secrets = Some(Arc::new(HostSecrets { secret, controller_secret: None, reauth_interval: None }));
    let options = ConnectOptions {
        host: HostIdentity::from_nqn(HONEST),
        secrets,
        connect_timeout: patience(),
        ..ConnectOptions::new(target.ports()[0], NQN)
    };
    let volume = Volume::connect(PathOptions::once(options.clone(), 1)).unwrap();
    let reads = |count: usize| {
        let mut block = [0; 4096];
        let read = |_| {
            let began = Instant::now();
            volume.read_at(0, &mut block).unwrap();
            std::thread::sleep(Duration::from_micros(500));
            began.elapsed()
        };
        high((0..count).map(read).collect())
    };
    let alone = reads(2000);
    let (stop, failed) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (target, stop, failed) = (&target, &stop, &failed);
            scope.spawn(move || storm(target, thread * CONNECTIONS_PER_THREAD, (stop, failed)));
        }
        wait_until("each has refused", || failed.load(Ordering::Relaxed) >= THREADS);
        let connect = |_| {
            let began = Instant::now();
            let controller = Controller::connect(options.clone()).unwrap();
            let took = began.elapsed();
            controller.disconnect().unwrap();
            took
        };
        let connected: Vec<Duration> = (0..20).map(connect).collect();
        let during = reads(2000);
        stop.store(true, Ordering::Relaxed);
        println!("connected within {:?}; reads alone {alone:?}, during {during:?}", high(connected));
        println!("{} impostors were refused", failed.load(Ordering::Relaxed));
    });
    assert!(failed.load(Ordering::Relaxed) >= THREADS);
    volume.write_at(0, &[1; 4096]).unwrap();
}

/// Identifiers as a gateway has them: few, and its own.
#[test]
fn strangers_leave_identifiers_to_hosts_that_come_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    fs::write(&path, &*Secret::new(&[1; 32], None).unwrap().reveal()).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let mut subsystem = SubsystemConfig::new(NQN, "1", "test");
    subsystem.host_keys = vec![HostKeyConfig::new(HONEST, path)];
    engine::ring::core::raise_descriptor_limit();
    let most = PROMISED_IDS_PER_NETWORK_MAX as u16;
    let controller_ids = 2049..=2048 + most + 4;
    let base = configure(Engine::Epoll, vec![subsystem]);
    let config = TargetConfig { reactors: Reactors::Count(1), controller_ids, ..base };
    let target = Target::start(&config).unwrap();
    // Each claims the name of a host with a secret, and proves nothing.
    let strangers: Vec<(Client, Status)> = (0..most + 80).map(|_| connect(&target, HONEST)).collect();
    assert!(strangers.iter().all(|(_, status)| *status == Status::SUCCESS));
    let (_client, status) = connect(&target, "nqn.2014-08.org.example:plain");
    assert_eq!(status, Status::SUCCESS, "a host without a secret");
}
