//! Commands beside reading and writing: Verify, Copy, Write Uncorrectable, fused Compare and Write; and what write
//! protection and limits do to all of them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::raw_host::{
    Client, ENGINES, Give, Host, Kind, Options, SPACES, Space, TestTarget, assert_status, pattern,
};
use engine::backend::BackendConfig;
use engine::limits::{COPY_LENGTH_MAX, COPY_RANGE_LENGTH_MAX, COPY_RANGES_MAX, VERIFY_LENGTH_MAX};
use engine::ring::Engine;
use engine::target::{QosConfig, WriteProtection};
use nvme::Status;
use nvme::io::{CopyFormat, Fused, IoCommand, encode_copy_ranges, encode_ranges};
use prerequisite::wait_until;

/// Large enough for every limit.
const LARGE: u64 = 64 << 20;

fn large(engine: Engine) -> TestTarget {
    TestTarget::start_with(engine, |config| {
        for namespace in &mut config.fabric.subsystems[0].namespaces {
            match &mut namespace.backend {
                BackendConfig::Memory { size } | BackendConfig::Null { size } => *size = LARGE,
                BackendConfig::File { size, .. } => *size = Some(LARGE),
                BackendConfig::Block { .. } | BackendConfig::Rbd(_) => unreachable!("no test has a device"),
            }
        }
    })
}

fn run(queue: &mut Client, space: Space, command: IoCommand) -> Status {
    queue.run(command.encode(space.nsid), Give::Nothing).status
}

fn copy(queue: &mut Client, space: Space, format: CopyFormat, ranges: &[(u64, u32)], start: u64) -> Status {
    let data = encode_copy_ranges(format, ranges);
    let command = IoCommand::Copy { start, ranges: ranges.len() as u16, format, force_unit_access: true };
    queue.run(command.encode(space.nsid), Give::Asked(&data)).status
}

#[test]
fn verify_reads_what_is_there_and_tells_nothing() {
    for engine in ENGINES {
        let target = large(engine);
        let (_host, mut queue) = Host::with_queue(target.address());
        for space in SPACES {
            let most = (VERIFY_LENGTH_MAX / u64::from(space.block)).min(0x1_0000) as u32;
            let end = LARGE / u64::from(space.block);
            for (start, blocks, expected) in [
                (0, 1, Status::SUCCESS),
                (3, most, Status::SUCCESS),
                (end - u64::from(most), most, Status::SUCCESS),
                (end, 1, Status::LBA_OUT_OF_RANGE),
                (end - 1, 2, Status::LBA_OUT_OF_RANGE),
            ] {
                let status = run(&mut queue, space, IoCommand::Verify { start, blocks });
                assert_status(status, expected, &format!("{blocks} from {start} of {space:?}"));
            }
            if most < 0x1_0000 {
                let status = run(&mut queue, space, IoCommand::Verify { start: 0, blocks: most + 1 });
                assert_status(status, Status::INVALID_FIELD, "more than the limit");
            }
        }
    }
}

