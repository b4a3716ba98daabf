//! Which parts of a disk are holes: a thread that asks the controllers, since an answer may take as long as a file system reads,
//! and what of it is under way.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use engine::initiator::Paths;
use engine::ring::Waker;
use engine::ring::channel::{Receiver, Sender, channel};
use engine::ring::thread::{Builder, JoinHandle};
use nbd::Replies;
use nvme::identify::bits::deallocate_features::READS_ZEROES;

/// Time limit of a controller; after it the range counts as data.
const PATIENCE: Duration = Duration::from_secs(5);
/// Part of DLFEAT that says what deallocated blocks read as.
const READS_MASK: u8 = 0b111;

/// A client, by its slot and number.
pub(crate) type ClientId = (usize, u64);

/// A question of a client.
pub(crate) struct ExtentJob {
    client: ClientId,
    paths: Arc<Paths>,
    replies: Replies,
    /// Offset and length in bytes, in whole blocks.
    range: (u64, u64),
    answers: Sender<ExtentAnswer>,
    waker: Waker,
}

/// State of the beginning of a range.
pub(crate) struct ExtentAnswer {
    pub(crate) client: ClientId,
    pub(crate) replies: Replies,
    pub(crate) length: u64,
    pub(crate) is_hole: bool,
}

/// The questions of one thread that serves clients.
pub(crate) struct Extents {
    jobs: Sender<ExtentJob>,
    answers: (Sender<ExtentAnswer>, Receiver<ExtentAnswer>),
    waker: Waker,
}

impl Extents {
    pub(crate) fn new(jobs: Sender<ExtentJob>, waker: Waker) -> Self {
        Self { jobs, answers: channel(), waker }
    }

    /// Sends a question; the waker announces the answer. Returns false if the thread has ended.
    pub(crate) fn ask(
        &self,
        client: ClientId,
        paths: &Arc<Paths>,
        replies: Replies,
        range: (u64, u64),
    ) -> bool {
        let (answers, waker) = (self.answers.0.clone(), self.waker.clone());
        let job = ExtentJob { client, paths: paths.clone(), replies, range, answers, waker };
        self.jobs.send(job).is_ok()
    }

    /// The next answer that has come.
    pub(crate) fn answer(&self) -> Option<ExtentAnswer> {
        self.answers.1.try_recv().ok()
    }
}

/// Thread that asks the controllers. It ends when all senders are dropped.
pub(crate) struct ExtentThread(JoinHandle<()>);

impl ExtentThread {
    pub(crate) fn start() -> io::Result<(Self, Sender<ExtentJob>)> {
        let (sender, jobs) = channel::<ExtentJob>();
        let thread = Builder::new().name("nbd-extents".to_owned()).spawn(move || {
            while let Ok(job) = jobs.recv() {
                let (length, is_hole) = look_up(&job.paths, job.range);
                let ExtentJob { client, replies, answers, waker, .. } = job;
                let _ = answers.send(ExtentAnswer { client, replies, length, is_hole });
                waker.wake();
            }
        })?;
        Ok((Self(thread), sender))
    }

    pub(crate) fn join(self) {
        let _ = self.0.join();
    }
}

/// Bytes from the offset on that are alike, and true if they are a hole that reads as zeroes. What is not known is data.
fn look_up(paths: &Paths, (offset, length): (u64, u64)) -> (u64, bool) {
    let info = paths.namespace();
    let block = u64::from(info.block_size);
    if info.deallocate_features & READS_MASK != READS_ZEROES {
        return (length, false);
    }
    for controller in paths.controllers() {
        match controller.extent(info.nsid, offset / block, length / block, PATIENCE) {
            Ok(Some(extent)) => return ((extent.blocks * block).min(length), !extent.is_allocated),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "a controller does not say which blocks are allocated"),
        }
    }
    (length, false)
}
