//! Blocks in a regular file or on a block device, past the page cache where the system allows it.
//! It opens, locks and describes; reads and writes are started on a reactor's ring by the target.

use std::fs;
use std::io::{self, Seek, SeekFrom};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use rustix::fs::OFlags;

use super::block_queue::{self, BlockQueue};
use super::config::FilePin;
use super::file_location::FileLocation;
use super::file_lock::{Lock, when_free, works_by};
use super::mount_points;
use super::new_file::NewFile;
use super::opened_file::{OpenedFile, kind_of, wrong_kind};
use super::partition_table;
use super::storage_remarks::{
    discard_remark, format_remark, read_only_remark, rest_remark, table_remark, tail_remark,
};
use super::{
    BackendError, BackendIdentity, Durability, SyncFailure, SyncKind, device_identity, file_identity,
    other_backend,
};
use crate::claims;
use crate::ring::Storage;
use crate::time_bound::TimeBound;

/// Modes of fallocate(2).
const KEEP_SIZE: u32 = 0x01;
const PUNCH_HOLE: u32 = 0x02;
const ZERO_RANGE: u32 = 0x10;

/// Method of zeroing a range, from the best on; once a file system refuses one, the next is used
/// from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZeroMethod {
    /// fallocate with these mode bits.
    Allocate(u32),
    /// By writing zeroes.
    Write,
}

const ZEROING: [ZeroMethod; 3] = [
    ZeroMethod::Allocate(ZERO_RANGE | KEEP_SIZE),
    ZeroMethod::Allocate(PUNCH_HOLE | KEEP_SIZE),
    ZeroMethod::Write,
];

/// An open file or block device.
#[derive(Debug)]
pub struct File {
    storage: Arc<Storage>,
    /// Earlier descriptor that holds the lock, if this one does not.
    claim: Option<Arc<Storage>>,
    durability: Durability,
    length: AtomicU64,
    /// Set if the configuration names the size; the file's bytes beyond it are not served.
    is_sized: bool,
    /// Bytes that the file had before it grew last.
    before_growth: AtomicU64,
    /// Set once it is cut: what is behind its end from then on is of writes that were under way.
    is_cut: AtomicBool,
    location: FileLocation,
    identity: BackendIdentity,
    is_device: bool,
    is_shared: bool,
    /// Set if writes go to the page cache first.
    is_cached: bool,
    deallocated_reads_zero: bool,
    /// Set if blocks can be given back.
    deallocates: bool,
    /// Bytes of a block that is written whole or not at all when the power is lost; 0 where nothing is promised.
    whole_bytes: u64,
    time_bound: TimeBound,
    zeroing: AtomicU8,
    /// Claim on a file that was made for this namespace.
    new: Option<NewFile>,
    is_read_only: bool,
    /// Remarks for the operator.
    remarks: Vec<String>,
}

impl File {
    /// Opens a regular file; makes it when it is missing and `size` is given. A retry does not wait for another process's lock.
    pub(super) fn open_regular(
        path: &Path,
        pin: Option<&FilePin>,
        size: Option<u64>,
        block_size: u32,
        (shared, is_retry): (bool, bool),
    ) -> Result<Self, BackendError> {
        let location = &FileLocation::new(path, pin);
        let failed = |source| location.failed(source);
        // A file that was there once is not made again, empty, where its file system is not mounted.
        let may_make = size.is_some() && pin.is_none_or(|pin| pin.file.is_none());
        let is_missing = may_make && !path.exists();
        if let Some(point) = Some(path).filter(|_| is_missing).and_then(mount_points::unmounted_above) {
            let reason =
                format!("nothing is mounted at {}, where /etc/fstab has its file system", point.display());
            return Err(failed(io::Error::other(reason)));
        }
        let new = is_missing.then(|| NewFile::create(location)).transpose().map_err(failed)?;
        let mut opened = OpenedFile::open_regular(location, block_size)?;
        let lock = when_free(is_retry, || opened.lock(path, shared))?;
        let mut remarks: Vec<String> = lock.remark().into_iter().collect();
        let claim = lock.former().filter(|claim| !works_by(claim, &mut opened.file));
        let file = &opened.file;
        // A process that is killed while it makes a file leaves an empty one.
        let is_empty = file.metadata().map_err(failed)?.len() == 0;
        if let Some(size) = size.filter(|_| is_empty) {
            file.set_len(size).map_err(failed)?;
            // The new file's name and size must survive what its blocks survive.
            file.sync_all().map_err(failed)?;
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            fs::File::open(parent.unwrap_or(Path::new(".")))
                .and_then(|parent| parent.sync_all())
                .map_err(failed)?;
        }
        let present = file.metadata().map_err(failed)?.len();
        let wanted = size.unwrap_or(u64::from(block_size));
        if present < wanted.max(u64::from(block_size)) {
            return Err(BackendError::TooSmall { path: path.to_owned(), length: present, wanted });
        }
        let length = size.unwrap_or(present - present % u64::from(block_size));
        remarks.extend(tail_remark(size.unwrap_or(present), block_size));
        remarks.extend(size.and_then(|size| rest_remark(present, size)));
        remarks.extend(table_remark(path, block_size));
        remarks.extend(format_remark(path));
        let file = Self::regular(location, opened, shared)?.remarked(remarks);
        Ok(Self { length: AtomicU64::new(length), is_sized: size.is_some(), claim, new, ..file })
    }

