//! Reservations hold on every queue of every host, are reported, end what they forbid, and outlive the target where a
//! host wants that.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::raw_host::{
    Client, ENGINES, Give, NQN, Random, SPACES, Space, TestTarget, assert_status, pattern, subsystem,
};
use crate::reservation_party::{Party, REPORT_LENGTH};
use engine::backend::BackendConfig;
use engine::ring::Engine;
use engine::target::{NamespaceConfig, Reactors, Target, TargetConfig};
use nvme::Status;
use nvme::features::{FeatureId, Select, capabilities, value};
use nvme::identify::NSID_ALL;
use nvme::io::{Fused, IoCommand};
use nvme::log_page::ReservationNotification;
use nvme::reservation::{
    AcquireAction, PersistenceChange, RegisterAction, Registrant, ReleaseAction, ReservationReport,
    ReservationStatus, ReservationType,
};
use prerequisite::wait_until;
use uuid::Uuid;
use zerocopy::FromBytes;

const MEMORY: Space = SPACES[0];
const FILE: Space = SPACES[5];
/// A target whose configuration is the test's, with namespaces 1 and 2 in memory.
fn configure(engine: Engine, state_dir: Option<&Path>) -> TargetConfig {
    let namespace = |nsid: u32| NamespaceConfig {
        // Memory is another disk after each start, without reservations, unless it is said to be the same.
        uuid: Some(Uuid::from_u128(nsid.into())),
        ..NamespaceConfig::new(nsid, BackendConfig::Memory { size: 1 << 20 }, 512)
    };
    TargetConfig {
        reactors: Reactors::Count(2),
        state_dir: state_dir.map(Path::to_owned),
        ..crate::raw_host::configure(engine, vec![subsystem(NQN, vec![namespace(1), namespace(2)])])
    }
}

fn try_kind([holder, registrant, stranger]: &mut [Party; 3], space: Space, kind: ReservationType) {
    let nsid = space.nsid;
    holder.register(nsid);
    registrant.register(nsid);
    for party in [&mut *holder, &mut *registrant, &mut *stranger] {
        party.check_access(space, true, true, &format!("{kind:?}, not held yet"));
    }
    holder.acquire(nsid, kind);
    let reads = kind.is_write_exclusive();
    let shares = kind.registrants_only() || kind.all_registrants();
    holder.check_access(space, true, true, &format!("{kind:?}, holder"));
    stranger.check_access(space, reads, false, &format!("{kind:?}, stranger"));
    let kept = holder.queues[0].read(space, 0, 1).data;
    assert!(kept == pattern(space.block as usize, holder.key), "{kind:?}: no other host has written");
    registrant.check_access(space, shares || reads, shares, &format!("{kind:?}, registrant"));
    let status = stranger.acquire_with(nsid, AcquireAction::Acquire, kind, (stranger.key, 0));
    assert_status(status, Status::RESERVATION_CONFLICT, "a stranger does not acquire");
    let status = holder.release_with(nsid, ReleaseAction::Release, kind, holder.key);
    assert_status(status, Status::SUCCESS, "release");
    stranger.check_access(space, true, true, &format!("{kind:?}, released"));
    assert_eq!(stranger.report(nsid).registrants.len(), 2, "registered hosts stay so");
    registrant.clear(nsid);
    assert_eq!(stranger.report(nsid).registrants.len(), 0);
}

#[test]
fn a_reservation_holds_on_every_queue_of_every_host() {
    for engine in ENGINES {
        let mut server = TestTarget::start(engine);
        let address = server.address();
        let target = server.take();
        let mut parties = [1, 2, 3].map(|number| Party::connect(address, number));
        for controller in target.status().controllers {
            let queues = controller.queues.iter().filter(|queue| queue.queue_id > 0);
            let reactors: std::collections::BTreeSet<usize> = queues.map(|queue| queue.reactor).collect();
            assert_eq!(reactors.len(), 2, "each host has a queue on each reactor");
        }
        for space in [MEMORY, FILE] {
            for kind in ReservationType::ALL {
                try_kind(&mut parties, space, kind);
            }
        }
    }
}

