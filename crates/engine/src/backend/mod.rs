//! Where blocks live: memory, nothing at all, a file or a block device. A backend knows bytes and offsets;
//! blocks, namespaces and hosts belong to the target.

#[cfg(not(feature = "simulation"))]
mod file;
mod memory;
#[cfg(feature = "simulation")]
mod simulated;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(not(feature = "simulation"))]
pub use file::{File, ZeroMethod};
pub use memory::Memory;
#[cfg(feature = "simulation")]
pub use simulated::{File, ZeroMethod};

/// Which backend to open.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum BackendConfig {
    /// Anonymous memory, gone when the target ends.
    Memory {
        /// Bytes.
        size: u64,
    },
    /// Reads zeroes and forgets what is written: for measuring everything else.
    Null {
        /// Bytes.
        size: u64,
    },
    /// A regular file, sparse where nothing was written.
    File {
        /// The file.
        path: PathBuf,
        /// Bytes. A missing file is made with this size; without it, the file must be there and its size counts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
    },
    /// A block device.
    Block {
        /// The device node.
        path: PathBuf,
    },
}

impl BackendConfig {
    /// The bytes it names, if it does.
    pub const fn size(&self) -> Option<u64> {
        match self {
            Self::Memory { size } | Self::Null { size } => Some(*size),
            Self::File { size, .. } => *size,
            Self::Block { .. } => None,
        }
    }

    /// Whether both name the same blocks, perhaps more of them or fewer.
    pub fn is_same_place(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Memory { .. }, Self::Memory { .. }) | (Self::Null { .. }, Self::Null { .. }) => true,
            (Self::File { path, .. }, Self::File { path: other, .. })
            | (Self::Block { path }, Self::Block { path: other }) => path == other,
            _ => false,
        }
    }
}

/// Why a backend could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The operating system refuses.
    #[error("{}: {source}{}", path.display(), hint(source, path))]
    Open {
        /// The file or device.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process serves it.
    #[error("{} is in use by another process; end that one first, or serve a copy", path.display())]
    Locked {
        /// The file or device.
        path: PathBuf,
    },
    /// It has not the size it should have.
    #[error("{} has {length} bytes, less than the {wanted} wanted; grow it with `truncate -s {wanted}`", path.display())]
    TooSmall {
        /// The file or device.
        path: PathBuf,
        /// Its bytes.
        length: u64,
        /// The bytes it should have at least.
        wanted: u64,
    },
    /// It is of another kind than said.
    #[error("{} is not {expected}", path.display())]
    WrongKind {
        /// The file or device.
        path: PathBuf,
        /// What it should be.
        expected: &'static str,
    },
    /// The device's own blocks are larger than the namespace's.
    #[error("{} has {device}-byte sectors, larger than block={block}; use block={device}", path.display())]
    BlockSize {
        /// The device.
        path: PathBuf,
        /// Its logical sector size in bytes.
        device: u32,
        /// The block size asked for in bytes.
        block: u32,
    },
    /// It would not hold a single block.
    #[error("a size of {size} bytes is less than one block of {block}")]
    NoBlock {
        /// Bytes asked for.
        size: u64,
        /// The block size in bytes.
        block: u32,
    },
    /// It cannot get another size.
    #[error("{what} cannot be made {wanted} bytes long: {reason}")]
    Size {
        /// The backend, in a word.
        what: &'static str,
        /// Bytes asked for.
        wanted: u64,
        /// Why not.
        reason: String,
    },
    /// The memory cannot be had.
    #[error("no {size} bytes of memory to be had: {source}")]
    Memory {
        /// Bytes asked for.
        size: u64,
        /// What the system said.
        source: io::Error,
    },
}

fn hint(error: &io::Error, path: &Path) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("; create it, or give a size (file:{},size=1g)", path.display()),
        io::ErrorKind::PermissionDenied => "; the target's user needs read and write permission".to_owned(),
        _ => String::new(),
    }
}

/// An open backend.
#[derive(Debug)]
pub enum Backend {
    /// Memory.
    Memory(Memory),
    /// Nothing, of this many bytes.
    Null(AtomicU64),
    /// A file or block device.
    File(File),
}

impl Backend {
    /// Opens what `config` names, for blocks of `block_size` bytes. A size that is no multiple of it is cut. With `shared`,
    /// other targets that open it in the same way may serve a file or device too.
    ///
    /// # Errors
    /// When it cannot be opened, is locked by another target, or has not the size it should have.
    pub fn open(config: &BackendConfig, block_size: u32, shared: bool) -> Result<Self, BackendError> {
        let whole_blocks = |size: u64| size - size % u64::from(block_size);
        if let BackendConfig::Memory { size } | BackendConfig::Null { size } = config
            && whole_blocks(*size) == 0
        {
            return Err(BackendError::NoBlock { size: *size, block: block_size });
        }
        Ok(match config {
            BackendConfig::Memory { size } => Self::Memory(
                Memory::new(whole_blocks(*size))
                    .map_err(|source| BackendError::Memory { size: *size, source })?,
            ),
            BackendConfig::Null { size } => Self::Null(AtomicU64::new(whole_blocks(*size))),
            BackendConfig::File { path, size } => {
                Self::File(File::open_regular(path, size.map(whole_blocks), block_size, shared)?)
            }
            BackendConfig::Block { path } => Self::File(File::open_device(path, block_size, shared)?),
        })
    }

    /// Bytes it holds.
    pub fn length(&self) -> u64 {
        match self {
            Self::Memory(memory) => memory.length(),
            Self::Null(size) => size.load(Ordering::Relaxed),
            Self::File(file) => file.length(),
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
            Self::File(file) => file.resize(size),
        }
    }

    /// Looks how long the file or device is now, in whole blocks.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn rescan(&self, block_size: u32) -> Result<(), BackendError> {
        match self {
            Self::File(file) => file.rescan(block_size),
            Self::Memory(_) | Self::Null(_) => Ok(()),
        }
    }

    /// Whether completed writes may still be volatile until a flush.
    pub const fn has_volatile_cache(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// Whether a deallocated block is sure to read as zeroes.
    pub const fn deallocated_reads_zero(&self) -> bool {
        match self {
            Self::Memory(_) | Self::Null(_) => true,
            Self::File(file) => file.deallocated_reads_zero(),
        }
    }

    /// Its kind in one word, as in a namespace's specification.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            Self::Null(_) => "null",
            Self::File(file) => file.kind(),
        }
    }
}
