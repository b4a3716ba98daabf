//! The buffers of one request in a guest's memory, as its driver lists them. What a descriptor says is not believed: addresses
//! are checked when bytes are copied, and a list has an end.

use virtio_queue::desc::split::Descriptor;
use vm_memory::{Address as _, Bytes as _, GuestAddress};

use super::guest_memory::Memory;
use crate::limits::SEGMENTS_MAX;

/// Descriptors of one request: its data's, its header's and its status'.
const DESCRIPTORS_MAX: usize = SEGMENTS_MAX + 2;

/// Bytes of a descriptor.
const DESCRIPTOR_BYTES: u64 = size_of::<Descriptor>() as u64;

/// A list that no driver makes, or an address that is not in the guest's memory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadChain;

/// Buffers that follow each other.
#[derive(Debug, Default)]
pub(super) struct Segments {
    list: Vec<(GuestAddress, u32)>,
    bytes: u64,
}

/// The buffers of a request: those that it brings, and those that are to be filled.
#[derive(Debug, Default)]
pub(super) struct Chain {
    pub(super) readable: Segments,
    pub(super) writable: Segments,
}

impl Segments {
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    fn clear(&mut self) {
        self.list.clear();
        self.bytes = 0;
    }

    fn push(&mut self, descriptor: &Descriptor) {
        self.list.push((descriptor.addr(), descriptor.len()));
        self.bytes += u64::from(descriptor.len());
    }

    /// The pieces that `length` bytes from `offset` on are made of: where each is in memory, and in the bytes.
    fn pieces(
        &self,
        offset: u64,
        length: usize,
    ) -> impl Iterator<Item = Result<(GuestAddress, std::ops::Range<usize>), BadChain>> {
        let (mut skip, mut done) = (offset, 0);
        self.list.iter().filter_map(move |&(address, size)| {
            let size = u64::from(size);
            if skip >= size || done == length {
                skip = skip.saturating_sub(size);
                return None;
            }
            let count = (size - skip).min((length - done) as u64) as usize;
            let range = done..done + count;
            let at = address.checked_add(std::mem::take(&mut skip));
            done += count;
            Some(at.map(|at| (at, range)).ok_or(BadChain))
        })
    }

    /// Copies bytes out of the guest's memory.
    pub(super) fn read(&self, memory: &Memory, offset: u64, into: &mut [u8]) -> Result<(), BadChain> {
        self.check(offset, into.len())?;
        for piece in self.pieces(offset, into.len()) {
            let (address, range) = piece?;
            memory.read_slice(&mut into[range], address).map_err(|_| BadChain)?;
        }
        if memory.is_whole() { Ok(()) } else { Err(BadChain) }
    }

    /// Copies bytes into the guest's memory.
    pub(super) fn write(&self, memory: &Memory, offset: u64, from: &[u8]) -> Result<(), BadChain> {
        self.check(offset, from.len())?;
        for piece in self.pieces(offset, from.len()) {
            let (address, range) = piece?;
            memory.write_slice(&from[range], address).map_err(|_| BadChain)?;
        }
        Ok(())
    }

    fn check(&self, offset: u64, length: usize) -> Result<(), BadChain> {
        let end = offset.checked_add(length as u64).ok_or(BadChain)?;
        if end <= self.bytes { Ok(()) } else { Err(BadChain) }
    }
}

impl Chain {
    /// Takes the buffers of a request instead of those it had: those that a table lists from `head` on, or other tables that it
    /// refers to.
    pub(super) fn take(
        &mut self,
        memory: &Memory,
        (mut table, entries): (GuestAddress, u16),
        head: u16,
    ) -> Result<(), BadChain> {
        self.readable.clear();
        self.writable.clear();
        let (mut entries, mut at, mut is_indirect) = (u32::from(entries), head, false);
        // One more, which refers to a table.
        for _ in 0..=DESCRIPTORS_MAX {
            if u32::from(at) >= entries {
                return Err(BadChain);
            }
            let address = table.checked_add(u64::from(at) * DESCRIPTOR_BYTES).ok_or(BadChain)?;
            let descriptor: Descriptor = memory.read_obj(address).map_err(|_| BadChain)?;
            if descriptor.refers_to_indirect_table() {
                if is_indirect || !u64::from(descriptor.len()).is_multiple_of(DESCRIPTOR_BYTES) {
                    return Err(BadChain);
                }
                (table, entries) = (descriptor.addr(), descriptor.len() / DESCRIPTOR_BYTES as u32);
                (at, is_indirect) = (0, true);
                continue;
            }
            match descriptor.is_write_only() {
                true => self.writable.push(&descriptor),
                false if !self.writable.list.is_empty() => return Err(BadChain),
                false => self.readable.push(&descriptor),
            }
            if !descriptor.has_next() {
                return Ok(());
            }
            at = descriptor.next();
        }
        Err(BadChain)
    }
}
