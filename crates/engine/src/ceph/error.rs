//! Why something with Ceph failed, in words that say what to check.

use std::io;

use crate::units::Size;

/// Why a connection, a pool or an image is not available.
#[derive(Debug, thiserror::Error)]
pub enum CephError {
    /// The libraries are not installed.
    #[error(
        "librados and librbd are not available ({reason}); install Ceph's client libraries (Debian: librbd1)"
    )]
    Library {
        /// Reason given by the loader.
        reason: String,
    },
    /// The configuration file cannot be read.
    #[error("{file}: {source}; name another with conf=FILE")]
    Configuration {
        /// The file, or where it was looked for.
        file: String,
        /// Error of the library.
        source: io::Error,
    },
    /// A setting that the library does not take.
    #[error("the setting {name} = {value} is refused: {source}")]
    Setting {
        /// Name of the setting.
        name: String,
        /// Value refused.
        value: String,
        /// Error of the library.
        source: io::Error,
    },
    /// No monitor answers.
    #[error(
        "no monitor of the cluster answers within {seconds} s ({monitors}); check mon_host in the configuration, that a monitor runs there, and the network"
    )]
    NoMonitor {
        /// The addresses that were tried.
        monitors: String,
        /// Seconds waited.
        seconds: u64,
    },
    /// There is no key.
    #[error(
        "there is no key for client.{id}: keyring = {keyring}; check that the file is there and has [client.{id}], or name another user with id=NAME"
    )]
    NoKey {
        /// The user.
        id: String,
        /// Paths searched for the key.
        keyring: String,
    },
    /// The monitors refuse the key.
    #[error(
        "the cluster refuses client.{id}: the key is wrong, or the user is not known ({source}); compare `ceph auth get client.{id}` with the keyring {keyring}"
    )]
    WrongKey {
        /// The user.
        id: String,
        /// Path of the keyring with the key.
        keyring: String,
        /// Error of the library.
        source: io::Error,
    },
    /// Connecting failed otherwise.
    #[error("the cluster cannot be reached as client.{id}: {source}")]
    Connect {
        /// The user.
        id: String,
        /// Error of the library.
        source: io::Error,
    },
    /// No such pool.
    #[error("there is no pool {pool}; `ceph osd pool ls` lists the pools")]
    NoPool {
        /// The pool.
        pool: String,
    },
    /// No such image or snapshot.
    #[error("there is no {image}; `rbd ls -l {pool}` lists the images")]
    NoImage {
        /// Pool without the image.
        pool: String,
        /// The image, with its snapshot.
        image: String,
    },
    /// The user may not.
    #[error(
        "{what} {name}: client.{id} may not ({source}); `ceph auth get client.{id}` shows its permissions, and it needs `profile rbd`"
    )]
    Forbidden {
        /// Attempted operation, as a word.
        what: &'static str,
        /// Object of the operation.
        name: String,
        /// The user.
        id: String,
        /// Error of the library.
        source: io::Error,
    },
    /// The image cannot be decrypted.
    #[error(
        "{image} cannot be decrypted as {format}: {reason}; compare with what `rbd encryption format` was given"
    )]
    NotDecrypted {
        /// The image.
        image: String,
        /// The format.
        format: super::LuksFormat,
        /// Reason, as far as the library gives it.
        reason: String,
    },
    /// Another client holds the image exclusively.
    #[error(
        "{image} is opened exclusively by {owner}; end that, or remove its lock with `rbd lock ls` and `rbd lock rm` when it is dead"
    )]
    Locked {
        /// The image.
        image: String,
        /// Owner of the lock.
        owner: String,
    },
    /// No such namespace of a pool.
    #[error("there is no namespace {name}; `rbd namespace create {name}` makes it")]
    NoNamespace {
        /// Pool and namespace.
        name: String,
    },
    /// There is an image of this name.
    #[error("{image} already exists; choose another name, or serve it as it is")]
    ImageExists {
        /// The image.
        image: String,
    },
    /// There is a snapshot of this name.
    #[error("{snapshot} already exists; choose another name, or remove it first")]
    SnapshotExists {
        /// Image and snapshot.
        snapshot: String,
    },
    /// Clients have the image open.
    #[error("{image} is in use by {users}; end that first (the watch of a dead client expires after 30 s)")]
    InUse {
        /// The image.
        image: String,
        /// Clients, as far as the cluster names them.
        users: String,
    },
    /// The image has snapshots.
    #[error(
        "{image} has snapshots; remove them first (`rbd snap ls --all {image}`), and flatten or remove what was cloned from them (`rbd children --all {image}`)"
    )]
    HasSnapshots {
        /// The image.
        image: String,
    },
    /// The snapshot is protected, which clones of the first format need.
    #[error(
        "{snapshot} is protected; flatten or remove its clones (`rbd children {snapshot}`), then `rbd snap unprotect {snapshot}`"
    )]
    Protected {
        /// Image and snapshot.
        snapshot: String,
    },
    /// The image would become smaller, which was not permitted.
    #[error(
        "{image} would become smaller: {} to {}; data beyond its new end is lost",
        Size(*before),
        Size(*wanted)
    )]
    WouldShrink {
        /// The image.
        image: String,
        /// Present size in bytes.
        before: u64,
        /// The bytes that it should have.
        wanted: u64,
    },
    /// The image has all its blocks itself.
    #[error("{image} is not a clone, or has been flattened: there is nothing to copy")]
    NoParent {
        /// The image.
        image: String,
    },
    /// The parameters of a new image are impossible.
    #[error("{name}: {reason}")]
    NewImage {
        /// The image.
        name: String,
        /// Reason, and what is possible instead.
        reason: String,
    },
    /// An image lacks what a group of gateways needs.
    #[error(
        "{image} has no exclusive lock, without which two gateways could write to it at a time; `rbd feature enable {image} exclusive-lock` gives it one"
    )]
    NoExclusiveLock {
        /// The image.
        image: String,
    },
    /// A new connection must not be used.
    #[error("a new connection to the cluster must not be used: {reason}")]
    NotAllowed {
        /// Why.
        reason: String,
    },
    /// A connection failed a moment ago, and was not tried again.
    #[error("{reason}")]
    AsBefore {
        /// Why not.
        reason: String,
    },
    /// Something else failed.
    #[error("{what} {name}: {source}")]
    Failed {
        /// Attempted operation, as a word.
        what: &'static str,
        /// Object of the operation.
        name: String,
        /// Error of the library.
        source: io::Error,
    },
}

impl CephError {
    /// True if the cluster has only taken too long: the operation may have happened, or may happen
    /// yet.
    pub fn is_late(&self) -> bool {
        self.code() == Some(libc::ETIMEDOUT)
    }

    /// True if the user lacks the permission.
    pub fn is_forbidden(&self) -> bool {
        matches!(self.code(), Some(libc::EPERM | libc::EACCES))
    }

    /// True if the connection is on the cluster's blocklist.
    pub fn is_shut_out(&self) -> bool {
        self.code() == Some(libc::ESHUTDOWN)
    }

    /// Error number of the library, if it gave one.
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Configuration { source, .. }
            | Self::Setting { source, .. }
            | Self::WrongKey { source, .. }
            | Self::Connect { source, .. }
            | Self::Forbidden { source, .. }
            | Self::Failed { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}

/// Result of a library function: below 0 is an error's number.
pub(in crate::ceph) fn answer(code: i32) -> Result<i32, io::Error> {
    if code < 0 { Err(io::Error::from_raw_os_error(-code)) } else { Ok(code) }
}
