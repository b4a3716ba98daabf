//! What tells a file that was changed from the same one, by a look at it: its name may lead to another one, or it was written.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// A file as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    inode: u64,
    changed: (i64, i64),
    length: u64,
}

impl FileStamp {
    /// Stamp of the file at this path, if there is one.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        let changed = (found.ctime(), found.ctime_nsec());
        Some(Self { inode: found.ino(), changed, length: found.len() })
    }
}
