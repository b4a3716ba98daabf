//! A directory tree that stands for a machine. Links in it, absolute ones too, lead to places in it and nowhere else.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// The tree.
#[derive(Debug)]
pub(super) struct Tree {
    root: OwnedFd,
    path: PathBuf,
}

impl Tree {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self { root, path: path.to_owned() })
    }

    pub(super) fn name(&self, path: &str) -> String {
        self.path.join(path).display().to_string()
    }

    pub(super) fn read(&self, path: &str) -> io::Result<String> {
        // Without waiting: a pipe in a tree has no writer.
        let file = self.resolve(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
            FileType::RegularFile => super::bounded(Ok(file.into())),
            FileType::Directory => Err(Errno::ISDIR.into()),
            _ => Err(Errno::INVAL.into()),
        }
    }

    pub(super) fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let directory = self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in Dir::new(directory)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    pub(super) fn link(&self, path: &str) -> io::Result<String> {
        let link = self.resolve(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        let found = FileType::from_raw_mode(rustix::fs::fstat(&link)?.st_mode);
        if found != FileType::Symlink {
            return Err(Errno::INVAL.into());
        }
        let target = rustix::fs::readlinkat(&link, "", Vec::new())?;
        Ok(target.to_string_lossy().into_owned())
    }

    /// Opens a path as if the tree were all there is.
    fn resolve(&self, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        Ok(rustix::fs::openat2(&self.root, path, flags, Mode::empty(), resolve)?)
    }
}
