//! Reads return what hosts wrote: every I/O command on every kind of namespace, by every way data
//! can travel.

use std::collections::HashMap;

use crate::raw_host::host::give;
use crate::raw_host::{
    Client, ENGINES, Give, Host, Kind, Options, Random, SPACES, Space, TestTarget, assert_status, pattern,
};
use nvme::Status;
use nvme::io::{IoCommand, encode_ranges};
use nvme::tcp::Digests;

const DIGESTS: [Digests; 4] = [
    Digests { header: false, data: false },
    Digests { header: true, data: false },
    Digests { header: false, data: true },
    Digests { header: true, data: true },
];
/// The most data that fits into a capsule.
const CAPSULE: usize = 16 << 10;

fn read_equals(queue: &mut Client, space: Space, start: u64, expected: &[u8], what: &str) {
    let reply = queue.read(space, start, expected.len() as u32 / space.block);
    assert_eq!(reply.status, Status::SUCCESS, "{what}");
    if space.kind == Kind::Null {
        assert!(reply.data.len() == expected.len() && reply.data.iter().all(|byte| *byte == 0), "{what}");
    } else {
        assert!(reply.data == expected, "{what}: what is read is not what was written");
    }
}

/// Runs `test` with an I/O queue, for each engine, digests and flow control.
fn with_queues(test: impl Fn(&mut Client, &str)) {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        for digests in DIGESTS {
            for flow_control in [false, true] {
                let options = Options { digests, flow_control, ..Options::default() };
                let host = Host::connect_with(target.address(), options);
                test(&mut host.io(1), &format!("{engine:?} {digests:?} flow control {flow_control}"));
            }
        }
    }
}

#[test]
fn what_is_written_is_read() {
    with_queues(|queue, setting| {
        for space in SPACES {
            let unit = space.block as usize;
            // One block, odd numbers of blocks, the largest capsule, just over it, and the largest transfer.
            for (number, length) in
                [unit, 3 * unit, CAPSULE, CAPSULE + unit, 37 * unit, 1 << 20].into_iter().enumerate()
            {
                for in_capsule in [true, false] {
                    if in_capsule && length > CAPSULE {
                        continue;
                    }
                    let what = format!("{setting}, {space:?}, {length} bytes, in capsule {in_capsule}");
                    let start = 5 + number as u64;
                    let data = pattern(length, length as u64 + u64::from(in_capsule));
                    let reply = queue.write(space, start, &data, in_capsule);
                    assert_eq!(reply.status, Status::SUCCESS, "{what}");
                    assert_eq!(reply.asked, usize::from(!in_capsule), "{what}");
                    read_equals(queue, space, start, &data, &what);
                }
            }
        }
    });
}

#[test]
fn data_may_come_in_pieces_of_any_length() {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        for digests in DIGESTS {
            let options = Options { digests, ..Options::default() };
            let host = Host::connect_with(target.address(), options);
            let mut queue = host.io(1);
            for space in SPACES {
                for (seed, piece) in [4, 1020, 4096, 65_536, 300_000].into_iter().enumerate() {
                    queue.piece = piece;
                    let length = if piece < 1000 { 8192 } else { 1 << 20 };
                    let data = pattern(length, seed as u64);
                    let what = format!("{engine:?} {digests:?} {space:?} in pieces of {piece}");
                    assert_eq!(queue.write(space, 9, &data, false).status, Status::SUCCESS, "{what}");
                    read_equals(&mut queue, space, 9, &data, &what);
                }
            }
        }
    }
}

