//! Blocks in memory that all reactors share, and the new process if this one is upgraded. Reads
//! leave it straight for the socket; writes are copied in, or large ones received. Nothing here is
//! durable.

mod writer;

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use nvme::tcp::digest::crc32c;

#[cfg(not(feature = "simulation"))]
use super::BackendError;
#[cfg(not(feature = "simulation"))]
use super::huge_pages;
use super::mapping::{BLANK, Mapping};
#[cfg(not(feature = "simulation"))]
use super::memory_file::MemoryFile;
#[cfg(not(feature = "simulation"))]
use super::memory_room::{self, Promise};
use super::page_locks::{PAGES_PER_WORD, PageLocks};
use super::written_chunks::CHUNK;
use crate::ring::Span;

pub use self::writer::Writer;

const WORD: usize = size_of::<u64>();
const PAGE: u64 = 4096;
/// Bytes locked and copied in one piece.
const PIECE: u64 = PAGES_PER_WORD * PAGE;
/// Growth limit of a memory, as a multiple of its first size, and the limit of even a small one.
const ROOM_TIMES: usize = 16;
const ROOM_MIN: usize = if cfg!(miri) { 1 << 20 } else { 64 << 30 };
/// From this many bytes on, zeroing gives the pages back instead of writing them.
const RELEASE_AT: u64 = if cfg!(miri) { u64::MAX } else { 64 << 10 };

/// Blocks in memory. A page is read or written under its lock, which makes a block always that of
/// one write. A lock in use is not waited for: the call returns the part that it could do, and the
/// caller comes again for the rest.
#[derive(Debug)]
pub struct Memory {
    mapping: Arc<Mapping>,
    length: AtomicUsize,
    /// The file that it is, if another process can have it.
    #[cfg(not(feature = "simulation"))]
    file: Option<MemoryFile>,
    #[cfg(not(feature = "simulation"))]
    promise: Promise,
    /// Remarks for the operator.
    remarks: Vec<String>,
}

/// Reference that keeps memory mapped while the network sends from it, or receives into it.
pub(crate) trait MemoryHolder {
    /// The memory.
    fn memory(&self) -> &Memory;

    /// True if data of a write that was admitted may go there now, without another look at it.
    fn takes_data(&self) -> bool;
}

impl Memory {
    /// `size` bytes of zeroes, a multiple of 8. Pages are taken from the system when they are first written.
    ///
    /// # Errors
    /// When the address space or the memory is not available.
    pub fn new(size: u64) -> io::Result<Self> {
        let length = whole_words(size)?;
        let length_in_pages = length.next_multiple_of(PAGE as usize);
        // Address space costs nothing where the system overcommits; where it does not, there is no room to grow.
        let room = length_in_pages.saturating_mul(ROOM_TIMES).max(ROOM_MIN);
        let mapping = Mapping::new(room).or_else(|_| Mapping::new(length_in_pages))?;
        #[cfg(not(feature = "simulation"))]
        let (mapping, file) = on_file(mapping)?;
        mapping.advise();
        let mapping = Arc::new(mapping);
        #[cfg(not(feature = "simulation"))]
        if file.is_some() {
            huge_pages::register(&mapping);
        }
        Ok(Self {
            mapping,
            length: AtomicUsize::new(length),
            #[cfg(not(feature = "simulation"))]
            file,
            #[cfg(not(feature = "simulation"))]
            promise: Promise::of(size),
            remarks: Vec::new(),
        })
    }

    /// Checks that the machine has room for all memory of this process once hosts have filled it.
    ///
    /// # Errors
    /// `BackendError::NoRoom` of bytes that it could never have.
    #[cfg(not(feature = "simulation"))]
    pub(super) fn within_room(mut self) -> Result<Self, BackendError> {
        self.remarks.extend(memory_room::check(0)?);
        Ok(self)
    }

