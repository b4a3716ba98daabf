//! Blocks of memory namespaces are read as one write left them, in spite of other writes at the
//! same time, and in however many parts an answer leaves.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::raw_host::{
    Client, ENGINES, Give, Host, Kind, Options, SIZE, SPACES, Space, TestTarget, assert_status, pattern,
};
use crate::reservation_party::Party;
use engine::target::Reactors;
use nvme::Status;
use nvme::io::IoCommand;
use nvme::reservation::{AcquireAction, ReservationType};
use nvme::tcp::{DataPdu, Digests, PduType, flags};
use prerequisite::wait_until;

const MEBIBYTE: usize = 1 << 20;

fn memories() -> impl Iterator<Item = Space> {
    SPACES.into_iter().filter(|space| space.kind == Kind::Memory)
}

/// Data whose every word says by which write it came.
fn fill(length: usize, write: u64) -> Vec<u8> {
    write.to_le_bytes().repeat(length / 8)
}

/// The blocks that are of several writes.
fn torn(data: &[u8], block: u32) -> usize {
    let is_torn = |block: &&[u8]| block.chunks_exact(8).any(|word| word != &block[..8]);
    data.chunks_exact(block as usize).filter(is_torn).count()
}

fn read(space: Space, start: u64, length: usize) -> (nvme::SubmissionEntry, Give<'static>) {
    let blocks = length as u32 / space.block;
    let command = IoCommand::Read { start, blocks, force_unit_access: false };
    (command.encode(space.nsid), Give::Room(length as u32))
}

/// Begins more reads than the sockets take, so that the last one in them is cut somewhere, writes all that they read, and reads
/// on.
fn write_amid_answers(digests: Digests, length: usize, reads: usize) {
    const ROUNDS: u64 = 8;
    let options = Options { digests, entries: 1024, ..Options::default() };
    for engine in ENGINES {
        let target = TestTarget::start_with(engine, |config| config.reactors = Reactors::Count(1));
        for space in memories() {
            let reading = Host::connect_with(target.address(), options.clone());
            let writing = Host::connect(target.address());
            let (mut reader, mut writer) = (reading.io(1), writing.io(1));
            let mut write_all = |write: u64| {
                for piece in 0..SIZE / MEBIBYTE as u64 {
                    let start = piece * MEBIBYTE as u64 / u64::from(space.block);
                    let reply = writer.write(space, start, &fill(MEBIBYTE, write), false);
                    assert_eq!(reply.status, Status::SUCCESS);
                }
            };
            write_all(0);
            for round in 1..=ROUNDS {
                for number in 0..reads as u64 {
                    let start = number * length as u64 % SIZE / u64::from(space.block);
                    let (entry, give) = read(space, start, length);
                    reader.submit(entry, give);
                }
                // What comes first says that the sockets are being filled; then there is a new write in every block.
                let first = reader.event();
                assert!(matches!(first, Some(nvme::tcp::Event::Data(_))), "{first:?}");
                let begun = reader.take_data();
                write_all(round);
                assert_eq!(torn(&begun, space.block), 0, "round {round}, {space:?}, {digests:?}");
                for _ in 1..reads {
                    let reply = reader.wait();
                    assert_eq!(torn(&reply.data, space.block), 0, "round {round}, {space:?}, {digests:?}");
                }
            }
        }
    }
}

#[test]
fn a_block_that_leaves_in_two_parts_is_of_one_write() {
    write_amid_answers(Digests::default(), MEBIBYTE, 30);
}

#[test]
fn a_page_that_leaves_in_two_parts_is_of_one_write_and_so_is_its_digest() {
    write_amid_answers(Digests { header: true, data: true }, 4096, 1000);
}

/// Reads and writes the first bytes of a namespace by several queues, some hundred times; the blocks that were read and those of
/// several writes among them.
fn contend(target: &TestTarget, space: Space, digests: Digests, length: usize) -> (u64, u64) {
    let (blocks, damaged, ends) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let marks = AtomicU64::new(1);
    let options = Options { digests, ..Options::default() };
    let hosts: Vec<Host> = (0..4).map(|_| Host::connect_with(target.address(), options.clone())).collect();
    let write = |queue: &mut Client| {
        while !ends.load(Ordering::Relaxed) {
            let data = fill(length, marks.fetch_add(1, Ordering::Relaxed));
            let in_capsule = length <= 8192;
            assert_eq!(queue.write(space, 0, &data, in_capsule).status, Status::SUCCESS);
        }
    };
    let look = |queue: &mut Client| {
        for _ in 0..4 {
            let (entry, give) = read(space, 0, length);
            queue.submit(entry, give);
        }
        while !ends.load(Ordering::Relaxed) {
            let reply = queue.wait();
            blocks.fetch_add(length as u64 / u64::from(space.block), Ordering::Relaxed);
            damaged.fetch_add(torn(&reply.data, space.block) as u64, Ordering::Relaxed);
            let (entry, give) = read(space, 0, length);
            queue.submit(entry, give);
        }
    };
    thread::scope(|scope| {
        for (number, host) in hosts.iter().enumerate() {
            let (write, look) = (&write, &look);
            scope.spawn(move || {
                let mut queue = host.io(1);
                if number % 2 == 0 { write(&mut queue) } else { look(&mut queue) }
            });
        }
        let goal = 400 * length as u64 / u64::from(space.block);
        wait_until("reads and writes", || {
            marks.load(Ordering::Relaxed) > 400 && blocks.load(Ordering::Relaxed) >= goal
        });
        ends.store(true, Ordering::Relaxed);
    });
    (blocks.into_inner(), damaged.into_inner())
}

