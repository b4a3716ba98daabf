//! Guests and front ends that lie. Each pays for it alone: another front end of the same process is served all the time.

use std::io::{ErrorKind, Read as _, Write as _};
use std::mem::ManuallyDrop;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;

use prerequisite::{patience, wait_until};
use rustix::fs::MemfdFlags;
use vhost::VhostBackend as _;
use vhost::vhost_user::VhostUserFrontend as _;
use vhost::{VhostUserMemoryRegionInfo, VringConfigData};
use virtio_bindings::virtio_blk as blk;
use vm_memory::{Bytes as _, GuestAddress};
use vmm_sys_util::eventfd::EventFd;

use crate::guest::{
    DATA, ENTRIES, Guest, HERE, INDIRECT, MEMORY_BYTES, NEXT, WRITE, region, ring_base, shared_file,
    table_addresses,
};
use crate::world::{Plan, VhostWorld};

const IO_ERROR: u8 = blk::VIRTIO_BLK_S_IOERR as u8;

/// Offset of a header, and of a status that is unwritten.
fn header(guest: &Guest, kind: u32, sector: u64) -> (u64, u64) {
    let bytes = [&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes(), &[0xee; 16]].concat();
    guest.fill(DATA, &bytes);
    (DATA, DATA + 16)
}

#[test]
fn data_outside_of_memory_fails_its_request_alone() {
    let world = VhostWorld::new(&Plan::default());
    let mut guest = Guest::new(&world.sockets[0], 1);
    for kind in [blk::VIRTIO_BLK_T_IN, blk::VIRTIO_BLK_T_OUT] {
        for (address, length) in [
            (MEMORY_BYTES, 4096),
            (MEMORY_BYTES - 2048, 4096),
            (u64::MAX - 100, 4096),
            (u64::MAX, 4096),
            (1 << 63, 8192),
        ] {
            assert_eq!(guest.does(kind, 0, (address, length)).0, IO_ERROR, "{address:x}");
        }
        // Lengths that no request has, and blocks that are not there.
        for (sector, length) in
            [(0, 1), (0, 4095), (1, 4096), (0, 48 << 20), (u64::MAX, 4096), (1 << 40, 4096)]
        {
            assert_eq!(guest.does(kind, sector, (DATA, length)).0, IO_ERROR, "{sector} {length}");
        }
    }
    assert_eq!(guest.does(99, 0, (DATA, 4096)).0, blk::VIRTIO_BLK_S_UNSUPP as u8);
    assert!(guest.is_served());
}

/// Address of a descriptor, and its address, length, flags and successor.
type Placed = (u64, (u64, u32, u16, u16));

#[test]
fn chains_that_no_driver_makes_are_given_back() {
    let world = VhostWorld::new(&Plan::default());
    let mut guest = Guest::new(&world.sockets[0], 1);
    let (head, status) = header(&guest, blk::VIRTIO_BLK_T_IN, 0);
    let table = ring_base(0) + (60 << 10);
    let chains: [&[Placed]; 9] = [
        // Endless: to itself, round two, and round all.
        &[(0, (head, 16, NEXT, 0))],
        &[(0, (head, 16, NEXT, 1)), (16, (DATA, 16, NEXT, 0))],
        // Past its table.
        &[(0, (head, 16, NEXT, ENTRIES))],
        &[(0, (head, 16, NEXT, u16::MAX))],
        // No status, nothing at all, and what is brought behind what is filled.
        &[(0, (head, 16, 0, 0))],
        &[(0, (head, 0, 0, 0))],
        &[(0, (status, 1, WRITE | NEXT, 1)), (16, (head, 16, 0, 0))],
        // A list elsewhere that is outside, or refers to itself.
        &[(0, (u64::MAX - 8, 64, INDIRECT, 0))],
        &[(0, (table, 16, INDIRECT, 0)), (table, (table, 16, INDIRECT, 0))],
    ];
    for (number, chain) in chains.into_iter().enumerate() {
        for &(address, descriptor) in chain {
            guest.describe_at(address, descriptor);
        }
        guest.submit(0, 0);
        guest.kick(0);
        let (_, filled) = guest.used(0);
        assert_eq!(filled, 0, "chain {number}");
        assert_eq!(guest.bytes(status, 1), [0xee], "chain {number}");
    }
    // Lengths whose sum has more than 32 bits.
    guest.describe(0, 0, (head, 16, NEXT, 1));
    guest.describe(0, 1, (DATA, u32::MAX, WRITE | NEXT, 2));
    guest.describe(0, 2, (DATA, u32::MAX, WRITE | NEXT, 3));
    guest.describe(0, 3, (status, 1, WRITE, 0));
    guest.submit(0, 0);
    guest.kick(0);
    assert_eq!(guest.used(0), (0, 1));
    assert_eq!(guest.bytes(status, 1), [IO_ERROR]);
    // More segments than there may be, in a list elsewhere.
    for at in 0..4000 {
        guest.describe_at((2 << 20) + at * 16, (DATA, 16, NEXT, at as u16 + 1));
    }
    guest.describe(0, 0, (2 << 20, 4000 * 16, INDIRECT, 0));
    guest.submit(0, 0);
    guest.kick(0);
    assert_eq!(guest.used(0), (0, 0));
    assert!(guest.is_served());
}

