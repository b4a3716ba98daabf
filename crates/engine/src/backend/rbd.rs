//! Blocks in an image of a Ceph cluster. It opens, locks and describes; reads and writes are started on a reactor's ring by
//! the target, and done by Ceph's library.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use super::{BackendError, BackendIdentity, IdentityText, RbdConfig, ZeroMethod};
use crate::ceph::{CephError, Cluster, ClusterHandle, Clusters, Image, ImageCloser, News, Object, Pool};
use crate::ring::lock;

/// Modes of fallocate(2), by which the ring's operations say what they want.
const KEEP_SIZE: u32 = 0x01;
const PUNCH_HOLE: u32 = 0x02;
const ZERO_RANGE: u32 = 0x10;

/// An open image.
#[derive(Debug)]
pub struct Rbd {
    /// There until it is dropped.
    held: Option<Held>,
    identity: BackendIdentity,
    length: AtomicU64,
    has_lock: bool,
    granularity: u64,
    has_news: Arc<AtomicBool>,
    /// Set when the library refused to make zeroes without writing them.
    writes_zeroes: AtomicBool,
    closer: Arc<ImageCloser>,
    /// Receiver of notices of operations that took too long; none where gateways look after that
    /// themselves.
    late_news: Option<Arc<News>>,
    /// Held while its lock is taken or given back, which waits for the cluster.
    changes_hands: lock::Mutex<()>,
    /// Set from the time that its lock is taken until it is given back.
    is_ours: AtomicBool,
    /// Pool, and the namespace within it.
    place: (String, String),
}

/// References whose release takes as long as the cluster needs: the image, and after it the
/// connection, if this was its last user.
#[derive(Debug)]
struct Held {
    image: Arc<Image>,
    handle: ClusterHandle,
}

impl Rbd {
    /// Opens an image. Others may write to it until it is taken by [`Self::set_standby`]; one that stands by must be such that it
    /// can be.
    pub(super) fn open(
        config: &RbdConfig,
        block_size: u32,
        is_standby: bool,
        clusters: &Clusters,
    ) -> Result<Self, BackendError> {
        let handle = clusters.handle(config.conf.as_deref(), config.id.as_deref())?;
        let pool = Pool::open(handle.cluster.clone(), &config.pool, &config.namespace)?;
        let image = Image::open(pool, &config.image, config.snapshot.as_deref())?;
        // Before its size is asked for, of which LUKS' header is a part.
        if let Some(encryption) = &config.encryption {
            let key = encryption.key().map_err(|error| BackendError::Passphrase(error.of(config)))?;
            image.decrypt(&key)?;
        }
        let has_lock = !image.is_snapshot() && image.has_exclusive_lock()?;
        let (size, object_size) = (image.size()?, image.object_size()?);
        if size < u64::from(block_size) {
            return Err(BackendError::NoBlock { size, block: block_size });
        }
        let rbd = Self {
            identity: identity(&image, config)?,
            length: AtomicU64::new(whole_blocks(size, block_size)),
            has_lock,
            granularity: discard_granularity(&handle, object_size),
            held: Some(Held { image: Arc::new(image), handle }),
            has_news: Arc::default(),
            writes_zeroes: AtomicBool::new(false),
            closer: clusters.image_closer(),
            late_news: (!clusters.are_images_shared()).then(|| clusters.news()),
            changes_hands: lock::Mutex::default(),
            is_ours: AtomicBool::new(false),
            place: (config.pool.clone(), config.namespace.clone()),
        };
        let (has_news, news) = (rbd.has_news.clone(), clusters.news());
        rbd.image().watch(Box::new(move || {
            has_news.store(true, Ordering::Release);
            news.tell();
        }))?;
        if (is_standby || clusters.are_images_shared()) && !has_lock && !rbd.is_read_only() {
            let image = rbd.image().name().to_owned();
            return Err(CephError::NoExclusiveLock { image }.into());
        }
        if !has_lock && !rbd.is_read_only() {
            tracing::warn!(
                image = rbd.image().name(),
                "the image has no exclusive lock: nothing keeps others from writing to it, or learns of its new size"
            );
        }
        Ok(rbd)
    }

    const fn held(&self) -> &Held {
        self.held.as_ref().expect("it is there until this is dropped")
    }

    /// The image.
    pub const fn image(&self) -> &Arc<Image> {
        &self.held().image
    }

    /// The connection it is open on.
    pub const fn cluster(&self) -> &Arc<Cluster> {
        &self.held().handle.cluster
    }

    /// An object beside it in its pool, by its own connection: a client that is shut out of the
    /// image is shut out of that, too.
    ///
    /// # Errors
    /// When the pool cannot be opened.
    pub fn object(&self, name: &str) -> Result<Object, CephError> {
        let (pool, namespace) = &self.place;
        let pool = Pool::open(self.cluster().clone(), pool, namespace)?;
        Object::new(Arc::new(pool), name)
    }

    /// True if this target may write to it, as far as is known.
    pub fn is_taken(&self) -> bool {
        !self.has_lock || self.image().is_locked()
    }

    /// Identity, for all clients of its cluster.
    pub(super) fn identity(&self) -> BackendIdentity {
        self.identity.clone()
    }

