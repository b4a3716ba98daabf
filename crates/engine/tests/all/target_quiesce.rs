//! A controller that says it is reset or shut down, a queue that answers Disconnect, and a controller that is gone have no
//! command left that could take effect: what a host writes after that is never undone by what it wrote before.

use std::time::{Duration, Instant};

use crate::raw_host::held_writes::{FILE, begin_write, each_engine, hold_back};
use crate::raw_host::resets::{instance, reset};
use crate::raw_host::{Client, Give, Host, Options, Random, TestTarget, assert_status, pattern};
use engine::limits::ASYNC_EVENTS_MAX;
use engine::target::ControllerStatus;
use nvme::command::admin_opcode;
use nvme::cross_reset::IMMEDIATE_RESET_SUCCESSFUL;
use nvme::fabrics::{configuration, controller_status, disconnect, property};
use nvme::io::IoCommand;
use nvme::{Status, SubmissionEntry};
use prerequisite::wait_until;

/// So long are writes held back, in milliseconds: long enough for some commands meanwhile on a busy machine.
const DELAY_MS: u32 = 4000;

const ENABLED: u32 =
    configuration::ENABLE | configuration::SUBMISSION_ENTRY_SIZE | configuration::COMPLETION_ENTRY_SIZE;

fn configure(host: &mut Host, value: u32) {
    assert_eq!(host.admin.set_property(property::CONFIGURATION, value.into()).status, Status::SUCCESS);
}

fn status(host: &mut Host) -> u32 {
    host.admin.property(property::STATUS, false).result as u32
}

/// Reads CSTS until `mask` of it is `wanted`.
fn await_status(host: &mut Host, mask: u32, wanted: u32) {
    wait_until("the controller's status", || status(host) & mask == wanted);
}

/// Content of the block once every write that was begun has ended.
fn settled(target: &TestTarget, delay_ms: u32, block: u64) -> Vec<u8> {
    std::thread::sleep(Duration::from_millis(u64::from(delay_ms) + 100));
    Host::connect(target.address()).io(1).read(FILE, block, 1).data
}

fn ending(target: &TestTarget) -> Vec<ControllerStatus> {
    let mut controllers = target.target().status().controllers;
    controllers.retain(|controller| controller.ending);
    controllers
}

#[test]
fn a_reset_is_complete_when_the_last_write_has_ended() {
    each_engine(|engine| {
        let (target, mut host, mut queue) = TestTarget::with_queue(engine);
        hold_back(&target, DELAY_MS);
        let began = Instant::now();
        begin_write(&mut queue, 3, &pattern(4096, 1));
        configure(&mut host, 0);
        assert_eq!(status(&mut host), controller_status::READY, "the write is still to come");
        queue.expect_end();
        assert_status(host.try_io(1).1.status, Status::CONNECT_CONTROLLER_BUSY, "while it is reset");
        await_status(&mut host, !0, 0);
        assert!(began.elapsed() >= Duration::from_millis(DELAY_MS.into()), "not before the write");
        hold_back(&target, 0);
        host.enable();
        let mut queue = host.io(1);
        assert_eq!(queue.read(FILE, 3, 1).data, pattern(4096, 1), "it has landed");
        let zeroes =
            IoCommand::WriteZeroes { start: 3, blocks: 1, force_unit_access: false, deallocate: false };
        assert_eq!(queue.run(zeroes.encode(FILE.nsid), Give::Nothing).status, Status::SUCCESS);
        assert_eq!(settled(&target, DELAY_MS, 3), vec![0; 4096], "and does not do so again");
    });
}

#[test]
fn a_controller_that_is_enabled_too_soon_becomes_ready_when_its_reset_is_complete() {
    each_engine(|engine| {
        let (target, mut host, mut queue) = TestTarget::with_queue(engine);
        hold_back(&target, DELAY_MS);
        let began = Instant::now();
        begin_write(&mut queue, 3, &pattern(4096, 1));
        for value in [0, ENABLED, 0, ENABLED] {
            configure(&mut host, value);
            assert_status(host.try_io(1).1.status, Status::CONNECT_CONTROLLER_BUSY, "while it is reset");
        }
        wait_until("it is enabled again", || host.try_io(1).1.status.is_success());
        assert!(began.elapsed() >= Duration::from_millis(DELAY_MS.into()), "not before the write");
        assert_eq!(status(&mut host), controller_status::READY);
    });
}

