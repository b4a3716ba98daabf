//! Identity of a regular file: its file system, its number there, and its time of creation. A copy
//! has another one, and so has a file that was deleted and made again. Block devices are
//! `device_identity`'s.

use std::fs;
use std::path::Path;

use rustix::fs::{AtFlags, FsWord, StatxFlags, fstatfs, fstatvfs, statx};

use super::device_identity;
use super::identity::{BackendIdentity, IdentityText};

/// File systems whose identifier in statfs(2) follows from what is on the disk and stays, whatever the device is called.
/// On others it is the device's number, which another boot may give to another disk.
const STEADY: [FsWord; 5] = [
    0x0000_ef53, // ext2, ext3, ext4
    0x9123_683e, // btrfs
    0x2fc1_2fc1, // ZFS
    0xca45_1a4e, // bcachefs
    0x00c3_6400, // CephFS
];

/// Identity of the file on this machine.
pub(super) fn of(file: &fs::File, path: &Path) -> BackendIdentity {
    let unknown = || BackendIdentity::Unknown(path.canonicalize().unwrap_or_else(|_| path.to_owned()));
    match text(file) {
        Some(text) => BackendIdentity::OnMachine(text),
        None => unknown(),
    }
}

/// The file's name on this machine; `None` where the file system does not tell when it was made, since the number alone goes
/// to another file as soon as this one is deleted.
pub(super) fn text(file: &fs::File) -> Option<IdentityText> {
    let asked = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let facts = statx(file, "", AtFlags::EMPTY_PATH, asked).ok()?;
    if facts.stx_mask & StatxFlags::BTIME.bits() == 0 || facts.stx_ino == 0 {
        return None;
    }
    let born = format!("{}.{:09}", facts.stx_btime.tv_sec, facts.stx_btime.tv_nsec);
    let device = (facts.stx_dev_major, facts.stx_dev_minor);
    Some(IdentityText::new("file", vec![file_system(file, device), facts.stx_ino.to_string(), born]))
}

/// Identity of the file system, which distinguishes files of two with the same number and time of
/// creation; empty where nothing about it is steady.
fn file_system(file: &fs::File, device: (u32, u32)) -> String {
    let is_steady = fstatfs(file).is_ok_and(|facts| STEADY.contains(&facts.f_type));
    if is_steady && let Ok(facts) = fstatvfs(file) {
        return format!("{:016x}", facts.f_fsid);
    }
    device_identity::text(Path::new("/"), device).map_or_else(String::new, |text| text.text())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn identity(path: &Path) -> BackendIdentity {
        of(&fs::File::open(path).expect("opens"), path)
    }

    /// The clock of file systems ticks every few milliseconds.
    fn tick() {
        thread::sleep(Duration::from_millis(20));
    }

    #[test]
    fn a_file_is_the_same_whatever_it_is_called_and_holds() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("disk"), folder.path().join("renamed"));
        fs::write(&path, "A").expect("writes");
        let first = identity(&path);
        assert!(matches!(first, BackendIdentity::OnMachine(_)), "{first:?}");
        fs::OpenOptions::new().append(true).open(&path).expect("opens").write_all(b"more").expect("writes");
        fs::hard_link(&path, &other).expect("links");
        assert_eq!(identity(&path), first);
        assert_eq!(identity(&other), first);
        fs::remove_file(&path).expect("removes");
        assert_eq!(identity(&other), first);
    }

    #[test]
    fn a_copy_is_another_and_so_is_a_file_that_was_made_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, copy) = (folder.path().join("disk"), folder.path().join("copy"));
        fs::write(&path, "A").expect("writes");
        let first = identity(&path);
        fs::copy(&path, &copy).expect("copies");
        assert_ne!(identity(&copy), first);
        fs::remove_file(&path).expect("removes");
        tick();
        // It gets the same number on many file systems.
        fs::write(&path, "A").expect("writes");
        assert_ne!(identity(&path), first);
    }
}
