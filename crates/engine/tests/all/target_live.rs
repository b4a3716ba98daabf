//! Changes of a target while hosts use it: they are notified, go on, and see at once what is so
//! now.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::raw_host::admin::abort;
use crate::raw_host::{
    Client, ENGINES, Give, HOST_NQN, Host, Kind, NQN, Options, SIZE, SPACES, Space, TestTarget,
    assert_status, config_of, pattern,
};
use engine::backend::BackendConfig;
use engine::ring::Engine;
use engine::target::{
    AnaGroupConfig, FabricConfig, GroupState, NamespaceConfig, PortConfig, QosConfig, Visibility,
};
use nvme::command::admin_opcode;
use nvme::discovery::{DISCOVERY_NQN, DiscoveryLog, SubsystemType};
use nvme::fabrics::CONTROLLER_ID_ANY;
use nvme::features::{AsyncEvent, FeatureId};
use nvme::identify::{Cns, NamespaceList};
use nvme::io::IoCommand;
use nvme::log_page::{AnaLog, AnaState, ChangedNamespaceList, LogPageId, LogPageRequest};
use nvme::{Status, SubmissionEntry};
use prerequisite::wait_until;
use zerocopy::{FromBytes, IntoBytes};

const OTHER_HOST: &str = "nqn.2014-08.org.example:other-host";
const NAMESPACES: AsyncEvent = AsyncEvent::NAMESPACE_ATTRIBUTE_CHANGED;
const ANA: AsyncEvent = AsyncEvent::ANA_CHANGE;

/// A host that wants all events of an I/O controller, with queues on every reactor.
fn watcher(address: SocketAddr, host_nqn: &str) -> (Host, Vec<Client>) {
    let options = if host_nqn == HOST_NQN { Options::default() } else { Options::named(host_nqn) };
    let mut host = Host::connect_with(address, options);
    let reply = host.admin.set_feature(FeatureId::ASYNC_EVENT_CONFIG, 0x900, false, Give::Nothing);
    assert_eq!(reply.status, Status::SUCCESS);
    let queues = (1..=4).map(|queue_id| host.io(queue_id)).collect();
    (host, queues)
}

const fn request_event() -> u8 {
    admin_opcode::ASYNC_EVENT_REQUEST
}

/// All events there are now. A request that finds none is taken back.
fn events(admin: &mut Client) -> Vec<AsyncEvent> {
    let mut events = Vec::new();
    loop {
        let request = admin.submit(SubmissionEntry::new(request_event(), 0), Give::Nothing);
        let probe = admin.submit(SubmissionEntry::new(admin_opcode::KEEP_ALIVE, 0), Give::Nothing);
        let first = admin.wait();
        if first.command_id == probe {
            let abort = admin.submit(abort(0, request), Give::Nothing);
            let (taken, answer) = (admin.wait(), admin.wait());
            assert_eq!(taken.command_id, request, "the request is taken back");
            assert_status(taken.status, Status::ABORT_REQUESTED, "taken back");
            assert_eq!((answer.command_id, answer.result & 1), (abort, 0));
            return events;
        }
        assert_eq!((first.command_id, first.status), (request, Status::SUCCESS));
        events.push(AsyncEvent::decode(first.result as u32));
        assert_eq!(admin.wait().command_id, probe);
    }
}

/// The namespaces that changed, which makes the next change an event again.
fn changed(admin: &mut Client) -> Vec<u32> {
    let page = admin.logged(LogPageId::CHANGED_NAMESPACES, 0, 4096);
    ChangedNamespaceList::read_from_bytes(&page).unwrap().decode().unwrap().expect("few enough for the list")
}

/// The state of every group the host sees, which makes the next change an event again.
fn ana(admin: &mut Client) -> BTreeMap<u32, AnaState> {
    let page = admin.logged(LogPageId::ANA, 0, 16 << 10);
    AnaLog::parse(&page).unwrap().groups.iter().map(|group| (group.id, group.state)).collect()
}

fn active(admin: &mut Client) -> Vec<u32> {
    let list = admin.identified(0, Cns::ACTIVE_NAMESPACE_LIST);
    NamespaceList::read_from_bytes(&list).unwrap().decode(0).unwrap()
}

fn blocks(admin: &mut Client, nsid: u32) -> u64 {
    admin.identified_namespace(nsid).size_blocks.get()
}

