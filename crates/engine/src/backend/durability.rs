//! Durability of what a file or device has acknowledged. Linux reports a write-back error once: the
//! first sync after it gets it, and the next one succeeds though the data is gone. So a failed sync
//! counts for all users of the storage and for good, and a sync that went well counts only when no
//! other that could have had its error is under way.

use std::fmt;
use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::ring;

/// Kind of the operation that makes data durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SyncKind {
    /// fdatasync(2).
    Sync,
    /// A write with RWF_DSYNC.
    DurableWrite,
    /// fsync(2), after another size.
    SyncSize,
}

/// A sync that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sync {
    /// Call that makes data durable.
    pub kind: SyncKind,
    /// Sequence number among the syncs that may take each other's errors; 0 for one with an error
    /// of its own.
    pub number: u64,
}

impl SyncKind {
    /// True if acknowledged data may be lost when it ends with this error. It is not where nothing
    /// was tried, and a write that found no room has taken nothing.
    pub fn loses_data(self, error: &io::Error) -> bool {
        match error.raw_os_error() {
            Some(libc::ECANCELED | libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS) => false,
            Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => self != Self::DurableWrite,
            _ => true,
        }
    }
}

impl fmt::Display for SyncKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sync => "fdatasync",
            Self::DurableWrite => "a write with RWF_DSYNC",
            Self::SyncSize => "fsync",
        })
    }
}

/// Failure to make data durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncFailure {
    /// Operation that failed.
    pub kind: SyncKind,
    /// Error number of the system.
    pub errno: i32,
    /// Time of the failure.
    pub at: SystemTime,
}

impl fmt::Display for SyncFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.kind, io::Error::from_raw_os_error(self.errno))
    }
}

/// Syncs of one open file or device: those under way, and the first failure.
#[derive(Debug, Default)]
pub struct Durability {
    failure: OnceLock<SyncFailure>,
    /// Locked for each sync, which waits for a disk anyway, and by no other operation.
    queue: Mutex<SyncQueue>,
}

#[derive(Debug)]
struct SyncQueue {
    next: u64,
    /// Numbers of the syncs under way, in the order of their start.
    under_way: Vec<u64>,
    /// Set while a sync waits for the end of others.
    is_awaited: bool,
}

impl Default for SyncQueue {
    fn default() -> Self {
        // 0 stands for no sync.
        Self { next: 1, under_way: Vec::new(), is_awaited: false }
    }
}

impl SyncQueue {
    fn is_settled(&self, before: u64) -> bool {
        self.under_way.first().is_none_or(|first| *first >= before)
    }
}

/// Consequences of the end of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncEnd {
    /// Number below which all syncs have to end before this one counts; `None` if they have.
    pub awaits: Option<u64>,
    /// True if a sync that waits for others should look again.
    pub wakes: bool,
}

impl Durability {
    /// A sync begins: its number, from 1 on.
    pub fn begin(&self) -> u64 {
        let mut queue = self.lock();
        let number = queue.next;
        queue.next += 1;
        queue.under_way.push(number);
        number
    }

    /// A sync has ended, well or with this failure.
    pub fn end(&self, number: u64, failure: Option<SyncFailure>) -> SyncEnd {
        // First: who finds that it has ended finds the failure, too.
        if let Some(failure) = failure {
            self.fail(failure);
        }
        let mut queue = self.lock();
        queue.under_way.retain(|other| *other != number);
        let wakes = std::mem::take(&mut queue.is_awaited);
        let began_before = queue.next;
        let is_settled = queue.is_settled(began_before);
        queue.is_awaited = !is_settled;
        SyncEnd { awaits: (!is_settled).then_some(began_before), wakes }
    }

    /// True if all syncs with a lower number have ended; if not, their ends report
    /// [`SyncEnd::wakes`].
    pub fn is_settled(&self, before: u64) -> bool {
        let mut queue = self.lock();
        let is_settled = queue.is_settled(before);
        queue.is_awaited |= !is_settled;
        is_settled
    }

    /// From now on nothing can be made durable; the first failure stays.
    pub fn fail(&self, failure: SyncFailure) {
        let _ = self.failure.set(failure);
    }

    /// Why nothing can be made durable from now on, if that is so.
    pub fn failure(&self) -> Option<&SyncFailure> {
        self.failure.get()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, SyncQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SyncFailure {
    /// A failure at the present time.
    pub(crate) fn new(kind: SyncKind, error: &io::Error) -> Self {
        Self { kind, errno: error.raw_os_error().unwrap_or(libc::EIO), at: ring::wall_time() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn settled(wakes: bool) -> SyncEnd {
        SyncEnd { awaits: None, wakes }
    }

    fn failure(errno: i32) -> SyncFailure {
        SyncFailure::new(SyncKind::Sync, &io::Error::from_raw_os_error(errno))
    }

    #[test]
    fn a_sync_alone_counts_at_once() {
        let durability = Durability::default();
        for number in 1..=3 {
            assert_eq!(durability.begin(), number);
            assert_eq!(durability.end(number, None), settled(false));
        }
        assert!(durability.failure().is_none());
    }

    #[test]
    fn a_sync_counts_when_all_have_ended_that_could_have_had_its_error() {
        let durability = Durability::default();
        let (first, second, third) = (durability.begin(), durability.begin(), durability.begin());
        let end = durability.end(second, None);
        assert_eq!(end, SyncEnd { awaits: Some(third + 1), wakes: false });
        // One that begins afterwards has not had it.
        let fourth = durability.begin();
        assert!(!durability.is_settled(third + 1));
        assert!(durability.end(first, None).wakes);
        assert!(!durability.is_settled(third + 1), "and the other one is still under way");
        assert!(durability.end(third, None).wakes && durability.is_settled(third + 1));
        assert_eq!(durability.end(fourth, None), settled(true));
        assert_eq!(durability.end(durability.begin(), None), settled(false));
    }

    #[test]
    fn the_first_failure_is_there_before_its_sync_has_ended_for_others() {
        let durability = Durability::default();
        let (first, second) = (durability.begin(), durability.begin());
        assert!(durability.end(second, None).awaits.is_some());
        assert_eq!(durability.end(first, Some(failure(libc::EIO))), settled(true));
        durability.end(durability.begin(), Some(failure(libc::ENOSPC)));
        assert_eq!(durability.failure().map(|failure| failure.errno), Some(libc::EIO));
        let text = durability.failure().map(ToString::to_string);
        assert_eq!(text.as_deref(), Some("fdatasync failed: Input/output error (os error 5)"));
    }

    #[test]
    fn what_found_no_room_or_was_not_tried_has_lost_nothing() {
        let loses = |kind: SyncKind, errno| kind.loses_data(&io::Error::from_raw_os_error(errno));
        for kind in [SyncKind::Sync, SyncKind::DurableWrite, SyncKind::SyncSize] {
            assert!(loses(kind, libc::EIO) && loses(kind, libc::EROFS) && !loses(kind, libc::EOPNOTSUPP));
            // Of a write that was taken to the page cache, a sync tells that it has found no room since.
            assert_eq!(loses(kind, libc::ENOSPC), kind != SyncKind::DurableWrite);
        }
    }
}
