//! Files that are made for namespaces which are not served yet: where a namespace never is, its file goes, unless it was written.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use super::file_location::FileLocation;

/// The claim on a new file, until it is kept. Dropped before, it removes the file.
#[derive(Debug)]
pub(super) struct NewFile {
    path: PathBuf,
    device_and_inode: (u64, u64),
    is_kept: AtomicBool,
}

impl NewFile {
    /// Creates an image file: its content is the hosts', so no other user may read it, and it never
    /// lies elsewhere than its path says.
    pub(super) fn create(location: &FileLocation) -> io::Result<Self> {
        let path = &location.path;
        let made = location.create().and_then(|file| file.metadata());
        let made = made.map_err(|error| match fs::symlink_metadata(path) {
            Ok(found) if found.is_symlink() => {
                let reason = "it is a link that leads nowhere; make the file it leads to, or remove the link";
                io::Error::new(error.kind(), reason)
            }
            _ => error,
        })?;
        let device_and_inode = (made.dev(), made.ino());
        Ok(Self { path: path.to_owned(), device_and_inode, is_kept: AtomicBool::new(false) })
    }

    /// Lets the file stay: a namespace is served of it.
    pub(super) fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.is_kept.load(Ordering::Relaxed) {
            return;
        }
        // A file with blocks was written, and a file in its place is not ours.
        let is_ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == self.device_and_inode && found.blocks() == 0);
        if is_ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(%error, "the file {} was made for nothing and cannot be removed", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_goes_unless_it_is_kept_written_or_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let make = |name: &str| {
            let new = NewFile::create(&FileLocation::free(&path(name))).unwrap();
            fs::OpenOptions::new()
                .write(true)
                .open(path(name))
                .and_then(|file| file.set_len(1 << 20))
                .unwrap();
            new
        };
        drop(make("unused"));
        make("kept").keep();
        let written = make("written");
        fs::write(path("written"), [1; 8192]).unwrap();
        drop(written);
        let replaced = make("replaced");
        fs::File::create(path("other")).unwrap();
        fs::rename(path("other"), path("replaced")).unwrap();
        drop(replaced);
        let there = ["unused", "kept", "written", "replaced"].map(|name| path(name).exists());
        assert_eq!(there, [false, true, true, true]);
    }
}
