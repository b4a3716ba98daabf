//! A whole run: spreads jobs and queues over workers, starts them together, says how far they are, and adds up what they
//! found. The commands' own work is the workers' and jobs', and showing how far they are is its caller's.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use engine::initiator::{PathShare, PathStatus, Paths, StageLatencies};
use engine::ring::{self, RingOptions};
use topology::Waited;

use super::histogram::{Tallies, Tally};
use super::job::{Job, Verified};
use super::latency_map::{LatencyGrid, LatencyMap};
use super::matching::Placements;
use super::queue_file::{ListedQueue, Share};
use super::sample::{Phase, Sample, by_path};
use super::state::{Record, Recorder};
use super::target_stages::{TargetCounters, TargetStages};
use super::throughput::{Intervals, Throughput};
use super::worker::{self, Broken, Message, Timeline, WorkerChannels, WorkerPlan, WorkerReport};
use crate::failure::Failure;
use crate::workload::Fitted;

/// Plan of a run.
pub struct Run<'a> {
    pub paths: &'a Arc<Paths>,
    pub nsid: u32,
    pub fitted: &'a Fitted,
    pub ring: RingOptions,
    /// Marks this run's blocks.
    pub writer: u64,
    pub recorder: Option<Arc<Recorder>>,
    /// Write nothing, and check against this.
    pub record: Option<&'a Record>,
    /// Placement of the queues; `None` leaves it to the system.
    pub placements: Option<&'a Placements>,
    /// Set when the run must end.
    pub stop: Arc<AtomicBool>,
    /// The processor time of the target, where it is in this process.
    pub target_cpu: Option<&'a dyn Fn() -> Duration>,
}

/// Result of a run.
#[derive(Debug)]
pub struct Outcome {
    pub tallies: Tallies,
    /// Time that was counted.
    pub elapsed: Duration,
    /// Processor time of the workers while counting, and of the target where it is known.
    pub cpu: Duration,
    pub target_cpu: Option<Duration>,
    pub workers: usize,
    /// Queues of each path.
    pub queues: usize,
    /// Entries of each queue as the controller allowed them.
    pub queue_entries: u16,
    pub engine: &'static str,
    pub(crate) intervals: Intervals,
    /// Reads and writes by time and latency.
    pub(crate) latency_grid: LatencyGrid,
    /// Each path, and what each worker did on it.
    pub paths: Vec<(PathStatus, Vec<PathShare>)>,
    /// Time of the commands on each path by stage, while counting.
    pub stages: Vec<StageLatencies>,
    /// Time by stage in the target, as it reports it.
    pub target_stages: Option<TargetStages>,
    pub verified: Option<Verified>,
    pub interrupted: bool,
    /// Error that ended the run early.
    pub failure: Option<Failure>,
    /// True if that was the loss of the connection.
    pub connection_lost: bool,
}

