//! The authentication worker: a thread that does the public-key work of exchanges, which takes
//! milliseconds and would hold up all hosts of a reactor. When many wait, those who have not failed
//! come first, of them those from networks with the fewest that wait, and of these the latest: a
//! host that fills the queue delays itself first, and an honest host that connects is served next.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Weak};
use std::time::Duration;

use authentication::{ControllerSide, Progress};

use super::handshake;
use super::handshake_places::HandshakePlaces;
use crate::limits::AUTHENTICATION_JOBS_MAX;
use crate::offenders::Offenders;
use crate::ring::channel::{Receiver, sync_channel};
use crate::ring::thread::{self, JoinHandle};
use crate::ring::{self, Moment, Vital};
use crate::target::controller::Network;
use crate::target::fabric::Fabric;
use crate::target::messaging::{
    Address, Asker, AuthenticationDone, AuthenticationJob, HandshakeOutcome, HandshakeStep, Message, Party,
    Step, Work,
};

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
        // Weak: the fabric has the way to this thread, which ends when that is closed.
        let keys = Arc::downgrade(fabric);
        let thread = thread::Builder::new().name("authentication".to_owned()).spawn(move || {
            let _vital = Vital::begin();
            Queue { fabric: keys, ..Queue::default() }.run(&jobs);
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
    /// Source of hosts' TLS keys.
    fabric: Weak<Fabric>,
    offenders: Offenders<Party>,
    handshakes: HandshakePlaces,
}

/// Interval of checks for handshakes whose hosts have disconnected, while all places are taken.
const PLACE_LOOK: Duration = Duration::from_millis(10);

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
                Some(due) if due <= now => jobs.recv_timeout(PLACE_LOOK),
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
        let due = if job.work.begins() { self.offenders.due(&job.party) } else { Moment(0) };
        self.waiting.push((due, job));
    }

    /// The job that is done next, of those that are due.
    fn next(&mut self, now: Moment) -> Option<AuthenticationJob> {
        self.waiting.retain(|(_, job)| job.is_wanted.strong_count() > 0);
        let mut crowds: HashMap<Network, usize> = HashMap::new();
        self.waiting.iter().for_each(|(_, job)| *crowds.entry(job.party.network).or_default() += 1);
        let under_way = self.handshakes.taken();
        let has_room = |job: &AuthenticationJob| self.handshakes.has_room(job.party.network, under_way);
        let may_be_done = |job: &AuthenticationJob| !job.work.takes_place() || has_room(job);
        let due = self.waiting.iter().enumerate().filter(|(_, (due, job))| *due <= now && may_be_done(job));
        let rank = |(at, (_, job)): &(usize, &(Moment, AuthenticationJob))| {
            (self.offenders.failures(&job.party), crowds.get(&job.party.network).copied(), Reverse(*at))
        };
        let at = due.min_by_key(rank).map(|(at, _)| at)?;
        Some(self.waiting.remove(at).1)
    }

    fn work(&mut self, job: AuthenticationJob, now: Moment) {
        let AuthenticationJob { asker, party, work, .. } = job;
        match work {
            Work::Exchange(side, step) => self.exchange((&asker, &party), side, step, now),
            Work::Handshake(step) => self.handshake((&asker, &party), step, now),
        }
    }

    /// A step of a TLS handshake.
    fn handshake(&mut self, (asker, party): (&Asker, &Party), step: HandshakeStep, now: Moment) {
        let Some(fabric) = self.fabric.upgrade() else { return };
        let place = self.handshakes.take(party.network);
        let done = Box::new(handshake::step(step, place, &fabric, now));
        match &done.outcome {
            HandshakeOutcome::Continues(_) => {}
            HandshakeOutcome::Established { .. } => self.offenders.forgive(party),
            HandshakeOutcome::Failed { .. } => self.offenders.add(party, now),
        }
        let Address { reactor, connection, serial } = asker.address();
        asker.mailboxes.send(reactor, Message::Handshake { connection, serial, done });
    }

    /// A step of an exchange.
    fn exchange(
        &mut self,
        (asker, party): (&Asker, &Party),
        mut side: Box<ControllerSide>,
        step: Step,
        now: Moment,
    ) {
        let (progress, message) = match step {
            Step::Take(bytes) => (side.take(&bytes), None),
            Step::Give => {
                let (message, progress) = side.give(&mut ring::fill_random);
                (progress, Some(message))
            }
        };
        match &progress {
            Progress::Continues => {}
            Progress::Authenticated(_) => self.offenders.forgive(party),
            Progress::Failed(_) => self.offenders.add(party, now),
        }
        let Address { reactor, connection, serial } = asker.address();
        let done = Box::new(AuthenticationDone { command_id: asker.command_id, side, progress, message });
        asker.mailboxes.send(reactor, Message::Authentication { connection, serial, done });
    }
}

#[cfg(test)]
mod tests {
    use authentication::ControllerTerms;
    use secure_channel::{ConfiguredPsk, Derivation, FirstBytes, IdentityVersion, Names, Suite};
    use tls_handshake::Handshake;

    use super::*;
    use crate::limits::{AUTHENTICATION_DELAY_MS, TLS_HANDSHAKES_MAX};

