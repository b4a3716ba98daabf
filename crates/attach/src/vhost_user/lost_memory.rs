//! Memory whose file its owner cuts short: touching it raises SIGBUS, which would end the process and with it every other
//! front end. What is lost becomes memory of our own that holds zeroes, and is known to be lost.

use std::fs::File;
use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::limits::WATCHED_MAPPINGS_MAX;

/// Mapping of another process' file. Its length is 0 while there is no mapping.
struct WatchedMapping {
    is_taken: AtomicBool,
    start: AtomicUsize,
    length: AtomicUsize,
    is_lost: AtomicBool,
}

static MAPPINGS: [WatchedMapping; WATCHED_MAPPINGS_MAX] = [const {
    WatchedMapping {
        is_taken: AtomicBool::new(false),
        start: AtomicUsize::new(0),
        length: AtomicUsize::new(0),
        is_lost: AtomicBool::new(false),
    }
}; WATCHED_MAPPINGS_MAX];

/// Checks that a file has all bytes of the mapping, at present.
pub(super) fn check_length(file: &File, offset: u64, length: u64) -> io::Result<()> {
    let end = offset.checked_add(length);
    if end.is_some_and(|end| file.metadata().is_ok_and(|file| file.len() >= end)) {
        return Ok(());
    }
    Err(io::Error::other("a file of shared memory is shorter than what is to be shared of it"))
}

/// A mapping that is watched. It has to be dropped before the mapping is.
#[derive(Debug)]
pub(super) struct Watched(usize);

impl Watched {
    /// Watches a mapping.
    pub(super) fn new(start: *const u8, length: usize) -> io::Result<Self> {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(install);
        let is_free = |mapping: &WatchedMapping| !mapping.is_taken.swap(true, Ordering::AcqRel);
        let Some(at) = MAPPINGS.iter().position(is_free) else {
            return Err(io::Error::other("too many regions of memory are shared by front ends"));
        };
        let mapping = &MAPPINGS[at];
        mapping.is_lost.store(false, Ordering::Release);
        mapping.start.store(start as usize, Ordering::Release);
        mapping.length.store(length, Ordering::Release);
        Ok(Self(at))
    }

    /// True if the mapping begins there.
    pub(super) fn is_of(&self, start: *const u8) -> bool {
        MAPPINGS[self.0].start.load(Ordering::Acquire) == start as usize
    }

    /// True if some of it has been lost.
    pub(super) fn is_lost(&self) -> bool {
        MAPPINGS[self.0].is_lost.load(Ordering::Relaxed)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mapping = &MAPPINGS[self.0];
        mapping.length.store(0, Ordering::Release);
        mapping.is_taken.store(false, Ordering::Release);
    }
}

fn install() {
    // SAFETY: the handler is a function of this signature that calls what may be called in one: atomics, mmap and sigaction.
    #[allow(unsafe_code)]
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut())
    };
    if result != 0 {
        tracing::warn!(
            "cannot watch for memory that is lost; a front end that cuts its memory short ends the process"
        );
    }
}

/// Puts zeroes where memory was lost; what is not watched ends the process as it would have.
extern "C" fn on_fault(_signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler that asked for it (SA_SIGINFO) what the signal is about, which for SIGBUS has an address.
    #[allow(unsafe_code)]
    let address = unsafe { (*info).si_addr() } as usize;
    for mapping in &MAPPINGS {
        let (start, length) = (mapping.start.load(Ordering::Acquire), mapping.length.load(Ordering::Acquire));
        if address.wrapping_sub(start) >= length {
            continue;
        }
        mapping.is_lost.store(true, Ordering::Release);
        // SAFETY: the range is one mapping that its owner keeps while it is watched; all access to it is volatile or atomic, so
        // that other contents are as good as what another process may write there at any time.
        #[allow(unsafe_code)]
        let mapped = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
            libc::mmap(start as *mut libc::c_void, length, protection, flags, -1, 0)
        };
        if mapped != libc::MAP_FAILED {
            return;
        }
    }
    // SAFETY: the default action is valid for SIGBUS; the access that failed fails again, and ends the process.
    #[allow(unsafe_code)]
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use vm_memory::{Bytes as _, FileOffset, MmapRegion, VolatileMemory as _};

    use super::*;

    #[test]
    fn memory_that_is_cut_short_reads_as_zeroes() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(16384).unwrap();
        let offset = FileOffset::new(file.try_clone().unwrap(), 0);
        let memory = MmapRegion::<()>::from_file(offset, 16384).unwrap();
        let watched = Watched::new(memory.as_ptr(), memory.size()).unwrap();
        memory.as_volatile_slice().write_obj(7u64, 8192).unwrap();
        assert!(!watched.is_lost());
        file.set_len(0).unwrap();
        assert_eq!(memory.as_volatile_slice().read_obj::<u64>(8192).unwrap(), 0);
        assert!(watched.is_lost());
        memory.as_volatile_slice().write_obj(7u64, 0).unwrap();
        drop(watched);
    }
}
