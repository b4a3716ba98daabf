//! Backlogs of the reservation worker: jobs that wait for a cluster, those of one namespace one
//! after the other, beside those of other namespaces. The meaning of a job stays with the worker.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use crate::limits::{
    RESERVATION_BACKLOG_MAX, RESERVATION_BACKLOG_SHARE_MAX, RESERVATION_THREADS_MAX, RESERVATION_WAITING_MAX,
    RESERVATION_WAITING_SHARE_MAX,
};
use crate::ring::Vital;
use crate::ring::channel::{Receiver, Sender, channel};
use crate::ring::thread;
use crate::target::lock::lock;

/// Jobs that are done one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Backlog {
    /// Commands on the namespace with this UUID, and its Reservation Persistence.
    Namespace([u8; 16]),
    /// Changes of Reservation Persistence of all namespaces that a host sees.
    Persistence,
}

/// Waiting jobs, and threads that do them.
struct State<J> {
    /// Jobs with the NQNs of their hosts. A backlog is here from its first job until the last one is
    /// done.
    backlogs: BTreeMap<Backlog, VecDeque<(String, J)>>,
    /// Backlogs that have jobs and no thread. One whose job was done comes behind the others, so
    /// that an image of a silent cluster has a thread for one job at a time.
    ready: VecDeque<Backlog>,
    /// Jobs of each host.
    of_hosts: BTreeMap<String, usize>,
    /// Jobs of all hosts.
    jobs: usize,
    /// Threads, each with a job or about to take one.
    threads: usize,
}

/// Backlogs with a job under way. Dropping them waits until all jobs are done.
pub(super) struct Backlogs<J> {
    state: Arc<Mutex<State<J>>>,
    threads_max: usize,
    work: Arc<dyn Fn(J) + Send + Sync>,
    /// Copies are with the threads.
    is_alive: Option<Sender<()>>,
    ended: Receiver<()>,
}

impl<J> State<J> {
    const fn new() -> Self {
        Self {
            backlogs: BTreeMap::new(),
            ready: VecDeque::new(),
            of_hosts: BTreeMap::new(),
            jobs: 0,
            threads: 0,
        }
    }

    /// True if a further job of this host finds room.
    fn has_room(&self, backlog: Backlog, host: &str) -> bool {
        let jobs = self.backlogs.get(&backlog);
        let of_host = jobs.map_or(0, |jobs| jobs.iter().filter(|(nqn, _)| nqn == host).count());
        of_host < RESERVATION_BACKLOG_SHARE_MAX
            && jobs.map_or(0, VecDeque::len) < RESERVATION_BACKLOG_MAX
            && self.of_hosts.get(host).is_none_or(|jobs| *jobs < RESERVATION_WAITING_SHARE_MAX)
            && self.jobs < RESERVATION_WAITING_MAX
    }

    /// Adds a job. Returns true if a thread is to be started for it.
    fn add(&mut self, backlog: Backlog, host: String, job: J, threads_max: usize) -> bool {
        *self.of_hosts.entry(host.clone()).or_default() += 1;
        self.jobs += 1;
        let is_new = !self.backlogs.contains_key(&backlog);
        self.backlogs.entry(backlog).or_default().push_back((host, job));
        if is_new {
            self.ready.push_back(backlog);
        }
        let starts = is_new && self.threads < threads_max;
        self.threads += usize::from(starts);
        starts
    }

    /// Takes the first job of the next backlog. `None` ends the thread.
    fn take(&mut self) -> Option<(Backlog, J)> {
        let job = self.ready.pop_front().and_then(|backlog| {
            let (host, job) = self.backlogs.get_mut(&backlog)?.pop_front()?;
            self.jobs -= 1;
            if let Some(jobs) = self.of_hosts.get_mut(&host) {
                *jobs -= 1;
                if *jobs == 0 {
                    self.of_hosts.remove(&host);
                }
            }
            Some((backlog, job))
        });
        // With the lock: a backlog that comes now has a thread started.
        self.threads -= usize::from(job.is_none());
        job
    }

    /// A job of this backlog is done.
    fn finish(&mut self, backlog: Backlog) {
        if self.backlogs.get(&backlog).is_some_and(VecDeque::is_empty) {
            self.backlogs.remove(&backlog);
        } else {
            self.ready.push_back(backlog);
        }
    }
}

