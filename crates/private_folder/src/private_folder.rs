//! A folder of files that are this program's alone, each there whole or not at all, whenever the machine stops. What the
//! files say is their users' concern.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::private_file::{
    self, FILE_MODE, OTHERS, PrivateFileError, check_owner, close_to_others, wrong_kind,
};

/// The mode of a private folder.
const FOLDER_MODE: u32 = 0o700;
/// Suffix of a file's name while it is being written.
pub(crate) const NEW_SUFFIX: &str = ".new";

/// An open folder. Its files are found through it, whatever becomes of its name meanwhile.
#[derive(Debug)]
pub struct PrivateFolder {
    path: PathBuf,
    handle: File,
}

/// A file that is written, and takes the old one's place when it is committed. Dropped, it has changed nothing.
#[must_use]
#[derive(Debug)]
pub struct Replacement<'a> {
    folder: &'a PrivateFolder,
    name: String,
}

impl PrivateFolder {
    /// Opens a folder, and makes it, and those above it, where they are missing.
    ///
    /// # Errors
    /// When it cannot be made, is not a folder, or is one that others than this user and root may write.
    pub fn make(path: &Path) -> Result<Self, PrivateFileError> {
        let failed = |error| PrivateFileError::io("create", path, error);
        if !path.exists() {
            DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path).map_err(failed)?;
            // Its name must survive what its files survive.
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(parent.unwrap_or(Path::new(".")))
                .and_then(|parent| parent.sync_all())
                .map_err(failed)?;
        }
        Self::open(path)
    }

    /// Opens a folder, which has to be there.
    ///
    /// # Errors
    /// As above.
    pub fn open(path: &Path) -> Result<Self, PrivateFileError> {
        Self::open_as(path, geteuid().as_raw())
    }

    fn open_as(path: &Path, me: u32) -> Result<Self, PrivateFileError> {
        let failed = |error: io::Error| PrivateFileError::io("open", path, error);
        let named = fs::symlink_metadata(path).map_err(failed)?;
        // A link of this user's or root's is as good as the path: its creator could have said where
        // it leads.
        if named.is_symlink() && named.uid() != me && named.uid() != 0 {
            return Err(PrivateFileError::Foreign { path: path.to_owned(), owner: named.uid(), me });
        }
        // The working directory may be changed by others for as long as a target runs.
        let path = fs::canonicalize(path).map_err(failed)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle: File = match openat(CWD, &path, flags, Mode::empty()) {
            Ok(handle) => handle.into(),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                return Err(PrivateFileError::Kind { path, found: "not a folder", wanted: "one" });
            }
            Err(error) => return Err(PrivateFileError::io("open", &path, error)),
        };
        let found = handle.metadata().map_err(failed)?;
        check_owner(&found, &path, me, FOLDER_MODE)?;
        Ok(Self { path, handle })
    }

    /// Closes the folder to all users but its owner.
    ///
    /// # Errors
    /// What the system says.
    pub fn close_to_others(&self) -> Result<(), PrivateFileError> {
        let closed =
            self.handle.metadata().and_then(|found| close_to_others(&self.handle, &found, FOLDER_MODE));
        closed.map_err(|error| PrivateFileError::io("change the mode of", &self.path, error))
    }

    /// True if others than its owner may list it.
    pub fn is_listed_by_others(&self) -> bool {
        self.handle.metadata().is_ok_and(|found| found.mode() & OTHERS != 0)
    }

    /// Absolute path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file's content; `None` where there is no such file.
    ///
    /// # Errors
    /// When it cannot be read, belongs to another user, or longer than `length_max`.
    pub fn read(
        &self,
        name: impl AsRef<OsStr>,
        length_max: u64,
    ) -> Result<Option<Vec<u8>>, PrivateFileError> {
        let file = match self.open_file(&name, OFlags::RDONLY, "read") {
            Ok(file) => file,
            Err(error) if error.is_missing() => return Ok(None),
            Err(error) => return Err(error),
        };
        let path = self.path.join(name.as_ref());
        let mut bytes = Vec::new();
        let read = file.take(length_max.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| PrivateFileError::io("read", &path, error))?;
        if bytes.len() as u64 > length_max {
            return Err(PrivateFileError::TooLong { path, length_max });
        }
        Ok(Some(bytes))
    }

    /// Opens a file to read and write it in its place; makes it when it is missing.
    ///
    /// # Errors
    /// When it cannot be opened, or belongs to another user.
    pub fn open_in_place(&self, name: &str) -> Result<File, PrivateFileError> {
        self.open_file(name, OFlags::RDWR | OFlags::CREATE, "open")
    }

    /// Opens a file that is there, to read it and to write at its end.
    pub fn open_to_append(&self, name: &OsStr) -> Result<File, PrivateFileError> {
        self.open_file(name, OFlags::RDWR | OFlags::APPEND, "open")
    }

    /// Makes a file that is not there yet.
    pub fn create_new(&self, name: &OsStr) -> Result<File, PrivateFileError> {
        self.open_file(name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, "create")
    }

    fn open_file(
        &self,
        name: impl AsRef<OsStr>,
        flags: OFlags,
        action: &'static str,
    ) -> Result<File, PrivateFileError> {
        let (name, path) = (Path::new(name.as_ref()), self.path.join(name.as_ref()));
        let file = private_file::open(self.as_fd(), name, &path, flags, action)?;
        // An older version made some for everybody to read. What is root's this user cannot change, and has not made.
        if let Ok(found) = file.metadata() {
            let _ = close_to_others(&file, &found, FILE_MODE);
        }
        Ok(file)
    }

    /// Writes a file beside the one that counts, so that a full disk is found out before anything is changed. There is one
    /// such file for each name at a time.
    ///
    /// # Errors
    /// When it cannot be written: nothing has changed then.
    pub fn prepare(&self, name: &str, bytes: &[u8]) -> Result<Replacement<'_>, PrivateFileError> {
        let new = format!("{name}{NEW_SUFFIX}");
        let path = self.path.join(&new);
        let failed = |error: io::Error| PrivateFileError::io("write", &path, error);
        // One that was left behind, or that an attacker put there to have it followed.
        match self.unlink(OsStr::new(&new)) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(failed(error.into())),
        }
        before(Step::Create, OsStr::new(&new), &[]).map_err(failed)?;
        let mut file = self.create_new(OsStr::new(&new))?;
        // Dropped on an error, it removes what there is of it: a full disk gets its bytes back.
        let replacement = Replacement { folder: self, name: name.to_owned() };
        write(&mut file, OsStr::new(&new), bytes).map_err(failed)?;
        sync_file(&file, OsStr::new(&new)).map_err(failed)?;
        Ok(replacement)
    }

    /// Puts a file with these bytes in the old one's place.
    ///
    /// # Errors
    /// As `prepare` and `commit`.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), PrivateFileError> {
        self.prepare(name, bytes)?.commit()
    }

    /// Removes a file, which may be missing.
    ///
    /// # Errors
    /// When it is there and cannot be removed.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> Result<(), PrivateFileError> {
        let name = name.as_ref();
        match self.unlink(name) {
            // An earlier call may have removed it and not got that onto the medium.
            Ok(()) | Err(Errno::NOENT) => self.sync(),
            Err(error) => Err(PrivateFileError::io("remove", &self.path.join(name), error)),
        }
    }

    fn unlink(&self, name: &OsStr) -> Result<(), Errno> {
        before(Step::Remove, name, &[]).map_err(|_| Errno::IO)?;
        unlinkat(&self.handle, name, AtFlags::empty())
    }

    /// A name is on the medium only when its folder is.
    fn sync(&self) -> Result<(), PrivateFileError> {
        let synced = before(Step::SyncFolder, OsStr::new(""), &[]).and_then(|()| self.handle.sync_all());
        synced.map_err(|error| PrivateFileError::io("synchronize", &self.path, error))
    }
}

