//! What each of two hosts may change, and what neither may.

use uuid::Uuid;

use super::super::visibility::Visibility;
use super::*;

const NQN: &str = "nqn.2026-01.io.selvedge:a";

fn host(number: u128) -> KnownHost {
    KnownHost { nqn: format!("nqn.2026-01.io.selvedge:host-{number}"), host_id: Uuid::from_u128(number) }
}

fn file(nsid: u32, size: u64) -> NamespaceConfig {
    let path = format!("/srv/hosts/{nsid}.img").into();
    NamespaceConfig::new(nsid, BackendConfig::File { path, size: Some(size) }, 4096)
}

/// Namespace 1 is the operator's, 2 is A's and seen by B, 3 is A's and seen by no host, 4 was made
/// by a host that is no longer known, and 5 is the operator's and hidden from B.
fn subsystem() -> SubsystemConfig {
    let own = |nsid| NamespaceConfig {
        owner: Some(host(1)),
        created_by_host: true,
        host_write_protection: OWN_PROTECTION_MAX,
        visible: Visibility::Only(Vec::new()),
        ..file(nsid, 1 << 20)
    };
    let mut namespaces = vec![file(1, 1 << 20), own(2), own(3), file(4, 1 << 20), file(5, 1 << 20)];
    namespaces[1].visible.attach(&host(2).nqn);
    namespaces[3].created_by_host = true;
    namespaces[4].visible.detach(&host(2).nqn);
    let storage = Some(StorageConfig::new("/srv/hosts".into(), 16 << 20));
    SubsystemConfig { storage, ..SubsystemConfig::new(NQN, "A", "Selvedge").with(namespaces) }
}

#[track_caller]
fn assert_denied<T: fmt::Debug>(outcome: Result<T, Denial>, status: Status, rule: &str) {
    let denial = outcome.expect_err("it is denied");
    assert_eq!(denial.status, status.do_not_retry(), "{denial}");
    assert!(denial.rule.contains(rule), "{denial} does not say `{rule}`");
}

#[test]
fn a_host_that_may_connect_again_keeps_nothing_later() {
    let (a, b) = (host(1).nqn, host(2).nqn);
    let mut subsystem = SubsystemConfig { allow_any_host: false, kept_hosts: vec![a, b], ..subsystem() };
    let kept = subsystem.kept_hosts.clone();
    subsystem.forget_kept();
    assert_eq!(subsystem.kept_hosts, kept);
    assert!(subsystem.lets_stay(&kept[0]) && !subsystem.lets_in(&kept[0]));
    subsystem.hosts.push(kept[0].clone());
    subsystem.forget_kept();
    assert_eq!(subsystem.kept_hosts, kept[1..]);
    subsystem.allow_any_host = true;
    subsystem.forget_kept();
    assert!(subsystem.kept_hosts.is_empty());
    subsystem.allow_any_host = false;
    assert!(subsystem.lets_stay(&kept[0]) && !subsystem.lets_stay(&kept[1]), "the list alone counts then");
}

#[test]
fn an_owner_alone_attaches_and_detaches() {
    let (a, b) = (host(1), host(2));
    let mut subsystem = subsystem();
    let others = [host(3).nqn, host(4).nqn];
    assert_eq!(subsystem.attach_for(&a, 2, &others, true), Ok(()));
    assert!(others.iter().all(|other| subsystem.namespaces[1].visible.includes(other)));
    let before = subsystem.clone();
    let denied = Status::OPERATION_DENIED;
    for attaches in [true, false] {
        let hosts = std::slice::from_ref(&b.nqn);
        assert_denied(subsystem.attach_for(&b, 2, hosts, attaches), denied, &a.nqn);
        assert_denied(subsystem.attach_for(&b, 1, hosts, attaches), denied, "the operator's");
        assert_denied(subsystem.attach_for(&b, 4, hosts, attaches), denied, "the operator's");
        for (nsid, rule) in
            [(3, "hidden"), (5, "hidden"), (0, "no such"), (6, "no such"), (u32::MAX, "no such")]
        {
            let outcome = subsystem.attach_for(&b, nsid, hosts, attaches);
            assert_denied(outcome, Status::INVALID_NAMESPACE, rule);
        }
    }
    // All of them or none.
    let some = [host(3).nqn, host(5).nqn];
    let already = Status::NAMESPACE_ALREADY_ATTACHED;
    assert_denied(subsystem.attach_for(&a, 2, &some, true), already, &host(3).nqn);
    let not = Status::NAMESPACE_NOT_ATTACHED;
    assert_denied(subsystem.attach_for(&a, 2, &some, false), not, &host(5).nqn);
    assert_eq!(subsystem, before);
    assert_eq!(subsystem.attach_for(&a, 2, &others, false), Ok(()));
    assert_eq!(subsystem.namespaces[1].visible, Visibility::Only(vec![b.nqn]));
}

