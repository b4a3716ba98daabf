//! Storage of blocks: memory, nothing at all, a file, a block device or an image of a Ceph cluster.
//! A backend knows bytes and offsets; blocks, namespaces and hosts belong to the target.

#[cfg(not(feature = "simulation"))]
mod block_queue;
mod config;
mod device;
#[cfg(not(feature = "simulation"))]
mod device_identity;
mod durability;
#[cfg(not(feature = "simulation"))]
mod file;
#[cfg(not(feature = "simulation"))]
mod file_identity;
#[cfg(not(feature = "simulation"))]
mod file_location;
#[cfg(not(feature = "simulation"))]
mod file_lock;
#[cfg(not(feature = "simulation"))]
mod huge_pages;
mod identity;
#[cfg(not(feature = "simulation"))]
mod image_format;
mod lock_holder;
mod mapping;
mod memory;
#[cfg(not(feature = "simulation"))]
mod memory_file;
#[cfg(not(feature = "simulation"))]
mod memory_room;
#[cfg(not(feature = "simulation"))]
mod mount_points;
#[cfg(not(feature = "simulation"))]
mod new_file;
#[cfg(not(feature = "simulation"))]
mod opened_file;
mod page_locks;
#[cfg(not(feature = "simulation"))]
mod partition_table;
mod rbd;
#[cfg(feature = "simulation")]
mod simulated;
#[cfg(not(feature = "simulation"))]
mod storage_remarks;
mod written_chunks;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

pub use crate::ceph::Clusters;
pub use config::{BackendConfig, FilePin, RbdConfig, RbdEncryption};
pub use device::Device;
pub use durability::{Durability, Sync, SyncEnd, SyncFailure, SyncKind};
#[cfg(not(feature = "simulation"))]
pub use file::{File, ZeroMethod};
#[cfg(not(feature = "simulation"))]
pub use file_location::resolved;
pub use identity::{BackendIdentity, IdentityText};
pub use lock_holder::LockHolder;
pub use memory::{Memory, Writer};
pub(crate) use memory::{MemoryHolder, is_within_page};
pub(crate) use page_locks::Patience;
pub use rbd::Rbd;
#[cfg(feature = "simulation")]
pub use simulated::{File, ZeroMethod};

use crate::time_bound::TimeBound;
use crate::units::{Size, counted};

