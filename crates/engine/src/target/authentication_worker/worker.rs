//! The authentication worker: a thread that does the public-key work of exchanges, which takes milliseconds and would hold up
//! all hosts of a reactor. Networks have turns, by what their jobs cost (`fair_queue`). Refusals leave late, each time later
//! for a network that fails again and again; a right proof never waits for that.

use std::io;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Weak};
use std::time::Duration;

use authentication::{ControllerSide, Progress};
use secure_channel::{Alert, Peer};
use tls_handshake::HandshakeError;

use super::fair_queue::FairQueue;
use super::handshake;
use super::handshake_limiter::HandshakeLimiter;
use crate::limits::AUTHENTICATION_JOBS_MAX;
use crate::offenders::Offenders;
use crate::ring::channel::{Receiver, sync_channel};
use crate::ring::thread::{self, JoinHandle};
use crate::ring::{self, Moment, Vital};
use crate::target::controller::Network;
use crate::target::fabric::Fabric;
use crate::target::messaging::{
    Address, Asker, AuthenticationDone, AuthenticationJob, HandshakeDone, HandshakeOutcome, HandshakeStep,
    Message, Step, Work,
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

/// A refusal that is due at a later time.
struct Refusal {
    due: Moment,
    asker: Asker,
    message: Message,
    is_wanted: Weak<()>,
}

/// Jobs that wait, and refusals that do.
#[derive(Default)]
struct Queue {
    waiting: FairQueue<Network, AuthenticationJob>,
    refusals: Vec<Refusal>,
    /// Source of hosts' TLS keys.
    fabric: Weak<Fabric>,
    offenders: Offenders<Network>,
    handshakes: HandshakeLimiter,
}

/// Interval of checks for handshakes whose hosts have disconnected, while all permits are held.
const PERMIT_LOOK: Duration = Duration::from_millis(10);

impl Queue {
    fn run(mut self, jobs: &Receiver<AuthenticationJob>) {
        loop {
            // Everything that has come, before the next one is chosen.
            while let Ok(job) = jobs.try_recv() {
                self.put(job);
            }
            let now = ring::now();
            for Refusal { asker, message, .. } in self.due_refusals(now) {
                asker.mailboxes.send(asker.address().reactor, message);
            }
            if let Some(job) = self.next() {
                self.work(job, now);
                continue;
            }
            if let Some(asker) = self.displaced(now) {
                end_handshake(&asker);
            }
            let refusal = self.refusals.iter().map(|refusal| refusal.due.since(now)).min();
            let look = (self.waiting.len() > 0).then_some(PERMIT_LOOK);
            let came = match refusal.into_iter().chain(look).min() {
                Some(patience) => jobs.recv_timeout(patience),
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
        self.waiting.retain(|job| job.is_wanted.strong_count() > 0);
        let (network, cost) = (job.network, job.work.cost_us());
        self.waiting.put(network, job, cost);
        if self.waiting.len() > AUTHENTICATION_JOBS_MAX {
            // Its host gets no answer, and gives up.
            self.waiting.drop_surplus();
        }
    }

    /// The job that is done next.
    fn next(&mut self) -> Option<AuthenticationJob> {
        self.waiting.retain(|job| job.is_wanted.strong_count() > 0);
        let under_way = self.handshakes.under_way();
        let has_room = |job: &AuthenticationJob| self.handshakes.has_room(job.network, under_way);
        self.waiting.next(|job| !job.work.takes_permit() || has_room(job))
    }

    /// Connection whose handshake makes room for a host that waits for a permit, if one does.
    fn displaced(&mut self, now: Moment) -> Option<Asker> {
        let network = self.waiting.parties().min_by_key(|network| self.handshakes.of(*network))?;
        self.handshakes.give_up(network, now)
    }

    /// Refusals whose time has come, without those of closed connections.
    fn due_refusals(&mut self, now: Moment) -> Vec<Refusal> {
        self.refusals.retain(|refusal| refusal.is_wanted.strong_count() > 0);
        self.refusals.extract_if(.., |refusal| refusal.due <= now).collect()
    }

    fn work(&mut self, job: AuthenticationJob, now: Moment) {
        let AuthenticationJob { asker, network, work, delay_max, is_wanted } = job;
        let (message, is_right) = match work {
            Work::Exchange(side, step) => exchange(&asker, side, step),
            Work::Handshake(step) => {
                let Some(fabric) = self.fabric.upgrade() else { return };
                self.handshake((&asker, network), step, &fabric, now)
            }
        };
        match is_right {
            Some(false) => {
                let delay = self.offenders.add(&network, now).min(delay_max);
                return self.refusals.push(Refusal { due: now.after(delay), asker, message, is_wanted });
            }
            Some(true) => self.offenders.forgive(&network),
            None => {}
        }
        asker.mailboxes.send(asker.address().reactor, message);
    }

    /// A step of a TLS handshake: its answer, and if the host has proved that it has a key, where that is known.
    fn handshake(
        &mut self,
        (asker, network): (&Asker, Network),
        step: HandshakeStep,
        fabric: &Fabric,
        now: Moment,
    ) -> (Message, Option<bool>) {
        let permit = self.handshakes.take(network, asker, now);
        let done = Box::new(handshake::step(step, permit, fabric, now));
        let is_right = match &done.outcome {
            HandshakeOutcome::Continues(_) => None,
            HandshakeOutcome::Established { .. } => Some(true),
            HandshakeOutcome::Failed { .. } => Some(false),
        };
        let Address { connection, serial, .. } = asker.address();
        (Message::Handshake { connection, serial, done }, is_right)
    }
}

/// Ends the handshake of a connection, without an alert: its host may come again.
fn end_handshake(asker: &Asker) {
    let (peer, alert) = (Peer::Host, Alert::USER_CANCELED);
    let what = "did not go on while hosts from other networks waited";
    let error = HandshakeError::Violation { peer, what, alert };
    let outcome = HandshakeOutcome::Failed { error, names: None };
    let done = Box::new(HandshakeDone { output: Vec::new(), outcome });
    let Address { reactor, connection, serial } = asker.address();
    asker.mailboxes.send(reactor, Message::Handshake { connection, serial, done });
}

/// A step of an exchange: its answer, and if the host has proved its name, where that is known.
fn exchange(asker: &Asker, mut side: Box<ControllerSide>, step: Step) -> (Message, Option<bool>) {
    let (progress, message) = match step {
        Step::Take(bytes) => (side.take(&bytes), None),
        Step::Give => {
            let (message, progress) = side.give(&mut ring::fill_random);
            (progress, Some(message))
        }
    };
    let is_right = match &progress {
        Progress::Continues => None,
        Progress::Authenticated(_) => Some(true),
        Progress::Failed(_) => Some(false),
    };
    let Address { connection, serial, .. } = asker.address();
    let done = Box::new(AuthenticationDone { command_id: asker.command_id, side, progress, message });
    (Message::Authentication { connection, serial, done }, is_right)
}

#[cfg(test)]
mod tests {
    use authentication::{ControllerTerms, Group, Hash};
    use nvme::authentication::{Body, Message, Negotiate};
    use secure_channel::{ConfiguredPsk, Derivation, FirstBytes, IdentityVersion, Names, Suite};
    use tls_handshake::Handshake;

    use super::*;
    use crate::limits::{
        AUTHENTICATION_DELAY_MS, TLS_HANDSHAKE_PATIENCE_MS, TLS_HANDSHAKES_FEW, TLS_HANDSHAKES_MAX,
    };
    use crate::target::messaging::HandshakePermit;

    /// A job distinguished by its command, of a host at an address that ends in this.
    fn job(command_id: u16, host: &str, address: u8, (step, waits): (Step, &Arc<()>)) -> AuthenticationJob {
        job_of(command_id, address, Work::Exchange(side(host), step), waits)
    }

    fn terms(host: &str, groups: Vec<Group>) -> ControllerTerms {
        ControllerTerms {
            host_nqn: host.to_owned(),
            subsystem_nqn: "nqn.s".to_owned(),
            secrets: Vec::new(),
            controller_secret: None,
            hashes: vec![Hash::Sha256],
            groups,
            concatenation: authentication::Concatenation::None,
        }
    }

    fn side(host: &str) -> Box<ControllerSide> {
        Box::new(ControllerSide::new(terms(host, vec![Group::Null])))
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

    fn job_of(command_id: u16, address: u8, work: Work, waits: &Arc<()>) -> AuthenticationJob {
        AuthenticationJob {
            asker: Asker {
                mailboxes: Arc::default(),
                address: Address { reactor: 0, connection: 0, serial: 1 },
                command_id,
                peer: ([10, 0, 0, address], 1).into(),
            },
            network: Network::of([10, 0, 0, address].into()),
            work,
            delay_max: Duration::from_secs(5),
            is_wanted: Arc::downgrade(waits),
        }
    }

    fn order(queue: &mut Queue) -> Vec<u16> {
        std::iter::from_fn(|| queue.next()).map(|job| job.asker.command_id).collect()
    }

    /// A host's first message of an exchange in this group alone.
    fn offer(group: Group) -> Vec<u8> {
        let body = Body::Negotiate(Negotiate { concatenation: 0, hashes: vec![1], groups: vec![group.id()] });
        Message { transaction: 1, body }.encode()
    }

    /// A challenge in this group, which is to be given.
    fn challenge(command_id: u16, group: Group, address: u8, waits: &Arc<()>) -> AuthenticationJob {
        let mut side = ControllerSide::new(terms("nqn.a", vec![group]));
        assert_eq!(side.take(&offer(group)), Progress::Continues);
        job_of(command_id, address, Work::Exchange(Box::new(side), Step::Give), waits)
    }

    #[test]
    fn steps_go_by_what_their_groups_cost_and_networks_have_turns() {
        let (mut queue, waits) = (Queue::default(), Arc::default());
        for (command_id, address) in [(1, 1), (2, 1), (3, 2)] {
            queue.put(challenge(command_id, Group::Ffdhe8192, address, &waits));
        }
        assert_eq!(queue.next().map(|job| job.asker.command_id), Some(3), "the one of the smaller crowd");
        queue.put(challenge(4, Group::Ffdhe3072, 3, &waits));
        queue.put(job(5, "nqn.a", 4, (Step::Take(offer(Group::Null)), &waits)));
        queue.put(job_of(6, 5, hello(), &waits));
        assert_eq!(order(&mut queue), [5, 6, 4, 1, 2]);
    }

    #[test]
    fn a_wrong_answer_waits_and_a_right_one_of_the_same_network_does_not() {
        let (mut queue, waits, gone) = (Queue::default(), Arc::default(), Arc::default());
        let now = Moment(1_000_000_000);
        // Garbage, a message that is not due, and one of a closed connection.
        queue.work(job(1, "nqn.a", 1, (Step::Take(vec![1, 2, 3]), &waits)), now);
        queue.work(job(2, "nqn.a", 1, (Step::Give, &waits)), now);
        queue.work(job(3, "nqn.a", 1, (Step::Take(Vec::new()), &gone)), now);
        drop(gone);
        let right = job(4, "nqn.a", 1, (Step::Take(offer(Group::Null)), &waits));
        queue.put(right);
        assert_eq!(order(&mut queue), [4], "it is next, whatever has failed before");
        queue.work(job(4, "nqn.a", 1, (Step::Take(offer(Group::Null)), &waits)), now);
        let waiting = |queue: &Queue| queue.refusals.iter().any(|refusal| refusal.asker.command_id == 4);
        assert!(!waiting(&queue), "and its answer does not wait either");
        let left = |queue: &mut Queue, ms| {
            let due = queue.due_refusals(now.after(Duration::from_millis(ms)));
            due.iter().map(|refusal| refusal.asker.command_id).collect::<Vec<_>>()
        };
        assert_eq!(left(&mut queue, AUTHENTICATION_DELAY_MS - 1), [0; 0]);
        assert_eq!(left(&mut queue, AUTHENTICATION_DELAY_MS), [1]);
        assert_eq!(left(&mut queue, 2 * AUTHENTICATION_DELAY_MS), [2], "each time twice as long");
        assert!(queue.refusals.is_empty());
        for _ in 0..20 {
            queue.work(job(5, "nqn.a", 1, (Step::Give, &waits)), now);
        }
        let last = queue.refusals.iter().map(|refusal| refusal.due).max();
        assert_eq!(last, Some(now.after(Duration::from_secs(5))), "half of the time that a host has");
    }

    /// Moment at which handshakes of tests begin.
    const START: Moment = Moment(1_000_000_000);

    /// Begins a handshake of a host at an address that ends in this.
    fn take(queue: &mut Queue, address: u8, waits: &Arc<()>) -> Arc<HandshakePermit> {
        let asker = job(u16::from(address), "nqn.a", address, (Step::Give, waits)).asker;
        queue.handshakes.take(Network::of([10, 0, 0, address].into()), &asker, START)
    }

    #[test]
    fn networks_that_hold_all_permits_and_do_not_go_on_make_room_for_a_host_that_comes() {
        let (mut queue, waits) = (Queue::default(), Arc::default());
        let mut held: Vec<_> = (0..TLS_HANDSHAKES_MAX).map(|_| take(&mut queue, 1, &waits)).collect();
        for address in 2..=17 {
            held.extend((0..TLS_HANDSHAKES_FEW).map(|_| take(&mut queue, address, &waits)));
        }
        let later = |ms| START.after(Duration::from_millis(ms));
        assert!(queue.displaced(later(TLS_HANDSHAKE_PATIENCE_MS)).is_none(), "no host waits");
        queue.put(job_of(99, 99, hello(), &waits));
        assert!(order(&mut queue).is_empty());
        assert!(queue.displaced(later(TLS_HANDSHAKE_PATIENCE_MS - 1)).is_none(), "these may be on their way");
        let displaced = queue.displaced(later(TLS_HANDSHAKE_PATIENCE_MS)).map(|asker| asker.command_id);
        assert_eq!(displaced, Some(1), "of the network with the most");
        assert!(queue.displaced(later(60_000)).is_none(), "the host that waits needs one place");
        // The connection drops it.
        held.remove(0);
        assert_eq!(order(&mut queue), [99]);
        held.push(take(&mut queue, 99, &waits));
        queue.put(job_of(1, 1, hello(), &waits));
        assert!(order(&mut queue).is_empty());
        assert!(queue.displaced(later(60_000)).is_none(), "a crowd displaces none, and waits behind itself");
    }

    #[test]
    fn hellos_wait_while_handshakes_have_all_permits() {
        let (mut queue, waits) = (Queue::default(), Arc::default());
        queue.put(job_of(1, 1, hello(), &waits));
        queue.put(job(2, "nqn.a", 1, (Step::Give, &waits)));
        let mut permits: Vec<_> = (0..TLS_HANDSHAKES_MAX).map(|_| take(&mut queue, 1, &waits)).collect();
        assert_eq!(order(&mut queue), [2]);
        queue.put(job_of(3, 2, hello(), &waits));
        assert_eq!(order(&mut queue), [3], "a host from elsewhere does not wait for a crowd");
        permits.pop();
        assert_eq!(order(&mut queue), [1]);
    }

    #[test]
    fn nothing_is_computed_for_who_is_gone_and_a_full_queue_gives_up_its_last() {
        let (mut queue, waits, gone) = (Queue::default(), Arc::default(), Arc::default());
        queue.put(job(1, "nqn.a", 1, (Step::Give, &gone)));
        queue.put(job(2, "nqn.a", 1, (Step::Give, &waits)));
        drop(gone);
        assert_eq!(order(&mut queue), [2]);
        for command_id in 0..=AUTHENTICATION_JOBS_MAX as u16 {
            queue.put(job(command_id, "nqn.a", 1, (Step::Give, &waits)));
        }
        let left = order(&mut queue);
        assert_eq!(
            (left.len(), left.last()),
            (AUTHENTICATION_JOBS_MAX, Some(&(AUTHENTICATION_JOBS_MAX as u16 - 1)))
        );
    }
}