#[test]
fn a_command_that_does_not_fit_changes_nothing() {
    let server = TestTarget::start(Engine::Epoll);
    let mut parties = [1, 2].map(|number| Party::connect(server.address(), number));
    let [a, b] = &mut parties;
    let (nsid, kind) = (MEMORY.nsid, ReservationType::ExclusiveAccess);
    a.register(nsid);
    a.acquire(nsid, kind);
    let before = b.report(nsid);
    let (no_change, key) = (PersistenceChange::NoChange, b.key);
    let conflict = Status::RESERVATION_CONFLICT;
    let mut tries = vec![
        (b.register_with(nsid, RegisterAction::Register, (0, 0), no_change), Status::INVALID_FIELD),
        (b.register_with(nsid, RegisterAction::Unregister, (key, 0), no_change), conflict),
        (b.register_with(nsid, RegisterAction::Replace, (key, 9), no_change), conflict),
        (b.register_with(99, RegisterAction::Register, (0, key), no_change), Status::INVALID_NAMESPACE),
        (b.acquire_with(nsid, AcquireAction::Acquire, kind, (key, 0)), conflict),
        (b.acquire_with(nsid, AcquireAction::Preempt, kind, (key, a.key)), conflict),
        (b.release_with(nsid, ReleaseAction::Release, kind, key), conflict),
        (b.release_with(nsid, ReleaseAction::Clear, kind, key), conflict),
    ];
    // Nothing is kept where there is no place to keep it.
    let persist = PersistenceChange::PersistThroughPowerLoss;
    let status = b.register_with(nsid, RegisterAction::Register, (0, key), persist);
    tries.push((status, Status::INVALID_FIELD));
    let wrong_key = a.key + 1;
    tries.push((a.register_with(nsid, RegisterAction::Register, (0, wrong_key), no_change), conflict));
    tries.push((a.release_with(nsid, ReleaseAction::Release, kind, wrong_key), conflict));
    let other = ReservationType::WriteExclusive;
    tries.push((a.release_with(nsid, ReleaseAction::Release, other, a.key), Status::INVALID_FIELD));
    tries.push((a.acquire_with(nsid, AcquireAction::Acquire, other, (a.key, 0)), conflict));
    for (number, (status, expected)) in tries.into_iter().enumerate() {
        assert_status(status, expected, &format!("try {number}"));
    }
    assert_eq!(b.report(nsid), before);
    let short = IoCommand::ReservationRelease {
        action: ReleaseAction::Clear,
        ignore_existing_key: false,
        kind: None,
    };
    let reply = a.queues[0].run(short.encode(nsid), Give::Capsule(&[0; 4]));
    assert_status(reply.status, Status::DATA_SGL_LENGTH_INVALID, "half a key");
}