/// Why a backend could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The operating system refuses.
    #[error("{}: {source}{}", path.display(), hint(source, path))]
    Open {
        /// The file or device.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Another process serves it.
    #[error("{} is in use by {}; end it first, or serve a copy", path.display(), holder_text(holder.as_ref()))]
    Locked {
        /// The file or device.
        path: PathBuf,
        /// The process with a lock on it, where the kernel names one.
        holder: Option<LockHolder>,
    },
    /// File system without locks.
    #[error(
        "{} cannot be locked ({source}), and nothing would keep a second target off it: put it on a file system with locks, or see \
         to that yourself and serve it with shared_storage=yes",
        path.display()
    )]
    NoLock {
        /// The file or device.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file or device is smaller than the namespace.
    #[error(
        "{} has {}, less than the {wanted} of the namespace; grow it with `truncate -s {wanted}`",
        path.display(),
        counted(*length, "byte")
    )]
    TooSmall {
        /// The file or device.
        path: PathBuf,
        /// Size of the file or device in bytes.
        length: u64,
        /// The bytes it should have at least.
        wanted: u64,
    },
    /// The path leads to another kind of file.
    #[error("{} is {found}, not {expected}{}", path.display(), other_backend(found))]
    WrongKind {
        /// The file or device.
        path: PathBuf,
        /// Kind found.
        found: &'static str,
        /// Kind expected.
        expected: &'static str,
    },
    /// The device's own blocks are larger than the namespace's.
    #[error("{} has {device}-byte sectors, larger than block_size={block}; use block_size={device}", path.display())]
    BlockSize {
        /// The device.
        path: PathBuf,
        /// Logical sector size in bytes.
        device: u32,
        /// The block size asked for in bytes.
        block: u32,
    },
    /// The size is less than one block.
    #[error("a size of {} is less than one block of {block} bytes", counted(*size, "byte"))]
    NoBlock {
        /// Bytes asked for.
        size: u64,
        /// The block size in bytes.
        block: u32,
    },
    /// The backend cannot be resized.
    #[error("{what} cannot be made {} long: {reason}", counted(*wanted, "byte"))]
    Size {
        /// The backend, in a word.
        what: &'static str,
        /// Bytes asked for.
        wanted: u64,
        /// Why not.
        reason: String,
    },
    /// Ceph says no.
    #[error(transparent)]
    Ceph(#[from] crate::ceph::CephError),
    /// The passphrase of an encrypted image cannot be read.
    #[error("{0}")]
    Passphrase(crate::secret_file::SecretFileError),
    /// Reservations of the namespace are unreadable: without them any host could write to it.
    #[error("its reservations cannot be read: {0}")]
    Reservations(String),
    /// Image that is being opened, which takes its time.
    #[error("{image}: {}; retrying", held(owner.as_deref()))]
    Pending {
        /// The image.
        image: String,
        /// Owner of its lock, as far as is known.
        owner: Option<String>,
    },
    /// Other targets are to know it by the same identity, and it has none.
    #[error(
        "{}: the system has no identity for it that other targets find too; give it the same uuid at each of them",
        path.display()
    )]
    Nameless {
        /// The file or device.
        path: PathBuf,
    },
    /// Kind of backend that is not available here.
    #[error("{what} is not available on this system")]
    NotHere {
        /// The kind, in words.
        what: &'static str,
    },
    /// Memory of all namespaces that is more than the machine or a control group has.
    #[error(
        "memory namespaces would have {} together, and {place} has {}: make them smaller, or serve a file",
        Size(*promised),
        Size(*total)
    )]
    NoRoom {
        /// Bytes of all memory of this process.
        promised: u64,
        /// The machine or control group.
        place: String,
        /// Bytes that it has.
        total: u64,
    },
    /// The memory cannot be had.
    #[error("cannot allocate {size} bytes of memory: {source}")]
    Memory {
        /// Bytes asked for.
        size: u64,
        /// Error of the system.
        source: io::Error,
    },
}

fn holder_text(holder: Option<&LockHolder>) -> String {
    holder.map_or_else(|| "another process".to_owned(), |holder| format!("another process: {holder}"))
}

fn held(owner: Option<&str>) -> String {
    owner.map_or_else(
        || "not open yet".to_owned(),
        |owner| format!("exclusive lock is held by {owner} (a dead client's lock expires after 30 s)"),
    )
}

fn hint(error: &io::Error, path: &Path) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => what_is_missing(path),
        io::ErrorKind::PermissionDenied => "; the target's user needs read and write permission".to_owned(),
        _ if error.raw_os_error() == Some(libc::EMFILE) => {
            "; raise the limit of descriptors (LimitNOFILE= of the service, or `ulimit -n`)".to_owned()
        }
        _ => String::new(),
    }
}

/// Advice about a path that another backend serves.
fn other_backend(found: &str) -> &'static str {
    match found {
        "a regular file" => "; the backend `file` serves it",
        "a block device" => "; the backend `block` serves it",
        _ => "",
    }
}

/// Advice about a path that does not exist. A size makes files, and neither folders nor devices.
fn what_is_missing(path: &Path) -> String {
    let folders = path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    let missing = folders.take_while(|folder| !folder.exists()).last();
    match missing {
        _ if path.starts_with("/dev/zvol") => "; there is no such volume: is its pool imported?".to_owned(),
        _ if path.starts_with("/dev") => "; there is no such device: is it attached?".to_owned(),
        Some(folder) => format!("; the folder {} is missing: create it", folder.display()),
        None => format!("; create it, or give a size (file:{},size=1g)", path.display()),
    }
}

