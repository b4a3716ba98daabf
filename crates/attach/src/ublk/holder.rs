//! Handle of a served block device, for a hand-over to another process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use engine::ring::{Waker, now, thread};

use super::queue::QueueControl;
use crate::hand_over_error::HandOverError;
use crate::limits::HAND_OVER_TIMEOUT_MS;

/// Interval at which the threads are checked for the completion of a request.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// A device that may be left to another process.
#[derive(Clone)]
pub struct DeviceHolder {
    queue_control: Arc<QueueControl>,
    wakers: Arc<[Waker]>,
}

impl DeviceHolder {
    pub(super) fn new(queue_control: Arc<QueueControl>, wakers: Arc<[Waker]>) -> Self {
        Self { queue_control, wakers }
    }

    /// Begins no request of the device until `thaw` or `leave`, and waits until nothing is under way.
    ///
    /// # Errors
    /// When that takes too long; it is served on then.
    pub fn freeze(&self) -> Result<(), HandOverError> {
        self.queue_control.quiet.store(0, Ordering::Release);
        self.queue_control.quiesces.store(true, Ordering::Release);
        self.wake();
        if self.all(&self.queue_control.quiet) {
            return Ok(());
        }
        self.thaw();
        Err(HandOverError::DeviceBusy)
    }

    /// Serves on.
    pub fn thaw(&self) {
        self.queue_control.quiesces.store(false, Ordering::Release);
        self.wake();
    }

    /// Has the threads of the device end: requests wait for another process. Says whether they do at once. The device is free when
    /// its owner abandons it, who waits for the threads' very ends: the driver wants them to be gone before it is taken over.
    pub fn leave(&self) -> bool {
        self.queue_control.leaves.store(true, Ordering::Release);
        self.wake();
        self.all(&self.queue_control.ended)
    }

    fn wake(&self) {
        self.wakers.iter().for_each(Waker::wake);
    }

    /// Waits until all threads have counted themselves.
    fn all(&self, counted: &AtomicUsize) -> bool {
        let until = now().after(Duration::from_millis(HAND_OVER_TIMEOUT_MS));
        while counted.load(Ordering::Acquire) < self.wakers.len() {
            if now() >= until {
                return false;
            }
            thread::sleep(LOOK_INTERVAL);
        }
        true
    }
}
