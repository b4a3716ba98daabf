//! A server from its beginning to its end, and what happens below it meanwhile.

use std::io::{Read as _, Write as _};

use attach::limits::ACCEPTS_PER_TURN;
use engine::initiator::PathState;
use engine::target::PortConfig;
use prerequisite::wait_until;

use crate::client::{Client, Form, READ, WRITE};
use crate::world::{Plan, SIZE, World};

#[test]
fn each_namespace_has_its_name() {
    let world = World::new(&Plan::default());
    let mut first = world.stranger().go("", Form::Simple);
    let mut second = world.stranger().go("2", Form::Simple);
    assert_eq!((first.write(0, &[1; 4096], 0), second.write(0, &[2; 4096], 0)), (0, 0));
    assert_eq!(world.stranger().go("1", Form::Simple).read(0, 4096, 0), [1; 4096]);
    assert_eq!(second.read(0, 4096, 0), [2; 4096]);
}

#[test]
fn threads_share_the_clients() {
    let world = World::new(&Plan { threads: 2, ..Plan::default() });
    assert_eq!(world.server.as_ref().expect("it runs").threads(), 2);
    let mut clients: Vec<_> = (0..6).map(|_| world.stranger().go("1", Form::Structured)).collect();
    for (at, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.write(at as u64 * 4096, &[at as u8 + 1; 4096], 0), 0);
    }
    for (at, client) in clients.iter_mut().rev().enumerate() {
        assert_eq!(client.read(at as u64 * 4096, 4096, 0), [at as u8 + 1; 4096]);
    }
}

#[test]
fn a_path_that_is_lost_is_nothing_that_clients_see() {
    let world = World::new(&Plan::default());
    let mut client = world.stranger().go("1", Form::Structured);
    let both = world.target.config();
    let mut one = both.clone();
    one.ports.remove(0);
    for round in 0..4u8 {
        let config = if round % 2 == 0 { &one } else { &both };
        for at in 0..32 {
            client.send(WRITE, 0, (at * 4096, 4096), &[round; 4096]);
        }
        world.target.apply(config).expect("it can be changed");
        for _ in 0..32 {
            let chunk = client.chunk(0);
            assert_eq!((chunk.is_last, chunk.error), (true, 0));
        }
        for at in 0..32 {
            assert_eq!(client.read(at * 4096, 4096, 0), [round; 4096]);
        }
    }
    assert!(world.paths[0].status().iter().any(|path| path.state == PathState::Live));
}

#[test]
fn a_write_of_a_client_that_is_gone_is_not_sent_again() {
    let world = World::new(&Plan { is_relayed: true, ..Plan::default() });
    let relay = world.relay.as_ref().expect("a relay");
    let mut gone = world.stranger().go("1", Form::Structured);
    // A queue is connected once it answers: a connection that is held then has no queue for the write.
    assert_eq!(gone.read(0, 4096, 0), [0; 4096]);
    relay.hold(true);
    gone.send(WRITE, 0, (0, 4096), &[9; 4096]);
    let is_write = |command: &(u8, u32)| command.0 == 1;
    wait_until("the write is on its way", || relay.commands().iter().any(is_write));
    drop(gone);
    // The thread has seen the end of the first client when it answers the second one.
    let mut other = world.stranger().go("1", Form::Structured);
    relay.sever();
    relay.hold(false);
    assert_eq!(other.write(4096, &[1; 4096], 0), 0);
    wait_until("the lost controller is at rest", || world.paths[0].wait_for_lost().is_none());
    assert_eq!(other.read(4096, 4096, 0), [1; 4096]);
    assert_eq!(other.read(0, 4096, 0), [0; 4096], "it could undo a newer write over another connection");
}

/// Flags of the first disk, as they are offered to a client that comes now (NBD_OPT_INFO).
fn offered(world: &World) -> u16 {
    let mut client = world.stranger();
    client.greet();
    let answers = client.answers(6, &[0, 0, 0, 1, b'1', 0, 0]);
    let export = answers.iter().find(|answer| answer.starts_with(&[0, 0])).expect("NBD_INFO_EXPORT");
    u16::from_be_bytes([export[10], export[11]])
}