/// An open backend.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one for each namespace, behind an Arc")]
pub enum Backend {
    /// Memory.
    Memory(Memory),
    /// No blocks, of this many bytes.
    Null(AtomicU64),
    /// A file, a block device or an image.
    Device(Device),
}

/// Parameters of opening a backend, beside its configuration.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// Bytes of a block.
    pub block_size: u32,
    /// Set if other targets that set it too may serve the file or device at the same time.
    pub is_shared: bool,
    /// Limit of a file or device that an administrator with a list of allowed storage has named.
    pub pin: Option<&'a FilePin>,
    /// Set for a retry: another process that has a file or device locked is not waited for.
    pub is_retry: bool,
    /// Set while another target writes to the image.
    pub is_standby: bool,
    /// UUID under which the old process handed over this namespace's memory.
    pub namespace: Option<uuid::Uuid>,
    /// The connections to clusters there are.
    pub clusters: &'a Clusters,
}

impl<'a> Opening<'a> {
    /// Parameters for a backend that one target serves alone.
    pub const fn alone(block_size: u32, clusters: &'a Clusters) -> Self {
        Self {
            block_size,
            is_shared: false,
            pin: None,
            is_retry: false,
            is_standby: false,
            namespace: None,
            clusters,
        }
    }
}

/// Blocks in memory: those that the old process of this target had, or blank ones.
fn memory(size: u64, namespace: Option<uuid::Uuid>) -> Result<Memory, BackendError> {
    let failed = |source| BackendError::Memory { size, source };
    #[cfg(not(feature = "simulation"))]
    if let Some(former) = namespace.and_then(crate::claims::of_namespace) {
        return Memory::adopt(size, former.room, former.file).map_err(failed);
    }
    let _ = namespace;
    let memory = Memory::new(size).map_err(failed)?;
    // Memory that the old process has filled is there already, and not checked.
    #[cfg(not(feature = "simulation"))]
    let memory = memory.within_room()?;
    Ok(memory)
}

/// Bytes of a block device's sectors, or of those larger ones that its partition table was made for.
///
/// # Errors
/// When it is not there, or cannot be asked.
pub fn sector_bytes(path: &Path) -> io::Result<u32> {
    #[cfg(not(feature = "simulation"))]
    return file::sector_bytes(path);
    #[cfg(feature = "simulation")]
    return Err(io::Error::other(format!("{}: a simulated machine has no devices", path.display())));
}

impl Backend {
    /// Opens what `config` names. A size that is not a multiple of a block is cut.
    ///
    /// # Errors
    /// When it cannot be opened, is locked by another target, or has not the size it should have.
    pub fn open(config: &BackendConfig, opening: Opening<'_>) -> Result<Self, BackendError> {
        let Opening { block_size, pin, .. } = opening;
        let locking = (opening.is_shared, opening.is_retry);
        if block_size == 0 {
            // A device that has come since it was looked for is asked for its sectors at the next try.
            let path = config.path().map(Path::to_owned).unwrap_or_default();
            let source = sector_bytes(&path).err();
            let source = source.unwrap_or_else(|| io::Error::other("it has only just come"));
            return Err(BackendError::Open { path, source });
        }
        let whole_blocks = |size: u64| size - size % u64::from(block_size);
        if let BackendConfig::Memory { size } | BackendConfig::Null { size } = config
            && whole_blocks(*size) == 0
        {
            return Err(BackendError::NoBlock { size: *size, block: block_size });
        }
        Ok(match config {
            BackendConfig::Memory { size } => Self::Memory(memory(whole_blocks(*size), opening.namespace)?),
            BackendConfig::Null { size } => Self::Null(AtomicU64::new(whole_blocks(*size))),
            BackendConfig::File { path, size } => {
                let file = File::open_regular(path, pin, size.map(whole_blocks), block_size, locking)?;
                Self::Device(Device::File(file))
            }
            BackendConfig::Block { path } => {
                Self::Device(Device::File(File::open_device(path, pin, block_size, locking)?))
            }
            BackendConfig::Rbd(config) => {
                let rbd = Rbd::open(config, block_size, opening.is_standby, opening.clusters)?;
                Self::Device(Device::Rbd(rbd))
            }
        })
    }