#[test]
fn a_report_says_who_is_registered_and_who_holds() {
    for engine in ENGINES {
        let server = TestTarget::start(engine);
        let mut parties = [1, 2].map(|number| Party::connect(server.address(), number));
        // The first host once more, by another controller.
        let mut again = Party::connect(server.address(), 1);
        let [a, b] = &mut parties;
        let nsid = FILE.nsid;
        let second = again.host.controller_id;
        let empty = ReservationReport { generation: 0, kind: None, persists: false, registrants: Vec::new() };
        assert_eq!(b.report(nsid), empty);
        a.register(nsid);
        b.register(nsid);
        a.acquire(nsid, ReservationType::ExclusiveAccessRegistrantsOnly);
        let registrant = |party: &Party, number, holds| Registrant {
            controller_id: party.host.controller_id,
            holds,
            host_id: [number; 16],
            key: party.key,
        };
        let expected = ReservationReport {
            generation: 2,
            kind: Some(ReservationType::ExclusiveAccessRegistrantsOnly),
            persists: false,
            registrants: vec![
                registrant(a, 1, true),
                Registrant { controller_id: second, ..registrant(a, 1, true) },
                registrant(b, 2, false),
            ],
        };
        assert_eq!(b.report(nsid), expected);
        assert_eq!(a.report(MEMORY.nsid), empty, "another namespace has its own");

        let narrow = IoCommand::ReservationReport { dwords: REPORT_LENGTH / 4, extended: false };
        let reply = a.queues[0].run(narrow.encode(nsid), Give::Room(REPORT_LENGTH));
        assert_status(reply.status, Status::HOST_ID_INCONSISTENT, "identifiers of 64 bits");
        let header = IoCommand::ReservationReport { dwords: 6, extended: true };
        let reply = a.queues[0].run(header.encode(nsid), Give::Room(24));
        let header = ReservationStatus::read_from_bytes(&reply.data).unwrap();
        assert_eq!((header.registrants.get(), header.generation.get()), (3, 2), "the header counts all");

        again.check_access(FILE, true, true, "a host's other controller");
        drop(parties);
        let gone =
            |report: &ReservationReport| report.registrants[1].controller_id == Registrant::NO_CONTROLLER;
        wait_until("the controllers go", || gone(&again.report(nsid)));
        let report = again.report(nsid);
        assert_eq!(report.registrants[0].controller_id, again.host.controller_id);
        assert_eq!(report.registrants[1].key, 0x1002, "who has gone stays registered");
        again.clear(nsid);
    }
}

#[test]
fn a_preempted_host_is_notified_page_by_page() {
    for engine in ENGINES {
        let server = TestTarget::start(engine);
        let mut parties = [1, 2, 1].map(|number| Party::connect(server.address(), number));
        let [a, b, again] = &mut parties;
        let preempted = ReservationNotification::RegistrationPreempted;
        for nsid in [1, 8] {
            a.register(nsid);
            a.acquire(nsid, ReservationType::ExclusiveAccess);
            b.register(nsid);
        }
        a.await_event();
        again.await_event();
        b.preempt(1, AcquireAction::Preempt, a.key);
        a.expect_event();
        again.expect_event();
        b.preempt(8, AcquireAction::Preempt, a.key);
        assert_eq!(a.page(true), (1, preempted, 1, 1));
        a.await_event();
        assert_eq!(a.page(false), (1, preempted, 1, 1), "a page that is kept is read again");
        a.expect_event();
        assert_eq!(a.page(false), (2, preempted, 0, 8));
        let empty = (0, ReservationNotification::Empty, 0, 0);
        assert_eq!(a.page(false), empty);
        assert_eq!(again.page(false), (1, preempted, 1, 1), "each controller has its own log");
        assert_eq!(b.page(false), empty, "the preempting host is not notified");
        a.check_access(MEMORY, true, false, "preempted");
        b.check_access(MEMORY, true, true, "the new holder");

        // A request that waits carries the next event, and nothing before it.
        a.await_event();
        a.register(1);
        b.clear(1);
        a.expect_event();
        assert_eq!(a.page(false), (3, ReservationNotification::ReservationPreempted, 0, 1));
        a.check_access(MEMORY, true, true, "cleared");
    }
}

