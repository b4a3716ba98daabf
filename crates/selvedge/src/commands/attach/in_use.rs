//! Whether a block device is in use. It is not opened: where its process is gone, that may wait.

use std::fs;
use std::path::Path;

/// What uses `/dev/ublkbN` or a partition of it: a mount point, swap, or a device above it.
pub(super) fn in_use_by(number: u32) -> Option<String> {
    let name = format!("ublkb{number}");
    let mut names = vec![name.clone()];
    let entries = fs::read_dir(Path::new("/sys/block").join(&name)).into_iter().flatten().flatten();
    names.extend(
        entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|it| it.starts_with(&name)),
    );
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (mounts, swaps) = (read("/proc/self/mountinfo"), read("/proc/swaps"));
    names.iter().find_map(|name| {
        let device = format!("/dev/{name}");
        let class = Path::new("/sys/class/block").join(name);
        let id = fs::read_to_string(class.join("dev")).unwrap_or_default();
        let holder = || fs::read_dir(class.join("holders")).ok()?.flatten().next();
        mounted(&mounts, &device, id.trim())
            .or_else(|| is_swap(&swaps, &device).then(|| "it is swap".to_owned()))
            .or_else(|| holder().map(|above| format!("/dev/{} is on it", above.file_name().display())))
    })
}

/// Where it is mounted (proc_pid_mountinfo(5)).
fn mounted(mounts: &str, device: &str, id: &str) -> Option<String> {
    mounts.lines().find_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let mut fields = mount.split(' ');
        // A file system of several devices has a number of its own, and the name of one of them.
        let is_it = fields.nth(2)? == id || system.split(' ').nth(1)? == device;
        let point = fields.nth(1)?;
        is_it.then(|| format!("it is mounted on {point}"))
    })
}

fn is_swap(swaps: &str, device: &str) -> bool {
    swaps.lines().any(|line| line.split_whitespace().next() == Some(device))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_by_number_and_by_name() {
        let mounts = "22 1 259:3 / / rw - ext4 /dev/root rw\n\
                      40 22 259:7 /sub /mnt/disk rw shared:1 - xfs /dev/other rw\n\
                      41 22 0:45 / /mnt/pool rw,noatime - btrfs /dev/ublkb1 rw\n";
        let at = |device, id| mounted(mounts, device, id);
        assert_eq!(at("/dev/ublkb0", "259:7").as_deref(), Some("it is mounted on /mnt/disk"));
        assert_eq!(at("/dev/ublkb1", "259:9").as_deref(), Some("it is mounted on /mnt/pool"));
        assert_eq!(at("/dev/ublkb2", "259:8"), None);
    }

    #[test]
    fn swap_is_found() {
        let swaps = "Filename\tType\tSize\n/dev/ublkb0p1   partition\t1\n";
        assert!(is_swap(swaps, "/dev/ublkb0p1") && !is_swap(swaps, "/dev/ublkb0"));
    }
}
