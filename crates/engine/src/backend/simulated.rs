//! Blocks on a simulated disk, with the same methods as a file or device. What the disk does is the simulation's.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{BackendError, BackendIdentity, Durability, FilePin, IdentityText};
use crate::ring::{Hold, Storage};
use crate::time_bound::TimeBound;

/// Modes of fallocate(2).
const KEEP_SIZE: u32 = 0x01;
const PUNCH_HOLE: u32 = 0x02;

/// Method of zeroing a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZeroMethod {
    /// By deallocating them, with these mode bits.
    Allocate(u32),
    /// By writing zeroes.
    Write,
}

/// An open file of a simulated disk.
#[derive(Debug)]
pub struct File {
    storage: Storage,
    durability: Durability,
    length: AtomicU64,
    block_size: u64,
    path: PathBuf,
}

impl File {
    pub(super) fn open_regular(
        path: &Path,
        _pin: Option<&FilePin>,
        size: Option<u64>,
        block_size: u32,
        (shared, _): (bool, bool),
    ) -> Result<Self, BackendError> {
        let locked = || BackendError::Locked { path: path.to_owned(), holder: None };
        let storage = Storage::open(path, size.unwrap_or(0), block_size, shared).ok_or_else(locked)?;
        let length = storage.length();
        if length < size.unwrap_or(1) {
            let wanted = size.unwrap_or(u64::from(block_size));
            return Err(BackendError::TooSmall { path: path.to_owned(), length, wanted });
        }
        let length = size.unwrap_or(length);
        Ok(Self::on(storage, length, block_size.into(), path))
    }

    fn on(storage: Storage, length: u64, block_size: u64, path: &Path) -> Self {
        let durability = Durability::default();
        Self { storage, durability, length: AtomicU64::new(length), block_size, path: path.to_owned() }
    }

    pub(super) fn reopen(&self, _: u32) -> Result<Self, BackendError> {
        Ok(Self::on(self.storage.reopen(), self.length(), self.block_size, &self.path))
    }

    /// Hold on the lock of the file, for the new process of an upgrade.
    pub(crate) fn held(&self) -> io::Result<Hold> {
        self.storage.hold()
    }

    pub(super) const fn remarks(&self) -> &[String] {
        &[]
    }

    pub(super) const fn is_read_only(&self) -> bool {
        false
    }

    /// Keeps a file that was made; a simulated disk never removes one.
    pub(super) const fn keep(&self) {}

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) const fn durability(&self) -> &Durability {
        &self.durability
    }

    pub(super) const fn is_cached(&self) -> bool {
        false
    }

    pub(super) const fn time_bound(&self) -> &TimeBound {
        &TimeBound::Unknown
    }

    /// A simulated disk writes each block whole or not at all, and promises nothing of several.
    pub(super) const fn whole_bytes(&self) -> u64 {
        self.block_size
    }

    pub(super) fn open_device(
        path: &Path,
        pin: Option<&FilePin>,
        block_size: u32,
        locking: (bool, bool),
    ) -> Result<Self, BackendError> {
        Self::open_regular(path, pin, None, block_size, locking)
    }

    /// Pin of the path; a simulated disk has no links.
    pub(super) const fn pin(&self) -> Option<&FilePin> {
        None
    }

    /// Descriptor that the ring reads and writes.
    pub const fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Bytes it holds.
    pub fn length(&self) -> u64 {
        self.length.load(Ordering::Relaxed)
    }

    /// A simulated disk has its file forever.
    pub(super) fn identity(&self) -> BackendIdentity {
        BackendIdentity::OnMachine(IdentityText::new("file", vec![self.path.to_string_lossy().into_owned()]))
    }

    /// Cuts it again that is longer than it was made.
    pub(super) fn trim(&self) -> Result<(), BackendError> {
        if self.storage.length() > self.length() { self.resize(self.length()) } else { Ok(()) }
    }

    pub(super) fn resize(&self, size: u64) -> Result<(), BackendError> {
        self.storage.resize(size);
        self.length.store(size, Ordering::Relaxed);
        Ok(())
    }

    /// The same: a simulated disk has nothing behind its end.
    pub(super) fn shrink_back(&self, size: u64) -> Result<(), BackendError> {
        self.resize(size)
    }

    pub(super) fn rescan(&self, block_size: u32) -> Result<(), BackendError> {
        let length = self.storage.length();
        if length < u64::from(block_size) {
            let wanted = u64::from(block_size);
            return Err(BackendError::TooSmall { path: self.path.clone(), length, wanted });
        }
        Ok(())
    }

    /// True: a deallocated range reads as zeroes.
    pub const fn deallocated_reads_zero(&self) -> bool {
        true
    }

    pub(super) const fn kind(&self) -> &'static str {
        "file"
    }

    /// True: ranges can be deallocated.
    pub const fn deallocates(&self) -> bool {
        true
    }

    /// The mode of fallocate that deallocates a range.
    pub const fn deallocate_mode(&self) -> u32 {
        PUNCH_HOLE | KEEP_SIZE
    }

    /// Method that makes a range zeroes.
    pub const fn zero_method(&self, deallocate: bool) -> ZeroMethod {
        if deallocate { ZeroMethod::Allocate(PUNCH_HOLE | KEEP_SIZE) } else { ZeroMethod::Write }
    }

    /// A simulated disk refuses no method.
    pub const fn refuse(&self, _: ZeroMethod) {}

    /// Allocated ranges between two offsets: a simulated disk has no holes that it could name.
    pub(super) fn allocated(
        &self,
        from: u64,
        until: u64,
        _most: usize,
    ) -> std::io::Result<(Vec<std::ops::Range<u64>>, bool)> {
        Ok((std::iter::once(from..until).collect(), true))
    }

    /// A simulated disk keeps its size.
    pub(super) const fn has_grown(&self, _block_size: u32) -> bool {
        false
    }
}
