//! Memory that blocks travel through: page-aligned buffers in size classes, given out and taken back by a pool
//! that belongs to one thread. It does not limit who gets how many; its owner counts.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::limits::{BUFFER_LENGTH_MAX, BUFFER_LENGTH_MIN, POOL_KEPT_BYTES_MAX};

/// Buffers begin on a page, which is what O_DIRECT wants of every block device.
const ALIGNMENT: usize = 4096;

/// A page-aligned buffer. Its capacity is that of its size class, its length the one requested.
#[derive(Debug)]
pub struct Buffer {
    pointer: NonNull<u8>,
    length: usize,
    capacity: usize,
}

// SAFETY: a buffer owns its memory alone, as a `Box<[u8]>` does.
#[allow(unsafe_code)]
unsafe impl Send for Buffer {}

impl Buffer {
    /// A zeroed buffer of `length` bytes.
    ///
    /// # Panics
    /// When `length` is over `limits::BUFFER_LENGTH_MAX`.
    pub fn zeroed(length: usize) -> Self {
        let capacity = class_capacity(class_of(length));
        let layout = Self::layout(capacity);
        // SAFETY: the layout's size is not zero, since the smallest class is a page.
        #[allow(unsafe_code)]
        let pointer = unsafe { alloc_zeroed(layout) };
        let Some(pointer) = NonNull::new(pointer) else { handle_alloc_error(layout) };
        Self { pointer, length, capacity }
    }

    /// Changes the length, keeping the memory. Bytes past an earlier length are whatever was there.
    ///
    /// # Panics
    /// When `length` is over the capacity.
    pub fn set_length(&mut self, length: usize) {
        assert!(length <= self.capacity, "a buffer cannot outgrow its size class");
        self.length = length;
    }

    /// Bytes that a buffer of this length can hold.
    pub const fn capacity_for(length: usize) -> usize {
        class_capacity(class_of(length))
    }

    /// Bytes it can hold.
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity, ALIGNMENT).expect("a size class is a valid layout")
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the memory is allocated for `capacity >= length` bytes, was zeroed when allocated, and is ours.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts(self.pointer.as_ptr(), self.length)
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes this the only access.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.length)
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this very layout, and freed once.
        #[allow(unsafe_code)]
        unsafe {
            dealloc(self.pointer.as_ptr(), Self::layout(self.capacity));
        }
    }
}

const CLASSES: usize = class_of(BUFFER_LENGTH_MAX) + 1;

/// The size class that holds `length` bytes: powers of two from a page on.
const fn class_of(length: usize) -> usize {
    assert!(length <= BUFFER_LENGTH_MAX, "a buffer over the limit");
    let rounded = if length < BUFFER_LENGTH_MIN { BUFFER_LENGTH_MIN } else { length.next_power_of_two() };
    (rounded / BUFFER_LENGTH_MIN).trailing_zeros() as usize
}

const fn class_capacity(class: usize) -> usize {
    BUFFER_LENGTH_MIN << class
}

/// Buffers that are free, by size class. Taking one that is there allocates nothing.
#[derive(Debug, Default)]
pub struct BufferPool {
    free: [Vec<Buffer>; CLASSES],
    kept_bytes: usize,
}

impl BufferPool {
    /// An empty pool.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of free buffers.
    pub const fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// True if the pool has buffers of `length` bytes at all.
    pub const fn fits(length: usize) -> bool {
        length <= BUFFER_LENGTH_MAX
    }

    /// A buffer of `length` bytes, holding whatever its last user left there.
    ///
    /// # Panics
    /// When `length` is over `limits::BUFFER_LENGTH_MAX`.
    pub fn take(&mut self, length: usize) -> Buffer {
        match self.free[class_of(length)].pop() {
            Some(mut buffer) => {
                self.kept_bytes -= buffer.capacity();
                buffer.set_length(length);
                buffer
            }
            None => Buffer::zeroed(length),
        }
    }

    /// Takes a buffer back, and keeps it unless the pool holds enough already.
    pub fn give(&mut self, buffer: Buffer) {
        if self.kept_bytes + buffer.capacity() <= POOL_KEPT_BYTES_MAX {
            self.kept_bytes += buffer.capacity();
            self.free[class_of(buffer.capacity())].push(buffer);
        }
    }

    /// Gives all free memory back to the system.
    pub fn trim(&mut self) {
        self.free = Default::default();
        self.kept_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_say() {
        for length in [0, 1, 4095, 4096, 4097, 65_536, 65_537, BUFFER_LENGTH_MAX] {
            let buffer = Buffer::zeroed(length);
            assert_eq!(buffer.len(), length);
            assert!(buffer.capacity() >= length.max(BUFFER_LENGTH_MIN));
            assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
        }
    }

    #[test]
    fn a_pool_gives_back_what_it_took() {
        let mut pool = BufferPool::new();
        let buffer = pool.take(5000);
        let address = buffer.as_ptr();
        pool.give(buffer);
        let again = pool.take(8000);
        assert_eq!(again.as_ptr(), address, "5000 and 8000 bytes are of one class");
        assert_eq!(again.len(), 8000);
        pool.give(again);
        pool.trim();
        assert_eq!(pool.kept_bytes, 0);
    }
}
