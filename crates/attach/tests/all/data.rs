//! What is written is read again, in every form, at every length.

use std::collections::BTreeMap;

use crate::client::{
    BLOCK_STATUS, CACHE, DF, DISCONNECT, FLUSH, FORMS, FUA, Form, INVALID, NO_HOLE, NO_SPACE, NOT_PERMITTED,
    READ, TRIM, WRITE, WRITE_ZEROES,
};
use crate::world::{Plan, SIZE, World};

/// Bytes that differ from block to block and from seed to seed.
fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let words = (0..length as u64 / 8).map(|at| (at ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    words.flat_map(u64::to_le_bytes).collect()
}

#[test]
fn bytes_come_back_in_every_form_and_length() {
    let world = World::new(&Plan::default());
    for (seed, form) in FORMS.into_iter().enumerate() {
        let mut client = world.stranger().go("1", form);
        for (at, length) in
            [(0, 4096), (4096, 12_288), (1 << 20, 256 << 10), (3 << 20, 260 << 10), (8 << 20, 32 << 20)]
        {
            let data = pattern(length, seed as u64 * 77 + at);
            assert_eq!(client.write(at, &data, if length == 4096 { FUA } else { 0 }), 0);
            assert!(client.read(at, length, 0) == data, "{form:?}: {length} bytes at {at}");
            if form != Form::Simple {
                assert!(client.read(at, length, DF) == data, "{form:?}: {length} bytes at {at} as one");
            }
        }
        assert_eq!(client.ask(FLUSH, 0, (0, 0)), 0);
        assert_eq!(client.ask(CACHE, 0, (0, 4096)), 0);
    }
}

#[test]
fn what_cannot_be_done_is_refused_and_the_next_is_done() {
    let world = World::new(&Plan::default());
    for form in FORMS {
        let mut client = world.stranger().go("1", form);
        let data = pattern(8192, 1);
        assert_eq!(client.write(512, &data, 0), INVALID);
        assert_eq!(client.write(SIZE - 4096, &data, 0), NO_SPACE);
        assert_eq!(client.write(0, &data[..512], 0), INVALID);
        assert_eq!(client.ask(READ, 0, (512, 4096)), INVALID);
        assert_eq!(client.ask(READ, 0, (SIZE, 4096)), INVALID);
        assert_eq!(client.ask(TRIM, 0, (SIZE, 4096)), INVALID);
        assert_eq!(client.ask(99, 0, (0, 4096)), INVALID);
        assert_eq!(client.read(SIZE - 8192, 8192, 0), vec![0; 8192]);
        let status = client.ask(BLOCK_STATUS, 0, (0, 4096));
        assert_eq!(status, if form == Form::Simple { INVALID } else { 0 });
    }
}

#[test]
fn a_read_only_disk_is_read() {
    let world = World::new(&Plan { is_read_only: true, ..Plan::default() });
    let mut client = world.stranger().go("1", Form::Structured);
    assert_eq!(client.write(0, &[1; 4096], 0), NOT_PERMITTED);
    assert_eq!(client.ask(TRIM, 0, (0, 4096)), NOT_PERMITTED);
    assert_eq!(client.read(0, 4096, 0), [0; 4096]);
}

#[test]
fn zeroes_and_trims_of_any_length_leave_zeroes() {
    let world = World::new(&Plan::default());
    for form in FORMS {
        let mut client = world.stranger().go("1", form);
        for (kind, flags) in [(WRITE_ZEROES, 0), (WRITE_ZEROES, NO_HOLE | FUA), (TRIM, 0), (TRIM, FUA)] {
            for at in [0, 40 << 20, SIZE - 4096] {
                assert_eq!(client.write(at, &[7; 4096], 0), 0);
            }
            assert_eq!(client.ask(kind, flags, (0, SIZE)), 0, "{form:?} {kind} {flags}");
            for at in [0, 40 << 20, SIZE - 4096] {
                assert_eq!(client.read(at, 4096, 0), [0; 4096], "{form:?} {kind} {flags}");
            }
        }
    }
}

#[test]
fn all_blocks_are_said_to_hold_data() {
    let world = World::new(&Plan::default());
    let mut client = world.stranger().go("1", Form::Extended);
    let cookie = client.send(BLOCK_STATUS, 0, (4096, SIZE - 4096), &[]);
    let status = client.answer(cookie, 0, 0).status;
    let length = (SIZE - 4096).to_be_bytes();
    assert_eq!(status, [&[0, 0, 0, 1, 0, 0, 0, 1][..], &length, &[0; 8]].concat());
}

#[test]
fn holes_of_a_file_are_holes_of_its_disk() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(&Plan { file: Some(folder.path().join("disk")), ..Plan::default() });
    let data = (16 << 20, 1 << 20);
    for form in [Form::Structured, Form::Extended] {
        let mut client = world.stranger().go("1", form);
        assert_eq!(client.write(data.0, &pattern(data.1, 3), 0), 0);
        let (mut at, mut found) = (0, Vec::new());
        while at < SIZE {
            let cookie = client.send(BLOCK_STATUS, 0, (at, SIZE - at), &[]);
            let status = client.answer(cookie, 0, 0).status;
            let number = |bytes: &[u8]| bytes.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
            let (length, state) = match form {
                Form::Extended => (number(&status[8..16]), number(&status[16..24])),
                _ => (number(&status[4..8]), number(&status[8..12])),
            };
            assert!(length > 0 && length.is_multiple_of(4096), "{status:?}");
            match found.last_mut() {
                Some((_, end, known)) if *known == state => *end = at + length,
                _ => found.push((at, at + length, state)),
            }
            at += length;
        }
        let end = data.0 + data.1 as u64;
        // A hole that reads as zeroes is 3, and data 0.
        assert_eq!(found, [(0, data.0, 3), (data.0, end, 0), (end, SIZE, 3)], "{form:?}");
    }
}