#[test]
fn copies_are_what_was_named_in_its_order() {
    for engine in ENGINES {
        let mut target = TestTarget::start(engine);
        let mut kept = Vec::new();
        let (host, mut queue) = Host::with_queue(target.address());
        for space in SPACES {
            let per_page = 4096 / space.block;
            let at = |page: u64| page * u64::from(per_page);
            let length = 1 << 20;
            let data = pattern(length, space.nsid.into());
            assert_eq!(queue.write(space, 0, &data, false).status, Status::SUCCESS);
            for format in [CopyFormat::Format0, CopyFormat::Format1] {
                // Out of order, one twice, one of more than a megabyte of pieces when all is added up.
                let ranges = [(at(9), per_page), (at(2), 3 * per_page), (0, 256 * per_page), (at(2), 1)];
                let start = at(300) + format as u64;
                let status = copy(&mut queue, space, format, &ranges, start);
                assert_eq!(status, Status::SUCCESS, "{space:?} {format:?}");
                let mut expected = Vec::new();
                for (start, blocks) in ranges {
                    let from = start as usize * space.block as usize;
                    expected.extend_from_slice(&data[from..from + blocks as usize * space.block as usize]);
                }
                let (first, rest) = expected.split_at(length / 2);
                let half = (length as u32) / 2 / space.block;
                let mut check = |start: u64, part: &[u8]| {
                    let reply = queue.read(space, start, part.len() as u32 / space.block);
                    let is_null = space.kind == Kind::Null;
                    let same = if is_null { reply.data.iter().all(|b| *b == 0) } else { reply.data == part };
                    assert!(reply.status.is_success() && same, "{space:?} {format:?}");
                };
                check(start, first);
                check(start + u64::from(half), rest);
            }
            kept.push((space, data));
        }
        drop((queue, host));
        target.restart();
        let (_host, mut queue) = Host::with_queue(target.address());
        for (space, data) in kept.into_iter().filter(|(space, _)| space.kind == Kind::File) {
            let per_page = u64::from(4096 / space.block);
            let reply = queue.read(space, 300 * per_page + 1, per_page as u32);
            assert!(reply.data == data[9 * 4096..10 * 4096], "a copy lasts: {space:?}");
        }
    }
}

#[test]
fn copies_keep_to_their_limits() {
    for engine in ENGINES {
        let target = large(engine);
        let (mut host, mut queue) = Host::with_queue(target.address());
        for space in SPACES {
            let identify = host.admin.identified_namespace(space.nsid);
            let range_max = u32::from(identify.copy_range_length_max.get());
            assert_eq!(u64::from(range_max * space.block), COPY_RANGE_LENGTH_MAX);
            assert_eq!(u64::from(identify.copy_length_max.get() * space.block), COPY_LENGTH_MAX);
            assert_eq!(u16::from(identify.copy_ranges_max) + 1, COPY_RANGES_MAX);
            let end = LARGE / u64::from(space.block);
            let middle = end / 2;
            let whole = vec![(0, range_max); (identify.copy_length_max.get() / range_max) as usize];
            let mut over = whole.clone();
            over.push((0, 1));
            let many = vec![(0, 1); usize::from(COPY_RANGES_MAX)];
            let mut too_many = many.clone();
            too_many.push((0, 1));
            let limit = Status::COMMAND_SIZE_LIMIT_EXCEEDED;
            for (ranges, start, expected, what) in [
                (whole, middle, Status::SUCCESS, "as much as there may be"),
                (over, middle, limit, "a block more"),
                (many, middle, Status::SUCCESS, "as many as there may be"),
                (too_many, middle, limit, "one more"),
                (vec![(0, range_max + 1)], middle, limit, "too long a range"),
                (vec![(end - 1, 2)], middle, Status::LBA_OUT_OF_RANGE, "a source past the end"),
                (vec![(end - 1, 1)], 0, Status::SUCCESS, "the last block"),
                (vec![(0, 2)], end - 1, Status::LBA_OUT_OF_RANGE, "a destination past the end"),
                (vec![(0, 1)], end, Status::LBA_OUT_OF_RANGE, "a destination behind the end"),
                (vec![(0, 1)], u64::MAX, Status::LBA_OUT_OF_RANGE, "nowhere"),
                (vec![(8, 8)], 15, Status::OVERLAPPING_IO_RANGE, "a destination in its source"),
                (vec![(0, 8), (100, 8)], 95, Status::OVERLAPPING_IO_RANGE, "in its second source"),
                (vec![(0, 8)], 8, Status::SUCCESS, "a destination behind its source"),
            ] {
                let status = copy(&mut queue, space, CopyFormat::Format0, &ranges, start);
                assert_status(status, expected, &format!("{what}: {space:?}"));
            }
            let short = encode_copy_ranges(CopyFormat::Format0, &[(0, 1)]);
            let format = CopyFormat::Format0;
            let command = IoCommand::Copy { start: middle, ranges: 2, format, force_unit_access: false };
            let reply = queue.run(command.encode(space.nsid), Give::Capsule(&short));
            assert_status(reply.status, Status::DATA_SGL_LENGTH_INVALID, "fewer ranges than said");
        }
    }
}

