//! Huge pages for files in memory. Anonymous memory gets them when it is first written, files only
//! where an administrator has changed the system's default (shmem_enabled); without them a random
//! read of 4 KiB misses the TLB and costs a twelfth more. So a thread asks for each chunk that has
//! been written (MADV_COLLAPSE, Linux 6.1). It sleeps as long as nothing new is written.

use std::fs;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::mapping::{Collapsed, Mapping};

/// Delay between the first write to a chunk and its move: a chunk that is filled from end to end is
/// then complete, and no write waits for the move.
const PAUSE: Duration = Duration::from_millis(500);
/// Ratio of rest to work: after each move the thread sleeps this many times as long as the move
/// took.
const REST_PARTS: u32 = 3;
/// Attempts in a row at chunks that are in use, before they stay as they are.
const ATTEMPTS: u32 = 5;

/// The thread; `None` where the system does not want huge pages, or has no thread.
static THREAD: OnceLock<Option<Thread>> = OnceLock::new();
static MAPPINGS: Mutex<Vec<Weak<Mapping>>> = Mutex::new(Vec::new());

/// Has the chunks of a file on huge pages, from their first write on.
pub(super) fn register(mapping: &Arc<Mapping>) {
    let mut mappings = MAPPINGS.lock().unwrap_or_else(PoisonError::into_inner);
    mappings.retain(|mapping| mapping.strong_count() > 0);
    mappings.push(Arc::downgrade(mapping));
    drop(mappings);
    THREAD.get_or_init(|| {
        let start = || thread::Builder::new().name("huge pages".to_owned()).spawn(run).ok();
        are_wanted().then(start).flatten().map(|started| started.thread().clone())
    });
}

/// A chunk has been written for the first time.
#[cold]
pub(super) fn wake() {
    if let Some(Some(thread)) = THREAD.get() {
        thread.unpark();
    }
}

fn are_wanted() -> bool {
    let setting = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    !setting.is_empty() && !setting.contains("[never]")
}

fn run() {
    let mut failed_rounds = 0;
    loop {
        thread::park();
        thread::sleep(PAUSE);
        while failed_rounds < ATTEMPTS && !round() {
            failed_rounds += 1;
            thread::sleep(PAUSE);
        }
        failed_rounds = 0;
    }
}

/// Moves all chunks that are new; whether none of them has to be tried again.
fn round() -> bool {
    let mappings = MAPPINGS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut is_done = true;
    for mapping in mappings {
        // It may go at any moment but while a chunk is moved.
        let fresh = mapping.upgrade().map_or_else(Vec::new, |mapping| mapping.take_fresh());
        for chunk in fresh {
            let Some(mapping) = mapping.upgrade() else { break };
            let begun = Instant::now();
            if mapping.collapse(chunk) == Collapsed::Later {
                mapping.mark_fresh(chunk);
                is_done = false;
            }
            drop(mapping);
            thread::sleep(begun.elapsed() * REST_PARTS);
        }
    }
    is_done
}
