//! Which requests of virtqueues are under way, in memory that the front end keeps: when a process dies that serves a guest, the
//! next one does again what was not answered, and nothing else.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use rustix::fs::{MemfdFlags, memfd_create};
use vhost::vhost_user::message::VhostUserInflight;
use vm_memory::{Bytes as _, MmapRegion, VolatileMemory as _};

use super::handed_front_end::HandedInflight;
use super::machine::{open_file, share_file};
use super::mapping_share::MappingShare;
use super::shared_mapping::SharedMapping;
use crate::limits::{VRING_ENTRIES_MAX, VRINGS_MAX};
use crate::machine::Descriptor;

/// Of the specification's layout for split virtqueues (vhost-user, inflight I/O tracking): a header, and a state for each
/// descriptor.
const HEADER_BYTES: usize = 16;
const STATE_BYTES: usize = 16;
/// Virtqueues begin so far apart.
const ALIGNMENT: usize = 64;
const VERSION: u16 = 1;

/// Fields of the header.
const AT_VERSION: usize = 8;
const AT_ENTRIES: usize = 10;
const AT_LAST_HEAD: usize = 12;
const AT_USED: usize = 14;
/// Fields of a state.
const AT_INFLIGHT: usize = 0;
const AT_COUNTER: usize = 8;

/// Memory that the front end keeps.
#[derive(Debug)]
struct Mapping {
    memory: MmapRegion<()>,
    // Dropped after the memory. What is lost of it reads as nothing under way.
    _shared: SharedMapping,
}

/// All virtqueues of a front end.
#[derive(Debug)]
pub(super) struct InflightRegion {
    mapping: Arc<Mapping>,
    vrings: usize,
    entries: u16,
    /// As the front end has described it.
    description: HandedInflight,
}

/// In-flight memory of a virtqueue.
#[derive(Debug)]
pub(super) struct InflightQueue {
    mapping: Arc<Mapping>,
    base: usize,
    entries: u16,
    /// Of the next request, by which their order is known.
    counter: u64,
}

const fn vring_bytes(entries: u16) -> usize {
    (HEADER_BYTES + STATE_BYTES * entries as usize).next_multiple_of(ALIGNMENT)
}

impl InflightRegion {
    /// Bytes for this many virtqueues, whatever number of entries they are going to have: QEMU 10 asks for 128, and then has 1024.
    /// `None` for more than there can be.
    pub(super) fn bytes_of_all(vrings: u16) -> Option<u64> {
        Self::bytes(vrings, VRING_ENTRIES_MAX)
    }

    /// The same where each has this many entries; `None` for more than there can be.
    fn bytes(vrings: u16, entries: u16) -> Option<u64> {
        let is_allowed =
            (1..=VRINGS_MAX).contains(&usize::from(vrings)) && (1..=VRING_ENTRIES_MAX).contains(&entries);
        is_allowed.then(|| (usize::from(vrings) * vring_bytes(entries)) as u64)
    }

    /// Memory where nothing is under way.
    pub(super) fn file(bytes: u64) -> io::Result<File> {
        let file = File::from(memfd_create("inflight", MemfdFlags::CLOEXEC)?);
        file.set_len(bytes)?;
        Ok(file)
    }

    /// Maps memory that a front end has kept.
    pub(super) fn map(
        description: &VhostUserInflight,
        file: File,
        share: &Arc<MappingShare>,
    ) -> io::Result<Self> {
        // By its size it is one of ours; others' have room for what is said of them.
        let is_ours = Self::bytes_of_all(description.num_queues) == Some(description.mmap_size);
        let entries = if is_ours { VRING_ENTRIES_MAX } else { description.queue_size };
        let bytes =
            Self::bytes(description.num_queues, entries).filter(|bytes| *bytes <= description.mmap_size);
        let bytes = bytes
            .ok_or_else(|| io::Error::other("the in-flight region has another size than its virtqueues"))?;
        let (memory, shared) = SharedMapping::new(file, description.mmap_offset, bytes, share)?;
        let mapping = Arc::new(Mapping { memory, _shared: shared });
        let (size, offset) = (description.mmap_size, description.mmap_offset);
        let (vrings, described_entries) = (description.num_queues, description.queue_size);
        let description = HandedInflight { size, offset, vrings, entries: described_entries };
        Ok(Self { mapping, vrings: vrings.into(), entries, description })
    }

