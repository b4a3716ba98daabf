//! A thread that asks file systems which blocks are allocated, which may have to read for that: no reactor waits for it.

use std::io;
use std::sync::Arc;

use crate::limits::ALLOCATION_JOBS_MAX;
use crate::ring::Vital;
use crate::ring::channel::sync_channel;
use crate::ring::thread::{self, JoinHandle};
use crate::target::admin::lba_status_list;
use crate::target::fabric::Fabric;
use crate::target::messaging::AllocationJob;

/// The running worker. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct AllocationWorker {
    fabric: Arc<Fabric>,
    thread: Option<JoinHandle<()>>,
}

impl AllocationWorker {
    /// Starts the worker, which takes the fabric's jobs from then on.
    pub(crate) fn start(fabric: &Arc<Fabric>) -> io::Result<Self> {
        let (sender, jobs) = sync_channel::<AllocationJob>(ALLOCATION_JOBS_MAX);
        let thread = thread::Builder::new().name("allocation".to_owned()).spawn(move || {
            let _vital = Vital::begin();
            while let Ok(job) = jobs.recv() {
                match lba_status_list(&job) {
                    Ok(data) => job.asker.answer_with(data),
                    Err(status) => job.asker.answer(status, 0),
                }
            }
        })?;
        fabric.allocation_jobs.open(sender);
        Ok(Self { fabric: fabric.clone(), thread: Some(thread) })
    }
}

impl Drop for AllocationWorker {
    fn drop(&mut self) {
        self.fabric.allocation_jobs.close();
        // A panic there has ended the process.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
