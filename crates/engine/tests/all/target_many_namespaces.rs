//! A subsystem with as many namespaces as one can have: hosts find all of them, are notified of
//! changes of more than a list can name, and stay when the target is handed over.

use engine::backend::{BackendConfig, BackendError};
use engine::initiator::{ConnectOptions, Controller};
use engine::limits::{METRICS_DETAILED_MAX, METRICS_PIECE_BYTES, NAMESPACES_MAX};
use engine::ring::Engine;
use engine::target::{ExpositionPieces, FabricConfig, NamespaceConfig, SubsystemConfig};
use nvme::features::FeatureId;
use nvme::identify::{Cns, NSID_ALL, NamespaceList};
use nvme::log_page::{ChangedNamespaceList, LogPageId};
use uuid::Uuid;
use zerocopy::FromBytes;

use crate::raw_host::{Client, ENGINES, Give, Host, NQN, TestTarget};
use crate::target_hand_over::Testbed;

/// Namespaces that one list names.
const LISTED: u32 = NamespaceList::CAPACITY as u32;

fn uuid(nsid: u32) -> Uuid {
    Uuid::from_u128(1 << 64 | u128::from(nsid))
}

fn namespace(nsid: u32) -> NamespaceConfig {
    let null = NamespaceConfig::new(nsid, BackendConfig::Null { size: 1 << 20 }, 4096);
    NamespaceConfig { uuid: Some(uuid(nsid)), ..null }
}

fn start(engine: Engine) -> TestTarget {
    TestTarget::start_with(engine, |config| {
        config.fabric.subsystems[0].namespaces = (1..=NAMESPACES_MAX).map(namespace).collect();
    })
}

/// The identifiers on the list after `after`.
fn page(admin: &mut Client, cns: Cns, after: u32) -> Vec<u32> {
    let list = admin.identified(after, cns);
    NamespaceList::read_from_bytes(&list).unwrap().decode(after).unwrap()
}

/// The namespaces that have changed; `None` where they are more than a list names.
fn changed(admin: &mut Client) -> Option<Vec<u32>> {
    let log = admin.logged(LogPageId::CHANGED_NAMESPACES, 0, 4096);
    if log[..4] == NSID_ALL.to_le_bytes() {
        assert!(log[4..].iter().all(|byte| *byte == 0), "nothing is named behind it");
    }
    ChangedNamespaceList::read_from_bytes(&log).unwrap().decode().unwrap()
}

/// Removes all namespaces up to this one.
fn remove_to(fabric: &mut FabricConfig, last: u32) {
    fabric.subsystems[0].namespaces.retain(|namespace| namespace.nsid > last);
}

#[test]
fn hosts_find_every_namespace_on_lists_of_1024() {
    for engine in ENGINES {
        let target = start(engine);
        let mut host = Host::connect(target.address());
        let identify = host.admin.identified_controller();
        assert_eq!((identify.namespaces.get(), identify.namespaces_max.get()), (4096, 4096));
        for cns in [
            Cns::ACTIVE_NAMESPACE_LIST,
            Cns::COMMAND_SET_ACTIVE_NAMESPACE_LIST,
            Cns::ALLOCATED_NAMESPACE_LIST,
            Cns::COMMAND_SET_ALLOCATED_NAMESPACE_LIST,
        ] {
            for after in
                [0, 1, LISTED - 1, LISTED, 2 * LISTED, 3 * LISTED, NAMESPACES_MAX - 1, NAMESPACES_MAX]
            {
                let last = NAMESPACES_MAX.min(after + LISTED);
                let expected: Vec<u32> = (after + 1..=last).collect();
                assert_eq!(page(&mut host.admin, cns, after), expected, "{cns:?} after {after}");
            }
        }
        for cns in [Cns::NAMESPACE, Cns::ALLOCATED_NAMESPACE] {
            let last = host.admin.identified(NAMESPACES_MAX, cns);
            assert_eq!(last[..8], 256_u64.to_le_bytes(), "{cns:?}");
        }
        let own = Controller::connect(ConnectOptions::new(target.address(), NQN)).unwrap();
        assert_eq!(own.namespace_ids().unwrap(), (1..=NAMESPACES_MAX).collect::<Vec<u32>>());
        assert_eq!(own.namespace(NAMESPACES_MAX).unwrap().uuid, Some(uuid(NAMESPACES_MAX).into_bytes()));
    }
}

