//! Targets that serve a subsystem together: a host asks one of them to see to a controller of
//! another, and the peers of that one answer; and a target that lets go of all its hosts
//! distinguishes new ones from those that were.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::raw_host::resets::{instance, listen, log, reset};
use crate::raw_host::{Client, ENGINES, Give, Host, SPACES, Space, TestTarget, assert_status, pattern};
use engine::ring::Engine;
use engine::target::{LostController, PeerReset, PeerResets};
use nvme::Status;
use nvme::cross_reset::{ControllerInstance, IMMEDIATE_RESET_SUCCESSFUL};
use nvme::features::AsyncEvent;
use nvme::io::IoCommand;
use nvme::log_page::CrossResetStatus;
use prerequisite::wait_until;

const FILE: Space = SPACES[5];
const TAG: u32 = 0x1234_5678;
/// The most resets that are taken.
const TAKEN_MAX: usize = 2;
const ELSEWHERE: ControllerInstance =
    ControllerInstance { controller_id: 3000, uniquifier: 1, random_number: 7 << 32 | 1 };

/// Requests to the worker that knows of other targets.
type Taken = Arc<Mutex<Vec<PeerReset>>>;

fn start(engine: Engine) -> (TestTarget, Taken) {
    let taken = Taken::default();
    let takes = taken.clone();
    let peers = PeerResets(Arc::new(move |reset| {
        let mut taken = takes.lock().unwrap();
        let has_room = taken.len() < TAKEN_MAX;
        if has_room {
            taken.push(reset);
        }
        has_room
    }));
    let target = TestTarget::start_with(engine, |config| {
        config.tag = Some(TAG);
        config.peer_resets = Some(peers);
    });
    (target, taken)
}

/// The log of resets, from which those that have ended are taken.
fn statuses(admin: &mut Client) -> Vec<(u16, Option<CrossResetStatus>)> {
    log(admin, true).iter().map(|entry| (entry.impacted_controller_id.get(), entry.status())).collect()
}

#[test]
fn a_target_that_knows_of_another_answers_for_it() {
    for engine in ENGINES {
        let (target, taken) = start(engine);
        let mut host = Host::connect(target.address());
        let event = listen(&mut host.admin);
        let reply = reset(&mut host.admin, ELSEWHERE);
        assert_eq!((reply.status, reply.result), (Status::SUCCESS, 0), "it has begun");
        let reply = reset(&mut host.admin, ELSEWHERE);
        assert_status(reply.status, Status::CROSS_CONTROLLER_RESET_IN_PROGRESS, "once is enough");
        assert_eq!(statuses(&mut host.admin), [(3000, Some(CrossResetStatus::InProgress))]);
        let asked = taken.lock().unwrap().remove(0);
        assert_eq!(asked.controller(), ELSEWHERE);
        asked.end(true);
        let notice = host.admin.wait();
        assert_eq!(notice.command_id, event);
        assert_eq!(AsyncEvent::decode(notice.result as u32), AsyncEvent::CROSS_CONTROLLER_RESET_COMPLETED);
        assert_eq!(statuses(&mut host.admin), [(3000, Some(CrossResetStatus::Successful))]);

        assert_eq!(reset(&mut host.admin, ELSEWHERE).status, Status::SUCCESS, "it may be asked for again");
        taken.lock().unwrap().remove(0).end(false);
        assert_eq!(statuses(&mut host.admin), [(3000, Some(CrossResetStatus::Failed))]);
        assert_eq!(statuses(&mut host.admin), [], "what has failed is removed as well");
    }
}

#[test]
fn peers_are_not_asked_too_much_or_for_nothing() {
    for engine in ENGINES {
        let (target, taken) = start(engine);
        let mut host = Host::connect(target.address());
        let unnumbered = ControllerInstance { random_number: 0, ..ELSEWHERE };
        let reply = reset(&mut host.admin, unnumbered);
        assert_status(
            reply.status,
            Status::INVALID_FIELD,
            "a controller that says no number can be no life's",
        );
        let numbers = 3000..3000 + TAKEN_MAX as u16;
        for controller_id in numbers.clone() {
            let reply = reset(&mut host.admin, ControllerInstance { controller_id, ..ELSEWHERE });
            assert_eq!(reply.status, Status::SUCCESS);
        }
        let reply = reset(&mut host.admin, ControllerInstance { controller_id: 1, ..ELSEWHERE });
        assert_status(reply.status, Status::CROSS_CONTROLLER_RESET_LIMIT_EXCEEDED, "one too many");
        let expected: Vec<_> = numbers.map(|id| (id, Some(CrossResetStatus::InProgress))).collect();
        assert_eq!(statuses(&mut host.admin), expected, "what was not taken is not in the log");
        // One of its own is its own business, without anybody's help.
        let mut victim = Host::connect(target.address());
        let reply = reset(&mut host.admin, instance(&mut victim));
        assert_eq!(reply.status, Status::SUCCESS);
        victim.admin.expect_end();
        // Who asked may be gone when the answer comes.
        drop(host);
        wait_until("the target notices", || target.target().status().controllers.is_empty());
        taken.lock().unwrap().drain(..).for_each(|reset| reset.end(true));
    }
}

