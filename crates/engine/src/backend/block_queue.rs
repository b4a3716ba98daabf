//! Properties of a block device's queue, as the kernel reports them below /sys: atomic writes,
//! zeroing, and the longest time of a command. For devices that are made of others, those are read.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{major, minor};

use crate::time_bound::TimeBound;

/// Number of devices followed downwards, which ends a loop in what /sys says.
const DEPTH_MAX: usize = 8;

/// Read-only state of the block device with this number, as the kernel tells (`blockdev --setro`, `losetup -r`, a
/// switch on a card).
pub(super) fn is_read_only(device: u64) -> bool {
    number(&Path::new("/sys").join(format!("dev/block/{}:{}/ro", major(device), minor(device)))) == Some(1)
}

/// A disk, or a part of one.
#[derive(Clone, Debug)]
pub(super) struct BlockQueue {
    root: PathBuf,
    /// The disk's folder, which has the queue.
    disk: PathBuf,
    /// Bytes from the disk's first to the first of the part.
    start: u64,
}

impl BlockQueue {
    /// Returns the queue of the block device with this number; `None` for a file system without
    /// one.
    pub(super) fn of(device: u64) -> Option<Self> {
        Self::below(Path::new("/sys"), device)
    }

    fn below(root: &Path, device: u64) -> Option<Self> {
        let folder = root.join(format!("dev/block/{}:{}", major(device), minor(device)));
        let folder = fs::canonicalize(folder).ok()?;
        Self::in_folder(root, folder)
    }

    fn in_folder(root: &Path, folder: PathBuf) -> Option<Self> {
        let root = root.to_owned();
        if folder.join("queue").is_dir() {
            return Some(Self { root, disk: folder, start: 0 });
        }
        // A partition has no queue of its own; its disk has. Its start is in sectors of 512 bytes.
        let start = number(&folder.join("start"))?.checked_mul(512)?;
        let disk = folder.parent()?.to_owned();
        disk.join("queue").is_dir().then_some(Self { root, disk, start })
    }

    /// True if blocks can be given back, as far as Linux tells. Where it cannot, punching a hole may write zeroes all the same: a
    /// disk with WRITE SAME is busy with that for hours.
    pub(super) fn discards(&self) -> bool {
        self.number("discard_max_bytes").is_none_or(|bytes| bytes > 0)
    }

    /// True if punching a hole zeroes.
    pub(super) fn writes_zeroes(&self) -> bool {
        self.number("write_zeroes_max_bytes").is_some_and(|bytes| bytes > 0)
    }

    /// True if blocks can be given back, but not so that they are zeroes then, which is all that Linux lets a hole be punched by.
    pub(super) fn discards_in_vain(&self) -> bool {
        self.number("discard_max_bytes").is_some_and(|bytes| bytes > 0)
            && self.number("write_zeroes_max_bytes") == Some(0)
    }

    /// Bytes that the device writes whole or not at all when it loses its power, as far as every write at a multiple of them
    /// goes: its physical block, which is what Linux promises of that number (Documentation/ABI/stable/sysfs-block), and the
    /// least of it where it is made of several devices, of which Linux tells the most. What it holds of writes with RWF_ATOMIC
    /// alone (`atomic_write_unit_max_bytes`) does not count: none is used, and others may be merged to something longer.
    pub(super) fn whole_bytes(&self) -> u64 {
        self.whole_within(DEPTH_MAX)
    }

    fn whole_within(&self, depth: usize) -> u64 {
        let logical = self.number("logical_block_size").unwrap_or(512);
        let physical = self.number("physical_block_size").unwrap_or(logical).max(logical);
        // A part that begins within a physical block has all its blocks across two.
        let begins_on_one =
            self.start.is_multiple_of(physical) && number(&self.disk.join("alignment_offset")) == Some(0);
        let own = if begins_on_one { physical } else { logical };
        let is_cached = self.disk.join("loop").is_dir() && number(&self.disk.join("loop/dio")) != Some(1);
        if is_cached {
            // What it writes goes to the page cache of its file.
            return 0;
        }
        let below = self.below_it().take_while(|_| depth > 0).map(|queue| queue.whole_within(depth - 1));
        below.fold(own, u64::min)
    }

    /// Longest time that a command may take.
    pub(super) fn time_bound(&self) -> TimeBound {
        self.bound_within(DEPTH_MAX)
    }