#[test]
fn uncorrectable_blocks_fail_until_they_are_written() {
    for engine in ENGINES {
        let (_target, _host, mut queue) = TestTarget::with_queue(engine);
        for space in SPACES {
            let block = space.block as usize;
            let data = vec![0; 8 * block];
            assert_eq!(queue.write(space, 0, &data, false).status, Status::SUCCESS);
            let spoil = IoCommand::WriteUncorrectable { start: 2, blocks: 4 };
            assert_eq!(run(&mut queue, space, spoil), Status::SUCCESS, "{space:?}");
            let bad = Status::UNRECOVERED_READ_ERROR;
            let compare = |queue: &mut Client, start, blocks: u32| {
                let command = IoCommand::Compare { start, blocks }.encode(space.nsid);
                queue.run(command, Give::Asked(&data[..blocks as usize * block])).status
            };
            for (start, blocks, expected) in
                [(0, 2, Status::SUCCESS), (1, 2, bad), (5, 1, bad), (6, 2, Status::SUCCESS)]
            {
                let what = format!("{blocks} from {start} of {space:?}");
                assert_status(queue.read(space, start, blocks).status, expected, &what);
                assert_status(run(&mut queue, space, IoCommand::Verify { start, blocks }), expected, &what);
                assert_status(compare(&mut queue, start, blocks), expected, &what);
                let copied = copy(&mut queue, space, CopyFormat::Format1, &[(start, blocks)], 100);
                assert_status(copied, expected, &what);
                let pair = pair(&mut queue, space, start, (&data[..blocks as usize * block], &data));
                assert_status(pair.0, expected, &what);
            }
            // Each way of writing makes good what it writes, and nothing else.
            assert_eq!(queue.write(space, 2, &data[..block], true).status, Status::SUCCESS);
            let zeroes =
                IoCommand::WriteZeroes { start: 3, blocks: 1, force_unit_access: false, deallocate: false };
            assert_eq!(run(&mut queue, space, zeroes), Status::SUCCESS);
            assert_eq!(copy(&mut queue, space, CopyFormat::Format0, &[(0, 1)], 4), Status::SUCCESS);
            assert_eq!(queue.read(space, 0, 5).status, Status::SUCCESS, "{space:?}");
            assert_status(queue.read(space, 5, 1).status, bad, "the last one is not written yet");
            let ranges = encode_ranges(&[(5, 1)]);
            let command = IoCommand::DatasetManagement { ranges: 1, deallocate: true };
            let reply = queue.run(command.encode(space.nsid), Give::Capsule(&ranges));
            assert_eq!(reply.status, Status::SUCCESS);
            assert_eq!(queue.read(space, 0, 8).status, Status::SUCCESS, "{space:?}");
            let outside = IoCommand::WriteUncorrectable { start: space.blocks() - 1, blocks: 2 };
            assert_status(run(&mut queue, space, outside), Status::LBA_OUT_OF_RANGE, "past the end");
        }
    }
}

fn fused(space: Space, start: u64, length: usize, which: Fused) -> nvme::SubmissionEntry {
    let blocks = length as u32 / space.block;
    let command = match which {
        Fused::First => IoCommand::Compare { start, blocks },
        _ => IoCommand::Write { start, blocks, force_unit_access: false },
    };
    command.encode_fused(space.nsid, which)
}

fn small_or_asked(data: &[u8]) -> Give<'_> {
    if data.len() <= 16 << 10 { Give::Capsule(data) } else { Give::Asked(data) }
}

/// Does a fused Compare and Write of as many blocks as are compared; the statuses of both.
fn pair(queue: &mut Client, space: Space, start: u64, (old, new): (&[u8], &[u8])) -> (Status, Status) {
    let new = &new[..old.len()];
    let first = queue.submit(fused(space, start, old.len(), Fused::First), small_or_asked(old));
    queue.submit(fused(space, start, new.len(), Fused::Second), small_or_asked(new));
    let replies = [queue.wait(), queue.wait()];
    let is_first = replies[0].command_id == first;
    let (one, two) = if is_first { (0, 1) } else { (1, 0) };
    assert_eq!(replies[one].command_id, first);
    (replies[one].status, replies[two].status)
}