#[test]
fn an_owner_is_its_name_and_its_identifier() {
    let mut subsystem = subsystem();
    let nameless = KnownHost { host_id: Uuid::nil(), ..host(1) };
    let denied = Status::INVALID_NAMESPACE;
    for other in
        [KnownHost { host_id: Uuid::from_u128(9), ..host(1) }, KnownHost { nqn: host(9).nqn, ..host(1) }]
    {
        assert_denied(subsystem.delete_for(&other, Some(3)), denied, "not its own");
        assert_eq!(subsystem.delete_for(&other, None), Ok(Vec::new()));
    }
    for nsid in [Some(3), None] {
        assert_denied(subsystem.delete_for(&nameless, nsid), Status::HOST_ID_NOT_INITIALIZED, "HOSTID");
    }
    let fabric = FabricConfig { subsystems: vec![subsystem], ..FabricConfig::default() };
    assert_denied(fabric.created_for(&nameless, NQN, 1), Status::HOST_ID_NOT_INITIALIZED, "HOSTID");
}

#[test]
fn all_means_ones_own_and_all_of_it() {
    let (a, b) = (host(1), host(2));
    let mut subsystem = subsystem();
    let before = subsystem.clone();
    assert_eq!(subsystem.delete_for(&b, None), Ok(Vec::new()));
    for (nsid, status) in [
        (1, Status::OPERATION_DENIED),
        (2, Status::OPERATION_DENIED),
        (3, Status::INVALID_NAMESPACE),
        (4, Status::OPERATION_DENIED),
        (5, Status::INVALID_NAMESPACE),
    ] {
        assert_denied(subsystem.delete_for(&b, Some(nsid)), status, "");
    }
    subsystem.namespaces[2].write_protection = WriteProtection::On;
    for nsid in [Some(3), None] {
        assert_denied(
            subsystem.delete_for(&a, nsid),
            Status::WRITE_PROTECTED,
            "namespace 3 is write protected",
        );
    }
    subsystem.namespaces[2].write_protection = WriteProtection::None;
    assert_eq!(subsystem, before, "nothing is half done");
    let nsids = |of: &[NamespaceConfig]| of.iter().map(|namespace| namespace.nsid).collect::<Vec<_>>();
    assert_eq!(subsystem.delete_for(&a, None).map(|deleted| nsids(&deleted)), Ok(vec![2, 3]));
    assert_eq!(nsids(&subsystem.namespaces), [1, 4, 5]);
}

#[test]
fn write_protection_goes_as_far_as_the_operator_lets_it() {
    use WriteProtection::{None, On, Permanent, UntilRestart};
    let fixed = Status::FEATURE_NOT_CHANGEABLE;
    let all = [None, On, UntilRestart, Permanent];
    for max in all {
        for wanted in all {
            let mut subsystem = subsystem();
            subsystem.namespaces[0].host_write_protection = max;
            let outcome = subsystem.protect_for(&host(2), 1, wanted);
            let namespace = &subsystem.namespaces[0];
            if wanted <= max {
                assert_eq!(outcome, Ok(()));
                assert_eq!(
                    (namespace.write_protection, namespace.protected_by_host),
                    (wanted, wanted != None)
                );
            } else {
                assert_denied(outcome, fixed, if max == None { "no host" } else { max.name() });
                assert!(namespace.write_protection == None && !namespace.protected_by_host);
            }
            // What the operator has set, no host changes; to want what is so changes nothing.
            let namespace = &mut subsystem.namespaces[0];
            (namespace.write_protection, namespace.protected_by_host) = (On, false);
            let outcome = subsystem.protect_for(&host(2), 1, wanted);
            if wanted == On {
                assert_eq!(outcome, Ok(()));
            } else {
                assert_denied(outcome, fixed, "operator");
            }
            assert!(!subsystem.namespaces[0].protected_by_host);
        }
    }
}

