//! Memory whose file its owner cuts short: touching it raises SIGBUS, which would end the process and with it every other
//! front end. What is lost becomes memory of our own that holds zeroes, and is known to be lost.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Once};

use super::mapping_share::{MappingShare, SharePart};
use crate::limits::WATCHED_MAPPINGS_MAX;

/// Pages of a mapping. Its length is 0 while there is no mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) start: usize,
    pub(super) length: usize,
    /// Bytes of a page of the file, of which a range that is covered has to be a multiple.
    pub(super) page_bytes: usize,
}

/// Mapping of another process' file.
struct WatchedMapping {
    is_taken: AtomicBool,
    /// Odd while the range is being written, by the one that has taken it.
    version: AtomicUsize,
    start: AtomicUsize,
    length: AtomicUsize,
    page_bytes: AtomicUsize,
    is_lost: AtomicBool,
}

static MAPPINGS: [WatchedMapping; WATCHED_MAPPINGS_MAX] =
    [const { WatchedMapping::new() }; WATCHED_MAPPINGS_MAX];

/// Mappings at the beginning of `MAPPINGS` of which each has been taken once: no others are looked at.
static USED: AtomicUsize = AtomicUsize::new(0);

impl WatchedMapping {
    const fn new() -> Self {
        Self {
            is_taken: AtomicBool::new(false),
            version: AtomicUsize::new(0),
            start: AtomicUsize::new(0),
            length: AtomicUsize::new(0),
            page_bytes: AtomicUsize::new(0),
            is_lost: AtomicBool::new(false),
        }
    }

    fn try_take(&self) -> bool {
        self.is_taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Writes the range, as the only one that may.
    fn set(&self, range: Range) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.start.store(range.start, Ordering::Relaxed);
        self.length.store(range.length, Ordering::Relaxed);
        self.page_bytes.store(range.page_bytes, Ordering::Relaxed);
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }

    /// The range, of one mapping; `None` while it is being written. A thread that faults keeps its own mapping, whose range
    /// does not change meanwhile.
    fn range(&self) -> Option<Range> {
        let version = self.version.load(Ordering::Acquire);
        let range = Range {
            start: self.start.load(Ordering::Relaxed),
            length: self.length.load(Ordering::Relaxed),
            page_bytes: self.page_bytes.load(Ordering::Relaxed),
        };
        fence(Ordering::Acquire);
        (version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version).then_some(range)
    }
}

/// A mapping that is watched. It has to be dropped before the mapping is.
#[derive(Debug)]
pub(super) struct Watched {
    at: usize,
    _part: SharePart,
}

impl Watched {
    /// Watches whole pages, for which there is room in the share of their socket.
    pub(super) fn new(range: Range, share: &Arc<MappingShare>) -> io::Result<Self> {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(install);
        let part = MappingShare::take(share).ok_or_else(too_many)?;
        let at = MAPPINGS.iter().position(WatchedMapping::try_take).ok_or_else(too_many)?;
        USED.fetch_max(at + 1, Ordering::AcqRel);
        let mapping = &MAPPINGS[at];
        mapping.is_lost.store(false, Ordering::Release);
        mapping.set(range);
        Ok(Self { at, _part: part })
    }

    /// True if the mapping begins there.
    pub(super) fn is_of(&self, start: *const u8) -> bool {
        MAPPINGS[self.at].start.load(Ordering::Acquire) == start as usize
    }

    /// True if some of it has been lost.
    pub(super) fn is_lost(&self) -> bool {
        MAPPINGS[self.at].is_lost.load(Ordering::Relaxed)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mapping = &MAPPINGS[self.at];
        mapping.set(Range::default());
        mapping.is_taken.store(false, Ordering::Release);
    }
}

fn too_many() -> io::Error {
    io::Error::other("the front end shares more regions of memory than its socket may have")
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
    for mapping in &MAPPINGS[..USED.load(Ordering::Acquire).min(WATCHED_MAPPINGS_MAX)] {
        let Some(Range { start, length, page_bytes }) = mapping.range() else { continue };
        if address.wrapping_sub(start) >= length || page_bytes == 0 {
            continue;
        }
        mapping.is_lost.store(true, Ordering::Release);
        // Where the system does not promise memory for all of it (vm.overcommit_memory=2), it does for a page.
        let page_start = start + (address - start) / page_bytes * page_bytes;
        if cover(start, length) || cover(page_start, page_bytes) {
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

/// Puts memory of our own in the place of pages of a mapping. True if the kernel does so.
fn cover(start: usize, length: usize) -> bool {
    // SAFETY: the range is of one mapping that the thread which faults keeps, and of whole pages of its file; all access to it is
    // volatile or atomic, so that other contents are as good as what another process may write there at any time.
    #[allow(unsafe_code)]
    let mapped = unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        libc::mmap(start as *mut libc::c_void, length, protection, flags, -1, 0)
    };
    mapped != libc::MAP_FAILED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_of_one_mapping_while_others_take_its_place() {
        let mapping = WatchedMapping::new();
        let (is_over, ranges) = (AtomicBool::new(false), 200_000_usize);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let range = |number| Range { start: number, length: number, page_bytes: number };
                (0..ranges).for_each(|number| mapping.set(range(number)));
                is_over.store(true, Ordering::Release);
            });
            while !is_over.load(Ordering::Acquire) {
                if let Some(Range { start, length, page_bytes }) = mapping.range() {
                    assert_eq!((start, start), (length, page_bytes));
                }
            }
        });
        assert_eq!(mapping.range().map(|range| range.start), Some(ranges - 1));
    }
}