#[test]
fn event_requests_end_with_a_reset_that_comes_during_another_one() {
    each_engine(|engine| {
        let (target, mut host, mut queue) = TestTarget::with_queue(engine);
        hold_back(&target, DELAY_MS);
        begin_write(&mut queue, 3, &pattern(4096, 1));
        let request = SubmissionEntry::new(admin_opcode::ASYNC_EVENT_REQUEST, 0);
        for _ in 0..2 {
            configure(&mut host, 0);
            configure(&mut host, ENABLED);
            for _ in 0..ASYNC_EVENTS_MAX {
                host.admin.submit(request, Give::Nothing);
            }
        }
        let beyond = host.admin.submit(request, Give::Nothing);
        let reply = host.admin.wait();
        assert_eq!(reply.command_id, beyond, "those of before the second reset count no longer");
        assert_status(reply.status, Status::ASYNC_EVENT_LIMIT_EXCEEDED, "one too many");
    });
}

#[test]
fn a_shutdown_is_complete_when_the_last_write_has_ended() {
    each_engine(|engine| {
        let (target, mut host) = TestTarget::with_host(engine);
        let patience_us = host.admin.identified_controller().rtd3_entry_latency_us.get();
        assert!(patience_us >= DELAY_MS * 1000, "hosts wait for this time");
        let (mut queue, mut idle) = (host.io(1), host.io(2));
        hold_back(&target, DELAY_MS);
        let began = Instant::now();
        begin_write(&mut queue, 3, &pattern(4096, 1));
        configure(&mut host, ENABLED | configuration::SHUTDOWN_NORMAL);
        let under_way = controller_status::READY | controller_status::SHUTDOWN_OCCURRING;
        assert_eq!(status(&mut host), under_way);
        queue.expect_end();
        idle.expect_end();
        await_status(&mut host, controller_status::SHUTDOWN_MASK, controller_status::SHUTDOWN_COMPLETE);
        assert!(began.elapsed() >= Duration::from_millis(DELAY_MS.into()), "not before the write");
        assert_eq!(status(&mut host), controller_status::READY | controller_status::SHUTDOWN_COMPLETE);
        assert_status(host.try_io(1).1.status, Status::CONNECT_CONTROLLER_BUSY, "it is shut down");
        assert_eq!(settled(&target, 0, 3), pattern(4096, 1), "it has landed");
        // A reset brings it back.
        configure(&mut host, configuration::SHUTDOWN_NORMAL);
        await_status(&mut host, !0, 0);
        configure(&mut host, 0);
        host.enable();
        assert_eq!(host.io(1).read(FILE, 3, 1).data, pattern(4096, 1));
    });
}

#[test]
fn reset_and_shutdown_in_one_are_both_complete_in_the_end() {
    each_engine(|engine| {
        let (target, mut host, mut queue) = TestTarget::with_queue(engine);
        hold_back(&target, DELAY_MS);
        begin_write(&mut queue, 3, &pattern(4096, 1));
        configure(&mut host, configuration::SHUTDOWN_ABRUPT);
        let under_way = controller_status::READY | controller_status::SHUTDOWN_OCCURRING;
        assert_eq!(status(&mut host), under_way);
        await_status(&mut host, !0, controller_status::SHUTDOWN_COMPLETE);
        assert_eq!(settled(&target, 0, 3), pattern(4096, 1));
    });
}

#[test]
fn disconnect_is_answered_after_the_queues_last_write() {
    each_engine(|engine| {
        let (target, host) = TestTarget::with_host(engine);
        let (mut queue, mut other) = (host.io(1), host.io(2));
        hold_back(&target, DELAY_MS);
        let write = begin_write(&mut queue, 3, &pattern(4096, 1));
        let leave = queue.submit(disconnect(), Give::Nothing);
        let read = IoCommand::Read { start: 3, blocks: 1, force_unit_access: false };
        queue.submit(read.encode(FILE.nsid), Give::Room(4096));
        assert_eq!(other.read(FILE, 3, 1).data, vec![0; 4096], "other queues go on meanwhile");
        let answers = [queue.wait(), queue.wait()].map(|reply| (reply.command_id, reply.status));
        assert_eq!(answers, [(write, Status::SUCCESS), (leave, Status::SUCCESS)]);
        queue.expect_end();
        assert_eq!(other.read(FILE, 3, 1).data, pattern(4096, 1));
        wait_until("its number is free", || host.try_io(1).1.status.is_success());
    });
}