    fn bound_within(&self, depth: usize) -> TimeBound {
        if depth == 0 {
            return TimeBound::Unknown;
        }
        if fs::read_to_string(self.disk.join("dm/uuid")).is_ok_and(|uuid| uuid.starts_with("mpath-")) {
            return TimeBound::None(
                "a multipath device keeps commands while it has no path (queue_if_no_path)",
            );
        }
        let below = self.below_it().map(|queue| queue.bound_within(depth - 1));
        let own = [
            // SCSI, in seconds; the commands of NVMe over fabrics, which wait for a lost controller; NVMe, in milliseconds.
            ("device/timeout", Some(1000)),
            ("device/ctrl_loss_tmo", Some(1000)),
            ("queue/io_timeout", self.is_nvme().then_some(1)),
        ];
        let own = own.into_iter().filter_map(|(name, unit_ms)| {
            let file = self.disk.join(name);
            let text = fs::read_to_string(&file).ok()?;
            match text.trim() {
                "off" | "-1" => {
                    Some(TimeBound::None("it waits for a lost controller without end (ctrl_loss_tmo)"))
                }
                number => {
                    let time = Duration::from_millis(number.parse::<u64>().ok()?.saturating_mul(unit_ms?));
                    Some(TimeBound::Known(time, file.display().to_string()))
                }
            }
        });
        below.chain(own).reduce(TimeBound::longer).unwrap_or(TimeBound::Unknown)
    }

    /// The devices it is made of, and that below a loop device's file.
    fn below_it(&self) -> impl Iterator<Item = Self> {
        let slaves = fs::read_dir(self.disk.join("slaves")).into_iter().flatten().flatten();
        let slaves = slaves.filter_map(|slave| fs::canonicalize(slave.path()).ok());
        let slaves = slaves.filter_map(|folder| Self::in_folder(&self.root, folder));
        let file = fs::read_to_string(self.disk.join("loop/backing_file")).ok();
        let file = file.and_then(|path| {
            use std::os::unix::fs::MetadataExt;
            let device = fs::metadata(path.trim_end()).ok()?.dev();
            Self::below(&self.root, device)
        });
        slaves.chain(file)
    }

    fn is_nvme(&self) -> bool {
        self.disk.file_name().is_some_and(|name| name.to_string_lossy().starts_with("nvme"))
    }

    fn number(&self, name: &str) -> Option<u64> {
        number(&self.disk.join("queue").join(name))
    }
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::makedev;
    use tempfile::TempDir;

    use super::*;