#[test]
fn compare_tells_a_difference_of_one_bit() {
    with_queues(|queue, setting| {
        for space in SPACES {
            for (length, in_capsule) in [(8192, true), (8192, false), (64 << 10, false)] {
                let what = format!("{setting}, {space:?}, {length} bytes, in capsule {in_capsule}");
                let mut data = if space.kind == Kind::Null { vec![0; length] } else { pattern(length, 3) };
                assert_eq!(queue.write(space, 64, &data, in_capsule).status, Status::SUCCESS);
                let blocks = length as u32 / space.block;
                let compare = IoCommand::Compare { start: 64, blocks }.encode(space.nsid);
                assert_eq!(queue.run(compare, give(&data, in_capsule)).status, Status::SUCCESS, "{what}");
                for at in [0, length / 2, length - 1] {
                    data[at] ^= 0x10;
                    let status = queue.run(compare, give(&data, in_capsule)).status;
                    assert_eq!(status, Status::COMPARE_FAILURE, "{what}, byte {at}");
                    data[at] ^= 0x10;
                }
            }
        }
    });
}

#[test]
fn durable_writes_and_flushes_succeed() {
    with_queues(|queue, setting| {
        for space in SPACES {
            let data = pattern(8192, 77);
            let blocks = 8192 / space.block;
            let write = IoCommand::Write { start: 0, blocks, force_unit_access: true }.encode(space.nsid);
            for in_capsule in [true, false] {
                let status = queue.run(write, give(&data, in_capsule)).status;
                assert_eq!(status, Status::SUCCESS, "{setting}, {space:?}");
            }
            let read = IoCommand::Read { start: 0, blocks, force_unit_access: true }.encode(space.nsid);
            let reply = queue.run(read, Give::Room(8192));
            assert_eq!(reply.status, Status::SUCCESS, "{setting}, {space:?}");
            assert!(space.kind == Kind::Null || reply.data == data, "{setting}, {space:?}");
            let flush = queue.run(IoCommand::Flush.encode(space.nsid), Give::Nothing);
            assert_eq!(flush.status, Status::SUCCESS, "{setting}, {space:?}");
        }
    });
}

#[test]
fn zeroing_and_deallocating_touch_their_range_only() {
    with_queues(|queue, setting| {
        for space in SPACES {
            let unit = space.block as usize;
            let blocks = (1 << 20) / space.block;
            let mut model = pattern(1 << 20, 8);
            assert_eq!(queue.write(space, 0, &model, false).status, Status::SUCCESS);
            // Ranges that begin and end within pages and on them.
            for (start, count) in [(3, 1), (16, 64), (101, 77), (0, 1), (u64::from(blocks) - 5, 5)] {
                let (start, count) = (start % u64::from(blocks), count.min(blocks / 4));
                for (deallocate, durable) in [(true, false), (false, true)] {
                    let command = IoCommand::WriteZeroes {
                        start,
                        blocks: count,
                        force_unit_access: durable,
                        deallocate,
                    };
                    let status = queue.run(command.encode(space.nsid), Give::Nothing).status;
                    assert_eq!(status, Status::SUCCESS, "{setting}, {space:?}");
                    let bytes = start as usize * unit..(start as usize + count as usize) * unit;
                    model[bytes.clone()].fill(0);
                    read_equals(queue, space, 0, &model, &format!("{setting}, {space:?}, {command:?}"));
                    let fresh = pattern(bytes.len(), start + 1);
                    model[bytes].copy_from_slice(&fresh);
                    assert_eq!(queue.write(space, start, &fresh, false).status, Status::SUCCESS);
                }
            }
            deallocate_ranges(queue, space, &mut model, setting);
        }
    });
}

fn deallocate_ranges(queue: &mut Client, space: Space, model: &mut [u8], setting: &str) {
    let unit = space.block as usize;
    let ranges = [(2, 3), (40, 8), (41, 2), (7, 0), (90, 31)];
    let data = encode_ranges(&ranges);
    for (deallocate, in_capsule) in [(false, true), (false, false), (true, true), (true, false)] {
        let command = IoCommand::DatasetManagement { ranges: ranges.len() as u16, deallocate };
        let status = queue.run(command.encode(space.nsid), give(&data, in_capsule)).status;
        assert_eq!(status, Status::SUCCESS, "{setting}, {space:?}");
        if deallocate {
            for (start, count) in ranges {
                model[start as usize * unit..(start as usize + count as usize) * unit].fill(0);
            }
        }
        read_equals(queue, space, 0, model, &format!("{setting}, {space:?}, {command:?}"));
    }
}