#[test]
fn a_fused_pair_writes_only_what_was_compared() {
    for engine in ENGINES {
        let (_target, _host, mut queue) = TestTarget::with_queue(engine);
        for space in SPACES {
            for length in [space.block as usize, 8192, 64 << 10, 1 << 20] {
                let zeroes = vec![0; length];
                let data = pattern(length, length as u64);
                assert_eq!(queue.write(space, 16, &zeroes, false).status, Status::SUCCESS);
                let unequal = pair(&mut queue, space, 16, (&data, &data));
                assert_status(unequal.0, Status::COMPARE_FAILURE, &format!("{length} on {space:?}"));
                assert_status(unequal.1, Status::ABORTED_FAILED_FUSED, "its partner");
                let blocks = length as u32 / space.block;
                assert!(queue.read(space, 16, blocks).data == zeroes, "nothing was written");
                let equal = pair(&mut queue, space, 16, (&zeroes, &data));
                assert_eq!(equal, (Status::SUCCESS, Status::SUCCESS), "{length} on {space:?}");
                let is_written = queue.read(space, 16, blocks).data == data;
                assert_eq!(is_written, space.kind != Kind::Null, "{length} on {space:?}");
            }
        }
    }
}

#[test]
fn commands_of_a_pair_that_do_not_belong_together_fail() {
    for engine in ENGINES {
        let (_target, _host, mut queue) = TestTarget::with_queue(engine);
        for space in SPACES.into_iter().filter(|space| space.kind != Kind::Null) {
            let block = vec![0; space.block as usize];
            let two = vec![0; 2 * space.block as usize];
            let give = Give::Capsule(&block);
            let reply = queue.run(fused(space, 0, block.len(), Fused::Second), give);
            assert_status(reply.status, Status::ABORTED_MISSING_FUSED, "a second without a first");
            // A first that is followed by another first waits without success; others in between only make it wait longer.
            let lonely = queue.submit(fused(space, 0, block.len(), Fused::First), give);
            let read = IoCommand::Read { start: 0, blocks: 1, force_unit_access: false };
            let between = queue.submit(read.encode(space.nsid), Give::Room(space.block));
            assert_eq!(queue.wait().command_id, between, "other commands go on");
            let first = queue.submit(fused(space, 0, block.len(), Fused::First), give);
            let reply = queue.wait();
            assert_eq!(reply.command_id, lonely);
            assert_status(reply.status, Status::ABORTED_MISSING_FUSED, "a first without a second");
            let second = queue.submit(fused(space, 0, block.len(), Fused::Second), give);
            let mut ended = [queue.wait(), queue.wait()].map(|reply| (reply.command_id, reply.status));
            ended.sort_unstable_by_key(|(id, _)| *id != first);
            assert_eq!(ended, [(first, Status::SUCCESS), (second, Status::SUCCESS)], "{space:?}");
            for (start, data) in [(1, &block), (0, &two)] {
                let first = queue.submit(fused(space, 0, block.len(), Fused::First), give);
                queue.submit(fused(space, start, data.len(), Fused::Second), Give::Capsule(data));
                for _ in 0..2 {
                    let reply = queue.wait();
                    assert!(!reply.status.is_success(), "different blocks: {space:?}");
                    if reply.command_id != first {
                        assert_status(reply.status, Status::INVALID_FIELD, "different blocks");
                    }
                }
            }
            let outside = queue.submit(fused(space, space.blocks(), block.len(), Fused::First), give);
            let reply = queue.wait();
            assert_eq!(reply.command_id, outside);
            assert_status(reply.status, Status::LBA_OUT_OF_RANGE, "a first that fails at once");
            let reply = queue.run(fused(space, 0, block.len(), Fused::Second), give);
            assert_status(reply.status, Status::ABORTED_FAILED_FUSED, "its partner");
            assert_eq!(queue.read(space, 0, 1).status, Status::SUCCESS, "the queue goes on");
        }
    }
}

