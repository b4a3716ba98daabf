//! Identity of a block device: the name that its disk, volume manager or file gives it, whatever
//! its node is called. It reads what the kernel reports about devices; a device without a name is
//! unknown.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::file_identity;
use super::identity::{BackendIdentity, IdentityText};

/// Bytes of a name that are taken; each is a line, and those that exist are much shorter.
const NAME_LENGTH_MAX: usize = 1024;
/// Partitions and files may lie on devices in files on devices; this many levels are followed.
const DEPTH_MAX: usize = 4;

/// Identity of the device at this path.
pub(super) fn of(path: &Path) -> BackendIdentity {
    let unknown = || BackendIdentity::Unknown(path.canonicalize().unwrap_or_else(|_| path.to_owned()));
    let Ok(facts) = fs::metadata(path) else { return unknown() };
    let number = (rustix::fs::major(facts.rdev()), rustix::fs::minor(facts.rdev()));
    match text(Path::new("/"), number) {
        Some(text) => BackendIdentity::OnMachine(text),
        None => unknown(),
    }
}

/// The name of the device with this number, by what stands below `root`.
pub(super) fn text(root: &Path, number: (u32, u32)) -> Option<IdentityText> {
    let entry = root.join(format!("sys/dev/block/{}:{}", number.0, number.1));
    // The entry is a link to the device's own place, whose parent is a partition's disk.
    let parts = parts(root, &fs::canonicalize(entry).ok()?, number, DEPTH_MAX)?;
    Some(IdentityText::new("device", parts))
}

fn parts(root: &Path, device: &Path, number: (u32, u32), depth: usize) -> Option<Vec<String>> {
    let depth = depth.checked_sub(1)?;
    if line(&device.join("partition")).is_some() {
        let disk = device.parent()?;
        let number = line(&disk.join("dev")).and_then(|text| parsed_number(&text))?;
        let mut parts = parts(root, disk, number, depth)?;
        parts.extend(["from".to_owned(), line(&device.join("start"))?]);
        return Some(parts);
    }
    let named = |name: &str, at: &str| line(&device.join(at)).map(|value| vec![name.to_owned(), value]);
    named("device-mapper", "dm/uuid")
        .or_else(|| named("wwid", "wwid"))
        .or_else(|| named("wwid", "device/wwid"))
        .or_else(|| named("cid", "device/cid"))
        .or_else(|| named("serial", "serial"))
        .or_else(|| image(device))
        .or_else(|| looped(device))
        .or_else(|| array(root, number))
        .or_else(|| volume(root, number))
}

/// An image of a Ceph cluster that the kernel has mapped.
fn image(device: &Path) -> Option<Vec<String>> {
    let part = |name: &str| line(&device.join("device").join(name));
    let snapshot = part("current_snap").unwrap_or_default();
    Some(vec!["image".to_owned(), part("cluster_fsid")?, part("pool_id")?, part("image_id")?, snapshot])
}

/// A loop device is the file behind it, from an offset on.
fn looped(device: &Path) -> Option<Vec<String>> {
    let file = fs::File::open(line(&device.join("loop/backing_file"))?).ok()?;
    if !file.metadata().is_ok_and(|facts| facts.is_file()) {
        return None;
    }
    let offset = line(&device.join("loop/offset")).unwrap_or_default();
    Some(vec!["loop".to_owned(), file_identity::text(&file)?.text(), offset])
}

/// An array of disks (md) has its name from udev alone.
fn array(root: &Path, number: (u32, u32)) -> Option<Vec<String>> {
    let known = fs::read_to_string(root.join(format!("run/udev/data/b{}:{}", number.0, number.1))).ok()?;
    let uuid = known.lines().find_map(|line| line.strip_prefix("E:MD_UUID="))?;
    Some(vec!["array".to_owned(), checked(uuid)?])
}

/// A volume of ZFS is a data set, by the pool's number and its own there: another one of the same name has another number.
fn volume(root: &Path, number: (u32, u32)) -> Option<Vec<String>> {
    let known = fs::read_to_string(root.join(format!("run/udev/data/b{}:{}", number.0, number.1))).ok()?;
    let name = known.lines().find_map(|line| line.strip_prefix("S:zvol/"))?;
    let (pool, _) = name.split_once('/')?;
    let pool = root.join("proc/spl/kstat/zfs").join(checked(pool)?);
    let guid = line(&pool.join("guid"))?;
    let is_it = |statistics: &String| {
        let mut lines = statistics.lines().filter_map(|line| line.strip_prefix("dataset_name"));
        // Between both stands the type of the value.
        lines.any(|line| line.trim_start().split_once(' ').is_some_and(|(_, value)| value.trim() == name))
    };
    let entries = fs::read_dir(&pool).ok()?.filter_map(Result::ok);
    let data_set = entries.map(|entry| entry.path()).find(|path| {
        let is_set = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"objset-"));
        is_set && fs::read_to_string(path).is_ok_and(|statistics| is_it(&statistics))
    })?;
    Some(vec!["zvol".to_owned(), guid, data_set.file_name()?.to_str()?.to_owned()])
}

/// The first line of a file that says something.
fn line(path: &Path) -> Option<String> {
    checked(fs::read_to_string(path).ok()?.lines().next()?)
}

fn checked(value: &str) -> Option<String> {
    let value = value.trim();
    (!value.is_empty() && value.len() <= NAME_LENGTH_MAX).then(|| value.to_owned())
}