#[test]
fn a_target_that_starts_over_begins_nothing_that_came_before() {
    for engine in ENGINES {
        let (target, _) = start(engine);
        let mut host = Host::connect(target.address());
        let former = instance(&mut host);
        assert_eq!((former.random_number >> 32) as u32, TAG);
        let mut queue = host.io(1);
        // It has asked for the data, which come when it is too late.
        let data = pattern(8 * 4096, 1);
        let write = IoCommand::Write { start: 10, blocks: 8, force_unit_access: false };
        queue.answers = false;
        queue.submit(write.encode(FILE.nsid), Give::Asked(&data));
        queue.ready_to_transfer();

        let has_passed = Arc::new(AtomicBool::new(false));
        let passed = has_passed.clone();
        target.target().end_all_controllers(TAG + 1, move || passed.store(true, Ordering::Release));
        wait_until("all reactors pass", || has_passed.load(Ordering::Acquire));
        queue.expect_end();
        host.admin.expect_end();
        let mut host = Host::connect(target.address());
        let next = instance(&mut host);
        assert_eq!((next.random_number >> 32) as u32, TAG + 1);
        let mut queue = host.io(1);
        assert!(queue.read(FILE, 10, 8).data == vec![0; 8 * 4096], "the write was never begun");
        // What was before is another's now: this target can say no more of it.
        let reply = reset(&mut host.admin, former);
        assert_eq!((reply.status, reply.result), (Status::SUCCESS, 0));
        let reply = reset(&mut host.admin, ControllerInstance { controller_id: 9, ..next });
        assert_eq!((reply.status, reply.result), (Status::SUCCESS, IMMEDIATE_RESET_SUCCESSFUL));
    }
}

#[test]
fn a_controller_is_reset_for_its_own_host_that_asked_elsewhere() {
    for engine in ENGINES {
        let (target, taken) = start(engine);
        let (mut victim, mut queue) = Host::with_queue(target.address());
        let instance = instance(&mut victim);
        // What the other target is asked says who asks.
        let mut asker = Host::connect(target.address());
        assert_eq!(reset(&mut asker.admin, ELSEWHERE).status, Status::SUCCESS);
        let asked = taken.lock().unwrap().remove(0).lost();
        let known = target.target().status().controllers.remove(0);
        assert_eq!(
            (asked.instance, &asked.host_nqn, asked.host_id, &asked.subsystem),
            (ELSEWHERE, &known.host_nqn, known.host_id, &known.subsystem)
        );

        let lost = LostController { instance, ..asked };
        let elsewhere = ControllerInstance { random_number: ELSEWHERE.random_number, ..instance };
        let later = ControllerInstance { uniquifier: instance.uniquifier + 1, ..instance };
        for not_it in [
            LostController { instance: elsewhere, ..lost.clone() },
            LostController { host_nqn: format!("{}x", lost.host_nqn), ..lost.clone() },
            LostController { host_id: uuid::Uuid::nil(), ..lost.clone() },
            LostController { subsystem: format!("{}x", lost.subsystem), ..lost.clone() },
        ] {
            let is_taken = target.target().reset_for_peer(&not_it, || panic!("nothing was reset"));
            assert!(!is_taken, "{not_it:?}");
        }
        assert!(target.target().reset_for_peer(&LostController { instance: later, ..lost.clone() }, || {}));
        assert_eq!(queue.write(FILE, 0, &pattern(4096, 1), true).status, Status::SUCCESS, "it lives");

        // The second time it is gone already.
        for _ in 0..2 {
            let at_rest = Arc::new(AtomicBool::new(false));
            let rests = at_rest.clone();
            let is_taken =
                target.target().reset_for_peer(&lost, move || rests.store(true, Ordering::Release));
            assert!(is_taken);
            wait_until("it is at rest", || at_rest.load(Ordering::Acquire));
        }
        queue.expect_end();
        victim.admin.expect_end();
        assert!(target.target().has_hosts(), "who asked is there");
        drop(asker);
        wait_until("no host is left", || !target.target().has_hosts());
    }
}
