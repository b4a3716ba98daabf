//! A thread that runs jobs on queues of its own: it has the ring, the buffers and the clock, reads the latter once
//! per batch, and decides nothing about the workload.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use engine::initiator::{
    CommandQueues, Data, Driver, Ended, InitiatorError, PathQueues, PathShare, Paths, StageLatencies,
};
use engine::limits::RECEIVE_LENGTH;
use engine::ring::{Buffer, Moment, Ring, RingOptions, core};
use nvme::io::IoCommand;
use topology::Waited;

use super::histogram::Tally;
use super::job::{Io, Job, Next, Operation};
use super::latency_map::LatencyMap;
use super::slot_sequence::Random;
use super::throughput::Throughput;
use crate::failure::Failure;

/// Longest delay until a worker notices a stop request.
const STOP_LATENCY: Duration = Duration::from_millis(100);
/// Buffers that a worker makes before it looks after its queues.
const BUFFERS_AT_ONCE: usize = 256;
/// Interval between progress messages of a worker.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Parameters of a worker.
pub(crate) struct WorkerPlan {
    pub number: usize,
    /// Number of workers, which share the queues of each path.
    pub workers: usize,
    pub paths: Arc<Paths>,
    /// Commands all jobs together keep outstanding.
    pub depth: usize,
    pub jobs: Vec<Job>,
    pub ring: RingOptions,
    pub nsid: u32,
    /// Bytes of one command's data, and of the namespace's blocks.
    pub block_bytes: u32,
    pub unit_bytes: u32,
    pub seed: u64,
    /// Processors to keep to; anywhere when there is none.
    pub cpus: Vec<u32>,
}

/// Start of counting, and the time from which no command begins, the same for all workers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeline {
    pub(crate) count_from: Moment,
    pub end: Option<Moment>,
}

/// Message of a running worker.
pub(crate) enum Message {
    /// Queues are live: thread ID, and state of the paths.
    Ready { number: usize, thread: i32, shares: Vec<PathShare> },
    /// Counting has begun.
    Counting,
    /// The workload has ended.
    Counted,
    /// Once a second: all it has counted, the blocks it has read back, how its paths are, and for how
    /// long it has waited.
    Progress { number: usize, total: Box<Tally>, read_back: u64, shares: Vec<PathShare>, waited: Waited },
    /// The worker has ended.
    Gone,
}

/// Two-way communication with the thread that started the worker.
pub(crate) struct WorkerChannels {
    pub(crate) messages: Sender<Message>,
    /// Start of the run; closed if the run does not take place.
    pub start: Receiver<Timeline>,
    /// Set when the run must end.
    pub stop: Arc<AtomicBool>,
    /// Another worker has failed.
    pub(crate) abort: Arc<AtomicBool>,
}

/// Final report of a worker.
pub(crate) struct WorkerReport {
    pub jobs: Vec<Job>,
    /// Processor time used while counting.
    pub cpu: Duration,
    pub engine: &'static str,
    pub(crate) throughput: Throughput,
    pub(crate) latency_map: LatencyMap,
    /// The worker's share of each path.
    pub(crate) shares: Vec<PathShare>,
    /// Time of each path's commands by stage, while counting.
    pub stages: Vec<StageLatencies>,
    pub failure: Option<Broken>,
}

/// Why a worker ended early.
pub(crate) enum Broken {
    /// The connection to the target was lost.
    Connection(Failure),
    /// A command failed, or data was wrong.
    Command(Failure),
}