fn parsed_number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree such as the kernel's.
    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Self {
            Self(tempfile::tempdir().expect("a folder"))
        }

        fn file(&self, path: &str, text: &str) -> &Self {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("makes folders");
            fs::write(path, text).expect("writes");
            self
        }

        /// A device with this number at this place.
        fn device(&self, number: (u32, u32), place: &str) -> &Self {
            let folder = self.0.path().join("sys/devices").join(place);
            fs::create_dir_all(&folder).expect("makes folders");
            fs::create_dir_all(self.0.path().join("sys/dev/block")).expect("makes folders");
            let link = self.0.path().join(format!("sys/dev/block/{}:{}", number.0, number.1));
            std::os::unix::fs::symlink(&folder, link).expect("links");
            self.file(&format!("sys/devices/{place}/dev"), &format!("{}:{}\n", number.0, number.1))
        }

        fn text(&self, number: (u32, u32)) -> Option<String> {
            text(self.0.path(), number).map(|text| format!("{text:?}"))
        }
    }

    #[test]
    fn a_disk_is_known_by_what_it_says_and_not_by_its_number() {
        let tree = Tree::new();
        tree.device((8, 0), "pci/sda").file("sys/devices/pci/sda/device/wwid", "naa.5000c500a1b2c3d4\n");
        tree.device((8, 16), "pci/sdb").file("sys/devices/pci/sdb/device/wwid", "naa.5000c500a1b2c3d5\n");
        tree.device((259, 0), "nvme/nvme0n1").file("sys/devices/nvme/nvme0n1/wwid", "uuid.0b1c\n");
        tree.device((254, 0), "virtio/vda").file("sys/devices/virtio/vda/serial", "data\n");
        tree.device((254, 16), "virtio/vdb").file("sys/devices/virtio/vdb/serial", "\n");
        tree.device((1, 0), "virtual/ram0");
        assert_eq!(tree.text((8, 0)).as_deref(), Some("device wwid naa.5000c500a1b2c3d4"));
        assert_ne!(tree.text((8, 0)), tree.text((8, 16)));
        assert_eq!(tree.text((259, 0)).as_deref(), Some("device wwid uuid.0b1c"));
        assert_eq!(tree.text((254, 0)).as_deref(), Some("device serial data"));
        for nameless in [(254, 16), (1, 0), (7, 7)] {
            assert_eq!(tree.text(nameless), None);
        }
    }

    #[test]
    fn a_partition_is_a_part_of_its_disk() {
        let tree = Tree::new();
        tree.device((8, 0), "sda").file("sys/devices/sda/device/wwid", "naa.1\n");
        for (number, name, start) in [(1, "sda1", "2048"), (2, "sda2", "4096")] {
            tree.device((8, number), &format!("sda/{name}"));
            tree.file(&format!("sys/devices/sda/{name}/partition"), &format!("{number}\n"));
            tree.file(&format!("sys/devices/sda/{name}/start"), start);
        }
        assert_eq!(tree.text((8, 1)).as_deref(), Some("device wwid naa.1 from 2048"));
        assert_ne!(tree.text((8, 1)), tree.text((8, 2)));
    }

    #[test]
    fn volumes_of_managers_are_known_by_their_own_names() {
        let tree = Tree::new();
        tree.device((253, 0), "dm-0").file("sys/devices/dm-0/dm/uuid", "LVM-abc\n");
        tree.device((9, 0), "md0").file("run/udev/data/b9:0", "S:md0\nE:MD_UUID=1:2:3:4\n");
        tree.device((251, 0), "rbd0");
        for (name, value) in
            [("cluster_fsid", "f"), ("pool_id", "2"), ("image_id", "10ab"), ("current_snap", "-")]
        {
            tree.file(&format!("sys/devices/rbd0/device/{name}"), value);
        }
        assert_eq!(tree.text((253, 0)).as_deref(), Some("device device-mapper LVM-abc"));
        assert_eq!(tree.text((9, 0)).as_deref(), Some("device array 1:2:3:4"));
        assert_eq!(tree.text((251, 0)).as_deref(), Some("device image f 2 10ab -"));
    }

    #[test]
    fn a_volume_of_zfs_that_was_made_again_is_another() {
        let tree = Tree::new();
        tree.device((230, 0), "zd0").file("run/udev/data/b230:0", "S:zvol/tank/my vm\n");
        let sets = "proc/spl/kstat/zfs/tank";
        tree.file(
            &format!("{sets}/objset-0x36"),
            "name type data\ndataset_name                    7    tank\n",
        );
        tree.file(&format!("{sets}/objset-0x81"), "dataset_name                    7    tank/my vm\n");
        assert_eq!(tree.text((230, 0)), None, "nothing tells its pool from another of the name");
        tree.file(&format!("{sets}/guid"), "1234567\n");
        assert_eq!(tree.text((230, 0)).as_deref(), Some("device zvol 1234567 objset-0x81"));
        fs::remove_file(tree.0.path().join(sets).join("objset-0x81")).expect("removes");
        tree.file(&format!("{sets}/objset-0x99"), "dataset_name                    7    tank/my vm\n");
        assert_eq!(tree.text((230, 0)).as_deref(), Some("device zvol 1234567 objset-0x99"));
    }

    #[test]
    fn a_loop_device_is_the_file_behind_it() {
        let tree = Tree::new();
        let file = tree.0.path().join("disk.img");
        fs::write(&file, "A").expect("writes");
        for number in [0, 1] {
            tree.device((7, number), &format!("loop{number}"));
            tree.file(&format!("sys/devices/loop{number}/loop/backing_file"), file.to_str().expect("a path"));
            tree.file(&format!("sys/devices/loop{number}/loop/offset"), "0\n");
        }
        assert!(tree.text((7, 0)).is_some_and(|text| text.starts_with("device loop")));
        assert_eq!(tree.text((7, 0)), tree.text((7, 1)));
        tree.file("sys/devices/loop1/loop/offset", "1048576\n");
        assert_ne!(tree.text((7, 0)), tree.text((7, 1)));
    }
}