/// A command of the random mixture that is under way.
struct Under {
    what: String,
    range: std::ops::Range<u64>,
    status: Status,
    data: Option<Vec<u8>>,
}

/// Namespace under random commands, and its expected content.
struct Mixture {
    space: Space,
    model: Vec<u8>,
    under: HashMap<u16, Under>,
}

impl Mixture {
    const BLOCKS: u64 = 600;

    /// Submits a random command on blocks that no other one uses now.
    fn submit(&mut self, queue: &mut Client, random: &mut Random) {
        let unit = self.space.block as usize;
        let longest = if random.below(8) == 0 { (256 << 10) / unit as u64 } else { 4 };
        let range = loop {
            let start = random.below(Self::BLOCKS);
            let end = (start + 1 + random.below(longest)).min(Self::BLOCKS);
            if self.under.values().all(|other| end <= other.range.start || other.range.end <= start) {
                break start..end;
            }
        };
        let (start, blocks) = (range.start, (range.end - range.start) as u32);
        let bytes = start as usize * unit..range.end as usize * unit;
        let in_capsule = bytes.len() <= CAPSULE && random.below(2) == 0;
        let mut under = Under { what: String::new(), range, status: Status::SUCCESS, data: None };
        let null = self.space.kind == Kind::Null;
        let (deallocate, force_unit_access) = (random.below(2) == 0, random.below(8) == 0);
        let data = random.bytes(bytes.len());
        let (command, give) = match random.below(10) {
            0..=3 => {
                let expected = if null { vec![0; bytes.len()] } else { self.model[bytes.clone()].to_vec() };
                under.data = Some(expected);
                (IoCommand::Read { start, blocks, force_unit_access }, Give::Room(bytes.len() as u32))
            }
            4..=6 => {
                self.model[bytes].copy_from_slice(&data);
                (IoCommand::Write { start, blocks, force_unit_access }, give(&data, in_capsule))
            }
            7 => {
                under.status = Status::COMPARE_FAILURE;
                (IoCommand::Compare { start, blocks }, give(&data, in_capsule))
            }
            8 => {
                self.model[bytes].fill(0);
                (IoCommand::WriteZeroes { start, blocks, force_unit_access, deallocate }, Give::Nothing)
            }
            _ => (IoCommand::Flush, Give::Nothing),
        };
        under.what = format!("{command:?} on {:?}", self.space);
        let id = queue.submit(command.encode(self.space.nsid), give);
        self.under.insert(id, under);
    }

    fn finish_one(&mut self, queue: &mut Client) {
        let reply = queue.wait();
        let under = self.under.remove(&reply.command_id).unwrap();
        assert_eq!(reply.status, under.status, "{}", under.what);
        if let Some(expected) = under.data {
            assert!(reply.data == expected, "{}: wrong data", under.what);
        }
    }
}

#[test]
fn thirty_two_commands_at_a_time_do_what_a_model_says() {
    let mut random = Random::seeded("a random mixture of commands");
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        for space in SPACES {
            let digests = DIGESTS[random.below(4) as usize];
            let flow_control = random.below(2) == 0;
            println!("{engine:?} {space:?} {digests:?} flow control {flow_control}");
            let options = Options { digests, flow_control, ..Options::default() };
            let host = Host::connect_with(target.address(), options);
            let mut queue = host.io(1);
            let model = vec![0; Mixture::BLOCKS as usize * space.block as usize];
            let mut mixture = Mixture { space, model, under: HashMap::new() };
            for _ in 0..400 {
                while mixture.under.len() < 32 {
                    mixture.submit(&mut queue, &mut random);
                }
                mixture.finish_one(&mut queue);
            }
            while !mixture.under.is_empty() {
                mixture.finish_one(&mut queue);
            }
            let unit = space.block as usize;
            for (number, expected) in mixture.model.chunks(64 * unit).enumerate() {
                read_equals(&mut queue, space, number as u64 * 64, expected, "what is left at the end");
            }
        }
    }
}

