//! Why a namespace cannot be a block device.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::disk::DiskError;

/// Why a namespace cannot be a block device.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// The kernel has no driver.
    #[error("the kernel's ublk driver is not loaded: run `modprobe ublk_drv` (Linux 6.5 or later)")]
    NoDriver,
    /// The user may not.
    #[error(
        "/dev/ublk-control cannot be used: {0}; block devices need root, or a user in the group `ublk` (usermod -aG ublk USER)"
    )]
    Forbidden(io::Error),
    /// The driver makes no devices for users.
    #[error(
        "the kernel's ublk driver makes no devices for users (UBLK_F_UNPRIVILEGED_DEV): block devices need root"
    )]
    RootOnly,
    /// Udev has no rule that gives a device to its user.
    #[error(
        "{} was not given to this user: udev needs the rules 59-selvedge-attach.rules; root removes the device by `selvedge attach \
         detach /dev/ublkb{number}`",
        path.display()
    )]
    NotGiven {
        /// The file.
        path: PathBuf,
        /// The number of the device.
        number: u32,
    },
    /// The kernel's driver is too old.
    #[error("the kernel's ublk driver cannot copy data by calls (UBLK_F_USER_COPY): Linux 6.5 or later can")]
    TooOld,
    /// The kernel gives no ring.
    #[error("ublk needs io_uring, which the system refuses: {0}")]
    NoRing(io::Error),
    /// The driver has refused a command.
    #[error("the kernel's ublk driver refused to {what}: {error}")]
    Refused {
        /// Refused action.
        what: &'static str,
        /// Why it did not.
        error: io::Error,
    },
    /// The namespace cannot be a disk.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The block size is not possible for a block device.
    #[error(
        "namespace {nsid} has blocks of {block_bytes} bytes; a block device can have those of 512 to 4096"
    )]
    Blocks {
        /// Namespace identifier (NSID).
        nsid: u32,
        /// Bytes of a block.
        block_bytes: u32,
    },
    /// The device is no longer there, or is another one.
    #[error("/dev/ublkb{number} of an earlier process no longer exists")]
    Gone {
        /// Number of the device.
        number: u32,
    },
    /// The device did not become free.
    #[error("/dev/ublkc{number} is still in use: the process that had it has not ended")]
    Busy {
        /// Number of the device.
        number: u32,
    },
    /// The namespace differs from the one that the block layer knows.
    #[error("namespace {nsid} cannot take over the block device: it has {differs} now")]
    Changed {
        /// Namespace identifier (NSID).
        nsid: u32,
        /// Property that differs.
        differs: &'static str,
    },
    /// The target grants fewer I/O queues than the device has.
    #[error("the target grants {granted} I/O queues, and the block device has {queues}")]
    Queues {
        /// Queues of the controller that has granted the fewest.
        granted: u16,
        /// Queues of the device.
        queues: u16,
    },
    /// The system has given no thread, file or memory.
    #[error("{what}: {error}")]
    System {
        /// Failed action.
        what: String,
        /// Why it was not given.
        error: io::Error,
    },
}