impl Run<'_> {
    /// Runs it, and says nothing until it is over.
    ///
    /// # Errors
    /// When it could not begin. A run that ended early has an outcome with a failure in it.
    pub fn run(&self) -> Result<Outcome, Failure> {
        let mut running = self.start()?;
        while running.next(None).is_some() {}
        running.end()
    }

    /// Starts it.
    ///
    /// # Errors
    /// When it could not begin.
    pub fn start(&self) -> Result<Running<'_>, Failure> {
        let controllers = self.paths.controllers();
        let granted = controllers.iter().map(|controller| controller.io_queues()).min();
        let queues = usize::from(granted.unwrap_or(0));
        if queues == 0 {
            return Err(Failure::failed("the controller granted no I/O queue"));
        }
        // At the run's end the controller may be gone, and with it what it allowed.
        let queue_entries = controllers.first().map_or(0, |first| first.queue_options(1).entries);
        let workers = self.start_workers(self.plans(queues));
        let heard = Heard::new(workers.threads.len());
        Ok(Running {
            run: self,
            queues,
            queue_entries,
            began: Instant::now(),
            workers,
            heard,
            share: Share::new(),
        })
    }

    /// Job j has the queues j, j + jobs, ... of each path; where queues are fewer, queue q has the jobs q, q + queues, ...
    fn plans(&self, queues: usize) -> Vec<WorkerPlan> {
        let jobs = self.fitted.workload.jobs as usize;
        let workers = queues.min(jobs);
        let plan = |number: usize| WorkerPlan {
            number,
            workers,
            paths: self.paths.clone(),
            depth: (number..jobs).step_by(workers).count() * self.fitted.workload.depth as usize,
            jobs: (number..jobs).step_by(workers).map(|job| self.job(job as u32)).collect(),
            ring: self.ring,
            nsid: self.nsid,
            block_bytes: self.fitted.workload.block_bytes,
            unit_bytes: self.fitted.unit_bytes,
            seed: self.fitted.workload.seed.wrapping_add(number as u64),
            cpus: self.placements.map(|placed| placed.cpus_of_worker(number, workers)).unwrap_or_default(),
        };
        (0..workers).map(plan).collect()
    }

    fn job(&self, number: u32) -> Job {
        match self.record {
            Some(record) => Job::checking(self.fitted, number, |first, slots| record.ledger(first, slots)),
            None => Job::new(self.fitted, number, self.writer, self.recorder.clone()),
        }
    }

    fn start_workers(&self, plans: Vec<WorkerPlan>) -> Workers {
        let (messages, incoming) = channel();
        let abort = Arc::new(AtomicBool::new(false));
        let mut workers = Workers { incoming, starts: Vec::new(), threads: Vec::new() };
        for plan in plans {
            let (start, begin) = channel();
            let channels = WorkerChannels {
                messages: messages.clone(),
                start: begin,
                stop: self.stop.clone(),
                abort: abort.clone(),
            };
            workers.starts.push(start);
            workers.threads.push(std::thread::spawn(move || worker::run(plan, &channels)));
        }
        workers
    }

    fn timeline(&self) -> Timeline {
        let count_from = ring::now().after(self.fitted.workload.ramp);
        Timeline { count_from, end: self.fitted.workload.runtime.map(|runtime| count_from.after(runtime)) }
    }

    fn add_up(
        &self,
        reports: Vec<WorkerReport>,
        (queues, queue_entries): (usize, u16),
        heard: &Heard,
    ) -> Result<Outcome, Failure> {
        let checks = self.fitted.workload.verify;
        let mut outcome = Outcome {
            tallies: Tallies::default(),
            elapsed: Duration::ZERO,
            cpu: reports.iter().map(|report| report.cpu).sum(),
            target_cpu: heard.target_cpu,
            workers: reports.len(),
            queues,
            queue_entries,
            engine: reports.first().map_or("", |report| report.engine),
            intervals: Throughput::sum(
                &reports.iter().map(|report| report.throughput.clone()).collect::<Vec<_>>(),
            ),
            latency_grid: LatencyMap::sum(
                &reports.iter().map(|report| report.latency_map.clone()).collect::<Vec<_>>(),
            ),
            paths: by_path(&self.paths.status(), &reports.iter().map(|report| &report.shares)),
            stages: sum_of_stages(&reports),
            target_stages: heard.target_stages,
            verified: checks.then(Verified::default),
            interrupted: self.stop.load(std::sync::atomic::Ordering::Relaxed),
            failure: None,
            connection_lost: false,
        };
        let mut window = (u64::MAX, 0);
        let mut submitted = Vec::new();
        for report in reports {
            for job in &report.jobs {
                outcome.tallies.merge(&job.tallies);
                if let Some(verified) = &mut outcome.verified {
                    verified.merge(&job.verified);
                }
                if let Some(from) = job.counted_ns.0 {
                    window = (window.0.min(from), window.1.max(job.counted_ns.1.unwrap_or(ring::now().0)));
                }
                if self.recorder.is_some() {
                    submitted.extend(job.submitted());
                }
            }
            match report.failure {
                Some(Broken::Connection(failure)) => {
                    outcome.connection_lost = true;
                    outcome.failure.get_or_insert(failure);
                }
                Some(Broken::Command(failure)) => {
                    outcome.failure.get_or_insert(failure);
                }
                None => {}
            }
        }
        outcome.elapsed = Duration::from_nanos(window.1.saturating_sub(window.0));
        if let Some(recorder) = &self.recorder {
            recorder.end(submitted.into_iter())?;
        }
        Ok(outcome)
    }
}

