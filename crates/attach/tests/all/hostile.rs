//! Clients that lie, stop or vanish: they pay themselves.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use attach::limits::{CLIENTS_PER_THREAD_MAX, CLIENTS_RESERVE};
use prerequisite::wait_until;

use crate::client::{Client, Form, READ, WRITE};
use crate::world::{Plan, World};

#[test]
fn a_client_that_breaks_the_protocol_loses_only_its_own_connection() {
    let world = World::new(&Plan::default());
    let mut good = world.stranger().go("1", Form::Structured);
    let too_long = [b"\0\0\0\x03IHAVEOPT\0\0\0\x07", &u32::MAX.to_be_bytes()[..]].concat();
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 4], &too_long] {
        let mut bad = world.stranger();
        bad.stream.write_all(bytes).expect("it can be sent");
        assert!(bad.is_closed());
    }
    let mut no_request = world.stranger().go("1", Form::Simple);
    no_request.stream.write_all(&[0; 28]).expect("it can be sent");
    assert!(no_request.is_closed());
    let mut too_much = world.stranger().go("1", Form::Extended);
    too_much.send(WRITE, 0, (0, 1 << 40), &[]);
    assert!(too_much.is_closed());
    assert_eq!(good.read(0, 4096, 0), [0; 4096]);
}

#[test]
fn who_vanishes_in_the_middle_of_a_write_has_written_nothing_of_that_block() {
    let world = World::new(&Plan::default());
    let mut good = world.stranger().go("1", Form::Structured);
    for sent in [0, 1, 4095] {
        let mut client = world.stranger().go("1", Form::Simple);
        client.send(WRITE, 0, (0, 4096), &[9; 4096][..sent]);
        drop(client);
        assert_eq!(good.read(0, 4096, 0), [0; 4096]);
    }
    // With reads outstanding, and their answers under way.
    let mut client = world.stranger().go("1", Form::Simple);
    for _ in 0..64 {
        client.send(READ, 0, (0, 1 << 20), &[]);
    }
    drop(client);
    assert_eq!(good.write(0, &[1; 4096], 0), 0);
    assert_eq!(good.read(0, 4096, 0), [1; 4096]);
}

#[test]
fn who_reads_no_answers_is_not_served_and_others_are() {
    let world = World::new(&Plan::default());
    let mut lazy = world.stranger().go("1", Form::Simple);
    lazy.stream.set_write_timeout(Some(Duration::from_millis(200))).expect("it can have one");
    let request = [&0x2560_9513u32.to_be_bytes()[..], &[0; 20], &(1u32 << 20).to_be_bytes()].concat();
    // A server without limits would take all of these, and keep their gigabytes.
    let mut taken = 0usize;
    while taken < 100_000 && lazy.stream.write_all(&request).is_ok() {
        taken += 1;
    }
    assert!(taken < 100_000, "the server stops to receive");
    let mut good = world.stranger().go("1", Form::Structured);
    for at in 0..64 {
        assert_eq!(good.write(at * 4096, &[at as u8; 4096], 0), 0);
        assert_eq!(good.read(at * 4096, 4096, 0), [at as u8; 4096]);
    }
}

#[test]
fn who_reads_no_answers_does_not_block_a_hand_over() {
    let world = World::new(&Plan::default());
    let mut lazy = world.stranger().go("1", Form::Simple);
    lazy.stream.set_write_timeout(Some(Duration::from_millis(200))).expect("it can have one");
    let request = [&0x2560_9513u32.to_be_bytes()[..], &[0; 20], &(1u32 << 20).to_be_bytes()].concat();
    let mut taken = 0usize;
    while taken < 100_000 && lazy.stream.write_all(&request).is_ok() {
        taken += 1;
    }
    let mut good = world.stranger().go("1", Form::Structured);
    let server = world.server.as_ref().expect("a server");
    let (handed, _sockets) = server.holder().freeze().expect("it comes to rest");
    assert_eq!(handed.clients.len(), 1, "the other one is not handed over");
    // Where this process serves on, both are there.
    server.holder().thaw(false);
    assert_eq!(good.read(0, 4096, 0), [0; 4096]);
    let mut reply = [0; 16];
    lazy.stream.read_exact(&mut reply).expect("a reply");
    assert_eq!(reply[..4], 0x6744_6698u32.to_be_bytes());
}

#[test]
fn strangers_do_not_keep_clients_out() {
    let world = World::new(&Plan::default());
    let mut good = world.stranger().go("1", Form::Simple);
    let strangers: Vec<_> = (0..CLIENTS_PER_THREAD_MAX + 8).map(|_| world.stranger()).collect();
    let mut late = world.stranger().go("1", Form::Simple);
    assert_eq!(late.read(0, 4096, 0), [0; 4096]);
    assert_eq!(good.read(0, 4096, 0), [0; 4096]);
    drop(strangers);
}

