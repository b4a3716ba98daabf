//! Controllers and their queues end when their host, their keep alive timer or their target says so, and leave
//! nothing behind.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::raw_host::{
    Client, ENGINES, Give, Host, Kind, Options, SPACES, TestTarget, assert_status, pattern,
};
use engine::limits::{ASYNC_EVENTS_MAX, CONTROLLERS_MAX};
use engine::ring::Engine;
use nvme::command::admin_opcode;
use nvme::fabrics::{disconnect, property};
use nvme::features::{AsyncEvent, AsyncEventConfig, FeatureId};
use nvme::io::IoCommand;
use nvme::{Status, SubmissionEntry};
use prerequisite::{Wait, patience, wait_until};

#[test]
fn a_silent_host_loses_its_controller_and_all_its_queues() {
    std::thread::scope(|scope| {
        for engine in ENGINES {
            scope.spawn(move || keep_alive(engine, 60_000));
        }
    });
}

mod by_the_clock {
    use super::*;

    #[test]
    #[ignore = "by the clock: the suite machine has it"]
    fn hosts_that_are_heard_of_within_a_second_keep_their_controllers() {
        ENGINES.into_iter().for_each(|engine| keep_alive(engine, 1000));
    }
}

/// Three hosts: one with a keep alive of a second falls silent, one says it is there, one only reads.
fn keep_alive(engine: Engine, keep_alive_ms: u32) {
    let target = TestTarget::start(engine);
    let options = |keep_alive_ms| Options { keep_alive_ms, ..Options::default() };
    let mut silent = Host::connect_with(target.address(), options(1000));
    let mut polite = Host::connect_with(target.address(), options(keep_alive_ms));
    let busy = Host::connect_with(target.address(), options(keep_alive_ms));
    let mut queues: Vec<Client> = (1..=4).map(|queue_id| silent.io(queue_id)).collect();
    let mut reading = busy.io(1);
    let keep_alive = SubmissionEntry::new(admin_opcode::KEEP_ALIVE, 0);
    let mut rounds_after = 0;
    let wait = Wait::begin("a silent host is noticed");
    while rounds_after < 20 {
        wait.check();
        assert_eq!(polite.admin.run(keep_alive, Give::Nothing).status, Status::SUCCESS);
        assert_eq!(reading.read(SPACES[0], 0, 1).status, Status::SUCCESS, "traffic keeps alive, too");
        // Three connections belong to the two others.
        rounds_after += usize::from(target.connections() == 3);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(target.target().metrics().keep_alive_expiries, 1, "one host, whatever it had");
    silent.admin.expect_end();
    for queue in &mut queues {
        queue.expect_end();
    }
    let reply = silent.try_io(1).1;
    assert_eq!(reply.status, Status::CONNECT_INVALID_PARAMETERS, "the controller is gone, and not the path");
    drop((busy, polite));
}

#[test]
fn io_queues_end_with_their_admin_queue() {
    for engine in ENGINES {
        let (target, _other, mut others_queue) = TestTarget::with_queue(engine);
        let host = Host::connect(target.address());
        let mut queues: Vec<Client> = (1..=8).map(|queue_id| host.io(queue_id)).collect();
        drop(host);
        for queue in &mut queues {
            queue.expect_end();
        }
        assert!(others_queue.read(SPACES[0], 0, 1).status.is_success(), "another controller's queue stays");
    }
}

#[test]
fn a_reset_closes_the_io_queues_only() {
    for engine in ENGINES {
        let (_target, mut host) = TestTarget::with_host(engine);
        for round in 0..5 {
            let mut queues: Vec<Client> = (1..=4).map(|queue_id| host.io(queue_id)).collect();
            let data = pattern(4096, round);
            assert!(queues[0].write(SPACES[0], round, &data, true).status.is_success());
            assert_eq!(host.admin.set_property(property::CONFIGURATION, 0).status, Status::SUCCESS);
            wait_until("it is no longer ready", || host.admin.property(property::STATUS, false).result == 0);
            for queue in &mut queues {
                queue.expect_end();
            }
            assert_status(host.try_io(1).1.status, Status::CONNECT_CONTROLLER_BUSY, "while disabled");
            host.enable();
        }
        assert!(host.io(1).read(SPACES[0], 0, 1).status.is_success(), "enabled again");
    }
}

#[test]
fn event_requests_end_with_a_reset() {
    let request = SubmissionEntry::new(admin_opcode::ASYNC_EVENT_REQUEST, 0);
    for engine in ENGINES {
        let (target, mut host) = TestTarget::with_host(engine);
        for _ in 0..ASYNC_EVENTS_MAX {
            host.admin.submit(request, Give::Nothing);
        }
        assert_eq!(host.admin.set_property(property::CONFIGURATION, 0).status, Status::SUCCESS);
        wait_until("it is no longer ready", || host.admin.property(property::STATUS, false).result == 0);
        host.enable();
        let wanted = AsyncEventConfig::NAMESPACE_ATTRIBUTE;
        let reply = host.admin.set_feature(FeatureId::ASYNC_EVENT_CONFIG, wanted, false, Give::Nothing);
        assert_eq!(reply.status, Status::SUCCESS, "no request of before the reset is answered");
        // Those of before count no longer.
        let ids: Vec<u16> =
            (0..ASYNC_EVENTS_MAX).map(|_| host.admin.submit(request, Give::Nothing)).collect();
        let beyond = host.admin.submit(request, Give::Nothing);
        let reply = host.admin.wait();
        assert_eq!(reply.command_id, beyond, "the others wait");
        assert_status(reply.status, Status::ASYNC_EVENT_LIMIT_EXCEEDED, "one too many");
        target.apply(|fabric| fabric.subsystems[0].namespaces.retain(|namespace| namespace.nsid != 1));
        let notice = host.admin.wait();
        assert_eq!((notice.command_id, notice.status), (ids[0], Status::SUCCESS));
        assert_eq!(AsyncEvent::decode(notice.result as u32), AsyncEvent::NAMESPACE_ATTRIBUTE_CHANGED);
    }
}

#[test]
fn disconnect_ends_one_queue_after_what_was_under_way() {
    for engine in ENGINES {
        let (_target, host, mut stays) = TestTarget::with_queue(engine);
        for round in 0..20 {
            let mut queue = host.io(2);
            let read = IoCommand::Read { start: 0, blocks: 8, force_unit_access: false };
            for _ in 0..8 {
                queue.submit(read.encode(7), Give::Room(4096));
            }
            queue.submit(disconnect(), Give::Nothing);
            for _ in 0..9 {
                assert_eq!(queue.wait().status, Status::SUCCESS, "round {round}");
            }
            queue.expect_end();
        }
        assert!(stays.read(SPACES[0], 0, 1).status.is_success());
    }
}

#[test]
fn thousands_of_hosts_come_and_go_without_a_trace() {
    const HOSTS: usize = 3000;
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        let mut ids = HashSet::new();
        for number in 0..HOSTS {
            let host = if number % 8 == 0 {
                let host = Host::connect(target.address());
                assert!(host.io(1).read(SPACES[0], 0, 1).status.is_success());
                host
            } else {
                Host::connect_admin(target.address(), Options::default())
            };
            assert!(ids.insert(host.controller_id), "identifier {} comes back too soon", host.controller_id);
        }
        const { assert!(HOSTS > CONTROLLERS_MAX, "or else a leak would not be noticed") };
        wait_until("all connections are gone", || target.connections() == 0);
    }
}