    /// A tree like /sys, with these files.
    fn tree(files: &[(&str, &str)]) -> TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        fs::create_dir_all(root.path().join("dev/block")).expect("made");
        root
    }

    fn link(root: &TempDir, number: &str, disk: &str) {
        symlink(root.path().join(disk), root.path().join("dev/block").join(number)).expect("a link");
    }

    fn queue(root: &TempDir, device: u64) -> Option<BlockQueue> {
        BlockQueue::below(root.path(), device)
    }

    fn bound(root: &TempDir, minor: u32) -> TimeBound {
        queue(root, makedev(8, minor)).expect("a queue").time_bound()
    }

    #[test]
    fn a_part_has_its_disks_queue_and_whole_blocks_where_it_begins_on_one() {
        let root = tree(&[
            ("sda/queue/logical_block_size", "512\n"),
            ("sda/queue/physical_block_size", "4096\n"),
            ("sda/queue/write_zeroes_max_bytes", "0\n"),
            ("sda/queue/discard_max_bytes", "0\n"),
            ("sda/alignment_offset", "0\n"),
            ("sda/sda1/start", "2048\n"),
            ("sda/sda2/start", "63\n"),
        ]);
        link(&root, "8:0", "sda");
        link(&root, "8:1", "sda/sda1");
        link(&root, "8:2", "sda/sda2");
        let whole = |minor| queue(&root, makedev(8, minor)).map(|queue| queue.whole_bytes());
        assert_eq!((whole(0), whole(1), whole(2)), (Some(4096), Some(4096), Some(512)));
        assert_eq!(whole(3), None, "there is none");
        fs::write(root.path().join("sda/alignment_offset"), "3584\n").expect("written");
        assert_eq!((whole(0), whole(1)), (Some(512), Some(512)));
        let part = || queue(&root, makedev(8, 1)).expect("a queue");
        assert!(!part().writes_zeroes() && !part().discards() && !part().discards_in_vain());
        fs::write(root.path().join("sda/queue/discard_max_bytes"), "2147450880\n").expect("written");
        assert!(part().discards() && part().discards_in_vain());
        fs::write(root.path().join("sda/queue/write_zeroes_max_bytes"), "2147450880\n").expect("written");
        assert!(part().discards() && !part().discards_in_vain());
        fs::remove_file(root.path().join("sda/queue/discard_max_bytes")).expect("removed");
        assert!(part().discards() && !part().discards_in_vain(), "nothing speaks against it");
    }

    #[test]
    fn a_loop_device_promises_nothing_through_the_page_cache() {
        let root = tree(&[
            ("loop0/queue/physical_block_size", "4096\n"),
            ("loop0/alignment_offset", "0\n"),
            ("loop0/loop/dio", "0\n"),
        ]);
        link(&root, "8:0", "loop0");
        let whole = || queue(&root, makedev(8, 0)).map(|queue| queue.whole_bytes());
        assert_eq!(whole(), Some(0));
        fs::write(root.path().join("loop0/loop/dio"), "1\n").expect("written");
        assert_eq!(whole(), Some(4096));
    }

    #[test]
    fn what_is_made_of_several_devices_holds_the_least_of_them() {
        let root = tree(&[
            ("md0/queue/physical_block_size", "4096\n"),
            ("md0/alignment_offset", "0\n"),
            ("sda/queue/physical_block_size", "4096\n"),
            ("sda/alignment_offset", "0\n"),
            ("sdb/queue/physical_block_size", "512\n"),
            ("sdb/alignment_offset", "0\n"),
        ]);
        link(&root, "8:0", "md0");
        fs::create_dir_all(root.path().join("md0/slaves")).expect("made");
        for (disk, whole) in [("sda", 4096), ("sdb", 512)] {
            symlink(root.path().join(disk), root.path().join("md0/slaves").join(disk)).expect("a link");
            assert_eq!(queue(&root, makedev(8, 0)).map(|queue| queue.whole_bytes()), Some(whole));
        }
    }

    #[test]
    fn what_atomic_writes_hold_counts_for_no_others() {
        let root = tree(&[
            ("nvme0n1/queue/logical_block_size", "512\n"),
            ("nvme0n1/queue/physical_block_size", "512\n"),
            ("nvme0n1/queue/atomic_write_unit_max_bytes", "131072\n"),
            ("nvme0n1/alignment_offset", "0\n"),
        ]);
        link(&root, "8:0", "nvme0n1");
        assert_eq!(queue(&root, makedev(8, 0)).map(|queue| queue.whole_bytes()), Some(512));
    }

    #[test]
    fn the_longest_time_of_all_devices_below_counts() {
        let root = tree(&[
            ("sda/queue/io_timeout", "30000\n"),
            ("sda/device/timeout", "30\n"),
            ("nvme0n1/queue/io_timeout", "31000\n"),
            ("vda/queue/io_timeout", "30000\n"),
            ("md0/queue/rotational", "0\n"),
            ("dm-0/queue/rotational", "0\n"),
            ("dm-0/dm/uuid", "LVM-abc\n"),
            ("dm-1/queue/rotational", "0\n"),
            ("dm-1/dm/uuid", "mpath-3600\n"),
            ("nvme1n1/queue/io_timeout", "30000\n"),
            ("nvme1n1/device/ctrl_loss_tmo", "600\n"),
            ("nvme2n1/device/ctrl_loss_tmo", "off\n"),
            ("nvme2n1/queue/rotational", "0\n"),
        ]);
        let disks = ["sda", "nvme0n1", "vda", "md0", "dm-0", "dm-1", "nvme1n1", "nvme2n1"];
        for (minor, disk) in disks.iter().enumerate() {
            link(&root, &format!("8:{minor}"), disk);
        }
        let slave = |of: &str, disk: &str| {
            let folder = root.path().join(of).join("slaves");
            fs::create_dir_all(&folder).expect("made");
            symlink(root.path().join(disk), folder.join(disk)).expect("a link");
        };
        slave("md0", "sda");
        slave("md0", "nvme0n1");
        slave("dm-0", "md0");
        let root_path = fs::canonicalize(root.path()).expect("a path");
        let known = |seconds, file: &str| {
            TimeBound::Known(Duration::from_secs(seconds), root_path.join(file).display().to_string())
        };
        assert_eq!(bound(&root, 0), known(30, "sda/device/timeout"));
        assert_eq!(bound(&root, 1), known(31, "nvme0n1/queue/io_timeout"));
        assert_eq!(bound(&root, 2), TimeBound::Unknown, "virtio does nothing when that time is over");
        assert_eq!(bound(&root, 3), known(31, "nvme0n1/queue/io_timeout"));
        assert_eq!(bound(&root, 4), known(31, "nvme0n1/queue/io_timeout"));
        assert!(matches!(bound(&root, 5), TimeBound::None(_)));
        assert_eq!(bound(&root, 6), known(600, "nvme1n1/device/ctrl_loss_tmo"));
        assert!(matches!(bound(&root, 7), TimeBound::None(_)));
        slave("dm-0", "dm-1");
        assert!(matches!(bound(&root, 4), TimeBound::None(_)));
        // One that is made of itself ends all the same.
        slave("sda", "dm-0");
        assert!(matches!(bound(&root, 4), TimeBound::None(_)));
    }
}
