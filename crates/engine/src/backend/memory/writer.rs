//! Pages of a memory that one writer has alone: their locks are taken before, and given back with it.

use super::{Memory, PAGE, RELEASE_AT, pages_of};
use crate::ring::SpanMut;

/// Pages that its owner alone may write, until it is dropped.
#[derive(Debug)]
pub struct Writer<'a> {
    pub(super) memory: &'a Memory,
    pub(super) offset: u64,
    pub(super) length: usize,
}

impl Writer<'_> {
    /// Copies `bytes` to where it begins.
    ///
    /// # Panics
    /// When it has room for less.
    pub fn write(&self, bytes: &[u8]) {
        self.write_at(0, bytes);
    }

    /// Copies `bytes` to `at` bytes behind where it begins.
    ///
    /// # Panics
    /// When it has room for less.
    pub(crate) fn write_at(&self, at: usize, bytes: &[u8]) {
        let to = self.written(at, bytes.len());
        // SAFETY: the range was checked, and the mapping lasts as long as the memory is borrowed.
        // This has the locks of its pages alone, and their former users gave them back before.
        #[allow(unsafe_code)]
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }

    /// Room for `length` bytes from `at` on, to receive into.
    ///
    /// # Panics
    /// When it has less.
    pub(crate) fn room(&mut self, at: usize, length: usize) -> SpanMut<'_> {
        let to = self.written(at, length);
        // SAFETY: as above, and by the mutable borrow nothing else is done with it meanwhile.
        #[allow(unsafe_code)]
        unsafe {
            SpanMut::from_raw(to, length)
        }
    }

    /// Address of `length` bytes from `at` on, which are written now.
    fn written(&self, at: usize, length: usize) -> *mut u8 {
        assert!(at <= self.length && length <= self.length - at, "what was taken is written, and no more");
        let begin = self.offset + at as u64;
        let start = self.memory.check(begin, length);
        self.memory.mapping.mark(&(begin..begin + length as u64));
        self.memory.mapping.at(start)
    }

    /// True if the bytes there are `bytes`.
    pub fn equals(&self, bytes: &[u8]) -> bool {
        self.memory.equals_held(self.offset, bytes)
    }

    /// Makes all of it zeroes.
    pub(super) fn zero(&self) {
        let (memory, offset, length) = (self.memory, self.offset, self.length as u64);
        let (end, written) = (offset + length, memory.mapping.written());
        if written.are_blank(&(offset..end)) {
            return;
        }
        let (first, last) = (offset.next_multiple_of(PAGE), end - end % PAGE);
        if length < RELEASE_AT || first >= last {
            return memory.fill(offset, length);
        }
        memory.fill(offset, first - offset);
        memory.fill(last, end - last);
        let start = memory.check(first, (last - first) as usize);
        if memory.mapping.release(start, (last - first) as usize).is_err() {
            memory.fill(first, last - first);
        }
        written.clear(&(offset..end));
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        self.memory.locks().end_write(pages_of(self.offset, self.length as u64));
    }
}
