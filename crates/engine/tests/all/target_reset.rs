//! A host that has lost its way to a controller has another one end it (Cross-Controller Reset), or waits for as long as
//! the target promised (Command Quiesce Time): after either, nothing of the lost controller takes effect.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::raw_host::held_writes::{FILE, MEMORY, begin_write, each_engine, hold_back};
use crate::raw_host::resets::{instance, listen, log, reset};
use crate::raw_host::{
    Client, ENGINES, Give, Host, Options, TestTarget, assert_status, config_of, pattern, subsystem,
};
use engine::backend::BackendConfig;
use engine::limits::{COMMAND_QUIESCE_MS, CROSS_RESET_ENTRIES, CROSS_RESETS_MAX};
use engine::ring::Engine;
use engine::target::Change;
use nvme::Status;
use nvme::cross_reset::{ControllerInstance, IMMEDIATE_RESET_SUCCESSFUL};
use nvme::discovery::DISCOVERY_NQN;
use nvme::features::AsyncEvent;
use nvme::identify::bits::optional_async_events;
use nvme::io::IoCommand;
use nvme::log_page::{CrossResetEntry, CrossResetStatus};
use prerequisite::wait_until;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// So long are writes held back, in milliseconds: long enough for some commands meanwhile on a busy machine.
const DELAY_MS: u32 = 4000;

fn ended(entries: &[CrossResetEntry]) -> usize {
    entries.iter().filter(|entry| entry.status() == Some(CrossResetStatus::Successful)).count()
}

#[test]
fn a_write_that_is_held_back_holds_nothing_else_up() {
    each_engine(|engine| {
        let (target, _host, mut queue) = TestTarget::with_queue(engine);
        let (old, new) = (pattern(4096, 1), pattern(4096, 2));
        assert_eq!(queue.write(FILE, 3, &old, true).status, Status::SUCCESS);
        let changes = hold_back(&target, DELAY_MS);
        assert!(matches!(&changes[..], [Change::NamespaceChanged { .. }]), "{changes:?}");
        let began = Instant::now();
        let write = begin_write(&mut queue, 3, &new);
        let read = IoCommand::Read { start: 3, blocks: 1, force_unit_access: false };
        let read = queue.submit(read.encode(FILE.nsid), Give::Room(4096));
        let reply = queue.wait();
        assert_eq!(reply.command_id, read);
        assert!(reply.data == old, "the write has not reached the file");
        let reply = queue.wait();
        assert_eq!((reply.command_id, reply.status), (write, Status::SUCCESS));
        assert!(began.elapsed() >= Duration::from_millis(DELAY_MS.into()), "no sooner than was asked for");
        assert!(queue.read(FILE, 3, 1).data == new);
        hold_back(&target, 0);
        for block in 0..100 {
            assert_eq!(queue.write(FILE, block, &old, true).status, Status::SUCCESS);
        }
        assert!(queue.read(FILE, 99, 1).data == old);
    });
}

#[test]
fn a_controller_says_who_it_is_and_what_it_promises() {
    for engine in ENGINES {
        // In memory, since a disk may have a time-out that is longer than what is promised here.
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let target = TestTarget::start_with(engine, |config| {
            for namespace in &mut config.fabric.subsystems[0].namespaces {
                if let BackendConfig::File { path, .. } = &mut namespace.backend {
                    *path = folder.path().join(namespace.nsid.to_string());
                }
            }
        });
        let other_target = TestTarget::start(engine);
        let mut host = Host::connect(target.address());
        let found = host.admin.identified_controller();
        assert_eq!(found.cross_controller_reset_limit, CROSS_RESETS_MAX);
        assert_eq!(found.command_quiesce_time_ms.get(), COMMAND_QUIESCE_MS);
        let bit = optional_async_events::CROSS_CONTROLLER_RESET;
        assert_eq!(found.optional_async_events.get() & bit, bit);
        let first = instance(&mut host);
        assert_eq!((first.controller_id, first.uniquifier), (host.controller_id, 1));
        let second = instance(&mut Host::connect(target.address()));
        let elsewhere = instance(&mut Host::connect(other_target.address()));
        let tag = |instance: ControllerInstance| instance.random_number >> 32;
        let own = |instance: ControllerInstance| instance.random_number as u32;
        assert!(tag(first) == tag(second) && tag(first) != 0 && tag(first) != tag(elsewhere));
        assert!(own(first) != own(second) && own(first) != 0);

        let mut promised = |delay_ms, quiesce_ms| {
            target.apply(|fabric| {
                fabric.subsystems[0].command_quiesce_ms = quiesce_ms;
                config_of(fabric, FILE.nsid).write_delay_ms = delay_ms;
            });
            host.admin.identified_controller().command_quiesce_time_ms.get()
        };
        assert_eq!(promised(1, None), COMMAND_QUIESCE_MS);
        assert_eq!(promised(3000, None), 3500, "a write that is held back takes so long");
        assert_eq!(promised(3000, Some(9000)), 9000);
        assert_eq!(promised(0, Some(100)), 100);
        assert_eq!(promised(60_000, None), 60_500);
        for refused in [(60_001, None), (0, Some(0)), (3000, Some(100)), (3000, Some(3499))] {
            let outcome = target.try_apply(|fabric| {
                fabric.subsystems[0].command_quiesce_ms = refused.1;
                config_of(fabric, FILE.nsid).write_delay_ms = refused.0;
            });
            assert!(outcome.is_err(), "{refused:?}");
        }
        let memory = |fabric: &mut engine::target::FabricConfig| {
            fabric.subsystems[0].namespaces[0].write_delay_ms = 1;
        };
        assert!(target.try_apply(memory).is_err(), "there is nothing to hold back in memory");

        let options = Options { subsystem_nqn: DISCOVERY_NQN.to_owned(), ..Options::default() };
        let mut discovery = Host::connect_admin(target.address(), options);
        let found = discovery.admin.identified_controller();
        assert_eq!((found.cross_controller_reset_limit, found.command_quiesce_time_ms.get()), (0, 0));
        let reply = reset(&mut discovery.admin, first);
        assert_status(reply.status, Status::INVALID_OPCODE, "a discovery controller does no resets");
    }
}