    /// A job distinguished by its command, of a host at an address that ends in this.
    fn job(command_id: u16, host: &str, address: u8, (step, waits): (Step, &Arc<()>)) -> AuthenticationJob {
        job_of(command_id, (host, address), Work::Exchange(side(host), step), waits)
    }

    fn side(host: &str) -> Box<ControllerSide> {
        let terms = ControllerTerms {
            host_nqn: host.to_owned(),
            subsystem_nqn: "nqn.s".to_owned(),
            secrets: Vec::new(),
            controller_secret: None,
            hashes: Vec::new(),
            groups: Vec::new(),
            concatenation: authentication::Concatenation::None,
        };
        Box::new(ControllerSide::new(terms))
    }

    /// The hello of a host that has a key.
    fn hello() -> Work {
        let names = Names::new("nqn.a", "nqn.s").unwrap();
        let key = ConfiguredPsk::new(&[1; 32], None).unwrap().retained(&names, Derivation::ALL[0]);
        let key = key.tls_psk(&names, Suite::ALL[0], IdentityVersion::One).unwrap();
        let mut bytes = Vec::new();
        Handshake::of_host(&[key]).unwrap().step(&mut &[][..], &mut bytes).unwrap();
        let FirstBytes::Hello(hello) = FirstBytes::of(&bytes).unwrap() else { panic!("no hello") };
        Work::Handshake(HandshakeStep::Hello { hello, bytes, port: 1 })
    }

    fn job_of(
        command_id: u16,
        (host, address): (&str, u8),
        work: Work,
        waits: &Arc<()>,
    ) -> AuthenticationJob {
        AuthenticationJob {
            asker: Asker {
                mailboxes: Arc::default(),
                address: Address { reactor: 0, connection: 0, serial: 1 },
                command_id,
                peer: ([10, 0, 0, address], 1).into(),
            },
            party: Party { host_nqn: host.to_owned(), network: Network::of([10, 0, 0, address].into()) },
            work,
            is_wanted: Arc::downgrade(waits),
        }
    }

    fn order(queue: &mut Queue, now: Moment) -> Vec<u16> {
        std::iter::from_fn(|| queue.next(now)).map(|job| job.asker.command_id).collect()
    }

    #[test]
    fn the_newest_of_the_smallest_crowd_comes_first() {
        let (mut queue, waits) = (Queue::default(), Arc::default());
        for (command_id, address) in [(1, 1), (2, 2), (3, 1), (4, 1), (5, 1)] {
            queue.put(job(command_id, "nqn.a", address, (Step::Give, &waits)));
        }
        // The other network's only one before all four of the first, and of these the newest.
        assert_eq!(order(&mut queue, Moment(0)), [2, 5, 4, 3, 1]);
    }

    #[test]
    fn who_has_failed_waits_and_comes_last() {
        let (mut queue, waits) = (Queue::default(), Arc::default());
        let failed = job(1, "nqn.failed", 1, (Step::Give, &waits));
        queue.offenders.add(&failed.party, Moment(1000));
        queue.put(failed);
        queue.put(job(2, "nqn.failed", 1, (Step::Take(Vec::new()), &waits)));
        queue.put(job(3, "nqn.other", 2, (Step::Give, &waits)));
        let due = Moment(1000).after(Duration::from_millis(AUTHENTICATION_DELAY_MS));
        assert_eq!(order(&mut queue, Moment(due.0 - 1)), [3, 2], "its challenge is not due");
        queue.put(job(4, "nqn.other", 2, (Step::Give, &waits)));
        assert_eq!(order(&mut queue, due), [4, 1]);
    }

    #[test]
    fn hellos_wait_while_handshakes_have_all_places() {
        let (mut queue, waits) = (Queue::default(), Arc::default());
        queue.put(job_of(1, ("nqn.a", 1), hello(), &waits));
        queue.put(job(2, "nqn.a", 1, (Step::Give, &waits)));
        let network = Network::of([10, 0, 0, 1].into());
        let mut places: Vec<_> = (0..TLS_HANDSHAKES_MAX).map(|_| queue.handshakes.take(network)).collect();
        assert_eq!(order(&mut queue, Moment(0)), [2]);
        queue.put(job_of(3, ("nqn.b", 2), hello(), &waits));
        assert_eq!(order(&mut queue, Moment(0)), [3], "a host from elsewhere does not wait for a crowd");
        places.pop();
        assert_eq!(order(&mut queue, Moment(0)), [1]);
    }

    #[test]
    fn nothing_is_computed_for_who_is_gone_and_a_full_queue_gives_up_its_oldest() {
        let (mut queue, waits, gone) = (Queue::default(), Arc::default(), Arc::default());
        queue.put(job(1, "nqn.a", 1, (Step::Give, &gone)));
        queue.put(job(2, "nqn.a", 1, (Step::Give, &waits)));
        drop(gone);
        assert_eq!(order(&mut queue, Moment(0)), [2]);
        for command_id in 0..=AUTHENTICATION_JOBS_MAX as u16 {
            queue.put(job(command_id, "nqn.a", 1, (Step::Give, &waits)));
        }
        let left = order(&mut queue, Moment(0));
        assert_eq!((left.len(), left.last()), (AUTHENTICATION_JOBS_MAX, Some(&1)));
    }
}