    /// Lets a file stay that was made when this was opened: hosts may write to it from now on.
    pub(crate) fn keep(&self) {
        if let Self::Device(Device::File(file)) = self {
            file.keep();
        }
    }

    /// Pin of a file or device, with the file that is open.
    pub(crate) fn pin(&self) -> Option<&FilePin> {
        match self {
            Self::Device(Device::File(file)) => file.pin(),
            _ => None,
        }
    }

    /// Bytes it holds.
    pub fn length(&self) -> u64 {
        match self {
            Self::Memory(memory) => memory.length(),
            Self::Null(size) => size.load(Ordering::Relaxed),
            Self::Device(device) => device.length(),
        }
    }

    /// Identity, independent of the path under which it is found.
    pub fn identity(&self) -> BackendIdentity {
        match self {
            Self::Memory(_) | Self::Null(_) => BackendIdentity::Fresh,
            Self::Device(device) => device.identity(),
        }
    }

    /// Makes it `size` bytes long, a multiple of `block_size`; without a size, as long as the file or device is.
    ///
    /// # Errors
    /// When the system refuses, or the backend is of a kind whose size is not ours to change.
    pub fn resize(&self, size: Option<u64>, block_size: u32) -> Result<(), BackendError> {
        let Some(size) = size else { return self.rescan(block_size) };
        if size == 0 {
            return Err(BackendError::NoBlock { size, block: block_size });
        }
        match self {
            Self::Memory(memory) => memory.resize(size).map_err(|error| BackendError::Size {
                what: "memory",
                wanted: size,
                reason: error.to_string(),
            }),
            Self::Null(length) => {
                length.store(size, Ordering::Relaxed);
                Ok(())
            }
            Self::Device(device) => device.resize(size),
        }
    }

    /// Makes it `size` bytes long again, as before the growth that is taken back. What a file had behind its namespace stays.
    pub(crate) fn shrink_back(&self, size: Option<u64>, block_size: u32) -> Result<(), BackendError> {
        match (self, size) {
            (Self::Device(Device::File(file)), Some(size)) => file.shrink_back(size),
            _ => self.resize(size, block_size),
        }
    }