#[test]
fn a_reset_has_ended_when_the_last_write_has() {
    each_engine(|engine| {
        let (target, mut victim) = TestTarget::with_host(engine);
        let impacted = instance(&mut victim);
        let mut queues: Vec<Client> = (1..=4).map(|queue_id| victim.io(queue_id)).collect();
        let (mut asking, mut reading) = Host::with_queue(target.address());
        let event = listen(&mut asking.admin);
        hold_back(&target, DELAY_MS);
        for (block, queue) in (0..).zip(&mut queues) {
            begin_write(queue, block, &pattern(4096, block));
        }
        // Its data never comes, so that it is never done.
        let waits = IoCommand::Write { start: 10, blocks: 8, force_unit_access: false };
        queues[0].answers = false;
        queues[0].submit(waits.encode(FILE.nsid), Give::Asked(&pattern(8 * 4096, 10)));
        queues[0].ready_to_transfer();

        let reply = reset(&mut asking.admin, impacted);
        assert_eq!((reply.status, reply.result), (Status::SUCCESS, 0), "it has begun");
        let reply = reset(&mut asking.admin, impacted);
        assert_status(reply.status, Status::CROSS_CONTROLLER_RESET_IN_PROGRESS, "once is enough");
        let mut expected = CrossResetEntry {
            impacted_controller_id: impacted.controller_id.into(),
            uniquifier: 1,
            reserved_3: 0,
            asked_controller_id: asking.controller_id.into(),
            status: CrossResetStatus::InProgress as u8,
            flags: 3,
        };
        assert_eq!(log(&mut asking.admin, true), [expected], "what is in progress is not removed");
        victim.admin.expect_end();
        queues.iter_mut().for_each(Client::expect_end);
        assert_status(victim.try_io(5).1.status, Status::CONNECT_INVALID_PARAMETERS, "it is gone");

        let notice = asking.admin.wait();
        assert_eq!((notice.command_id, notice.status), (event, Status::SUCCESS));
        let notice = AsyncEvent::decode(notice.result as u32);
        assert_eq!(notice, AsyncEvent::CROSS_CONTROLLER_RESET_COMPLETED);
        for block in 0..4 {
            assert!(reading.read(FILE, block, 1).data == pattern(4096, block), "nothing comes later");
        }
        assert!(reading.read(FILE, 10, 8).data == vec![0; 8 * 4096]);
        expected.status = CrossResetStatus::Successful as u8;
        assert_eq!(log(&mut asking.admin, false), [expected]);
        assert_eq!(log(&mut asking.admin, true), [expected], "it stays until it is to be removed");
        assert_eq!(log(&mut asking.admin, true), []);
        let reply = reset(&mut asking.admin, impacted);
        assert_eq!((reply.status, reply.result), (Status::SUCCESS, IMMEDIATE_RESET_SUCCESSFUL));
    });
}

