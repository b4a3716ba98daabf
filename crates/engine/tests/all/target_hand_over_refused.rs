//! Refused hand-overs: a target does not take over from the one before, which then serves on as it
//! did.

use engine::backend::{BackendConfig, SyncFailure, SyncKind};
use engine::hand_over::Fault;
use engine::ring::Engine;
use engine::target::{HandedNamespace, Target, TargetConfig};

use crate::raw_host::{Host, NQN};
use crate::target_hand_over::{BLOCK, Testbed, in_memory, read};

#[test]
fn what_cannot_be_of_a_namespace_is_refused_and_the_former_target_goes_on() {
    let testbed = Testbed::new(Engine::Automatic, in_memory);
    let party = Host::connect(testbed.address());
    let mut queue = party.io(1);
    let namespace = uuid::Uuid::from_u128(0x715);
    let failure = SyncFailure { kind: SyncKind::Sync, errno: 5, at: std::time::SystemTime::UNIX_EPOCH };
    let marks = (0..5000).map(|at| (2 * at, 1)).collect();
    for (wrong, expected) in [
        (HandedNamespace { namespace: uuid::Uuid::nil(), marks: Vec::new(), failure: None }, "not served"),
        (HandedNamespace { namespace, marks, failure: None }, "too many"),
        (HandedNamespace { namespace, marks: Vec::new(), failure: Some(failure) }, "no state of failure"),
    ] {
        let next = testbed.next();
        let mut hand_over = testbed.freeze();
        hand_over.state.namespaces.push(wrong);
        let error = next.take_over(hand_over).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(error.fault(), Fault::OtherProcess, "{error}");
        next.disown();
        drop(next);
        testbed.target().go_on();
        assert!(read(&mut queue, 0, BLOCK).iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_namespace_that_the_new_target_cannot_open_is_taken_from_no_host() {
    let testbed = Testbed::new(Engine::Automatic, |_| ());
    let party = Host::connect(testbed.address());
    let mut queue = party.io(1);
    let mut config = TargetConfig { is_held: true, may_disks_be_absent: true, ..testbed.config.clone() };
    let gone = testbed.folder.path().join("gone");
    config.fabric.subsystems[0].namespaces[0].backend = BackendConfig::File { path: gone, size: None };
    let next = Target::start(&config).unwrap();
    assert_eq!(next.absent().len(), 1);
    let hand_over = testbed.freeze();
    let error = next.take_over(hand_over).unwrap_err();
    let expected = format!("namespace 1 of {NQN} is not available to the new process");
    assert_eq!((error.to_string(), error.fault()), (expected, Fault::ThisProcess));
    next.leave();
    testbed.target().go_on();
    assert_eq!(read(&mut queue, 0, BLOCK).len(), BLOCK as usize);
}