#[test]
fn what_hosts_have_protected_hosts_lift_unless_it_was_to_last() {
    use WriteProtection::{None, On, Permanent, UntilRestart};
    for (set, lifts) in [(On, true), (UntilRestart, false), (Permanent, false)] {
        let mut subsystem = subsystem();
        subsystem.namespaces[0].host_write_protection = Permanent;
        assert_eq!(subsystem.protect_for(&host(1), 1, set), Ok(()));
        let outcome = subsystem.protect_for(&host(2), 1, None);
        if lifts {
            assert_eq!(outcome, Ok(()));
            assert!(!subsystem.namespaces[0].protected_by_host);
        } else {
            assert_denied(outcome, Status::FEATURE_NOT_CHANGEABLE, "no command");
        }
    }
}

#[test]
fn a_hosts_own_namespace_is_protected_by_it_alone() {
    let (a, b) = (host(1), host(2));
    let mut subsystem = subsystem();
    let fixed = Status::FEATURE_NOT_CHANGEABLE;
    assert_denied(subsystem.protect_for(&b, 2, WriteProtection::On), fixed, &a.nqn);
    assert_denied(subsystem.protect_for(&b, 3, WriteProtection::On), Status::INVALID_NAMESPACE, "hidden");
    assert_denied(subsystem.protect_for(&a, 2, WriteProtection::Permanent), fixed, "until_restart");
    assert_eq!(subsystem.protect_for(&a, 2, WriteProtection::On), Ok(()));
    assert_denied(subsystem.protect_for(&b, 2, WriteProtection::None), fixed, &a.nqn);
    assert_eq!(subsystem.protect_for(&a, 2, WriteProtection::None), Ok(()));
    // What a host can rely on for all namespaces that it has or may yet have.
    assert_eq!(b.protection_max_anywhere(&subsystem), OWN_PROTECTION_MAX);
    subsystem.storage = None;
    assert_eq!(b.protection_max_anywhere(&subsystem), WriteProtection::None);
    assert_eq!(a.protection_max_anywhere(&subsystem), OWN_PROTECTION_MAX);
    subsystem.namespaces[4].host_write_protection = WriteProtection::Permanent;
    assert_eq!(b.protection_max_anywhere(&subsystem), WriteProtection::None, "it does not see that one");
    assert_eq!(a.protection_max_anywhere(&subsystem), WriteProtection::Permanent);
}

#[test]
fn a_host_creates_as_much_and_as_many_as_it_may() {
    let (a, b) = (host(1), host(2));
    let mut fabric = FabricConfig { subsystems: vec![subsystem()], ..FabricConfig::default() };
    let full = Status::NAMESPACE_INSUFFICIENT_CAPACITY;
    // Of 16 MiB half are one host's; A has two already.
    assert!(fabric.created_for(&a, NQN, 6 << 20).is_ok() && fabric.created_for(&b, NQN, 8 << 20).is_ok());
    assert_denied(fabric.created_for(&a, NQN, (6 << 20) + 1), full, "2097152");
    assert_denied(fabric.created_for(&b, NQN, (8 << 20) + 1), full, "8388608");
    assert_denied(fabric.created_for(&b, NQN, u64::MAX), full, "");
    // Another identifier makes no other host of it, and another subsystem over the same directory no other room.
    let renewed = KnownHost { host_id: Uuid::from_u128(9), ..host(1) };
    assert_denied(fabric.created_for(&renewed, NQN, (6 << 20) + 1), full, "");
    fabric.subsystems.push(SubsystemConfig { nqn: "nqn.2026-01.io.selvedge:b".to_owned(), ..subsystem() });
    assert_denied(fabric.created_for(&a, NQN, (4 << 20) + 1), full, "4194304");
    let storage = fabric.subsystems[0].storage.as_mut().expect("it has some");
    (storage.bytes_max_per_host, storage.namespaces_max_per_host) = (Some(u64::MAX), Some(2));
    assert!(fabric.created_for(&b, NQN, 16 << 20).is_ok(), "no more than all there is");
    assert_denied(fabric.created_for(&b, NQN, (16 << 20) + 1), full, "16777216");
    assert_denied(fabric.created_for(&a, NQN, 4096), Status::NAMESPACE_ID_UNAVAILABLE, "may have 2");
    fabric.subsystems[0].storage = None;
    assert_denied(fabric.created_for(&a, NQN, 4096), Status::INVALID_FIELD, "no storage");
    assert_denied(fabric.created_for(&a, "nqn.none", 4096), Status::INVALID_FIELD, "no such subsystem");
}
