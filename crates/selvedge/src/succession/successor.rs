//! The process that goes on in place of another one: it opens what it is offered, takes the hosts over, and serves as soon as the
//! former one says so, or has died.

use std::env;
use std::ffi::OsString;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::claims;
use engine::ring::Socket;
use engine::target::{HandOver, Target, TargetConfig};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::line::Line;
use super::words::{Offer, State, Word};
use crate::failure::Failure;

/// Names the socket at which the former process waits.
pub(crate) const PLACE_VARIABLE: &str = "SELVEDGE_SUCCEEDS";
/// The former process, by its number.
pub(crate) const PROCESS_VARIABLE: &str = "SELVEDGE_SUCCEEDS_PROCESS";
/// How long the former process may take to end once this one serves.
const END: Duration = Duration::from_secs(30);
/// How long after the end of its words a process may take to die.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A process that goes on in place of another one.
pub(crate) struct Successor {
    line: Line,
    /// What tells that the former process has died.
    former: OwnedFd,
    offer: Offer,
    listening: Vec<Arc<TcpListener>>,
    /// Has something to read once the former process has gone on after it had handed over.
    has_resumed: OwnedFd,
    /// Where the former process writes.
    outputs: [OwnedFd; 2],
}

impl Successor {
    /// What this process is, if it was started as one.
    pub(crate) fn from_environment() -> Result<Option<Self>, Failure> {
        let Some(place) = env::var_os(PLACE_VARIABLE) else { return Ok(None) };
        match Self::greet(&place) {
            Ok(successor) => Ok(Some(successor)),
            // It has died before it has offered anything: what it served is started anew. Where it lives after all, it has what
            // this process will not get.
            Err(NotOffered::Silence(error)) => {
                // What it has locked is free when it has died altogether.
                await_death();
                tracing::warn!(%error, "the former process does not answer; this one starts anew");
                Ok(None)
            }
            Err(NotOffered::Refused(reason)) => Err(Failure::failed(format!(
                "the target at {} is not replaced: {reason}",
                Path::new(&place).display()
            ))),
        }
    }

    fn greet(place: &OsString) -> Result<Self, NotOffered> {
        let line = Line::connect(Path::new(place))?;
        let peer = rustix::net::sockopt::socket_peercred(&line).map_err(io::Error::from)?;
        let former = pidfd_open(peer.pid, PidfdFlags::empty()).map_err(io::Error::from)?;
        let version = crate::version::NUMBER.to_owned();
        line.say(&Word::Hello { version, asks_only: false }, &[])?;
        let (word, mut descriptors) = line.hear()?;
        let offer = match word {
            Word::Offer(offer) => *offer,
            Word::Refused(reasons) => return Err(NotOffered::Refused(reasons.join("; "))),
            _ => return Err(NotOffered::Refused("it offers nothing".to_owned())),
        };
        let mut last = || descriptors.pop();
        let (Some(error), Some(output), Some(has_resumed)) = (last(), last(), last()) else {
            return Err(NotOffered::Refused("it offers nothing that is open".to_owned()));
        };
        if descriptors.len() < offer.listening {
            return Err(NotOffered::Refused("it offers less than it says".to_owned()));
        }
        claims::inherit(descriptors.split_off(offer.listening));
        let listening = descriptors.into_iter().map(|socket| Arc::new(TcpListener::from(socket))).collect();
        Ok(Self { line, former, offer, listening, has_resumed, outputs: [output, error] })
    }

    /// Has a target serve what the former process does, once it is told to.
    pub(crate) fn prepare(&self, config: &mut TargetConfig) {
        config.fabric = self.offer.fabric.clone();
        config.inherited = self.listening.clone();
        config.is_held = true;
    }

