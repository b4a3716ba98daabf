//! A block layer: requests of a disk's users, which outlive the process that serves the disk. A
//! process that takes the disk over gets the unanswered requests again, as with ublk and the
//! in-flight region of vhost-user. Each is answered once, by the process that has it.

use std::collections::VecDeque;

use engine::ring::Waker;
use engine::simulation::{self, Random};

use crate::history::Look;

/// Operation of a request.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Read { look: Look },
    Write { name: u64, durable: bool, how: Change },
    Flush { name: u64, era: u64 },
}

/// Change to blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Write,
    Zeroes { deallocate: bool },
    Discard,
}

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) work: Work,
    pub(crate) start: u64,
    pub(crate) count: u64,
    /// The life of the process that has it.
    by: Option<u64>,
}

/// A queue of the disk. A request's tag is its place.
#[derive(Debug, Default)]
struct Queue {
    requests: Vec<Option<Request>>,
    /// Tags of those that no process has.
    waiting: VecDeque<usize>,
    waker: Option<Waker>,
}

#[derive(Debug)]
pub(crate) struct BlockLayer {
    queues: Vec<Queue>,
    /// Life of the process that has the disk.
    server: Option<u64>,
}

impl Request {
    pub(crate) const fn new(work: Work, start: u64, count: u64) -> Self {
        Self { work, start, count, by: None }
    }
}

impl BlockLayer {
    pub(crate) fn new(queues: u16, depth: usize) -> Self {
        let queue = || Queue { requests: (0..depth).map(|_| None).collect(), ..Queue::default() };
        Self { queues: (0..queues).map(|_| queue()).collect(), server: None }
    }

    pub(crate) const fn has_server(&self) -> bool {
        self.server.is_some()
    }

    /// A process serves the disk from now on.
    pub(crate) const fn serve(&mut self, life: u64) {
        self.server = Some(life);
    }

    /// The thread that serves a queue is woken by this.
    pub(crate) fn set_waker(&mut self, queue: u16, waker: Waker) {
        self.queues[usize::from(queue)].waker = Some(waker);
    }

    /// True if a queue takes another request.
    pub(crate) fn has_room(&self, queue: u16) -> bool {
        self.queues[usize::from(queue)].requests.iter().any(Option::is_none)
    }

    /// Takes a user's request.
    pub(crate) fn add(&mut self, queue: u16, request: Request) {
        let queue = &mut self.queues[usize::from(queue)];
        let Some(tag) = queue.requests.iter().position(Option::is_none) else {
            return simulation::fail("a request found no tag");
        };
        queue.requests[tag] = Some(request);
        queue.waiting.push_back(tag);
        if let Some(waker) = &queue.waker {
            waker.wake();
        }
    }

    /// A request for a process that serves the disk.
    pub(crate) fn take(&mut self, queue: u16, life: u64) -> Option<(usize, Request)> {
        if self.server != Some(life) {
            simulation::fail("a process takes requests of a disk that is not its own");
            return None;
        }
        let queue = &mut self.queues[usize::from(queue)];
        let tag = queue.waiting.pop_front()?;
        let request = queue.requests[tag].as_mut()?;
        request.by = Some(life);
        Some((tag, request.clone()))
    }

    /// The request that a process answers.
    pub(crate) fn answer(&mut self, queue: u16, tag: usize, life: u64) -> Option<Request> {
        let request = self.queues[usize::from(queue)].requests[tag].take();
        let answered = request.filter(|request| request.by == Some(life));
        if answered.is_none() {
            simulation::fail(format!(
                "request {tag} of queue {queue} is answered twice, or by another process"
            ));
        }
        answered
    }

    /// The process that serves the disk is no more: how many requests the next one is given again, in any order.
    pub(crate) fn abandon(&mut self, life: u64, random: &mut Random) -> usize {
        if self.server != Some(life) {
            return 0;
        }
        self.server = None;
        let mut again = 0;
        for queue in &mut self.queues {
            queue.waker = None;
            for (tag, request) in queue.requests.iter_mut().enumerate() {
                if let Some(request) = request
                    && request.by.take().is_some()
                {
                    let at = random.below(queue.waiting.len() as u64 + 1) as usize;
                    queue.waiting.insert(at, tag);
                    again += 1;
                }
            }
        }
        again
    }

    /// All that is not answered, and whether a process has it.
    pub(crate) fn outstanding(&self) -> impl Iterator<Item = (&Request, bool)> {
        let requests = self.queues.iter().flat_map(|queue| &queue.requests).flatten();
        requests.map(|request| (request, request.by.is_some()))
    }
}
