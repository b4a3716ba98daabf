//! Blocks in a regular file or on a block device, past the page cache where the system allows it.
//! It opens, locks and describes; reads and writes are started on a reactor's ring by the target.

use std::fs::{self, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, StatxFlags, flock};

use super::{BackendError, BackendIdentity, device_identity, file_identity};
use crate::ring::Storage;

/// How long, and how often, a file is tried that somebody else has.
const LOCK_TIME_MAX: Duration = Duration::from_secs(1);
const LOCK_AGAIN: Duration = Duration::from_millis(10);

/// Modes of fallocate(2).
const KEEP_SIZE: u32 = 0x01;
const PUNCH_HOLE: u32 = 0x02;
const ZERO_RANGE: u32 = 0x10;

/// How ranges are zeroed, from the best on; a file system that refuses one is asked for the next from then on.
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
    storage: Storage,
    length: AtomicU64,
    /// Whether the size was named, so that what the file has beyond it is not served.
    is_sized: bool,
    path: PathBuf,
    identity: BackendIdentity,
    is_device: bool,
    deallocated_reads_zero: bool,
    zeroing: AtomicU8,
}

impl File {
    /// Opens a regular file; makes it when it is missing and `size` is given.
    pub(super) fn open_regular(
        path: &Path,
        size: Option<u64>,
        block_size: u32,
        shared: bool,
    ) -> Result<Self, BackendError> {
        let failed = |source| BackendError::Open { path: path.to_owned(), source };
        let exists = path.exists();
        if exists && !path.is_file() {
            return Err(BackendError::WrongKind { path: path.to_owned(), expected: "a regular file" });
        }
        let open = |flags: OFlags| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(!exists && size.is_some());
            options.custom_flags(flags.bits() as i32).open(path)
        };
        // Some file systems know no O_DIRECT, or only for larger blocks; the page cache serves there.
        let file = match open(OFlags::DIRECT) {
            Ok(file) if direct_alignment(&file) <= block_size => file,
            Ok(_) => open(OFlags::empty()).map_err(failed)?,
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                open(OFlags::empty()).map_err(failed)?
            }
            Err(error) => return Err(failed(error)),
        };
        when_free(|| lock(&file, path, shared))?;
        if let (false, Some(size)) = (exists, size) {
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
        Ok(Self {
            identity: file_identity::of(&file, path),
            storage: Storage::new(file),
            length: AtomicU64::new(length),
            is_sized: size.is_some(),
            path: path.to_owned(),
            is_device: false,
            deallocated_reads_zero: true,
            zeroing: AtomicU8::new(0),
        })
    }

    /// Opens a block device, for this process alone unless it is `shared`.
    pub(super) fn open_device(path: &Path, block_size: u32, shared: bool) -> Result<Self, BackendError> {
        let failed = |source| BackendError::Open { path: path.to_owned(), source };
        let metadata = fs::metadata(path).map_err(failed)?;
        if !metadata.file_type().is_block_device() {
            return Err(BackendError::WrongKind { path: path.to_owned(), expected: "a block device" });
        }
        // O_EXCL on a device refuses one that is mounted or part of another device.
        let flags = if shared { OFlags::DIRECT } else { OFlags::DIRECT | OFlags::EXCL };
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(flags.bits() as i32);
        let mut file = when_free(|| {
            options.open(path).map_err(|error| match error.kind() {
                io::ErrorKind::ResourceBusy => BackendError::Locked { path: path.to_owned() },
                _ => failed(error),
            })
        })?;
        when_free(|| lock(&file, path, shared))?;
        let sector = rustix::fs::ioctl_blksszget(&file).map_err(|error| failed(error.into()))?;
        if sector > block_size {
            return Err(BackendError::BlockSize { path: path.to_owned(), device: sector, block: block_size });
        }
        let length = file.seek(SeekFrom::End(0)).map_err(failed)?;
        let length = length - length % u64::from(block_size);
        if length == 0 {
            return Err(BackendError::TooSmall {
                path: path.to_owned(),
                length,
                wanted: u64::from(block_size),
            });
        }
        Ok(Self {
            identity: device_identity::of(path),
            storage: Storage::new(file),
            length: AtomicU64::new(length),
            is_sized: false,
            path: path.to_owned(),
            is_device: true,
            deallocated_reads_zero: unmaps_to_zero(metadata.rdev()),
            zeroing: AtomicU8::new(0),
        })
    }

    /// Where the ring reads and writes.
    pub const fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Bytes it holds.
    pub fn length(&self) -> u64 {
        self.length.load(Ordering::Relaxed)
    }

    /// What it was known by when it was opened.
    pub(super) fn identity(&self) -> BackendIdentity {
        self.identity.clone()
    }

    /// Makes a regular file `size` bytes long. A device has the size it has.
    pub(super) fn resize(&self, size: u64) -> Result<(), BackendError> {
        if self.is_device {
            let reason = "a device is resized by its own means, and then looked at again".to_owned();
            return Err(BackendError::Size { what: "a block device", wanted: size, reason });
        }
        let failed = |error: rustix::io::Errno| BackendError::Size {
            what: "the file",
            wanted: size,
            reason: format!("{}: {}", self.path.display(), io::Error::from(error)),
        };
        rustix::fs::ftruncate(&self.storage, size).map_err(failed)?;
        // A host that was told of the new size must find it after a crash, too.
        rustix::fs::fsync(&self.storage).map_err(failed)?;
        self.length.store(size, Ordering::Relaxed);
        Ok(())
    }

    /// Looks how long it is now.
    pub(super) fn rescan(&self, block_size: u32) -> Result<(), BackendError> {
        if self.is_sized {
            return Ok(());
        }
        let failed =
            |error: rustix::io::Errno| BackendError::Open { path: self.path.clone(), source: error.into() };
        // The end of a device is only found by going there; reads and writes name their offsets.
        let found = rustix::fs::seek(&self.storage, rustix::fs::SeekFrom::End(0)).map_err(failed)?;
        let length = found - found % u64::from(block_size);
        if length == 0 {
            let wanted = u64::from(block_size);
            return Err(BackendError::TooSmall { path: self.path.clone(), length, wanted });
        }
        self.length.store(length, Ordering::Relaxed);
        Ok(())
    }

    /// Whether a deallocated range is sure to read as zeroes.
    pub const fn deallocated_reads_zero(&self) -> bool {
        self.deallocated_reads_zero
    }

    pub(super) const fn kind(&self) -> &'static str {
        if self.is_device { "block" } else { "file" }
    }

    /// The mode of fallocate that deallocates a range.
    pub const fn deallocate_mode(&self) -> u32 {
        PUNCH_HOLE | KEEP_SIZE
    }

    /// How to make a range zeroes; `deallocate` says that the host would rather have it deallocated.
    pub fn zero_method(&self, deallocate: bool) -> ZeroMethod {
        let known = usize::from(self.zeroing.load(Ordering::Relaxed));
        ZEROING[known.max(usize::from(deallocate)).min(ZEROING.len() - 1)]
    }

    /// Takes note that the file system refused `method`; the next best is used from now on.
    pub fn refuse(&self, method: ZeroMethod) {
        if let Some(refused) = ZEROING.iter().position(|known| *known == method) {
            // Hole punching may work where zeroing a range does not, but a device that refuses both needs writes.
            self.zeroing.fetch_max(refused as u8 + 1, Ordering::Relaxed);
        }
    }
}

