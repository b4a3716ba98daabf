//! Lock of all folders of records. One process at a time holds it, between its look at other records and its own record.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use private_folder::PrivateFolder;

use super::record::FOLDER;
use crate::control::socket;

/// Longest wait for another process, which looks at records: a second for each that is locked meanwhile. A process that is
/// stopped may hold the lock for longer, and keeps no other one from serving.
const WAIT_MAX: Duration = Duration::from_secs(10);
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// The lock, held until this is dropped.
#[derive(Debug)]
pub(super) struct RecordsLock {
    _folders: Vec<File>,
    /// Time from which on other processes may have stopped waiting for it.
    until: Instant,
}

impl RecordsLock {
    /// Waits for the lock. Returns `None` without a folder, or when another process holds the lock for too long.
    pub(super) fn take() -> Option<Self> {
        let mut folders: Vec<PathBuf> =
            socket::kept_folders().iter().map(|folder| folder.join(FOLDER)).collect();
        // One order for all processes: two that have several folders in common do not wait for each other.
        folders.sort();
        folders.dedup();
        Self::of(&folders, WAIT_MAX)
    }

    fn of(folders: &[PathBuf], wait_max: Duration) -> Option<Self> {
        let until = Instant::now() + wait_max;
        let mut locked = Vec::new();
        for folder in folders {
            locked.extend(locked_folder(folder, until).ok()?);
        }
        (!locked.is_empty()).then_some(Self { _folders: locked, until })
    }

    /// True once another process may have gone on without it.
    pub(super) fn is_passed(&self) -> bool {
        Instant::now() >= self.until
    }
}

/// Locks a folder that no other user may change; others are passed over.
///
/// # Errors
/// When it stays locked.
fn locked_folder(folder: &Path, until: Instant) -> Result<Option<File>, TryLockError> {
    let Ok(file) = PrivateFolder::open(folder).map_err(drop).and_then(|_| File::open(folder).map_err(drop))
    else {
        return Ok(None);
    };
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(RETRY_INTERVAL),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_has_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let folders = ["a", "b", "missing"].map(|name| folder.path().join(name));
        folders.iter().take(2).for_each(|folder| drop(PrivateFolder::make(folder).unwrap()));
        let first = RecordsLock::of(&folders[..1], Duration::ZERO).expect("no other process has it");
        assert!(RecordsLock::of(&folders, Duration::ZERO).is_none(), "one of the folders is locked");
        drop(first);
        assert!(RecordsLock::of(&folders, Duration::ZERO).is_some());
        assert!(RecordsLock::of(&folders[2..], Duration::ZERO).is_none(), "there is no folder");
    }

    #[test]
    fn a_lock_is_passed_when_others_have_stopped_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path().join("a")];
        drop(PrivateFolder::make(&folders[0]).unwrap());
        let is_passed = |wait_max| RecordsLock::of(&folders, wait_max).expect("it is free").is_passed();
        assert!(is_passed(Duration::ZERO));
        assert!(!is_passed(Duration::from_secs(24 * 3600)));
    }
}