#[test]
fn a_masked_notification_is_not_sent() {
    let server = TestTarget::start(Engine::IoUring);
    let mut parties = [1, 2].map(|number| Party::connect(server.address(), number));
    let [a, b] = &mut parties;
    let (feature, kind) =
        (FeatureId::RESERVATION_NOTIFICATION_MASK, ReservationType::WriteExclusiveRegistrantsOnly);
    for nsid in [1, 2] {
        a.register(nsid);
        b.register(nsid);
    }
    let mut release = |nsid| {
        a.acquire(nsid, kind);
        assert_status(a.release_with(nsid, ReleaseAction::Release, kind, a.key), Status::SUCCESS, "release");
    };
    let released = ReservationNotification::ReservationReleased;
    assert_status(b.set_feature(feature, 1, value::MASK_RESERVATION_RELEASED), Status::SUCCESS, "mask");
    release(1);
    release(2);
    assert_eq!(b.page(false), (1, released, 0, 2), "only the other namespace's");
    assert_eq!(b.get_feature(feature, 1, Select::Current), Ok(value::MASK_RESERVATION_RELEASED));
    assert_eq!(b.get_feature(feature, 2, Select::Current), Ok(0));
    assert_eq!(b.get_feature(feature, 1, Select::Default), Ok(0));
    let every = value::MASK_RESERVATION_RELEASED | value::MASK_RESERVATION_PREEMPTED;
    assert_status(b.set_feature(feature, NSID_ALL, every), Status::SUCCESS, "mask all");
    release(2);
    assert_eq!(b.get_feature(feature, 2, Select::Current), Ok(every));
    assert_eq!(b.page(false).1, ReservationNotification::Empty);
    assert_status(b.set_feature(feature, 2, 0), Status::SUCCESS, "unmask");
    release(1);
    release(2);
    assert_eq!(b.page(false), (2, released, 0, 2));
    let changeable = capabilities::CHANGEABLE | capabilities::NAMESPACE_SPECIFIC;
    assert_eq!(b.get_feature(feature, 1, Select::Capabilities), Ok(changeable));
    assert_eq!(b.get_feature(feature, 99, Select::Current), Err(Status::INVALID_NAMESPACE));
    assert_eq!(b.get_feature(feature, NSID_ALL, Select::Current), Err(Status::INVALID_FIELD));
    assert_status(b.set_feature(feature, 99, 0), Status::INVALID_NAMESPACE, "no such namespace");
}

#[test]
fn preempt_and_abort_ends_a_command_whose_data_is_missing() {
    for engine in ENGINES {
        for space in [MEMORY, FILE] {
            let server = TestTarget::start(engine);
            let mut parties = [1, 2].map(|number| Party::connect(server.address(), number));
            let [a, b] = &mut parties;
            a.register(space.nsid);
            a.acquire(space.nsid, ReservationType::WriteExclusive);
            b.register(space.nsid);
            let data = pattern(space.block as usize, 5);
            let write = IoCommand::Write { start: 7, blocks: 1, force_unit_access: false };
            let requests: Vec<_> = a
                .queues
                .iter_mut()
                .map(|queue| {
                    queue.submit(write.encode(space.nsid), Give::Asked(&data));
                    queue.ready_to_transfer()
                })
                .collect();
            b.preempt(space.nsid, AcquireAction::PreemptAndAbort, a.key);
            for (queue, request) in a.queues.iter_mut().zip(&requests) {
                queue.answer(request);
                assert_status(queue.wait().status, Status::ABORTED_PREEMPT, "the preempted host's write");
            }
            let found = b.queues[0].read(space, 7, 1).data;
            assert!(found.iter().all(|byte| *byte == 0), "nothing of it was written");
            a.check_access(space, true, false, "preempted");
        }
    }
}

#[test]
fn what_waits_while_another_host_reserves_the_namespace_is_refused() {
    for engine in ENGINES {
        for space in [MEMORY, FILE] {
            let server = TestTarget::start(engine);
            let mut parties = [1, 2].map(|number| Party::connect(server.address(), number));
            let [a, b] = &mut parties;
            b.register(space.nsid);
            let data = pattern(space.block as usize, 5);
            let write = IoCommand::Write { start: 7, blocks: 1, force_unit_access: false };
            let queue = &mut a.queues[0];
            queue.submit(write.encode(space.nsid), Give::Asked(&data));
            let request = queue.ready_to_transfer();
            b.acquire(space.nsid, ReservationType::WriteExclusive);
            queue.answer(&request);
            assert_status(queue.wait().status, Status::RESERVATION_CONFLICT, "its data came too late");
            let found = b.queues[0].read(space, 7, 1).data;
            assert!(found.iter().all(|byte| *byte == 0), "nothing of it was written");
        }
    }
}

