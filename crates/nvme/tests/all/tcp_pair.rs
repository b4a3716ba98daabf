//! Whole exchanges of a host and a controller in memory: reads, writes, damaged data and terminations, with
//! all digests and the bytes cut anywhere. Single PDUs are tested in `tcp_properties`, engines and sockets
//! elsewhere.

use crate::pair::{BLOCK, BOTH, End, Ending, Pair, Random, SLOT_BLOCKS, SLOT_BYTES, SLOTS};
use nvme::io::IoCommand;
use nvme::tcp::{DecodeError, Digests, FatalError, Initialize, PduType};
use nvme::{CompletionEntry, Status};

/// The seeds of a test: some new ones, or the one to be replayed.
fn seeds() -> Vec<u64> {
    use std::hash::{BuildHasher, RandomState};
    match std::env::var("TCP_PAIR_SEED") {
        Ok(seed) => vec![seed.parse().expect("a number")],
        Err(_) => (0..8_u8).map(|index| RandomState::new().hash_one(index)).collect(),
    }
}

fn all_digests() -> [Digests; 4] {
    [(false, false), (true, false), (false, true), (true, true)]
        .map(|(header, data)| Digests { header, data })
}

fn write(start: u64, blocks: u32) -> IoCommand {
    IoCommand::Write { start, blocks, force_unit_access: false }
}

fn read(start: u64, blocks: u32) -> IoCommand {
    IoCommand::Read { start, blocks, force_unit_access: false }
}

/// Submits a random command to `slot`, and gives where its data belongs and what it should be.
fn submit_any(pair: &mut Pair, slot: u16, stored: &[u8]) -> (usize, Vec<u8>) {
    let kind = pair.random.up_to(4);
    let blocks = pair.random.up_to(if kind == 1 { 8 } else { SLOT_BLOCKS });
    let start =
        u64::from(slot) * u64::from(SLOT_BLOCKS) + u64::from(pair.random.up_to(SLOT_BLOCKS - blocks + 1) - 1);
    let (at, length) = (start as usize * BLOCK, blocks as usize * BLOCK);
    match kind {
        1 | 2 => {
            let data = pair.random.bytes(length);
            pair.host.submit(slot, write(start, blocks), data.clone(), kind == 1);
            (at, data)
        }
        3 => {
            pair.host.submit(slot, read(start, blocks), vec![0; length], false);
            (at, stored[at..at + length].to_vec())
        }
        _ => {
            pair.host.submit(slot, IoCommand::Flush, Vec::new(), false);
            (0, Vec::new())
        }
    }
}

fn carry_out_commands(seed: u64, digests: Digests) {
    carry_out_commands_in(Pair::open(seed, digests));
}

fn carry_out_commands_in(mut pair: Pair) {
    let mut stored = pair.controller.stored.clone();
    let mut waiting: [Option<(usize, Vec<u8>)>; SLOTS as usize] = Default::default();
    let mut left = 60;
    for _ in 0..10_000_000 {
        let slot = pair.random.up_to(u32::from(SLOTS)) as u16 - 1;
        let idle = waiting[usize::from(slot)].is_none() && pair.host.end.slot(slot).sends == 0;
        if left > 0 && idle && pair.random.one_in(4) {
            left -= 1;
            waiting[usize::from(slot)] = Some(submit_any(&mut pair, slot, &stored));
        }
        pair.step();
        for (slot, status, damaged) in std::mem::take(&mut pair.host.completions) {
            let (at, data) = waiting[usize::from(slot)].take().expect("the command was outstanding");
            assert_eq!((status, damaged), (Status::SUCCESS, false));
            assert!(pair.host.end.slot(slot).buffer == data, "other data in slot {slot}");
            stored[at..at + data.len()].copy_from_slice(&data);
        }
        if left == 0 && waiting.iter().all(Option::is_none) {
            break;
        }
    }
    pair.run();
    assert!(waiting.iter().all(Option::is_none), "commands without an answer");
    assert!(pair.controller.stored == stored, "other data stored");
    let unsent = |end: &End| end.slots.iter().map(|slot| slot.sends).sum::<u32>();
    assert_eq!((unsent(&pair.host.end), unsent(&pair.controller.end)), (0, 0));
    assert_eq!((pair.host.end.ending, pair.controller.end.ending), (None, None));
}

#[test]
fn commands_are_carried_out_with_any_digests() {
    for seed in seeds() {
        for digests in all_digests() {
            carry_out_commands(seed, digests);
        }
    }
}

