//! What guests ask for, and what front ends do to their devices.

use std::time::Duration;

use engine::target::WriteProtection;
use prerequisite::{patience, wait_until};
use rustix::fs::MemfdFlags;
use virtio_bindings::virtio_blk as blk;
use virtio_bindings::virtio_ring::VIRTIO_RING_F_EVENT_IDX;

use crate::guest::{DATA, ENTRIES, Guest, INDIRECT, MEMORY_BYTES, NEXT, WRITE, ring_base, shared_file};
use crate::world::{Plan, SIZE, VhostWorld};

const OK: u8 = blk::VIRTIO_BLK_S_OK as u8;
const IO_ERROR: u8 = blk::VIRTIO_BLK_S_IOERR as u8;
const UNSUPPORTED: u8 = blk::VIRTIO_BLK_S_UNSUPP as u8;

fn pattern(length: usize, seed: u32) -> Vec<u8> {
    (0..length as u32).map(|at| (at / 512).wrapping_mul(31).wrapping_add(seed + at) as u8).collect()
}

fn ranges(ranges: &[(u64, u32, u32)]) -> Vec<u8> {
    let bytes = |&(sector, sectors, flags): &(u64, u32, u32)| {
        [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
    };
    ranges.iter().flat_map(bytes).collect()
}

#[test]
fn a_guest_sees_the_properties_of_the_namespace() {
    let world = VhostWorld::new(&Plan::default());
    let mut guest = Guest::stranger(&world.sockets[0], 0);
    for feature in [
        blk::VIRTIO_BLK_F_FLUSH,
        blk::VIRTIO_BLK_F_DISCARD,
        blk::VIRTIO_BLK_F_WRITE_ZEROES,
        blk::VIRTIO_BLK_F_MQ,
        blk::VIRTIO_BLK_F_BLK_SIZE,
        blk::VIRTIO_BLK_F_SIZE_MAX,
    ] {
        assert!(guest.features & 1 << feature != 0, "feature {feature}");
    }
    assert!(guest.features & 1 << blk::VIRTIO_BLK_F_RO == 0);
    let config = guest.config();
    assert_eq!(config[..8], (SIZE / 512).to_le_bytes());
    assert_eq!(config[20..24], 4096u32.to_le_bytes());
    let plan = Plan { is_read_only: true, block_bytes: 512, ..Plan::default() };
    let world = VhostWorld::new(&plan);
    let mut guest = Guest::new(&world.sockets[1], 1);
    assert!(guest.features & 1 << blk::VIRTIO_BLK_F_RO != 0);
    assert!(guest.features & 1 << blk::VIRTIO_BLK_F_DISCARD == 0);
    assert_eq!(guest.does(blk::VIRTIO_BLK_T_OUT, 0, (DATA, 512)), (IO_ERROR, 1));
    assert_eq!(guest.does(blk::VIRTIO_BLK_T_IN, 0, (DATA, 512)), (OK, 513));
}

#[test]
fn a_guest_that_comes_after_the_end_of_a_protection_writes() {
    let world = VhostWorld::new(&Plan { protection: WriteProtection::On, ..Plan::default() });
    let mut guest = Guest::new(&world.sockets[0], 1);
    assert!(guest.features & 1 << blk::VIRTIO_BLK_F_RO != 0);
    assert_eq!(guest.does(blk::VIRTIO_BLK_T_OUT, 0, (DATA, 4096)), (IO_ERROR, 1));
    drop(guest);
    world.protect(WriteProtection::None);
    let mut guest = Guest::new(&world.sockets[0], 1);
    assert!(guest.features & 1 << blk::VIRTIO_BLK_F_RO == 0);
    assert_eq!(guest.does(blk::VIRTIO_BLK_T_OUT, 0, (DATA, 4096)), (OK, 1));
}

#[test]
fn a_front_end_is_notified_of_a_new_size_until_it_reads_it() {
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    use vhost::vhost_user::VhostUserFrontend as _;
    let world = VhostWorld::new(&Plan::default());
    let mut guest = Guest::new(&world.sockets[0], 1);
    let (mut channel, theirs) = UnixStream::pair().unwrap();
    guest.front_end.set_backend_request_fd(&theirs).unwrap();
    drop(theirs);
    channel.set_read_timeout(Some(patience())).unwrap();
    let mut said = [0u32; 3].map(u32::to_ne_bytes).concat();
    // A configuration change, version 1, without a body.
    let notice = [2u32, 1, 0].map(u32::to_ne_bytes).concat();
    let last = |size: u64| size / 512 - 8;
    assert_eq!(guest.config()[..8], (SIZE / 512).to_le_bytes());
    for size in [2 * SIZE, SIZE / 2, SIZE] {
        world.resize(1, size);
        for _ in 0..2 {
            channel.read_exact(&mut said).unwrap();
            assert_eq!(said, notice, "one that has not read it is notified again");
        }
        assert_eq!(guest.config()[..8], (size / 512).to_le_bytes());
        // Whatever was said before it was answered has come.
        channel.set_nonblocking(true).unwrap();
        while channel.read(&mut said).is_ok() {}
        channel.set_nonblocking(false).unwrap();
        assert_eq!(guest.does(blk::VIRTIO_BLK_T_IN, last(size), (DATA, 4096)).0, OK);
        assert_eq!(guest.does(blk::VIRTIO_BLK_T_IN, last(size) + 8, (DATA, 4096)).0, IO_ERROR);
    }
    channel.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    assert!(channel.read(&mut said).is_err(), "one that has read it is not notified");
    // A channel without a reader disturbs no one else.
    drop(channel);
    world.resize(1, 2 * SIZE);
    assert!(guest.is_served());
}

#[test]
fn data_comes_back_as_it_was_written() {
    let world = VhostWorld::new(&Plan::default());
    for without in [0, 1 << VIRTIO_RING_F_EVENT_IDX] {
        let mut guest = Guest::stranger(&world.sockets[0], without);
        guest.start(0);
        // Of one command, and of several.
        for length in [4096, 12 << 10, 1 << 20, 5 << 20] {
            let data = pattern(length, 7);
            guest.fill(DATA, &data);
            assert_eq!(guest.does(blk::VIRTIO_BLK_T_OUT, 64, (DATA, length as u32)), (OK, 1));
            assert_eq!(guest.does(blk::VIRTIO_BLK_T_FLUSH, 0, (0, 0)), (OK, 1));
            let there = DATA + (16 << 20);
            let whole = (OK, length as u32 + 1);
            assert_eq!(guest.does(blk::VIRTIO_BLK_T_IN, 64, (there, length as u32)), whole);
            assert!(guest.bytes(there, length) == data, "{length} bytes");
        }
    }
}

#[test]
fn writes_of_a_driver_without_flushes_are_durable_when_they_end() {
    const OPCODES: [u8; 2] = [1, 8];
    const FORCE_UNIT_ACCESS: u32 = 1 << 30;
    for (without, is_durable) in [(0, false), (1 << blk::VIRTIO_BLK_F_FLUSH, true)] {
        let world = VhostWorld::new(&Plan { is_relayed: true, ..Plan::default() });
        let mut guest = Guest::stranger(&world.sockets[0], without);
        guest.start(0);
        assert_eq!(guest.does(blk::VIRTIO_BLK_T_OUT, 0, (DATA, 4096)), (OK, 1));
        guest.fill(DATA, &ranges(&[(8, 8, 0)]));
        assert_eq!(guest.does(blk::VIRTIO_BLK_T_WRITE_ZEROES, 0, (DATA, 16)), (OK, 1));
        let commands = world.relay.as_ref().expect("a relay").commands();
        let of_writes = commands.iter().filter(|(opcode, _)| OPCODES.contains(opcode));
        let forced: Vec<_> = of_writes.map(|(_, word)| word & FORCE_UNIT_ACCESS != 0).collect();
        assert_eq!(forced, [is_durable; 2], "{commands:?}");
    }
}

#[test]
fn many_requests_are_under_way_on_several_virtqueues() {
    let world = VhostWorld::new(&Plan { threads: 2, ..Plan::default() });
    let mut guests = [Guest::new(&world.sockets[0], 4), Guest::new(&world.sockets[1], 4)];
    for (number, guest) in guests.iter_mut().enumerate() {
        let slot = |ring: usize, at: u16| DATA + (ring as u64 * 64 + u64::from(at)) * 4096;
        let sector = |ring: usize, at: u16| (ring as u64 * 64 + u64::from(at)) * 8;
        for (kind, moved) in [(blk::VIRTIO_BLK_T_OUT, 0), (blk::VIRTIO_BLK_T_IN, 8 << 20)] {
            for ring in 0..4 {
                for at in 0..ENTRIES / 3 {
                    let seed = (number * 1000 + ring * 100) as u32 + u32::from(at);
                    if kind == blk::VIRTIO_BLK_T_OUT {
                        guest.fill(slot(ring, at), &pattern(4096, seed));
                    }
                    guest.ask(ring, at * 3, kind, sector(ring, at), (slot(ring, at) + moved, 4096));
                }
                guest.kick(ring);
            }
            for ring in 0..4 {
                for _ in 0..ENTRIES / 3 {
                    let (head, _) = guest.used(ring);
                    assert_eq!(guest.status(ring, head as u16), OK);
                }
            }
        }
        for ring in 0..4 {
            for at in 0..ENTRIES / 3 {
                let seed = (number * 1000 + ring * 100) as u32 + u32::from(at);
                assert!(guest.bytes(slot(ring, at) + (8 << 20), 4096) == pattern(4096, seed));
            }
        }
    }
}

#[test]
fn blocks_are_cleared_and_discarded() {
    let world = VhostWorld::new(&Plan::default());
    let mut guest = Guest::new(&world.sockets[0], 1);
    let data = vec![5; 64 << 10];
    guest.fill(DATA, &data);
    assert_eq!(guest.does(blk::VIRTIO_BLK_T_OUT, 0, (DATA, 64 << 10)).0, OK);
    let there = DATA + (1 << 20);
    let clear = |guest: &mut Guest, kind, list: &[(u64, u32, u32)]| {
        let bytes = ranges(list);
        guest.fill(there, &bytes);
        guest.does(kind, 0, (there, bytes.len() as u32)).0
    };
    assert_eq!(clear(&mut guest, blk::VIRTIO_BLK_T_WRITE_ZEROES, &[(0, 8, 0)]), OK);
    assert_eq!(clear(&mut guest, blk::VIRTIO_BLK_T_WRITE_ZEROES, &[(8, 8, 1)]), OK);
    assert_eq!(clear(&mut guest, blk::VIRTIO_BLK_T_DISCARD, &[(16, 8, 0), (32, 8, 0)]), OK);
    assert_eq!(guest.does(blk::VIRTIO_BLK_T_IN, 0, (DATA, 64 << 10)).0, OK);
    let blocks = guest.bytes(DATA, 64 << 10);
    // The target's memory reads as zeroes where it was deallocated.
    let is_zero: Vec<bool> = blocks.chunks(4096).map(|block| block == [0; 4096]).collect();
    assert_eq!(is_zero[..6], [true, true, true, false, true, false]);
    for (kind, list, status) in [
        (blk::VIRTIO_BLK_T_WRITE_ZEROES, &[(0, 8, 2)][..], UNSUPPORTED),
        (blk::VIRTIO_BLK_T_WRITE_ZEROES, &[(0, 8, 0), (8, 8, 0)], IO_ERROR),
        (blk::VIRTIO_BLK_T_WRITE_ZEROES, &[(1, 8, 0)], IO_ERROR),
        (blk::VIRTIO_BLK_T_WRITE_ZEROES, &[(u64::MAX, 8, 0)], IO_ERROR),
        (blk::VIRTIO_BLK_T_DISCARD, &[(0, 8, 1)], UNSUPPORTED),
        (blk::VIRTIO_BLK_T_DISCARD, &[(0, 8, 0), (SIZE / 512, 8, 0)], IO_ERROR),
        (blk::VIRTIO_BLK_T_DISCARD, &[(0, 8, 0); 33], IO_ERROR),
        (blk::VIRTIO_BLK_T_DISCARD, &[], IO_ERROR),
    ] {
        assert_eq!(clear(&mut guest, kind, list), status, "{list:?}");
    }
}

#[test]
fn requests_may_be_cut_anywhere_and_listed_elsewhere() {
    let world = VhostWorld::new(&Plan::default());
    let mut guest = Guest::new(&world.sockets[0], 1);
    let data = pattern(8192, 3);
    guest.fill(DATA + 100, &data);
    // The header in two parts, the second with the data's beginning; the status with the end of what is filled.
    let header = [&blk::VIRTIO_BLK_T_OUT.to_le_bytes()[..], &[0; 4], &16u64.to_le_bytes()].concat();
    guest.fill(DATA, &header[..6]);
    guest.fill(DATA + 90, &header[6..]);
    let table = ring_base(0) + (60 << 10);
    guest.describe_at(table, (DATA, 6, NEXT, 1));
    guest.describe_at(table + 16, (DATA + 90, 110, NEXT, 2));
    guest.describe_at(table + 32, (DATA + 200, 8092, NEXT, 3));
    guest.describe_at(table + 48, (DATA + (1 << 20), 1, WRITE, 0));
    guest.describe(0, 5, (table, 64, INDIRECT, 0));
    guest.submit(0, 5);
    guest.kick(0);
    assert_eq!(guest.used(0), (5, 1));
    assert_eq!(guest.bytes(DATA + (1 << 20), 1), [OK]);
    assert_eq!(guest.does(blk::VIRTIO_BLK_T_IN, 16, (DATA, 8192)), (OK, 8193));
    assert!(guest.bytes(DATA, 8192) == data);
    assert_eq!(guest.does(blk::VIRTIO_BLK_T_GET_ID, 0, (DATA, 20)), (OK, 21));
    assert_eq!(guest.bytes(DATA, 20), b"00000001000000000000");
}

#[test]
fn a_front_end_stops_and_goes_on_and_another_one_comes() {
    use vhost::VhostBackend as _;
    use vhost::vhost_user::VhostUserFrontend as _;
    let world = VhostWorld::new(&Plan::default());
    let mut guest = Guest::new(&world.sockets[0], 2);
    guest.fill(DATA, &[9; 4096]);
    assert_eq!(guest.does(blk::VIRTIO_BLK_T_OUT, 8, (DATA, 4096)).0, OK);
    guest.front_end.set_vring_enable(0, false).unwrap();
    guest.ask(0, 0, blk::VIRTIO_BLK_T_IN, 8, (DATA + 8192, 4096));
    guest.kick(0);
    assert_eq!(guest.try_used(0, Duration::from_millis(200)), None, "it is not enabled");
    guest.front_end.set_vring_enable(0, true).unwrap();
    assert_eq!(guest.used(0), (0, 4097));
    assert_eq!(guest.front_end.get_vring_base(0).unwrap(), 2);
    assert_eq!(guest.front_end.get_vring_base(1).unwrap(), 0);
    drop(guest);
    let mut guest = Guest::new(&world.sockets[0], 1);
    assert_eq!(guest.does(blk::VIRTIO_BLK_T_IN, 8, (DATA, 4096)).0, OK);
    assert_eq!(guest.bytes(DATA, 4096), [9; 4096]);
}

#[test]
fn a_virtqueue_that_begins_notifies_its_guest() {
    let world = VhostWorld::new(&Plan::default());
    let guest = Guest::new(&world.sockets[0], 1);
    // A process that served it before may have died between an answer and its notification.
    wait_until("its guest is notified", || guest.was_notified(0));
}

#[test]
fn what_another_process_left_unanswered_is_done_again() {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::FileExt as _;
    use vhost::vhost_user::VhostUserFrontend as _;
    use vhost::vhost_user::message::VhostUserInflight;
    let world = VhostWorld::new(&Plan::default());
    let mut guest = Guest::stranger(&world.sockets[0], 0);
    // QEMU 10 asks for fewer entries than its virtqueues have.
    let asked = VhostUserInflight::new(0, 0, 1, 4);
    let (description, file) = guest.front_end.get_inflight_fd(&asked).unwrap();
    // It has taken two requests, and answered the second.
    guest.fill(DATA, &[8; 4096]);
    guest.write_down(0, 6, blk::VIRTIO_BLK_T_OUT, 8, (DATA, 4096));
    let used = |guest: &Guest, index: u16, head: u32| {
        guest.fill(ring_base(0) + (32 << 10) + 2, &index.to_le_bytes());
        guest.fill(ring_base(0) + (32 << 10) + 4, &head.to_le_bytes());
    };
    used(&guest, 1, 3);
    let state = |head: u64| 16 + head * 16;
    file.write_all_at(&[1, 0, ENTRIES as u8, 0, 3, 0, 1, 0], 8).unwrap();
    file.write_all_at(&[1], state(6)).unwrap();
    guest.set_available(0, 2);
    guest.front_end.set_inflight_fd(&description, file.as_raw_fd()).unwrap();
    guest.start(0);
    (0..2).for_each(|_| guest.was_submitted(0));
    assert_eq!(guest.used(0).0, 3, "what was answered before");
    assert_eq!(guest.used(0), (6, 1));
    assert_eq!(guest.status(0, 6), OK);
    guest.ask(0, 9, blk::VIRTIO_BLK_T_IN, 8, (DATA + 8192, 4096));
    guest.kick(0);
    assert_eq!(guest.used(0), (9, 4097));
    assert_eq!(guest.bytes(DATA + 8192, 4096), [8; 4096]);
    let mut left = [1; 16 * ENTRIES as usize];
    file.read_exact_at(&mut left, 16).unwrap();
    assert!(left.chunks(16).all(|state| state[0] == 0), "nothing is under way");
    drop(guest);
    // A region without room for all that may be under way is as good as none.
    let mut guest = Guest::stranger(&world.sockets[0], 0);
    let small = VhostUserInflight::new(4096, 0, 1, 4);
    guest.front_end.set_inflight_fd(&small, file.as_raw_fd()).unwrap();
    assert!(guest.try_start(0).is_err());
}

#[test]
fn memory_changes_while_virtqueues_run() {
    use vhost::vhost_user::VhostUserFrontend as _;
    let world = VhostWorld::new(&Plan::default());
    let mut guest = Guest::new(&world.sockets[0], 1);
    let file = shared_file(1 << 20, MemfdFlags::empty()).unwrap();
    let more = crate::guest::region(MEMORY_BYTES, 1 << 20, &file);
    assert_eq!(guest.does(blk::VIRTIO_BLK_T_IN, 0, (MEMORY_BYTES, 4096)).0, IO_ERROR);
    guest.front_end.add_mem_region(&more).unwrap();
    assert_eq!(guest.does(blk::VIRTIO_BLK_T_IN, 0, (MEMORY_BYTES, 4096)).0, OK);
    guest.front_end.remove_mem_region(&more).unwrap();
    assert_eq!(guest.does(blk::VIRTIO_BLK_T_IN, 0, (MEMORY_BYTES, 4096)).0, IO_ERROR);
    assert_eq!(guest.does(blk::VIRTIO_BLK_T_IN, 0, (DATA, 4096)).0, OK);
}

#[test]
fn it_ends_while_guests_work() {
    let mut world = VhostWorld::new(&Plan::default());
    let mut guest = Guest::new(&world.sockets[0], 1);
    for at in 0..ENTRIES / 3 {
        guest.ask(0, at * 3, blk::VIRTIO_BLK_T_OUT, u64::from(at) * 8, (DATA, 4096));
    }
    guest.kick(0);
    let (_, _) = guest.used(0);
    let tally = world.server.take().unwrap().stop();
    assert_eq!((tally.clients, tally.errors), (1, 0));
    // What was taken was answered.
    let mut answered = 1;
    while guest.try_used(0, Duration::ZERO).is_some() {
        answered += 1;
    }
    assert_eq!(tally.requests, answered);
}