#[test]
fn a_controller_that_is_gone_is_vouched_for_when_its_writes_have_ended() {
    each_engine(|engine| {
        let (target, mut asking, mut reading) = TestTarget::with_queue(engine);
        hold_back(&target, DELAY_MS);
        let mut victim = Host::connect(target.address());
        let impacted = instance(&mut victim);
        let mut queue = victim.io(1);
        let data = pattern(4096, 1);
        begin_write(&mut queue, 0, &data);
        drop((victim, queue));
        wait_until("the target notices", || target.target().status().controllers.len() == 1);
        let reply = reset(&mut asking.admin, impacted);
        assert_eq!((reply.status, reply.result), (Status::SUCCESS, IMMEDIATE_RESET_SUCCESSFUL));
        assert!(reading.read(FILE, 0, 1).data == data, "the last write had ended before the answer came");
        // Nor is anything left of one that never was.
        let never = ControllerInstance { controller_id: 5000, ..impacted };
        let reply = reset(&mut asking.admin, never);
        assert_eq!((reply.status, reply.result), (Status::SUCCESS, IMMEDIATE_RESET_SUCCESSFUL));
        assert_eq!(log(&mut asking.admin, false), [], "what is answered needs no entry");
    });
}

#[test]
fn a_host_resets_only_its_own_controllers() {
    for engine in ENGINES {
        let target = TestTarget::start_with(engine, |config| {
            config.fabric.subsystems.push(subsystem("nqn.2014-08.org.example:other", Vec::new()));
        });
        let (mut victim, mut queue) = Host::with_queue(target.address());
        let right = instance(&mut victim);
        let connect = |change: fn(&mut Options)| {
            let mut options = Options::default();
            change(&mut options);
            Host::connect_with(target.address(), options)
        };
        let mut asking = connect(|_| {});
        for (what, host) in [
            (
                "another host's name",
                connect(|options| *options = Options::named("nqn.2014-08.org.example:host2")),
            ),
            ("another host's identifier", connect(|options| options.host_id = [8; 16])),
            ("another subsystem", connect(|o| o.subsystem_nqn = "nqn.2014-08.org.example:other".to_owned())),
        ] {
            let mut host = host;
            let reply = reset(&mut host.admin, right);
            assert_eq!(reply.status, Status::INVALID_FIELD.do_not_retry(), "{what}");
        }
        let elsewhere = TestTarget::start(engine);
        let foreign = instance(&mut Host::connect(elsewhere.address()));
        let own = instance(&mut asking);
        for (what, wrong) in [
            ("itself", own),
            ("its own identifier", ControllerInstance { controller_id: own.controller_id, ..right }),
            ("another target's", foreign),
            ("another target's number", ControllerInstance { random_number: foreign.random_number, ..right }),
            ("no number", ControllerInstance { random_number: 0, ..right }),
            ("another life's count", ControllerInstance { uniquifier: 2, ..right }),
        ] {
            let reply = reset(&mut asking.admin, wrong);
            assert_eq!(reply.status, Status::INVALID_FIELD.do_not_retry(), "{what}");
        }
        let other_life = ControllerInstance { random_number: right.random_number ^ 1, ..right };
        let reply = reset(&mut asking.admin, other_life);
        assert_eq!((reply.status, reply.result), (Status::SUCCESS, IMMEDIATE_RESET_SUCCESSFUL));
        assert_eq!(log(&mut asking.admin, false), []);
        assert_eq!(queue.read(MEMORY, 0, 1).status, Status::SUCCESS, "all this has not ended it");
        assert_eq!(reset(&mut asking.admin, right).status, Status::SUCCESS);
        queue.expect_end();
    }
}

#[test]
fn resets_have_limits() {
    each_engine(|engine| {
        let (target, mut asking) = TestTarget::with_host(engine);
        let limit = usize::from(CROSS_RESETS_MAX);
        hold_back(&target, DELAY_MS);
        let mut victims: Vec<Host> = (0..=limit).map(|_| Host::connect(target.address())).collect();
        for (block, victim) in (0..).zip(&mut victims[..limit]) {
            let mut queue = victim.io(1);
            begin_write(&mut queue, block, &pattern(4096, 0));
            let reply = reset(&mut asking.admin, instance(victim));
            assert_eq!((reply.status, reply.result), (Status::SUCCESS, 0));
        }
        let last = instance(&mut victims[limit]);
        let reply = reset(&mut asking.admin, last);
        assert_status(reply.status, Status::CROSS_CONTROLLER_RESET_LIMIT_EXCEEDED, "one too many");
        victims[limit].admin.property(nvme::fabrics::property::STATUS, false);
        wait_until("all end", || ended(&log(&mut asking.admin, false)) == limit);
        assert_eq!(reset(&mut asking.admin, last).status, Status::SUCCESS);

        for count in limit + 2..=CROSS_RESET_ENTRIES {
            let mut victim = Host::connect_admin(target.address(), Options::default());
            let reply = reset(&mut asking.admin, instance(&mut victim));
            assert_eq!(reply.status, Status::SUCCESS, "{count}");
            wait_until("it ends", || ended(&log(&mut asking.admin, false)) == count);
        }
        let mut victim = Host::connect_admin(target.address(), Options::default());
        let impacted = instance(&mut victim);
        let reply = reset(&mut asking.admin, impacted);
        assert_status(reply.status, Status::CROSS_CONTROLLER_RESET_LOG_FULL, "none was removed");
        assert_eq!(instance(&mut victim), impacted, "and so it lives");
        assert_eq!(log(&mut asking.admin, true).len(), CROSS_RESET_ENTRIES);
        assert_eq!(reset(&mut asking.admin, impacted).status, Status::SUCCESS);
        wait_until("it ends", || ended(&log(&mut asking.admin, false)) == 1);
    });
}