/// Configuration of a namespace of each kind.
fn new_namespace(target: &TestTarget, space: Space) -> NamespaceConfig {
    let backend = match space.kind {
        Kind::Memory => BackendConfig::Memory { size: SIZE },
        Kind::Null => BackendConfig::Null { size: SIZE },
        Kind::File => BackendConfig::File { path: target.file(space.nsid), size: Some(SIZE) },
    };
    NamespaceConfig::new(space.nsid, backend, space.block)
}

fn remove(fabric: &mut FabricConfig, nsid: u32) {
    fabric.subsystems[0].namespaces.retain(|namespace| namespace.nsid != nsid);
}

/// A change of the configuration, and what it is.
type Edit<'a> = (&'a str, &'a dyn Fn(&mut FabricConfig));

#[test]
fn a_new_namespace_is_announced_and_can_be_used_at_once() {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        let (mut host, mut queues) = watcher(target.address(), HOST_NQN);
        assert_eq!(events(&mut host.admin), []);
        let mut nsid = 20;
        for kind in [Kind::Memory, Kind::Null, Kind::File] {
            for block in [512, 4096] {
                let space = Space { nsid, kind, block };
                let reply = queues[0].read(space, 0, 1);
                assert_status(reply.status, Status::INVALID_NAMESPACE, "not there yet");
                let request = host.admin.submit(SubmissionEntry::new(request_event(), 0), Give::Nothing);
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        let config = new_namespace(&target, space);
                        target.apply(|fabric| fabric.subsystems[0].namespaces.push(config));
                    });
                    // The very moment the host is notified, all its queues know the namespace.
                    let notice = host.admin.wait();
                    assert_eq!(notice.command_id, request);
                    assert_eq!(AsyncEvent::decode(notice.result as u32), NAMESPACES);
                    for queue in &mut queues {
                        let reply = queue.read(space, space.blocks() - 1, 1);
                        assert_eq!(reply.status, Status::SUCCESS, "{space:?}");
                        assert_eq!(reply.data, vec![0; block as usize], "{space:?}");
                    }
                });
                let data = pattern(64 << 10, nsid.into());
                assert_eq!(queues[1].write(space, 0, &data, false).status, Status::SUCCESS);
                if kind != Kind::Null {
                    assert!(queues[2].read(space, 0, (64 << 10) / block).data == data, "{space:?}");
                }
                assert_eq!(blocks(&mut host.admin, nsid), space.blocks());
                assert_eq!(changed(&mut host.admin), [nsid]);
                assert_eq!(events(&mut host.admin), [], "that is all there is to tell");
                nsid += 1;
            }
        }
        assert_eq!(active(&mut host.admin), [1, 2, 3, 4, 7, 8, 20, 21, 22, 23, 24, 25]);
        target.apply(|fabric| (20..26).for_each(|nsid| remove(fabric, nsid)));
        assert_eq!(events(&mut host.admin), [NAMESPACES]);
        assert_eq!(changed(&mut host.admin), [20, 21, 22, 23, 24, 25]);
        for queue in &mut queues {
            let reply = queue.read(Space { nsid: 24, kind: Kind::File, block: 512 }, 0, 1);
            assert_status(reply.status, Status::INVALID_NAMESPACE, "gone");
            assert_eq!(queue.read(SPACES[0], 0, 1).status, Status::SUCCESS, "others stay");
        }
    }
}

/// Reads, and writes what it reads back, until `stop`; counts the answers.
fn load(queue: &mut Client, stop: &AtomicBool, answered: &AtomicU64, comes_and_goes: &[Space]) {
    let spaces: Vec<Space> = SPACES.into_iter().chain(comes_and_goes.iter().copied()).collect();
    while !stop.load(Ordering::Relaxed) {
        let mut sent = BTreeMap::new();
        for (at, space) in spaces.iter().enumerate() {
            let read = IoCommand::Read {
                start: at as u64 * 16,
                blocks: 16384 / space.block,
                force_unit_access: false,
            };
            sent.insert(queue.submit(read.encode(space.nsid), Give::Room(16384)), *space);
            let data = [at as u8; 8192];
            let blocks = 8192 / space.block;
            let write = IoCommand::Write { start: 1024, blocks, force_unit_access: false };
            let give = if at % 2 == 0 { Give::Capsule(&data) } else { Give::Asked(&data) };
            sent.insert(queue.submit(write.encode(space.nsid), give), *space);
        }
        while queue.outstanding() > 0 {
            let reply = queue.wait();
            let space = sent.remove(&reply.command_id).expect("each command is answered once");
            let gone = reply.status.without_flags() == Status::INVALID_NAMESPACE;
            let may_be_gone = comes_and_goes.iter().any(|other| other.nsid == space.nsid);
            assert!(reply.status.is_success() || (gone && may_be_gone), "{} on {space:?}", reply.status);
            answered.fetch_add(1, Ordering::Relaxed);
        }
        assert!(sent.is_empty(), "no command is lost");
    }
}

