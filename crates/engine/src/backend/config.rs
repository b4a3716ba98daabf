//! Configuration of a namespace's backend, as data. It opens nothing.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize};

use crate::ceph::{ImageKey, LuksFormat};
use crate::limits::SECRET_FILE_BYTES_MAX;
use crate::secret_file::{self, SecretFileError};
use crate::units::{self, Size};

/// Kind of a backend, with its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "Backend")]
pub enum BackendConfig {
    /// Memory, lost when the target ends; an upgrade keeps it.
    Memory {
        /// Size.
        #[serde(deserialize_with = "units::bytes")]
        #[schemars(with = "Size")]
        size: u64,
    },
    /// Discards writes and reads zeroes, to measure all but storage.
    Null {
        /// Size.
        #[serde(deserialize_with = "units::bytes")]
        #[schemars(with = "Size")]
        size: u64,
    },
    /// A regular file, sparse where nothing was written.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Size. A missing file is created with this size; without it, the file must exist, and its size applies.
        #[serde(
            default,
            deserialize_with = "units::optional_bytes",
            skip_serializing_if = "Option::is_none"
        )]
        #[schemars(with = "Option<Size>")]
        size: Option<u64>,
    },
    /// A block device.
    Block {
        /// Path of the device node.
        path: PathBuf,
    },
    /// An image of a Ceph cluster.
    Rbd(RbdConfig),
}

impl BackendConfig {
    /// The bytes it names, if it does.
    pub const fn size(&self) -> Option<u64> {
        match self {
            Self::Memory { size } | Self::Null { size } => Some(*size),
            Self::File { size, .. } => *size,
            Self::Block { .. } | Self::Rbd(_) => None,
        }
    }

    /// The file or device that it names.
    pub fn path(&self) -> Option<&std::path::Path> {
        match self {
            Self::File { path, .. } | Self::Block { path } => Some(path),
            Self::Memory { .. } | Self::Null { .. } | Self::Rbd(_) => None,
        }
    }

    /// True if both name the same blocks, of equal or different number.
    pub fn is_same_place(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Memory { .. }, Self::Memory { .. }) | (Self::Null { .. }, Self::Null { .. }) => true,
            (Self::File { path, .. }, Self::File { path: other, .. })
            | (Self::Block { path }, Self::Block { path: other }) => path == other,
            (Self::Rbd(config), Self::Rbd(other)) => config == other,
            _ => false,
        }
    }
}

/// Limit of the file of a namespace that an administrator with a list of allowed storage has named: another file that is put in
/// its place is not opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FilePin {
    /// Folder of the list, below which the file is opened.
    pub directory: PathBuf,
    /// Identity of the file that was opened first: its inode, and its time of creation where the file system records it. There is
    /// none before, and none of a device. The number of the file system is not part of it, since the next start of the machine
    /// may change that number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// Address of an image: pool, name, and the way to its cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Image")]
pub struct RbdConfig {
    /// Pool of the image.
    pub pool: String,
    /// Namespace in the pool; none if it is empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the image.
    pub image: String,
    /// Snapshot of the image, read-only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Configuration file of the cluster; by default that of Ceph's own programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conf: Option<PathBuf>,
    /// User of the cluster, without `client.`; `admin` by default.
    #[serde(default, deserialize_with = "user", skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Encryption of its blocks, if any: Ceph's library encrypts and decrypts them at the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Box<RbdEncryption>>,
}

/// Format and passphrase of an encrypted image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ImageEncryption")]
pub struct RbdEncryption {
    /// LUKS format, as `rbd encryption format` has written it.
    pub format: LuksFormat,
    /// File with the passphrase, not readable for other users. In a group, each gateway needs a copy at this
    /// path.
    pub passphrase_file: PathBuf,
}

impl RbdEncryption {
    /// Reads the passphrase: what the file has, up to a line break at its end, as Ceph's own commands read it.
    ///
    /// # Errors
    /// When there is none, or others can read it.
    pub fn key(&self) -> Result<ImageKey, SecretFileError> {
        let mut passphrase = secret_file::text(&self.passphrase_file, SECRET_FILE_BYTES_MAX)?;
        if passphrase.ends_with('\n') {
            passphrase.pop();
        }
        if passphrase.is_empty() {
            return Err(format!("{} is empty", self.passphrase_file.display()).into());
        }
        Ok(ImageKey { format: self.format, passphrase })
    }
}

impl fmt::Display for RbdConfig {
    /// `POOL/IMAGE`, with namespace and snapshot.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.pool)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.image)?;
        self.snapshot.as_ref().map_or(Ok(()), |snapshot| write!(f, "@{snapshot}"))
    }
}

/// A user; some write it with `client.`.
fn user<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    Ok(name.map(|name| name.strip_prefix("client.").unwrap_or(&name).to_owned()))
}
