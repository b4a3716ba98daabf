//! A file that no other user may change: the checks before it is believed. The folder of such
//! files, and the replacement of one by another, is `private_folder`'s.

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

/// The mode of a private file.
pub(crate) const FILE_MODE: u32 = 0o600;
/// Bits of a mode that let others than the owner write.
pub(crate) const OTHERS_WRITE: u32 = 0o022;
/// Bits of a mode that let others than the owner do anything.
pub(crate) const OTHERS: u32 = 0o077;

/// Why a private file or folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PrivateFileError {
    /// The system refuses.
    #[error("cannot {action} {}: {source}{}", path.display(), hint(source, path))]
    Io {
        /// Operation that failed, as a word.
        action: &'static str,
        /// Path of the operation.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file or folder belongs to another user, who could change it at any time.
    #[error(
        "{} belongs to user {owner}, and this program runs as user {me}: it trusts its own files and root's only; \
         check its content, then chown it to {me}", path.display()
    )]
    Foreign {
        /// Path of the file or folder.
        path: PathBuf,
        /// User ID of its owner.
        owner: u32,
        /// User ID of this process.
        me: u32,
    },
    /// Others than its owner may change it.
    #[error(
        "{} may be changed by others than its owner (mode {mode:03o}); look at what is in it, then chmod {wanted:03o}",
        path.display()
    )]
    Writable {
        /// Path of the file or folder.
        path: PathBuf,
        /// Mode of the file or folder.
        mode: u32,
        /// The mode it should have.
        wanted: u32,
    },
    /// Others than its owner may read a secret.
    #[error("{} may be read by others than its owner (mode {mode:03o}), and is a secret; chmod {FILE_MODE:03o}", path.display())]
    Readable {
        /// Path of the file.
        path: PathBuf,
        /// Mode of the file.
        mode: u32,
    },
    /// The path leads to another kind of file.
    #[error("{} is {found}; it must be {wanted}", path.display())]
    Kind {
        /// Path of the file.
        path: PathBuf,
        /// Kind found.
        found: &'static str,
        /// Kind expected.
        wanted: &'static str,
    },
    /// The file is longer than any that this program writes.
    #[error("{} has more than {length_max} bytes", path.display())]
    TooLong {
        /// Path of the file.
        path: PathBuf,
        /// Bytes that it may have.
        length_max: u64,
    },
}

fn hint(error: &io::Error, path: &Path) -> &'static str {
    match error.kind() {
        // The file itself is missing otherwise, which the error says.
        io::ErrorKind::NotFound if path.parent().is_some_and(is_missing) => "; create its folder",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; make sure that this program's user may write there"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; make room",
        _ => "",
    }
}

fn is_missing(folder: &Path) -> bool {
    // The folder of a bare name is the working directory.
    !folder.as_os_str().is_empty() && !folder.exists()
}

impl PrivateFileError {
    /// Error of the system during `action` with `path`.
    pub fn io(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io { action, path: path.to_owned(), source: source.into() }
    }