    /// Takes the hosts over and serves them. When this returns, the former process has ended.
    pub(crate) fn succeed(self, target: &Target) -> Result<(), Failure> {
        claims::forget();
        if let Err(Untaken { reason, may_serve }) = self.take(target) {
            if !may_serve || !self.has_former_died(LAST_WORDS) {
                target.disown();
                return Err(Failure::failed(format!("the former process serves on: {reason}")));
            }
            // Nobody else serves. What is not true any longer connects again.
            tracing::warn!(reason, "the former process has died; this one serves");
            if self.has_former_resumed() {
                target.disown();
            }
        }
        target.go_on();
        let [output, error] = &self.outputs;
        let _ = rustix::stdio::dup2_stdout(output).and_then(|()| rustix::stdio::dup2_stderr(error));
        // Where nobody listens, nobody needs to know.
        let _ = self.line.say(&Word::Serving, &[]);
        if !self.has_former_died(END) {
            tracing::warn!("the former process has not ended yet");
        }
        Ok(())
    }

    fn take(&self, target: &Target) -> Result<(), Untaken> {
        self.line.say(&Word::Ready, &[])?;
        let (word, descriptors) = self.line.hear()?;
        let state = match word {
            Word::State(state) => *state,
            other => return Err(Untaken::instead_of("how its hosts are", other)),
        };
        let taken = hand_over(state, descriptors).and_then(|hand_over| target.take_over(hand_over));
        let failed = taken.map_err(|reason| {
            let _ = self.line.say(&Word::Refused(vec![reason.clone()]), &[]);
            // What it lacks is what keeps hosts from what is reserved against them.
            Untaken { reason, may_serve: false }
        })?;
        self.line.say(&Word::Taken(failed), &[])?;
        match self.line.hear()? {
            (Word::Go, _) => Ok(()),
            (other, _) => Err(Untaken::instead_of("that this process is to serve", other)),
        }
    }

    /// Whether the former process has gone on since it handed over.
    fn has_former_resumed(&self) -> bool {
        rustix::io::read(&self.has_resumed, &mut [0; 1]).is_ok_and(|read| read > 0)
    }

    /// Whether the former process has died, or does within this time.
    fn has_former_died(&self, time: Duration) -> bool {
        has_died(&self.former, time)
    }
}

/// Whether a process has died, or does within this time.
fn has_died(process: &OwnedFd, time: Duration) -> bool {
    let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
    let mut process = [PollFd::new(process, PollFlags::IN)];
    poll(&mut process, Some(&time)).is_ok_and(|ready| ready > 0)
}

/// Waits until the former process has died, if it does.
fn await_death() {
    let number = env::var(PROCESS_VARIABLE).ok().and_then(|number| number.parse().ok());
    let process = number.and_then(Pid::from_raw).map(|process| pidfd_open(process, PidfdFlags::empty()));
    if let Some(Ok(process)) = process {
        has_died(&process, END);
    }
}

/// Why nothing was offered.
enum NotOffered {
    /// Nobody answers, or not to the end.
    Silence(io::Error),
    /// The former process serves on, for this reason.
    Refused(String),
}

impl From<io::Error> for NotOffered {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::InvalidData {
            return Self::Refused(error.to_string());
        }
        Self::Silence(error)
    }
}

/// Why the hosts were not taken over.
struct Untaken {
    reason: String,
    /// Whether this process may serve if nobody else does.
    may_serve: bool,
}

impl Untaken {
    fn instead_of(expected: &str, word: Word) -> Self {
        let reason = match word {
            Word::Refused(reasons) => reasons.join("; "),
            _ => format!("it does not say {expected}"),
        };
        Self { reason, may_serve: true }
    }
}

impl From<io::Error> for Untaken {
    fn from(error: io::Error) -> Self {
        Self { reason: error.to_string(), may_serve: true }
    }
}

fn hand_over(state: State, descriptors: Vec<OwnedFd>) -> Result<HandOver, String> {
    let State { target, arrivals } = state;
    if descriptors.len() != target.queues.len() + arrivals.len() {
        return Err("the number of sockets is not that of the queues".to_owned());
    }
    let sockets: io::Result<Vec<Arc<Socket>>> =
        descriptors.into_iter().map(|descriptor| Socket::new(descriptor).map(Arc::new)).collect();
    let mut queues = sockets.map_err(told)?;
    let untouched = queues.split_off(target.queues.len());
    let arrivals = arrivals.into_iter().zip(untouched);
    let arrivals = arrivals.map(|((port, peer), socket)| (port, peer, socket)).collect();
    Ok(HandOver { state: target, queues, arrivals })
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}
