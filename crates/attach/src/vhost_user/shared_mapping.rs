//! Mapping of a file that a front end shares. Only files whose pages are memory are mapped, so that to touch one waits for no
//! other process, and only whole pages of them, so that those that are lost can be covered and all can be unmapped.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;

use rustix::fs::fstatfs;
use vm_memory::mmap::MmapRegionBuilder;
use vm_memory::{FileOffset, MmapRegion};

use super::lost_memory::{Range, Watched};
use super::mapping_share::MappingShare;

/// File systems of memory, by their types (linux/magic.h): tmpfs, which files of memfd_create have too, and hugetlbfs.
const TMPFS: u32 = 0x0102_1994;
const HUGETLBFS: u32 = 0x9584_58f6;

/// Mapping that is watched. It is unmapped when it is dropped, which has to be after all that uses it.
#[derive(Debug)]
pub(super) struct SharedMapping {
    // Dropped first: other mappings may be there later.
    watched: Watched,
    _pages: Pages,
}

/// Pages that are mapped.
#[derive(Debug)]
struct Pages(Range);

/// Bytes of a page of a file.
///
/// # Errors
/// When its pages are not memory.
pub(super) fn page_bytes(file: &File) -> io::Result<u64> {
    let system = fstatfs(file)?;
    // The types have 32 bits.
    match system.f_type as u32 {
        // Not `st_blksize`, which for tmpfs may be the size of huge pages that it has only where they fit.
        TMPFS | HUGETLBFS => Ok((system.f_bsize as u64).max(1)),
        other => Err(io::Error::other(format!(
            "shared memory is in a file on a file system of type {other:#x}; guests need memory of memfd, tmpfs or hugetlbfs"
        ))),
    }
}

impl SharedMapping {
    /// Maps the pages of a file that have `length` bytes from `offset` on.
    ///
    /// # Errors
    /// When the file is not of memory, has no such bytes or pages, or the share of its socket is used up.
    pub(super) fn new(
        file: File,
        offset: u64,
        length: u64,
        share: &Arc<MappingShare>,
    ) -> io::Result<(MmapRegion<()>, Self)> {
        let page_bytes = page_bytes(&file)?;
        let short = || io::Error::other("a file of shared memory is shorter than what is to be shared of it");
        let end = offset.checked_add(length).ok_or_else(short)?;
        if length == 0 || file.metadata()?.len() < end {
            return Err(short());
        }
        if !offset.is_multiple_of(page_bytes) {
            return Err(not_whole("offset", offset, page_bytes));
        }
        let length = length.checked_next_multiple_of(page_bytes).ok_or_else(short)? as usize;
        let pages = Pages::map(&file, offset, length, page_bytes as usize)?;
        let watched = Watched::new(pages.0, share)?;
        let builder = MmapRegionBuilder::<()>::new(length).with_file_offset(FileOffset::new(file, offset));
        let builder = builder.with_mmap_prot(libc::PROT_READ | libc::PROT_WRITE);
        let builder = builder.with_mmap_flags(libc::MAP_NORESERVE | libc::MAP_SHARED);
        // SAFETY: the pages are mapped for reading and writing, and callers drop the region before them.
        #[allow(unsafe_code)]
        let builder = unsafe { builder.with_raw_mmap_pointer(pages.0.start as *mut u8) };
        let region = builder.build().map_err(io::Error::other)?;
        Ok((region, Self { watched, _pages: pages }))
    }

    /// True if the mapping begins there.
    pub(super) fn is_of(&self, start: *const u8) -> bool {
        self.watched.is_of(start)
    }

    /// True if some of it has been lost.
    pub(super) fn is_lost(&self) -> bool {
        self.watched.is_lost()
    }
}

/// Error of a region that has parts of pages.
pub(super) fn not_whole(field: &str, value: u64, page_bytes: u64) -> io::Error {
    io::Error::other(format!(
        "the {field} {value:#x} of a region of memory is not a multiple of its file's pages of {page_bytes} bytes"
    ))
}

