//! A pool, or a namespace within it, seen from one connection: the place that objects and images are in.
//! What is done with them is theirs.

use std::ptr;
use std::sync::Arc;

use super::c_string::text;
use super::error::answer;
use super::library::PoolHandle;
use super::{CephError, Cluster};

/// A pool, or a namespace within it.
#[derive(Debug)]
pub struct Pool {
    cluster: Arc<Cluster>,
    handle: PoolHandle,
    name: String,
}

// SAFETY: a `rados_ioctx_t` may be used from any thread at the same time, as long as its settings do not change, which
// happens in `open` alone.
#[allow(unsafe_code)]
unsafe impl Send for Pool {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Pool {}

impl Pool {
    /// The pool with this name, or the namespace within it.
    ///
    /// # Errors
    /// When there is no such pool, or the user may not use it.
    pub fn open(cluster: Arc<Cluster>, name: &str, namespace: &str) -> Result<Self, CephError> {
        let (pool, within) = (text(name)?, text(namespace)?);
        let mut handle = ptr::null_mut();
        let rados = &cluster.libraries().rados;
        // SAFETY: the cluster is connected, the name ends with 0 and outlives the call, which writes the handle.
        #[allow(unsafe_code)]
        let opened = unsafe { (rados.ioctx_create)(cluster.handle(), pool.as_ptr(), &raw mut handle) };
        answer(opened).map_err(|source| match source.raw_os_error() {
            Some(libc::ENOENT) => CephError::NoPool { pool: name.to_owned() },
            _ => cluster.failed("opening pool", name, source),
        })?;
        // SAFETY: the handle was just opened, and the name ends with 0 and outlives the call.
        #[allow(unsafe_code)]
        unsafe {
            (rados.ioctx_set_namespace)(handle, within.as_ptr());
        }
        let name = if namespace.is_empty() { name.to_owned() } else { format!("{name}/{namespace}") };
        Ok(Self { cluster, handle, name })
    }

    /// The connection it is seen from.
    pub const fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// Name, with the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number, which no other pool of the cluster ever has.
    pub fn number(&self) -> i64 {
        // SAFETY: the pool is open.
        #[allow(unsafe_code)]
        unsafe {
            (self.cluster.libraries().rados.ioctx_get_id)(self.handle)
        }
    }

    pub(super) const fn handle(&self) -> PoolHandle {
        self.handle
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the handle has no other user now: images and watches in it keep the pool.
        #[allow(unsafe_code)]
        unsafe {
            (self.cluster.libraries().rados.ioctx_destroy)(self.handle);
        }
    }
}