#[test]
fn a_client_that_comes_while_no_path_leads_to_the_disk_is_offered_what_it_can_do() {
    const TRIM_AND_WRITE_ZEROES: u16 = 1 << 5 | 1 << 6;
    let world = World::new(&Plan::default());
    let before = offered(&world);
    assert_eq!(before & TRIM_AND_WRITE_ZEROES, TRIM_AND_WRITE_ZEROES);
    let mut elsewhere = world.target.config();
    elsewhere.ports = vec![PortConfig::new(3, ([127, 0, 0, 1], 0).into())];
    world.target.apply(&elsewhere).expect("it can be changed");
    wait_until("no path is left", || world.paths[0].controllers().is_empty());
    assert_eq!(offered(&world), before);
}

#[test]
fn a_client_that_comes_after_a_change_of_size_sees_it() {
    let world = World::new(&Plan::default());
    let mut before = world.stranger().go("1", Form::Simple);
    let mut config = world.target.config();
    let size = 2 * SIZE;
    config.subsystems[0].namespaces[0].backend = engine::backend::BackendConfig::Memory { size };
    world.target.apply(&config).expect("it can be changed");
    while world.paths[0].size_bytes() != size {
        std::thread::yield_now();
    }
    // One that has been there may use what there is.
    assert_eq!(before.write(size - 4096, &[4; 4096], 0), 0);
    assert_eq!(world.stranger().go("1", Form::Extended).read(size - 4096, 4096, 0), [4; 4096]);
}

#[test]
fn the_end_answers_what_has_come_and_closes_all() {
    let mut world = World::new(&Plan { threads: 2, ..Plan::default() });
    let mut clients: Vec<_> = (0..3).map(|_| world.stranger().go("1", Form::Simple)).collect();
    for client in &mut clients {
        assert_eq!(client.read(0, 4096, 0), [0; 4096]);
        // The last is not all sent, and never will be.
        client.send(READ, 0, (0, 4096), &[]);
        client.send(WRITE, 0, (0, 8192), &[1; 4096]);
    }
    // No other server listens there.
    world.listener = None;
    let tally = world.server.take().expect("it runs").stop();
    assert_eq!(tally.clients, 3);
    assert!(clients.iter_mut().all(Client::is_closed));
    assert!(!world.is_listening());
}

/// True if a client that connects as the server ends gets the reason as the answer to an option. One that pauses for longer
/// than the server waits gets no answer. The client would be the second thread's, and more wait than are accepted in a turn.
fn gets_the_reason() -> bool {
    let mut world = World::new(&Plan { threads: 3, ..Plan::default() });
    world.stranger().bytes(18);
    let mut client = world.stranger();
    let mut others: Vec<_> = (0..=ACCEPTS_PER_TURN).map(|_| world.stranger()).collect();
    let server = world.server.take().expect("it runs");
    let end = std::thread::spawn(move || server.stop());
    for client in others.iter_mut().chain([&mut client]) {
        assert_eq!(client.bytes(18), b"NBDMAGICIHAVEOPT\0\x03", "it waited before the end began");
    }
    let _ = client.stream.write_all(&3u32.to_be_bytes());
    // An option that no server knows.
    let option = [b"IHAVEOPT", &99u32.to_be_bytes()[..], &0u32.to_be_bytes()].concat();
    let (shutdown, unsupported) = (1 << 31 | 7, 1 << 31 | 1);
    let has_reason = loop {
        let mut reply = [0; 20];
        if client.stream.write_all(&option).is_err() || client.stream.read_exact(&mut reply).is_err() {
            break false;
        }
        match u32::from_be_bytes(reply[12..16].try_into().expect("four bytes")) {
            kind if kind == shutdown => break true,
            kind => assert_eq!(kind, unsupported, "the end has not begun"),
        }
    };
    assert!(client.is_closed() && others.iter_mut().all(Client::is_closed));
    assert_eq!(end.join().expect("it ends").clients, 3 + ACCEPTS_PER_TURN as u64);
    has_reason
}

#[test]
fn a_client_that_comes_with_the_end_gets_the_reason() {
    // In each round, all get the greeting at least.
    let with_reason = (0..8).filter(|_| gets_the_reason()).count();
    assert!(with_reason > 0);
}
