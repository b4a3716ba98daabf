//! The process that holds a lock on a file, as the kernel lists it (proc_locks(5)). Taking locks is `file_lock`'s.

use std::fmt;
#[cfg(not(feature = "simulation"))]
use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

#[cfg(not(feature = "simulation"))]
use rustix::fs::{major, minor};

/// A process with a lock on a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// Process identifier.
    pub pid: u32,
    /// Name of its program, where the system reports it.
    pub program: Option<String>,
    /// True for a lock that others may have beside it, such as one of udev while it examines a device.
    pub is_shared: bool,
}

#[cfg(not(feature = "simulation"))]
impl LockHolder {
    /// A process that holds a lock on the file or device node at this path, if the kernel names one.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let facts = fs::metadata(path).ok()?;
        let found = fs::read_to_string("/proc/locks").ok()?;
        let holder = Self::in_list(&found, facts.dev(), facts.ino())?;
        let program = fs::read_to_string(format!("/proc/{}/comm", holder.pid)).ok();
        Some(Self { program: program.map(|name| name.trim_end().to_owned()), ..holder })
    }

    /// The holder of a lock by flock(2) in the kernel's list. An exclusive lock is the only one there is.
    fn in_list(list: &str, device: u64, inode: u64) -> Option<Self> {
        let file = format!("{:02x}:{:02x}:{inode}", major(device), minor(device));
        list.lines().find_map(|line| {
            let mut words = line.split_ascii_whitespace().skip(1);
            let (kind, _, access, pid) = (words.next()?, words.next()?, words.next()?, words.next()?);
            let pid = pid.parse().ok().filter(|pid| *pid > 0)?;
            let is_its = kind == "FLOCK" && words.next() == Some(&file);
            is_its.then(|| Self { pid, program: None, is_shared: access == "READ" })
        })
    }
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)?;
        self.program.as_ref().map_or(Ok(()), |program| write!(f, " ({program})"))
    }
}

#[cfg(all(test, not(feature = "simulation")))]
mod tests {
    use rustix::fs::{FlockOperation, flock, makedev};

    use super::*;

    #[test]
    fn the_kernels_list_names_the_holder() {
        let list = "1: POSIX  ADVISORY  WRITE 1 08:01:7 0 EOF\n\
                    2: FLOCK  ADVISORY  WRITE 2 08:01:77 0 EOF\n\
                    3: FLOCK  ADVISORY  WRITE 0 fe:10:7 0 EOF\n\
                    3: -> FLOCK  ADVISORY  WRITE 3 08:01:7 0 EOF\n\
                    4: FLOCK  ADVISORY  READ 4 08:01:7 0 EOF\n\
                    5: FLOCK  ADVISORY  WRITE 5 fe:10:7 0 EOF\n\
                    nonsense\n";
        let holder = |device, inode| {
            LockHolder::in_list(list, device, inode).map(|holder| (holder.pid, holder.is_shared))
        };
        assert_eq!(holder(makedev(8, 1), 7), Some((4, true)), "neither another kind of lock nor who waits");
        assert_eq!(holder(makedev(8, 1), 77), Some((2, false)));
        assert_eq!(
            holder(makedev(254, 16), 7),
            Some((5, false)),
            "a process outside the container has no number"
        );
        assert_eq!(holder(makedev(8, 2), 7), None);
    }

    #[test]
    fn a_process_with_a_lock_is_found_by_the_path() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(LockHolder::of(file.path()), None);
        flock(&file, FlockOperation::NonBlockingLockShared).unwrap();
        // Some file systems have another number in this list than a file has.
        if let Some(holder) = LockHolder::of(file.path()) {
            assert_eq!((holder.pid, holder.is_shared), (std::process::id(), true));
            assert!(holder.to_string().starts_with(&format!("process {} (", std::process::id())), "{holder}");
        }
    }
}