#[test]
fn of_strangers_the_one_that_came_first_makes_room() {
    let world = World::new(&Plan::default());
    let greeted = || {
        let mut client = world.stranger();
        client.greet();
        client
    };
    let mut strangers: Vec<_> = (0..CLIENTS_PER_THREAD_MAX).map(|_| greeted()).collect();
    let late = greeted();
    let _later = greeted();
    assert!(strangers[0].is_closed() && strangers[1].is_closed());
    assert_eq!(late.choose("1", Form::Simple).read(0, 4096, 0), [0; 4096], "it is about to choose");
}

#[test]
fn strangers_that_have_all_of_few_connections_make_room() {
    let world = World::new(&Plan { clients_max: 3, ..Plan::default() });
    let mut strangers: Vec<_> = (0..3).map(|_| world.stranger()).collect();
    strangers.iter_mut().for_each(Client::greet);
    let mut clients: Vec<_> = (0..3).map(|_| world.stranger().go("1", Form::Simple)).collect();
    assert!(strangers.iter_mut().all(Client::is_closed));
    assert!(world.stranger().is_closed(), "each connection has a disk");
    for client in &mut clients {
        assert_eq!(client.read(0, 4096, 0), [0; 4096]);
    }
    clients.truncate(2);
    wait_until("one is served", || world.stranger().stream.read(&mut [0; 18]).is_ok_and(|count| count > 0));
}

#[test]
fn a_stranger_makes_room_on_whichever_thread_it_is() {
    // Each thread has one connection, and the thread of the stranger is not the next.
    let world = World::new(&Plan { threads: 2, clients_max: 2, ..Plan::default() });
    let mut first = world.stranger().go("1", Form::Simple);
    let mut stranger = world.stranger();
    stranger.greet();
    let mut late = world.stranger().go("1", Form::Simple);
    assert!(stranger.is_closed());
    assert!(world.stranger().is_closed(), "each connection has a disk");
    for client in [&mut first, &mut late] {
        assert_eq!(client.read(0, 4096, 0), [0; 4096]);
    }
}

#[test]
fn a_network_has_its_share_of_the_clients_of_all_threads() {
    let world = World::new(&Plan { threads: 2, clients_max: 32, ..Plan::default() });
    let of_network = || Client::connect_from([127, 0, 0, 1], world.address);
    // Of 32 connections, eight are for others, two for each of them.
    let mut crowd: Vec<_> = (0..24).map(|_| of_network().go("1", Form::Simple)).collect();
    let mut others: Vec<_> = (0..2).map(|_| world.stranger().go("1", Form::Simple)).collect();
    // Also when the other thread is the next.
    assert!((0..2).all(|_| of_network().is_closed() && world.stranger().is_closed()));
    for client in &mut others {
        assert_eq!(client.read(0, 4096, 0), [0; 4096]);
    }
    assert_eq!(crowd[0].read(0, 4096, 0), [0; 4096], "it is served on");
    crowd.truncate(20);
    wait_until("one is served", || of_network().stream.read(&mut [0; 18]).is_ok_and(|count| count > 0));
}

#[test]
fn a_crowd_of_strangers_with_many_loopback_addresses_displaces_no_other() {
    let world = World::new(&Plan::default());
    let mut first = world.stranger();
    first.greet();
    let greeted = |number: usize| {
        let [high, low] = (number as u16).to_be_bytes();
        let mut client = Client::connect_from([127, 1, high, low], world.address);
        client.greet();
        client
    };
    let crowd: Vec<_> = (1..CLIENTS_PER_THREAD_MAX + 8).map(greeted).collect();
    assert_eq!(first.choose("1", Form::Simple).read(0, 4096, 0), [0; 4096]);
    drop(crowd);
}

#[test]
fn a_network_whose_clients_have_chosen_disks_leaves_connections_to_others() {
    let world = World::new(&Plan::default());
    let of_network = || Client::connect_from([127, 0, 0, 1], world.address);
    let share = CLIENTS_PER_THREAD_MAX - CLIENTS_RESERVE;
    let mut crowd: Vec<_> = (0..share).map(|_| of_network().go("1", Form::Simple)).collect();
    assert!(of_network().is_closed());
    // A user of this machine, beside it.
    let mut others: Vec<_> = (0..4).map(|_| world.stranger().go("1", Form::Simple)).collect();
    for client in &mut others {
        assert_eq!(client.read(0, 4096, 0), [0; 4096]);
    }
    assert_eq!(crowd[0].read(0, 4096, 0), [0; 4096], "it is served on");
    // Those that go leave their places to their network.
    crowd.truncate(share - 5);
    wait_until("one is served", || of_network().stream.read(&mut [0; 18]).is_ok_and(|count| count > 0));
}