    /// Lets a file stay that was made for a namespace: it is served.
    pub(super) fn keep(&self) {
        self.new.iter().for_each(NewFile::keep);
    }

    /// A regular file that is open, with the length it has.
    fn regular(location: &FileLocation, opened: OpenedFile, shared: bool) -> Result<Self, BackendError> {
        let failed = |source| location.failed(source);
        let OpenedFile { file, is_cached, read_only } = opened;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(wrong_kind(&location.path, metadata.file_type(), "a regular file"));
        }
        let queue = BlockQueue::of(metadata.dev());
        // A block of the file lies in one of the file system's, which it writes in one piece.
        let whole_bytes = queue.as_ref().filter(|_| !is_cached).map(BlockQueue::whole_bytes);
        Ok(Self {
            identity: file_identity::of(&file, &location.path),
            location: location.pinned_to(&file),
            storage: Arc::new(Storage::new(file)),
            claim: None,
            durability: Durability::default(),
            length: AtomicU64::new(metadata.len()),
            is_sized: false,
            before_growth: AtomicU64::new(0),
            is_cut: AtomicBool::new(false),
            is_device: false,
            is_shared: shared,
            is_cached,
            deallocated_reads_zero: true,
            deallocates: true,
            whole_bytes: whole_bytes.map_or(0, |bytes| bytes.min(metadata.blksize())),
            time_bound: queue.map_or(TimeBound::Unknown, |queue| queue.time_bound()),
            zeroing: AtomicU8::new(0),
            new: None,
            is_read_only: read_only.is_some(),
            remarks: read_only_remark(read_only).into_iter().collect(),
        })
    }

    /// Opens a block device, for this process alone unless it is `shared`. A retry does not wait for another process's lock.
    pub(super) fn open_device(
        path: &Path,
        pin: Option<&FilePin>,
        block_size: u32,
        (shared, is_retry): (bool, bool),
    ) -> Result<Self, BackendError> {
        let location = &FileLocation::new(path, pin);
        let failed = |source| location.failed(source);
        let metadata = fs::metadata(path).map_err(failed)?;
        if !metadata.file_type().is_block_device() {
            return Err(wrong_kind(path, metadata.file_type(), "a block device"));
        }
        // What the old process of this target holds is held for it.
        let former = if shared { None } else { claims::of_device(metadata.rdev()) };
        // O_EXCL on a device refuses one that is mounted or part of another device.
        let is_exclusive = !shared && former.is_none();
        let flags = if is_exclusive { OFlags::DIRECT | OFlags::EXCL } else { OFlags::DIRECT };
        let mut opened = when_free(is_retry, || {
            OpenedFile::open(location, flags).map_err(|error| match error.kind() {
                io::ErrorKind::ResourceBusy => BackendError::Locked { path: path.to_owned(), holder: None },
                _ => failed(error),
            })
        })?;
        if opened.file.metadata().map_err(failed)?.rdev() != metadata.rdev() {
            return Err(failed(io::Error::other("another device has taken its place; try again")));
        }
        let lock = match former {
            Some(former) => Lock::Former(Arc::new(Storage::new(former))),
            None => when_free(is_retry, || opened.lock(path, shared))?,
        };
        let remark = lock.remark();
        let claim = lock.former().filter(|claim| !works_by(claim, &mut opened.file));
        Ok(Self { claim, ..Self::device(location, opened, block_size, shared)?.remarked(remark) })
    }

    /// A block device that is open.
    fn device(
        location: &FileLocation,
        opened: OpenedFile,
        block_size: u32,
        shared: bool,
    ) -> Result<Self, BackendError> {
        let (path, failed) = (&*location.path, |source| location.failed(source));
        let OpenedFile { mut file, mut read_only, .. } = opened;
        let number = file.metadata().map_err(failed)?.rdev();
        let queue = BlockQueue::of(number);
        // Linux lets some be opened for writing, and fails each write.
        if read_only.is_none() && block_queue::is_read_only(number) {
            read_only = Some("the device is set read-only".to_owned());
        }
        let sector = rustix::fs::ioctl_blksszget(&file).map_err(|error| failed(error.into()))?;
        if sector > block_size {
            return Err(BackendError::BlockSize { path: path.to_owned(), device: sector, block: block_size });
        }
        let present = file.seek(SeekFrom::End(0)).map_err(failed)?;
        let length = present - present % u64::from(block_size);
        if length == 0 {
            return Err(BackendError::TooSmall {
                path: path.to_owned(),
                length,
                wanted: u64::from(block_size),
            });
        }
        let discard_remark = queue.as_ref().and_then(discard_remark);
        Ok(Self {
            identity: device_identity::of(path),
            location: location.clone(),
            storage: Arc::new(Storage::new(file)),
            claim: None,
            durability: Durability::default(),
            length: AtomicU64::new(length),
            is_sized: false,
            before_growth: AtomicU64::new(0),
            is_cut: AtomicBool::new(false),
            is_device: true,
            is_shared: shared,
            is_cached: false,
            deallocated_reads_zero: queue.as_ref().is_some_and(BlockQueue::writes_zeroes),
            deallocates: queue.as_ref().is_none_or(BlockQueue::discards),
            whole_bytes: queue.as_ref().map_or(u64::from(sector), BlockQueue::whole_bytes),
            time_bound: queue.map_or(TimeBound::Unknown, |queue| queue.time_bound()),
            zeroing: AtomicU8::new(0),
            new: None,
            is_read_only: read_only.is_some(),
            remarks: [
                read_only_remark(read_only),
                tail_remark(present, block_size),
                table_remark(path, block_size),
                format_remark(path),
                discard_remark,
            ]
            .into_iter()
            .flatten()
            .collect(),
        })
    }

    /// Opens the same file or device again. The lock stays as it is, and no other target comes in
    /// between.
    ///
    /// # Errors
    /// When it cannot be opened, is another one by now, or still cannot be synchronized.
    pub(super) fn reopen(&self, block_size: u32) -> Result<Self, BackendError> {
        let failed = |source| self.location.failed(source);
        let reopened =
            if self.is_device { self.reopen_device(block_size)? } else { self.reopen_regular(block_size)? };
        // A lasting failure is reported now, to the operator, and not to a host.
        rustix::fs::fdatasync(&*reopened.storage).map_err(|error| failed(error.into()))?;
        Ok(reopened)
    }

    fn reopen_regular(&self, block_size: u32) -> Result<Self, BackendError> {
        let failed = |source| self.location.failed(source);
        let opened = OpenedFile::open_regular(&self.location, block_size)?;
        let old = rustix::fs::fstat(&*self.storage).map_err(|error| failed(error.into()))?;
        let new = opened.file.metadata().map_err(failed)?;
        let is_same = (old.st_dev, old.st_ino) == (new.dev(), new.ino());
        if !is_same {
            // Another file has been put there, which is what is asked for then.
            let _ = when_free(false, || opened.lock(&self.location.path, self.is_shared))?;
        }
        let file = Self::regular(&self.location, opened, self.is_shared)?;
        let (present, wanted) = (file.length(), self.length());
        let wanted = if self.is_sized { wanted } else { u64::from(block_size) };
        if present < wanted {
            return Err(BackendError::TooSmall { path: self.location.path.clone(), length: present, wanted });
        }
        let length = if self.is_sized { wanted } else { present - present % u64::from(block_size) };
        let claim = is_same.then(|| self.claim());
        Ok(Self { length: AtomicU64::new(length), is_sized: self.is_sized, claim, ..file })
    }

    /// Descriptor that holds the lock.
    fn claim(&self) -> Arc<Storage> {
        self.claim.clone().unwrap_or_else(|| self.storage.clone())
    }

    fn reopen_device(&self, block_size: u32) -> Result<Self, BackendError> {
        let failed = |source| self.location.failed(source);
        let claim = self.claim();
        let old = rustix::fs::fstat(&*claim).map_err(|error| failed(error.into()))?;
        let is_same = fs::metadata(&self.location.path).map_err(failed)?.rdev() == old.st_rdev;
        let is_alive = rustix::fs::seek(&*claim, rustix::fs::SeekFrom::End(0)).is_ok_and(|end| end > 0);
        if !(is_same && is_alive) {
            // It has gone and come again: the new one is not locked yet.
            return Self::open_device(&self.location.path, self.pin(), block_size, (self.is_shared, false));
        }
        // O_EXCL would refuse it to ourselves, who have it by the claim.
        let opened = OpenedFile::open(&self.location, OFlags::DIRECT).map_err(failed)?;
        let file = Self::device(&self.location, opened, block_size, self.is_shared)?;
        Ok(Self { claim: Some(claim), ..file })
    }

    /// Duplicates the descriptor that holds the lock, for the new process of an upgrade.
    pub(crate) fn held(&self) -> io::Result<OwnedFd> {
        self.claim().as_fd().try_clone_to_owned()
    }

    /// Adds remarks.
    fn remarked(mut self, remarks: impl IntoIterator<Item = String>) -> Self {
        self.remarks.extend(remarks);
        self
    }

    /// Remarks for the operator, a clause each.
    pub(super) fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Read-only state of the file or device.
    pub(super) const fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    pub(super) fn path(&self) -> &Path {
        &self.location.path
    }

    /// Pin of the path, with the file that is open.
    pub(super) const fn pin(&self) -> Option<&FilePin> {
        self.location.pin.as_ref()
    }

    /// Results of its syncs.
    pub(super) const fn durability(&self) -> &Durability {
        &self.durability
    }

    /// True if writes go to the page cache first.
    pub(super) const fn is_cached(&self) -> bool {
        self.is_cached
    }

    /// Bytes of a block that is written whole or not at all when the power is lost; 0 where nothing is promised.
    pub(super) const fn whole_bytes(&self) -> u64 {
        self.whole_bytes
    }

    /// Longest time that a command may take.
    pub(super) const fn time_bound(&self) -> &TimeBound {
        &self.time_bound
    }

    /// Descriptor that the ring reads and writes.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Bytes it holds.
    pub fn length(&self) -> u64 {
        self.length.load(Ordering::Relaxed)
    }

    /// Identity at the time of opening.
    pub(super) fn identity(&self) -> BackendIdentity {
        self.identity.clone()
    }

    /// Serves `size` bytes of a regular file. Where that is less than before, the rest is cut off; where it is more, the file is
    /// made longer if it has to be, and keeps what it has behind that. A device has the size it has.
    pub(super) fn resize(&self, size: u64) -> Result<(), BackendError> {
        if self.is_device {
            let reason = "a device is resized by its own means, and then looked at again".to_owned();
            return Err(BackendError::Size { what: "a block device", wanted: size, reason });
        }
        let shrinks = size < self.length();
        let kept = if shrinks { 0 } else { self.present()? };
        self.before_growth.store(kept, Ordering::Relaxed);
        self.is_cut.store(shrinks, Ordering::Relaxed);
        if kept < size {
            self.set_present(size)?;
        }
        self.length.store(size, Ordering::Relaxed);
        Ok(())
    }

    /// Serves `size` bytes again, after a growth that is taken back: the file is as long as it was, and no shorter.
    pub(super) fn shrink_back(&self, size: u64) -> Result<(), BackendError> {
        self.set_present(self.before_growth.load(Ordering::Relaxed).max(size))?;
        self.length.store(size, Ordering::Relaxed);
        Ok(())
    }

    /// Bytes that the file has, served or not.
    fn present(&self) -> Result<u64, BackendError> {
        let found = rustix::fs::fstat(&self.storage).map_err(|error| self.location.failed(error.into()))?;
        Ok(found.st_size as u64)
    }

    /// Makes the file this long.
    fn set_present(&self, size: u64) -> Result<(), BackendError> {
        let failed = |error: rustix::io::Errno| BackendError::Size {
            what: "the file",
            wanted: size,
            reason: format!("{}: {}", self.location.path.display(), io::Error::from(error)),
        };
        rustix::fs::ftruncate(&*self.storage, size).map_err(failed)?;
        // A host that was notified of the new size must find it after a crash, too.
        rustix::fs::fsync(&*self.storage).map_err(|error| {
            self.durability.fail(SyncFailure::new(SyncKind::SyncSize, &error.into()));
            failed(error)
        })
    }

    /// Cuts a regular file again that is longer than it was made.
    pub(super) fn trim(&self) -> Result<(), BackendError> {
        let is_cut = self.is_sized && self.is_cut.load(Ordering::Relaxed);
        if self.is_device || !is_cut || self.present()? <= self.length() {
            return Ok(());
        }
        self.set_present(self.length())
    }

    /// The allocated ranges between two offsets, in order, and true if these are all there are: a list has up to `most`. A device
    /// does not say, and is allocated everywhere. This may wait for the file system.
    pub(super) fn allocated(
        &self,
        from: u64,
        until: u64,
        most: usize,
    ) -> io::Result<(Vec<Range<u64>>, bool)> {
        if self.is_device {
            return Ok((std::iter::once(from..until).collect(), true));
        }
        let (mut found, mut at) = (Vec::new(), from);
        while at < until {
            if found.len() == most {
                return Ok((found, false));
            }
            let start = match rustix::fs::seek(&*self.storage, rustix::fs::SeekFrom::Data(at)) {
                Ok(start) if start < until => start,
                // Nothing but a hole up to the end.
                Ok(_) | Err(rustix::io::Errno::NXIO) => break,
                Err(error) => return Err(error.into()),
            };
            let end = rustix::fs::seek(&*self.storage, rustix::fs::SeekFrom::Hole(start))?;
            // Others may change the file meanwhile.
            at = end.clamp(start + 1, until);
            found.push(start..at);
        }
        Ok((found, true))
    }

    /// True if it is longer than when it was last looked at, by a whole block at least. Where a size was named, that counts.
    pub(super) fn has_grown(&self, block_size: u32) -> bool {
        if self.is_sized {
            return false;
        }
        let end = rustix::fs::seek(&*self.storage, rustix::fs::SeekFrom::End(0));
        end.is_ok_and(|end| end - end % u64::from(block_size) > self.length())
    }

    /// Looks how long it is now.
    pub(super) fn rescan(&self, block_size: u32) -> Result<(), BackendError> {
        if self.is_sized {
            return Ok(());
        }
        let failed = |error: rustix::io::Errno| self.location.failed(error.into());
        // The end of a device is only found by going there; reads and writes name their offsets.
        let found = rustix::fs::seek(&*self.storage, rustix::fs::SeekFrom::End(0)).map_err(failed)?;
        let length = found - found % u64::from(block_size);
        if length == 0 {
            let wanted = u64::from(block_size);
            return Err(BackendError::TooSmall { path: self.location.path.clone(), length, wanted });
        }
        self.length.store(length, Ordering::Relaxed);
        Ok(())
    }

    /// True if a deallocated range is certain to read as zeroes.
    pub const fn deallocated_reads_zero(&self) -> bool {
        self.deallocated_reads_zero
    }

    pub(super) const fn kind(&self) -> &'static str {
        if self.is_device { "block" } else { "file" }
    }

    /// True if ranges can be deallocated.
    pub const fn deallocates(&self) -> bool {
        self.deallocates
    }

    /// The mode of fallocate that deallocates a range.
    pub const fn deallocate_mode(&self) -> u32 {
        PUNCH_HOLE | KEEP_SIZE
    }

    /// Method that makes a range zeroes; with `deallocate`, the host prefers deallocation.
    pub fn zero_method(&self, deallocate: bool) -> ZeroMethod {
        let known = usize::from(self.zeroing.load(Ordering::Relaxed));
        ZEROING[known.max(usize::from(deallocate)).min(ZEROING.len() - 1)]
    }

    /// Records that the file system refused `method`; the next best is used from now on.
    pub fn refuse(&self, method: ZeroMethod) {
        if let Some(refused) = ZEROING.iter().position(|known| *known == method) {
            // Hole punching may work where zeroing a range does not, but a device that refuses both needs writes.
            self.zeroing.fetch_max(refused as u8 + 1, Ordering::Relaxed);
        }
    }
}

/// Bytes of a device's sectors, or of those larger ones that its partition table was made for.
pub(super) fn sector_bytes(path: &Path) -> io::Result<u32> {
    let file = fs::metadata(path)?.file_type();
    if !file.is_block_device() {
        let found = kind_of(file);
        let reason = format!("it is {found}, not a block device{}", other_backend(found));
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    let sector = rustix::fs::ioctl_blksszget(fs::File::open(path)?)?;
    // Hosts have partitioned it in larger blocks, in which it was served before.
    Ok(partition_table::other_sector(path, sector)?.map_or(sector, |found| found.max(sector)))
}