#[test]
fn more_changes_than_a_list_names_are_said_to_be_so() {
    for engine in ENGINES {
        let target = start(engine);
        let mut host = Host::connect(target.address());
        host.admin.set_feature(FeatureId::ASYNC_EVENT_CONFIG, 0x900, false, Give::Nothing);
        target.apply(|fabric| remove_to(fabric, LISTED));
        assert_eq!(changed(&mut host.admin), Some((1..=LISTED).collect()), "as many as a list names");
        target.apply(|fabric| remove_to(fabric, 2 * LISTED + 1));
        assert_eq!(changed(&mut host.admin), None, "one more: any may have changed");
        assert_eq!(changed(&mut host.admin), Some(vec![]), "it was read");
        // The same, of two changes.
        target.apply(|fabric| remove_to(fabric, 3 * LISTED));
        target.apply(|fabric| remove_to(fabric, NAMESPACES_MAX - 1));
        assert_eq!(changed(&mut host.admin), None);
        target.apply(|fabric| remove_to(fabric, NAMESPACES_MAX));
        assert_eq!(changed(&mut host.admin), Some(vec![NAMESPACES_MAX]));
        assert!(page(&mut host.admin, Cns::ACTIVE_NAMESPACE_LIST, 0).is_empty());
    }
}

#[test]
fn hosts_of_all_namespaces_go_on_with_the_next_target() {
    let mut testbed = Testbed::new(Engine::Automatic, |_| ());
    testbed.config.fabric.subsystems[0].namespaces.extend((2..=NAMESPACES_MAX).map(namespace));
    testbed.pass_on();
    let mut host = Host::connect(testbed.address());
    testbed.pass_on();
    assert_eq!(changed(&mut host.admin), Some(vec![]), "all is as it was");
    assert_eq!(page(&mut host.admin, Cns::ACTIVE_NAMESPACE_LIST, 3 * LISTED).last(), Some(&NAMESPACES_MAX));
    // Changes that the host has not read go with it.
    testbed.config.fabric.subsystems[0].namespaces.truncate(8);
    testbed.target().apply(&testbed.config.fabric).unwrap();
    testbed.pass_on();
    assert_eq!(changed(&mut host.admin), None, "more than a list names");
    assert_eq!(page(&mut host.admin, Cns::ACTIVE_NAMESPACE_LIST, 0), (1..=8).collect::<Vec<u32>>());
}

#[test]
fn metrics_count_the_commands_of_every_namespace_and_have_details_of_some() {
    let metrics = start(Engine::Automatic).target().metrics();
    let text = metrics.to_prometheus();
    let pieces: Vec<String> = ExpositionPieces::new(&metrics).collect();
    assert!(pieces.iter().all(|piece| piece.len() < 2 * METRICS_PIECE_BYTES), "no piece has much");
    assert!(pieces.concat() == text && text.len() > 2 * metrics.memory_bytes(), "the text takes more memory");
    let series = |name: &str| {
        let start = format!("{name}{{");
        text.lines().filter(|line| line.starts_with(&start)).count()
    };
    let all = NAMESPACES_MAX as usize;
    for (name, expected) in [
        ("selvedge_namespace_size_bytes", all),
        ("selvedge_commands_total", 2 * all),
        ("selvedge_media_errors_total", all),
        ("selvedge_command_duration_seconds_count", 2 * METRICS_DETAILED_MAX),
        ("selvedge_namespace_ana_state", METRICS_DETAILED_MAX),
    ] {
        assert_eq!(series(name), expected, "{name}");
    }
    for (kind, omitted) in [("namespace", 0), ("namespace_detail", all - METRICS_DETAILED_MAX)] {
        let line = format!("selvedge_omitted{{kind=\"{kind}\"}} {omitted}");
        assert!(text.lines().any(|found| found == line), "{line}");
    }
}

#[test]
fn numbers_are_given_and_checked_up_to_the_last() {
    let unnumbered = NamespaceConfig { uuid: None, ..namespace(0) };
    let mut subsystem = SubsystemConfig::new(NQN, "1", "test");
    subsystem.namespaces = vec![unnumbered.clone(); NAMESPACES_MAX as usize - 1];
    subsystem.namespaces.push(namespace(7));
    subsystem.number();
    let mut numbers: Vec<u32> = subsystem.namespaces.iter().map(|namespace| namespace.nsid).collect();
    assert_eq!((numbers[5], numbers[6]), (6, 8), "in their order");
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=NAMESPACES_MAX).collect::<Vec<u32>>());
    let check = |subsystem: &SubsystemConfig| {
        FabricConfig { subsystems: vec![subsystem.clone()], ..FabricConfig::default() }.check()
    };
    check(&subsystem).unwrap();
    subsystem.namespaces.push(unnumbered);
    subsystem.number();
    let refused = check(&subsystem).unwrap_err().to_string();
    assert!(refused.contains("namespace 4097: identifiers go from 1 to 4096"), "{refused}");
}

#[test]
fn a_target_without_descriptors_names_the_limit_to_raise() {
    let source = std::io::Error::from_raw_os_error(libc::EMFILE);
    let error = BackendError::Open { path: "/disk".into(), source }.to_string();
    assert!(error.contains("LimitNOFILE"), "{error}");
}