/// Runs a worker to its end.
///
/// # Errors
/// Why it could not begin. When it is another's fault that the run did not take place, there is no report.
pub(crate) fn run(plan: WorkerPlan, channels: &WorkerChannels) -> Result<Option<WorkerReport>, Failure> {
    let _farewell = Farewell(&channels.messages);
    Worker::open(plan).map(|mut worker| {
        let (number, shares) = (worker.number, worker.driver.queues().report());
        let _ = channels.messages.send(Message::Ready { number, thread: core::thread_id(), shares });
        let Ok(timeline) = channels.start.recv() else {
            worker.close();
            return None;
        };
        let failure = worker.work(timeline, channels).err();
        if failure.is_some() {
            channels.abort.store(true, Ordering::Relaxed);
        }
        let shares = worker.driver.queues().report();
        let stages = worker.stages();
        worker.close();
        let cpu = worker.cpu_to.unwrap_or_else(core::thread_time).saturating_sub(worker.cpu_from);
        let engine = worker.driver.ring().engine_name();
        Some(WorkerReport {
            jobs: worker.jobs,
            cpu,
            engine,
            throughput: worker.throughput,
            latency_map: worker.latency_map,
            shares,
            stages,
            failure,
        })
    })
}

/// Sends `Gone` when it is dropped, also after a panic: the other workers would wait otherwise.
struct Farewell<'a>(&'a Sender<Message>);

impl Drop for Farewell<'_> {
    fn drop(&mut self) {
        let _ = self.0.send(Message::Gone);
    }
}

struct Worker {
    number: usize,
    /// With each command goes the job it is of.
    driver: Driver<PathQueues, (usize, Io)>,
    jobs: Vec<Job>,
    first_job: usize,
    buffers: Vec<Buffer>,
    random: Random,
    nsid: u32,
    block_bytes: u32,
    unit_bytes: u32,
    throughput: Throughput,
    latency_map: LatencyMap,
    cpu_from: Duration,
    cpu_to: Option<Duration>,
    /// Time of commands by stage at the start of counting, by path.
    stages_from: Vec<StageLatencies>,
    stages_to: Option<Vec<StageLatencies>>,
}

impl Worker {
    /// Opens the ring and the queues, and waits until the queues are live.
    fn open(plan: WorkerPlan) -> Result<Self, Failure> {
        // Before anything is allocated, so that the memory is near the processor too.
        if !plan.cpus.is_empty()
            && let Err(error) = core::keep_on(&plan.cpus)
        {
            tracing::warn!(%error, worker = plan.number, "cannot set the CPU affinity of a worker");
        }
        let system = |error| Failure::failed(format!("cannot set up io_uring or epoll: {error}"));
        let mut ring = Ring::new(plan.ring).map_err(system)?;
        let (number, workers) = (plan.number as u16, plan.workers as u16);
        let queues = PathQueues::open(&plan.paths, &mut ring, 0, number, workers, plan.depth);
        let mut worker = Self {
            number: plan.number,
            driver: Driver::new(ring, queues, RECEIVE_LENGTH),
            jobs: plan.jobs,
            first_job: 0,
            buffers: Vec::new(),
            random: Random::new(plan.seed),
            nsid: plan.nsid,
            block_bytes: plan.block_bytes,
            unit_bytes: plan.unit_bytes,
            throughput: Throughput::default(),
            latency_map: LatencyMap::default(),
            cpu_from: Duration::ZERO,
            cpu_to: None,
            stages_from: Vec::new(),
            stages_to: None,
        };
        while !worker.driver.queues().is_ready() || !worker.driver.queues().is_settled() {
            worker.driver.flush();
            worker.turn(STOP_LATENCY)?;
            if let Some(failure) = worker.lost() {
                worker.close();
                return Err(failure);
            }
        }
        worker.make_buffers(plan.depth)?;
        Ok(worker)
    }

    /// Makes the buffers of all commands that can be outstanding, before anything is counted: those of deep queues take seconds.
    fn make_buffers(&mut self, depth: usize) -> Result<(), Failure> {
        for made in 1..=depth.min(self.driver.free_slots()) {
            let buffer = self.new_buffer();
            self.buffers.push(buffer);
            if made.is_multiple_of(BUFFERS_AT_ONCE) {
                self.turn(Duration::ZERO)?;
            }
        }
        Ok(())
    }

