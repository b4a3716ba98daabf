//! Location of a file or device, and opening it there. A location with a [`FilePin`] is opened below the pin's folder in one
//! step, without links, so that another file that is put in its place meanwhile is not opened. Locks and lengths are `file`'s.

use std::ffi::CString;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::BackendError;
use super::config::FilePin;

/// A path, with the pin that limits it.
#[derive(Clone, Debug)]
pub(super) struct FileLocation {
    pub(super) path: PathBuf,
    pub(super) pin: Option<FilePin>,
}

impl FileLocation {
    /// A path, with the pin that limits it.
    pub(super) fn new(path: &Path, pin: Option<&FilePin>) -> Self {
        Self { path: path.to_owned(), pin: pin.cloned() }
    }

    /// A path that the machine's operator has configured.
    #[cfg(test)]
    pub(super) fn free(path: &Path) -> Self {
        Self::new(path, None)
    }

    /// Opens the file for reading, and for writing if `write` is set.
    pub(super) fn open(&self, write: bool, flags: OFlags) -> io::Result<fs::File> {
        let Some(pin) = &self.pin else {
            let mut options = OpenOptions::new();
            options.read(true).write(write).custom_flags(flags.bits() as i32);
            return options.open(&self.path);
        };
        let access = if write { OFlags::RDWR } else { OFlags::RDONLY };
        let file = open_below(pin, &self.path, access | flags, Mode::empty())?;
        match &pin.file {
            Some(known) if !is_same(known, &identity(&file)?) => Err(io::Error::other(format!(
                "another file is in the place of the one that was added ({known}); put that one back, or remove the namespace \
                 and add it again"
            ))),
            _ => Ok(file),
        }
    }

    /// Creates a file that no other user may read. It is never made elsewhere than at this path.
    pub(super) fn create(&self) -> io::Result<fs::File> {
        let Some(pin) = &self.pin else {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits() as i32);
            return options.open(&self.path);
        };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        open_below(pin, &self.path, flags, Mode::RUSR | Mode::WUSR)
    }

    /// The same location, pinned to the file that is open, if it has a pin.
    pub(super) fn pinned_to(&self, file: &fs::File) -> Self {
        Self { path: self.path.clone(), pin: self.pin.as_ref().map(|pin| pin.with(file)) }
    }

    /// Refusal to open the file.
    pub(super) fn failed(&self, source: io::Error) -> BackendError {
        BackendError::Open { path: self.path.clone(), source }
    }
}

impl FilePin {
    /// The same pin with the file that is open. A device has no identity, since only root makes devices.
    fn with(&self, file: &fs::File) -> Self {
        let is_regular = file.metadata().is_ok_and(|facts| facts.is_file());
        let identity = identity(file).ok().filter(|_| is_regular);
        Self { directory: self.directory.clone(), file: identity }
    }
}

/// Identity of an open file, as a pin has it.
fn identity(file: &fs::File) -> io::Result<String> {
    let facts = file.metadata()?;
    let created = facts.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let created = created.map(|at| format!(", created {}.{:09}", at.as_secs(), at.subsec_nanos()));
    Ok(format!("inode {}{}", facts.ino(), created.unwrap_or_default()))
}

/// True if two identities are of one file. A time of creation counts where both have one: another version of the kernel may be
/// the first to report it, as for ZFS and NFS.
fn is_same(known: &str, found: &str) -> bool {
    let (known, was_created) = known.split_once(", ").unwrap_or((known, ""));
    let (found, is_created) = found.split_once(", ").unwrap_or((found, ""));
    known == found && (was_created == is_created || was_created.is_empty() || is_created.is_empty())
}

/// Path of a file without links; for a file that does not exist yet, that of its folder and its name.
///
/// # Errors
/// When the folder does not exist, or the path is a link that leads nowhere.
pub fn resolved(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize().or_else(|error| {
        // A dangling link would be made where it leads to.
        let name = path.file_name().filter(|_| !path.is_symlink()).ok_or(error)?;
        Ok(path.parent().unwrap_or(path).canonicalize()?.join(name))
    })
}

/// Opens a path below the folder of a pin. Links that lead to a file of the folder are followed first; no link is followed
/// afterwards, so that a link that changes in between opens nothing else.
fn open_below(pin: &FilePin, path: &Path, flags: OFlags, mode: Mode) -> io::Result<fs::File> {
    let root = pin.directory.canonicalize()?;
    let real = resolved(path)?;
    let outside = || io::Error::other(format!("the path leads out of {}", pin.directory.display()));
    let below = real.strip_prefix(&root).map_err(|_| outside())?;
    let below = CString::new(below.as_os_str().as_bytes())?;
    open_without_links(&root, &below, flags, mode).map_err(|error| match error {
        Errno::LOOP | Errno::XDEV => outside(),
        Errno::NOSYS => io::Error::other(
            "the kernel cannot open a file below a folder alone (openat2, Linux 5.6), which the list of allowed storage needs",
        ),
        error => error.into(),
    })
}

