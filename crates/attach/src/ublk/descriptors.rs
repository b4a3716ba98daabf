//! The descriptors of a queue's requests, in memory that the driver writes and this process reads.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::param::page_size;

use super::driver::{IoDescriptor, descriptors_bytes, descriptors_offset};

pub(super) struct Descriptors {
    first: NonNull<c_void>,
    bytes: usize,
    depth: u16,
}

impl Descriptors {
    /// Maps the descriptors of a queue of `/dev/ublkcN`.
    pub(super) fn map(device: &File, queue: u16, depth: u16) -> io::Result<Self> {
        let page = page_size();
        let (bytes, offset) = (descriptors_bytes(depth.into(), page), descriptors_offset(queue, page));
        // SAFETY: the system chooses the address, so that nothing else of this process lies there.
        #[allow(unsafe_code)]
        let mapped = unsafe {
            mmap(
                ptr::null_mut(),
                bytes,
                ProtFlags::READ,
                MapFlags::SHARED | MapFlags::POPULATE,
                device,
                offset,
            )
        }?;
        let first = NonNull::new(mapped).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { first, bytes, depth })
    }

    /// Descriptor of a tag's request, which the driver has written before it announces the request.
    pub(super) fn get(&self, tag: u16) -> Option<IoDescriptor> {
        if tag >= self.depth {
            return None;
        }
        // SAFETY: the mapping begins on a page and holds `depth` descriptors, of which this is one; any bytes are a descriptor.
        // The driver may write it at any time, hence a volatile read; it does not while the request is under way.
        #[allow(unsafe_code)]
        let descriptor =
            unsafe { ptr::read_volatile(self.first.cast::<IoDescriptor>().as_ptr().add(usize::from(tag))) };
        Some(descriptor)
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: this is the mapping, and there is no reference into it: descriptors are copied.
        #[allow(unsafe_code)]
        let unmapped = unsafe { munmap(self.first.as_ptr(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping can be undone");
    }
}
