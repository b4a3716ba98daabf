//! Mount points that the machine's table of file systems has, and at which nothing is mounted: a disk that was not there at boot, or
//! a server that is not reached yet. A file that is made below one lies on another file system, and is hidden once the right one
//! comes. It mounts nothing.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// Table of file systems (fstab(5)).
const TABLE: &str = "/etc/fstab";
/// Mounted file systems (proc_pid_mountinfo(5)).
const MOUNTED: &str = "/proc/self/mountinfo";
/// Fields with the mount point, counted from 0.
const POINT_OF_TABLE: usize = 1;
const POINT_OF_MOUNTED: usize = 4;

/// The mount point below which a new file would lie in the place of its file system. None where either file cannot be read.
pub(super) fn unmounted_above(path: &Path) -> Option<PathBuf> {
    // Folders of the missing file system are missing, too.
    let folder = path.ancestors().skip(1).find_map(|folder| folder.canonicalize().ok())?;
    below(&folder, &fs::read_to_string(TABLE).ok()?, &fs::read_to_string(MOUNTED).ok()?)
}

/// The same for a folder, by the content of both files.
fn below(folder: &Path, table: &str, mounted: &str) -> Option<PathBuf> {
    let innermost = |text: &str, field: usize| {
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        let points = lines.filter_map(|line| line.split_whitespace().nth(field)).map(unescaped);
        // All are above one folder, so the longest is the innermost.
        points.filter(|point| folder.starts_with(point)).max_by_key(|point| point.as_os_str().len())
    };
    let listed = innermost(table, POINT_OF_TABLE).filter(|point| point.parent().is_some())?;
    let is_mounted = innermost(mounted, POINT_OF_MOUNTED).is_some_and(|point| point.starts_with(&listed));
    (!is_mounted).then_some(listed)
}

/// A path whose spaces and the like are octal numbers behind a backslash.
fn unescaped(text: &str) -> PathBuf {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, after @ ..] = rest {
        let number = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match number.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = &after[3..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# /old was here\nUUID=a / ext4 defaults 0 1\nUUID=b none swap sw 0 0\n\
        UUID=c /srv/usb\\040disk ext4 nofail 0 0\n  nas:/vol\t/srv/nas/\tnfs\t_netdev 0 0\n/dev/x /srv/nas/inner ext4 noauto 0 0\n";

    fn mounted(points: &[&str]) -> String {
        let line = |point: &&str| format!("36 35 98:0 / {point} rw,noatime shared:1 - ext4 /dev/root rw\n");
        points.iter().map(line).collect()
    }

    #[test]
    fn a_listed_mount_point_without_a_file_system_is_found() {
        let found = |folder: &str, points: &[&str]| {
            below(Path::new(folder), TABLE, &mounted(points)).map(|point| point.display().to_string())
        };
        assert_eq!(found("/srv/usb disk/images", &["/"]).as_deref(), Some("/srv/usb disk"));
        assert_eq!(found("/srv/usb disk", &["/", "/srv/usb\\040disk"]), None);
        assert_eq!(found("/srv/nas", &["/"]).map(PathBuf::from), Some("/srv/nas".into()));
        assert_eq!(found("/srv/nas", &["/", "/srv/nas"]), None);
        assert_eq!(found("/srv/nas/inner/a", &["/", "/srv/nas"]).as_deref(), Some("/srv/nas/inner"));
        assert_eq!(found("/srv/nas/pool", &["/", "/srv/nas/pool"]), None, "one that is not listed");
        for folder in ["/", "/srv", "/srv/nasty", "/old", "/srv/usb"] {
            assert_eq!(found(folder, &["/"]), None, "{folder}");
            assert_eq!(found(folder, &[]), None, "{folder}");
        }
    }

    #[test]
    fn paths_are_unescaped() {
        for (text, path) in [("/a\\040b\\134", "/a b\\"), ("/a\\9", "/a\\9"), ("/\\777", "/\\777"), ("", "")]
        {
            assert_eq!(unescaped(text), Path::new(path));
        }
    }

    #[test]
    fn folders_of_this_machine_are_mounted() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(unmounted_above(&folder.path().join("disk")), None);
        assert_eq!(unmounted_above(&folder.path().join("missing/disk")), None);
    }
}
