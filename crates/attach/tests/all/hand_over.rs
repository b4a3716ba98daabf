//! Servers whose clients another server goes on with: what clients see of it, in whatever they are in the middle of, and what is
//! refused.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use attach::limits::HANDED_RECEIVED_INLINE_BYTES_MAX;
use attach::{HandedIncoming, HandedServer, HandedStage, HandedVhostServer, Holder, ServerTls};
use engine::target::WriteProtection;
use prerequisite::{patience, wait_for, wait_until};
use virtio_bindings::virtio_blk as blk;

use crate::client::{BLOCK_STATUS, CACHE, FLUSH, FORMS, Form, READ, WRITE};
use crate::guest::{DATA, Guest};
use crate::tls::Authority;
use crate::world::{Plan, VhostWorld, World};

const OK: u8 = blk::VIRTIO_BLK_S_OK as u8;
/// The message that asks for features (VHOST_USER_GET_FEATURES).
const GET_FEATURES: u32 = 1;

/// State that is handed over, parsed from its encoding.
fn frozen(holder: &Holder) -> (HandedServer, Vec<OwnedFd>) {
    // On a busy machine it may take longer than an upgrade may, and the server serves on.
    let (handed, sockets) = wait_for("it comes to rest", || holder.freeze().ok());
    let text = serde_json::to_string(&handed).expect("it can be written");
    let read: HandedServer = serde_json::from_str(&text).expect("it can be read");
    assert_eq!(read, handed);
    (read, sockets)
}

/// State that is handed over once the only client is in the middle of a write. A busy machine may
/// read its request late.
fn frozen_within_a_write(holder: &Holder) -> (HandedServer, Vec<OwnedFd>) {
    wait_for("its write begins", || {
        let (handed, sockets) = frozen(holder);
        if let HandedStage::Transmission { incoming: HandedIncoming::Write(_), .. } = handed.clients[0].stage
        {
            return Some((handed, sockets));
        }
        holder.thaw(false);
        None
    })
}

#[test]
fn a_begun_write_goes_on_in_a_file() {
    let mut world = World::new(&Plan::default());
    let mut client = world.stranger().go("1", Form::Simple);
    let data = pattern(256 << 10, 9);
    let (first, rest) = data.split_at(100 << 10);
    let cookie = client.send(WRITE, 0, (0, data.len() as u64), first);
    let old = world.server.take().expect("a server");
    let (mut handed, sockets) = wait_for("much of the write has come", || {
        let (handed, sockets) = frozen(&old.holder());
        let has_come = handed.clients[0].received.len() > HANDED_RECEIVED_INLINE_BYTES_MAX;
        if !has_come {
            old.holder().thaw(false);
        }
        has_come.then_some((handed, sockets))
    });
    let descriptors = handed.received_into_files(sockets).expect("a file");
    assert_eq!(descriptors.len(), 2, "its socket, and what has come");
    let text = serde_json::to_string(&handed).expect("it can be written");
    assert!(text.len() < 1024, "{text}");
    let mut too_much: HandedServer = serde_json::from_str(&text).expect("it can be read");
    assert_eq!(too_much, handed);
    too_much.clients[0].received_bytes = 64 << 20;
    let copies = descriptors.iter().map(|one| one.try_clone().expect("a descriptor")).collect();
    let failed = world.next(None).holder().adopt(too_much, copies).expect("as many descriptors");
    assert!(failed[0].1.contains("than a process keeps"), "{failed:?}");
    let next = world.next(None);
    assert_eq!(next.holder().adopt(handed, descriptors).expect("it is one of a server"), []);
    old.holder().leave();
    drop(old);
    next.holder().thaw(false);
    world.server = Some(next);
    client.stream.write_all(rest).expect("the rest");
    assert_eq!(client.answer(cookie, 0, 0).error, 0);
    assert_eq!(client.read(0, data.len(), 0), data);
}

