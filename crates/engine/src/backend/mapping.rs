//! The address space of a memory: its blocks, where they can grow, zeroes to be read in place of blank ones, and what is known of
//! its pages and chunks. What is done with them is the memory's.

use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

#[cfg(not(feature = "simulation"))]
use rustix::mm::mmap;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::page_locks::{PageLocks, WORDS, Word};
use super::written_chunks::{CHUNK, WrittenChunks};

const PAGE: usize = 4096;
/// Bytes of zeroes.
pub(super) const BLANK: usize = CHUNK as usize;
/// Bytes of the pages' locks.
const LOCKS: usize = WORDS * size_of::<Word>();

/// Moves to a huge page (asm-generic/mman-common.h); libc has it for one C library alone.
#[cfg(not(feature = "simulation"))]
const MADV_COLLAPSE: libc::c_int = 25;

/// Result of moving a chunk to a huge page.
#[cfg(not(feature = "simulation"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Collapsed {
    /// The chunk is moved, or can never be.
    Done,
    /// The chunk was in use.
    Later,
}

/// In this order: zeroes, blocks, which chunks of them were written, locks, and which chunks have to be moved to huge pages. Blocks begin where a huge page can.
#[derive(Debug)]
pub(super) struct Mapping {
    blank: NonNull<c_void>,
    /// Bytes for blocks.
    room: usize,
    /// Address and length of the whole mapping.
    whole: (NonNull<c_void>, usize),
    /// Set if blocks are a file's, which other processes may map too.
    is_file: bool,
}