    /// Remarks for the operator, a clause each.
    pub(super) fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// `size` bytes of a file that another process has made, with what it holds and with room for `room` bytes.
    ///
    /// # Errors
    /// When it is not such a file, or the address space is not available.
    #[cfg(not(feature = "simulation"))]
    pub fn adopt(size: u64, room: u64, file: std::os::fd::OwnedFd) -> io::Result<Self> {
        let length = whole_words(size)?;
        let has_room = |room: &usize| *room >= length && room.is_multiple_of(PAGE as usize);
        let Some(room) = usize::try_from(room).ok().filter(has_room) else {
            return Err(io::Error::other(format!("{size} bytes have no room in {room}")));
        };
        let mut mapping = Mapping::new(room)?;
        let file = MemoryFile::adopt(file, mapping.file_bytes())?;
        mapping.put(file.descriptor())?;
        mapping.advise();
        let mapping = Arc::new(mapping);
        huge_pages::register(&mapping);
        // What the old process has not moved yet, this one does; of all else it only has to map the huge pages.
        mapping.mark_all_fresh();
        huge_pages::wake();
        let (length, promise) = (AtomicUsize::new(length), Promise::of(size));
        Ok(Self { mapping, length, file: Some(file), promise, remarks: Vec::new() })
    }

    /// True if another process can map its blocks.
    pub const fn is_shareable(&self) -> bool {
        #[cfg(not(feature = "simulation"))]
        return self.file.is_some();
        // The simulation has one process.
        #[cfg(feature = "simulation")]
        return false;
    }

    /// The file with its blocks and the room it has, for the process that goes on in place of this one; `None` where its blocks
    /// are in this process alone.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    #[cfg(not(feature = "simulation"))]
    pub fn shared(&self) -> Option<io::Result<(u64, std::os::fd::OwnedFd)>> {
        let file = self.file.as_ref()?.descriptor();
        Some(file.try_clone().map(|file| (self.mapping.room() as u64, file)))
    }

    /// Bytes it holds.
    pub fn length(&self) -> u64 {
        self.length.load(Ordering::Relaxed) as u64
    }

    /// Makes it `size` bytes long, a multiple of 8. What it gains is zeroes; what it loses goes back to the system.
    ///
    /// # Errors
    /// When it would be larger than the address space that was reserved for it, or than the machine can ever hold.
    pub fn resize(&self, size: u64) -> io::Result<()> {
        let wanted = usize::try_from(size).ok().filter(|wanted| wanted.is_multiple_of(WORD));
        let Some(wanted) = wanted.filter(|wanted| *wanted > 0 && *wanted <= self.mapping.room()) else {
            let most = self.mapping.room();
            return Err(io::Error::other(format!("it was given room to grow to {most} bytes at most")));
        };
        #[cfg(not(feature = "simulation"))]
        if let Some(remark) = self.promise.change(size).map_err(io::Error::other)? {
            tracing::warn!("memory namespace of {size} bytes: {remark}");
        }
        let before = self.length.swap(wanted, Ordering::Relaxed) as u64;
        // Commands that were begun before may still reach a lost range: it stays mapped. Data that
        // such a command has written there is removed when the range is gained again.
        let (mut at, end) = (before.min(wanted as u64), before.max(wanted as u64));
        while at < end {
            at += self.zero(at, end - at);
            if at < end {
                // A reactor has a page for one send call at most.
                thread::yield_now();
            }
        }
        Ok(())
    }

    /// Prefetches the lock of the byte at `offset` before it is held or written: under random load
    /// most locks have left the caches, and waiting for one costs more than all the rest of
    /// locking.
    pub fn prefetch_lock(&self, offset: u64) {
        let lock = self.locks().word_of(offset / PAGE);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: it is a hint, and changes nothing.
        #[allow(unsafe_code)]
        unsafe {
            use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_ET0>(std::ptr::from_ref(lock).cast());
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = lock;
    }

    /// Takes the bytes from `offset` on to be read, up to a page that is being written; how many it has taken. They are to
    /// be given back with [`Self::release`]. Who `insists` has let a writer go first already.
    ///
    /// # Panics
    /// When they do not lie within the memory.
    pub(crate) fn hold(&self, offset: u64, length: usize, insists: bool) -> usize {
        self.check(offset, length);
        let pages = pages_of(offset, length as u64);
        let first = pages.start;
        let taken = self.locks().read(pages, insists);
        bytes_in(offset, length as u64, first + taken) as usize
    }

    /// Gives bytes back that were taken to be read.
    pub(crate) fn release(&self, offset: u64, length: usize) {
        self.locks().end_read(pages_of(offset, length as u64));
    }

    /// The bytes from `offset` on, to be sent by the kernel while they are held.
    ///
    /// # Panics
    /// When they do not lie within the memory.
    pub fn span(&self, offset: u64, length: usize) -> Span<'_> {
        let start = self.check(offset, length);
        // SAFETY: the range was checked, and the mapping lasts as long as `self`.
        #[allow(unsafe_code)]
        unsafe {
            Span::from_raw(self.readable(start, length), length)
        }
    }