    /// Does everything until all jobs are done.
    fn work(&mut self, timeline: Timeline, channels: &WorkerChannels) -> Result<(), Broken> {
        let mut clock =
            Clock { timeline, counting: false, finished: false, progress_at: self.driver.ring().now() };
        loop {
            let now = self.driver.ring().now();
            self.completions(now)?;
            if let Some(failure) = self.lost() {
                return Err(Broken::Connection(failure));
            }
            self.keep_time(&mut clock, now, channels);
            // Empty histograms and reports of progress take up to milliseconds, which are not the next commands' own.
            let now = self.driver.now();
            let (wake_at, done) = self.submit(now);
            self.driver.flush();
            if done {
                self.end_counting_cpu(channels, &clock);
                return Ok(());
            }
            let until = wake_at.into_iter().fold(clock.next(), Moment::min);
            self.turn(until.since(now).min(STOP_LATENCY)).map_err(Broken::Command)?;
        }
    }

    /// Waits for news until `timeout` at most, and lets the queues have it.
    fn turn(&mut self, timeout: Duration) -> Result<(), Failure> {
        let outcome = self.driver.turn(Some(timeout));
        outcome.map_err(|error| Failure::failed(format!("waiting for I/O failed: {error}")))
    }

    /// Why there is no path to the target left, if there is none.
    fn lost(&self) -> Option<Failure> {
        self.driver.queues().error().map(InitiatorError::to_string).map(Failure::failed)
    }

    /// Hands all completions to their jobs. Where no path is left, what came before its end counts.
    fn completions(&mut self, now: Moment) -> Result<(), Broken> {
        let mut outcome = Ok(());
        while let Some(((job, io), ended)) = self.driver.pop() {
            let one = self.complete(job, &io, ended, now);
            outcome = outcome.and(one);
        }
        outcome
    }

    fn complete(&mut self, job: usize, io: &Io, ended: Ended, now: Moment) -> Result<(), Broken> {
        let completion = match ended.answer() {
            Ok(completion) => completion,
            Err(lost) => return Err(Broken::Connection(Failure::failed(lost.error.to_string()))),
        };
        let data = completion.data.as_deref().unwrap_or_default();
        if completion.status.is_success() && self.jobs[job].is_counting() {
            self.throughput.add(io.operation, data.len() as u64, now);
            if io.operation != Operation::Flush {
                self.latency_map.add(io.latency_ns(now.0), now);
            }
        }
        let done = self.jobs[job].complete(io, completion.status, data, now.0);
        self.buffers.extend(completion.data);
        done.map_err(Broken::Command)
    }

    /// Sends what the jobs want and the queues take. Says when a job wants to be asked again, and whether all are
    /// done.
    fn submit(&mut self, now: Moment) -> (Option<Moment>, bool) {
        let mut wake_at = None;
        let mut done = 0;
        let jobs = self.jobs.len();
        // Where jobs share a queue that is too short for all, each is first in turn.
        self.first_job = (self.first_job + 1) % jobs;
        for turn in 0..jobs {
            let job = (self.first_job + turn) % jobs;
            while self.driver.free_slots() > 0 {
                match self.jobs[job].next(now.0) {
                    Next::Io(io) => self.send(job, io),
                    Next::At(at) => {
                        wake_at = Some(wake_at.map_or(Moment(at), |wake_at: Moment| wake_at.min(Moment(at))));
                        break;
                    }
                    Next::Completions => break,
                    Next::Done => {
                        done += 1;
                        break;
                    }
                }
            }
        }
        (wake_at, done == jobs)
    }

    fn send(&mut self, job: usize, io: Io) {
        let start = io.position / u64::from(self.unit_bytes);
        let blocks = self.block_bytes / self.unit_bytes;
        let command = command(io.operation, start, blocks, self.jobs[job].forces_unit_access());
        let data = match io.operation {
            Operation::Read => Data::Receive(self.take_buffer()),
            Operation::Write => {
                let mut buffer = self.take_buffer();
                self.jobs[job].fill(&io, &mut buffer);
                Data::Send(buffer)
            }
            Operation::Flush => Data::None,
        };
        self.driver.submit(command.encode(self.nsid), data, (job, io));
    }

    /// Returns a used buffer, or a new one.
    fn take_buffer(&mut self) -> Buffer {
        self.buffers.pop().unwrap_or_else(|| self.new_buffer())
    }