/// Another server goes on. Who it could not take is named.
fn pass_on(world: &mut World, tls: Option<ServerTls>) -> Vec<(String, String)> {
    let next = world.next(tls);
    let old = world.server.take().expect("a server");
    let (handed, sockets) = frozen(&old.holder());
    let failed = next.holder().adopt(handed, sockets).expect("it is one of a server");
    old.holder().leave();
    drop(old);
    next.holder().thaw(false);
    world.server = Some(next);
    failed
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at >> 9) as u8 ^ at as u8 ^ seed).collect()
}

#[test]
fn clients_in_the_middle_of_anything_notice_nothing() {
    for threads in [1, 2] {
        let mut world = World::new(&Plan { threads, ..Plan::default() });
        for (seed, form) in FORMS.into_iter().enumerate() {
            let seed = seed as u8;
            let mut greeted = world.stranger();
            greeted.greet();
            let mut idle = world.stranger().go("2", form);
            let mut writer = world.stranger().go("1", form);
            let data = pattern(3 << 20, seed);
            let length = data.len() as u64;
            // Half of a request, then a write of which some pieces and a part of one have come.
            let mut second = writer.second_end();
            let cookie = second.send(WRITE, 0, (4096, length), &data[..(1 << 20) + 1234]);
            assert_eq!(pass_on(&mut world, None), []);
            second.stream.write_all(&data[(1 << 20) + 1234..(2 << 20) + 77]).expect("a piece");
            assert_eq!(pass_on(&mut world, None), []);
            second.stream.write_all(&data[(2 << 20) + 77..]).expect("the rest");
            assert_eq!(writer.answer(cookie, 4096, 0).error, 0);
            assert!(writer.read(4096, 3 << 20, 0) == data, "{form:?}");
            idle.write(0, &pattern(8192, seed), 0);
            assert_eq!(pass_on(&mut world, None), []);
            assert!(idle.read(0, 8192, 0) == pattern(8192, seed));
            assert_eq!(greeted.choose("1", form).ask(FLUSH, 0, (0, 0)), 0);
            assert_eq!(world.stranger().go("1", form).ask(FLUSH, 0, (0, 0)), 0);
        }
    }
}

#[test]
fn a_user_keeps_more_clients_than_its_share_over_an_upgrade_and_gets_no_further_one() {
    let mut world = World::new(&Plan { threads: 2, ..Plan::default() });
    let mut clients: Vec<_> = (0..7).map(|_| world.stranger().go("1", Form::Simple)).collect();
    // Its share of the next server is six.
    world.clients_max = 8;
    assert_eq!(pass_on(&mut world, None), []);
    for client in &mut clients {
        assert_eq!(client.read(0, 4096, 0), [0; 4096]);
    }
    assert!(world.stranger().is_closed(), "a connection is free for others");
    clients.truncate(5);
    wait_until("one is served", || world.stranger().stream.read(&mut [0; 18]).is_ok_and(|count| count > 0));
}

#[test]
fn unread_answers_are_read_from_the_next_server() {
    let mut world = World::new(&Plan::default());
    let mut client = world.stranger().go("1", Form::Simple);
    let data = pattern(30 << 20, 3);
    assert_eq!(client.write(0, &data, 0), 0);
    let cookie = client.send(READ, 0, (0, 30 << 20), &[]);
    assert_eq!(pass_on(&mut world, None), []);
    assert_eq!(pass_on(&mut world, None), []);
    assert!(client.answer(cookie, 0, 30 << 20).pieces == [(0, data.clone())]);
    assert!(client.read(1 << 20, 4096, 0) == data[1 << 20..][..4096]);
}