    /// Has the connection looked after, since an operation took too long.
    #[cold]
    pub fn note_late(&self) {
        if let Some(news) = &self.late_news
            && self.cluster().note_late()
        {
            news.tell();
        }
    }

    /// Records that the cluster has refused an operation, since the connection is on the blocklist.
    #[cold]
    pub fn note_refused(&self) {
        self.held().handle.note_refused();
    }

    /// Lets others write to it, or makes sure that only this one does.
    ///
    /// # Errors
    /// When another client has it, or the cluster does not answer.
    pub fn set_standby(&self, is_standby: bool) -> Result<(), BackendError> {
        // The library says that it has a lock which it is still giving back.
        let _one_at_a_time = self.changes_hands.lock().unwrap_or_else(PoisonError::into_inner);
        match (self.has_lock, is_standby) {
            (false, _) => return Ok(()),
            (true, true) => self.image().unlock()?,
            (true, false) if self.image().is_locked() => {}
            (true, false) => self.image().lock()?,
        }
        self.is_ours.store(!is_standby, Ordering::Release);
        Ok(())
    }

    /// True if its writers need its exclusive lock.
    pub(super) const fn needs_lock(&self) -> bool {
        self.has_lock
    }

    /// Client with its exclusive lock, as its cluster names it.
    pub(super) fn lock_owner(&self) -> Option<String> {
        if self.has_lock { self.image().lock_owner() } else { None }
    }

    /// Bytes it holds.
    pub fn length(&self) -> u64 {
        self.length.load(Ordering::Relaxed)
    }

    /// True if writes are refused.
    pub fn is_read_only(&self) -> bool {
        self.image().is_snapshot()
    }

    /// Looks how long the image is now, if it has reported a change.
    pub(super) fn rescan(&self, block_size: u32) -> Result<(), BackendError> {
        if !self.has_news.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        match self.image().size() {
            Ok(size) => {
                self.length.store(whole_blocks(size, block_size), Ordering::Relaxed);
                Ok(())
            }
            Err(error) => {
                self.has_news.store(true, Ordering::Release);
                Err(error.into())
            }
        }
    }

    /// Bytes of the smallest piece that deallocating gives back to the cluster.
    pub const fn deallocate_granularity(&self) -> u64 {
        self.granularity
    }

    /// The mode that deallocates a range: whole pieces of the granularity in it, and nothing of the rest.
    pub const fn deallocate_mode(&self) -> u32 {
        PUNCH_HOLE | KEEP_SIZE
    }

    /// Method that makes a range zeroes: the cluster deallocates what it can, and writes the rest.
    pub fn zero_method(&self) -> ZeroMethod {
        if self.writes_zeroes.load(Ordering::Relaxed) {
            return ZeroMethod::Write;
        }
        ZeroMethod::Allocate(ZERO_RANGE | KEEP_SIZE)
    }

    /// Records that the library refused to make zeroes without writing them.
    pub fn refuse_zeroes(&self) {
        self.writes_zeroes.store(true, Ordering::Relaxed);
    }
}

impl Drop for Rbd {
    fn drop(&mut self) {
        let Some(Held { mut image, handle }) = self.held.take() else { return };
        let is_gateways = self.late_news.is_none();
        // Of a removed namespace, the image may come to a gateway that does not shut this one out.
        if is_gateways && self.is_ours.load(Ordering::Acquire) {
            let name = image.name().to_owned();
            let Some(closed) = handle.keep_late(image) else {
                return tracing::warn!(
                    image = name,
                    "commands on the image may still be executed: it stays locked until this gateway is on the blocklist"
                );
            };
            image = closed;
        }
        // One that was shut out has nothing to give back, and may learn of it late.
        let is_awaited = !handle.cluster.is_shut_out();
        self.closer.close(Held { image, handle }, is_awaited);
    }
}

/// Cluster, pool, namespace, image and snapshot, by the numbers that no other has, since names go to others.
fn identity(image: &Image, config: &RbdConfig) -> Result<BackendIdentity, CephError> {
    let pool = image.pool();
    let Some(identifier) = image.identifier()? else {
        return Ok(BackendIdentity::Unknown(format!("rbd:{}", image.name()).into()));
    };
    let snapshot = config.snapshot.as_deref().map(|snapshot| image.snapshot_number(snapshot)).transpose()?;
    let snapshot = snapshot.map_or_else(String::new, |number| number.to_string());
    let parts = vec![
        pool.cluster().fsid(),
        pool.number().to_string(),
        config.namespace.clone(),
        identifier,
        snapshot,
    ];
    Ok(BackendIdentity::Everywhere(IdentityText::new("image", parts)))
}

const fn whole_blocks(size: u64, block_size: u32) -> u64 {
    size - size % block_size as u64
}

/// Bytes of the whole pieces that the cluster deallocates of a discarded range.
fn discard_granularity(handle: &ClusterHandle, object_size: u64) -> u64 {
    let setting = |name| handle.cluster.setting(name);
    if setting("rbd_skip_partial_discard") == "false" {
        return 1;
    }
    setting("rbd_discard_granularity_bytes").parse().unwrap_or(object_size).clamp(1, object_size.max(1))
}