#[test]
fn a_controller_whose_host_gives_up_its_reset_is_gone_when_its_last_write_has_ended() {
    each_engine(|engine| {
        let (target, mut host) = TestTarget::with_host(engine);
        let (impacted, lost) = (instance(&mut host), host.controller_id);
        let mut queue = host.io(1);
        hold_back(&target, DELAY_MS);
        let began = Instant::now();
        begin_write(&mut queue, 3, &pattern(4096, 1));
        configure(&mut host, 0);
        drop((host, queue));
        wait_until("the target knows that its host is gone", || !ending(&target).is_empty());
        assert_eq!(ending(&target)[0].cntlid, lost);
        let mut again = Host::connect(target.address());
        assert!(again.controller_id != lost, "its identifier is in use");
        // Another host's word does not end it.
        let options = Options {
            host_nqn: "nqn.2014-08.org.example:other".into(),
            host_id: [8; 16],
            ..Options::default()
        };
        let mut other = Host::connect_with(target.address(), options);
        assert_status(reset(&mut other.admin, impacted).status, Status::INVALID_FIELD, "not its host");
        let reply = reset(&mut again.admin, impacted);
        assert_eq!((reply.status, reply.result), (Status::SUCCESS, IMMEDIATE_RESET_SUCCESSFUL));
        assert!(began.elapsed() >= Duration::from_millis(DELAY_MS.into()), "not before the write");
        assert_eq!(again.io(1).read(FILE, 3, 1).data, pattern(4096, 1), "it has landed");
        wait_until("it is gone", || ending(&target).is_empty());
    });
}

#[test]
fn who_comes_back_on_another_connection_writes_after_what_the_lost_one_wrote() {
    each_engine(|engine| {
        let (target, host, mut lost) = TestTarget::with_queue(engine);
        let (mut queue, mut elsewhere) = (host.io(2), host.io(3));
        hold_back(&target, DELAY_MS);
        begin_write(&mut lost, 3, &pattern(4096, 1));
        drop(lost);
        wait_until("the target knows that it is gone", || target.connections() == 3);
        hold_back(&target, 0);
        let write = IoCommand::Write { start: 3, blocks: 1, force_unit_access: false };
        let write = queue.submit(write.encode(FILE.nsid), Give::Capsule(&pattern(4096, 2)));
        assert_eq!(elsewhere.write(FILE, 4, &pattern(4096, 4), true).status, Status::SUCCESS);
        assert_eq!(elsewhere.read(FILE, 3, 1).status, Status::SUCCESS);
        assert!(!queue.has_input(), "other blocks wait for nothing");
        let reply = queue.wait();
        assert_eq!((reply.command_id, reply.status), (write, Status::SUCCESS));
        assert_eq!(settled(&target, DELAY_MS, 3), pattern(4096, 2), "the old write came first");
    });
}

/// Way in which a host stops using a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Reset,
    ShutDown,
    Disconnect,
    Close,
}

#[test]
fn no_write_lands_after_done_however_a_host_stops() {
    each_engine(|engine| {
        let mut random = Random::seeded("no_write_lands_after_done");
        let target = TestTarget::start(engine);
        for round in 0..100 {
            let delay_ms = 5 + random.below(25) as u32;
            let mut host = Host::connect(target.address());
            let queues = 1 + random.below(3) as u16;
            let mut queues: Vec<Client> = (1..=queues).map(|queue_id| host.io(queue_id)).collect();
            hold_back(&target, delay_ms);
            let old = pattern(4096, round << 1);
            for (block, queue) in (0..).zip(&mut queues) {
                let write = IoCommand::Write { start: block, blocks: 1, force_unit_access: false };
                queue.submit(write.encode(FILE.nsid), Give::Capsule(&old));
            }
            std::thread::sleep(Duration::from_micros(random.below(u64::from(delay_ms) * 1200)));
            let stops = [Stop::Reset, Stop::ShutDown, Stop::Disconnect, Stop::Close];
            let stop = stops[random.below(4) as usize];
            let count = queues.len() as u64;
            done(&target, &mut host, queues, stop);
            hold_back(&target, 0);
            let (_reader, mut other) = Host::with_queue(target.address());
            let new = pattern(4096, round << 1 | 1);
            for block in 0..count {
                assert_eq!(other.write(FILE, block, &new, true).status, Status::SUCCESS);
            }
            std::thread::sleep(Duration::from_millis(u64::from(delay_ms) + 5));
            for block in 0..count {
                assert!(other.read(FILE, block, 1).data == new, "round {round}: {stop:?}, {delay_ms} ms");
            }
        }
    });
}

/// Stops using these queues, and waits until the target says that it is done.
fn done(target: &TestTarget, host: &mut Host, queues: Vec<Client>, stop: Stop) {
    match stop {
        Stop::Reset => {
            configure(host, 0);
            await_status(host, controller_status::READY, 0);
        }
        Stop::ShutDown => {
            configure(host, ENABLED | configuration::SHUTDOWN_NORMAL);
            await_status(host, controller_status::SHUTDOWN_MASK, controller_status::SHUTDOWN_COMPLETE);
        }
        Stop::Disconnect => {
            for mut queue in queues {
                let leave = queue.submit(disconnect(), Give::Nothing);
                while queue.wait().command_id != leave {}
            }
        }
        Stop::Close => {
            let mut all = target.connections();
            for queue in queues {
                drop(queue);
                all -= 1;
                wait_until("the connection is gone", || target.connections() <= all);
            }
        }
    }
}