// SAFETY: blocks are reached by those who have their pages' locks, or by the kernel for them; all else is atomics.
#[allow(unsafe_code)]
unsafe impl Send for Mapping {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Room for this many bytes of blocks, whole pages of zeroes.
    ///
    /// # Errors
    /// When the address space is not available.
    pub(super) fn new(room: usize) -> io::Result<Self> {
        let table = Self::table_bytes(room);
        let sizes = [BLANK, room, table, LOCKS, table, CHUNK as usize];
        let bytes = sizes.into_iter().try_fold(0usize, usize::checked_add);
        let bytes = bytes.ok_or(io::ErrorKind::OutOfMemory)?;
        // Miri knows no other mapping, and gives no advice.
        let flags = if cfg!(miri) { MapFlags::PRIVATE } else { MapFlags::PRIVATE | MapFlags::NORESERVE };
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        #[allow(unsafe_code)]
        let whole = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags)? };
        let slack = whole.addr().wrapping_neg() % CHUNK as usize;
        // SAFETY: there is a chunk more than what is placed behind it.
        #[allow(unsafe_code)]
        let blank = unsafe { whole.cast::<u8>().add(slack).cast() };
        let [Some(whole), Some(blank)] = [whole, blank].map(NonNull::new) else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        Ok(Self { blank, room, whole: (whole, bytes), is_file: false })
    }

    /// Bytes of a file with blocks, and with which of them were written: both are one to all processes that have it.
    #[cfg(not(feature = "simulation"))]
    pub(super) const fn file_bytes(&self) -> u64 {
        (self.room + Self::table_bytes(self.room)) as u64
    }

    /// Puts a file of that length in place of the blocks.
    ///
    /// # Errors
    /// When the system refuses.
    #[cfg(not(feature = "simulation"))]
    pub(super) fn put(&mut self, file: &std::os::fd::OwnedFd) -> io::Result<()> {
        let (flags, protection) = (MapFlags::SHARED | MapFlags::FIXED, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: it replaces pages of our own mapping that no other thread has seen yet. The file
        // is sealed, and none of it goes.
        #[allow(unsafe_code)]
        unsafe {
            mmap(self.at(0).cast(), self.file_bytes() as usize, protection, flags, file, 0)?;
        }
        self.is_file = true;
        Ok(())
    }

    /// Asks for transparent huge pages, where the system has them to spare: random reads then miss the TLB less often.
    pub(super) fn advise(&self) {
        if cfg!(miri) {
            return;
        }
        // SAFETY: the advice concerns our own mapping and changes no contents.
        #[allow(unsafe_code)]
        unsafe {
            let _ = madvise(self.blank.as_ptr(), BLANK + self.room, Advice::LinuxHugepage);
        }
    }

    /// Bytes of blocks there are at most.
    pub(super) const fn room(&self) -> usize {
        self.room
    }

    /// Address of the block at this offset, which has to be within the room.
    pub(super) const fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.room, "an offset within the memory");
        // SAFETY: it lies within the mapping, which lasts as long as `self`.
        #[allow(unsafe_code)]
        unsafe {
            self.blank.as_ptr().cast::<u8>().add(BLANK + offset)
        }
    }

    /// [`BLANK`] zeroes, which are never written.
    pub(super) const fn blank(&self) -> *const u8 {
        self.blank.as_ptr().cast::<u8>().cast_const()
    }

    /// Returns whole pages to the system: they are zeroes afterwards. The caller has them alone.
    ///
    /// # Errors
    /// When the system refuses; they are as they were then.
    pub(super) fn release(&self, offset: usize, length: usize) -> io::Result<()> {
        assert!(offset <= self.room && length <= self.room - offset, "a range within the memory");
        let advice = if self.is_file { Advice::LinuxRemove } else { Advice::LinuxDontNeed };
        // SAFETY: whole pages of our own mapping, checked above. Private anonymous memory reads as zeroes afterwards, as a hole
        // of a file does, and it is only ever reached as atomics, for which zero is a value like any other.
        #[allow(unsafe_code)]
        unsafe {
            Ok(madvise(self.at(offset).cast(), length, advice)?)
        }
    }

    /// Chunks that were written.
    pub(super) fn written(&self) -> WrittenChunks<'_> {
        self.table(0)
    }

    /// These bytes are written from now on.
    pub(super) fn mark(&self, bytes: &Range<u64>) {
        for chunk in self.written().mark(bytes) {
            #[cfg(not(feature = "simulation"))]
            if self.is_file {
                self.mark_fresh(chunk);
                super::huge_pages::wake();
            }
            let _ = chunk;
        }
    }

    /// Takes the chunks that have to be moved to huge pages, for this caller alone.
    #[cfg(not(feature = "simulation"))]
    pub(super) fn take_fresh(&self) -> Vec<u64> {
        self.table(Self::table_bytes(self.room) + LOCKS).take()
    }

    /// A chunk has to be moved to a huge page.
    #[cfg(not(feature = "simulation"))]
    pub(super) fn mark_fresh(&self, chunk: u64) {
        self.table(Self::table_bytes(self.room) + LOCKS).set(chunk);
    }

    /// All chunks that were written have to be looked at.
    #[cfg(not(feature = "simulation"))]
    pub(super) fn mark_all_fresh(&self) {
        self.table(Self::table_bytes(self.room) + LOCKS).copy(self.written());
    }

    /// Moves a chunk to a huge page. It can be used meanwhile: who does waits until it is there.
    #[cfg(not(feature = "simulation"))]
    pub(super) fn collapse(&self, chunk: u64) -> Collapsed {
        let start = (chunk * CHUNK) as usize;
        if self.room < start + CHUNK as usize || !self.written().is_written(chunk) {
            return Collapsed::Done;
        }
        // SAFETY: whole pages of our own mapping. It changes no contents.
        #[allow(unsafe_code)]
        let answer = unsafe { libc::madvise(self.at(start).cast(), CHUNK as usize, MADV_COLLAPSE) };
        let is_busy = || {
            let reason = io::Error::last_os_error().raw_os_error();
            matches!(reason, Some(libc::EAGAIN | libc::EBUSY))
        };
        if answer != 0 && is_busy() { Collapsed::Later } else { Collapsed::Done }
    }

    /// A bit for each chunk, at this offset behind the blocks.
    fn table(&self, offset: usize) -> WrittenChunks<'_> {
        // SAFETY: the mapping has room for two of them behind the blocks; nothing else is there, and zero, as which they begin,
        // is a value like any other.
        #[allow(unsafe_code)]
        let words = unsafe {
            std::slice::from_raw_parts(
                self.at(self.room).add(offset).cast::<AtomicU64>(),
                WrittenChunks::words(self.room as u64),
            )
        };
        WrittenChunks::new(words)
    }

    /// Locks of the pages.
    pub(super) fn locks(&self) -> PageLocks<'_> {
        // SAFETY: as above, and behind those.
        #[allow(unsafe_code)]
        let words = unsafe { &*self.at(self.room).add(Self::table_bytes(self.room)).cast::<[Word; WORDS]>() };
        PageLocks::new(words)
    }

    /// Bytes that tell which of this many were written, in whole pages.
    const fn table_bytes(room: usize) -> usize {
        (WrittenChunks::words(room as u64) * size_of::<AtomicU64>()).next_multiple_of(PAGE)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let (whole, bytes) = self.whole;
        // SAFETY: mapped in `new` with this length, and nothing borrows it now.
        #[allow(unsafe_code)]
        let _ = unsafe { munmap(whole.as_ptr(), bytes) };
    }
}