    /// True if the file does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

impl From<PrivateFileError> for io::Error {
    fn from(error: PrivateFileError) -> Self {
        let kind = match &error {
            PrivateFileError::Io { source, .. } => source.kind(),
            PrivateFileError::TooLong { .. } => io::ErrorKind::FileTooLarge,
            _ => io::ErrorKind::PermissionDenied,
        };
        Self::new(kind, error)
    }
}

/// Opens a file for reading that only its owner may change: a regular file, not a link, of this
/// user's or root's.
///
/// # Errors
/// When it cannot be opened, or is not such a file.
pub fn open_own(path: &Path) -> Result<File, PrivateFileError> {
    open(CWD, path, path, OFlags::RDONLY, "open")
}

/// Opens the file of a secret for reading. It must be a regular file, not a link; this user or root
/// must own it; and no other user may be able to read it.
///
/// # Errors
/// When it cannot be opened, or is not such a file.
pub fn open_secret(path: &Path) -> Result<File, PrivateFileError> {
    let file = open_own(path)?;
    let mode = file.metadata().map_err(|error| PrivateFileError::io("look at", path, error))?.mode() & 0o777;
    if mode & OTHERS == 0 {
        Ok(file)
    } else {
        Err(PrivateFileError::Readable { path: path.to_owned(), mode })
    }
}

/// Opens the file `name` of a folder, `path` in all, and checks whose it is. One that only could be read by others is
/// theirs no longer.
pub(crate) fn open(
    folder: BorrowedFd<'_>,
    name: &Path,
    path: &Path,
    flags: OFlags,
    action: &'static str,
) -> Result<File, PrivateFileError> {
    // A FIFO would wait for its other end otherwise.
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = openat(folder, name, flags, Mode::from_raw_mode(FILE_MODE));
    let file: File = match opened {
        Ok(file) => file.into(),
        Err(Errno::LOOP) => return Err(wrong_kind(path, "a link")),
        Err(Errno::ISDIR) => return Err(wrong_kind(path, "a folder")),
        Err(error) => return Err(PrivateFileError::io(action, path, error)),
    };
    let found = file.metadata().map_err(|error| PrivateFileError::io("look at", path, error))?;
    check(&found, path, rustix::process::geteuid().as_raw())?;
    Ok(file)
}

/// Takes all permissions on a file from everybody but its owner.
pub(crate) fn close_to_others(file: impl AsFd, found: &Metadata, mode: u32) -> io::Result<()> {
    if found.mode() & OTHERS == 0 {
        return Ok(());
    }
    rustix::fs::fchmod(file, Mode::from_raw_mode(mode)).map_err(io::Error::from)
}

fn check(found: &Metadata, path: &Path, me: u32) -> Result<(), PrivateFileError> {
    let kind = found.file_type();
    if !kind.is_file() {
        let found = if kind.is_dir() {
            "a folder"
        } else if kind.is_fifo() {
            "a FIFO"
        } else {
            "not a regular file"
        };
        return Err(wrong_kind(path, found));
    }
    check_owner(found, path, me, FILE_MODE)
}

/// Checks that something is the user's `me` or root's, and that no other user may write it.
pub(crate) fn check_owner(
    found: &Metadata,
    path: &Path,
    me: u32,
    wanted: u32,
) -> Result<(), PrivateFileError> {
    let (owner, mode) = (found.uid(), Permissions::mode(&found.permissions()) & 0o7777);
    if owner != me && owner != 0 {
        return Err(PrivateFileError::Foreign { path: path.to_owned(), owner, me });
    }
    if mode & OTHERS_WRITE != 0 {
        return Err(PrivateFileError::Writable { path: path.to_owned(), mode, wanted });
    }
    Ok(())
}

pub(crate) fn wrong_kind(path: &Path, found: &'static str) -> PrivateFileError {
    PrivateFileError::Kind { path: path.to_owned(), found, wanted: "a regular file" }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn refused(path: &Path) -> String {
        open_secret(path).map(drop).expect_err("it is to be refused").to_string()
    }

    #[test]
    fn a_secret_is_a_file_of_ours_that_no_other_user_reads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        fs::write(&path, "secret").unwrap();
        for (mode, reason) in
            [(0o640, "read by others"), (0o604, "read by others"), (0o620, "changed by others")]
        {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let error = refused(&path);
            assert!(error.contains(reason) && error.contains("chmod 600"), "{error}");
            assert!(error.contains(&format!("{mode:o}")) && error.contains("secret"), "{error}");
        }
        for mode in [0o600, 0o400] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            open_secret(&path).unwrap();
        }
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(refused(&link).contains("is a link; it must be a regular file"));
        assert!(refused(folder.path()).contains("is a folder"));
        assert!(refused(Path::new("/dev/null")).contains("not a regular file"));
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert!(refused(&fifo).contains("is a FIFO"), "and its other end is not waited for");
        assert!(open_secret(&folder.path().join("none")).unwrap_err().is_missing());
        assert!(refused(&folder.path().join("none")).ends_with("(os error 2)"));
        assert!(refused(&folder.path().join("none/none")).ends_with("; create its folder"));
    }

    #[test]
    fn only_ours_and_roots_are_believed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            std::os::unix::fs::chown(&path, Some(4711), None).unwrap();
        }
        let found = fs::metadata(&path).unwrap();
        check(&found, &path, found.uid()).unwrap();
        check(&fs::metadata("/etc/passwd").unwrap(), Path::new("/etc/passwd"), 4712)
            .expect("root's is believed");
        let error = check(&found, &path, 4712).unwrap_err().to_string();
        assert!(error.contains(&format!("belongs to user {}", found.uid())), "{error}");
        assert!(error.contains("runs as user 4712") && error.contains("chown it to 4712"), "{error}");
        if is_root {
            assert!(refused(&path).contains("runs as user 0"));
        }
    }
}
