//! A queue of the device and the thread that serves it: each request is one command over the initiator's paths.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use engine::initiator::{CommandQueues, Data, Ended, PathQueues, Paths, Request as QueueRequest};
use engine::limits::RECEIVE_LENGTH;
use engine::ring::{Buffer, BufferPool, Event, Moment, Ring};
use rustix::io::Errno;
use zerocopy::IntoBytes as _;

use super::errno::errno;
use super::geometry::Geometry;
use super::request::{Request, Work, result_number};
use super::request_data::RequestData;
use super::tags::{Completion, Tags};
use super::tally::DeviceTally;
use super::{Descriptors, DeviceFile, RequestRing};

/// Parts of a queue.
pub(super) struct Plan {
    pub(super) device: Arc<DeviceFile>,
    pub(super) paths: Arc<Paths>,
    pub(super) geometry: Geometry,
    pub(super) number: u16,
    pub(super) count: u16,
    pub(super) depth: u16,
    /// The driver copies data itself, for who has not root's rights.
    pub(super) has_buffers: bool,
    pub(super) queue_control: Arc<QueueControl>,
}

/// Requests to all threads of a device, and their progress.
#[derive(Debug, Default)]
pub(super) struct QueueControl {
    /// All that is under way, and all that comes, fails from now on.
    pub(super) gives_up: AtomicBool,
    /// The thread ends, and the device stays for another process. What was begun ends before.
    pub(super) leaves: AtomicBool,
    /// No request is begun for now.
    pub(super) quiesces: AtomicBool,
    /// Threads of which nothing is under way since then.
    pub(super) quiet: AtomicUsize,
    /// Threads that have ended.
    pub(super) ended: AtomicUsize,
}

pub(super) struct Queue {
    /// Before the ring that watches it.
    requests: RequestRing,
    /// Behind the ring, whose commands name its buffers.
    data: RequestData,
    /// `None` before requests were asked for.
    descriptors: Option<Descriptors>,
    ring: Ring,
    queues: PathQueues,
    pool: BufferPool,
    plan: Plan,
    /// The requests that are under way, by their tags.
    under_way: Vec<Option<Request>>,
    tags: Tags,
    is_closed: bool,
    /// Requests that have come while quiesced, by their tags.
    deferred: Vec<u16>,
    /// Set once it has reported that nothing is under way while quiesced.
    is_quiet: bool,
    events: Vec<Event>,
    scratch: Vec<u8>,
    tally: DeviceTally,
}

/// The ring of requests has this token, the initiator's queues all from the next on.
const REQUESTS_TOKEN: u32 = 0;
const QUEUE_TOKEN: u32 = 1;

impl Queue {
    /// A queue for the calling thread.
    pub(super) fn open(mut ring: Ring, plan: Plan) -> io::Result<Self> {
        let Plan { number, count, depth, .. } = plan;
        let requests = RequestRing::new(plan.device.clone(), number, depth)?;
        let data = match plan.has_buffers {
            true => RequestData::by_buffers(depth),
            false => RequestData::by_calls(plan.device.clone(), number),
        };
        requests.watch(&mut ring, REQUESTS_TOKEN)?;
        let queues = PathQueues::open(&plan.paths, &mut ring, QUEUE_TOKEN, number, count, depth.into());
        Ok(Self {
            requests,
            data,
            descriptors: None,
            ring,
            queues,
            pool: BufferPool::new(),
            under_way: vec![None; depth.into()],
            tags: Tags::new(depth),
            is_closed: false,
            deferred: Vec::with_capacity(depth.into()),
            is_quiet: false,
            events: Vec::with_capacity(256),
            scratch: vec![0; RECEIVE_LENGTH],
            tally: DeviceTally::default(),
            plan,
        })
    }