#[test]
fn commands_go_on_while_namespaces_come_and_go() {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        let (mut host, queues) = watcher(target.address(), HOST_NQN);
        let comes_and_goes = [
            Space { nsid: 30, kind: Kind::Memory, block: 4096 },
            Space { nsid: 31, kind: Kind::File, block: 512 },
            Space { nsid: 32, kind: Kind::Null, block: 512 },
        ];
        let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for mut queue in queues {
                let (stop, answered) = (&stop, &answered);
                scope.spawn(move || load(&mut queue, stop, answered, &comes_and_goes));
            }
            for round in 0..200 {
                let space = comes_and_goes[round / 2 % 3];
                if round % 2 == 0 {
                    let config = new_namespace(&target, space);
                    target.apply(|fabric| fabric.subsystems[0].namespaces.push(config));
                } else {
                    target.apply(|fabric| remove(fabric, space.nsid));
                }
                assert_eq!(active(&mut host.admin).contains(&space.nsid), round % 2 == 0, "round {round}");
            }
            wait_until("there is a load", || answered.load(Ordering::Relaxed) > 1000);
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(events(&mut host.admin), [NAMESPACES]);
        assert_eq!(changed(&mut host.admin), [30, 31, 32]);
    }
}

#[test]
fn a_namespace_grows_and_shrinks_under_its_host() {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        let (mut host, mut queues) = watcher(target.address(), HOST_NQN);
        for space in SPACES {
            let kept = pattern(8192, space.nsid.into());
            assert_eq!(queues[0].write(space, 0, &kept, true).status, Status::SUCCESS);
            for (size, what) in [(2 * SIZE, "grown"), (SIZE / 2, "shrunk"), (SIZE, "grown again")] {
                target.apply(|fabric| match &mut config_of(fabric, space.nsid).backend {
                    BackendConfig::Memory { size: old } | BackendConfig::Null { size: old } => *old = size,
                    BackendConfig::File { size: old, .. } => *old = Some(size),
                    BackendConfig::Block { .. } | BackendConfig::Rbd(_) => {
                        unreachable!("no test has a device")
                    }
                });
                assert_eq!(events(&mut host.admin), [NAMESPACES], "{space:?} {what}");
                assert_eq!(changed(&mut host.admin), [space.nsid]);
                let end = size / u64::from(space.block);
                assert_eq!(blocks(&mut host.admin, space.nsid), end, "{space:?} {what}");
                for queue in &mut queues {
                    let data = vec![0x5a; space.block as usize];
                    assert_eq!(
                        queue.write(space, end - 1, &data, false).status,
                        Status::SUCCESS,
                        "{space:?}"
                    );
                    assert_eq!(queue.read(space, end - 1, 1).status, Status::SUCCESS, "{space:?} {what}");
                    for (start, count) in [(end, 1), (end - 1, 2)] {
                        let reply = queue.read(space, start, count);
                        assert_status(reply.status, Status::LBA_OUT_OF_RANGE, &format!("{space:?} {what}"));
                    }
                }
                let reply = queues[0].read(space, SIZE / 2 / u64::from(space.block), 1);
                if what == "grown again" {
                    assert_eq!(reply.data, vec![0; space.block as usize], "what was cut off is gone");
                }
                if space.kind != Kind::Null {
                    assert!(queues[1].read(space, 0, 8192 / space.block).data == kept, "{space:?} {what}");
                }
            }
        }
    }
}