#[test]
fn questions_about_holes_that_a_target_does_not_answer_do_not_block_a_hand_over() {
    let folder = tempfile::tempdir().unwrap();
    let file = Some(folder.path().join("disk"));
    let world = World::new(&Plan { file, is_relayed: true, ..Plan::default() });
    let mut client = world.stranger().go("1", Form::Structured);
    let hole = |client: &mut crate::client::Client| {
        let cookie = client.send(BLOCK_STATUS, 0, (0, 4096), &[]);
        client.answer(cookie, 0, 0).status[8..].to_vec()
    };
    assert_eq!(hole(&mut client), [0, 0, 0, 3], "the file is empty");
    let relay = world.relay.as_ref().expect("a relay");
    relay.hold(true);
    let cookie = client.send(BLOCK_STATUS, 0, (0, 4096), &[]);
    // The reply shows that the question, which came before, is known.
    let cached = client.send(CACHE, 0, (0, 4096), &[]);
    assert_eq!(client.chunk(0).cookie, cached);
    let server = world.server.as_ref().expect("a server");
    let (handed, _sockets) = server.holder().freeze().expect("it comes to rest");
    assert_eq!(handed.clients.len(), 1);
    server.holder().thaw(false);
    assert_eq!(client.answer(cookie, 0, 0).status[8..], [0; 4], "what is not known is data");
    relay.hold(false);
    // The late answer is to no question.
    assert_eq!(hole(&mut client), [0, 0, 0, 3]);
    assert_eq!(client.ask(CACHE, 0, (0, 4096)), 0);
}

#[test]
fn a_request_that_waits_for_buffers_of_unread_replies_is_answered_before_a_hand_over() {
    let mut world = World::new(&Plan { threads: 2, ..Plan::default() });
    // Threads get clients in turn. The replies of these four, which share a thread, have all buffers for first requests of a user.
    let length = nbd::limits::PAYLOAD_BYTES_MAX as usize;
    let mut of_other_thread = Vec::new();
    let mut lazy = Vec::new();
    for _ in 0..4 {
        let mut client = world.stranger().go("1", Form::Simple);
        client.send(READ, 0, (0, length as u64), &[]);
        client.bytes(16);
        lazy.push(client);
        of_other_thread.push(world.stranger());
    }
    let mut waiting = world.stranger().go("1", Form::Simple);
    let cookie = waiting.send(READ, 0, (0, 8 << 20), &[]);
    // The reply shows that the read, which came before, is known.
    assert_eq!(waiting.ask(CACHE, 0, (0, 4096)), 0);
    assert_eq!(pass_on(&mut world, None), []);
    assert!(waiting.answer(cookie, 0, 8 << 20).pieces == [(0, vec![0; 8 << 20])]);
    let is_closed =
        |client: &mut crate::client::Client| client.stream.read_exact(&mut vec![0; length]).is_err();
    let closed = lazy.iter_mut().map(is_closed).filter(|is_closed| *is_closed).count();
    assert_eq!(closed, 1, "no more are closed than is needed");
}

#[test]
fn a_stream_by_tls_goes_on_with_its_keys() {
    let authority = Authority::new();
    let mut world = World::with_tls(&Plan::default(), Some(authority.server(false)));
    let mut client = world.stranger().secure(authority.client(None)).choose("1", Form::Extended);
    for round in 0..3 {
        let data = pattern(300 << 10, round);
        assert_eq!(client.write(0, &data, 0), 0);
        assert_eq!(pass_on(&mut world, Some(authority.server(false))), []);
        assert!(client.read(0, 300 << 10, 0) == data, "round {round}");
    }
    // One that does without it is not let in by the back door.
    let mut open = World::new(&Plan::default());
    let mut client = open.stranger().go("1", Form::Simple);
    let failed = pass_on(&mut open, Some(authority.server(false)));
    assert!(failed.len() == 1 && failed[0].1.contains("TLS"), "{failed:?}");
    assert!(client.is_closed());
}

#[test]
fn a_server_that_keeps_its_clients_serves_on() {
    let world = World::new(&Plan { threads: 2, ..Plan::default() });
    let mut clients: Vec<_> = (0..3).map(|_| world.stranger().go("1", Form::Structured)).collect();
    let server = world.server.as_ref().expect("a server");
    for is_disowned in [false, false, true] {
        let (handed, sockets) = frozen(&server.holder());
        // Or one more, which has just gone.
        assert!(handed.clients.len() >= 3 && handed.clients.len() == sockets.len());
        // What comes meanwhile waits.
        let cookies: Vec<u64> = clients.iter_mut().map(|client| client.send(FLUSH, 0, (0, 0), &[])).collect();
        let waiting = world.stranger();
        server.holder().thaw(is_disowned);
        for (client, cookie) in clients.iter_mut().zip(cookies) {
            match is_disowned {
                false => assert_eq!(client.answer(cookie, 0, 0).error, 0),
                true => assert!(client.is_closed()),
            }
        }
        assert_eq!(waiting.go("2", Form::Simple).ask(FLUSH, 0, (0, 0)), 0);
    }
}

