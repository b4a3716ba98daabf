//! The authentication worker: a thread that does the public-key work of exchanges, which takes milliseconds and would hold up
//! all hosts of a reactor. When many wait, those who have not failed come first, and of them the one that came last: whoever
//! fills the queue fills it before its own feet, and an honest host that comes is served next.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;

use authentication::Progress;

use super::offenders::Offenders;
use crate::limits::AUTHENTICATION_JOBS_MAX;
use crate::ring::channel::{Receiver, sync_channel};
use crate::ring::thread::{self, JoinHandle};
use crate::ring::{self, Moment, Vital};
use crate::target::fabric::Fabric;
use crate::target::messaging::{Address, AuthenticationDone, AuthenticationJob, Message, Step};

/// The running worker. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct AuthenticationWorker {
    fabric: Arc<Fabric>,
    thread: Option<JoinHandle<()>>,
}

impl AuthenticationWorker {
    /// Starts the worker, which takes the fabric's jobs from then on.
    pub(crate) fn start(fabric: &Arc<Fabric>) -> io::Result<Self> {
        let (sender, jobs) = sync_channel(AUTHENTICATION_JOBS_MAX);
        let thread = thread::Builder::new().name("authentication".to_owned()).spawn(move || {
            let _vital = Vital::begin();
            Queue::default().run(&jobs);
        })?;
        fabric.authentication_jobs.open(sender);
        Ok(Self { fabric: fabric.clone(), thread: Some(thread) })
    }
}

impl Drop for AuthenticationWorker {
    fn drop(&mut self) {
        self.fabric.authentication_jobs.close();
        // A panic there has ended the process.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Jobs that wait, in the order in which they came, each with the time from which it may be done.
#[derive(Default)]
struct Queue {
    waiting: Vec<(Moment, AuthenticationJob)>,
    offenders: Offenders,
}

impl Queue {
    fn run(mut self, jobs: &Receiver<AuthenticationJob>) {
        loop {
            // Everything that has come, before the next one is chosen.
            while let Ok(job) = jobs.try_recv() {
                self.put(job);
            }
            let now = ring::now();
            if let Some(job) = self.next(now) {
                self.work(job, now);
                continue;
            }
            let earliest = self.waiting.iter().map(|(due, _)| *due).min();
            let came = match earliest {
                Some(due) => jobs.recv_timeout(due.since(now)),
                None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match came {
                Ok(job) => self.put(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn put(&mut self, job: AuthenticationJob) {
        self.waiting.retain(|(_, job)| job.is_wanted.strong_count() > 0);
        if self.waiting.len() >= AUTHENTICATION_JOBS_MAX {
            // Its host gets no answer, and gives up.
            self.waiting.remove(0);
        }
        // A challenge is what begins the work, and what a host that guesses has to wait for.
        let due = if matches!(job.step, Step::Give) { self.offenders.due(&job.party) } else { Moment(0) };
        self.waiting.push((due, job));
    }

    /// The job that is done next: of those that are due, of who has failed least, the one that came last.
    fn next(&mut self, now: Moment) -> Option<AuthenticationJob> {
        self.waiting.retain(|(_, job)| job.is_wanted.strong_count() > 0);
        let due = self.waiting.iter().enumerate().filter(|(_, (due, _))| *due <= now);
        let last = due.min_by_key(|(at, (_, job))| (self.offenders.failures(&job.party), usize::MAX - at));
        let at = last.map(|(at, _)| at)?;
        Some(self.waiting.remove(at).1)
    }

    fn work(&mut self, job: AuthenticationJob, now: Moment) {
        let AuthenticationJob { asker, party, mut side, step, .. } = job;
        let (progress, message) = match step {
            Step::Take(bytes) => (side.take(&bytes), None),
            Step::Give => {
                let (message, progress) = side.give(&mut ring::fill_random);
                (progress, Some(message))
            }
        };
        match &progress {
            Progress::Continues => {}
            Progress::Authenticated(_) => self.offenders.forgive(&party),
            Progress::Failed(_) => self.offenders.add(&party, now),
        }
        let Address { reactor, connection, serial } = asker.address();
        let done = Box::new(AuthenticationDone { command_id: asker.command_id, side, progress, message });
        asker.mailboxes.send(reactor, Message::Authentication { connection, serial, done });
    }
}