#[test]
fn blocks_that_several_reactors_write_and_read_are_each_of_one_write() {
    let target = TestTarget::start_with(engine::ring::Engine::Automatic, |config| {
        config.reactors = Reactors::Count(3);
    });
    for space in memories() {
        for digests in [Digests::default(), Digests { header: true, data: true }] {
            for length in [4096, 128 << 10, MEBIBYTE] {
                let (blocks, damaged) = contend(&target, space, digests, length);
                assert!(blocks > 0);
                assert_eq!(damaged, 0, "of {blocks} blocks of {space:?}, {length} bytes each, {digests:?}");
            }
        }
    }
}

/// Begins a write over another one, sends its data but for the last bytes, and reads the blocks
/// meanwhile. Gives the rest of the data, which is still to be sent.
fn half_written(
    writer: &mut Client,
    reader: &mut Client,
    space: Space,
    (old, new): (&[u8], &[u8]),
) -> Vec<u8> {
    let blocks = new.len() as u32 / space.block;
    assert_eq!(writer.write(space, 0, old, false).status, Status::SUCCESS);
    let command = IoCommand::Write { start: 0, blocks, force_unit_access: false };
    writer.submit(command.encode(space.nsid), Give::Asked(new));
    let request = writer.ready_to_transfer();
    let (id, tag) = (request.command_id.get(), request.transfer_tag.get());
    assert_eq!((request.offset.get(), request.length.get()), (0, new.len() as u32));
    let pdu = DataPdu::new(PduType::DataToController, flags::LAST, id, tag, 0, new.len() as u32);
    let mut bytes = writer.frame_data(pdu, new);
    let rest = bytes.split_off(bytes.len() - 100);
    writer.send(&bytes);
    assert!(reader.read(space, 0, blocks).data == old, "{space:?}: blocks of an unfinished write");
    rest
}

#[test]
fn a_large_write_has_an_effect_when_all_its_data_has_come() {
    const LENGTH: usize = 128 << 10;
    let (old, new) = (fill(LENGTH, 1), fill(LENGTH, 2));
    for engine in ENGINES {
        let (target, _reading, mut reader) = TestTarget::with_queue(engine);
        let connections = target.connections();
        for space in memories() {
            let blocks = LENGTH as u32 / space.block;
            let writing = Host::connect(target.address());
            let mut writer = writing.io(1);
            for _ in 0..8 {
                let rest = half_written(&mut writer, &mut reader, space, (&old, &new));
                writer.send(&rest);
                assert_eq!(writer.wait().status, Status::SUCCESS);
                assert!(reader.read(space, 0, blocks).data == new, "{space:?}: an acknowledged write");
            }
            half_written(&mut writer, &mut reader, space, (&old, &new));
            drop((writing, writer));
            wait_until("the end of the writer's connections", || target.connections() == connections);
            assert!(reader.read(space, 0, blocks).data == old, "{space:?}: a write without its end");
        }
    }
}

/// Sends the data of a large write only when another host has reserved the namespace, or has
/// reserved it, preempted the first one and cleared all.
fn write_too_late(server: &TestTarget, is_preempted: bool, expected: Status) {
    const LENGTH: usize = 48 << 10;
    let space = SPACES[0];
    let mut parties = [1, 2].map(|number| Party::connect(server.address(), number));
    let [a, b] = &mut parties;
    let blocks = LENGTH as u32 / space.block;
    let write = IoCommand::Write { start: 0, blocks, force_unit_access: false };
    // Several times: data that comes at once and data that comes in parts go different ways.
    for round in 0..16 {
        a.register(space.nsid);
        b.register(space.nsid);
        let [before, late] = [0, 1].map(|number| pattern(LENGTH, 2 * round + number));
        let queue = &mut a.queues[0];
        assert_status(queue.write(space, 0, &before, false).status, Status::SUCCESS, "a write before");
        queue.submit(write.encode(space.nsid), Give::Asked(&late));
        let request = queue.ready_to_transfer();
        b.acquire(space.nsid, ReservationType::WriteExclusive);
        if is_preempted {
            b.preempt(space.nsid, AcquireAction::PreemptAndAbort, a.key);
            b.clear(space.nsid);
        }
        let queue = &mut a.queues[0];
        queue.answer(&request);
        assert_status(queue.wait().status, expected, "its data came too late");
        assert!(b.queues[0].read(space, 0, blocks).data == before, "nothing of it was written");
        if !is_preempted {
            b.clear(space.nsid);
        }
    }
}

#[test]
fn a_large_write_whose_data_comes_after_a_reservation_has_no_effect() {
    for engine in ENGINES {
        write_too_late(&TestTarget::start(engine), false, Status::RESERVATION_CONFLICT);
    }
}

#[test]
fn a_large_write_whose_data_comes_after_preempt_and_abort_has_no_effect() {
    for engine in ENGINES {
        write_too_late(&TestTarget::start(engine), true, Status::ABORTED_PREEMPT);
    }
}
