//! Which parts of a disk are holes: a thread that asks the controllers, since an answer may take as long as a file system reads,
//! and what of it is under way.

use std::io;
use std::sync::{Arc, Weak};
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

/// A question for the thread.
pub(crate) struct ExtentJob {
    number: u64,
    /// Dead once no client waits for the answer.
    is_awaited: Weak<()>,
    paths: Arc<Paths>,
    /// Offset and length in bytes, in whole blocks.
    range: (u64, u64),
    results: Sender<ExtentResult>,
    waker: Waker,
}

/// State of the beginning of a range, as the controllers say.
struct ExtentResult {
    number: u64,
    length: u64,
    is_hole: bool,
}

/// State of the beginning of a range, for the client that has asked for it.
#[derive(Debug)]
pub(crate) struct ExtentAnswer {
    pub(crate) client: ClientId,
    pub(crate) replies: Replies,
    pub(crate) length: u64,
    pub(crate) is_hole: bool,
}

/// A question of a client that is not answered.
struct Pending {
    number: u64,
    client: ClientId,
    replies: Replies,
    length: u64,
    /// Dropped with the question, which is not asked then.
    _waits: Arc<()>,
}

/// Questions of one thread that are not answered.
#[derive(Default)]
struct PendingQuestions {
    last: u64,
    pending: Vec<Pending>,
}

/// The questions of one thread that serves clients.
pub(crate) struct Extents {
    jobs: Sender<ExtentJob>,
    results: (Sender<ExtentResult>, Receiver<ExtentResult>),
    waker: Waker,
    questions: PendingQuestions,
}

impl PendingQuestions {
    /// Adds a question, and returns its number and a mark that it is still awaited.
    fn add(&mut self, client: ClientId, replies: Replies, length: u64) -> (u64, Weak<()>) {
        self.last += 1;
        let waits = Arc::new(());
        let is_awaited = Arc::downgrade(&waits);
        self.pending.push(Pending { number: self.last, client, replies, length, _waits: waits });
        (self.last, is_awaited)
    }

    /// The answer with this result; `None` where the question was answered without it.
    fn answered(&mut self, result: &ExtentResult) -> Option<ExtentAnswer> {
        let at = self.pending.iter().position(|question| question.number == result.number)?;
        let Pending { client, replies, .. } = self.pending.swap_remove(at);
        Some(ExtentAnswer { client, replies, length: result.length, is_hole: result.is_hole })
    }

    /// Answers all questions without the controllers: what is not known is data.
    fn give_up(&mut self) -> Vec<ExtentAnswer> {
        let answer = |Pending { client, replies, length, .. }| ExtentAnswer {
            client,
            replies,
            length,
            is_hole: false,
        };
        self.pending.drain(..).map(answer).collect()
    }

    /// Forgets those of a client that is gone.
    fn forget(&mut self, client: ClientId) {
        self.pending.retain(|question| question.client != client);
    }
}

impl Extents {
    pub(crate) fn new(jobs: Sender<ExtentJob>, waker: Waker) -> Self {
        Self { jobs, results: channel(), waker, questions: PendingQuestions::default() }
    }

    /// Sends a question; the waker announces the answer. Returns false if the thread has ended.
    pub(crate) fn ask(
        &mut self,
        client: ClientId,
        paths: &Arc<Paths>,
        replies: Replies,
        range: (u64, u64),
    ) -> bool {
        let (results, waker) = (self.results.0.clone(), self.waker.clone());
        let (number, is_awaited) = self.questions.add(client, replies, range.1);
        let is_sent =
            self.jobs.send(ExtentJob { number, is_awaited, paths: paths.clone(), range, results, waker });
        if is_sent.is_err() {
            self.questions.pending.pop();
        }
        is_sent.is_ok()
    }

    /// The next answer that has come.
    pub(crate) fn answer(&mut self) -> Option<ExtentAnswer> {
        loop {
            let result = self.results.1.try_recv().ok()?;
            let answer = self.questions.answered(&result);
            if answer.is_some() {
                return answer;
            }
        }
    }

    /// Answers all questions that are not answered as if their blocks had data.
    pub(crate) fn give_up(&mut self) -> Vec<ExtentAnswer> {
        self.questions.give_up()
    }

    /// Forgets the questions of a client that is gone.
    pub(crate) fn forget(&mut self, client: ClientId) {
        self.questions.forget(client);
    }
}

/// Thread that asks the controllers. It ends when all senders are dropped.
pub(crate) struct ExtentThread(JoinHandle<()>);

impl ExtentThread {
    pub(crate) fn start() -> io::Result<(Self, Sender<ExtentJob>)> {
        let (sender, jobs) = channel::<ExtentJob>();
        let thread = Builder::new().name("nbd-extents".to_owned()).spawn(move || {
            while let Ok(job) = jobs.recv() {
                let ExtentJob { number, is_awaited, paths, range, results, waker } = job;
                if is_awaited.strong_count() == 0 {
                    continue;
                }
                let (length, is_hole) = look_up(&paths, range);
                let _ = results.send(ExtentResult { number, length, is_hole });
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

#[cfg(test)]
mod tests {
    use super::*;

    fn result(number: u64) -> ExtentResult {
        ExtentResult { number, length: 512, is_hole: true }
    }

    #[test]
    fn questions_that_are_given_up_are_answered_as_data_and_not_asked() {
        let mut questions = PendingQuestions::default();
        let replies = |cookie| Replies { cookie, ..Replies::default() };
        let (first, is_first_awaited) = questions.add((1, 10), replies(7), 4096);
        let (second, is_second_awaited) = questions.add((2, 11), replies(8), 8192);
        let answer = questions.answered(&result(second)).expect("an answer");
        assert_eq!((answer.client, answer.replies.cookie), ((2, 11), 8));
        assert_eq!((answer.length, answer.is_hole, is_second_awaited.strong_count()), (512, true, 0));
        let given_up = questions.give_up();
        let answers: Vec<_> = given_up.iter().map(|answer| (answer.client, answer.length)).collect();
        assert_eq!((answers, given_up[0].is_hole), (vec![((1, 10), 4096)], false));
        assert_eq!(is_first_awaited.strong_count(), 0, "the thread need not ask for it");
        assert!(questions.answered(&result(first)).is_none(), "a late result does not answer again");
    }

    #[test]
    fn questions_of_a_client_that_is_gone_are_forgotten() {
        let mut questions = PendingQuestions::default();
        let (gone, is_awaited) = questions.add((1, 10), Replies::default(), 4096);
        let (other, _) = questions.add((1, 11), Replies::default(), 4096);
        questions.forget((1, 10));
        assert_eq!(is_awaited.strong_count(), 0);
        assert!(questions.answered(&result(gone)).is_none());
        assert_eq!(questions.answered(&result(other)).expect("an answer").client, (1, 11));
    }
}
