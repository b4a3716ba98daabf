//! Blocks in anonymous memory that all reactors share. Reads leave it straight for the socket; writes are copied in.
//! Nothing here is durable.

use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::ring::Span;

const WORD: usize = size_of::<u64>();
const PAGE: u64 = 4096;
/// How much larger than it begins a memory may become, and what even a small one may.
const RESERVED_TIMES: usize = 16;
const RESERVED_MIN: usize = 64 << 30;
/// From this many bytes on, zeroing gives the pages back instead of writing them.
const RELEASE_AT: u64 = 64 << 10;

/// A stretch of anonymous memory. Blocks are multiples of 8 bytes, so all of it is reached as 64-bit atomics: two
/// hosts that write one block at the same time mix their words, as two writers of a disk may, and never more.
#[derive(Debug)]
pub struct Memory {
    pointer: NonNull<c_void>,
    length: AtomicUsize,
    /// Bytes of address space that are ours, so that it can grow where it is.
    reserved: usize,
}

// SAFETY: the memory is reached as atomics only, or by the kernel.
#[allow(unsafe_code)]
unsafe impl Send for Memory {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Memory {}

impl Memory {
    /// `size` bytes of zeroes, a multiple of 8. Pages are taken from the system when they are first written.
    ///
    /// # Errors
    /// When the address space or the memory is not to be had.
    pub fn new(size: u64) -> io::Result<Self> {
        let length = usize::try_from(size).ok().filter(|length| *length > 0 && length.is_multiple_of(WORD));
        let Some(length) = length else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the size is no whole number of blocks"));
        };
        let (protection, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        let map = |bytes: usize| {
            // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
            #[allow(unsafe_code)]
            unsafe {
                mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags)
            }
        };
        // Address space costs nothing where the system overcommits; where it does not, there is no room to grow.
        let reserved = length.saturating_mul(RESERVED_TIMES).max(RESERVED_MIN);
        let (pointer, reserved) = match map(reserved) {
            Ok(pointer) => (pointer, reserved),
            Err(_) => (map(length)?, length),
        };
        let pointer = NonNull::new(pointer).ok_or(io::ErrorKind::OutOfMemory)?;
        // Transparent huge pages where the system has them to spare: random reads then miss the TLB less often.
        // SAFETY: the advice concerns our own new mapping and changes no contents.
        #[allow(unsafe_code)]
        let _ = unsafe { madvise(pointer.as_ptr(), reserved, Advice::LinuxHugepage) };
        Ok(Self { pointer, length: AtomicUsize::new(length), reserved })
    }

    /// Bytes it holds.
    pub fn length(&self) -> u64 {
        self.length.load(Ordering::Relaxed) as u64
    }

    /// Makes it `size` bytes long, a multiple of 8. What it gains is zeroes; what it loses goes back to the system.
    ///
    /// # Errors
    /// When it would be larger than the address space that was reserved for it.
    pub fn resize(&self, size: u64) -> io::Result<()> {
        let wanted = usize::try_from(size).ok().filter(|wanted| wanted.is_multiple_of(WORD));
        let Some(wanted) = wanted.filter(|wanted| *wanted > 0 && *wanted <= self.reserved) else {
            let most = self.reserved;
            return Err(io::Error::other(format!("it was given room to grow to {most} bytes at most")));
        };
        let before = self.length.swap(wanted, Ordering::Relaxed);
        if wanted < before {
            // Commands that were begun before may still reach the range: it stays mapped.
            self.zero_within(wanted as u64, (before - wanted) as u64, before);
        }
        Ok(())
    }

