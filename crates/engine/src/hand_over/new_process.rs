//! The new process of a hand-over: takes everything over, and serves as soon as the old process
//! says so, or has died. Its decisions are [`NewStep`]'s.

use std::io;
use std::time::Duration;

use serde_json::Value;

use super::channel::{Channel, OldProcess};
use super::hand_over_error::HandOverError;
use super::step::{Event, NewStep};
use super::words::Word;
use super::{DEATH, Failure, Protocol};

/// Reason for which nothing was offered.
#[derive(Debug)]
pub enum NotOffered {
    /// No response, or an incomplete one.
    Silence(io::Error),
    /// The old process serves on, for this reason.
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

/// Result of a take-over.
#[derive(Debug)]
pub enum TakeOverOutcome {
    /// This process serves.
    Serves,
    /// Neither process serves: the old one has died while requests were under way, or has changed
    /// the state after handing it over. The service has to be started for this reason, as after the
    /// end of any process.
    StartsAnew(HandOverError),
}

/// Service of the new process, at each of its steps.
pub trait NewService<P: Protocol, D> {
    /// Waits until everything is open. Returns information about this process that the old one
    /// needs.
    ///
    /// # Errors
    /// When something cannot be opened: the old process serves on.
    fn prepare(&mut self) -> Result<Option<Value>, HandOverError>;

    /// Takes over what the old process has quiesced. Returns the parts that cannot be taken over,
    /// each with the reason.
    ///
    /// # Errors
    /// When it cannot be served: the old process resumes.
    fn take(&mut self, state: P::State, descriptors: Vec<D>) -> Result<Vec<(String, String)>, HandOverError>;

    /// Gives back locks that were taken, if any: either the old process continues with them, or
    /// neither process does. May come twice.
    fn give_back(&mut self) {}

    /// Serves. `has_died` is set if the old process has died without the order to serve.
    ///
    /// # Errors
    /// When it cannot: the old process serves again.
    fn go_on(&mut self, has_died: bool) -> Result<(), HandOverError>;

    /// Closes what was taken over; users get no notice.
    fn disown(&mut self) {}
}

/// Greets the old process. Returns its offer, with descriptors.
///
/// # Errors
/// Reason for which it offers nothing.
pub fn ask<P: Protocol, C: Channel<P>>(
    channel: &C,
    version: &str,
    knows: Vec<String>,
) -> Result<(P::Offer, Vec<C::Descriptor>), NotOffered> {
    channel.say(&Word::Hello { version: version.to_owned(), asks_only: false, knows }, &[])?;
    match channel.hear()? {
        (Word::Offer(offer), descriptors) => Ok((*offer, descriptors)),
        (Word::Refused(reasons), _) => Err(NotOffered::Refused(reasons.join("; "))),
        _ => Err(NotOffered::Refused("it offers nothing".to_owned())),
    }
}

/// Takes over what the old process serves, and serves it. That one is to hear `Serving` then.
///
/// # Errors
/// Reason for which this process does not serve: the old process does.
pub fn take_over<P: Protocol, C: Channel<P>>(
    channel: &C,
    old: &impl OldProcess,
    service: &mut impl NewService<P, C::Descriptor>,
) -> Result<TakeOverOutcome, HandOverError> {
    let mut step = NewStep::FIRST;
    let mut reason = HandOverError::Unsaid(STATE);
    let mut failed = Vec::new();
    loop {
        let done = match step {
            NewStep::Prepares => service.prepare().map_err(Failure::own).and_then(|introduction| {
                introduce(channel, introduction)?;
                Ok(Event::Done)
            }),
            NewStep::AwaitsState => take(channel, service).map(|untaken| {
                failed = untaken;
                Event::State
            }),
            NewStep::AwaitsGo => await_go(channel, std::mem::take(&mut failed)),
            NewStep::AsksLife { has_all, is_refused } => {
                if is_refused || !has_all {
                    // Before the old process learns of it, which tries to have it at once.
                    service.give_back();
                }
                // Without this word, the old process would wait until its time limit.
                let _ = channel.say(&Word::Refused(vec![reason.to_string()]), &[]);
                Ok(life(old, has_all, is_refused))
            }
            NewStep::Serves { has_died } => {
                if has_died {
                    tracing::warn!(reason = reason.to_string(), "the old process has died; this one serves");
                }
                match service.go_on(has_died) {
                    Ok(()) => return Ok(TakeOverOutcome::Serves),
                    Err(error) => {
                        let _ = channel.say(&Word::Refused(vec![error.to_string()]), &[]);
                        Err(Failure::own(error))
                    }
                }
            }
            NewStep::StartsAnew | NewStep::Ends => {
                service.give_back();
                service.disown();
                let starts = matches!(step, NewStep::StartsAnew);
                return if starts { Ok(TakeOverOutcome::StartsAnew(reason)) } else { Err(reason) };
            }
        };
        let event = done.unwrap_or_else(|failure| {
            reason = failure.reason;
            failure.event
        });
        step = step.after(event);
    }
}

/// Names of missing words in errors.
const STATE: &str = "how its clients are";
const GO: &str = "that this process is to serve";

/// Introduces this process, and says that it is ready.
fn introduce<P: Protocol>(channel: &impl Channel<P>, introduction: Option<Value>) -> Result<(), Failure> {
    if let Some(introduction) = introduction {
        channel.say(&Word::Introduction(introduction), &[]).map_err(lost)?;
    }
    channel.say(&Word::Ready, &[]).map_err(lost)
}

/// Takes over the state of the old process. Returns the parts that are not taken over.
fn take<P: Protocol, C: Channel<P>>(
    channel: &C,
    service: &mut impl NewService<P, C::Descriptor>,
) -> Result<Vec<(String, String)>, Failure> {
    match channel.hear().map_err(lost)? {
        (Word::State(state), descriptors) => service.take(*state, descriptors).map_err(Failure::own),
        (other, _) => Err(instead_of(STATE, other)),
    }
}

/// Says that everything is taken over, and waits for the order to serve.
fn await_go<P: Protocol>(channel: &impl Channel<P>, failed: Vec<(String, String)>) -> Result<Event, Failure> {
    channel.say(&Word::Taken(failed), &[]).map_err(lost)?;
    match channel.hear().map_err(lost)? {
        (Word::Go, _) => Ok(Event::Go),
        (other, _) => Err(instead_of(GO, other)),
    }
}

fn life(old: &impl OldProcess, has_all: bool, is_refused: bool) -> Event {
    if !old.has_died(if is_refused { Duration::ZERO } else { DEATH }) {
        return Event::Lives;
    }
    Event::Died { has_resumed: has_all && old.has_resumed() }
}

fn lost(error: io::Error) -> Failure {
    Failure::new(Event::of_error(&error), error.into())
}

fn instead_of<P: Protocol>(expected: &'static str, word: Word<P>) -> Failure {
    let event = Event::of(&word);
    let reason = match word {
        Word::Refused(reasons) => HandOverError::Refused(reasons),
        _ => HandOverError::Unsaid(expected),
    };
    Failure::new(event, reason)
}