    /// Copies the bytes from `offset` on into `bytes`. Their pages have to be held.
    ///
    /// # Panics
    /// When they do not lie within the memory.
    pub(crate) fn read_held(&self, offset: u64, bytes: &mut [u8]) {
        let start = self.check(offset, bytes.len());
        // SAFETY: the range was checked, and the mapping lasts as long as `self`. Pages that are
        // held are not written, and their last writer gave the locks back before. Going by words
        // made reads with digests a tenth fewer.
        #[allow(unsafe_code)]
        unsafe {
            let from = self.readable(start, bytes.len());
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len());
        }
    }

    /// The CRC32C of `length` bytes from `offset` on. Their pages have to be held.
    ///
    /// # Panics
    /// When they do not lie within the memory.
    pub(crate) fn crc32c_held(&self, offset: u64, length: usize) -> u32 {
        self.with_held(offset, length, crc32c)
    }

    /// Shows the bytes of pages that the caller holds, as long as it holds them.
    pub(crate) fn with_held<T>(&self, offset: u64, length: usize, look: impl FnOnce(&[u8]) -> T) -> T {
        let start = self.check(offset, length);
        // SAFETY: the range was checked, and the mapping lasts as long as `self`. Pages that are
        // held are not written.
        #[allow(unsafe_code)]
        look(unsafe { std::slice::from_raw_parts(self.readable(start, length), length) })
    }

    /// Copies the bytes from `offset` on into `bytes`, up to a page that is being written; how many it has copied.
    ///
    /// # Panics
    /// When they do not lie within the memory.
    pub fn read(&self, offset: u64, bytes: &mut [u8], insists: bool) -> usize {
        for piece in pieces(offset, bytes.len() as u64) {
            let (at, wanted) = ((piece.start - offset) as usize, (piece.end - piece.start) as usize);
            let held = self.hold(piece.start, wanted, insists);
            self.read_held(piece.start, &mut bytes[at..at + held]);
            self.release(piece.start, held);
            if held < wanted {
                return at + held;
            }
        }
        bytes.len()
    }

    /// True if the bytes from `offset` on are `bytes`; `None` if a page is being written before a
    /// difference is found.
    ///
    /// # Panics
    /// When they do not lie within the memory, or are not multiples of 8.
    pub fn equals(&self, offset: u64, bytes: &[u8], insists: bool) -> Option<bool> {
        for piece in pieces(offset, bytes.len() as u64) {
            let (at, wanted) = ((piece.start - offset) as usize, (piece.end - piece.start) as usize);
            let held = self.hold(piece.start, wanted, insists);
            let are_equal = self.equals_held(piece.start, &bytes[at..at + held]);
            self.release(piece.start, held);
            if !are_equal {
                return Some(false);
            }
            if held < wanted {
                return None;
            }
        }
        Some(true)
    }

    /// Copies `bytes` to `offset`, up to a page in use; returns the number copied.
    ///
    /// # Panics
    /// When they do not lie within the memory.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> usize {
        for piece in pieces(offset, bytes.len() as u64) {
            let (at, wanted) = ((piece.start - offset) as usize, (piece.end - piece.start) as usize);
            let writer = self.take(piece.start, wanted);
            let taken = writer.length;
            writer.write(&bytes[at..at + taken]);
            if taken < wanted {
                return at + taken;
            }
        }
        bytes.len()
    }

    /// Takes all of the bytes from `offset` on to be written; `None` if a page of them is in use.
    ///
    /// # Panics
    /// When they do not lie within the memory.
    pub fn writer(&self, offset: u64, length: usize) -> Option<Writer<'_>> {
        let writer = self.take(offset, length);
        (writer.length == length).then_some(writer)
    }

    /// Makes `length` bytes from `offset` on zeroes, up to a page in use; returns their number.
    /// Both are multiples of 8. Large ranges go back to the system.
    ///
    /// # Panics
    /// When they are not, or do not lie within the memory.
    pub fn zero(&self, offset: u64, length: u64) -> u64 {
        assert!(offset + length <= self.mapping.room() as u64, "a range within the memory");
        let mut at = offset;
        while at < offset + length {
            let wanted = (offset + length - at).min(CHUNK - at % CHUNK);
            let writer = self.take(at, wanted as usize);
            writer.zero();
            at += writer.length as u64;
            if (writer.length as u64) < wanted {
                break;
            }
        }
        at - offset
    }

    /// Takes the bytes from `offset` on to be written, up to a page in use.
    fn take(&self, offset: u64, length: usize) -> Writer<'_> {
        self.check(offset, length);
        let pages = pages_of(offset, length as u64);
        let first = pages.start;
        let taken = self.locks().write(pages);
        let length = bytes_in(offset, length as u64, first + taken) as usize;
        Writer { memory: self, offset, length }
    }

    fn equals_held(&self, offset: u64, bytes: &[u8]) -> bool {
        let start = self.check(offset, bytes.len());
        let words = self.words_at(start, self.readable(start, bytes.len()), bytes.len());
        words
            .iter()
            .zip(bytes.chunks_exact(WORD))
            .all(|(word, bytes)| word.load(Ordering::Relaxed).to_ne_bytes() == bytes)
    }

    fn fill(&self, offset: u64, length: u64) {
        for word in self.words(offset, length as usize) {
            word.store(0, Ordering::Relaxed);
        }
    }

    fn words(&self, offset: u64, length: usize) -> &[AtomicU64] {
        let start = self.check(offset, length);
        self.words_at(start, self.mapping.at(start), length)
    }

    /// These bytes, which are there as words.
    fn words_at(&self, start: usize, pointer: *const u8, length: usize) -> &[AtomicU64] {
        assert!(start.is_multiple_of(WORD) && length.is_multiple_of(WORD), "not a whole number of words");
        // SAFETY: the range was checked and is aligned, since blocks begin on a page. The caller
        // has the pages' locks, and no other thread copies at the same time.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts(pointer.cast::<AtomicU64>(), length / WORD)
        }
    }

    /// Address at which checked bytes of held pages can be read: their own, or that of zeroes if
    /// they are blank.
    fn readable(&self, start: usize, length: usize) -> *const u8 {
        let bytes = start as u64..(start + length) as u64;
        if length <= BLANK && self.mapping.written().are_blank(&bytes) {
            return self.mapping.blank();
        }
        self.mapping.at(start).cast_const()
    }

    fn locks(&self) -> PageLocks<'_> {
        self.mapping.locks()
    }

    fn check(&self, offset: u64, length: usize) -> usize {
        let start = usize::try_from(offset).expect("an offset within the memory");
        let room = self.mapping.room();
        assert!(start <= room && length <= room - start, "a range within the memory");
        start
    }
}

