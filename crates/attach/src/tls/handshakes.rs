//! The handshakes of one serving thread's clients: their steps on their way to the thread that does them and back, and how long
//! they may take.

use std::collections::VecDeque;
use std::time::Duration;

use engine::ring::channel::{Receiver, Sender, channel};
use engine::ring::{Moment, Waker};
use nbd::Tls;

use super::handshake_thread::{Answer, Job, Jobs};
use super::securing::Flight;
use crate::limits::TLS_HANDSHAKE_TIMEOUT_MS;

/// Handshakes in progress.
pub(crate) struct Handshakes {
    offer: Tls,
    jobs: Jobs,
    answers: (Sender<Answer>, Receiver<Answer>),
    waker: Waker,
    /// Deadlines of handshakes that have begun, the earliest first, with the client's slot and
    /// number.
    deadlines: VecDeque<(Moment, (usize, u64))>,
}

impl Handshakes {
    pub(crate) fn new(offer: Tls, jobs: Jobs, waker: Waker) -> Self {
        Self { offer, jobs, answers: channel(), waker, deadlines: VecDeque::new() }
    }

    /// TLS as it is offered to clients.
    pub(crate) const fn offer(&self) -> Tls {
        self.offer
    }

    /// A client has begun one.
    pub(crate) fn begin(&mut self, client: (usize, u64), now: Moment) {
        let deadline = now.after(Duration::from_millis(TLS_HANDSHAKE_TIMEOUT_MS));
        self.deadlines.push_back((deadline, client));
    }

    /// Has a step done of what a client has sent.
    pub(crate) fn ask(&self, client: (usize, u64), flight: Flight) {
        let Flight { is_awaited, handshake, bytes } = flight;
        let (answers, waker) = (self.answers.0.clone(), self.waker.clone());
        // Without the thread there is no answer, and the client's time is over soon.
        let _ = self.jobs.send(Job { client, is_awaited, handshake, bytes, answers, waker });
    }

    /// The next step that was done, and whose it is.
    pub(crate) fn answer(&self) -> Option<((usize, u64), Answer)> {
        self.answers.1.try_recv().ok().map(|answer| (answer.client, answer))
    }

    /// Deadline of the next handshake, unless it completes before.
    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        self.deadlines.front().map(|(deadline, _)| *deadline)
    }

    /// A client whose time is over, whether it has made use of it or not.
    pub(crate) fn expired(&mut self, now: Moment) -> Option<(usize, u64)> {
        let is_over = self.deadlines.front().is_some_and(|(deadline, _)| *deadline <= now);
        if is_over { self.deadlines.pop_front().map(|(_, client)| client) } else { None }
    }
}