#[test]
fn rings_that_make_no_sense_end_their_front_end_alone() {
    let world = VhostWorld::new(&Plan::default());
    let mut other = Guest::new(&world.sockets[1], 1);
    for wrong in 0..2 {
        let mut guest = Guest::new(&world.sockets[0], 1);
        assert!(guest.is_served());
        match wrong {
            // More requests than the ring has entries.
            0 => {
                guest.set_available(0, 5000);
                guest.kick(0);
            }
            // The memory with the rings goes.
            _ => {
                let file = shared_file(4096, MemfdFlags::empty()).unwrap();
                let elsewhere = crate::guest::region(1 << 40, 4096, &file);
                guest.front_end.set_mem_table(&[elsewhere]).unwrap();
                guest.kick(0);
            }
        }
        wait_until("the front end is gone", || guest.front_end.get_features().is_err());
        assert!(other.is_served());
        assert!(Guest::new(&world.sockets[0], 1).is_served(), "the next front end");
    }
}

#[test]
fn a_ring_that_loses_the_memory_of_its_entries_ends_its_front_end_alone() {
    // A thread that turns without end would keep the end of the server, and with it a test that fails.
    let world = ManuallyDrop::new(VhostWorld::new(&Plan::default()));
    let mut other = Guest::new(&world.sockets[1], 1);
    let mut guest = Guest::stranger(&world.sockets[0], 0);
    // The index of the available ring ends the first region, and its entries begin the second one.
    let edge = 1 << 20;
    let entries = VhostUserMemoryRegionInfo { mmap_offset: edge, ..region(edge, edge, &guest.file) };
    let parts = [region(0, edge, &guest.file), entries];
    guest.front_end.set_mem_table(&parts).expect("a table of memory");
    let tables = VringConfigData { avail_ring_addr: HERE + edge - 4, ..table_addresses(0, HERE) };
    let (kick, call) = (EventFd::new(0).unwrap(), EventFd::new(0).unwrap());
    guest.front_end.set_vring_num(0, ENTRIES).expect("a size");
    guest.front_end.set_vring_base(0, 0).expect("a position");
    guest.front_end.set_vring_addr(0, &tables).expect("its tables");
    guest.front_end.set_vring_call(0, &call).expect("a call");
    guest.front_end.set_vring_kick(0, &kick).expect("a kick");
    guest.front_end.set_vring_enable(0, true).expect("a virtqueue");
    guest.front_end.set_mem_table(&parts[..1]).expect("a smaller table");
    guest.memory.store(1u16, GuestAddress(edge - 2), Ordering::Release).expect("a ring");
    kick.write(1).expect("a kick");
    wait_until("the front end is gone", || guest.front_end_is_gone());
    assert!(other.is_served());
    assert!(Guest::new(&world.sockets[0], 1).is_served(), "the next front end");
    drop(ManuallyDrop::into_inner(world));
}

#[test]
fn truncated_memory_ends_only_its_own_guest() {
    let world = VhostWorld::new(&Plan::default());
    let mut other = Guest::new(&world.sockets[1], 1);
    let guest = Guest::new(&world.sockets[0], 1);
    guest.describe(0, 0, (DATA, 4096, NEXT, 1));
    guest.set_available(0, 1);
    // From here on the guest's own mapping must not be touched either.
    guest.file.set_len(0).expect("a file");
    guest.kick(0);
    assert!(other.is_served());
    drop(guest);
    assert!(Guest::new(&world.sockets[0], 1).is_served());
}

#[test]
fn lost_huge_pages_end_only_their_own_guest() {
    // None has to be free: to touch one that the kernel does not have raises SIGBUS too.
    let flags = MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
    let Some(file) = prerequisite::available("huge pages of 2 MiB", shared_file(2 << 20, flags)) else {
        return;
    };
    let world = VhostWorld::new(&Plan::default());
    let mut other = Guest::new(&world.sockets[1], 1);
    for size in [(1 << 20) + 4096, 1 << 20] {
        let guest = Guest::stranger(&world.sockets[0], 0);
        assert!(guest.front_end.set_mem_table(&[region(0, size, &file)]).is_err(), "{size:x}");
    }
    let mut guest = Guest::stranger(&world.sockets[0], 0);
    guest.front_end.set_mem_table(&[region(0, 2 << 20, &file)]).expect("a whole page");
    file.set_len(0).expect("a file");
    let _ = guest.try_start(0);
    assert!(other.is_served());
    drop(guest);
    assert!(Guest::new(&world.sockets[0], 1).is_served());
}