impl Pages {
    fn map(file: &File, offset: u64, length: usize, page_bytes: usize) -> io::Result<Self> {
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory of this process.
        #[allow(unsafe_code)]
        let start = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_NORESERVE | libc::MAP_SHARED;
            libc::mmap(std::ptr::null_mut(), length, protection, flags, file.as_raw_fd(), offset)
        };
        match start {
            libc::MAP_FAILED => Err(io::Error::last_os_error()),
            start => Ok(Self(Range { start: start as usize, length, page_bytes })),
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let Range { start, length, .. } = self.0;
        // SAFETY: all of the mapping that `map` made, and nothing uses it any longer.
        #[allow(unsafe_code)]
        let result = unsafe { libc::munmap(start as *mut libc::c_void, length) };
        if result != 0 {
            let error = io::Error::last_os_error();
            tracing::error!(
                bytes = length, %error,
                "cannot unmap a front end's memory; it stays allocated until this process ends"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, memfd_create};
    use vm_memory::{Bytes as _, VolatileMemory as _};

    use super::*;

    const HUGE_PAGE: u64 = 2 << 20;

    fn memory(name: &str, flags: MemfdFlags, bytes: u64) -> io::Result<File> {
        let file = File::from(memfd_create(name, flags | MemfdFlags::CLOEXEC)?);
        file.set_len(bytes)?;
        Ok(file)
    }

    /// A file of huge pages. None has to be free: to touch one that the kernel does not have raises SIGBUS too.
    fn huge_memory(name: &str) -> Option<File> {
        let flags = MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        prerequisite::available("huge pages of 2 MiB", memory(name, flags, HUGE_PAGE))
    }

    fn is_mapped(name: &str) -> bool {
        std::fs::read_to_string("/proc/self/maps").unwrap().contains(name)
    }

    /// Cuts memory short, and reads and writes there.
    fn lose(file: &File) {
        let length = file.metadata().unwrap().len();
        let (region, mapping) =
            SharedMapping::new(file.try_clone().unwrap(), 0, length, &MappingShare::new()).unwrap();
        assert!(!mapping.is_lost());
        file.set_len(0).unwrap();
        let slice = region.as_volatile_slice();
        assert_eq!(slice.read_obj::<u64>(length as usize - 8).unwrap(), 0);
        assert!(mapping.is_lost());
        slice.write_obj(7u64, 0).unwrap();
        drop((region, mapping));
    }

    #[test]
    fn memory_that_is_cut_short_reads_as_zeroes() {
        let file = memory("cut-short", MemfdFlags::empty(), 16384).unwrap();
        lose(&file);
    }

    #[test]
    fn huge_pages_that_are_cut_short_read_as_zeroes() {
        let Some(file) = huge_memory("huge-cut-short") else { return };
        lose(&file);
    }

    #[test]
    fn huge_pages_are_mapped_and_unmapped_as_a_whole() {
        let Some(file) = huge_memory("huge-whole") else { return };
        assert_eq!(page_bytes(&file).unwrap(), HUGE_PAGE);
        let map = |offset, length| {
            SharedMapping::new(file.try_clone().unwrap(), offset, length, &MappingShare::new())
        };
        assert!(map(4096, 4096).is_err(), "the offset is in the middle of a page");
        let (region, mapping) = map(0, (1 << 20) + 4096).unwrap();
        assert_eq!(region.size() as u64, HUGE_PAGE);
        assert!(is_mapped("huge-whole"));
        drop((region, mapping));
        assert!(!is_mapped("huge-whole"));
    }

    #[test]
    fn files_that_are_not_of_memory_are_refused() {
        let (pipe, _end) = io::pipe().unwrap();
        let pipe = File::from(std::os::fd::OwnedFd::from(pipe));
        for file in [File::open("/proc/self/status").unwrap(), pipe] {
            let refused = SharedMapping::new(file, 0, 4096, &MappingShare::new()).unwrap_err().to_string();
            assert!(refused.contains("guests need memory of memfd, tmpfs or hugetlbfs"), "{refused}");
        }
    }

    #[test]
    fn parts_that_a_file_does_not_have_are_refused() {
        let file = memory("parts", MemfdFlags::empty(), 8192).unwrap();
        for (offset, length, is_there) in
            [(0, 8192, true), (4096, 4096, true), (4096, 100, true), (1, 4096, false), (0, 0, false)]
                .into_iter()
                .chain([(8192, 1, false), (4096, 8192, false), (u64::MAX, 1, false), (0, u64::MAX, false)])
        {
            let mapped = SharedMapping::new(file.try_clone().unwrap(), offset, length, &MappingShare::new());
            assert_eq!(mapped.is_ok(), is_there, "{offset} {length}");
        }
    }
}
