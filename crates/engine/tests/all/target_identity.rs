//! Identities of a target's subsystems and namespaces as hosts see them: the same while the machine
//! and the blocks are, and nothing that another target or another disk has.

use std::collections::HashSet;
use std::path::Path;

use crate::raw_host::{ENGINES, Host, Kind, Random, SIZE, SPACES, Space, TestTarget, pattern};
use engine::backend::{BackendConfig, FilePin};
use engine::ring::Engine;
use engine::target::{Change, FabricConfig, MachineId, NamespaceConfig, Nguid, Target, TargetConfig};
use nvme::identify::{Cns, NamespaceIdentifiers};
use nvme::log_page::LogPageId;
use uuid::Uuid;

/// The first namespace on a file.
const FILE: Space = SPACES[5];

fn identifiers(host: &mut Host, nsid: u32) -> NamespaceIdentifiers {
    NamespaceIdentifiers::decode(&host.admin.identified(nsid, Cns::NAMESPACE_DESCRIPTORS)).unwrap()
}

fn uuid(target: &TestTarget, nsid: u32) -> Uuid {
    let known = identifiers(&mut Host::connect(target.address()), nsid);
    let uuid = Uuid::from_bytes(known.uuid.expect("each has a UUID"));
    assert_eq!(known.nguid, known.uuid, "both name the same disk");
    uuid
}

fn serial(target: &TestTarget) -> String {
    let mut host = Host::connect(target.address());
    let identify = host.admin.identified_controller();
    String::from_utf8_lossy(&identify.serial_number).trim_end().to_owned()
}

fn remove(fabric: &mut FabricConfig, nsid: u32) {
    fabric.subsystems[0].namespaces.retain(|namespace| namespace.nsid != nsid);
}

fn on_file(nsid: u32, path: &Path) -> NamespaceConfig {
    NamespaceConfig::new(nsid, BackendConfig::File { path: path.to_owned(), size: Some(SIZE) }, 4096)
}

/// A target on the machine with this number, which gives its subsystem a serial number.
fn on_machine(number: u128, change: impl FnOnce(&mut TargetConfig)) -> TestTarget {
    TestTarget::start_with(Engine::Automatic, |config| {
        config.machine = Some(MachineId::from_uuid(Uuid::from_u128(number)));
        config.fabric.subsystems[0].serial.clear();
        change(config);
    })
}

#[test]
fn targets_of_two_machines_have_nothing_in_common() {
    let (mut one, two) = (on_machine(1, |_| {}), on_machine(2, |_| {}));
    assert_ne!(serial(&one), serial(&two));
    let mut uuids = HashSet::new();
    for space in SPACES {
        assert!(uuids.insert(uuid(&one, space.nsid)) && uuids.insert(uuid(&two, space.nsid)), "{space:?}");
    }
    let before = (serial(&one), uuid(&one, FILE.nsid));
    one.restart();
    assert_eq!((serial(&one), uuid(&one, FILE.nsid)), before);
}

#[test]
fn a_target_that_knows_no_machine_is_another_after_each_start() {
    let mut target = TestTarget::start_with(Engine::Automatic, |config| {
        config.machine = None;
        config.fabric.subsystems[0].serial.clear();
    });
    let before = (serial(&target), uuid(&target, FILE.nsid));
    target.restart();
    assert_ne!(serial(&target), before.0);
    assert_ne!(uuid(&target, FILE.nsid), before.1);
}

