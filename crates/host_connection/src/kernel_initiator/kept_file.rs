//! A file of the system's administrator that is changed whole: read, and replaced by another of the same owner and mode. Two
//! programs that do so one after the other lose nothing of each other.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Gid, Mode, Uid, fchmod, fchown, flock};

/// Bytes that such a file may have: thousands of subsystems.
const BYTES_MAX: u64 = 4 << 20;
/// The mode of a new file that anybody may read, and of one with secrets.
const MODE: u32 = 0o644;
const MODE_OF_SECRETS: u32 = 0o600;

/// File, and its folder, locked against other instances of this program.
pub struct KeptFile {
    path: PathBuf,
    folder: File,
}

impl KeptFile {
    /// Opens its folder, which is made where it is missing, and waits for others that change something there.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn lock(path: &Path) -> io::Result<Self> {
        // A link stays one: what it leads to is replaced.
        let path = match fs::canonicalize(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => path.to_owned(),
            found => found?,
        };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let folder = File::open(folder)?;
        flock(folder.as_fd(), FlockOperation::LockExclusive)?;
        Ok(Self { path, folder })
    }

    /// Returns the content; `None` if the file does not exist.
    ///
    /// # Errors
    /// When it cannot be read, is too long, or is not text.
    pub fn text(&self) -> io::Result<Option<String>> {
        match fs::metadata(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
            Ok(found) if found.len() > BYTES_MAX => Err(io::Error::from(ErrorKind::FileTooLarge)),
            Ok(_) => fs::read_to_string(&self.path).map(Some),
        }
    }

    /// Replaces the file as a whole, with its owner and mode. With `has_secrets`, only the owner may read it from now on.
    ///
    /// # Errors
    /// When it cannot be written: it is as before then.
    pub fn replace(&self, text: &str, has_secrets: bool) -> io::Result<()> {
        let former = fs::metadata(&self.path).ok();
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.new", std::process::id()));
        let beside = self.path.with_file_name(name);
        let write = || {
            let mut file =
                File::options().write(true).create_new(true).mode(MODE_OF_SECRETS).open(&beside)?;
            file.write_all(text.as_bytes())?;
            if let Some(former) = &former {
                fchown(&file, Some(Uid::from_raw(former.uid())), Some(Gid::from_raw(former.gid())))?;
            }
            let mode = former.as_ref().map_or(MODE, |former| former.mode() & 0o777);
            fchmod(&file, Mode::from_raw_mode(if has_secrets { mode & MODE_OF_SECRETS } else { mode }))?;
            file.sync_all()?;
            fs::rename(&beside, &self.path)
        };
        write().inspect_err(|_| {
            // What is left of it is not a reason to say more than the first error.
            let _ = fs::remove_file(&beside);
        })?;
        self.folder.sync_all()
    }

    /// Removes it.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn remove(&self) -> io::Result<()> {
        fs::remove_file(&self.path)?;
        self.folder.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn a_file_keeps_its_mode_until_it_has_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nvme/config.json");
        let replace = |text, has_secrets| {
            let file = KeptFile::lock(&path).unwrap();
            file.replace(text, has_secrets).unwrap();
            assert_eq!(file.text().unwrap().as_deref(), Some(text));
        };
        assert_eq!(KeptFile::lock(&path).unwrap().text().unwrap(), None);
        replace("a", false);
        assert_eq!(mode(&path), 0o644);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        replace("b", false);
        assert_eq!(mode(&path), 0o640);
        replace("c", true);
        assert_eq!(mode(&path), 0o600);
        let names: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(names.len(), 1, "nothing else is left");
        KeptFile::lock(&path).unwrap().remove().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_link_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&real, "a").unwrap();
        symlink(&real, &link).unwrap();
        KeptFile::lock(&link).unwrap().replace("b", false).unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "b");
    }
}
