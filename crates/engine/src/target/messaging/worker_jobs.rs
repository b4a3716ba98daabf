//! The way to a worker's thread: who has a job for it never waits.

use std::fmt;
use std::sync::Mutex;
use std::sync::mpsc::TrySendError;

use nvme::Status;

use crate::ring::channel::SyncSender;
use crate::target::lock::lock;

/// The way to a worker, while there is one.
pub(crate) struct WorkerJobs<J>(Mutex<Option<SyncSender<J>>>);

// Whatever the jobs are, they are not shown.
impl<J> fmt::Debug for WorkerJobs<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WorkerJobs")
    }
}

impl<J> Default for WorkerJobs<J> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<J> WorkerJobs<J> {
    /// The worker at the other end takes jobs from now on.
    pub(crate) fn open(&self, sender: SyncSender<J>) {
        *lock(&self.0) = Some(sender);
    }

    /// Closes the queue: no further jobs are accepted.
    pub(crate) fn close(&self) {
        *lock(&self.0) = None;
    }

    /// Gives it a job.
    ///
    /// # Errors
    /// The status to answer with when it has too many, or there is none.
    pub(crate) fn hand(&self, job: J) -> Result<(), Status> {
        let worker = lock(&self.0);
        worker.as_ref().ok_or(Status::INTERNAL_ERROR)?.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => Status::COMMAND_INTERRUPTED,
            TrySendError::Disconnected(_) => Status::INTERNAL_ERROR,
        })
    }
}
