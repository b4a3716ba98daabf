//! Closer of images: closing takes as long as the cluster needs, and must not block a reactor. Images
//! themselves are in `image`.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::limits::CEPH_CLOSINGS_AT_ONCE;
use crate::ring::lock::{Condvar, Mutex, MutexGuard};
use crate::ring::thread;

/// Closer of images, on threads of its own: one for each image, as long as they are few.
#[derive(Debug, Default)]
pub struct ImageCloser {
    closings: Mutex<Closings>,
    ended: Condvar,
}

/// Images that are to be closed.
#[derive(Debug, Default)]
struct Closings {
    /// Images that no thread has taken yet, each with whether it is awaited.
    waiting: VecDeque<(Box<dyn Any + Send>, bool)>,
    threads: usize,
    /// Awaited ones, waiting or under way.
    awaited: usize,
}

impl ImageCloser {
    /// Closes an image, by dropping its references, on another thread. With `is_awaited`,
    /// [`Self::wait`] waits for it.
    pub fn close(self: &Arc<Self>, held: impl Send + 'static, is_awaited: bool) {
        let held: Box<dyn Any + Send> = Box::new(held);
        let mut closings = self.lock();
        closings.awaited += usize::from(is_awaited);
        closings.waiting.push_back((held, is_awaited));
        if closings.threads >= CEPH_CLOSINGS_AT_ONCE {
            return;
        }
        closings.threads += 1;
        drop(closings);
        let closer = self.clone();
        let spawned = thread::Builder::new().name("ceph-close".to_owned()).spawn(move || closer.close_all());
        if let Err(error) = spawned {
            tracing::warn!(%error, "cannot start a thread to close an image");
            let mut closings = self.lock();
            if closings.threads > 1 {
                // Others take it.
                closings.threads -= 1;
                return;
            }
            drop(closings);
            self.close_all();
        }
    }

    /// Closes images until none waits.
    fn close_all(&self) {
        while let Some((held, is_awaited)) = self.next() {
            drop(held);
            self.lock().awaited -= usize::from(is_awaited);
            self.ended.notify_all();
        }
    }

    /// The next image for this thread, which ends without one.
    fn next(&self) -> Option<(Box<dyn Any + Send>, bool)> {
        let mut closings = self.lock();
        let next = closings.waiting.pop_front();
        closings.threads -= usize::from(next.is_none());
        next
    }

    /// Waits until all are closed, or for `timeout`; whether all are.
    pub fn wait(&self, timeout: Duration) -> bool {
        let closings = self.lock();
        let waited = self.ended.wait_timeout_while(closings, timeout, |closings| closings.awaited > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.awaited == 0
    }

    fn lock(&self) -> MutexGuard<'_, Closings> {
        self.closings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, not(feature = "simulation")))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use prerequisite::{patience, wait_until};

    use super::*;

    /// An image whose cluster answers when the gate is open.
    struct Image {
        begun: Arc<AtomicUsize>,
        gate: Arc<(Mutex<bool>, Condvar)>,
    }

    impl Drop for Image {
        fn drop(&mut self) {
            self.begun.fetch_add(1, Ordering::AcqRel);
            let (is_open, opens) = &*self.gate;
            drop(opens.wait_while(is_open.lock().unwrap(), |is_open| !*is_open).unwrap());
        }
    }

    #[test]
    fn closing_many_images_takes_no_more_threads_than_there_may_be() {
        let (closer, begun) = (Arc::new(ImageCloser::default()), Arc::new(AtomicUsize::new(0)));
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let count = CEPH_CLOSINGS_AT_ONCE + 8;
        for _ in 0..count {
            closer.close(Image { begun: begun.clone(), gate: gate.clone() }, true);
        }
        let all_begun = || begun.load(Ordering::Acquire);
        wait_until("the threads are busy", || all_begun() == CEPH_CLOSINGS_AT_ONCE);
        assert!(!closer.wait(Duration::ZERO));
        assert_eq!((all_begun(), closer.lock().waiting.len()), (CEPH_CLOSINGS_AT_ONCE, 8));
        *gate.0.lock().unwrap() = true;
        gate.1.notify_all();
        assert!(closer.wait(patience()));
        assert_eq!(all_begun(), count);
    }
}
