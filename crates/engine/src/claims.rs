//! Holdings of a target's old process, for the new one: descriptors with locks, and files in
//! memory with the blocks of namespaces. Locks belong to what was opened, not to a process
//! (flock(2)), so no third process gets one while both have it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

/// Descriptors that were handed to this process and are still to be claimed.
static INHERITED: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());
/// The same of namespaces in memory.
static MEMORIES: Mutex<Vec<InheritedMemory>> = Mutex::new(Vec::new());

/// The blocks of a namespace in memory.
#[derive(Debug)]
pub struct InheritedMemory {
    /// The namespace.
    pub namespace: Uuid,
    /// Bytes that its file has room for.
    pub room: u64,
    /// The file.
    pub file: OwnedFd,
}

fn inherited() -> MutexGuard<'static, Vec<OwnedFd>> {
    INHERITED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn memories() -> MutexGuard<'static, Vec<InheritedMemory>> {
    MEMORIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes what the old process holds, before anything is opened.
pub fn inherit(descriptors: Vec<OwnedFd>) {
    inherited().extend(descriptors);
}

/// Takes the blocks of namespaces in memory, before anything is opened.
pub fn inherit_memories(all: Vec<InheritedMemory>) {
    memories().extend(all);
}

/// Drops all holdings that were not claimed, and returns the namespaces in memory whose blocks are
/// among them.
pub fn forget() -> Vec<Uuid> {
    inherited().clear();
    memories().drain(..).map(|memory| memory.namespace).collect()
}

/// The blocks of a namespace in memory, for the one who asks first.
pub(crate) fn of_namespace(uuid: Uuid) -> Option<InheritedMemory> {
    let mut memories = memories();
    let at = memories.iter().position(|memory| memory.namespace == uuid)?;
    Some(memories.swap_remove(at))
}

/// The old process' hold on this very file, folder or device.
pub fn of(file: impl AsFd) -> Option<OwnedFd> {
    let wanted = rustix::fs::fstat(file).ok()?;
    let is_it = |held: &&OwnedFd| {
        rustix::fs::fstat(held).is_ok_and(|held| (held.st_dev, held.st_ino) == (wanted.st_dev, wanted.st_ino))
    };
    inherited().iter().find(is_it)?.try_clone().ok()
}

/// The old process' hold on the block device with this number.
pub(crate) fn of_device(number: u64) -> Option<OwnedFd> {
    let is_it =
        |held: &&OwnedFd| rustix::fs::fstat(held).is_ok_and(|held| is_block(&held) && held.st_rdev == number);
    inherited().iter().find(is_it)?.try_clone().ok()
}

fn is_block(file: &rustix::fs::Stat) -> bool {
    rustix::fs::FileType::from_raw_mode(file.st_mode) == rustix::fs::FileType::BlockDevice
}
