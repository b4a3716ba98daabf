//! A whole run: spreads jobs and queues over workers, starts them together, follows them, and adds up what they
//! found. The commands' own work is the workers' and jobs'.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use chart::units;
use engine::initiator::{PathShare, PathStatus, Paths};
use engine::ring::{self, Ring, RingOptions};

use super::histogram::{Tallies, Tally};
use super::job::{Job, Verified};
use super::latency_map::{LatencyGrid, LatencyMap};
use super::matching::Placements;
use super::path_view::PathView;
use super::progress::Progress;
use super::queue_file::{Share, ToldQueue};
use super::state::{Record, Recorder};
use super::throughput::{Intervals, Throughput};
use super::worker::{self, Broken, Lines, Message, Timeline, WorkerPlan, WorkerReport};
use crate::config::workload::Fitted;
use crate::failure::Failure;
use crate::report::paths::PathReport;
use crate::top::initiator::rates::{Phase, Sample};
use crate::top::initiator::watch::About;

/// What to run, and where.
pub(crate) struct Run<'a> {
    pub(crate) paths: &'a Arc<Paths>,
    pub(crate) nsid: u32,
    pub(crate) fitted: &'a Fitted,
    pub(crate) ring: RingOptions,
    /// Marks this run's blocks.
    pub(crate) writer: u64,
    pub(crate) recorder: Option<Arc<Recorder>>,
    /// Write nothing, and check against this.
    pub(crate) record: Option<&'a Record>,
    /// Where its queues go; the system decides when absent.
    pub(crate) placements: Option<&'a Placements>,
    /// Somebody wants it to end.
    pub(crate) stop: Arc<AtomicBool>,
    /// No progress on stderr.
    pub(crate) quiet: bool,
    /// Progress on all of the terminal, under this name.
    pub(crate) top: Option<String>,
    /// The processor time of the target, where it is in this process.
    pub(crate) target_cpu: Option<&'a dyn Fn() -> Duration>,
}

/// How it went.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) tallies: Tallies,
    /// Time that was counted.
    pub(crate) elapsed: Duration,
    /// Processor time of the workers while counting, and of the target where it is known.
    pub(crate) cpu: Duration,
    pub(crate) target_cpu: Option<Duration>,
    pub(crate) workers: usize,
    /// Queues of each path.
    pub(crate) queues: usize,
    /// Entries of each queue as the controller allowed them.
    pub(crate) queue_entries: u16,
    pub(crate) engine: &'static str,
    pub(crate) intervals: Intervals,
    /// Reads and writes by time and latency.
    pub(crate) latency_grid: LatencyGrid,
    /// Each path, and what each worker did on it.
    pub(crate) paths: Vec<(PathStatus, Vec<PathShare>)>,
    pub(crate) verified: Option<Verified>,
    pub(crate) interrupted: bool,
    /// What ended it early.
    pub(crate) failure: Option<Failure>,
    /// That was the connection.
    pub(crate) connection_lost: bool,
}