#[test]
fn ana_states_are_announced_and_kept_to_port_by_port() {
    for engine in ENGINES {
        let target = TestTarget::start_with(engine, |config| {
            config.fabric.ports.push(PortConfig::new(2, "127.0.0.1:0".parse().unwrap()));
            let namespaces = &mut config.fabric.subsystems[0].namespaces;
            namespaces.iter_mut().filter(|n| n.nsid > 2).for_each(|n| n.ana_group = 5);
        });
        let (mut here, mut queues) = watcher(target.ports()[0], HOST_NQN);
        let (mut there, mut other_queues) = watcher(target.ports()[1], HOST_NQN);
        assert_eq!(ana(&mut here.admin), [(1, AnaState::Optimized), (5, AnaState::Optimized)].into());
        for (state, shown, refusal) in [
            (GroupState::NonOptimized, AnaState::NonOptimized, None),
            (GroupState::Inaccessible, AnaState::Inaccessible, Some(Status::ANA_INACCESSIBLE)),
            (GroupState::PersistentLoss, AnaState::PersistentLoss, Some(Status::ANA_PERSISTENT_LOSS)),
            (GroupState::Change, AnaState::Change, Some(Status::ANA_TRANSITION)),
            (GroupState::Optimized, AnaState::Optimized, None),
        ] {
            target.apply(|fabric| {
                let ports = [(1, state)].into();
                fabric.subsystems[0].ana_groups =
                    vec![AnaGroupConfig { id: 5, state: GroupState::Optimized, ports }];
            });
            assert_eq!(events(&mut here.admin), [ANA], "{state:?}");
            assert_eq!(ana(&mut here.admin), [(1, AnaState::Optimized), (5, shown)].into());
            assert_eq!(events(&mut here.admin), [], "{state:?} is announced once");
            events(&mut there.admin);
            assert_eq!(ana(&mut there.admin)[&5], AnaState::Optimized, "the other port's is its own");
            for (queue, other) in queues.iter_mut().zip(&mut other_queues) {
                for space in SPACES {
                    let reply = queue.read(space, 0, 1);
                    let expected = refusal.filter(|_| space.nsid > 2).unwrap_or(Status::SUCCESS);
                    assert_status(reply.status, expected, &format!("{space:?} while {state:?}"));
                    assert!(!reply.status.is_do_not_retry(), "another path may do it");
                    assert_eq!(other.read(space, 0, 1).status, Status::SUCCESS, "{state:?}");
                }
            }
        }
        target.apply_to(8, |namespace| namespace.ana_group = 9);
        assert!(events(&mut here.admin).contains(&ANA), "a namespace in another group");
        assert_eq!(ana(&mut here.admin).into_keys().collect::<Vec<_>>(), [1, 5, 9]);
    }
}

#[test]
fn each_host_sees_what_it_may_and_stays_as_long_as_it_may() {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        let (mut one, mut queues) = watcher(target.address(), HOST_NQN);
        let (mut other, mut other_queues) = watcher(target.address(), OTHER_HOST);
        let hidden = Visibility::Only(vec![OTHER_HOST.to_owned()]);
        target.apply_to(1, |namespace| namespace.visible = hidden);
        assert_eq!((events(&mut one.admin), changed(&mut one.admin)), (vec![NAMESPACES], vec![1]));
        assert_eq!(events(&mut other.admin), [], "nothing is otherwise for it");
        assert_eq!(active(&mut one.admin), [2, 3, 4, 7, 8]);
        assert_eq!(active(&mut other.admin), [1, 2, 3, 4, 7, 8]);
        let attached = other.admin.identified(1, Cns::ATTACHED_CONTROLLER_LIST);
        assert_eq!(attached[..4], [1, 0, other.controller_id as u8, (other.controller_id >> 8) as u8]);
        assert_status(queues[3].read(SPACES[0], 0, 1).status, Status::INVALID_NAMESPACE, "hidden");
        assert_eq!(other_queues[3].read(SPACES[0], 0, 1).status, Status::SUCCESS);
        // Nor does it learn what others do there.
        let stages = |host: &mut Host| {
            host.admin.log_page_of(1, &LogPageRequest::new(LogPageId::COMMAND_STAGES, 0, 64)).status
        };
        assert_status(stages(&mut one), Status::INVALID_NAMESPACE, "the time of others' commands");
        assert_eq!(stages(&mut other), Status::SUCCESS);
        target.apply_to(1, |namespace| namespace.visible = Visibility::default());
        assert_eq!(events(&mut one.admin), [NAMESPACES]);
        assert_eq!(queues[0].read(SPACES[0], 0, 1).status, Status::SUCCESS, "seen again");
        target.apply(|fabric| {
            fabric.subsystems[0].allow_any_host = false;
            fabric.subsystems[0].hosts = vec![OTHER_HOST.to_owned()];
        });
        one.admin.expect_end();
        queues.iter_mut().for_each(Client::expect_end);
        for queue in &mut other_queues {
            assert_eq!(queue.read(SPACES[0], 0, 1).status, Status::SUCCESS, "the other host stays");
        }
        assert_eq!(active(&mut other.admin), [1, 2, 3, 4, 7, 8]);
        assert_eq!(target.target().status().controllers.len(), 1);
    }
}