/// The same on a file, where the system has such files.
#[cfg(not(feature = "simulation"))]
fn on_file(mut mapping: Mapping) -> io::Result<(Mapping, Option<MemoryFile>)> {
    let file = MemoryFile::new(mapping.file_bytes()).ok();
    if let Some(file) = &file {
        mapping.put(file.descriptor())?;
    }
    Ok((mapping, file))
}

/// This many bytes, if they are words.
fn whole_words(size: u64) -> io::Result<usize> {
    let length = usize::try_from(size).ok().filter(|length| *length > 0 && length.is_multiple_of(WORD));
    length.filter(|length| *length <= usize::MAX - PAGE as usize).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "the size is not a whole number of blocks")
    })
}

/// True if these bytes are of one page, and so are held all or not at all.
pub(crate) const fn is_within_page(offset: u64, length: u64) -> bool {
    offset % PAGE + length <= PAGE
}

/// The pages that these bytes lie in.
const fn pages_of(offset: u64, length: u64) -> Range<u64> {
    if length == 0 { 0..0 } else { offset / PAGE..(offset + length).div_ceil(PAGE) }
}

/// Number of these bytes before the page `end`.
fn bytes_in(offset: u64, length: u64, end: u64) -> u64 {
    (end * PAGE).saturating_sub(offset).min(length)
}