    /// A buffer full of noise, so that nothing in between can compress it.
    fn new_buffer(&mut self) -> Buffer {
        let mut buffer = Buffer::zeroed(self.block_bytes as usize);
        self.random.fill(&mut buffer);
        buffer
    }

    /// Begins and ends counting on time, reports progress, and abandons the jobs on request.
    fn keep_time(&mut self, clock: &mut Clock, now: Moment, channels: &WorkerChannels) {
        if !clock.counting && now >= clock.timeline.count_from {
            clock.counting = true;
            self.cpu_from = core::thread_time();
            self.stages_from = self.driver.queues().stages();
            self.jobs.iter_mut().for_each(|job| job.begin_counting(now.0));
            self.throughput = Throughput::from(now);
            self.latency_map = LatencyMap::from(now);
            let _ = channels.messages.send(Message::Counting);
        }
        if !clock.finished && clock.timeline.end.is_some_and(|end| now >= end) {
            clock.finished = true;
            self.jobs.iter_mut().for_each(Job::finish);
        }
        if channels.stop.load(Ordering::Relaxed) || channels.abort.load(Ordering::Relaxed) {
            self.jobs.iter_mut().for_each(Job::abandon);
        }
        self.end_counting_cpu(channels, clock);
        if now >= clock.progress_at {
            clock.progress_at = now.after(PROGRESS_INTERVAL);
            let mut total = Tally::default();
            self.jobs.iter().for_each(|job| total.merge(&job.tallies.total()));
            let read_back = self.jobs.iter().map(|job| job.verified.read_back).sum();
            let number = self.number;
            let (total, shares) = (Box::new(total), self.driver.queues().report());
            let waited_ns = self.driver.ring().waited().as_nanos() as u64;
            let waited = Waited { at_ns: now.0, waited_ns };
            let progress = Message::Progress { number, total, read_back, shares, waited };
            let _ = channels.messages.send(progress);
        }
    }

    fn end_counting_cpu(&mut self, channels: &WorkerChannels, clock: &Clock) {
        if clock.counting && self.cpu_to.is_none() && self.jobs.iter().all(Job::is_counted) {
            self.cpu_to = Some(core::thread_time());
            self.stages_to = Some(self.driver.queues().stages());
            let _ = channels.messages.send(Message::Counted);
        }
    }

    /// Returns the time of commands by stage while counting; empty if counting has not begun.
    fn stages(&self) -> Vec<StageLatencies> {
        let to = self.stages_to.clone().unwrap_or_else(|| self.driver.queues().stages());
        self.stages_from.iter().zip(&to).map(|(from, to)| to.since(from)).collect()
    }

    fn close(&mut self) {
        self.driver.close();
    }
}

/// Due times of a worker's periodic actions.
struct Clock {
    timeline: Timeline,
    counting: bool,
    finished: bool,
    progress_at: Moment,
}

impl Clock {
    /// The next moment at which `keep_time` has something to do.
    fn next(&self) -> Moment {
        let mut next = self.progress_at;
        if !self.counting {
            next = next.min(self.timeline.count_from);
        }
        match self.timeline.end {
            Some(end) if !self.finished => next.min(end),
            _ => next,
        }
    }
}

/// The command of an operation on some blocks; only writes have Force Unit Access.
const fn command(operation: Operation, start: u64, blocks: u32, force_unit_access: bool) -> IoCommand {
    match operation {
        Operation::Read => IoCommand::Read { start, blocks, force_unit_access: false },
        Operation::Write => IoCommand::Write { start, blocks, force_unit_access },
        Operation::Flush => IoCommand::Flush,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_alone_have_force_unit_access() {
        let write = |force_unit_access| IoCommand::Write { start: 8, blocks: 2, force_unit_access };
        assert_eq!(command(Operation::Write, 8, 2, true), write(true));
        assert_eq!(command(Operation::Write, 8, 2, false), write(false));
        let read = IoCommand::Read { start: 8, blocks: 2, force_unit_access: false };
        assert_eq!(command(Operation::Read, 8, 2, true), read);
        assert_eq!(command(Operation::Flush, 0, 0, true), IoCommand::Flush);
    }
}
