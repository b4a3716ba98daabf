//! The new process of a hand-over: takes the hosts over, and serves as soon as the
//! previous process says so, or has died.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::HandOver;
use super::beside::Inherits;
use super::channel::{Channel, Process};
use super::words::{KNOWN, Offer, State, Word, known};
use crate::ring::Socket;
use crate::target::Target;
use crate::target::succession::HandOverError;

/// Time for a process to die after its last message. The connection ends with its last thread,
/// after which little is left to do. This process shares its locks, should it live on after all.
const DEATH: Duration = Duration::from_secs(3);

/// Information about the previous process beyond its messages.
pub trait Former: Process {
    /// True if the previous process has resumed since it handed over.
    fn has_resumed(&self) -> bool;
}

/// Why nothing was offered.
#[derive(Debug)]
pub enum NotOffered {
    /// No response, or an incomplete one.
    Silence(io::Error),
    /// The previous process serves on, for this reason.
    Refused(String),
}

/// Result of a take-over.
#[derive(Debug)]
pub enum Succeeded {
    /// This process serves.
    Serves,
    /// Neither process serves: the previous one has died while commands were under way, or has
    /// changed the state after handing it over. Operations at the storage keep its lock, and the
    /// archive of reservations is ahead of the handed-over state: the target has to be restarted,
    /// for this reason, as after the end of any process.
    StartsAnew(HandOverError),
}

/// Why the hosts were not taken over, or whether they are to be served.
struct Untaken {
    reason: HandOverError,
    /// True if the previous process is known to be alive.
    is_refused: bool,
    /// True if this process has the whole quiesced state of the previous one.
    has_all: bool,
}

impl Offer {
    /// Greets the previous process: what it offers, and what it has open.
    ///
    /// # Errors
    /// Why it offers nothing.
    pub fn ask<L: Channel>(channel: &L, version: &str) -> Result<(Self, Vec<L::Descriptor>), NotOffered> {
        let version = version.to_owned();
        channel.say(&Word::Hello { version, asks_only: false, knows: known() }, &[])?;
        let (word, descriptors) = channel.hear()?;
        match word {
            Word::Offer(offer) => match offer.needs.iter().find(|need| !KNOWN.contains(&need.as_str())) {
                Some(need) => {
                    let reason = format!("what it hands over needs {need}, which this version does not know");
                    Err(NotOffered::Refused(reason))
                }
                None => Ok((*offer, descriptors)),
            },
            Word::Refused(reasons) => Err(NotOffered::Refused(reasons.join("; "))),
            _ => Err(NotOffered::Refused("it offers nothing".to_owned())),
        }
    }
}

impl Target {
    /// Takes over what the previous process serves, and serves it. That one is to hear `Serving` then.
    ///
    /// # Errors
    /// Why it does not serve: the previous process does.
    pub fn succeed(
        &self,
        channel: &impl Channel,
        former: &impl Former,
        beside: &mut impl Inherits,
    ) -> Result<Succeeded, HandOverError> {
        if let Err(Untaken { reason, is_refused, has_all }) = self.take(channel, beside) {
            if is_refused || !has_all {
                // Before the previous process learns of it, which tries to have it at once.
                beside.give_back();
            }
            // It need not wait for this process until its patience is over.
            let _ = channel.say(&Word::Refused(vec![reason.to_string()]), &[]);
            if !former.has_died(if is_refused { Duration::ZERO } else { DEATH }) {
                beside.give_back();
                self.disown();
                return Err(reason);
            }
            if !has_all || former.has_resumed() {
                beside.give_back();
                self.disown();
                return Ok(Succeeded::StartsAnew(reason));
            }
            tracing::warn!(reason = reason.to_string(), "the former process has died; this one serves");
        }
        if let Err(reason) = beside.go_on() {
            let _ = channel.say(&Word::Refused(vec![reason.to_string()]), &[]);
            beside.give_back();
            self.disown();
            return Err(reason);
        }
        self.go_on();
        Ok(Succeeded::Serves)
    }

    fn take<L: Channel>(&self, channel: &L, beside: &mut impl Inherits) -> Result<(), Untaken> {
        let introduction = beside.introduction().map_err(Untaken::with_nothing)?;
        if let Some(introduction) = introduction {
            channel.say(&Word::Introduction(introduction), &[])?;
        }
        channel.say(&Word::Ready, &[])?;
        let (word, descriptors) = channel.hear()?;
        let state = match word {
            Word::State(state) => *state,
            other => return Err(Untaken::instead_of("how its hosts are", other)),
        };
        let taken = beside.take(&state.beside).and_then(|()| hand_over::<L>(state, descriptors));
        let taken = taken.and_then(|hand_over| self.take_over(hand_over));
        // What it lacks is what keeps hosts from what is reserved against them.
        let failed = taken.map_err(Untaken::with_nothing)?;
        let untaken = match channel.say(&Word::Taken(failed), &[]).and_then(|()| channel.hear()) {
            Ok((Word::Go, _)) => return Ok(()),
            Ok((other, _)) => Untaken::instead_of("that this process is to serve", other),
            Err(error) => error.into(),
        };
        Err(Untaken { has_all: true, ..untaken })
    }
}

impl From<io::Error> for NotOffered {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::InvalidData {
            return Self::Refused(error.to_string());
        }
        Self::Silence(error)
    }
}

impl Untaken {
    const fn with_nothing(reason: HandOverError) -> Self {
        Self { reason, is_refused: false, has_all: false }
    }

    fn instead_of(expected: &'static str, word: Word) -> Self {
        let (reason, is_refused) = match word {
            Word::Refused(reasons) => (HandOverError::Refused(reasons), true),
            _ => (HandOverError::Unsaid(expected), false),
        };
        Self { reason, is_refused, has_all: false }
    }
}

impl From<io::Error> for Untaken {
    fn from(error: io::Error) -> Self {
        Self::with_nothing(error.into())
    }
}

fn hand_over<L: Channel>(state: State, descriptors: Vec<L::Descriptor>) -> Result<HandOver, HandOverError> {
    let State { target, arrivals, beside: _ } = state;
    if descriptors.len() != target.queues.len() + arrivals.len() {
        return Err(HandOverError::Sockets);
    }
    let sockets: io::Result<Vec<Arc<Socket>>> =
        descriptors.into_iter().map(|descriptor| L::socket(descriptor).map(Arc::new)).collect();
    let mut queues = sockets?;
    let untouched = queues.split_off(target.queues.len());
    let arrivals = arrivals.into_iter().zip(untouched);
    let arrivals = arrivals.map(|((port, peer), socket)| (port, peer, socket)).collect();
    Ok(HandOver { state: target, queues, arrivals })
}
