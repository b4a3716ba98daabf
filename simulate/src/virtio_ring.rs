//! A virtqueue as a guest's driver lays it out and uses it: descriptors, the available ring and the used ring, in memory that it
//! shares with whatever process serves it. Each request that was made available comes back once.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use engine::simulation::{self, Random};

/// Bytes of the rings of a virtqueue, then of its indirect tables.
const RINGS_BYTES: u64 = 4096;
const TABLES_BYTES: u64 = 4096;
/// Bytes of one virtqueue's tables.
pub(crate) const QUEUE_BYTES: u64 = RINGS_BYTES + TABLES_BYTES;
/// Places within them.
const AT_AVAILABLE: u64 = 1024;
const AT_USED: u64 = 2048;
/// Bytes of a descriptor, and of an indirect table.
const DESCRIPTOR_BYTES: u64 = 16;
const TABLE_BYTES: u64 = 256;
/// Flags of descriptors.
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// A buffer of a request, by its address in the guest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) address: u64,
    pub(crate) length: u32,
    /// Set if the device fills it.
    pub(crate) is_writable: bool,
}

/// Memory of a guest: a file that the processes of its disk map.
#[derive(Debug)]
pub(crate) struct GuestMemory(pub(crate) File);

impl GuestMemory {
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) {
        if let Err(error) = self.0.read_exact_at(into, offset) {
            simulation::fail(format!("a guest's memory cannot be read: {error}"));
        }
    }

    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) {
        if let Err(error) = self.0.write_all_at(bytes, offset) {
            simulation::fail(format!("a guest's memory cannot be written: {error}"));
        }
    }

    fn word(&self, offset: u64) -> u16 {
        let mut bytes = [0; 2];
        self.read(offset, &mut bytes);
        u16::from_le_bytes(bytes)
    }

    fn set_word(&self, offset: u64, word: u16) {
        self.write(offset, &word.to_le_bytes());
    }
}

/// Size and form of virtqueues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingForm {
    pub(crate) entries: u16,
    /// Requests have tables of their own.
    pub(crate) is_indirect: bool,
    /// Either side says which entry it wants to be notified of (VIRTIO_RING_F_EVENT_IDX).
    pub(crate) has_event_index: bool,
    /// Position of both rings at the beginning.
    pub(crate) first: u16,
}

/// A virtqueue, by its place in the memory.
#[derive(Debug)]
pub(crate) struct VirtioRing {
    form: RingForm,
    at: u64,
    available: Cell<u16>,
    /// Position of the available ring at the last announcement.
    announced: Cell<u16>,
    last_used: Cell<u16>,
}

impl RingForm {
    /// Form of virtqueues for `depth` requests at a time, of three descriptors each.
    pub(crate) fn any(depth: usize, random: &mut Random) -> Self {
        let is_indirect = random.chance(500);
        let descriptors = if is_indirect { depth } else { 3 * depth };
        Self {
            entries: descriptors.next_power_of_two() as u16,
            is_indirect,
            has_event_index: random.chance(600),
            first: *random.pick(&[0, u16::MAX - 20, u16::MAX / 2]),
        }
    }
}

impl VirtioRing {
    /// Virtqueue whose tables begin there, where memory is empty.
    pub(crate) fn new(form: RingForm, at: u64, memory: &GuestMemory) -> Self {
        let first = form.first;
        memory.set_word(at + AT_AVAILABLE + 2, first);
        memory.set_word(at + AT_USED + 2, first);
        let new = Self {
            form,
            at,
            available: Cell::new(first),
            announced: Cell::new(first),
            last_used: Cell::new(first),
        };
        new.ask_for_notification(memory);
        new
    }

    pub(crate) const fn entries(&self) -> u16 {
        self.form.entries
    }

    /// Descriptors, available ring and used ring.
    pub(crate) const fn tables(&self) -> [u64; 3] {
        [self.at, self.at + AT_AVAILABLE, self.at + AT_USED]
    }

    /// Position of the used ring.
    pub(crate) fn used(&self, memory: &GuestMemory) -> u16 {
        memory.word(self.at + AT_USED + 2)
    }