impl<J: Send + 'static> Backlogs<J> {
    /// Creates backlogs, whose jobs are done by `work`.
    pub(super) fn new(work: impl Fn(J) + Send + Sync + 'static) -> Self {
        Self::with_threads(RESERVATION_THREADS_MAX, work)
    }

    /// The same with at most this number of threads.
    fn with_threads(threads_max: usize, work: impl Fn(J) + Send + Sync + 'static) -> Self {
        let (is_alive, ended) = channel();
        let (state, work) = (Arc::new(Mutex::new(State::new())), Arc::new(work));
        Self { state, threads_max, work, is_alive: Some(is_alive), ended }
    }

    /// Has a job of the host with this NQN done after the earlier ones of its backlog. The caller
    /// does not wait for it, unless there is no thread at all.
    ///
    /// # Errors
    /// The job, if there are too many, in its backlog or in all of them, or too many of its host.
    pub(super) fn hand(&self, backlog: Backlog, host: String, job: J) -> Result<(), J> {
        let mut state = lock(&self.state);
        if !state.has_room(backlog, &host) {
            return Err(job);
        }
        let starts = state.add(backlog, host, job, self.threads_max);
        drop(state);
        if starts && !self.start() && self.has_only_caller() {
            serve(&self.state, &*self.work);
        }
        Ok(())
    }

    /// Starts a thread. False if the system has none.
    fn start(&self) -> bool {
        let (state, work, is_alive) = (self.state.clone(), self.work.clone(), self.is_alive.clone());
        let body = move || {
            let _vital = Vital::begin();
            serve(&state, &*work);
            // The channel ends when nothing of the worker's is here.
            drop((state, work));
            drop(is_alive);
        };
        let started = thread::Builder::new().name("reservation".to_owned()).spawn(body);
        if let Err(error) = &started {
            tracing::warn!(%error, "no thread for reservation commands; they wait for those of other namespaces");
        }
        started.is_ok()
    }

    /// Gives up the place of a thread that was not started. True if it is the only one: the caller
    /// has it then.
    fn has_only_caller(&self) -> bool {
        let mut state = lock(&self.state);
        let is_only = state.threads == 1;
        state.threads -= usize::from(!is_only);
        is_only
    }
}

impl<J> Drop for Backlogs<J> {
    fn drop(&mut self) {
        self.is_alive = None;
        // Nothing is sent: the channel ends with the last thread.
        while self.ended.recv().is_ok() {}
    }
}

/// Does the jobs of all backlogs that have no other thread, until none is left.
fn serve<J>(state: &Mutex<State<J>>, work: &dyn Fn(J)) {
    loop {
        let next = lock(state).take();
        let Some((backlog, job)) = next else { return };
        work(job);
        lock(state).finish(backlog);
    }
}

#[cfg(test)]
mod tests {
    use prerequisite::patience;

    use super::*;

    type Task = Box<dyn FnOnce() + Send>;

    /// Backlogs whose jobs report their names; some wait until the gate is open.
    struct Fixture {
        backlogs: Backlogs<Task>,
        gate: Arc<Mutex<()>>,
        report: Sender<String>,
        reports: Receiver<String>,
    }

    impl Fixture {
        fn new() -> Self {
            Self::with_threads(RESERVATION_THREADS_MAX)
        }

        fn with_threads(threads_max: usize) -> Self {
            let (report, reports) = channel();
            let backlogs = Backlogs::with_threads(threads_max, |task: Task| task());
            Self { backlogs, gate: Arc::default(), report, reports }
        }

        fn hand(&self, backlog: Backlog, name: &str, waits: bool) -> Result<(), Task> {
            self.hand_of("nqn.host", backlog, name, waits)
        }

        fn hand_of(&self, host: &str, backlog: Backlog, name: &str, waits: bool) -> Result<(), Task> {
            let (gate, report, name) = (self.gate.clone(), self.report.clone(), name.to_owned());
            let task = move || {
                if waits {
                    drop(lock(&gate));
                }
                let _ = report.send(name);
            };
            self.backlogs.hand(backlog, host.to_owned(), Box::new(task))
        }

        fn next_done(&self) -> String {
            self.reports.recv_timeout(patience()).expect("a job is done")
        }
    }

    const fn namespace(number: usize) -> Backlog {
        Backlog::Namespace((number as u128).to_be_bytes())
    }