/// Counts up the number in a block by compare and write until `stop`; returns how often that went
/// well.
fn increment(queue: &mut Client, space: Space, stop: &AtomicBool) -> u64 {
    let mut done = 0;
    while !stop.load(Ordering::Relaxed) {
        let old = queue.read(space, 5, 1).data;
        let number = u64::from_le_bytes(old[..8].try_into().unwrap());
        let mut new = old.clone();
        new[..8].copy_from_slice(&(number + 1).to_le_bytes());
        match pair(queue, space, 5, (&old, &new)) {
            (Status::SUCCESS, Status::SUCCESS) => done += 1,
            (first, second) => {
                assert_status(first, Status::COMPARE_FAILURE, "another queue was faster");
                assert_status(second, Status::ABORTED_FAILED_FUSED, "and so this one is not written");
            }
        }
    }
    done
}

#[test]
fn no_increment_is_lost_between_fused_pairs_on_many_queues() {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        for space in [SPACES[0], SPACES[1], SPACES[4], SPACES[5]] {
            let host = Host::connect(target.address());
            let (stop, sum, plain) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
            std::thread::scope(|scope| {
                for queue_id in 1..=16 {
                    let (stop, sum, mut queue) = (&stop, &sum, host.io(queue_id));
                    scope.spawn(move || sum.fetch_add(increment(&mut queue, space, stop), Ordering::Relaxed));
                }
                // Others write beside it all the time: the neighbours, and, without changing anything, elsewhere.
                for (queue_id, start) in [(17, 4), (18, 6), (19, 200)] {
                    let (stop, plain, mut queue) = (&stop, &plain, host.io(queue_id));
                    scope.spawn(move || {
                        let data = vec![queue_id as u8; space.block as usize];
                        while !stop.load(Ordering::Relaxed) {
                            assert_eq!(queue.write(space, start, &data, true).status, Status::SUCCESS);
                            plain.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
                let count = || (plain.load(Ordering::Relaxed), sum.load(Ordering::Relaxed));
                wait_until("writers beside a pair go on", || count().0 >= 300);
                stop.store(true, Ordering::Relaxed);
            });
            // A queue of its own: the target may not have noticed yet that the others are gone.
            let block = host.io(20).read(space, 4, 3).data;
            let size = space.block as usize;
            let number = u64::from_le_bytes(block[size..size + 8].try_into().unwrap());
            assert_eq!(number, sum.load(Ordering::Relaxed), "{space:?}");
            assert!(number > 0, "one of them got through: {space:?}");
            assert!(block[..size].iter().all(|byte| *byte == 17), "the block before");
            assert!(block[2 * size..].iter().all(|byte| *byte == 18), "the block behind");
        }
    }
}

#[test]
fn a_write_protected_namespace_is_read_and_never_written() {
    for engine in ENGINES {
        let (target, mut host, mut queue) = TestTarget::with_queue(engine);
        let protect = |protection| {
            target.apply(|fabric| {
                let namespaces = &mut fabric.subsystems[0].namespaces;
                namespaces.iter_mut().for_each(|namespace| namespace.write_protection = protection);
            });
        };
        for protection in [WriteProtection::On, WriteProtection::UntilRestart, WriteProtection::Permanent] {
            protect(protection);
            for space in SPACES {
                let data = vec![0; space.block as usize];
                let refused = Status::WRITE_PROTECTED;
                let what = format!("{protection:?} {space:?}");
                assert_status(queue.write(space, 0, &data, true).status, refused, &what);
                let reply = queue.write(space, 0, &data, false);
                assert_eq!((reply.status.without_flags(), reply.asked), (refused, 0), "{what}");
                for command in [
                    IoCommand::WriteZeroes {
                        start: 0,
                        blocks: 1,
                        force_unit_access: false,
                        deallocate: true,
                    },
                    IoCommand::WriteUncorrectable { start: 0, blocks: 1 },
                ] {
                    assert_status(run(&mut queue, space, command), refused, &what);
                }
                let copied = copy(&mut queue, space, CopyFormat::Format0, &[(0, 1)], 8);
                assert_status(copied, refused, &what);
                let command = IoCommand::DatasetManagement { ranges: 1, deallocate: true };
                let ranges = encode_ranges(&[(0, 1)]);
                let reply = queue.run(command.encode(space.nsid), Give::Capsule(&ranges));
                assert_status(reply.status, refused, &what);
                let first = queue.submit(fused(space, 0, data.len(), Fused::First), Give::Capsule(&data));
                queue.submit(fused(space, 0, data.len(), Fused::Second), Give::Capsule(&data));
                for reply in [queue.wait(), queue.wait()] {
                    let is_first = reply.command_id == first;
                    let expected = if is_first { Status::ABORTED_FAILED_FUSED } else { refused };
                    assert_status(reply.status, expected, &what);
                }
                assert_eq!(queue.read(space, 0, 1).status, Status::SUCCESS, "{what}");
                for command in [IoCommand::Verify { start: 0, blocks: 1 }, IoCommand::Flush] {
                    assert_eq!(run(&mut queue, space, command), Status::SUCCESS, "{what}");
                }
                assert_eq!(host.admin.identified_namespace(space.nsid).attributes, 1, "{what}");
            }
        }
        protect(WriteProtection::None);
        for space in SPACES {
            let data = vec![0; space.block as usize];
            assert_eq!(queue.write(space, 0, &data, true).status, Status::SUCCESS, "{space:?}");
        }
    }
}

/// Completions of `commands` sent all the time on four queues, and the time that took.
fn rate(target: &TestTarget, space: Space, depth: usize, write: bool) -> (u64, Duration) {
    let host = Host::connect_with(target.address(), Options::default());
    let data = vec![7; 4096];
    let blocks = 4096 / space.block;
    let (done, began) = (AtomicU64::new(0), Instant::now());
    std::thread::scope(|scope| {
        for queue_id in 1..=4 {
            let (done, data, mut queue) = (&done, &data, host.io(queue_id));
            scope.spawn(move || {
                let send = |queue: &mut Client| {
                    let read = IoCommand::Read { start: 0, blocks, force_unit_access: false };
                    let written = IoCommand::Write { start: 0, blocks, force_unit_access: false };
                    let command = if write { written } else { read };
                    let give = if write { Give::Capsule(data) } else { Give::Room(4096) };
                    queue.submit(command.encode(space.nsid), give);
                };
                (0..depth).for_each(|_| send(&mut queue));
                while began.elapsed() < Duration::from_millis(600) {
                    assert_eq!(queue.wait().status, Status::SUCCESS);
                    done.fetch_add(1, Ordering::Relaxed);
                    send(&mut queue);
                }
            });
        }
    });
    (done.load(Ordering::Relaxed), began.elapsed())
}

#[test]
fn a_limited_namespace_gives_no_more_than_its_limit() {
    for engine in ENGINES {
        let target = TestTarget::start(engine);
        for space in [SPACES[0], SPACES[3], SPACES[5]] {
            for (qos, limited_reads, limited_writes) in [
                (QosConfig { iops: Some(500), ..QosConfig::default() }, true, true),
                (QosConfig { read_iops: Some(500), ..QosConfig::default() }, true, false),
                (QosConfig { write_bytes: Some(500 * 4096), ..QosConfig::default() }, false, true),
            ] {
                target.apply_to(space.nsid, |namespace| namespace.qos = qos);
                for (write, limited) in [(false, limited_reads), (true, limited_writes)] {
                    let (done, took) = rate(&target, space, 8, write);
                    let most = 500.0 * (took.as_secs_f64() + 0.1) + 32.0;
                    let what = format!("{done} in {took:?} on {space:?} with {qos:?}, writes: {write}");
                    assert!(!limited || (done as f64) <= most, "{what}");
                    assert!(done > 0, "{what}");
                }
            }
        }
        // Without limits the same load gets further than any of them allowed.
        target.apply(|fabric| {
            let namespaces = &mut fabric.subsystems[0].namespaces;
            namespaces.iter_mut().for_each(|namespace| namespace.qos = QosConfig::default());
        });
        let (done, took) = rate(&target, SPACES[0], 8, false);
        assert!(done > 0, "{done} in {took:?}");
    }
}
