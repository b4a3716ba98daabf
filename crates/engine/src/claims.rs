//! What the former process of a target holds, for the one that goes on in its place: descriptors whose locks keep others off.
//! Locks belong to what was opened, not to a process (flock(2)), so that nobody comes in between while both have them.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What was handed to this process and is still to be claimed.
static INHERITED: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());

fn inherited() -> MutexGuard<'static, Vec<OwnedFd>> {
    INHERITED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes what the former process holds, before anything is opened.
pub fn inherit(descriptors: Vec<OwnedFd>) {
    inherited().extend(descriptors);
}

/// Lets go of what nobody has claimed: it is not used any longer.
pub fn forget() {
    inherited().clear();
}

/// The former process' hold on this very file, folder or device.
pub fn of(file: impl AsFd) -> Option<OwnedFd> {
    let wanted = rustix::fs::fstat(file).ok()?;
    let is_it = |held: &&OwnedFd| {
        rustix::fs::fstat(held).is_ok_and(|held| (held.st_dev, held.st_ino) == (wanted.st_dev, wanted.st_ino))
    };
    inherited().iter().find(is_it)?.try_clone().ok()
}

/// The former process' hold on the block device with this number.
pub(crate) fn of_device(number: u64) -> Option<OwnedFd> {
    let is_it =
        |held: &&OwnedFd| rustix::fs::fstat(held).is_ok_and(|held| is_block(&held) && held.st_rdev == number);
    inherited().iter().find(is_it)?.try_clone().ok()
}

fn is_block(file: &rustix::fs::Stat) -> bool {
    rustix::fs::FileType::from_raw_mode(file.st_mode) == rustix::fs::FileType::BlockDevice
}