/// Says to a copy of this program which engine its target has.
const ENGINE_VARIABLE: &str = "SELVEDGE_STOPPED_TARGET";

/// In the copy: a target, until the test ends it or has ended itself.
fn serve_until_the_end_of_input(engine: Engine) {
    let target = TestTarget::start(engine);
    println!("serves {}", target.address());
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn a_target_that_was_stopped_does_not_begin_what_came_meanwhile() {
    if let Ok(engine) = std::env::var(ENGINE_VARIABLE) {
        let engine = if engine == "epoll" { Engine::Epoll } else { Engine::IoUring };
        return serve_until_the_end_of_input(engine);
    }
    each_engine(stop_and_continue);
}

/// A process of its own, which ends with the test, stopped or not.
struct TargetProcess(Child);

impl Drop for TargetProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A host writes to a target that is stopped for longer than the keep alive time-out. When it goes on, the host has
/// given up, and perhaps written elsewhere.
fn stop_and_continue(engine: Engine) {
    let name = "target_reset::a_target_that_was_stopped_does_not_begin_what_came_meanwhile";
    let mut copy = TargetProcess(
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(ENGINE_VARIABLE, if engine == Engine::Epoll { "epoll" } else { "io_uring" })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let pid = Pid::from_child(&copy.0);
    let mut lines = BufReader::new(copy.0.stdout.take().unwrap()).lines();
    let address: SocketAddr = lines
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| line.split_once("serves ").and_then(|(_, address)| address.parse().ok()))
        .expect("the copy says where it serves");
    let keep_alive = Duration::from_secs(2);
    let options = Options { keep_alive_ms: keep_alive.as_millis() as u32, ..Options::default() };
    let host = Host::connect_with(address, options);
    let mut queues: Vec<Client> = (1..=4).map(|queue_id| host.io(queue_id)).collect();
    let (old, late) = (pattern(4096, 1), pattern(4096, 2));
    for space in [MEMORY, FILE] {
        for (block, queue) in (0..).zip(&mut queues) {
            assert_eq!(queue.write(space, block, &old, true).status, Status::SUCCESS);
        }
    }
    // Of these the target has the command already, and waits for the data.
    for (block, queue) in (10..).zip(&mut queues) {
        queue.answers = false;
        let write = IoCommand::Write { start: block, blocks: 1, force_unit_access: false };
        queue.submit(write.encode(MEMORY.nsid), Give::Asked(&late));
    }
    let requests: Vec<_> = queues.iter_mut().map(Client::ready_to_transfer).collect();

    kill_process(pid, Signal::STOP).unwrap();
    // Only now all its threads stand still.
    let (_, stopped) = waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().unwrap();
    assert!(stopped.stopped());
    for (block, (queue, request)) in (0..).zip(queues.iter_mut().zip(&requests)) {
        queue.answer(request);
        for space in [MEMORY, FILE] {
            let write = IoCommand::Write { start: block, blocks: 1, force_unit_access: false };
            queue.submit(write.encode(space.nsid), Give::Capsule(&late));
        }
    }
    // Twice the keep alive is what the target waits.
    std::thread::sleep(3 * keep_alive);
    kill_process(pid, Signal::CONT).unwrap();

    for queue in &mut queues {
        queue.wait_until_gone();
    }
    let (_next_host, mut reading) = Host::with_queue(address);
    for block in 0..4 {
        for space in [MEMORY, FILE] {
            let reply = reading.read(space, block, 1);
            assert_eq!(reply.status, Status::SUCCESS);
            assert!(reply.data == old, "{space:?}, block {block}");
        }
        assert!(reading.read(MEMORY, 10 + block, 1).data == vec![0; 4096], "block {}", 10 + block);
    }
}