    /// Asks for the first requests.
    pub(super) fn fetch(&mut self) -> io::Result<()> {
        for tag in 0..self.plan.depth {
            self.requests.fetch(tag, self.data.address(tag))?;
            self.tags.ask(tag);
        }
        self.requests.submit()?;
        // In this order: Linux 6.12 lets no other process map them if one ends that has mapped them
        // and not yet asked for requests.
        self.descriptors = Some(Descriptors::map(&self.plan.device, self.plan.number, self.plan.depth)?);
        Ok(())
    }

    /// Serves until the driver has no more requests.
    pub(super) fn run(mut self) -> DeviceTally {
        while self.tags.are_live() && !self.may_leave() {
            if let Err(error) = self.run_once() {
                tracing::error!(%error, queue = self.plan.number, "a queue of a block device failed");
                break;
            }
        }
        self.close();
        self.requests.unwatch(&mut self.ring, REQUESTS_TOKEN);
        self.tally
    }

    /// True if the device is to be left and nothing of it is under way. Requests that have come and
    /// were not begun are given to the new process.
    fn may_leave(&mut self) -> bool {
        let leaves = self.plan.queue_control.leaves.load(Ordering::Acquire);
        let is_quiet = self.is_closed || self.under_way.iter().all(Option::is_none);
        // What has ended is answered by this process, so that the next one does not do it again.
        leaves && is_quiet && self.requests.submit().is_ok()
    }

