//! A thread that looks from time to time whether files and devices have grown under a target, which the system does not report.
//! What follows from it is the target's.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use engine::target::Target;

/// Time between two looks. Each is a system call for each file and device.
const INTERVAL: Duration = Duration::from_secs(5);

/// The thread, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct SizeWatch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SizeWatch {
    /// Starts it. Without a thread, sizes are looked at with the next change, as before.
    pub(crate) fn start(target: &Arc<Target>) -> Option<Self> {
        let (stop, stopped) = channel();
        let target = target.clone();
        let watch = move || {
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if let Err(error) = target.notice_growth() {
                    tracing::warn!(%error, "a file or device has grown, and its namespace cannot; retrying");
                }
            }
        };
        let thread = thread::Builder::new().name("size-watch".to_owned()).spawn(watch);
        let thread = thread.inspect_err(|error| tracing::warn!(%error, "no thread to watch sizes")).ok()?;
        Some(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for SizeWatch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
