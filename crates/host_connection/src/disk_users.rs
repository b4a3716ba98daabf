//! Users of a block device: mounted file systems, swap, and devices on top of it. Removing a device in use loses data that
//! was not written yet. The device is not opened for this: if its requests wait, opening would wait, too.

use std::fs;
use std::path::{Path, PathBuf};

/// Mounts, swap and block devices of this machine.
pub struct DiskUsers {
    root: PathBuf,
    /// `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
    mounts: String,
    /// `/proc/swaps`.
    swaps: String,
}

impl DiskUsers {
    /// Reads those of this machine.
    pub fn live() -> Self {
        Self::at(Path::new("/"))
    }

    fn at(root: &Path) -> Self {
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        Self { root: root.to_owned(), mounts: read("proc/self/mountinfo"), swaps: read("proc/swaps") }
    }

    /// Returns the user of the disk with this name, or of a partition of it.
    pub fn of(&self, disk: &str) -> Option<String> {
        let folder = self.root.join("sys/block").join(disk);
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let partitions = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let partitions = partitions.filter(|name| folder.join(name).join("partition").exists());
        let mut parts = vec![(disk.to_owned(), folder.clone())];
        parts.extend(partitions.map(|name| (name.clone(), folder.join(name))));
        parts.into_iter().find_map(|(name, folder)| self.of_part(&name, &folder))
    }

    /// Returns a process that has the disk with this name or a partition of it open, as far as this user
    /// may see it; a process that Landlock restricts or that has given capabilities up sees hardly any. udev and others open a
    /// disk for moments, so an open disk alone does not justify a refusal.
    pub fn opener(&self, disk: &str) -> Option<String> {
        let processes = fs::read_dir(self.root.join("proc")).into_iter().flatten().flatten();
        processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).find_map(|pid| {
            let folder = self.root.join("proc").join(pid.to_string());
            let files = fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
            let mut opened = files.filter_map(|file| fs::read_link(file.path()).ok());
            let device = opened.find(|opened| opened.to_str().is_some_and(|path| is_part_of(path, disk)))?;
            let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
            Some(format!("{} is open in process {pid} ({})", device.display(), name.trim()))
        })
    }

    fn of_part(&self, name: &str, folder: &Path) -> Option<String> {
        let numbers = fs::read_to_string(folder.join("dev")).unwrap_or_default();
        let (numbers, device) = (numbers.trim(), format!("/dev/{name}"));
        if let Some(place) = self.mounts.lines().find_map(|line| mounted(line, numbers, &device)) {
            return Some(format!("{device} is mounted on {place}"));
        }
        if self.swaps.lines().any(|line| line.split_whitespace().next() == Some(&device)) {
            return Some(format!("{device} is swap space"));
        }
        let holders = fs::read_dir(folder.join("holders")).into_iter().flatten().flatten();
        let holder = holders.map(|entry| entry.file_name().to_string_lossy().into_owned()).next()?;
        Some(format!("{device} is part of /dev/{holder}"))
    }
}

/// True if a path is that of the disk or of a partition of it.
fn is_part_of(path: &str, disk: &str) -> bool {
    let rest = path.strip_prefix("/dev/").and_then(|name| name.strip_prefix(disk));
    let digits = rest.map(|rest| rest.strip_prefix('p').unwrap_or(rest));
    // The number of another disk may begin with this one's.
    rest == Some("") || rest != digits && digits.is_some_and(|digits| digits.parse::<u32>().is_ok())
}

/// Returns the mount point in this line, if it is the device's: by its numbers, or for a file
/// system with numbers of its own, by its name.
fn mounted(line: &str, numbers: &str, device: &str) -> Option<String> {
    let (before, after) = line.split_once(" - ")?;
    let mut fields = before.split(' ').skip(2);
    let is_it = fields.next()? == numbers || after.split(' ').nth(1) == Some(device);
    let place = fields.nth(1)?;
    is_it.then(|| place.to_owned())
}

/// A made-up machine's tree.
#[cfg(any(test, feature = "testing"))]
pub fn write_tree(root: &Path, files: &[(&str, &str)]) {
    for (path, content) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_disks_and_partitions_are_found() {
        let folder = tempfile::tempdir().unwrap();
        write_tree(
            folder.path(),
            &[
                (
                    "proc/self/mountinfo",
                    "36 35 98:0 / / rw,noatime shared:1 - ext4 /dev/root rw\n\
                     37 36 259:2 / /mnt/a rw - ext4 /dev/nvme0n1p1 rw\n\
                     38 36 0:45 /sub /mnt/b rw - btrfs /dev/nvme0n2 rw\n",
                ),
                ("proc/swaps", "Filename Type Size Used Priority\n/dev/nvme0n3 partition 1 0 -2\n"),
                ("sys/block/nvme0n1/dev", "259:1\n"),
                ("sys/block/nvme0n1/nvme0n1p1/dev", "259:2\n"),
                ("sys/block/nvme0n1/nvme0n1p1/partition", "1\n"),
                ("sys/block/nvme0n2/dev", "259:3\n"),
                ("sys/block/nvme0n3/dev", "259:4\n"),
                ("sys/block/nvme0n4/dev", "259:5\n"),
                ("sys/block/nvme0n4/holders/dm-0", ""),
                ("sys/block/nvme0n5/dev", "259:6\n"),
            ],
        );
        let users = DiskUsers::at(folder.path());
        assert_eq!(users.of("nvme0n1").as_deref(), Some("/dev/nvme0n1p1 is mounted on /mnt/a"));
        assert_eq!(users.of("nvme0n2").as_deref(), Some("/dev/nvme0n2 is mounted on /mnt/b"));
        assert_eq!(users.of("nvme0n3").as_deref(), Some("/dev/nvme0n3 is swap space"));
        assert_eq!(users.of("nvme0n4").as_deref(), Some("/dev/nvme0n4 is part of /dev/dm-0"));
        assert_eq!((users.of("nvme0n5"), users.of("nvme9n9")), (None, None));
    }

    #[test]
    fn a_process_that_has_a_disk_or_a_partition_open_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write_tree(root, &[("proc/7/comm", "dd\n"), ("proc/8/comm", "fio\n"), ("proc/self/fd/3", "")]);
        for (pid, opened) in [(7, "/dev/ublkb1p2"), (8, "/dev/ublkb12")] {
            let files = root.join(format!("proc/{pid}/fd"));
            fs::create_dir_all(&files).unwrap();
            std::os::unix::fs::symlink("/dev/null", files.join("0")).unwrap();
            std::os::unix::fs::symlink(opened, files.join("3")).unwrap();
        }
        let users = DiskUsers::at(root);
        assert_eq!(users.opener("ublkb1").as_deref(), Some("/dev/ublkb1p2 is open in process 7 (dd)"));
        assert_eq!(users.opener("ublkb12").as_deref(), Some("/dev/ublkb12 is open in process 8 (fio)"));
        assert_eq!(users.opener("ublkb2"), None);
    }
}