#[test]
fn an_nguid_that_is_given_is_what_hosts_read_everywhere() {
    let nguid: Nguid = "ef90689c6c46d44c89c14067801309a8".parse().unwrap();
    let nguid_of = |fabric: &mut FabricConfig, nsid, nguid| {
        let known = fabric.subsystems[0].namespaces.iter_mut().find(|known| known.nsid == nsid);
        known.expect("it is served").nguid = Some(nguid);
    };
    let mut target = TestTarget::start_with(Engine::Automatic, |config| {
        config.machine = Some(MachineId::from_uuid(Uuid::from_u128(1)));
        nguid_of(&mut config.fabric, FILE.nsid, nguid);
    });
    let file = identifiers(&mut Host::connect(target.address()), FILE.nsid).uuid;
    for _ in 0..2 {
        let mut host = Host::connect(target.address());
        let known = identifiers(&mut host, FILE.nsid);
        assert_eq!((known.nguid, known.uuid), (Some(nguid.into_bytes()), file));
        assert_eq!(host.admin.identified_namespace(FILE.nsid).nguid, nguid.into_bytes());
        let status = target.target().status().namespaces;
        let known = status.iter().find(|known| known.nsid == FILE.nsid).unwrap();
        assert_eq!((known.uuid, known.nguid), (file.map(Uuid::from_bytes), Some(nguid)));
        assert_eq!(known.size_bytes, Some(SIZE));
        let memory = status.iter().find(|known| known.nsid == SPACES[0].nsid).unwrap();
        assert_eq!(memory.nguid, memory.uuid.map(Nguid::from));
        drop(host);
        target.restart();
    }
    let taken = target.try_apply(|fabric| nguid_of(fabric, SPACES[0].nsid, nguid));
    assert!(taken.unwrap_err().to_string().contains("another has the same NGUID"));
    // Also one that another has from its UUID.
    let taken = target.try_apply(|fabric| {
        let known = fabric.subsystems[0].namespaces.iter_mut().find(|known| known.nsid == SPACES[0].nsid);
        known.unwrap().uuid = Some(Uuid::from_bytes(nguid.into_bytes()));
    });
    assert!(taken.unwrap_err().to_string().contains("both have the NGUID"));
}

#[test]
fn targets_begin_with_identifiers_of_their_own() {
    let first: HashSet<u16> = (0..8)
        .map(|_| {
            let (target, host) = TestTarget::with_host(Engine::Automatic);
            let _keep = &host;
            target.target().status().controllers[0].cntlid
        })
        .collect();
    assert!(first.len() >= 7, "{first:?}");
    let narrow = TestTarget::start_with(Engine::Automatic, |config| config.controller_ids = 7..=8);
    let _hosts = [Host::connect(narrow.address()), Host::connect(narrow.address())];
    let ids: Vec<u16> =
        narrow.target().status().controllers.iter().map(|controller| controller.cntlid).collect();
    assert_eq!(ids, [7, 8], "all of the range is used");
}

#[test]
fn another_file_under_the_same_number_is_another_disk() {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        let folder = tempfile::tempdir().unwrap();
        let (mut host, mut queue) = Host::with_queue(target.address());
        let data = pattern(4096, 1);
        assert!(queue.write(FILE, 0, &data, false).status.is_success());
        let before = uuid(&target, FILE.nsid);
        host.admin.logged(LogPageId::CHANGED_NAMESPACES, 0, 4096);

        // Removed and added again, in two changes.
        target.apply(|fabric| remove(fabric, FILE.nsid));
        let other = on_file(FILE.nsid, &folder.path().join("other"));
        target.apply(|fabric| fabric.subsystems[0].namespaces.push(other.clone()));
        let second = uuid(&target, FILE.nsid);
        assert_ne!(second, before);
        assert_ne!(queue.read(FILE, 0, 1).data, data);
        let page = host.admin.logged(LogPageId::CHANGED_NAMESPACES, 0, 4096);
        assert_eq!(page[..4], FILE.nsid.to_le_bytes(), "the host is notified");

        // Another one in the same change.
        let third = on_file(FILE.nsid, &folder.path().join("third"));
        let changes = target.apply_to(FILE.nsid, |namespace| namespace.backend = third.backend);
        assert!(matches!(changes[..], [Change::NamespaceReplaced { nsid: 8, .. }]), "{changes:?}");
        assert!(![before, second].contains(&uuid(&target, FILE.nsid)));
        let page = host.admin.logged(LogPageId::CHANGED_NAMESPACES, 0, 4096);
        assert_eq!(page[..4], FILE.nsid.to_le_bytes(), "the host is notified");

        // And the first one again is the first one again.
        let first = on_file(FILE.nsid, &target.file(FILE.nsid));
        target.apply_to(FILE.nsid, |namespace| namespace.backend = first.backend);
        assert_eq!(uuid(&target, FILE.nsid), before);
        assert_eq!(queue.read(FILE, 0, 1).data, data);
    }
}