/// A host that wants to know when the discovery log changes, with a request for that waiting.
pub(crate) fn discoverer(address: SocketAddr, subsystem_nqn: &str) -> Host {
    let options =
        Options { subsystem_nqn: subsystem_nqn.to_owned(), keep_alive_ms: 60_000, ..Options::default() };
    let mut host = Host::connect_with(address, options);
    let reply = host.admin.set_feature(FeatureId::ASYNC_EVENT_CONFIG, 1 << 31, false, Give::Nothing);
    assert_eq!(reply.status, Status::SUCCESS);
    host
}

/// Waits for a discovery event, and gives the log: kind, name and service of every entry.
pub(crate) fn discovered(host: &mut Host) -> Vec<(SubsystemType, String, String)> {
    let notice = host.admin.run(SubmissionEntry::new(request_event(), 0), Give::Nothing);
    assert_eq!(AsyncEvent::decode(notice.result as u32), AsyncEvent::DISCOVERY_LOG_CHANGE);
    let page = host.admin.logged(LogPageId::DISCOVERY, 0, 16 << 10);
    let log = DiscoveryLog::parse(&page).unwrap();
    let entries = log.entries.iter();
    entries.map(|e| (e.subsystem_type, e.nqn().unwrap().to_string(), e.service_id())).collect()
}

#[test]
fn discovery_announces_what_comes_and_goes() {
    const SECOND: &str = "nqn.2014-08.org.example:second";
    const OWN: &str = "nqn.2014-08.org.example:discovery";
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        let mut host = discoverer(target.address(), DISCOVERY_NQN);
        let (mut stays, mut queues) = watcher(target.address(), HOST_NQN);
        let first = target.address().port().to_string();
        let entry = |kind, nqn: &str, service: &str| (kind, nqn.to_owned(), service.to_owned());
        target.apply(|fabric| fabric.subsystems.push(crate::raw_host::subsystem(SECOND, Vec::new())));
        let nvm = SubsystemType::NVM;
        let own = SubsystemType::CURRENT_DISCOVERY;
        let both = [entry(nvm, NQN, &first), entry(nvm, SECOND, &first), entry(own, DISCOVERY_NQN, &first)];
        assert_eq!(discovered(&mut host), both);
        let elsewhere = Options { subsystem_nqn: SECOND.to_owned(), ..Options::default() };
        let mut leaves = Host::connect_with(target.address(), elsewhere);
        target.apply(|fabric| fabric.subsystems.truncate(1));
        assert_eq!(discovered(&mut host), [both[0].clone(), both[2].clone()]);
        leaves.admin.expect_end();
        target.apply(|fabric| fabric.ports.push(PortConfig::new(7, "127.0.0.1:0".parse().unwrap())));
        let second = target.ports()[1].port().to_string();
        let ports = [&first, &second].map(|service| entry(nvm, NQN, service));
        assert_eq!(discovered(&mut host)[..2], ports);
        let (mut by_it, mut its_queues) = watcher(target.ports()[1], OTHER_HOST);
        assert_eq!(its_queues[0].read(SPACES[0], 0, 1).status, Status::SUCCESS, "by the new port");
        let removed = target.ports()[1];
        target.apply(|fabric| fabric.ports.truncate(1));
        assert_eq!(discovered(&mut host).len(), 2);
        by_it.admin.expect_end();
        its_queues.iter_mut().for_each(Client::expect_end);
        wait_until("that port is closed", || std::net::TcpStream::connect(removed).is_err());
        target.apply(|fabric| fabric.discovery_nqn = Some(OWN.to_owned()));
        assert!(discovered(&mut host).len() == 2, "the well-known name is still good");
        let mut named = discoverer(target.address(), OWN);
        target.apply(|fabric| fabric.ports[0].advertise = Some("192.0.2.1".to_owned()));
        let expected = [entry(nvm, NQN, &first), entry(own, OWN, &first)];
        assert_eq!(discovered(&mut named), expected, "it says its own name");
        assert!(queues.iter_mut().all(|queue| queue.read(SPACES[0], 0, 1).status.is_success()));
        assert_eq!(events(&mut stays.admin), [], "no host of the first subsystem has noticed");
    }
}

