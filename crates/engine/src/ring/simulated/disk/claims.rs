//! Holds on files that go from one process to another without a gap for a third. A lock belongs to
//! what was opened (flock(2)): it is there until the last process that has that open has ended.

use super::{Disks, Storage};
use crate::ring::simulated::scheduler::{self, ProcessId, with};

/// A hold on a file, on its way from one process to another.
#[derive(Debug)]
pub struct Hold {
    pub(super) file: usize,
    is_shared: bool,
}

impl Storage {
    /// Hold on the file's lock, for another process.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn hold(&self) -> std::io::Result<Hold> {
        with(|world| {
            world.spare()?;
            world.disks.count(self.file, self.is_shared, true);
            Ok(Hold { file: self.file, is_shared: self.is_shared })
        })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        scheduler::with_if(|world| world.disks.count(self.file, self.is_shared, false));
    }
}

/// The running process takes what the old one holds, before it opens anything.
pub fn inherit(holds: Vec<Hold>) {
    with(|world| {
        let Some(process) = world.running() else { return };
        world.disks.inherited.extend(holds.into_iter().map(|hold| (process, hold)));
    });
}

/// Releases what the running process has inherited and not claimed.
pub fn forget() {
    if let Some(process) = with(|world| world.running()) {
        release(process);
    }
}

/// Releases what a process has inherited. The holds are dropped outside of the world, which they
/// have to do with.
pub(in crate::ring::simulated) fn release(process: ProcessId) {
    let released = with(|world| world.disks.take_inherited(process));
    drop(released);
}

impl Disks {
    /// Counts one more opening of a file, or one less.
    pub(super) fn count(&mut self, file: usize, is_shared: bool, is_more: bool) {
        let file = &mut self.files[file];
        let count = if is_shared { &mut file.shared } else { &mut file.exclusive };
        *count = if is_more { *count + 1 } else { *count - 1 };
    }

    fn take_inherited(&mut self, process: ProcessId) -> Vec<Hold> {
        let (of, others) =
            std::mem::take(&mut self.inherited).into_iter().partition(|(of, _)| *of == process);
        self.inherited = others;
        let of: Vec<(ProcessId, Hold)> = of;
        of.into_iter().map(|(_, hold)| hold).collect()
    }

    /// True if a process has a file by the hold of the old process.
    pub(super) fn is_claimed(&self, process: Option<ProcessId>, file: usize) -> bool {
        self.inherited.iter().any(|(of, hold)| Some(*of) == process && hold.file == file)
    }
}
