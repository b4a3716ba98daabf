//! Locks that keep other targets off a file or device. Opening it is the caller's.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use super::BackendError;
use super::lock_holder::LockHolder;
use crate::claims;
use crate::limits::{LOCK_PATIENCE_MS, SHARED_LOCK_PATIENCE_MS};
use crate::ring::Storage;

/// Interval at which a file is tried that another process has.
const LOCK_AGAIN: Duration = Duration::from_millis(10);

/// Outcome of taking a lock.
#[derive(Debug)]
pub(super) enum Lock {
    /// The descriptor has it.
    Taken,
    /// The old process has it, by this descriptor.
    Former(Arc<Storage>),
    /// The file system has none, and the file is shared anyway: nothing keeps others off.
    Missing(Errno),
}

impl Lock {
    /// Remarks for the operator.
    pub(super) fn remark(&self) -> Option<String> {
        let Self::Missing(error) = self else { return None };
        let error = io::Error::from(*error);
        Some(format!(
            "file system without locks ({error}): nothing keeps off targets that do not share the file"
        ))
    }

    /// Descriptor of the old process that keeps others off, where that has the lock.
    pub(super) fn former(self) -> Option<Arc<Storage>> {
        match self {
            Self::Former(claim) => Some(claim),
            Self::Taken | Self::Missing(_) => None,
        }
    }
}

/// Retries for a while what fails because another process has the file: the system may keep the files of a killed process until
/// its last requests have ended, and udev has a shared lock on a device while it examines it. A retry of the caller's is one
/// attempt: other changes of the configuration wait for it.
pub(super) fn when_free<T>(
    is_retry: bool,
    mut attempt: impl FnMut() -> Result<T, BackendError>,
) -> Result<T, BackendError> {
    let begun = Instant::now();
    let mut known = None;
    loop {
        let path = match attempt() {
            Err(BackendError::Locked { path, .. }) => path,
            outcome => return outcome,
        };
        if is_retry {
            return Err(BackendError::Locked { holder: LockHolder::of(&path), path });
        }
        if begun.elapsed() >= patience(known.as_ref()) {
            let holder = LockHolder::of(&path);
            if known.is_some() || holder.as_ref().is_none_or(|holder| !holder.is_shared) {
                return Err(BackendError::Locked { path, holder });
            }
            let path = path.display();
            tracing::info!(%path, holder = holder.as_ref().map(tracing::field::display), "waiting for a shared lock");
            known = holder;
        }
        thread::sleep(LOCK_AGAIN);
    }
}

/// Time for which a file is tried: longer if it is known that its lock is a shared one, as programs have it that only look.
fn patience(holder: Option<&LockHolder>) -> Duration {
    let is_shared = holder.is_some_and(|holder| holder.is_shared);
    Duration::from_millis(if is_shared { SHARED_LOCK_PATIENCE_MS } else { LOCK_PATIENCE_MS })
}

/// Keeps other targets off, or those who do not share: two would overwrite each other's blocks behind their hosts' backs.
pub(super) fn lock(file: &fs::File, path: &Path, shared: bool) -> Result<Lock, BackendError> {
    let operation =
        if shared { FlockOperation::NonBlockingLockShared } else { FlockOperation::NonBlockingLockExclusive };
    match flock(file.as_fd(), operation) {
        Ok(()) => Ok(Lock::Taken),
        Err(Errno::WOULDBLOCK) => match claims::of(file) {
            Some(former) => Ok(Lock::Former(Arc::new(Storage::new(former)))),
            None => Err(BackendError::Locked { path: path.to_owned(), holder: None }),
        },
        // An operator who shares it keeps other targets off by other means.
        Err(error) if shared => Ok(Lock::Missing(error)),
        Err(error) => Err(BackendError::NoLock { path: path.to_owned(), source: io::Error::from(error) }),
    }
}

/// Makes a file use the descriptor that holds the lock, if that is open in the same way; true if it
/// does. Requests of a killed process at the storage keep the lock until they have ended if they
/// came by the locked descriptor, and no other process begins before.
pub(super) fn works_by(claim: &Storage, file: &mut fs::File) -> bool {
    let flags = |file: BorrowedFd<'_>| {
        rustix::fs::fcntl_getfl(file).ok().map(|flags| flags & (OFlags::RWMODE | OFlags::DIRECT))
    };
    let same = flags(claim.as_fd()).filter(|flags_of_it| Some(*flags_of_it) == flags(file.as_fd()));
    match same.and_then(|_| claim.as_fd().try_clone_to_owned().ok()) {
        Some(claim) => {
            *file = claim.into();
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt as _;

    use super::*;

    #[test]
    fn without_locks_a_file_is_served_only_where_it_is_shared() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let mut options = fs::OpenOptions::new();
        let flags = OFlags::PATH.bits() as i32;
        // A descriptor opened so takes no lock, as on a file system that has none.
        let without = options.read(true).custom_flags(flags).open(path.path()).unwrap();
        let refused = lock(&without, path.path(), false).unwrap_err();
        assert!(refused.to_string().contains("cannot be locked"), "{refused}");
        assert!(refused.to_string().contains("shared_storage=yes"), "{refused}");
        let shared = lock(&without, path.path(), true).unwrap();
        assert!(shared.remark().is_some_and(|remark| remark.contains("without locks")), "{shared:?}");
        let file = fs::File::open(path.path()).unwrap();
        let taken = lock(&file, path.path(), false).unwrap();
        assert!(matches!(taken, Lock::Taken) && taken.remark().is_none());
        let other = fs::File::open(path.path()).unwrap();
        assert!(matches!(lock(&other, path.path(), true), Err(BackendError::Locked { .. })));
    }

    #[test]
    fn a_program_that_only_looks_is_given_more_time() {
        let holder = |is_shared| LockHolder { pid: 7, program: None, is_shared };
        assert_eq!(patience(None), patience(Some(&holder(false))));
        assert!(patience(Some(&holder(true))) >= 5 * patience(None));
    }

    #[test]
    fn a_retry_does_not_wait_for_a_lock() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let other = fs::File::open(path.path()).unwrap();
        flock(&other, FlockOperation::NonBlockingLockShared).unwrap();
        let own = fs::File::open(path.path()).unwrap();
        let mut attempts = 0;
        let refused = when_free(true, || {
            attempts += 1;
            lock(&own, path.path(), false)
        });
        assert!(matches!(refused, Err(BackendError::Locked { .. })), "{refused:?}");
        assert_eq!(attempts, 1);
    }

    #[test]
    fn a_file_is_taken_as_soon_as_its_lock_is_free() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let mut other = Some(fs::File::open(path.path()).unwrap());
        flock(other.as_ref().unwrap(), FlockOperation::NonBlockingLockShared).unwrap();
        let own = fs::File::open(path.path()).unwrap();
        let mut attempts = 0;
        let taken = when_free(false, || {
            attempts += 1;
            if attempts == 3 {
                other = None;
            }
            lock(&own, path.path(), false)
        });
        assert!(matches!(taken, Ok(Lock::Taken)), "{taken:?}");
        assert_eq!(attempts, 3);
    }
}