#[test]
fn who_comes_by_a_port_that_is_just_closed_is_not_refused_for_good() {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        target.apply(|fabric| fabric.ports.push(PortConfig::new(7, "127.0.0.1:0".parse().unwrap())));
        let options = Options::default();
        let mut comes = Client::initialized(target.ports()[1], options.digests);
        target.apply(|fabric| fabric.ports.truncate(1));
        let data = options.data(CONTROLLER_ID_ANY);
        comes.submit(options.connect(0).encode(), Give::Capsule(data.as_bytes()));
        comes.expect_end();
    }
}

#[test]
fn a_change_that_cannot_be_changes_nothing() {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        let (mut host, mut queues) = watcher(target.address(), HOST_NQN);
        let before = target.target().config();
        let occupied = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = occupied.local_addr().unwrap();
        let missing = BackendConfig::File { path: target.file(99), size: None };
        let taken = BackendConfig::File { path: target.file(7), size: Some(SIZE) };
        let memory = |size| BackendConfig::Memory { size };
        let bad: [Edit<'_>; 6] = [
            ("a missing file", &|fabric| {
                fabric.subsystems[0].namespaces.push(NamespaceConfig::new(21, missing.clone(), 512));
            }),
            ("a file another has", &|fabric| {
                fabric.subsystems[0].namespaces.push(NamespaceConfig::new(21, taken.clone(), 512));
            }),
            ("an address in use", &|fabric| fabric.ports.push(PortConfig::new(2, address))),
            ("a namespace twice", &|fabric| {
                fabric.subsystems[0].namespaces.push(NamespaceConfig::new(1, memory(SIZE), 512));
            }),
            ("a size of nothing", &|fabric| config_of(fabric, 2).backend = memory(0)),
            ("a subsystem twice", &|fabric| {
                fabric.subsystems.push(crate::raw_host::subsystem(NQN, Vec::new()));
            }),
        ];
        for (what, bad) in bad {
            let outcome = target.try_apply(|fabric| {
                // What could be done is not done either.
                fabric.subsystems[0].namespaces.push(NamespaceConfig::new(20, memory(SIZE), 512));
                config_of(fabric, 1).backend = memory(2 * SIZE);
                config_of(fabric, 8).backend =
                    BackendConfig::File { path: target.file(8), size: Some(2 * SIZE) };
                remove(fabric, 3);
                bad(fabric);
            });
            assert!(outcome.is_err(), "{what}");
            assert_eq!(target.target().config(), before, "{what}");
            assert_eq!(events(&mut host.admin), [], "{what}");
            assert_eq!(active(&mut host.admin), [1, 2, 3, 4, 7, 8], "{what}");
            for space in SPACES {
                assert_eq!(blocks(&mut host.admin, space.nsid), space.blocks(), "{what}: {space:?}");
                let reply = queues[0].read(space, space.blocks() - 1, 1);
                assert_eq!(reply.status, Status::SUCCESS, "{what}: {space:?}");
            }
            let reply = queues[1].read(SPACES[5], SPACES[5].blocks(), 1);
            assert_status(reply.status, Status::LBA_OUT_OF_RANGE, what);
        }
    }
}

