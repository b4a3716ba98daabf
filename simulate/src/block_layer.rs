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
    /// Tags of which a process has asked for requests, and data that it has read for them.
    asked: Vec<bool>,
    data: Vec<Option<Vec<u8>>>,
}

#[derive(Debug)]
pub(crate) struct BlockLayer {
    queues: Vec<Queue>,
    /// Life of the process that has the disk.
    server: Option<u64>,
}

impl Queue {
    /// Requests that were taken and not answered wait again, in any order: how many these are.
    fn abandon(&mut self, random: &mut Random) -> usize {
        self.waker = None;
        self.asked.fill(false);
        self.data.fill(None);
        let mut again = 0;
        for (tag, request) in self.requests.iter_mut().enumerate() {
            if let Some(request) = request
                && request.by.take().is_some()
            {
                let at = random.below(self.waiting.len() as u64 + 1) as usize;
                self.waiting.insert(at, tag);
                again += 1;
            }
        }
        again
    }
}

impl Request {
    pub(crate) const fn new(work: Work, start: u64, count: u64) -> Self {
        Self { work, start, count, by: None }
    }
}

impl BlockLayer {
    pub(crate) fn new(queues: u16, depth: usize) -> Self {
        let queue = || Queue {
            requests: (0..depth).map(|_| None).collect(),
            asked: vec![false; depth],
            data: vec![None; depth],
            ..Queue::default()
        };
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

    /// No thread is woken any longer.
    pub(crate) fn forget_waker(&mut self, queue: u16) {
        self.queues[usize::from(queue)].waker = None;
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
        self.take_by(queue, life)
    }

    /// A process that serves the disk asks for a request with this tag.
    pub(crate) fn ask(&mut self, queue: u16, tag: usize, life: u64) {
        if self.server == Some(life) {
            let queue = &mut self.queues[usize::from(queue)];
            queue.asked[tag] = true;
            if queue.waiting.contains(&tag)
                && let Some(waker) = &queue.waker
            {
                waker.wake();
            }
        }
    }

    /// The tag of a request that a process gets, of those that it has asked for.
    pub(crate) fn take_asked(&mut self, queue: u16, life: u64) -> Option<usize> {
        if self.server != Some(life) {
            simulation::fail("a process takes requests of a disk that is not its own");
            return None;
        }
        let queue = &mut self.queues[usize::from(queue)];
        let at = queue.waiting.iter().position(|tag| queue.asked[*tag])?;
        let tag = queue.waiting.remove(at)?;
        queue.asked[tag] = false;
        queue.requests[tag].as_mut()?.by = Some(life);
        Some(tag)
    }

    /// The request with this tag that a process has.
    pub(crate) fn request(&self, queue: u16, tag: usize, life: u64) -> Option<Request> {
        let request = self.queues[usize::from(queue)].requests.get(tag)?.as_ref();
        request.filter(|request| request.by == Some(life)).cloned()
    }

    /// Keeps data of a read until it is answered.
    pub(crate) fn put_data(&mut self, queue: u16, tag: usize, data: Vec<u8>) {
        self.queues[usize::from(queue)].data[tag] = Some(data);
    }

    /// Data of a read that is answered.
    pub(crate) fn take_data(&mut self, queue: u16, tag: usize) -> Option<Vec<u8>> {
        self.queues[usize::from(queue)].data[tag].take()
    }

    /// A request for a connection, by which a queue's requests reach whatever process serves.
    pub(crate) fn take_by(&mut self, queue: u16, connection: u64) -> Option<(usize, Request)> {
        let queue = &mut self.queues[usize::from(queue)];
        let tag = queue.waiting.pop_front()?;
        let request = queue.requests[tag].as_mut()?;
        request.by = Some(connection);
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

    /// The request that a connection's reply answers.
    pub(crate) fn answered(&mut self, queue: u16, tag: usize) -> Option<Request> {
        let request = self.queues[usize::from(queue)].requests[tag].take();
        if request.is_none() {
            simulation::fail(format!("request {tag} of queue {queue} is answered twice"));
        }
        request
    }

    /// The process that serves the disk is no more: how many requests the next one is given again, in any order.
    pub(crate) fn abandon(&mut self, life: u64, random: &mut Random) -> usize {
        if self.server != Some(life) {
            return 0;
        }
        self.server = None;
        self.queues.iter_mut().map(|queue| queue.abandon(random)).sum()
    }

    /// The same of a queue's connection.
    pub(crate) fn abandon_connection(&mut self, queue: u16, random: &mut Random) -> usize {
        self.queues[usize::from(queue)].abandon(random)
    }

    /// All that is not answered, and whether a process has it.
    pub(crate) fn outstanding(&self) -> impl Iterator<Item = (&Request, bool)> {
        let requests = self.queues.iter().flat_map(|queue| &queue.requests).flatten();
        requests.map(|request| (request, request.by.is_some()))
    }
}
