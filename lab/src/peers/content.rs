//! The file that targets without memory of their own serve: random bytes, so that none of them can
//! compress it. Its name is removed before it is served, so that the file is gone when this process ends, however it ends.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

const PIECE: usize = 1 << 20;

/// An open file without a name.
pub(crate) struct Content {
    file: File,
}

impl Content {
    /// Makes one of `mib` MiB in `directory`.
    ///
    /// # Errors
    /// The directory cannot be written, or has no room.
    pub(crate) fn new(directory: &Path, mib: u32) -> Result<Content, String> {
        let path = directory.join(format!("selvedge-served-{}", std::process::id()));
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut file =
            OpenOptions::new().read(true).write(true).create_new(true).open(&path).map_err(failed)?;
        std::fs::remove_file(&path).map_err(failed)?;
        let mut chance = File::open("/dev/urandom").map_err(|error| format!("/dev/urandom: {error}"))?;
        let mut piece = vec![0; PIECE];
        for _ in 0..mib {
            chance.read_exact(&mut piece).map_err(|error| format!("/dev/urandom: {error}"))?;
            file.write_all(&piece).map_err(failed)?;
        }
        file.sync_all().map_err(failed)?;
        Ok(Content { file })
    }

    /// Path at which others can open it as long as this process lives.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_no_name_and_can_be_opened() {
        let directory = std::env::temp_dir();
        let content = Content::new(&directory, 2).unwrap();
        assert!(!directory.join(format!("selvedge-served-{}", std::process::id())).exists());
        assert_eq!(std::fs::metadata(content.path()).unwrap().len(), 2 << 20);
    }

    #[test]
    fn says_where_there_is_no_room() {
        let reason = Content::new(Path::new("/proc/selvedge-no-such-directory"), 1).err().unwrap();
        assert!(reason.contains("selvedge-no-such-directory"), "{reason}");
    }
}