#[test]
fn what_no_server_hands_over_is_refused_and_named() {
    let world = World::new(&Plan::default());
    let mut client = world.stranger().go("1", Form::Simple);
    client.send(WRITE, 0, (4096, 8192), &[7; 4096]);
    let (handed, sockets) = frozen_within_a_write(&world.server.as_ref().expect("a server").holder());
    assert!(world.next(None).holder().adopt(handed.clone(), Vec::new()).is_err());
    let written = |change: &dyn Fn(&mut HandedServer)| {
        let mut changed = handed.clone();
        change(&mut changed);
        let sockets = sockets.iter().map(|socket| socket.try_clone().expect("a descriptor")).collect();
        let failed = world.next(None).holder().adopt(changed, sockets).expect("as many sockets as clients");
        failed.into_iter().map(|(_, reason)| reason).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(written(&|_| ()), "");
    assert!(written(&|server| server.disks[0].block_bytes = 512).contains("other blocks"));
    assert!(written(&|server| server.disks.clear()).contains("not served by the new"));
    assert!(
        written(&|server| server.clients[0].received = vec![0; 64 << 20]).contains("than a process keeps")
    );
    let write = |server: &mut HandedServer, change: &dyn Fn(&mut attach::HandedWrite)| {
        let HandedStage::Transmission { incoming: HandedIncoming::Write(write), .. } =
            &mut server.clients[0].stage
        else {
            panic!("it is in the middle of a write")
        };
        change(write);
    };
    for change in [
        |write: &mut attach::HandedWrite| write.written = write.length,
        |write: &mut attach::HandedWrite| write.written = 17,
        |write: &mut attach::HandedWrite| write.length = !4095,
        |write: &mut attach::HandedWrite| write.offset = !4095,
    ] {
        let refused = written(&|server| write(server, &change));
        assert!(refused.contains("not one that was begun"), "{refused}");
    }
}

/// Numbers that follow from a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// The text with some of its numbers and letters replaced.
fn damaged(text: &str, random: &mut Random) -> String {
    const NUMBERS: [&str; 8] =
        ["0", "1", "65535", "65536", "4294967295", "4294967296", "18446744073709551615", "null"];
    let mut text = text.to_owned();
    for _ in 0..1 + random.below(3) {
        let at = random.below(text.len());
        let from = text[..at].rfind(|letter: char| !letter.is_ascii_digit()).map_or(0, |before| before + 1);
        let digits = text[from..].chars().take_while(char::is_ascii_digit).count();
        if digits > 0 {
            text.replace_range(from..from + digits, NUMBERS[random.below(NUMBERS.len())]);
        } else if text.is_char_boundary(at) && text.is_char_boundary(at + 1) {
            text.replace_range(at..=at, ["a", "0", "\"", "}", "f"][random.below(5)]);
        }
    }
    text
}

/// Whatever is in a hand-over, it is refused or served, and others are served.
#[test]
fn damaged_hand_overs_end_nothing_but_their_clients() {
    let mut world = World::new(&Plan::default());
    let mut client = world.stranger().go("1", Form::Structured);
    client.send(WRITE, 0, (4096, 65536), &[7; 9000]);
    world.stranger().greet();
    let (handed, sockets) = frozen(&world.server.as_ref().expect("a server").holder());
    let text = serde_json::to_string(&handed).expect("it can be written");
    let (next, mut random, mut read) = (world.next(None), Random(0x5e1_7ed6e), 0);
    for _ in 0..3000 {
        let Ok(changed) = serde_json::from_str::<HandedServer>(&damaged(&text, &mut random)) else {
            continue;
        };
        let own = sockets.iter().map(|_| UnixStream::pair().expect("two sockets").0.into()).collect();
        read += usize::from(next.holder().adopt(changed, own).is_ok());
        next.holder().thaw(true);
        next.holder().freeze().expect("nothing is under way");
    }
    assert!(read > 300, "{read}");
    let failed = next.holder().adopt(handed, sockets).expect("that of a server");
    assert!(failed.is_empty() && !next.has_failed(), "{failed:?}");
    world.server.take().expect("a server").holder().leave();
    next.holder().thaw(false);
    client.stream.write_all(&[7; 65536 - 9000]).expect("the rest");
    assert_eq!(client.chunk(0).error, 0);
    assert!(client.read(4096, 65536, 0) == [7; 65536]);
}

/// The same of front ends.
#[test]
fn damaged_front_ends_end_nothing_but_their_guests() {
    let world = VhostWorld::new(&Plan::default());
    let _guest = Guest::new(&world.sockets[0], 2);
    let (handed, descriptors) =
        world.server.as_ref().expect("a server").holder().freeze().expect("it comes to rest");
    let text = serde_json::to_string(&handed).expect("it can be written");
    let (next, mut random, mut read) = (world.next(), Random(0x5e1_7ed6e), 0);
    for _ in 0..300 {
        let Ok(changed) = serde_json::from_str::<HandedVhostServer>(&damaged(&text, &mut random)) else {
            continue;
        };
        let own = descriptors.iter().map(|one| one.try_clone().expect("a descriptor")).collect();
        read += usize::from(next.holder().adopt(changed, own).is_ok());
    }
    assert!(read > 30 && !next.has_failed(), "{read}");
}

/// Another server of front ends goes on.
fn pass_guests_on(world: &mut VhostWorld) -> Vec<(String, String)> {
    let next = world.next();
    let old = world.server.take().expect("a server");
    let (handed, descriptors) = old.holder().freeze().expect("it comes to rest");
    let text = serde_json::to_string(&handed).expect("it can be written");
    let read: HandedVhostServer = serde_json::from_str(&text).expect("it can be read");
    assert_eq!(read, handed);
    let failed = next.holder().adopt(read, descriptors).expect("it is one of a server");
    old.holder().leave();
    drop(old);
    next.holder().thaw(false);
    world.server = Some(next);
    failed
}

#[test]
fn a_guest_notices_nothing() {
    for threads in [1, 2] {
        let mut world = VhostWorld::new(&Plan { threads, ..Plan::default() });
        let mut guest = Guest::new(&world.sockets[0], 2);
        for round in 0..3_u8 {
            guest.fill(DATA, &pattern(64 << 10, round));
            // Those are kicked before, and answered whenever.
            for at in 0..8_u16 {
                let sector = u64::from(at) * 16;
                guest.ask(1, at * 4, blk::VIRTIO_BLK_T_OUT, sector, (DATA + sector * 512, 8192));
            }
            guest.kick(1);
            assert_eq!(pass_guests_on(&mut world), []);
            (0..8).for_each(|_| assert!(guest.try_used(1, patience()).is_some()));
            assert!((0..8).all(|at| guest.status(1, at * 4) == OK));
            guest.fill(DATA, &[0; 64 << 10]);
            assert_eq!(guest.does(blk::VIRTIO_BLK_T_IN, 0, (DATA, 64 << 10)), (OK, (64 << 10) + 1));
            assert!(guest.bytes(DATA, 64 << 10) == pattern(64 << 10, round), "round {round}");
            // What is asked for by messages is answered, with acknowledgements, too.
            guest.config();
            guest.start(2 + usize::from(round));
        }
        let mut other = Guest::new(&world.sockets[1], 1);
        assert!(other.is_served() && guest.is_served());
    }
}

#[test]
fn a_guest_keeps_the_features_of_a_disk_that_has_changed() {
    let mut world = VhostWorld::new(&Plan { protection: WriteProtection::On, ..Plan::default() });
    let mut guest = Guest::new(&world.sockets[0], 1);
    assert!(guest.features & 1 << blk::VIRTIO_BLK_F_RO != 0);
    world.protect(WriteProtection::None);
    assert_eq!(pass_guests_on(&mut world), []);
    assert!(guest.is_served());
}

#[test]
fn a_disk_that_is_protected_during_an_upgrade_is_written_afterwards() {
    let mut guests = VhostWorld::new(&Plan::default());
    let mut guest = Guest::new(&guests.sockets[0], 1);
    guests.protect(WriteProtection::On);
    assert_eq!(pass_guests_on(&mut guests), [], "its discards are not those of a protected disk");
    assert_ne!(guest.does(blk::VIRTIO_BLK_T_OUT, 0, (DATA, 4096)).0, OK);
    guests.protect(WriteProtection::None);
    assert_eq!(guest.does(blk::VIRTIO_BLK_T_OUT, 0, (DATA, 4096)), (OK, 1));
    let mut clients = World::new(&Plan::default());
    let mut client = clients.stranger().go("1", Form::Simple);
    clients.protect(WriteProtection::On);
    assert_eq!(pass_on(&mut clients, None), []);
    let mut write = || {
        let cookie = client.send(WRITE, 0, (0, 4096), &[7; 4096]);
        client.answer(cookie, 0, 0).error
    };
    assert_ne!(write(), 0);
    clients.protect(WriteProtection::None);
    assert_eq!(write(), 0);
}

#[test]
fn guests_of_a_server_that_keeps_them_are_served_on() {
    let world = VhostWorld::new(&Plan::default());
    let mut guest = Guest::new(&world.sockets[0], 1);
    let server = world.server.as_ref().expect("a server");
    for _ in 0..3 {
        let (handed, _descriptors) = server.holder().freeze().expect("it comes to rest");
        assert!(handed.sockets[0].front_end.is_some() && handed.sockets[1].front_end.is_none());
        guest.ask(0, 0, blk::VIRTIO_BLK_T_FLUSH, 0, (0, 0));
        guest.kick(0);
        server.holder().thaw(false);
        guest.used(0);
        assert_eq!(guest.status(0, 0), OK);
    }
    let _frozen = server.holder().freeze().expect("it comes to rest");
    server.holder().thaw(true);
    assert!(guest.front_end_is_gone());
    assert!(Guest::new(&world.sockets[0], 1).is_served());
}

#[test]
fn half_a_message_is_heard_by_the_next_server() {
    let mut world = VhostWorld::new(&Plan::default());
    let mut guest = Guest::new(&world.sockets[1], 1);
    let mut half = UnixStream::connect(&world.sockets[0]).expect("a socket");
    half.set_read_timeout(Some(patience())).expect("it can have one");
    let message = |request: u32| [request, 1, 0].into_iter().flat_map(u32::to_ne_bytes).collect::<Vec<u8>>();
    // The reply shows that the front end is heard.
    half.write_all(&message(GET_FEATURES)).expect("a message");
    half.read_exact(&mut [0; 20]).expect("features");
    half.write_all(&message(GET_FEATURES)[..4]).expect("a part of one");
    assert_eq!(pass_guests_on(&mut world), []);
    half.write_all(&message(GET_FEATURES)[4..]).expect("the rest");
    half.read_exact(&mut [0; 20]).expect("features");
    assert!(guest.is_served());
}

#[test]
fn a_descriptor_that_is_not_what_it_is_said_to_be_is_refused_and_named() {
    let world = VhostWorld::new(&Plan::default());
    let _guest = Guest::new(&world.sockets[0], 1);
    let (handed, descriptors) = world.server.as_ref().expect("a server").holder().freeze().expect("a rest");
    let count = descriptors.len();
    for at in 0..count {
        let mut changed: Vec<OwnedFd> =
            descriptors.iter().map(|one| one.try_clone().expect("a descriptor")).collect();
        let (pipe, _other) = std::io::pipe().expect("a pipe");
        changed[at] = pipe.into();
        let next = world.next();
        let failed = next.holder().adopt(handed.clone(), changed).expect("as many as before");
        // The connection may be any socket: its end is seen when it is heard.
        assert!(failed.len() == 1 || at == 0, "descriptor {at} of {count}: {failed:?}");
    }
    let (one, _other) = UnixStream::pair().expect("two sockets");
    assert!(world.next().holder().adopt(handed, vec![one.into()]).is_err());
}
