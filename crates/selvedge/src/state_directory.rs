//! The directory in which a target keeps what has to outlive it: it belongs to one process at a time, and a file in it is
//! there whole or not at all, whenever the machine stops. What its files say is not its concern.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::failure::Failure;

const LOCK_NAME: &str = "lock";

/// A directory for state, which belongs to this process for as long as there is this value.
#[derive(Debug)]
pub(crate) struct StateDirectory {
    path: PathBuf,
    handle: File,
    lock: File,
    lock_inode: u64,
}

/// A file that is written, and takes the old one's place when it is committed.
#[must_use]
#[derive(Debug)]
pub(crate) struct Prepared<'a> {
    directory: &'a StateDirectory,
    name: &'static str,
}

impl StateDirectory {
    /// Takes the directory for this process; makes it when it is missing.
    pub(crate) fn take(path: &Path) -> Result<Self, Failure> {
        let failed = |what: &str, error: &io::Error| {
            Failure::failed(format!("the state directory {} {what}: {error}", path.display()))
        };
        fs::create_dir_all(path).map_err(|error| failed("cannot be made", &error))?;
        // The working directory is nobody's to rely on for as long as a target runs.
        let path = fs::canonicalize(path).map_err(|error| failed("cannot be found", &error))?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(path.join(LOCK_NAME)).map_err(|error| failed("cannot be written", &error))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(in_use(&path)),
            Err(error) => return Err(failed("cannot be locked", &error.into())),
        }
        let handle = File::open(&path).map_err(|error| failed("cannot be opened", &error))?;
        let lock_inode = lock.metadata().map_err(|error| failed("cannot be read", &error))?.ino();
        let directory = Self { path, handle, lock, lock_inode };
        // Whose it is, for those who find it taken; what is locked is as good without.
        if let Err(error) = directory.sign() {
            tracing::warn!(%error, "the lock of the state directory does not say whose it is");
        }
        Ok(directory)
    }

    /// The directory, as an absolute path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What this directory has and no copy of it: only who has had this very lock has ended when this process has it.
    pub(crate) const fn lock_inode(&self) -> u64 {
        self.lock_inode
    }

    /// Writes a file beside the one that counts, so that a full disk is found out before anything is changed.
    pub(crate) fn prepare(&self, name: &'static str, bytes: &[u8]) -> io::Result<Prepared<'_>> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let prepared = Prepared { directory: self, name };
        let mut file = options.open(prepared.new_path())?;
        // Dropped on an error, it removes what there is of it.
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(prepared)
    }

    /// Removes a file, which may be missing.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path.join(name)) {
            Ok(()) => self.handle.sync_all(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn sign(&self) -> io::Result<()> {
        self.lock.set_len(0)?;
        writeln!(&self.lock, "{}", std::process::id())
    }
}

impl Prepared<'_> {
    /// Puts it in the old one's place. On an error the old one stands.
    pub(crate) fn commit(self) -> io::Result<()> {
        fs::rename(self.new_path(), self.directory.path.join(self.name))?;
        // Without this the new name may be lost with the power, and the old file be back.
        self.directory.handle.sync_all()
    }

    fn new_path(&self) -> PathBuf {
        self.directory.path.join(format!("{}.new", self.name))
    }
}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        // After a commit there is none, and what cannot be removed is overwritten the next time.
        let _ = fs::remove_file(self.new_path());
    }
}

/// Somebody else has the directory.
fn in_use(path: &Path) -> Failure {
    let signature = fs::read_to_string(path.join(LOCK_NAME)).unwrap_or_default();
    // One of an older version has not signed.
    let who = signature.trim().parse::<u32>().map_or(String::new(), |id| format!(" (process {id})"));
    Failure::failed(format!(
        "the state directory {} is in use by another target{who}; end that one, or choose another directory",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(folder: &tempfile::TempDir) -> StateDirectory {
        StateDirectory::take(folder.path()).unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    #[test]
    fn two_targets_do_not_share_a_directory() {
        let folder = tempfile::tempdir().unwrap();
        let directory = take(&folder);
        let line = StateDirectory::take(folder.path()).unwrap_err().line().unwrap();
        let who = format!("in use by another target (process {})", std::process::id());
        assert!(line.contains(&who), "{line}");
        let inode = directory.lock_inode();
        drop(directory);
        assert_eq!(take(&folder).lock_inode(), inode);
    }

    #[test]
    fn what_is_prepared_does_not_count_before_it_is_committed() {
        let folder = tempfile::tempdir().unwrap();
        let directory = take(&folder);
        let path = folder.path().join("file");
        directory.prepare("file", b"A").unwrap().commit().unwrap();
        let prepared = directory.prepare("file", b"B").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"A");
        drop(prepared);
        assert_eq!(fs::read(&path).unwrap(), b"A");
        assert!(!folder.path().join("file.new").exists());
        directory.remove("file").unwrap();
        directory.remove("file").unwrap();
        assert!(!path.exists());
    }
}