/// These bytes in pieces, each of which is locked by one word.
fn pieces(offset: u64, length: u64) -> impl Iterator<Item = Range<u64>> {
    let (mut at, end) = (offset, offset + length);
    std::iter::from_fn(move || {
        let piece = at..end.min(at - at % PIECE + PIECE);
        at = piece.end;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_was_written_and_zeroes_the_rest() {
        let memory = Memory::new(1 << 20).expect("a megabyte");
        let block: Vec<u8> = (0..4096).map(|i| (i % 251) as u8).collect();
        assert_eq!(memory.write(8192, &block), 4096);
        assert_eq!(memory.equals(8192, &block, false), Some(true));
        assert_eq!(memory.equals(4096, &[0; 4096], false), Some(true));
        let mut back = vec![0; 4096];
        assert_eq!(memory.read(8192, &mut back, false), 4096);
        assert_eq!(back, block);
    }

    #[test]
    fn zeroing_touches_its_range_only() {
        let memory = Memory::new(1 << 20).expect("a megabyte");
        let ones = vec![1; 1 << 20];
        for (offset, length) in [(512, 512), (512, 200 << 10), (0, 1 << 20), (4096, 128 << 10)] {
            memory.write(0, &ones);
            assert_eq!(memory.zero(offset, length), length);
            let mut all = vec![0; 1 << 20];
            assert_eq!(memory.read(0, &mut all, false), all.len());
            let range = offset as usize..(offset + length) as usize;
            assert!(all.iter().enumerate().all(|(at, byte)| (*byte == 0) == range.contains(&at)));
        }
    }

    #[test]
    fn it_grows_by_zeroes_and_forgets_what_it_loses() {
        let memory = Memory::new(8192).expect("two pages");
        memory.write(4096, &[7; 4096]);
        memory.resize(4096).expect("shrinks");
        memory.resize(1 << 20).expect("grows");
        assert_eq!(memory.length(), 1 << 20);
        assert_eq!(memory.equals(4096, &[0; 4096], false), Some(true));
        assert!(memory.resize(u64::MAX - 7).is_err() && memory.resize(0).is_err());
    }

    #[test]
    fn a_late_write_behind_the_end_is_not_found_when_it_grows() {
        let memory = Memory::new(8192).expect("two pages");
        memory.resize(4096).expect("shrinks");
        assert_eq!(memory.write(4096, &[7; 4096]), 4096, "of a command that was begun before");
        memory.resize(8192).expect("grows");
        assert_eq!(memory.equals(4096, &[0; 4096], false), Some(true));
    }

    #[test]
    #[should_panic(expected = "within the memory")]
    fn a_range_past_the_end_is_refused() {
        let memory = Memory::new(4096).expect("a page");
        memory.span(memory.mapping.room() as u64 - 96, 200);
    }

    #[test]
    fn pages_are_not_written_while_they_are_sent_nor_read_while_they_are_written() {
        const LENGTH: usize = 64 << 10;
        let memory = Memory::new(1 << 20).expect("a megabyte");
        let (ones, twos) = (vec![1; LENGTH], vec![2; LENGTH]);
        assert_eq!(memory.write(0, &ones), LENGTH);
        // The block from 36 KiB on is being sent.
        assert_eq!(memory.hold(36 << 10, 4096, false), 4096);
        assert_eq!(memory.write(0, &twos), 36 << 10);
        assert_eq!(memory.zero(40 << 10, 4096), 4096);
        assert_eq!(memory.zero(32 << 10, 16 << 10), 4 << 10);
        assert!(memory.writer(38 << 10, 512).is_none() && memory.writer(35 << 10, 8192).is_none());
        let mut sent = vec![0; 4096];
        memory.read_held(36 << 10, &mut sent);
        assert!(sent.iter().all(|byte| *byte == 1));
        memory.release(36 << 10, 4096);
        let writer = memory.writer(33 << 10, 8192).expect("all is free");
        writer.write(&twos[..8192]);
        assert!(writer.equals(&twos[..8192]));
        let mut read = vec![0; LENGTH];
        assert_eq!(memory.read(0, &mut read, true), 32 << 10);
        assert_eq!(memory.hold(32 << 10, 512, true), 0);
        assert_eq!(memory.equals(32 << 10, &ones[..4096], true), None);
        assert_eq!(memory.equals(0, &ones, true), Some(false), "the difference comes before");
        assert_eq!(memory.equals(33 << 10, &[0; 0], true), Some(true));
        drop(writer);
        assert_eq!(memory.read(0, &mut read, true), LENGTH);
        assert_eq!(memory.hold(0, 1 << 20, false), 1 << 20);
        memory.release(0, 1 << 20);
    }
}