impl Run<'_> {
    /// Runs it.
    ///
    /// # Errors
    /// When it could not begin. A run that ended early has an outcome with a failure in it.
    pub(crate) fn run(&self) -> Result<Outcome, Failure> {
        let granted = self.paths.controllers().iter().map(|controller| controller.io_queues()).min();
        let queues = usize::from(granted.unwrap_or(0));
        if queues == 0 {
            return Err(Failure::failed("the controller granted no I/O queue"));
        }
        let progress = self.progress()?;
        let mut workers = self.start(self.plans(queues));
        self.follow(&mut workers, progress);
        let mut reports = Vec::new();
        let mut failure = None;
        for thread in workers.threads {
            match thread.join() {
                Ok(Ok(report)) => reports.extend(report),
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(_) => return Err(Failure::failed("a worker panicked; this is a bug")),
            }
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        self.add_up(reports, queues, workers.target_cpu)
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

    fn start(&self, plans: Vec<WorkerPlan>) -> Workers {
        let (messages, incoming) = channel();
        let abort = Arc::new(AtomicBool::new(false));
        let mut workers = Workers { incoming, starts: Vec::new(), threads: Vec::new(), target_cpu: None };
        for plan in plans {
            let (start, begin) = channel();
            let lines = Lines {
                messages: messages.clone(),
                start: begin,
                stop: self.stop.clone(),
                abort: abort.clone(),
            };
            workers.starts.push(start);
            workers.threads.push(std::thread::spawn(move || worker::run(plan, &lines)));
        }
        workers
    }

    /// How it is shown how far the run is.
    fn progress(&self) -> Result<Progress, Failure> {
        let workload = &self.fitted.workload;
        let length =
            workload.runtime.filter(|_| self.record.is_none()).map(|runtime| runtime + workload.ramp);
        let label = if self.record.is_some() { "check" } else { workload.kind() };
        let mut progress = Progress::new(label, length, self.quiet);
        if let Some(name) = self.top.as_ref().filter(|_| !self.quiet) {
            let failed = |error| Failure::failed(format!("cannot make a ring for the I/O: {error}"));
            // The workers choose alike; theirs are not there yet.
            let engine = Ring::new(self.ring).map_err(failed)?.engine_name();
            let (jobs, depth) = (units::plural(workload.jobs.into(), "job"), workload.depth);
            let policy = match self.paths.status().len() {
                2.. => format!(", {}", self.paths.policy()),
                _ => String::new(),
            };
            progress.fill_screen(About {
                workload: format!("{label} {}", units::bytes(workload.block_bytes.into())),
                target: format!("{name} namespace {}", self.nsid),
                means: format!("{jobs} × {depth}, {engine}{policy}"),
                length,
            })?;
        }
        Ok(progress)
    }

    /// Starts the workers once all are ready, and shows how far they are until all are gone.
    fn follow(&self, workers: &mut Workers, mut progress: Progress) {
        let count = workers.threads.len();
        let mut seen = Seen::new(count);
        let share = Share::new();
        while seen.gone < count {
            progress.turn(&self.stop);
            // Every worker says when it goes, so this ends.
            let message = match workers.hear(progress.look_interval()) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            match message {
                Message::Ready { number, thread, shares } => {
                    seen.ready += 1;
                    (seen.threads[number], seen.shares[number]) = (thread, shares);
                    if seen.ready == count {
                        share.tell(self.told(&seen));
                        workers.begin(self.timeline());
                        if let Some(screen) = progress.screen() {
                            screen.begin();
                        }
                    }
                }
                Message::Gone => {
                    seen.gone += 1;
                    if seen.ready < count {
                        workers.starts.clear();
                    }
                }
                Message::Counting => {
                    seen.counting_since.get_or_insert_with(Instant::now);
                    if seen.cpu_from.is_none() {
                        seen.cpu_from = self.target_cpu.map(|cpu| cpu());
                    }
                }
                Message::Counted => {
                    seen.counted += 1;
                    if seen.counted == count {
                        seen.counted_at = Some(Instant::now());
                        let since = |from| self.target_cpu.map(|cpu| cpu().saturating_sub(from));
                        workers.target_cpu = seen.cpu_from.and_then(since);
                    }
                }
                Message::Progress { number, total, read_back, shares } => {
                    seen.shares[number] = shares;
                    // Once a second is enough for connections that come and go.
                    if number == 0 {
                        share.tell(self.told(&seen));
                    }
                    seen.show(&mut progress, number, *total, read_back, &self.paths.status());
                }
            }
        }
    }

    /// What other programs learn about the queues.
    fn told(&self, seen: &Seen) -> Vec<ToldQueue> {
        let nqn = self.paths.subsystem_nqn();
        let status = self.paths.status();
        let threads = seen.threads.iter().zip(&seen.shares);
        threads.flat_map(|(thread, shares)| ToldQueue::of_thread(nqn, *thread, &status, shares)).collect()
    }

    fn timeline(&self) -> Timeline {
        let count_from = ring::now().after(self.fitted.workload.ramp);
        Timeline { count_from, end: self.fitted.workload.runtime.map(|runtime| count_from.after(runtime)) }
    }

    fn add_up(
        &self,
        reports: Vec<WorkerReport>,
        queues: usize,
        target_cpu: Option<Duration>,
    ) -> Result<Outcome, Failure> {
        let checks = self.fitted.workload.verify;
        let mut outcome = Outcome {
            tallies: Tallies::default(),
            elapsed: Duration::ZERO,
            cpu: reports.iter().map(|report| report.cpu).sum(),
            target_cpu,
            workers: reports.len(),
            queues,
            queue_entries: self.paths.controllers().first().map_or(0, |first| first.queue_options(1).entries),
            engine: reports.first().map_or("", |report| report.engine),
            intervals: Throughput::sum(
                &reports.iter().map(|report| report.throughput.clone()).collect::<Vec<_>>(),
            ),
            latency_grid: LatencyMap::sum(
                &reports.iter().map(|report| report.latency_map.clone()).collect::<Vec<_>>(),
            ),
            paths: by_path(&self.paths.status(), &reports.iter().map(|report| &report.shares)),
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

/// Each path with what all workers say of it.
fn by_path<'a>(
    paths: &[PathStatus],
    workers: &(impl Iterator<Item = &'a Vec<PathShare>> + Clone),
) -> Vec<(PathStatus, Vec<PathShare>)> {
    let shares = |at: usize| workers.clone().filter_map(|shares| shares.get(at).cloned()).collect();
    paths.iter().enumerate().map(|(at, status)| (status.clone(), shares(at))).collect()
}

/// The workers that run.
struct Workers {
    incoming: Receiver<Message>,
    /// Dropped, they tell a worker that the run does not take place.
    starts: Vec<Sender<Timeline>>,
    threads: Vec<JoinHandle<Result<Option<WorkerReport>, Failure>>>,
    target_cpu: Option<Duration>,
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

/// What has been heard of the workers.
struct Seen {
    ready: usize,
    gone: usize,
    /// When the first worker began to count.
    counting_since: Option<Instant>,
    counted: usize,
    /// When the last one had counted all.
    counted_at: Option<Instant>,
    cpu_from: Option<Duration>,
    /// The last word of each worker, and whether it is news.
    totals: Vec<Tally>,
    read_back: Vec<u64>,
    shares: Vec<Vec<PathShare>>,
    threads: Vec<i32>,
    view: PathView,
    news: usize,
    shown: Tally,
    shown_at: Option<Instant>,
}

impl Seen {
    fn new(workers: usize) -> Self {
        Self {
            ready: 0,
            gone: 0,
            counting_since: None,
            counted: 0,
            counted_at: None,
            cpu_from: None,
            totals: vec![Tally::default(); workers],
            read_back: vec![0; workers],
            shares: vec![Vec::new(); workers],
            threads: vec![0; workers],
            view: PathView::default(),
            news: 0,
            shown: Tally::default(),
            shown_at: None,
        }
    }

    /// Shows progress each time all workers that are left have told theirs.
    fn show(
        &mut self,
        progress: &mut Progress,
        number: usize,
        total: Tally,
        read_back: u64,
        paths: &[PathStatus],
    ) {
        self.totals[number] = total;
        self.read_back[number] = read_back;
        self.news += 1;
        if self.news < self.totals.len() - self.gone {
            return;
        }
        self.news = 0;
        let paths_and_shares = by_path(paths, &self.shares.iter());
        self.view.news(paths).iter().for_each(|line| progress.news(line));
        if let Some(screen) = progress.screen() {
            screen.hear(self.sample(screen.now(), paths));
            return;
        }
        if self.counting_since.is_none() {
            progress.ramping();
            return;
        }
        let read_back: u64 = self.read_back.iter().sum();
        if read_back > 0 {
            progress.reading_back(read_back);
            return;
        }
        let mut total = Tally::default();
        self.totals.iter().for_each(|tally| total.merge(tally));
        let now = Instant::now();
        // Counting starts anew after the ramp, and then there is nothing to compare with for a second.
        if let (Some(shown_at), Some(last)) = (self.shown_at, total.since(&self.shown)) {
            let details = match paths.len() {
                2.. if progress.is_watched() => self.view.lines(&PathReport::all(&paths_and_shares)),
                _ => Vec::new(),
            };
            progress.working(&last, now - shown_at, &details);
        }
        self.shown = total;
        self.shown_at = Some(now);
    }

    /// All that was told last, for the screen.
    fn sample(&self, at: Duration, paths: &[PathStatus]) -> Sample {
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
            paths: paths.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_waits_for_all_workers_that_are_left() {
        let mut seen = Seen { counting_since: Some(Instant::now()), ..Seen::new(2) };
        let mut progress = Progress::new("read", None, true);
        let mut tally = Tally::default();
        tally.add(4096, 1000);
        seen.show(&mut progress, 0, tally.clone(), 0, &[]);
        assert_eq!((seen.news, seen.shown.count()), (1, 0));
        seen.show(&mut progress, 1, tally.clone(), 0, &[]);
        assert_eq!((seen.news, seen.shown.count()), (0, 2));
        seen.gone = 1;
        tally.add(4096, 1000);
        seen.show(&mut progress, 1, tally, 0, &[]);
        assert_eq!(seen.shown.count(), 3);
    }
}