#[test]
fn a_file_moves_from_one_namespace_to_another_at_once() {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        let (mut host, mut queues) = watcher(target.address(), HOST_NQN);
        let data = pattern(64 << 10, 3);
        assert_eq!(queues[0].write(SPACES[4], 0, &data, false).status, Status::SUCCESS);
        let moved = Space { nsid: 17, kind: Kind::File, block: 4096 };
        target.apply(|fabric| {
            remove(fabric, 7);
            let backend = BackendConfig::File { path: target.file(7), size: Some(2 * SIZE) };
            fabric.subsystems[0].namespaces.push(NamespaceConfig::new(17, backend, 4096));
        });
        assert_eq!((events(&mut host.admin), changed(&mut host.admin)), (vec![NAMESPACES], vec![7, 17]));
        assert_eq!(blocks(&mut host.admin, 17), 2 * SIZE / 4096, "it grows in the same change");
        for queue in &mut queues {
            assert!(queue.read(moved, 0, 16).data == data);
            assert_status(queue.read(SPACES[4], 0, 1).status, Status::INVALID_NAMESPACE, "not the old one");
        }
        let reply = queues[1].write(moved, 2 * SIZE / 4096 - 16, &data, false);
        assert_eq!(reply.status, Status::SUCCESS, "up to the new end");
    }
}

#[test]
fn an_event_is_sent_once_until_its_log_page_is_read() {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        let (mut host, _queues) = watcher(target.address(), HOST_NQN);
        let admin = &mut host.admin;
        let state = |fabric: &mut FabricConfig, state| {
            fabric.subsystems[0].ana_groups = vec![AnaGroupConfig { id: 1, state, ports: BTreeMap::new() }];
        };
        target.apply(|fabric| remove(fabric, 1));
        target.apply(|fabric| remove(fabric, 2));
        target.apply(|fabric| state(fabric, GroupState::NonOptimized));
        assert_eq!(events(admin), [NAMESPACES, ANA], "one of a kind");
        target.apply(|fabric| remove(fabric, 3));
        target.apply(|fabric| state(fabric, GroupState::Optimized));
        assert_eq!(events(admin), [], "sent, and not looked at");
        let keep = |id, length| LogPageRequest { retain_event: true, ..LogPageRequest::new(id, 0, length) };
        let page = admin.log_page(&keep(LogPageId::CHANGED_NAMESPACES, 4096)).data;
        let list = ChangedNamespaceList::read_from_bytes(&page).unwrap();
        assert_eq!(list.decode().unwrap(), Some(vec![1, 2, 3]));
        admin.log_page(&keep(LogPageId::ANA, 4096));
        target.apply(|fabric| remove(fabric, 4));
        assert_eq!(events(admin), [], "looked at, but the event was to be kept");
        assert_eq!(changed(admin), [1, 2, 3, 4]);
        target.apply(|fabric| remove(fabric, 7));
        target.apply(|fabric| state(fabric, GroupState::NonOptimized));
        assert_eq!(events(admin), [NAMESPACES], "one was looked at, the other not");
        assert_eq!((changed(admin), ana(admin).len()), (vec![7], 1));
        assert_eq!((events(admin), changed(admin)), (vec![], vec![]));
        admin.set_feature(FeatureId::ASYNC_EVENT_CONFIG, 0, false, Give::Nothing);
        target.apply(|fabric| state(fabric, GroupState::Optimized));
        assert_eq!(events(admin), [], "not asked for");
    }
}

#[test]
fn a_command_that_waits_for_its_limit_can_be_aborted() {
    for engine in [Engine::IoUring, Engine::Epoll] {
        let target = TestTarget::start_with(engine, |config| {
            for namespace in &mut config.fabric.subsystems[0].namespaces {
                namespace.qos = QosConfig { iops: Some(4), ..QosConfig::default() };
            }
        });
        let (mut host, mut queue) = Host::with_queue(target.address());
        for space in SPACES {
            let read = IoCommand::Read { start: 0, blocks: 1, force_unit_access: false };
            let ids: Vec<u16> =
                (0..12).map(|_| queue.submit(read.encode(space.nsid), Give::Room(space.block))).collect();
            let first = queue.wait();
            assert_eq!((first.command_id, first.status), (ids[0], Status::SUCCESS), "{space:?}");
            for last in [ids[11], ids[10]] {
                let abort = abort(1, last);
                let reply = host.admin.run(abort, Give::Nothing);
                assert_eq!((reply.status, reply.result & 1), (Status::SUCCESS, 0), "{space:?}");
            }
            let rest: BTreeMap<u16, Status> =
                (1..12).map(|_| queue.wait()).map(|reply| (reply.command_id, reply.status)).collect();
            for (at, id) in ids.iter().enumerate().skip(1) {
                let expected = if at < 10 { Status::SUCCESS } else { Status::ABORT_REQUESTED };
                assert_status(rest[id], expected, &format!("{at} of {space:?}"));
            }
        }
    }
}