fn open_without_links(root: &Path, below: &CString, flags: OFlags, mode: Mode) -> Result<fs::File, Errno> {
    let folder = rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    loop {
        // A file system in the network may be interrupted.
        match rustix::fs::openat2(&folder, below, flags | OFlags::CLOEXEC, mode, resolve) {
            Err(Errno::INTR) => {}
            outcome => return outcome.map(fs::File::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Teams {
        folder: tempfile::TempDir,
    }

    impl Teams {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            for team in ["mine", "theirs"] {
                fs::create_dir(folder.path().join(team)).unwrap();
                fs::write(folder.path().join(team).join("disk"), team).unwrap();
            }
            Self { folder }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        /// A location that may only be in `mine`.
        fn mine(&self, name: &str) -> FileLocation {
            let pin = FilePin { directory: self.path("mine"), file: None };
            FileLocation { path: self.path(name), pin: Some(pin) }
        }
    }

    fn error(outcome: io::Result<fs::File>) -> String {
        outcome.expect_err("is refused").to_string()
    }

    #[test]
    fn a_pinned_file_is_opened_below_its_folder_alone() {
        let teams = Teams::new();
        symlink(teams.path("theirs/disk"), teams.path("mine/away")).unwrap();
        symlink(teams.path("theirs"), teams.path("mine/folder")).unwrap();
        symlink(teams.path("mine/disk"), teams.path("mine/inside")).unwrap();
        for name in ["mine/disk", "mine/inside"] {
            assert!(teams.mine(name).open(true, OFlags::empty()).is_ok(), "{name}");
        }
        for name in ["mine/away", "mine/folder/disk", "theirs/disk", "mine/../theirs/disk"] {
            let refused = error(teams.mine(name).open(true, OFlags::empty()));
            assert!(refused.contains("leads out of"), "{name}: {refused}");
        }
        assert!(FileLocation::free(&teams.path("mine/away")).open(true, OFlags::empty()).is_ok());
        assert!(error(teams.mine("mine/folder/new").create()).contains("leads out of"));
        assert!(!teams.path("theirs/new").exists());
        teams.mine("mine/new").create().unwrap();
        assert!(teams.path("mine/new").is_file());
    }

    #[test]
    fn a_new_file_is_its_owners_alone() {
        let teams = Teams::new();
        for location in [FileLocation::free(&teams.path("new")), teams.mine("mine/new")] {
            let mode = location.create().unwrap().metadata().unwrap().mode();
            assert_eq!(mode & 0o7777, 0o600, "{}", location.path.display());
        }
    }

    #[test]
    fn a_link_that_is_put_under_way_after_the_check_opens_nothing() {
        let teams = Teams::new();
        fs::create_dir(teams.path("mine/a")).unwrap();
        fs::write(teams.path("mine/a/disk"), "mine").unwrap();
        // As if the path had been resolved before these links were made.
        let open = |below: &str| {
            let below = CString::new(below).unwrap();
            open_without_links(&teams.path("mine"), &below, OFlags::RDONLY, Mode::empty()).map(|_| ())
        };
        assert_eq!(open("a/disk"), Ok(()));
        fs::rename(teams.path("mine/a"), teams.path("mine/b")).unwrap();
        symlink(teams.path("theirs"), teams.path("mine/a")).unwrap();
        symlink("b", teams.path("mine/c")).unwrap();
        assert_eq!(open("a/disk"), Err(Errno::LOOP));
        assert_eq!(open("c/disk"), Err(Errno::LOOP), "also a link that stays inside");
        assert_eq!(open("../theirs/disk"), Err(Errno::XDEV));
    }

    #[test]
    fn a_time_of_creation_counts_where_it_is_known() {
        let created = "inode 7, created 1.000000002";
        assert!(is_same(created, created) && is_same("inode 7", created) && is_same(created, "inode 7"));
        for other in ["inode 77", "inode 7, created 1.000000003", "inode 8, created 1.000000002"] {
            assert!(!is_same(created, other), "{other}");
        }
        assert!(!is_same("inode 7", "inode 77"));
    }

    #[test]
    fn another_file_at_the_path_of_a_pinned_file_is_refused() {
        let teams = Teams::new();
        let mut location = teams.mine("mine/disk");
        let file = location.open(true, OFlags::empty()).unwrap();
        location.pin = location.pin.map(|pin| pin.with(&file));
        assert!(location.open(true, OFlags::empty()).is_ok(), "the same file continues");
        // Both files are in the folder: only their identity tells them apart.
        fs::rename(teams.path("theirs/disk"), teams.path("mine/other")).unwrap();
        fs::rename(teams.path("mine/disk"), teams.path("mine/kept")).unwrap();
        fs::rename(teams.path("mine/other"), teams.path("mine/disk")).unwrap();
        let refused = error(location.open(true, OFlags::empty()));
        assert!(refused.contains("another file is in the place"), "{refused}");
        fs::rename(teams.path("mine/kept"), teams.path("mine/disk")).unwrap();
        assert!(location.open(true, OFlags::empty()).is_ok());
    }
}
