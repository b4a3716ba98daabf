//! Backlogs of the reservation worker: jobs that wait for a cluster, those of one namespace one
//! after the other, beside those of other namespaces. The meaning of a job stays with the worker.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use crate::limits::{RESERVATION_BACKLOG_MAX, RESERVATION_BACKLOG_SHARE_MAX, RESERVATION_BACKLOGS_MAX};
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

/// Waiting jobs, with the NQNs of their hosts. A backlog is here from its first job until none is
/// left, while a thread works for it.
type Waiting<J> = Mutex<BTreeMap<Backlog, VecDeque<(String, J)>>>;

/// Backlogs with a job under way. Dropping them waits until all jobs are done.
pub(super) struct Backlogs<J> {
    waiting: Arc<Waiting<J>>,
    work: Arc<dyn Fn(J) + Send + Sync>,
    /// Copies are with the threads.
    is_alive: Option<Sender<()>>,
    ended: Receiver<()>,
}

impl<J: Send + 'static> Backlogs<J> {
    /// Creates backlogs, whose jobs are done by `work`.
    pub(super) fn new(work: impl Fn(J) + Send + Sync + 'static) -> Self {
        let (is_alive, ended) = channel();
        Self { waiting: Arc::default(), work: Arc::new(work), is_alive: Some(is_alive), ended }
    }

    /// Has a job of the host with this NQN done after the earlier ones of its backlog. The caller
    /// does it itself if there is no thread for a further backlog.
    ///
    /// # Errors
    /// The job, if its backlog has too many, or too many of its host.
    pub(super) fn hand(&self, backlog: Backlog, host: String, job: J) -> Result<(), J> {
        let mut waiting = lock(&self.waiting);
        if let Some(jobs) = waiting.get_mut(&backlog) {
            let of_host = jobs.iter().filter(|(nqn, _)| *nqn == host).count();
            if of_host >= RESERVATION_BACKLOG_SHARE_MAX || jobs.len() >= RESERVATION_BACKLOG_MAX {
                return Err(job);
            }
            jobs.push_back((host, job));
            return Ok(());
        }
        let has_room = waiting.len() < RESERVATION_BACKLOGS_MAX;
        waiting.insert(backlog, VecDeque::from([(host, job)]));
        drop(waiting);
        if !(has_room && self.start(backlog)) {
            serve(&self.waiting, backlog, &*self.work);
        }
        Ok(())
    }

    /// Starts a backlog's thread. False if there is none.
    fn start(&self, backlog: Backlog) -> bool {
        let (waiting, work, is_alive) = (self.waiting.clone(), self.work.clone(), self.is_alive.clone());
        let body = move || {
            let _vital = Vital::begin();
            serve(&waiting, backlog, &*work);
            // The channel ends when nothing of the worker's is here.
            drop((waiting, work));
            drop(is_alive);
        };
        let started = thread::Builder::new().name("reservation".to_owned()).spawn(body);
        if let Err(error) = &started {
            tracing::warn!(%error, "no thread for reservation commands; others wait for this one");
        }
        started.is_ok()
    }
}

impl<J> Drop for Backlogs<J> {
    fn drop(&mut self) {
        self.is_alive = None;
        // Nothing is sent: the channel ends with the last thread.
        while self.ended.recv().is_ok() {}
    }
}

/// Does the jobs of a backlog until none is left.
fn serve<J>(waiting: &Waiting<J>, backlog: Backlog, work: &dyn Fn(J)) {
    loop {
        let mut jobs = lock(waiting);
        let Some((_, job)) = jobs.get_mut(&backlog).and_then(VecDeque::pop_front) else {
            // With the lock: a job that comes now begins the backlog again.
            jobs.remove(&backlog);
            return;
        };
        drop(jobs);
        work(job);
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
            let (report, reports) = channel();
            Self { backlogs: Backlogs::new(|task: Task| task()), gate: Arc::default(), report, reports }
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

    const fn namespace(number: u8) -> Backlog {
        Backlog::Namespace([number; 16])
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
    fn without_a_thread_for_a_backlog_the_caller_does_its_job() {
        let fixture = Fixture::new();
        let gate = fixture.gate.clone();
        let closed = lock(&gate);
        for number in 0..RESERVATION_BACKLOGS_MAX {
            assert!(fixture.hand(namespace(number as u8), "waits", true).is_ok());
        }
        assert!(fixture.hand(Backlog::Persistence, "own", false).is_ok());
        assert_eq!(fixture.reports.try_recv().as_deref(), Ok("own"), "when it returns");
        drop(closed);
    }
}