#[test]
fn a_file_that_was_made_again_is_another_disk() {
    let mut target = TestTarget::start(Engine::Automatic);
    let before = uuid(&target, FILE.nsid);
    target.shutdown();
    let path = target.file(FILE.nsid);
    // On many file systems the new one gets the number of the old one.
    std::fs::remove_file(&path).unwrap();
    target.start_again();
    assert_ne!(uuid(&target, FILE.nsid), before);
    // So is a copy, even in the place of the first.
    let before = uuid(&target, FILE.nsid);
    target.shutdown();
    let copy = path.with_extension("copy");
    std::fs::copy(&path, &copy).unwrap();
    std::fs::rename(&copy, &path).unwrap();
    target.start_again();
    assert_ne!(uuid(&target, FILE.nsid), before);
}

#[test]
fn memory_is_blank_and_says_so() {
    let mut target = TestTarget::start(Engine::Automatic);
    let memory = SPACES.into_iter().filter(|space| space.kind != Kind::File);
    let before: Vec<(u32, Uuid)> = memory.map(|space| (space.nsid, uuid(&target, space.nsid))).collect();
    target.apply_to(1, |namespace| namespace.backend = BackendConfig::Memory { size: 2 * SIZE });
    assert_eq!(uuid(&target, 1), before[0].1, "what grows keeps what it holds");
    target.restart();
    for (nsid, before) in before {
        assert_ne!(uuid(&target, nsid), before);
    }
}

#[test]
fn what_is_shared_is_the_same_disk_at_both_targets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("both");
    let share = |config: &mut TargetConfig| {
        let shared = NamespaceConfig { shared_storage: true, ..on_file(20, &path) };
        config.fabric.subsystems[0].namespaces.push(shared);
    };
    let (one, two) = (on_machine(1, share), on_machine(2, share));
    assert_eq!(uuid(&one, 20), uuid(&two, 20));
    assert_eq!(serial(&one), serial(&two), "they are one subsystem");
    assert_ne!(uuid(&one, FILE.nsid), uuid(&two, FILE.nsid), "what each has for itself stays its own");
}

#[test]
fn one_file_is_not_two_namespaces() {
    let target = TestTarget::start(Engine::Automatic);
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("disk"), folder.path().join("link"));
    std::fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
    std::fs::hard_link(&path, &link).unwrap();
    let shared = |nsid, path| NamespaceConfig { shared_storage: true, ..on_file(nsid, path) };
    let two = [shared(20, &path), shared(21, &link)];
    let refused = target.try_apply(|fabric| fabric.subsystems[0].namespaces.extend(two)).unwrap_err();
    assert!(refused.to_string().contains("namespaces 20 and 21 are both"), "{refused}");
    let two = [shared(20, &path), NamespaceConfig { uuid: Some(Uuid::from_u128(5)), ..shared(21, &link) }];
    target.apply(|fabric| fabric.subsystems[0].namespaces.extend(two));
    assert_ne!(uuid(&target, 20), uuid(&target, 21));
}

#[test]
fn to_say_what_is_so_changes_nothing() {
    let (target, mut host) = TestTarget::with_host(Engine::Automatic);
    let known = uuid(&target, FILE.nsid);
    assert_eq!(target.apply_to(FILE.nsid, |namespace| namespace.uuid = Some(known)), []);
    // What is no longer set stays, since hosts know the disk by it.
    assert_eq!(target.apply_to(FILE.nsid, |namespace| namespace.uuid = None), []);
    let before = serial(&target);
    assert_eq!(target.apply(|fabric| fabric.subsystems[0].serial.clear()), []);
    assert_eq!(serial(&target), before);
    let other = Uuid::from_u128(9);
    let changes = target.apply_to(FILE.nsid, |namespace| namespace.uuid = Some(other));
    assert!(matches!(changes[..], [Change::NamespaceReplaced { nsid: 8, .. }]), "{changes:?}");
    let page = host.admin.logged(LogPageId::CHANGED_NAMESPACES, 0, 4096);
    assert_eq!(page[..8], [FILE.nsid.to_le_bytes(), [0; 4]].concat(), "only this change is reported");
    assert_eq!(target.target().namespace_identities()[&(crate::raw_host::NQN.to_owned(), FILE.nsid)], other);
}