    /// The bytes from `offset` on, to be sent by the kernel.
    ///
    /// # Panics
    /// When they do not lie within the memory.
    pub fn span(&self, offset: u64, length: usize) -> Span<'_> {
        let start = self.check(offset, length);
        // SAFETY: the range was checked, and the mapping lasts as long as `self`.
        #[allow(unsafe_code)]
        unsafe {
            Span::from_raw(self.pointer.as_ptr().cast::<u8>().add(start), length)
        }
    }

    /// Copies `bytes` to `offset`; both are multiples of 8.
    ///
    /// # Panics
    /// When they are not, or do not lie within the memory.
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        let words = self.words(offset, bytes.len());
        for (word, bytes) in words.iter().zip(bytes.chunks_exact(WORD)) {
            let value = u64::from_ne_bytes(bytes.try_into().expect("a chunk is a word"));
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Copies the bytes from `offset` on into `bytes`; both are multiples of 8.
    ///
    /// # Panics
    /// When they are not, or do not lie within the memory.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) {
        let words = self.words(offset, bytes.len());
        for (word, bytes) in words.iter().zip(bytes.chunks_exact_mut(WORD)) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
    }

    /// Whether the bytes from `offset` on are `bytes`.
    ///
    /// # Panics
    /// When they do not lie within the memory, or are no multiples of 8.
    pub fn equals(&self, offset: u64, bytes: &[u8]) -> bool {
        let words = self.words(offset, bytes.len());
        words
            .iter()
            .zip(bytes.chunks_exact(WORD))
            .all(|(word, bytes)| word.load(Ordering::Relaxed).to_ne_bytes() == bytes)
    }

    /// Makes `length` bytes from `offset` on zeroes; both are multiples of 8. Large ranges go back to the system.
    ///
    /// # Panics
    /// When they are not, or do not lie within the memory.
    pub fn zero(&self, offset: u64, length: u64) {
        self.zero_within(offset, length, self.reserved);
    }

    fn zero_within(&self, offset: u64, length: u64, limit: usize) {
        assert!(offset + length <= limit as u64, "a range within the memory");
        let end = offset + length;
        let (first, last) = (offset.next_multiple_of(PAGE), end - end % PAGE);
        if length < RELEASE_AT || first >= last {
            return self.fill(offset, length);
        }
        self.fill(offset, first - offset);
        self.fill(last, end - last);
        let start = self.check(first, (last - first) as usize);
        // SAFETY: whole pages of our own mapping, checked above. Private anonymous memory reads as zeroes afterwards,
        // and it is only ever reached as atomics, for which zero is a value like any other.
        #[allow(unsafe_code)]
        let released = unsafe {
            let pointer = self.pointer.as_ptr().cast::<u8>().add(start).cast();
            madvise(pointer, (last - first) as usize, Advice::LinuxDontNeed)
        };
        if released.is_err() {
            self.fill(first, last - first);
        }
    }

    fn fill(&self, offset: u64, length: u64) {
        for word in self.words(offset, length as usize) {
            word.store(0, Ordering::Relaxed);
        }
    }

    fn words(&self, offset: u64, length: usize) -> &[AtomicU64] {
        let start = self.check(offset, length);
        assert!(start.is_multiple_of(WORD) && length.is_multiple_of(WORD), "not a whole number of words");
        // SAFETY: the range was checked and is aligned, since the mapping begins on a page. Memory is never reached in
        // another way than as atomics while the process can see it.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts(
                self.pointer.as_ptr().cast::<u8>().add(start).cast::<AtomicU64>(),
                length / WORD,
            )
        }
    }

    fn check(&self, offset: u64, length: usize) -> usize {
        let start = usize::try_from(offset).expect("an offset within the memory");
        assert!(start <= self.reserved && length <= self.reserved - start, "a range within the memory");
        start
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, and nothing borrows it any more.
        #[allow(unsafe_code)]
        let _ = unsafe { munmap(self.pointer.as_ptr(), self.reserved) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_was_written_and_zeroes_the_rest() {
        let memory = Memory::new(1 << 20).expect("a megabyte");
        let block: Vec<u8> = (0..4096).map(|i| (i % 251) as u8).collect();
        memory.write(8192, &block);
        assert!(memory.equals(8192, &block));
        assert!(memory.equals(4096, &[0; 4096]));
        let mut back = vec![0; 4096];
        memory.read(8192, &mut back);
        assert_eq!(back, block);
    }

    #[test]
    fn zeroing_touches_its_range_only() {
        let memory = Memory::new(1 << 20).expect("a megabyte");
        let ones = vec![1; 1 << 20];
        for (offset, length) in [(512, 512), (512, 200 << 10), (0, 1 << 20), (4096, 128 << 10)] {
            memory.write(0, &ones);
            memory.zero(offset, length);
            let mut all = vec![0; 1 << 20];
            memory.read(0, &mut all);
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
        assert!(memory.equals(4096, &[0; 4096]));
        assert!(memory.resize(u64::MAX - 7).is_err() && memory.resize(0).is_err());
    }

    #[test]
    #[should_panic(expected = "within the memory")]
    fn a_range_past_the_end_is_refused() {
        let memory = Memory::new(4096).expect("a page");
        memory.span(memory.reserved as u64 - 96, 200);
    }
}
