//! A file or device as it is opened: to be written where that can be, and past the page cache where that can be, and
//! locked against other targets.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use rustix::fs::{OFlags, StatxFlags};

use super::BackendError;
use super::file_location::FileLocation;
use super::file_lock::{self, Lock};

/// A descriptor, and what it can be used for.
pub(super) struct OpenedFile {
    pub(super) file: fs::File,
    /// Set where writes go to the page cache first.
    pub(super) is_cached: bool,
    /// Reason for which it can only be read, if that is so.
    pub(super) read_only: Option<String>,
}

impl OpenedFile {
    /// Opens a file or device with these flags.
    pub(super) fn open(location: &FileLocation, flags: OFlags) -> io::Result<Self> {
        let is_cached = !flags.contains(OFlags::DIRECT);
        let open = |write| location.open(write, flags);
        match open(true) {
            Ok(file) => Ok(Self { file, is_cached, read_only: None }),
            // A read-only medium or mount, or permissions without writing: the content can be
            // served all the same.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EROFS | libc::EACCES | libc::EPERM)) => {
                match open(false) {
                    Ok(file) => Ok(Self { file, is_cached, read_only: Some(error.to_string()) }),
                    Err(_) => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Keeps other targets off, or those that do not share. Readers share: some file systems refuse an exclusive lock where nothing
    /// can be written.
    pub(super) fn lock(&self, path: &Path, shared: bool) -> Result<Lock, BackendError> {
        file_lock::lock(&self.file, path, shared || self.read_only.is_some())
    }

    /// Opens a regular file, past the page cache where that is possible.
    pub(super) fn open_regular(location: &FileLocation, block_size: u32) -> Result<Self, BackendError> {
        let failed = |source| location.failed(source);
        let path = &location.path;
        if let Some(other) = fs::metadata(path).ok().filter(|metadata| !metadata.is_file()) {
            return Err(wrong_kind(path, other.file_type(), "a regular file"));
        }
        // Some file systems know no O_DIRECT, or only for larger blocks; the page cache serves there.
        let cached = || Self::open(location, OFlags::empty()).map_err(failed);
        match Self::open(location, OFlags::DIRECT) {
            Ok(opened) if direct_alignment(&opened.file) <= block_size => Ok(opened),
            Ok(_) => cached(),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => cached(),
            Err(error) => Err(failed(error)),
        }
    }
}

/// Refusal of a path that leads to another kind of file than `expected`.
pub(super) fn wrong_kind(path: &Path, found: fs::FileType, expected: &'static str) -> BackendError {
    BackendError::WrongKind { path: path.to_owned(), found: kind_of(found), expected }
}

/// Name of a kind of file.
pub(super) fn kind_of(file: fs::FileType) -> &'static str {
    match file {
        file if file.is_file() => "a regular file",
        file if file.is_block_device() => "a block device",
        file if file.is_dir() => "a folder",
        file if file.is_char_device() => "a character device",
        _ => "a socket or pipe",
    }
}

/// The alignment O_DIRECT wants of offsets in this file, in bytes.
fn direct_alignment(file: &fs::File) -> u32 {
    let asked = StatxFlags::from_bits_retain(libc::STATX_DIOALIGN);
    match rustix::fs::statx(file, "", rustix::fs::AtFlags::EMPTY_PATH, asked) {
        Ok(facts) if facts.stx_dio_offset_align > 0 => facts.stx_dio_offset_align,
        // Older kernels do not tell; 512 bytes is what their file systems on common disks want.
        _ => 512,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_write_permission_is_opened_for_reading() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("disk");
        fs::write(&file, [0; 4096]).unwrap();
        assert_eq!(OpenedFile::open(&FileLocation::free(&file), OFlags::empty()).unwrap().read_only, None);
        // The kernel lets not even root write there.
        let fixed = FileLocation::free(Path::new("/sys/kernel/uevent_seqnum"));
        let fixed = OpenedFile::open(&fixed, OFlags::empty()).unwrap();
        assert!(fixed.read_only.is_some_and(|reason| reason.contains("Permission denied")));
        let missing = FileLocation::free(&folder.path().join("missing"));
        let missing = OpenedFile::open(&missing, OFlags::empty()).err().unwrap();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