#[test]
fn outstanding_commands_finish_before_a_target_ends() {
    for engine in ENGINES {
        let mut target = TestTarget::start(engine);
        let files: Vec<_> = SPACES.into_iter().filter(|space| space.kind == Kind::File).collect();
        let mut host = Host::connect(target.address());
        let mut queues: Vec<Client> = (1..=2).map(|queue_id| host.io(queue_id)).collect();
        let data: Vec<Vec<u8>> = (0..8).map(|number| pattern(64 << 10, number)).collect();
        // The target has taken these writes, for it has asked for their data.
        let mut requests = Vec::new();
        for (queue, space) in queues.iter_mut().zip(&files) {
            queue.answers = false;
            for (number, data) in data.iter().enumerate() {
                let blocks = data.len() as u32 / space.block;
                let start = number as u64 * u64::from(blocks);
                let command = IoCommand::Write { start, blocks, force_unit_access: true };
                queue.submit(command.encode(space.nsid), Give::Asked(data));
            }
            requests.push((0..8).map(|_| queue.ready_to_transfer()).collect::<Vec<_>>());
        }
        let address = target.address();
        let ending = target.take();
        let thread = std::thread::spawn(move || ending.shutdown());
        wait_until("the port is closed", || TcpStream::connect(address).is_err());
        for (queue, requests) in queues.iter_mut().zip(requests) {
            for request in requests {
                queue.answer(&request);
            }
            for _ in 0..8 {
                assert_eq!(queue.wait().status, Status::SUCCESS, "{engine:?}");
            }
            queue.expect_end();
        }
        host.admin.expect_end();
        thread.join().unwrap();
        for space in files {
            let found = std::fs::read(target.file(space.nsid)).unwrap();
            assert!(found[..512 << 10] == data.concat(), "what was acknowledged is in the file");
        }
    }
}