/// Returns the time of all workers' commands by stage, for each path.
fn sum_of_stages(reports: &[WorkerReport]) -> Vec<StageLatencies> {
    let paths = reports.iter().map(|report| report.stages.len()).max().unwrap_or(0);
    let mut sums = vec![StageLatencies::default(); paths];
    for report in reports {
        sums.iter_mut().zip(&report.stages).for_each(|(sum, stages)| sum.merge(stages));
    }
    sums
}

/// Running workload. If it is dropped before its end, it continues unobserved.
pub struct Running<'a> {
    run: &'a Run<'a>,
    /// Queues of each path, and entries of each queue.
    queues: usize,
    queue_entries: u16,
    began: Instant,
    workers: Workers,
    heard: Heard,
    share: Share,
}

/// News of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// No news.
    Silence,
    /// All workers begin.
    Begun,
    /// Progress of all remaining workers has arrived.
    Progress,
}

impl Running<'_> {
    /// Waits until there is something to say of the run, or for this time; `None` once all workers are gone. They begin once
    /// all are ready, which is found out here.
    pub fn next(&mut self, patience: Option<Duration>) -> Option<Step> {
        let count = self.workers.threads.len();
        if self.heard.gone == count {
            return None;
        }
        // Every worker says when it goes, so this ends.
        match self.workers.hear(patience) {
            Ok(message) => Some(self.hear(message, count)),
            Err(RecvTimeoutError::Timeout) => Some(Step::Silence),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    fn hear(&mut self, message: Message, count: usize) -> Step {
        let heard = &mut self.heard;
        match message {
            Message::Ready { number, thread, shares } => {
                heard.ready += 1;
                (heard.threads[number], heard.shares[number]) = (thread, shares);
                if heard.ready == count {
                    self.tell();
                    self.workers.begin(self.run.timeline());
                    return Step::Begun;
                }
            }
            Message::Gone => {
                heard.gone += 1;
                if heard.ready < count {
                    self.workers.starts.clear();
                }
            }
            Message::Counting => {
                heard.counting_since.get_or_insert_with(Instant::now);
                if heard.cpu_from.is_none() {
                    heard.cpu_from = self.run.target_cpu.map(|cpu| cpu());
                }
                if heard.counting == 0 {
                    heard.stages_from = TargetCounters::read(self.run.paths, self.run.nsid);
                }
                heard.counting += 1;
            }
            Message::Counted => {
                heard.counted += 1;
                if heard.counted == count {
                    heard.counted_at = Some(Instant::now());
                    let since = |from| self.run.target_cpu.map(|cpu| cpu().saturating_sub(from));
                    heard.target_cpu = heard.cpu_from.and_then(since);
                    let from = heard.stages_from.take();
                    heard.target_stages = from
                        .and_then(|from| TargetCounters::read(self.run.paths, self.run.nsid)?.since(&from));
                }
            }
            Message::Progress { number, total, read_back, shares } => {
                heard.shares[number] = shares;
                if heard.progress(number, *total, read_back) {
                    return Step::Progress;
                }
            }
            Message::Waited { number, waited } => {
                heard.waited[number] = Some(waited);
                // Once for all workers, with the connections that have come and gone.
                if number == 0 {
                    self.tell();
                }
            }
        }
        Step::Silence
    }

    /// Updates the queue file for other programs.
    fn tell(&mut self) {
        let (paths, heard) = (self.run.paths, &self.heard);
        let (nqn, status) = (paths.subsystem_nqn(), paths.status());
        let threads = heard.threads.iter().zip(&heard.waited).zip(&heard.shares);
        let queues = threads
            .flat_map(|((thread, waited), shares)| {
                ListedQueue::of_thread(nqn, *thread, *waited, &status, shares)
            })
            .collect();
        self.share.tell(queues);
    }

    /// All that the workers have said last.
    pub fn sample(&self) -> Sample {
        self.heard.sample(self.began.elapsed(), self.run.paths.status())
    }

    /// Waits for the end, and returns the result.
    ///
    /// # Errors
    /// Error that kept the run from starting.
    pub fn end(self) -> Result<Outcome, Failure> {
        let mut reports = Vec::new();
        let mut failure = None;
        for thread in self.workers.threads {
            match thread.join() {
                Ok(Ok(report)) => reports.extend(report),
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(_) => return Err(Failure::failed("a worker panicked; this is a bug")),
            }
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        self.run.add_up(reports, (self.queues, self.queue_entries), &self.heard)
    }
}

/// The workers that run.
struct Workers {
    incoming: Receiver<Message>,
    /// Dropped, they tell a worker that the run does not take place.
    starts: Vec<Sender<Timeline>>,
    threads: Vec<JoinHandle<Result<Option<WorkerReport>, Failure>>>,
}

impl Workers {
    /// The next message, or that there was none in this time.
    fn hear(&self, patience: Option<Duration>) -> Result<Message, RecvTimeoutError> {
        match patience {
            Some(patience) => self.incoming.recv_timeout(patience),
            None => self.incoming.recv().map_err(RecvTimeoutError::from),
        }
    }

    fn begin(&self, timeline: Timeline) {
        for start in &self.starts {
            // A worker that has gone says so itself.
            let _ = start.send(timeline);
        }
    }
}

/// State of the workers, from their messages.
struct Heard {
    ready: usize,
    gone: usize,
    /// Time when the first worker began to count.
    counting_since: Option<Instant>,
    counting: usize,
    counted: usize,
    /// Time when the last worker had ended counting.
    counted_at: Option<Instant>,
    cpu_from: Option<Duration>,
    target_cpu: Option<Duration>,
    /// Stages of the target when the first worker began to count, and the difference since then.
    stages_from: Option<TargetCounters>,
    target_stages: Option<TargetStages>,
    /// Last report of each worker, and number of reports since all had reported.
    totals: Vec<Tally>,
    read_back: Vec<u64>,
    shares: Vec<Vec<PathShare>>,
    threads: Vec<i32>,
    /// Time that each worker has waited, once it has reported it.
    waited: Vec<Option<Waited>>,
    news: usize,
}

impl Heard {
    fn new(workers: usize) -> Self {
        Self {
            ready: 0,
            gone: 0,
            counting_since: None,
            counting: 0,
            counted: 0,
            counted_at: None,
            cpu_from: None,
            target_cpu: None,
            stages_from: None,
            target_stages: None,
            totals: vec![Tally::default(); workers],
            read_back: vec![0; workers],
            shares: vec![Vec::new(); workers],
            threads: vec![0; workers],
            waited: vec![None; workers],
            news: 0,
        }
    }

    /// Records a worker's progress. Returns true if all remaining workers have reported since the last time.
    fn progress(&mut self, number: usize, total: Tally, read_back: u64) -> bool {
        self.totals[number] = total;
        self.read_back[number] = read_back;
        self.news += 1;
        let is_complete = self.news >= self.totals.len() - self.gone;
        if is_complete {
            self.news = 0;
        }
        is_complete
    }

    fn sample(&self, at: Duration, paths: Vec<PathStatus>) -> Sample {
        let phase = match (self.counting_since, self.read_back.iter().sum()) {
            (None, _) => Phase::Ramp,
            (Some(_), 0) => Phase::Measuring,
            (Some(_), blocks) => Phase::ReadingBack(blocks),
        };
        Sample {
            at,
            phase,
            measured: self.counting_since.map_or(Duration::ZERO, |since| {
                self.counted_at.unwrap_or_else(Instant::now).saturating_duration_since(since)
            }),
            totals: self.totals.clone(),
            shares: self.shares.clone(),
            paths,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_waits_for_all_workers_that_are_left() {
        let mut heard = Heard { counting_since: Some(Instant::now()), ..Heard::new(2) };
        let mut tally = Tally::default();
        tally.add(4096, 1000);
        assert!(!heard.progress(0, tally.clone(), 0));
        assert!(heard.progress(1, tally.clone(), 0));
        heard.gone = 1;
        tally.add(4096, 1000);
        assert!(heard.progress(1, tally, 0));
        let sample = heard.sample(Duration::ZERO, Vec::new());
        assert_eq!(sample.totals.iter().map(Tally::count).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(sample.phase, Phase::Measuring);
    }
}