    /// Description for another process, with its file.
    pub(super) fn handed(&self) -> io::Result<(HandedInflight, Descriptor)> {
        let file = self.mapping.memory.file_offset();
        let file = file.ok_or_else(|| io::Error::other("the in-flight region has no file"))?;
        Ok((self.description, share_file(file.file())?))
    }

    /// The same region in another process.
    pub(super) fn going_on(
        handed: HandedInflight,
        file: Descriptor,
        share: &Arc<MappingShare>,
    ) -> io::Result<Self> {
        let HandedInflight { size, offset, vrings, entries } = handed;
        Self::map(&VhostUserInflight::new(size, offset, vrings, entries), open_file(file)?, share)
    }

    /// The part of one virtqueue. Without it, requests would be done twice or never when a process dies that serves it.
    pub(super) fn vring(&self, index: usize, entries: u16) -> io::Result<InflightQueue> {
        if index >= self.vrings || entries > self.entries {
            return Err(io::Error::other(format!(
                "virtqueue {index} has {entries} entries, and the in-flight region is for {} virtqueues of {}",
                self.vrings, self.entries
            )));
        }
        let (mapping, base) = (self.mapping.clone(), index * vring_bytes(self.entries));
        Ok(InflightQueue { mapping, base, entries, counter: 0 })
    }
}

impl InflightQueue {
    // Its memory is as large as its size says, and the size was checked against the virtqueues: no access fails.

    fn get(&self, at: usize) -> u16 {
        self.mapping.memory.as_volatile_slice().load(self.base + at, Ordering::Acquire).unwrap_or_default()
    }

    fn set(&self, at: usize, value: u16) {
        let _ = self.mapping.memory.as_volatile_slice().store(value, self.base + at, Ordering::Release);
    }

    const fn state(head: u16) -> usize {
        HEADER_BYTES + STATE_BYTES * head as usize
    }

    fn is_inflight(&self, head: u16) -> bool {
        let at = self.base + Self::state(head) + AT_INFLIGHT;
        self.mapping.memory.as_volatile_slice().load::<u8>(at, Ordering::Acquire).unwrap_or_default() != 0
    }

    fn set_inflight(&self, head: u16, is_inflight: bool) {
        let at = self.base + Self::state(head) + AT_INFLIGHT;
        let _ = self.mapping.memory.as_volatile_slice().store(u8::from(is_inflight), at, Ordering::Release);
    }

    /// Requests under way, in their order, where the used ring is at `used`; `None` in memory that
    /// is new.
    pub(super) fn recover(&mut self, used: u16) -> Option<VecDeque<u16>> {
        if self.get(AT_VERSION) != VERSION {
            self.set(AT_ENTRIES, self.entries);
            self.set(AT_USED, used);
            self.set(AT_VERSION, VERSION);
            return None;
        }
        // The process that died had answered a request, and not yet recorded it here.
        if self.get(AT_USED) != used {
            let last = self.get(AT_LAST_HEAD);
            if last < self.entries {
                self.set_inflight(last, false);
            }
            self.set(AT_USED, used);
        }
        let heads = (0..self.entries).filter(|head| self.is_inflight(*head));
        let counter = |head: u16| {
            let at = self.base + Self::state(head) + AT_COUNTER;
            self.mapping.memory.as_volatile_slice().load::<u64>(at, Ordering::Acquire).unwrap_or_default()
        };
        let mut heads: Vec<(u64, u16)> = heads.map(|head| (counter(head), head)).collect();
        heads.sort_unstable();
        self.counter = heads.last().map_or(0, |(counter, _)| counter.wrapping_add(1));
        Some(heads.into_iter().map(|(_, head)| head).collect())
    }

    /// A request is taken.
    pub(super) fn begin(&mut self, head: u16) {
        if head >= self.entries {
            return;
        }
        let at = self.base + Self::state(head) + AT_COUNTER;
        let _ = self.mapping.memory.as_volatile_slice().store(self.counter, at, Ordering::Release);
        self.counter = self.counter.wrapping_add(1);
        self.set_inflight(head, true);
    }

