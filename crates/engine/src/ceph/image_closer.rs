//! Closer of images: closing takes as long as the cluster needs, and must not block a reactor. Images
//! themselves are in `image`.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::ring::lock::{Condvar, Mutex, MutexGuard};
use crate::ring::thread;

/// Closer of images, each on a thread of its own.
#[derive(Debug, Default)]
pub struct ImageCloser {
    under_way: Mutex<usize>,
    ended: Condvar,
}

impl ImageCloser {
    /// Closes an image, by dropping its references, on a thread of its own. With `is_awaited`,
    /// [`Self::wait`] waits for it.
    pub fn close(self: &Arc<Self>, held: impl Send + 'static, is_awaited: bool) {
        let count = usize::from(is_awaited);
        *self.lock() += count;
        let closer = self.clone();
        let close = move || {
            drop(held);
            *closer.lock() -= count;
            closer.ended.notify_all();
        };
        // Without another thread the image is closed here and now.
        if let Err(error) = thread::Builder::new().name("ceph-close".to_owned()).spawn(close) {
            tracing::warn!(%error, "cannot start a thread to close an image");
            *self.lock() -= count;
        }
    }

    /// Waits until all are closed, or for `timeout`; whether all are.
    pub fn wait(&self, timeout: Duration) -> bool {
        let under_way = self.lock();
        let waited = self.ended.wait_timeout_while(under_way, timeout, |count| *count > 0);
        *waited.unwrap_or_else(PoisonError::into_inner).0 == 0
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