    #[test]
    fn a_namespace_that_waits_for_its_cluster_keeps_no_other_and_has_its_jobs_in_order() {
        let fixture = Fixture::new();
        let gate = fixture.gate.clone();
        let closed = lock(&gate);
        assert!(fixture.hand(namespace(1), "first", true).is_ok());
        assert!(fixture.hand(namespace(1), "second", false).is_ok());
        assert!(fixture.hand(namespace(2), "other", false).is_ok());
        assert_eq!(fixture.next_done(), "other");
        assert!(fixture.hand(Backlog::Persistence, "persistence", false).is_ok());
        assert_eq!(fixture.next_done(), "persistence");
        drop(closed);
        let Fixture { backlogs, report, reports, .. } = fixture;
        drop((backlogs, report));
        assert_eq!(reports.iter().collect::<Vec<_>>(), ["first", "second"], "the end waits for both");
    }

    #[test]
    fn a_backlog_has_a_limited_number_of_jobs() {
        let fixture = Fixture::new();
        let gate = fixture.gate.clone();
        let closed = lock(&gate);
        let most = RESERVATION_BACKLOG_MAX;
        let host = |number: &usize| format!("nqn.host-{number}");
        let is_taken = |number: &usize| fixture.hand_of(&host(number), namespace(1), "waits", true).is_ok();
        let taken = (0..most + 2).filter(is_taken).count();
        assert!(taken == most || taken == most + 1, "{taken}: the first waits, or is under way");
        assert!(fixture.hand(namespace(2), "other", false).is_ok());
        assert_eq!(fixture.next_done(), "other");
        drop(closed);
    }

    #[test]
    fn a_host_that_fills_its_share_of_a_backlog_leaves_room_for_another() {
        let fixture = Fixture::new();
        let gate = fixture.gate.clone();
        let closed = lock(&gate);
        let hand = |host: &str| fixture.hand_of(host, namespace(1), host, true);
        let most = RESERVATION_BACKLOG_SHARE_MAX;
        let taken = (0..most + 2).filter(|_| hand("nqn.busy").is_ok()).count();
        assert!(taken == most || taken == most + 1, "{taken}: the first waits, or is under way");
        assert!(hand("nqn.other").is_ok());
        drop(closed);
        let done: Vec<_> = (0..=taken).map(|_| fixture.next_done()).collect();
        assert_eq!(done.last().map(String::as_str), Some("nqn.other"), "in order");
        assert!(hand("nqn.busy").is_ok(), "its share is free again");
        assert_eq!(fixture.next_done(), "nqn.busy");
    }

    #[test]
    fn namespaces_of_a_silent_cluster_keep_neither_the_caller_nor_others() {
        let fixture = Fixture::new();
        let gate = fixture.gate.clone();
        let closed = lock(&gate);
        let (handed, has_handed) = channel();
        let caller = std::thread::spawn(move || {
            for number in 0..RESERVATION_THREADS_MAX - 1 {
                assert!(fixture.hand(namespace(number), "silent", true).is_ok());
            }
            assert!(fixture.hand(namespace(RESERVATION_THREADS_MAX), "other", false).is_ok());
            handed.send(()).unwrap();
            fixture
        });
        has_handed.recv_timeout(patience()).expect("the caller waits for no cluster");
        let fixture = caller.join().unwrap();
        let done = fixture.reports.recv_timeout(patience());
        // Before a failure: the end of the backlogs waits for all jobs.
        drop(closed);
        assert_eq!(done.as_deref(), Ok("other"));
    }

    #[test]
    fn without_a_further_thread_namespaces_take_turns() {
        let fixture = Fixture::with_threads(1);
        let gate = fixture.gate.clone();
        let closed = lock(&gate);
        for (number, name, waits) in [(1, "silent", true), (1, "silent again", true), (2, "other", false)] {
            assert!(fixture.hand(namespace(number), name, waits).is_ok(), "{name}");
        }
        drop(closed);
        let done = [(); 3].map(|()| fixture.next_done());
        assert_eq!(done, ["silent", "other", "silent again"]);
    }

    #[test]
    fn all_backlogs_have_a_limited_number_of_jobs_and_each_host_a_share_of_it() {
        let fixture = Fixture::with_threads(0);
        let hand = |host: usize, number: usize| {
            fixture.hand_of(&format!("nqn.host-{host}"), namespace(number), "waits", false).is_ok()
        };
        let (of_host, of_backlog) = (RESERVATION_WAITING_SHARE_MAX, RESERVATION_BACKLOG_SHARE_MAX);
        let hosts = RESERVATION_WAITING_MAX / of_host;
        for host in 0..hosts {
            let first = host * of_host;
            assert!((first..first + of_host).all(|job| hand(host, job / of_backlog)), "host {host}");
            assert!(!hand(host, RESERVATION_WAITING_MAX), "the share of host {host}");
        }
        assert!(!hand(hosts, RESERVATION_WAITING_MAX), "a further host");
    }
}
