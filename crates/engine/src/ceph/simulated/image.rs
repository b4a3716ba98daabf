//! An open image of the simulated cluster.

use std::fmt;
use std::sync::Arc;

use super::{CephError, ImageKey, ImageNews, Pool};
use crate::ring::simulated::rados::{self, ImageHandle};
use crate::ring::{RemoteOperation, RemoteStorage};

/// An open image.
pub struct Image {
    // Before the pool: closing it asks the cluster.
    handle: ImageHandle,
    pool: Pool,
    name: String,
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Image").field(&self.name).finish()
    }
}

impl Image {
    /// Opens an image. Nothing is locked by that.
    ///
    /// # Errors
    /// When there is none, or the cluster does not answer.
    pub fn open(pool: Pool, name: &str, _: Option<&str>) -> Result<Self, CephError> {
        let cluster = pool.cluster();
        let full = format!("{}/{name}", pool.name());
        let timeouts = (cluster.timeout_ms(), cluster.monitor_timeout_ms());
        let handle = ImageHandle::open(cluster.id(), &full, timeouts);
        let handle = match handle {
            Err(libc::ENOENT) => {
                return Err(CephError::NoImage { pool: pool.name().to_owned(), image: full });
            }
            handle => cluster.outcome("opening", &full, handle)?,
        };
        Ok(Self { handle, pool, name: full })
    }

    /// Has the library encrypt and decrypt, which is not simulated.
    ///
    /// # Errors
    /// Always.
    pub fn decrypt(&self, key: &ImageKey) -> Result<(), CephError> {
        let reason = "it is simulated".to_owned();
        Err(CephError::NotDecrypted { image: self.name.clone(), format: key.format, reason })
    }

    /// `POOL/IMAGE`, with namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Always false: snapshots are not simulated.
    pub const fn is_snapshot(&self) -> bool {
        false
    }

    /// The pool it is in.
    pub const fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Identifier, which no other image of the pool ever has.
    ///
    /// # Errors
    /// Never.
    pub fn identifier(&self) -> Result<Option<String>, CephError> {
        Ok(Some(self.name.clone()))
    }

    /// The number of one of its snapshots.
    ///
    /// # Errors
    /// Never.
    pub const fn snapshot_number(&self, _: &str) -> Result<u64, CephError> {
        Ok(0)
    }

    /// Bytes it has now.
    ///
    /// # Errors
    /// Never.
    pub fn size(&self) -> Result<u64, CephError> {
        Ok(self.handle.size())
    }

    /// Bytes of one of its objects.
    ///
    /// # Errors
    /// Never.
    pub const fn object_size(&self) -> Result<u64, CephError> {
        Ok(self.handle.object_size())
    }

    /// True: each simulated image has the feature exclusive-lock.
    ///
    /// # Errors
    /// Never.
    pub const fn has_exclusive_lock(&self) -> Result<bool, CephError> {
        Ok(true)
    }

    /// Takes the image for this connection alone, until it is given back.
    ///
    /// # Errors
    /// When another client holds it exclusively, or the cluster does not answer.
    pub fn lock(&self) -> Result<(), CephError> {
        match self.handle.lock() {
            Err(libc::EROFS) => {
                let owner = self.lock_owner().unwrap_or_else(|| "an unknown owner".to_owned());
                Err(CephError::Locked { image: self.name.clone(), owner })
            }
            outcome => self.outcome("locking", outcome),
        }
    }

    /// Gives the lock back. What was written is written.
    ///
    /// # Errors
    /// When the cluster does not answer.
    pub fn unlock(&self) -> Result<(), CephError> {
        if !self.is_locked() {
            return Ok(());
        }
        self.outcome("unlocking", self.handle.unlock())
    }

    /// True if this connection has the lock, as far as it knows.
    pub fn is_locked(&self) -> bool {
        self.handle.is_locked()
    }

    /// Client with the lock.
    pub fn lock_owner(&self) -> Option<String> {
        let (client, _) = self.handle.owner().ok()??;
        Some(format!("client.{}", client.number()))
    }

    /// Is notified of changes of the header from now on.
    ///
    /// # Errors
    /// Never.
    pub fn watch(&self, news: ImageNews) -> Result<(), CephError> {
        self.handle.watch(Arc::from(news));
        Ok(())
    }

    fn outcome(&self, what: &'static str, outcome: Result<(), i32>) -> Result<(), CephError> {
        self.pool.cluster().outcome(what, &self.name, outcome)
    }
}

impl RemoteStorage for Image {
    fn start(&self, operation: RemoteOperation) {
        self.handle.start(operation);
    }
}

/// Counts one that is known by other means to take too long, or a change of an object beside an image.
pub fn note_late_operation() {
    rados::note_late();
}

/// Number of operations on this process's images that have taken too long.
pub fn late_operations() -> u64 {
    rados::ended_late()
}