    /// Makes a request available whose first descriptor is `heads[0]`. Where it has no table of its own, each segment takes one of
    /// these descriptors.
    pub(crate) fn publish(&self, memory: &GuestMemory, heads: &[u16], segments: &[Segment]) {
        let head = heads[0];
        if self.form.is_indirect {
            let table = self.at + RINGS_BYTES + u64::from(head) * TABLE_BYTES;
            for (at, segment) in segments.iter().enumerate() {
                let next = (at + 1 < segments.len()).then_some(at as u16 + 1);
                self.describe(memory, table + at as u64 * DESCRIPTOR_BYTES, segment, next);
            }
            let length = (segments.len() as u64 * DESCRIPTOR_BYTES) as u32;
            let place = self.at + u64::from(head) * DESCRIPTOR_BYTES;
            write_descriptor(memory, place, table, length, INDIRECT, 0);
        } else {
            for (at, (descriptor, segment)) in heads.iter().zip(segments).enumerate() {
                let place = self.at + u64::from(*descriptor) * DESCRIPTOR_BYTES;
                self.describe(memory, place, segment, heads.get(at + 1).copied());
            }
        }
        let available = self.available.get();
        let entry = u64::from(available % self.form.entries);
        memory.set_word(self.at + AT_AVAILABLE + 4 + 2 * entry, head);
        self.available.set(available.wrapping_add(1));
        memory.set_word(self.at + AT_AVAILABLE + 2, self.available.get());
    }

    fn describe(&self, memory: &GuestMemory, place: u64, segment: &Segment, next: Option<u16>) {
        let write = if segment.is_writable { WRITE } else { 0 };
        let flags = write | if next.is_some() { NEXT } else { 0 };
        write_descriptor(memory, place, segment.address, segment.length, flags, next.unwrap_or(0));
    }

    /// Descriptors that a request of this number of segments takes.
    pub(crate) const fn descriptors_of(&self, segments: usize) -> usize {
        if self.form.is_indirect { 1 } else { segments }
    }

    /// True if the device wants to know of what was made available since the last time that this was asked.
    pub(crate) fn is_to_announce(&self, memory: &GuestMemory) -> bool {
        let (old, new) = (self.announced.replace(self.available.get()), self.available.get());
        if old == new {
            return false;
        }
        if self.form.has_event_index {
            let event = memory.word(self.at + AT_USED + 4 + 8 * u64::from(self.form.entries));
            new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
        } else {
            memory.word(self.at + AT_USED) & 1 == 0
        }
    }

    /// Number of requests that the device has given back and that were not taken.
    pub(crate) fn unseen(&self, memory: &GuestMemory) -> u16 {
        self.used(memory).wrapping_sub(self.last_used.get())
    }

    /// Takes one that was given back: its head, and the bytes that were filled.
    pub(crate) fn take_used(&self, memory: &GuestMemory) -> (u32, u32) {
        let entry = u64::from(self.last_used.get() % self.form.entries);
        let mut bytes = [0; 8];
        memory.read(self.at + AT_USED + 4 + 8 * entry, &mut bytes);
        self.last_used.set(self.last_used.get().wrapping_add(1));
        let [a, b, c, d, e, f, g, h] = bytes;
        (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]))
    }

    /// Wants to be notified of the next one.
    pub(crate) fn ask_for_notification(&self, memory: &GuestMemory) {
        if self.form.has_event_index {
            let at = self.at + AT_AVAILABLE + 4 + 2 * u64::from(self.form.entries);
            memory.set_word(at, self.last_used.get());
        }
    }
}

fn write_descriptor(memory: &GuestMemory, place: u64, address: u64, length: u32, flags: u16, next: u16) {
    let mut bytes = [0; DESCRIPTOR_BYTES as usize];
    bytes[..8].copy_from_slice(&address.to_le_bytes());
    bytes[8..12].copy_from_slice(&length.to_le_bytes());
    bytes[12..14].copy_from_slice(&flags.to_le_bytes());
    bytes[14..].copy_from_slice(&next.to_le_bytes());
    memory.write(place, &bytes);
}
