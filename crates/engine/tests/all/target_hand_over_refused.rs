//! Refused hand-overs: a target does not take over from the one before, which then serves on as it
//! did.

use std::time::Duration;

use engine::backend::{BackendConfig, SyncFailure, SyncKind};
use engine::hand_over::Fault;
use engine::ring::Engine;
use engine::target::{HandedNamespace, Target, TargetConfig};
use nvme::Status;
use nvme::tcp::{DataPdu, PduType, flags};
use prerequisite::patience;

use crate::raw_host::{Give, Host, NQN, assert_status, pattern};
use crate::target_hand_over::{BLOCK, Testbed, in_memory, read, write};

#[test]
fn what_cannot_be_of_a_namespace_is_refused_and_the_old_target_goes_on() {
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

#[test]
fn a_queue_amid_a_pdu_at_a_refused_attempt_is_handed_over_at_the_next() {
    let mut testbed = Testbed::new(Engine::Automatic, |namespace| namespace.write_delay_ms = 4000);
    let host = Host::connect(testbed.address());
    let (mut slow, mut sending) = (host.io(1), host.io(2));
    let (data, large) = (pattern(BLOCK as usize, 1), pattern(32 << 10, 2));
    slow.submit(write(0, data.len()), Give::Capsule(&data));
    let id = sending.submit(write(100, large.len()), Give::Asked(&large));
    let request = sending.ready_to_transfer();
    let pdu =
        DataPdu::new(PduType::DataToController, flags::LAST, id, request.transfer_tag.get(), 0, 32 << 10);
    let bytes = sending.frame_data(pdu, &large);
    let (most, rest) = bytes.split_at(bytes.len() - 100);
    sending.send(most);
    let refused = testbed.target().freeze_within(patience(), Duration::from_secs(2)).map(drop);
    assert!(refused.unwrap_err().to_string().contains("the storage works"));
    let next = testbed.next();
    let hand_over = std::thread::scope(|scope| {
        let freezing = scope.spawn(|| testbed.freeze());
        // The second attempt has begun by then, since it waits for this write.
        assert_status(slow.wait().status, Status::SUCCESS, "the slow write");
        sending.send(rest);
        freezing.join().unwrap()
    });
    assert_eq!(hand_over.queues.len(), 3, "the admin queue and both others");
    testbed.give(next, hand_over);
    assert_status(sending.wait().status, Status::SUCCESS, "the write that came in part");
    assert!(read(&mut sending, 100, large.len() as u32) == large);
}