#[test]
fn commands_are_carried_out_with_any_alignment() {
    for seed in seeds() {
        for digests in all_digests() {
            let mut random = Random::new(seed);
            let [host, controller] = [(); 2].map(|()| random.up_to(32) as u8 - 1);
            carry_out_commands_in(Pair::open_aligned(seed, digests, (host, controller)));
        }
    }
}

#[test]
fn a_long_write_is_split_as_the_controller_allows() {
    for seed in seeds() {
        for digests in all_digests() {
            let mut pair = Pair::open(seed, digests);
            pair.controller.data_to_controller_max = 4096;
            pair.host.negotiated.as_mut().expect("negotiated").data_to_controller_max = 4096;
            let data = pair.random.bytes(SLOT_BYTES);
            assert_eq!(pair.execute(write(0, SLOT_BLOCKS), data.clone(), false), (Status::SUCCESS, false));
            assert!(pair.host.pieces_sent as usize >= SLOT_BYTES / 4096);
            assert!(pair.controller.stored[..SLOT_BYTES] == data, "other data stored");
        }
    }
}

#[test]
fn a_damaged_digest_fails_its_command_only() {
    for seed in seeds() {
        for header in [false, true] {
            let mut pair = Pair::open(seed, Digests { header, data: true });
            let stored = pair.controller.stored.clone();
            for (length, in_capsule) in [(4096, true), (SLOT_BYTES, false)] {
                pair.host.end.damage_in = Some(0);
                let command = write(0, (length / BLOCK) as u32);
                let outcome = pair.execute(command, vec![7; length], in_capsule);
                assert_eq!(outcome, (Status::TRANSIENT_TRANSPORT_ERROR, false));
                assert!(pair.controller.stored == stored, "damaged data was stored");
            }
            pair.controller.end.damage_in = Some(0);
            assert_eq!(pair.execute(read(0, 8), vec![0; 4096], false), (Status::SUCCESS, true));
            assert_eq!(pair.execute(write(0, 8), vec![9; 4096], true), (Status::SUCCESS, false));
            assert_eq!(pair.execute(read(0, 8), vec![0; 4096], false), (Status::SUCCESS, false));
            assert_eq!(pair.host.end.slot(0).buffer, [9; 4096]);
        }
    }
}

/// Checks that both ends know of one ending: the one that found the error, and the one that caused it.
fn check_ending(found: &End, caused: &End, error: FatalError, information: u32) {
    assert_eq!(found.ending, Some(Ending::Here(DecodeError::new(error, information))));
    assert_eq!(caused.ending, Some(Ending::There { error: error as u16, information }));
}

#[test]
fn a_damaged_header_ends_the_connection() {
    for seed in seeds() {
        for to_host in [false, true] {
            let mut pair = Pair::open(seed, BOTH);
            let mut entry = IoCommand::Flush.encode(1);
            entry.command_id = 100.into();
            let response = CompletionEntry::new(100, Status::SUCCESS, 0, 0);
            let (end, way) = match to_host {
                true => (&mut pair.controller.end, &mut pair.to_host),
                false => (&mut pair.host.end, &mut pair.to_controller),
            };
            match to_host {
                true => end.transmitter.response(response),
                false => end.transmitter.command(entry, None),
            }
            let mut bytes = end.send(usize::MAX);
            let at = 8 + pair.random.up_to(12) as usize;
            bytes[at] ^= 1 << (pair.random.next() % 8);
            let received = bytes.last_chunk().copied().map(u32::from_le_bytes).expect("a digest");
            way.extend(bytes);
            pair.run();
            let (found, caused) = match to_host {
                true => (&pair.host.end, &pair.controller.end),
                false => (&pair.controller.end, &pair.host.end),
            };
            check_ending(found, caused, FatalError::HeaderDigest, received);
        }
    }
}

#[test]
fn data_out_of_range_ends_the_connection() {
    for seed in seeds() {
        let mut pair = Pair::open(seed, BOTH);
        pair.controller.asks_too_much = true;
        pair.host.submit(0, write(0, 64), vec![1; SLOT_BYTES], false);
        pair.run();
        check_ending(&pair.host.end, &pair.controller.end, FatalError::DataTransferOutOfRange, 0);
        assert_eq!(pair.host.completions, []);
    }
}

#[test]
fn a_parameter_that_is_not_supported_ends_the_connection() {
    for seed in seeds() {
        let mut request = Initialize::new(PduType::InitializeRequest, 0, 0);
        request.data_alignment = 32;
        let mut pair = Pair::new(seed, request, Digests::default());
        pair.run();
        check_ending(&pair.controller.end, &pair.host.end, FatalError::UnsupportedParameter, 10);
    }
}