#[test]
fn files_keep_their_data_over_a_restart() {
    for engine in ENGINES {
        let mut target = TestTarget::start(engine);
        let files: Vec<Space> = SPACES.into_iter().filter(|space| space.kind == Kind::File).collect();
        let (host, mut queue) = Host::with_queue(target.address());
        for space in &files {
            for (start, length) in
                [(1, 8192), (100, 128 << 10), (space.blocks() - 2, 2 * space.block as usize)]
            {
                let data = pattern(length, start + u64::from(space.nsid));
                assert_eq!(queue.write(*space, start, &data, length <= CAPSULE).status, Status::SUCCESS);
            }
            let flush = queue.run(IoCommand::Flush.encode(space.nsid), Give::Nothing);
            assert_eq!(flush.status, Status::SUCCESS);
        }
        drop((host, queue));
        target.restart();
        let (_host, mut queue) = Host::with_queue(target.address());
        for space in &files {
            for (start, length) in
                [(1, 8192), (100, 128 << 10), (space.blocks() - 2, 2 * space.block as usize)]
            {
                let data = pattern(length, start + u64::from(space.nsid));
                read_equals(&mut queue, *space, start, &data, &format!("{engine:?} {space:?} at {start}"));
            }
            read_equals(&mut queue, *space, 0, &vec![0; space.block as usize], "a block never written");
        }
    }
}

#[test]
fn only_without_flow_control_a_flag_stands_for_the_completion() {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        for digests in DIGESTS {
            let options = Options { digests, ..Options::default() };
            let mut host = Host::connect_with(target.address(), options);
            let (mut queue, connected) = host.try_io(1);
            assert_eq!(connected.head, Some(0xffff), "said in the answer to Connect");
            for space in SPACES {
                assert_eq!(queue.read(space, 0, 4).head, None, "{space:?}: the data says it all");
                let failed = queue.read(space, space.blocks(), 1);
                assert_status(failed.status, Status::LBA_OUT_OF_RANGE, "an error needs a completion");
                assert!(failed.head.is_some());
            }
            let identified =
                host.admin.identify(0, nvme::identify::IdentifyRequest::new(nvme::identify::Cns::CONTROLLER));
            assert_eq!(identified.head, None, "the admin queue is no other");
        }
    }
}

#[test]
fn with_flow_control_the_queue_head_goes_round() {
    const ENTRIES: u16 = 5;
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        for digests in DIGESTS {
            let options = Options { digests, flow_control: true, entries: ENTRIES, ..Options::default() };
            let host = Host::connect_with(target.address(), options);
            let (mut queue, connected) = host.try_io(1);
            assert_eq!(connected.head, Some(1), "Connect was the first entry");
            let mut head = 1;
            for space in SPACES {
                let data = pattern(4096, 5);
                let write =
                    IoCommand::Write { start: 0, blocks: 4096 / space.block, force_unit_access: false };
                let read = IoCommand::Read { start: 0, blocks: 4096 / space.block, force_unit_access: false };
                let outside = IoCommand::Read { start: space.blocks(), blocks: 1, force_unit_access: false };
                for (command, give) in [
                    (read, Give::Room(4096)),
                    (write, Give::Capsule(&data)),
                    (write, Give::Asked(&data)),
                    (outside, Give::Room(space.block)),
                    (IoCommand::Flush, Give::Nothing),
                ] {
                    head = (head + 1) % ENTRIES;
                    let reply = queue.run(command.encode(space.nsid), give);
                    assert_eq!(reply.head, Some(head), "{engine:?} {digests:?} {space:?} {command:?}");
                }
            }
        }
    }
}