impl AsFd for PrivateFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl Replacement<'_> {
    /// Puts it in the old one's place.
    ///
    /// # Errors
    /// When the system refuses. The old one stands then, unless only the last step failed: then the new one is there, and
    /// a power cut may yet bring back the old one. One of them is there, and whole.
    pub fn commit(self) -> Result<(), PrivateFileError> {
        let (folder, new, name) = (&self.folder.handle, self.new_name(), self.name.as_str());
        let is_folder = |error| match error {
            Errno::ISDIR => wrong_kind(&self.folder.path.join(name), "a folder"),
            error => PrivateFileError::io("write", &self.folder.path.join(name), error),
        };
        let renamed = before(Step::Rename, OsStr::new(name), &[]).map_err(|_| Errno::IO);
        renamed.and_then(|()| renameat(folder, new.as_str(), folder, name)).map_err(is_folder)?;
        self.folder.sync()
    }

    /// Opens it, to lock it before it is found under its name.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(&self) -> Result<File, PrivateFileError> {
        self.folder.open_file(self.new_name(), OFlags::RDONLY, "open")
    }

    fn new_name(&self) -> String {
        format!("{}{NEW_SUFFIX}", self.name)
    }
}

impl Drop for Replacement<'_> {
    fn drop(&mut self) {
        // After a commit there is none, and what cannot be removed is removed the next time.
        let _ = self.folder.unlink(OsStr::new(&self.new_name()));
    }
}

fn write(file: &mut File, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
    if let Err(error) = before(Step::Write, name, bytes) {
        // A disk that is full has taken a part.
        file.write_all(&bytes[..bytes.len() / 2])?;
        return Err(error);
    }
    file.write_all(bytes)
}

fn sync_file(file: &File, name: &OsStr) -> io::Result<()> {
    before(Step::SyncFile, name, &[])?;
    file.sync_all()
}

/// Step of a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Remove,
    Create,
    Write,
    SyncFile,
    /// From the name with the suffix to the one without.
    Rename,
    SyncFolder,
}

/// Hook by which tests make a step fail, and record what is on its way to the medium.
#[cfg(not(any(test, feature = "power")))]
#[allow(clippy::unnecessary_wraps, reason = "in tests it fails")]
const fn before(_: Step, _: &OsStr, _: &[u8]) -> io::Result<()> {
    Ok(())
}

#[cfg(all(feature = "power", not(test)))]
use power::before;
#[cfg(test)]
use tests::before;

#[cfg(any(test, feature = "power"))]
pub mod power;
#[cfg(test)]
mod tests;