#[test]
fn preempt_and_abort_ends_commands_that_wait_for_limits() {
    for engine in ENGINES {
        let server = TestTarget::start_with(engine, |config| {
            config.fabric.subsystems[0].namespaces[0].qos.write_iops = Some(1);
        });
        let mut parties = [1, 2].map(|number| Party::connect(server.address(), number));
        let [a, b] = &mut parties;
        a.register(MEMORY.nsid);
        b.register(MEMORY.nsid);
        let data = pattern(MEMORY.block as usize, 6);
        let writes: Vec<(u16, u64)> = (0..60)
            .map(|start| {
                let write = IoCommand::Write { start, blocks: 1, force_unit_access: false };
                (a.queues[0].submit(write.encode(MEMORY.nsid), Give::Capsule(&data)), start)
            })
            .collect();
        // No limit holds a flush up: when it is answered, the target has all writes before it.
        let flush = a.queues[0].submit(IoCommand::Flush.encode(MEMORY.nsid), Give::Nothing);
        let mut ended = Vec::new();
        loop {
            let reply = a.queues[0].wait();
            if reply.command_id == flush {
                break;
            }
            ended.push(reply);
        }
        b.acquire(MEMORY.nsid, ReservationType::WriteExclusive);
        b.preempt(MEMORY.nsid, AcquireAction::PreemptAndAbort, a.key);
        ended.extend((ended.len()..writes.len()).map(|_| a.queues[0].wait()));
        let aborted = ended.iter().filter(|reply| reply.status.without_flags() == Status::ABORTED_PREEMPT);
        assert!(aborted.count() > 0, "some had to wait");
        for reply in ended {
            let start = writes.iter().find(|(id, _)| *id == reply.command_id).unwrap().1;
            let found = b.queues[0].read(MEMORY, start, 1).data;
            assert_eq!(found == data, reply.status.is_success(), "{start}: {:?}", reply.status);
        }
    }
}

#[test]
fn after_preempt_and_abort_nothing_of_the_preempted_host_is_written() {
    let mut random = Random::seeded("preempt and abort");
    for engine in ENGINES {
        let server = TestTarget::start(engine);
        let mut parties = [1, 2].map(|number| Party::connect(server.address(), number));
        let [a, b] = &mut parties;
        b.register(FILE.nsid);
        let theirs = pattern(16 * FILE.block as usize, 1);
        let own = pattern(16 * FILE.block as usize, 2);
        for round in 0..12 {
            a.register(FILE.nsid);
            let write = IoCommand::Write { start: 0, blocks: 16, force_unit_access: false };
            let count = 1 + random.below(24);
            for number in 0..count {
                // Their data comes while the other host's command does.
                let queue = &mut a.queues[number as usize % 2];
                queue.submit(write.encode(FILE.nsid), Give::Asked(&theirs));
            }
            let answering: Vec<_> = a
                .queues
                .drain(..)
                .map(|mut queue| {
                    std::thread::spawn(move || {
                        let replies: Vec<_> = (0..queue.outstanding()).map(|_| queue.wait().status).collect();
                        (queue, replies)
                    })
                })
                .collect();
            if round == 0 {
                b.acquire(FILE.nsid, ReservationType::WriteExclusive);
            }
            b.preempt(FILE.nsid, AcquireAction::PreemptAndAbort, a.key);
            // From now on the blocks are the other host's.
            assert_status(
                b.queues[0].write(FILE, 0, &own, false).status,
                Status::SUCCESS,
                "the holder writes",
            );
            for thread in answering {
                let (queue, replies) = thread.join().unwrap();
                for status in replies {
                    let known = [Status::SUCCESS, Status::ABORTED_PREEMPT, Status::RESERVATION_CONFLICT];
                    assert!(known.contains(&status.without_flags()), "round {round}: {status:?}");
                }
                a.queues.push(queue);
            }
            assert!(
                b.queues[1].read(FILE, 0, 16).data == own,
                "round {round}: overwritten by a preempted host"
            );
        }
    }
}