#[test]
fn any_order_of_changes_keeps_identities_with_their_blocks() {
    let mut random = Random::seeded("identities stay with their blocks");
    let target = TestTarget::start(Engine::Automatic);
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..4).map(|number| folder.path().join(number.to_string())).collect();
    let mut known = std::collections::HashMap::new();
    for _ in 0..60 {
        let (nsid, path) = (20 + random.below(3) as u32, &paths[random.below(4) as usize]);
        let outcome = target.try_apply(|fabric| {
            remove(fabric, nsid);
            fabric.subsystems[0].namespaces.push(on_file(nsid, path));
        });
        // Another namespace may have it.
        if outcome.is_err() {
            continue;
        }
        let identity = target.target().namespace_identities()[&(crate::raw_host::NQN.to_owned(), nsid)];
        assert_eq!(*known.entry(path.clone()).or_insert(identity), identity);
    }
    let distinct: HashSet<_> = known.values().collect();
    assert_eq!(distinct.len(), known.len());
}

/// Administrators with a list of allowed storage could otherwise have another team's file served by a link that is put in the
/// place of their own.
#[test]
fn a_pinned_file_is_served_again_and_no_other_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let (mine, theirs) = (folder.path().join("mine"), folder.path().join("theirs"));
    std::fs::create_dir(&mine).unwrap();
    std::fs::write(&theirs, vec![7; SIZE as usize]).unwrap();
    let path = mine.join("disk");
    let pinned = || {
        let file_pin = Some(FilePin { directory: mine.clone(), file: None });
        NamespaceConfig { file_pin, ..on_file(20, &path) }
    };
    let pin_of = |fabric: &FabricConfig| {
        let known = fabric.subsystems[0].namespaces.iter().find(|known| known.nsid == 20);
        known.and_then(|known| known.file_pin.clone()?.file)
    };
    let mut config = None;
    let mut target = TestTarget::start_with(Engine::Automatic, |wanted| {
        wanted.fabric.subsystems[0].namespaces.push(pinned());
        config = Some(wanted.clone());
    });
    let first = pin_of(&target.target().config()).expect("the new file is recorded");
    target.shutdown();
    let mut config = config.unwrap();
    for namespace in &mut config.fabric.subsystems[0].namespaces {
        namespace.file_pin.iter_mut().for_each(|pin| pin.file = Some(first.clone()));
    }
    let start = || Target::start(&config).map(|target| pin_of(&target.config())).map_err(|e| e.to_string());
    assert_eq!(start(), Ok(Some(first.clone())), "the same file continues");
    std::fs::rename(&path, mine.join("kept")).unwrap();
    let refused = start().unwrap_err();
    assert!(refused.contains("No such file"), "it is not made again: {refused}");
    std::os::unix::fs::symlink(&theirs, &path).unwrap();
    let refused = start().unwrap_err();
    assert!(refused.contains("leads out of"), "{refused}");
    std::fs::remove_file(&path).unwrap();
    std::fs::copy(mine.join("kept"), &path).unwrap();
    let refused = start().unwrap_err();
    assert!(refused.contains("another file is in the place"), "{refused}");
    std::fs::rename(mine.join("kept"), &path).unwrap();
    assert_eq!(start(), Ok(Some(first)));
    // The operator of the machine may put there what it likes.
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&theirs, &path).unwrap();
    let mut free = config.clone();
    free.fabric.subsystems[0].namespaces.iter_mut().for_each(|namespace| namespace.file_pin = None);
    drop(Target::start(&free).unwrap());
}