#[test]
fn a_host_that_never_stops_sending_sees_a_proper_end() {
    for engine in ENGINES {
        for round in 0..5 {
            let (mut target, _host, mut queue) = TestTarget::with_queue(engine);
            let ending = target.take();
            let sender = send_flushes(&mut queue);
            queue.event().expect("flushes are answered");
            let thread = std::thread::spawn(move || ending.shutdown());
            // What was taken is answered whole, and then comes the end, not a broken connection.
            while let Some(event) = queue.event() {
                let nvme::tcp::Event::Response(entry) = event else { panic!("unexpected {event:?}") };
                assert_eq!(entry.status(), Status::SUCCESS, "{engine:?}, round {round}");
            }
            // It may be over already, for the sender has noticed, too.
            let _ = queue.stream.shutdown(Shutdown::Both);
            sender.join().unwrap();
            thread.join().unwrap();
        }
    }
}

#[test]
fn a_controller_that_has_ended_refuses_no_command() {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        for round in 0..10 {
            let host = Host::connect(target.address());
            let mut queues: Vec<Client> = (1..=2).map(|queue_id| host.io(queue_id)).collect();
            let senders: Vec<_> = queues.iter_mut().map(send_flushes).collect();
            for queue in &mut queues {
                queue.stream.read_exact(&mut [0; RESPONSE]).expect("flushes are answered");
            }
            drop(host);
            for queue in &mut queues {
                assert_eq!(statuses_until_gone(queue), HashSet::from([0]), "{engine:?}, round {round}");
                let _ = queue.stream.shutdown(Shutdown::Both);
            }
            senders.into_iter().for_each(|sender| sender.join().unwrap());
        }
    }
}

/// The statuses of all answers that come until the connection is gone, however it goes. A command that was in time has
/// one, and the others none: an error would be final, and the commands were good.
fn statuses_until_gone(queue: &mut Client) -> HashSet<u16> {
    let mut statuses = HashSet::from([0]);
    let (mut room, mut bytes) = (vec![0; 64 << 10], Vec::new());
    while let Ok(count @ 1..) = queue.stream.read(&mut room) {
        bytes.extend_from_slice(&room[..count]);
        let whole = bytes.len() / RESPONSE * RESPONSE;
        for pdu in bytes.drain(..whole).collect::<Vec<u8>>().chunks_exact(RESPONSE) {
            statuses.insert(u16::from_le_bytes([pdu[22], pdu[23]]) >> 1);
        }
    }
    statuses
}

/// Bytes of a response capsule without digests.
const RESPONSE: usize = 24;

/// Sends one Flush after the other until the connection is gone.
fn send_flushes(queue: &mut Client) -> std::thread::JoinHandle<()> {
    let mut flush = IoCommand::Flush.encode(1);
    flush.command_id = 1.into();
    let bytes = queue.frame_command(flush, &[]).repeat(8);
    let mut stream = queue.stream.try_clone().unwrap();
    std::thread::spawn(move || {
        for _ in 0..1_000_000 {
            if stream.write_all(&bytes).is_err() {
                return;
            }
        }
    })
}

#[test]
fn a_host_that_owes_data_does_not_keep_a_target_from_ending() {
    std::thread::scope(|scope| {
        for engine in ENGINES {
            scope.spawn(move || {
                let (mut target, _host, mut queue) = TestTarget::with_queue(engine);
                queue.answers = false;
                let write = IoCommand::Write { start: 0, blocks: 8, force_unit_access: false };
                queue.submit(write.encode(7), Give::Asked(&pattern(4096, 1)));
                queue.ready_to_transfer();
                let ending = target.take();
                let (done, ended) = std::sync::mpsc::channel();
                std::thread::spawn(move || {
                    ending.shutdown();
                    let _ = done.send(());
                });
                assert!(
                    ended.recv_timeout(patience()).is_ok(),
                    "{engine:?}: it ends without the host's help"
                );
            });
        }
    });
}
