//! Disks that fail in earnest, for tests that run as root: file systems on loop devices, mounted for one test.

use std::fs::File;
use std::path::{Path, PathBuf};

use prerequisite::{LoopDevice, run};
use tempfile::TempDir;

/// A file system whose disk has less room than it says.
pub(crate) struct LyingDisk {
    folder: TempDir,
    device: Option<LoopDevice>,
}

impl LyingDisk {
    pub(crate) fn new() -> Result<Self, String> {
        Self::made_with(&[])
    }

    /// A disk that does not record when its files were made: only their place distinguishes
    /// them.
    pub(crate) fn nameless() -> Result<Self, String> {
        Self::made_with(&["-I", "128"])
    }

    fn made_with(options: &[&str]) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut disk = Self { folder, device: None };
        for name in ["room", "disk"] {
            std::fs::create_dir(disk.path(name)).map_err(|error| error.to_string())?;
        }
        let room = disk.path("room");
        run("mount", &["-t", "tmpfs", "-o", "size=12m", "tmpfs", &text(&room)])?;
        let image = room.join("image");
        File::create(&image).and_then(|file| file.set_len(64 << 20)).map_err(|error| error.to_string())?;
        let device = text(disk.device.insert(LoopDevice::attach(&image, &["--sector-size", "4096"])?).path());
        let common = ["-q", "-O", "^has_journal", "-E", "lazy_itable_init=1,nodiscard"];
        run("mkfs.ext4", &[&common, options, &[&device]].concat())?;
        run("mount", &["-o", "errors=continue", &device, &text(&disk.path("disk"))])?;
        Ok(disk)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.path("disk/namespace")
    }

    /// Takes all the room there is, but for a little, or gives it back.
    pub(crate) fn take_room(&self, takes: bool) {
        let ballast = self.path("room/ballast");
        if takes {
            let file = File::create(&ballast).unwrap();
            let mut length = 0;
            let allocate =
                |length| rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), length, 64 << 10);
            while allocate(length).is_ok() {
                length += 64 << 10;
            }
        } else {
            std::fs::remove_file(&ballast).unwrap();
        }
    }
}

impl Drop for LyingDisk {
    fn drop(&mut self) {
        let or_print =
            |outcome: Result<String, String>| drop(outcome.inspect_err(|error| println!("{error}")));
        or_print(run("umount", &["--lazy", &text(&self.path("disk"))]));
        drop(self.device.take());
        or_print(run("umount", &["--lazy", &text(&self.path("room"))]));
    }
}

pub(crate) fn text(path: &Path) -> String {
    path.display().to_string()
}

/// A file system that can stand still.
pub(crate) struct Freezer {
    folder: TempDir,
    device: Option<LoopDevice>,
}

impl Freezer {
    pub(crate) fn new() -> Result<Self, String> {
        // In memory, since a disk below it may have a time-out that is longer than what is promised here.
        let folder = tempfile::tempdir_in("/dev/shm").map_err(|error| error.to_string())?;
        let mut freezer = Self { folder, device: None };
        let image = freezer.folder.path().join("image");
        File::create(&image).and_then(|file| file.set_len(32 << 20)).map_err(|error| error.to_string())?;
        let device = text(freezer.device.insert(LoopDevice::attach(&image, &[])?).path());
        run("mkfs.ext4", &["-q", &device])?;
        std::fs::create_dir(freezer.disk()).map_err(|error| error.to_string())?;
        run("mount", &[&device, &text(&freezer.disk())])?;
        Ok(freezer)
    }

    pub(crate) fn disk(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    /// Has it stand still until what this gives is dropped, also by a test that fails: a target that ends waits for its writes.
    pub(crate) fn freeze(&self) -> Frozen<'_> {
        run("fsfreeze", &["--freeze", &text(&self.disk())]).unwrap();
        Frozen(self)
    }
}

/// A file system that stands still.
pub(crate) struct Frozen<'a>(&'a Freezer);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        let thawed = run("fsfreeze", &["--unfreeze", &text(&self.0.disk())]);
        assert!(std::thread::panicking() || thawed.is_ok(), "{thawed:?}");
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let or_print =
            |outcome: Result<String, String>| drop(outcome.inspect_err(|error| println!("{error}")));
        // A test that failed may have left it frozen, and nothing could be unmounted then.
        let _ = run("fsfreeze", &["--unfreeze", &text(&self.disk())]);
        or_print(run("umount", &["--lazy", &text(&self.disk())]));
    }
}
