//! The directory in which a target keeps what has to outlive it: it belongs to one process at a time, and a file in it is
//! there whole or not at all, whenever the machine stops. What its files say is not its concern.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use engine::claims;
use private_folder::PrivateFolder;
use rustix::fs::{FlockOperation, flock};

use crate::failure::Failure;

const LOCK_NAME: &str = "lock";
/// Bytes of a lock that are read: a process' number.
const LOCK_LENGTH_MAX: u64 = 64;

/// A directory for state, which belongs to this process for as long as there is this value.
#[derive(Debug)]
pub struct StateDirectory {
    pub folder: PrivateFolder,
    lock: File,
    lock_inode: u64,
}

impl StateDirectory {
    /// Takes the directory for this process; makes it when it is missing.
    pub fn take(path: &Path) -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::failed(format!("the state directory {} cannot be used: {error}", path.display()))
        };
        let folder = PrivateFolder::make(path).map_err(|error| failed(&error))?;
        if folder.is_listed_by_others() {
            tracing::warn!(
                "others can list the state directory {}; its files are not theirs to read, and chmod 700 hides their names",
                folder.path().display()
            );
        }
        let mut lock = folder.open_in_place(LOCK_NAME).map_err(|error| failed(&error))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => match claims::of(&lock) {
                // The old process of this very target has it, and goes.
                Some(former) => lock = former.into(),
                None => return Err(in_use(&folder)),
            },
            Err(error) => return Err(failed(&io::Error::from(error))),
        }
        let lock_inode = lock.metadata().map_err(|error| failed(&error))?.ino();
        let directory = Self { folder, lock, lock_inode };
        // Whose it is, for those who find it taken; what is locked is as good without.
        if let Err(error) = directory.sign() {
            tracing::warn!(%error, "cannot determine the holder of the state directory's lock");
        }
        Ok(directory)
    }

    /// Inode of the lock, which no copy of the directory has: its holder has ended if this process
    /// has locked it.
    pub(crate) const fn lock_inode(&self) -> u64 {
        self.lock_inode
    }

    /// Descriptor of the lock, for the process that takes this one's place.
    pub fn held(&self) -> io::Result<OwnedFd> {
        Ok(self.lock.try_clone()?.into())
    }

    fn sign(&self) -> io::Result<()> {
        self.lock.set_len(0)?;
        writeln!(&self.lock, "{}", std::process::id())
    }
}

/// The directory is locked by another target.
fn in_use(folder: &PrivateFolder) -> Failure {
    let signature = folder.read(LOCK_NAME, LOCK_LENGTH_MAX).ok().flatten().unwrap_or_default();
    let signature = String::from_utf8_lossy(&signature);
    // One of an older version has not signed.
    let who = signature.trim().parse::<u32>().map_or(String::new(), |id| format!(" (process {id})"));
    Failure::failed(format!(
        "the state directory {} is in use by another target{who}; end that one, or choose another directory",
        folder.path().display()
    ))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

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
        directory.folder.prepare("file", b"A").unwrap().commit().unwrap();
        let prepared = directory.folder.prepare("file", b"B").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"A");
        drop(prepared);
        assert_eq!(fs::read(&path).unwrap(), b"A");
        assert!(!folder.path().join("file.new").exists());
        directory.folder.remove("file").unwrap();
        directory.folder.remove("file").unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_that_is_made_is_its_owners_alone_and_one_that_others_may_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("above/state");
        let directory = StateDirectory::take(&path).unwrap_or_else(|failure| panic!("{failure:?}"));
        directory.folder.prepare("file", b"A").unwrap().commit().unwrap();
        for (name, expected) in [("..", 0o700), ("", 0o700), ("lock", 0o600), ("file", 0o600)] {
            let mode = fs::metadata(path.join(name)).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, expected, "{name}: {mode:o}");
        }
        drop(directory);
        let refused = || StateDirectory::take(&path).unwrap_err().line().unwrap();
        // Who may write it puts a lock there that leads to a file which is then cut to nothing.
        let victim = folder.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        fs::remove_file(path.join("lock")).unwrap();
        symlink(&victim, path.join("lock")).unwrap();
        assert!(refused().contains("lock is a link"), "{}", refused());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        let line = refused();
        assert!(line.contains("may be changed by others") && line.contains("chmod 700"), "{line}");
    }
}
