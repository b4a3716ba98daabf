//! A hypervisor and its guest's driver in one: memory that is shared, virtqueues in it, and requests filled in by hand, right or
//! wrong.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use prerequisite::patience;
use rustix::fs::{MemfdFlags, memfd_create};
use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend as _};
use vhost::{VhostBackend as _, VhostUserMemoryRegionInfo, VringConfigData};
use virtio_bindings::virtio_blk as blk;
use vm_memory::{Bytes as _, FileOffset, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

pub(crate) const MEMORY_BYTES: u64 = 64 << 20;
/// Address of the guest's memory in the front end, which is never used.
pub(crate) const HERE: u64 = 0x7000_0000_0000;
/// Each virtqueue's tables are in a part of their own.
const RING_BYTES: u64 = 64 << 10;
const AVAILABLE: u64 = 16 << 10;
const USED: u64 = 32 << 10;
const HEADERS: u64 = 48 << 10;
/// Offset of the data.
pub(crate) const DATA: u64 = 1 << 20;
pub(crate) const ENTRIES: u16 = 128;

pub(crate) const NEXT: u16 = 1;
pub(crate) const WRITE: u16 = 2;
pub(crate) const INDIRECT: u16 = 4;

/// A descriptor: address, length, flags, next.
pub(crate) type Descriptor = (u64, u32, u16, u16);

pub(crate) struct Guest {
    pub(crate) front_end: Frontend,
    pub(crate) memory: GuestMemoryMmap<()>,
    pub(crate) file: File,
    pub(crate) features: u64,
    rings: Vec<Ring>,
}

struct Ring {
    kick: EventFd,
    call: EventFd,
    next_available: u16,
    next_used: u16,
}

impl Guest {
    /// A guest that has negotiated all that is offered, with this many virtqueues.
    pub(crate) fn new(socket: &Path, rings: usize) -> Self {
        let mut guest = Self::stranger(socket, 0);
        (0..rings).for_each(|ring| guest.start(ring));
        guest
    }

    /// Guest that has shared its memory, and has no virtqueues yet.
    pub(crate) fn stranger(socket: &Path, without: u64) -> Self {
        let mut front_end = Frontend::connect(socket, 64).expect("a connection");
        front_end.set_owner().expect("an owner");
        let features = front_end.get_features().expect("features") & !without;
        front_end.set_features(features).expect("features");
        let offered = front_end.get_protocol_features().expect("features of the protocol");
        let wanted = VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::BACKEND_REQ
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS
            | VhostUserProtocolFeatures::INFLIGHT_SHMFD;
        assert!(offered.contains(wanted), "{offered:?}");
        front_end.set_protocol_features(wanted).expect("features of the protocol");
        front_end.set_hdr_flags(vhost::vhost_user::message::VhostUserHeaderFlag::NEED_REPLY);
        let file = shared_file(MEMORY_BYTES, MemfdFlags::empty()).expect("a file");
        let memory = GuestMemoryMmap::from_ranges_with_files([(
            GuestAddress(0),
            MEMORY_BYTES as usize,
            Some(FileOffset::new(file.try_clone().expect("a descriptor"), 0)),
        )])
        .expect("memory");
        front_end.set_mem_table(&[region(0, MEMORY_BYTES, &file)]).expect("a table of memory");
        Self { front_end, memory, file, features, rings: Vec::new() }
    }

    /// Begins the next virtqueue.
    pub(crate) fn start(&mut self, ring: usize) {
        self.try_start(ring).expect("a virtqueue");
    }

    /// The same, if it is taken.
    pub(crate) fn try_start(&mut self, ring: usize) -> vhost::Result<()> {
        let kick = EventFd::new(EFD_NONBLOCK).expect("an eventfd");
        let call = EventFd::new(EFD_NONBLOCK).expect("an eventfd");
        let tables = table_addresses(ring, HERE);
        self.front_end.set_vring_num(ring, ENTRIES)?;
        self.front_end.set_vring_base(ring, 0)?;
        self.front_end.set_vring_addr(ring, &tables)?;
        self.front_end.set_vring_call(ring, &call)?;
        self.front_end.set_vring_kick(ring, &kick)?;
        self.front_end.set_vring_enable(ring, true)?;
        self.rings.push(Ring { kick, call, next_available: 0, next_used: 0 });
        Ok(())
    }

    pub(crate) fn config(&mut self) -> Vec<u8> {
        let empty = [0; 60];
        let (_, bytes) =
            self.front_end.get_config(0, 60, VhostUserConfigFlags::empty(), &empty).expect("a configuration");
        bytes
    }

    pub(crate) fn describe(&self, ring: usize, at: u16, (address, length, flags, next): Descriptor) {
        self.describe_at(ring_base(ring) + u64::from(at) * 16, (address, length, flags, next));
    }

    pub(crate) fn describe_at(&self, table_address: u64, (address, length, flags, next): Descriptor) {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&address.to_le_bytes());
        bytes[8..12].copy_from_slice(&length.to_le_bytes());
        bytes[12..14].copy_from_slice(&flags.to_le_bytes());
        bytes[14..].copy_from_slice(&next.to_le_bytes());
        self.memory.write_slice(&bytes, GuestAddress(table_address)).expect("a table");
    }

    /// Puts a request into a virtqueue, by its first descriptor.
    pub(crate) fn submit(&mut self, ring: usize, head: u16) {
        let next = self.rings[ring].next_available;
        let address = ring_base(ring) + AVAILABLE + 4 + u64::from(next % ENTRIES) * 2;
        self.memory.write_obj(head, GuestAddress(address)).expect("a ring");
        self.rings[ring].next_available = next.wrapping_add(1);
        self.set_available(ring, next.wrapping_add(1));
    }

    /// Says how many requests there have been, true or not.
    pub(crate) fn set_available(&self, ring: usize, index: u16) {
        let address = GuestAddress(ring_base(ring) + AVAILABLE + 2);
        self.memory.store(index, address, Ordering::Release).expect("a ring");
    }

    pub(crate) fn kick(&self, ring: usize) {
        self.rings[ring].kick.write(1).expect("a kick");
    }

    /// The next request that was given back: its first descriptor, and how much of it was filled.
    pub(crate) fn used(&mut self, ring: usize) -> (u32, u32) {
        self.try_used(ring, patience()).expect("a request that is given back")
    }

    /// The same, or nothing when it takes longer.
    pub(crate) fn try_used(&mut self, ring: usize, limit: Duration) -> Option<(u32, u32)> {
        let end = Instant::now() + limit;
        let base = ring_base(ring) + USED;
        // It wants to be notified of the next one (used_event).
        let next = self.rings[ring].next_used;
        let event = GuestAddress(ring_base(ring) + AVAILABLE + 4 + u64::from(ENTRIES) * 2);
        self.memory.store(next, event, Ordering::SeqCst).expect("a ring");
        while self.memory.load::<u16>(GuestAddress(base + 2), Ordering::Acquire).expect("a ring") == next {
            // What is not there yet is announced.
            while self.rings[ring].call.read().is_err() {
                if Instant::now() > end {
                    return None;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        self.rings[ring].next_used = next.wrapping_add(1);
        let entry = GuestAddress(base + 4 + u64::from(next % ENTRIES) * 8);
        let entry: u64 = self.memory.read_obj(entry).expect("a ring");
        Some((entry as u32, (entry >> 32) as u32))
    }

    /// True if it was notified since the last time that this was asked.
    pub(crate) fn was_notified(&self, ring: usize) -> bool {
        self.rings[ring].call.read().is_ok()
    }

    /// A request that was put into a virtqueue, before this process knew of it.
    pub(crate) fn was_submitted(&mut self, ring: usize) {
        self.rings[ring].next_available += 1;
    }

    /// Puts a request of a header, data and a status into a virtqueue, from descriptor `head` on.
    pub(crate) fn ask(&mut self, ring: usize, head: u16, kind: u32, sector: u64, data: (u64, u32)) {
        self.write_down(ring, head, kind, sector, data);
        self.submit(ring, head);
    }

    /// The same, without putting it there.
    pub(crate) fn write_down(&self, ring: usize, head: u16, kind: u32, sector: u64, data: (u64, u32)) {
        let header = ring_base(ring) + HEADERS + u64::from(head) * 32;
        let mut bytes = [0xff; 32];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].fill(0);
        bytes[8..16].copy_from_slice(&sector.to_le_bytes());
        self.memory.write_slice(&bytes, GuestAddress(header)).expect("a header");
        let is_filled = matches!(kind, blk::VIRTIO_BLK_T_IN | blk::VIRTIO_BLK_T_GET_ID);
        let flags = if is_filled { WRITE | NEXT } else { NEXT };
        let status = if data.1 > 0 { head + 2 } else { head + 1 };
        self.describe(ring, head, (header, 16, NEXT, head + 1));
        if data.1 > 0 {
            self.describe(ring, head + 1, (data.0, data.1, flags, head + 2));
        }
        self.describe(ring, status, (header + 16, 1, WRITE, 0));
    }

    pub(crate) fn status(&self, ring: usize, head: u16) -> u8 {
        let address = ring_base(ring) + HEADERS + u64::from(head) * 32 + 16;
        self.memory.read_obj(GuestAddress(address)).expect("a status")
    }

    /// A request from its beginning to its end: its status, and how much was filled.
    pub(crate) fn does(&mut self, kind: u32, sector: u64, data: (u64, u32)) -> (u8, u32) {
        self.ask(0, 0, kind, sector, data);
        self.kick(0);
        let (head, length) = self.used(0);
        assert_eq!(head, 0);
        (self.status(0, 0), length)
    }

    pub(crate) fn fill(&self, address: u64, bytes: &[u8]) {
        self.memory.write_slice(bytes, GuestAddress(address)).expect("memory");
    }

    pub(crate) fn bytes(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.memory.read_slice(&mut bytes, GuestAddress(address)).expect("memory");
        bytes
    }

    /// True once its connection has ended.
    pub(crate) fn front_end_is_gone(&mut self) -> bool {
        self.front_end.get_features().is_err()
    }

    /// True if its requests are still answered.
    pub(crate) fn is_served(&mut self) -> bool {
        self.ask(0, 0, blk::VIRTIO_BLK_T_FLUSH, 0, (0, 0));
        self.kick(0);
        self.try_used(0, patience()).is_some() && self.status(0, 0) == 0
    }
}

/// A file of memory, to be shared.
pub(crate) fn shared_file(bytes: u64, flags: MemfdFlags) -> std::io::Result<File> {
    let file = File::from(memfd_create("guest", flags | MemfdFlags::CLOEXEC)?);
    file.set_len(bytes)?;
    Ok(file)
}

pub(crate) fn region(guest: u64, size: u64, file: &File) -> VhostUserMemoryRegionInfo {
    VhostUserMemoryRegionInfo {
        guest_phys_addr: guest,
        memory_size: size,
        userspace_addr: HERE + guest,
        mmap_offset: 0,
        mmap_handle: file.as_raw_fd(),
    }
}

pub(crate) const fn ring_base(ring: usize) -> u64 {
    ring as u64 * RING_BYTES
}

/// The tables of a virtqueue, in memory that begins `here`.
pub(crate) fn table_addresses(ring: usize, here: u64) -> VringConfigData {
    let base = here + ring_base(ring);
    VringConfigData {
        queue_max_size: ENTRIES,
        queue_size: ENTRIES,
        flags: 0,
        desc_table_addr: base,
        used_ring_addr: base + USED,
        avail_ring_addr: base + AVAILABLE,
        log_addr: None,
    }
}