/// Tries again for a moment what fails because somebody else has the file: the system may keep the files of a killed
/// process until its last requests have ended.
fn when_free<T>(mut attempt: impl FnMut() -> Result<T, BackendError>) -> Result<T, BackendError> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(BackendError::Locked { .. }) if begun.elapsed() < LOCK_TIME_MAX => thread::sleep(LOCK_AGAIN),
            outcome => return outcome,
        }
    }
}

/// Keeps other targets off, or those who do not share: two would overwrite each other's blocks behind their hosts' backs.
fn lock(file: &fs::File, path: &Path, shared: bool) -> Result<(), BackendError> {
    let operation =
        if shared { FlockOperation::NonBlockingLockShared } else { FlockOperation::NonBlockingLockExclusive };
    match flock(file.as_fd(), operation) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(BackendError::Locked { path: path.to_owned() }),
        Err(error) => Err(BackendError::Open { path: path.to_owned(), source: error.into() }),
    }
}

/// The alignment O_DIRECT wants of offsets in this file, in bytes.
fn direct_alignment(file: &fs::File) -> u32 {
    let asked = StatxFlags::from_bits_retain(libc::STATX_DIOALIGN);
    match rustix::fs::statx(file, "", rustix::fs::AtFlags::EMPTY_PATH, asked) {
        Ok(facts) if facts.stx_dio_offset_align > 0 => facts.stx_dio_offset_align,
        // Older kernels do not tell; 512 bytes is what their file systems on common disks want.
        _ => 512,
    }
}

/// Whether punching a hole into the device zeroes it, by what the kernel says of its queue.
fn unmaps_to_zero(device: u64) -> bool {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let base = format!("/sys/dev/block/{major}:{minor}");
    let read = |path: String| fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u64>().ok());
    // A partition has no queue of its own; its disk has.
    let limit = read(format!("{base}/queue/write_zeroes_max_bytes"))
        .or_else(|| read(format!("{base}/../queue/write_zeroes_max_bytes")));
    limit.is_some_and(|bytes| bytes > 0)
}