#[test]
fn many_requests_are_answered_once_each() {
    let world = World::new(&Plan { block_bytes: 512, ..Plan::default() });
    for form in FORMS {
        let mut client = world.stranger().go("2", form);
        // More than a client's, and a queue's, share at a time.
        let mut outstanding = BTreeMap::new();
        let mut sender = client.second_end();
        for number in 0..600u64 {
            let cookie = sender.send(WRITE, 0, (number * 512, 512), &[number as u8; 512]);
            outstanding.insert(cookie, number);
        }
        while !outstanding.is_empty() {
            let chunk = client.chunk(0);
            assert!(chunk.is_last && chunk.error == 0);
            outstanding.remove(&chunk.cookie).expect("it was asked, and is answered once");
        }
        for number in 0..600u64 {
            outstanding.insert(sender.send(READ, 0, (number * 512, 512), &[]), number);
        }
        while !outstanding.is_empty() {
            let chunk = client.chunk(512);
            let number = outstanding.remove(&chunk.cookie).expect("it was asked, and is answered once");
            let data = &chunk.payload[chunk.payload.len() - 512..];
            assert_eq!(data, [number as u8; 512]);
        }
    }
}

#[test]
fn large_reads_as_one_share_a_client_s_buffers() {
    let world = World::new(&Plan::default());
    let mut client = world.stranger().go("1", Form::Structured);
    let length: u64 = 30 << 20;
    let data = pattern(4096, 5);
    assert_eq!(client.write(length, &data, 0), 0);
    // Together more than a client may hold, all of them in pieces.
    let mut positions: BTreeMap<u64, usize> =
        [0, 1, 2, 3].map(|at| (client.send(READ, DF, (length - at * 4096, length), &[]), at as usize)).into();
    while !positions.is_empty() {
        let chunk = client.chunk(0);
        let at = positions.remove(&chunk.cookie).expect("it was asked, and is answered once");
        assert_eq!((chunk.is_last, chunk.kind, chunk.payload.len() as u64), (true, 1, length + 8));
        assert_eq!(chunk.payload[8 + at * 4096..][..4096], data);
    }
}

#[test]
fn what_was_asked_before_the_end_is_answered() {
    let world = World::new(&Plan::default());
    let mut client = world.stranger().go("1", Form::Simple);
    let write = client.send(WRITE, 0, (0, 4096), &[3; 4096]);
    let read = client.send(READ, 0, (8192, 4096), &[]);
    client.send(DISCONNECT, 0, (0, 0), &[]);
    let first = client.chunk(4096).cookie;
    assert!(first == read || first == write);
    assert!(client.is_closed());
    assert_eq!(world.stranger().go("1", Form::Simple).read(0, 4096, 0), [3; 4096]);
}