#[test]
fn parts_of_pages_are_refused() {
    let world = VhostWorld::new(&Plan::default());
    let file = shared_file(1 << 20, MemfdFlags::empty()).unwrap();
    let whole = region(0, 8192, &file);
    let regions = [
        (true, whole),
        (true, vhost::VhostUserMemoryRegionInfo { mmap_offset: 4096, ..whole }),
        (false, vhost::VhostUserMemoryRegionInfo { mmap_offset: 512, ..whole }),
        (false, vhost::VhostUserMemoryRegionInfo { memory_size: 8191, ..whole }),
        (false, vhost::VhostUserMemoryRegionInfo { userspace_addr: HERE + 64, ..whole }),
    ];
    for (is_taken, region) in regions {
        let guest = Guest::stranger(&world.sockets[0], 0);
        assert_eq!(guest.front_end.set_mem_table(&[region]).is_ok(), is_taken, "{:x}", region.mmap_offset);
    }
}

#[test]
fn half_a_message_keeps_the_next_front_end_out_for_a_while_only() {
    let world = VhostWorld::new(&Plan::default());
    let mut half = UnixStream::connect(&world.sockets[0]).unwrap();
    half.write_all(&[1, 0, 0, 0]).unwrap();
    assert!(Guest::new(&world.sockets[0], 1).is_served());
    half.set_read_timeout(Some(patience())).unwrap();
    // The half that is never read makes the end of the connection a reset.
    let end = half.read(&mut [0]).map_err(|error| error.kind());
    assert!(matches!(end, Ok(0) | Err(ErrorKind::ConnectionReset)), "its connection is closed: {end:?}");
}

#[test]
fn a_front_end_that_reads_no_replies_keeps_the_next_one_out_for_a_while_only() {
    let world = VhostWorld::new(&Plan::default());
    let deaf = UnixStream::connect(&world.sockets[0]).unwrap();
    deaf.set_nonblocking(true).unwrap();
    // Requests for features, until neither these nor their replies have room.
    let request: Vec<u8> = [1, 1, 0].into_iter().flat_map(u32::to_ne_bytes).collect();
    while (&deaf).write(&request).is_ok() {}
    assert!(Guest::new(&world.sockets[0], 1).is_served());
}

#[test]
fn virtqueues_outside_of_memory_are_refused() {
    let world = VhostWorld::new(&Plan::default());
    for (tables, entries) in [
        (table_addresses(0, 0), ENTRIES),
        (table_addresses(0, u64::MAX - (256 << 10)), ENTRIES),
        (table_addresses(1023, HERE + (40 << 10)), 1024),
        (table_addresses(0, HERE + 1), ENTRIES),
    ] {
        let guest = Guest::stranger(&world.sockets[0], 0);
        let mut front_end = guest.front_end.clone();
        let steps = || {
            front_end.set_vring_num(0, entries)?;
            front_end.set_vring_addr(0, &tables)?;
            front_end.set_vring_kick(0, &EventFd::new(0).unwrap())?;
            front_end.set_vring_enable(0, true)
        };
        assert!({ steps }().is_err());
    }
    for entries in [0, 3, 2048] {
        let guest = Guest::stranger(&world.sockets[0], 0);
        assert!(guest.front_end.set_vring_num(0, entries).is_err(), "{entries} entries");
    }
    let guest = Guest::stranger(&world.sockets[0], 0);
    assert!(guest.front_end.set_vring_base(63, 0).is_ok());
    drop(guest);
    assert!(Guest::new(&world.sockets[0], 1).is_served());
}

#[test]
fn memory_that_is_not_there_is_refused() {
    let world = VhostWorld::new(&Plan::default());
    let file = shared_file(1 << 20, MemfdFlags::empty()).unwrap();
    for (guest_address, size) in [(0, 2 << 20), (0, 1 << 60), (u64::MAX - 4096, 1 << 20)] {
        let guest = Guest::stranger(&world.sockets[0], 0);
        let region = crate::guest::region(0, size, &file);
        let region = vhost::VhostUserMemoryRegionInfo { guest_phys_addr: guest_address, ..region };
        assert!(guest.front_end.set_mem_table(&[region]).is_err(), "{guest_address:x} {size:x}");
    }
    // Regions of which one is over the other.
    let guest = Guest::stranger(&world.sockets[0], 0);
    let region = crate::guest::region(0, 1 << 20, &file);
    assert!(guest.front_end.set_mem_table(&[region, region]).is_err());
    drop(guest);
    assert!(Guest::new(&world.sockets[0], 1).is_served());
}

#[test]
fn words_that_are_no_messages_end_their_connection_alone() {
    let world = VhostWorld::new(&Plan::default());
    let mut other = Guest::new(&world.sockets[1], 1);
    for words in [&[0xff; 64][..], &[1, 0, 0, 0, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f], &[0; 12], &[5; 3]] {
        let mut stream = UnixStream::connect(&world.sockets[0]).unwrap();
        stream.write_all(words).unwrap();
        assert!(other.is_served(), "while half a message waits");
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
    assert!(Guest::new(&world.sockets[0], 1).is_served());
}