    /// A request is about to be given back.
    pub(super) fn before_used(&mut self, head: u16) {
        self.set(AT_LAST_HEAD, head);
        fence(Ordering::SeqCst);
    }

    /// Records that the descriptor was given back.
    pub(super) fn after_used(&mut self, head: u16, used: u16) {
        if head < self.entries {
            self.set_inflight(head, false);
        }
        fence(Ordering::SeqCst);
        self.set(AT_USED, used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(description: &VhostUserInflight, file: &File) -> io::Result<InflightRegion> {
        InflightRegion::map(description, file.try_clone().unwrap(), &MappingShare::new())
    }

    fn queue(file: &File) -> InflightQueue {
        let description = VhostUserInflight::new(InflightRegion::bytes(2, 8).unwrap(), 0, 2, 8);
        map(&description, file).unwrap().vring(1, 8).unwrap()
    }

    #[test]
    fn what_was_not_answered_is_done_again_in_order() {
        let file = InflightRegion::file(InflightRegion::bytes(2, 8).unwrap()).unwrap();
        let mut first = queue(&file);
        assert_eq!(first.recover(7), None);
        [5, 1, 3, 2].into_iter().for_each(|head| first.begin(head));
        first.before_used(1);
        first.after_used(1, 8);
        // It dies after the guest was notified, and before this memory was updated.
        first.before_used(2);
        let mut second = queue(&file);
        assert_eq!(second.recover(9), Some([5, 3].into()));
        second.begin(0);
        assert_eq!(queue(&file).recover(9), Some([5, 3, 0].into()));
        // A guest that was started again has new rings.
        [5, 3, 0].into_iter().for_each(|head| second.after_used(head, 9));
        assert_eq!(queue(&file).recover(0), Some([].into()));
    }

    #[test]
    fn what_was_about_to_be_given_back_is_done_again_unless_the_guest_has_it() {
        let file = InflightRegion::file(InflightRegion::bytes(2, 8).unwrap()).unwrap();
        let mut first = queue(&file);
        assert_eq!(first.recover(7), None);
        [5, 1].into_iter().for_each(|head| first.begin(head));
        first.before_used(5);
        // It dies before the used ring has the request, or else before this memory was updated.
        assert_eq!(queue(&file).recover(7), Some([5, 1].into()));
        assert_eq!(queue(&file).recover(8), Some([1].into()));
    }

    #[test]
    fn virtqueues_have_more_entries_than_they_were_said_to_have() {
        let bytes = InflightRegion::bytes_of_all(2).unwrap();
        let file = InflightRegion::file(bytes).unwrap();
        let map = |bytes| map(&VhostUserInflight::new(bytes, 0, 2, 8), &file).unwrap();
        let ours = map(bytes);
        let mut last = ours.vring(1, VRING_ENTRIES_MAX).unwrap();
        assert_eq!(last.recover(0), None);
        last.begin(VRING_ENTRIES_MAX - 1);
        let again = ours.vring(1, VRING_ENTRIES_MAX).unwrap().recover(0);
        assert_eq!(again, Some([VRING_ENTRIES_MAX - 1].into()));
        assert_eq!(ours.vring(0, VRING_ENTRIES_MAX).unwrap().recover(0), None, "the parts are apart");
        assert!(ours.vring(2, 8).is_err());
        // Another back end's memory has other places.
        let other = map(InflightRegion::bytes(2, 8).unwrap());
        assert!(other.vring(1, 8).is_ok() && other.vring(1, 16).is_err());
    }

    #[test]
    fn memory_that_is_too_small_is_refused() {
        let file = InflightRegion::file(4096).unwrap();
        for (bytes, offset, vrings, entries) in
            [(4096, 0, 64, 1024), (64, 0, 1, 8), (4096, 4096, 1, 8), (1 << 40, 0, 64, 1024), (4096, 0, 65, 1)]
        {
            let description = VhostUserInflight::new(bytes, offset, vrings, entries);
            assert!(map(&description, &file).is_err(), "{bytes} {offset}");
        }
    }
}