    /// Looks how long the file or device is now, in whole blocks.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn rescan(&self, block_size: u32) -> Result<(), BackendError> {
        match self {
            Self::Device(device) => device.rescan(block_size),
            Self::Memory(_) | Self::Null(_) => Ok(()),
        }
    }

    /// The allocated ranges between two offsets, in order, and true if these are all there are: a list has up to `most`. What is
    /// not known to be a hole is allocated. This may wait for a file system.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn allocated(&self, from: u64, until: u64, most: usize) -> io::Result<(Vec<Range<u64>>, bool)> {
        match self {
            Self::Device(Device::File(file)) => file.allocated(from, until, most),
            _ => Ok((std::iter::once(from..until).collect(), true)),
        }
    }

    /// True if the file or device is longer than when it was last looked at.
    pub fn has_grown(&self, block_size: u32) -> bool {
        match self {
            Self::Device(Device::File(file)) => file.has_grown(block_size),
            _ => false,
        }
    }

    /// Opens the same backend again, after a failed sync.
    ///
    /// # Errors
    /// When it is of a kind that is never opened so, or the system refuses.
    pub fn reopen(&self, block_size: u32) -> Result<Self, BackendError> {
        match self {
            Self::Device(Device::File(file)) => Ok(Self::Device(Device::File(file.reopen(block_size)?))),
            _ => Err(BackendError::NotHere { what: "reopening anything but a file or block device" }),
        }
    }

    /// Why nothing can be made durable from now on, if that is so.
    pub fn failure(&self) -> Option<&SyncFailure> {
        match self {
            Self::Device(device) => device.durability()?.failure(),
            Self::Memory(_) | Self::Null(_) => None,
        }
    }

    /// Path of a file or device, name of an image, or kind of memory, for the operator.
    pub fn place(&self) -> String {
        match self {
            Self::Device(device) => device.place(),
            Self::Memory(_) | Self::Null(_) => self.kind().to_owned(),
        }
    }

    /// True if a block of `block_size` bytes is known to be written whole or not at all when the
    /// power is lost.
    pub fn keeps_blocks_whole(&self, block_size: u32) -> bool {
        match self {
            // Nothing of it is left.
            Self::Memory(_) | Self::Null(_) => true,
            Self::Device(device) => device.whole_bytes() >= u64::from(block_size),
        }
    }

    /// For how long a command may be there.
    pub fn time_bound(&self) -> TimeBound {
        match self {
            Self::Device(device) => device.time_bound(),
            Self::Memory(_) | Self::Null(_) => TimeBound::Unknown,
        }
    }

    /// True if completed writes may be volatile until a flush.
    pub const fn has_volatile_cache(&self) -> bool {
        matches!(self, Self::Device(device) if device.has_volatile_cache())
    }

    /// True if a deallocated block is certain to read as zeroes.
    pub const fn deallocated_reads_zero(&self) -> bool {
        match self {
            Self::Memory(_) | Self::Null(_) => true,
            Self::Device(device) => device.deallocated_reads_zero(),
        }
    }

    /// Lets others write to an image, or makes sure that only this target does.
    ///
    /// # Errors
    /// When another client has it, or its cluster does not answer.
    pub fn set_standby(&self, is_standby: bool) -> Result<(), BackendError> {
        match self {
            Self::Device(Device::Rbd(rbd)) => rbd.set_standby(is_standby),
            _ if is_standby => {
                Err(BackendError::NotHere { what: "standing by without an image of a cluster" })
            }
            _ => Ok(()),
        }
    }

    /// True for an image whose writers need its exclusive lock.
    pub(crate) const fn needs_lock(&self) -> bool {
        matches!(self, Self::Device(Device::Rbd(rbd)) if rbd.needs_lock())
    }

    /// True if commands on an image have taken too long on its connection, and may still be carried
    /// out.
    pub(crate) fn has_been_late(&self) -> bool {
        match self {
            Self::Device(Device::Rbd(rbd)) => rbd.cluster().has_been_late(),
            _ => false,
        }
    }

    /// Client with the exclusive lock of an image, this target or another, as its cluster names it.
    pub fn lock_owner(&self) -> Option<String> {
        match self {
            Self::Device(Device::Rbd(rbd)) => rbd.lock_owner(),
            _ => None,
        }
    }

    /// True if no command in flight on an image will be carried out, since another connection has
    /// taken its place.
    pub fn is_shut_out(&self) -> bool {
        match self {
            Self::Device(Device::Rbd(rbd)) => rbd.cluster().is_shut_out(),
            _ => false,
        }
    }

    /// True if writes are refused.
    pub fn is_read_only(&self) -> bool {
        matches!(self, Self::Device(device) if device.is_read_only())
    }

    /// Remarks for the operator, a clause each.
    pub fn remarks(&self) -> &[String] {
        match self {
            Self::Device(device) => device.remarks(),
            Self::Memory(memory) => memory.remarks(),
            Self::Null(_) => &[],
        }
    }

    /// Kind in one word, as in a namespace's specification.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            Self::Null(_) => "null",
            Self::Device(device) => device.kind(),
        }
    }
}