/// Sends fused pairs until it is to stop, whatever becomes of them.
fn send_pairs(queue: &mut Client, space: Space, stop: &AtomicBool) {
    let zeroes = vec![0; space.block as usize];
    let compare = IoCommand::Compare { start: 3, blocks: 1 }.encode_fused(space.nsid, Fused::First);
    let write = IoCommand::Write { start: 3, blocks: 1, force_unit_access: false };
    let write = write.encode_fused(space.nsid, Fused::Second);
    // Bounded, so that a test that fails also ends.
    for _ in (0..200_000).take_while(|_| !stop.load(Ordering::Relaxed)) {
        queue.submit(compare, Give::Capsule(&zeroes));
        queue.submit(write, Give::Capsule(&zeroes));
        queue.wait();
        queue.wait();
    }
}

#[test]
fn preempt_and_abort_ends_while_the_preempted_host_sends_pairs() {
    for engine in ENGINES {
        let server = TestTarget::start(engine);
        let mut parties = [1, 2, 1].map(|number| Party::connect(server.address(), number));
        let [a, b, again] = &mut parties;
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for queue in &mut again.queues {
                let stop = &stop;
                scope.spawn(move || send_pairs(queue, MEMORY, stop));
            }
            for _ in 0..200 {
                a.register(MEMORY.nsid);
                a.acquire(MEMORY.nsid, ReservationType::WriteExclusive);
                b.register(MEMORY.nsid);
                // Its pairs are under way on both reactors, and no storage ever answers there.
                b.preempt(MEMORY.nsid, AcquireAction::PreemptAndAbort, a.key);
                b.clear(MEMORY.nsid);
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn what_persists_outlives_the_target_and_nothing_else_does() {
    for engine in ENGINES {
        let state = tempfile::tempdir().unwrap();
        let config = configure(engine, Some(state.path()));
        let kind = ReservationType::ExclusiveAccess;
        let (on, off) = (PersistenceChange::PersistThroughPowerLoss, PersistenceChange::ClearOnPowerLoss);
        let feature = FeatureId::RESERVATION_PERSISTENCE;
        let target = Target::start(&config).unwrap();
        let mut a = Party::connect(target.ports()[0], 1);
        let capability = a.get_feature(feature, 1, Select::Capabilities);
        assert_eq!(capability, Ok(capabilities::CHANGEABLE | capabilities::NAMESPACE_SPECIFIC));
        let key = a.key;
        assert_status(a.register_with(1, RegisterAction::Register, (0, key), on), Status::SUCCESS, "persist");
        a.acquire(1, kind);
        a.register(2);
        a.acquire(2, kind);
        assert_eq!(a.get_feature(feature, 1, Select::Current), Ok(value::PERSIST_THROUGH_POWER_LOSS));
        assert_eq!(a.get_feature(feature, 2, Select::Current), Ok(0));
        let before = a.report(1);
        assert!(before.persists);
        drop(a);
        drop(target);

        let target = Target::start(&config).unwrap();
        let mut a = Party::connect(target.ports()[0], 1);
        let mut b = Party::connect(target.ports()[0], 2);
        let after = a.report(1);
        assert_eq!((after.kind, after.persists, after.generation), (Some(kind), true, before.generation));
        assert_eq!(after.registrants[0].key, key);
        b.check_access(MEMORY, false, false, "restored");
        a.check_access(MEMORY, true, true, "the holder, restored");
        assert_eq!(a.report(2).registrants, [], "what does not persist is gone");
        a.register(2);
        assert_status(a.set_feature(feature, 2, value::PERSIST_THROUGH_POWER_LOSS), Status::SUCCESS, "set");
        assert!(a.report(2).persists);
        assert_status(a.register_with(1, RegisterAction::Replace, (key, key), off), Status::SUCCESS, "off");
        drop((a, b));
        drop(target);

        let target = Target::start(&config).unwrap();
        let mut a = Party::connect(target.ports()[0], 1);
        assert_eq!(a.report(1).registrants, [], "it was turned off");
        assert_eq!(a.report(2).registrants.len(), 1, "the feature turned it on");
        assert_status(a.set_feature(feature, NSID_ALL, 0), Status::SUCCESS, "off everywhere");
        assert_eq!(a.report(2).registrants.len(), 1, "what is kept on disk has nothing to do with now");
        assert!(!a.report(2).persists);
    }
}

#[test]
fn a_removed_namespace_takes_its_reservations_along() {
    let state = tempfile::tempdir().unwrap();
    let config = configure(Engine::Epoll, Some(state.path()));
    let target = Target::start(&config).unwrap();
    let files = || std::fs::read_dir(state.path().join("reservations")).unwrap().count();
    let mut a = Party::connect(target.ports()[0], 1);
    for nsid in [1, 2] {
        let (key, persist) = (a.key, PersistenceChange::PersistThroughPowerLoss);
        assert_status(
            a.register_with(nsid, RegisterAction::Register, (0, key), persist),
            Status::SUCCESS,
            "on",
        );
    }
    assert_eq!(files(), 2);
    let whole = target.config();
    let mut less = whole.clone();
    less.subsystems[0].namespaces.remove(1);
    target.apply(&less).unwrap();
    assert_eq!(files(), 1, "one is left");
    target.apply(&whole).unwrap();
    wait_until("the namespace is back", || {
        let command = IoCommand::ReservationReport { dwords: 16, extended: true };
        let reply = a.queues[0].run(command.encode(2), Give::Room(64));
        let count = || ReservationReport::parse(&reply.data, true).unwrap().registrants.len();
        reply.status.is_success() && count() == 0
    });
    assert_eq!(a.report(1).registrants.len(), 1);

    // A file that is not whole is for a person to decide about: nothing is served, and nothing overwritten.
    drop(a);
    drop(target);
    let folder = state.path().join("reservations");
    let path = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&path, "{").unwrap();
    let error = Target::start(&config).unwrap_err().to_string();
    assert!(error.contains(&*path.to_string_lossy()) && error.contains("remove"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{");
    std::fs::remove_file(&path).unwrap();
    let target = Target::start(&config).unwrap();
    let error = Target::start(&config).unwrap_err().to_string();
    assert!(error.contains("another target"), "{error}");
    drop(target);
}

#[test]
fn a_host_without_identifier_reserves_nothing() {
    let target = Target::start(&configure(Engine::IoUring, None)).unwrap();
    let mut unnamed = Party::connect(target.ports()[0], 0);
    let not_initialized = Status::HOST_ID_NOT_INITIALIZED;
    let (kind, no_change) = (ReservationType::WriteExclusive, PersistenceChange::NoChange);
    let key = unnamed.key;
    let status = unnamed.register_with(1, RegisterAction::Register, (0, key), no_change);
    assert_status(status, not_initialized, "register");
    let status = unnamed.acquire_with(1, AcquireAction::Acquire, kind, (key, 0));
    assert_status(status, not_initialized, "acquire");
    assert_status(unnamed.release_with(1, ReleaseAction::Clear, kind, key), not_initialized, "clear");
    let report = IoCommand::ReservationReport { dwords: REPORT_LENGTH / 4, extended: true };
    let status = unnamed.queues[1].run(report.encode(1), Give::Room(REPORT_LENGTH)).status;
    assert_status(status, not_initialized, "report");
    unnamed.check_access(MEMORY, true, true, "it reads and writes all the same");
    // Without a state directory nothing persists, and the feature says so.
    let feature = FeatureId::RESERVATION_PERSISTENCE;
    let capability = unnamed.get_feature(feature, 1, Select::Capabilities);
    assert_eq!(capability, Ok(capabilities::NAMESPACE_SPECIFIC));
    assert_status(unnamed.set_feature(feature, 1, 1), Status::FEATURE_NOT_CHANGEABLE, "persist");
}