    /// Reports that nothing is under way, or begins the requests that were deferred while quiesced.
    fn quiesce(&mut self) -> io::Result<()> {
        if !self.is_quiesced() {
            self.is_quiet = false;
            let deferred = std::mem::take(&mut self.deferred);
            return deferred.iter().try_for_each(|tag| self.begin(*tag));
        }
        if !self.is_quiet && self.under_way.iter().all(Option::is_none) {
            self.is_quiet = true;
            self.requests.submit()?;
            self.plan.queue_control.quiet.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }

    fn is_quiesced(&self) -> bool {
        let QueueControl { leaves, quiesces, .. } = &*self.plan.queue_control;
        quiesces.load(Ordering::Acquire) || leaves.load(Ordering::Acquire)
    }

    fn run_once(&mut self) -> io::Result<()> {
        self.requests.submit()?;
        if !self.is_closed {
            self.queues.flush(&mut self.ring);
        }
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        let timeout = self.timeout();
        self.ring.wait(timeout, &mut events)?;
        let now = self.ring.now();
        if self.plan.queue_control.gives_up.load(Ordering::Acquire) {
            self.close();
        }
        if !self.is_closed {
            self.queues.on_events(&mut self.ring, &mut self.scratch, &events, now);
            self.queues.turn(&mut self.ring, now);
        }
        self.events = events;
        while let Some(ended) = self.queues.pop() {
            self.ended(ended)?;
        }
        while let Some((tag, result)) = self.requests.pop() {
            match self.tags.complete(tag, result) {
                Completion::Request if self.is_quiesced() => self.deferred.push(tag),
                Completion::Request => self.begin(tag)?,
                // The device goes.
                Completion::End(number) if number == Errno::NODEV.raw_os_error() => {}
                Completion::End(number) => {
                    let error = io::Error::from_raw_os_error(number);
                    tracing::error!(%error, tag, "cannot fetch requests from the kernel's ublk driver");
                }
                Completion::Stray => {
                    tracing::error!(
                        tag,
                        result,
                        "the kernel's ublk driver ends a command that it does not have"
                    );
                }
            }
        }
        if self.is_quiet || !self.deferred.is_empty() || self.is_quiesced() { self.quiesce() } else { Ok(()) }
    }

    fn timeout(&mut self) -> Option<Duration> {
        if self.is_closed {
            return None;
        }
        if self.queues.has_more() {
            return Some(Duration::ZERO);
        }
        let now = self.ring.now();
        self.queues.next_deadline().map(|deadline: Moment| deadline.since(now))
    }

    /// Ends all commands that are under way as lost.
    fn close(&mut self) {
        if !self.is_closed {
            self.is_closed = true;
            self.queues.close(&mut self.ring);
        }
    }

    /// A request has come.
    fn begin(&mut self, tag: u16) -> io::Result<()> {
        self.tally.requests += 1;
        match self.send(tag) {
            Ok(()) => Ok(()),
            Err(error) => self.answer(tag, Err(error)),
        }
    }

    /// Gives the request's command to the queues.
    fn send(&mut self, tag: u16) -> Result<(), Errno> {
        if self.is_closed {
            return Err(Errno::IO);
        }
        let descriptor = self.descriptors.as_ref().and_then(|all| all.get(tag)).ok_or(Errno::INVAL)?;
        // The namespace may have become larger, or a device that stays larger: then the target refuses.
        let size_bytes = self.plan.geometry.size_bytes.max(self.plan.paths.size_bytes());
        let request = Request::of(&descriptor, &Geometry { size_bytes, ..self.plan.geometry })?;
        let data = self.data(tag, &request)?;
        let entry = request.command().encode(self.plan.geometry.nsid);
        let slot = self.under_way.get_mut(usize::from(tag)).ok_or(Errno::INVAL)?;
        *slot = Some(request);
        let submitted = self.queues.submit(QueueRequest { entry, data, user: tag.into() });
        // There are as many slots as tags.
        submitted.map_err(|_| Errno::IO)
    }

    /// Data of the command.
    fn data(&mut self, tag: u16, request: &Request) -> Result<Data, Errno> {
        match request.work {
            Work::Read => Ok(Data::Receive(self.pool.take(request.length as usize))),
            Work::Write { .. } => {
                let mut buffer = self.pool.take(request.length as usize);
                match self.data.read(tag, &mut buffer) {
                    Ok(()) => Ok(Data::Send(buffer)),
                    Err(error) => {
                        self.pool.give(buffer);
                        Err(self.not_copied(&error))
                    }
                }
            }
            Work::Discard => {
                let mut buffer = self.pool.take(size_of_val(&request.range()));
                buffer.copy_from_slice(request.range().as_bytes());
                Ok(Data::Send(buffer))
            }
            Work::Flush | Work::WriteZeroes { .. } => Ok(Data::None),
        }
    }

    fn not_copied(&self, error: &io::Error) -> Errno {
        tracing::error!(%error, queue = self.plan.number, "the data of a request cannot be copied");
        Errno::IO
    }

    /// A command has ended.
    fn ended(&mut self, ended: Ended) -> io::Result<()> {
        let tag = ended.user() as u16;
        let (data, mut result) = match ended.answer() {
            Ok(completion) if completion.status.is_success() => (completion.data, Ok(())),
            Ok(completion) => (completion.data, Err(errno(completion.status))),
            Err(lost) => (lost.data, Err(Errno::IO)),
        };
        let request = self.under_way.get_mut(usize::from(tag)).and_then(Option::take);
        let Some(request) = request else { return Ok(()) };
        if let (Work::Read, Ok(())) = (request.work, result) {
            result = self.hand_over(tag, data.as_ref());
        }
        data.into_iter().for_each(|buffer| self.pool.give(buffer));
        self.answer(tag, result.map(|()| request.length))
    }

    /// Gives the data of a read to the kernel.
    fn hand_over(&mut self, tag: u16, data: Option<&Buffer>) -> Result<(), Errno> {
        // Each end brings back the buffer of its command.
        let buffer = data.ok_or(Errno::IO)?;
        self.data.write(tag, buffer).map_err(|error| self.not_copied(&error))
    }

    fn answer(&mut self, tag: u16, result: Result<u64, Errno>) -> io::Result<()> {
        self.tally.errors += u64::from(result.is_err());
        self.tags.ask(tag);
        self.requests.commit(tag, result_number(result), self.data.address(tag))
    }
}
