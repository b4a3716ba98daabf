//! The old process of a hand-over: as long as it has not sent `Go`, it continues unchanged after any
//! failure. Its decisions are [`OldStep`]'s.

use std::io;
use std::time::Duration;

use serde_json::Value;

use super::channel::{Channel, Process};
use super::hand_over_error::HandOverError;
use super::step::{Event, OldStep};
use super::words::Word;
use super::{DEATH, Failure, Protocol};
use crate::ring::Vital;

/// Time after `Go` until a missing confirmation is reported.
const SERVING: Duration = Duration::from_secs(2);

/// Purpose of an incoming connection.
#[derive(Debug)]
pub enum Greeting {
    /// A query of how the process was started.
    Asks,
    /// The new process.
    Comes {
        /// Version of the new process.
        version: String,
        /// Extensions of the format that it knows.
        knows: Vec<String>,
    },
    /// A probe whether this process listens, without any message.
    Probe,
}

impl Greeting {
    /// Reads the first message of an incoming connection.
    ///
    /// # Errors
    /// When it is not a greeting.
    pub fn hear<P: Protocol>(channel: &impl Channel<P>) -> Result<Self, HandOverError> {
        channel.wait_at_most(Some(P::PREPARATION))?;
        match channel.hear() {
            Ok((Word::Hello { asks_only: true, .. }, _)) => Ok(Self::Asks),
            Ok((Word::Hello { version, knows, .. }, _)) => Ok(Self::Comes { version, knows }),
            Ok(_) => Err(HandOverError::NoGreeting),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Self::Probe),
            Err(error) => {
                // A process of another format may not understand it; the reason is for people.
                let _ = channel.say(&Word::Refused(vec![error.to_string()]), &[]);
                Err(error.into())
            }
        }
    }
}

/// Service of the old process, at each of its steps.
pub trait OldService<P: Protocol> {
    /// Checks the new process' introduction before it is ready.
    ///
    /// # Errors
    /// When the introduction is not sound: this process serves on.
    fn introduced(&mut self, _said: Value) -> Result<(), HandOverError> {
        Ok(())
    }

    /// Quiesces everything: nothing is accepted, received or begun until the end of the hand-over.
    ///
    /// # Errors
    /// Part that does not come to an end in time, or has changed since the offer. This process
    /// serves on then, and has resumed everything.
    fn quiesce(&mut self) -> Result<(), HandOverError>;

    /// State of all that is quiesced, with its sockets; locks that the new process needs are
    /// released.
    ///
    /// # Errors
    /// When something cannot be released: this process resumes.
    fn give(&mut self) -> Result<(P::State, Vec<P::Descriptor>), HandOverError>;

    /// The new process has everything but for these parts, each with the reason.
    fn taken(&mut self, failed: Vec<(String, String)>);

    /// The next word is `Go`: this process does nothing more.
    fn before_go(&mut self) {}

    /// `Go` was said.
    fn after_go(&mut self) {}

    /// The new process has received `Go`, and does not confirm in time that it serves.
    fn is_awaited(&mut self);

    /// Leaves behind, for the new process to find also after the death of this one, that the state
    /// handed over is void.
    fn mark_resumed(&mut self);

    /// Resumes everything. `has_refused` is set if the new process has said that it does not serve,
    /// or was given nothing.
    fn resume(&mut self, has_refused: bool);

    /// Serves again after `Go`, without the connections that were handed over. `has_died` is set
    /// unless the new process has refused.
    fn serve_again(&mut self, has_died: bool);

    /// The new process serves.
    fn leave(&mut self);
}

/// Hands over to the process `new`, to which everything was offered. Returns true if that process
/// serves; otherwise it has died after `Go`, or refused to serve, and this one serves again. From
/// the beginning of the quiesce on, a panic ends this process.
///
/// # Errors
/// Reason for which this process serves on as before.
pub fn hand_over<P: Protocol>(
    channel: &impl Channel<P>,
    new: &impl Process,
    service: &mut impl OldService<P>,
) -> Result<bool, HandOverError> {
    let mut step = OldStep::FIRST;
    let mut reason = HandOverError::Instead("Ready");
    loop {
        // A panic would leave everything quiesced here, and the new process serves nothing while
        // this one lives.
        let _vital = (!matches!(step, OldStep::AwaitsReady { .. })).then(Vital::begin);
        let done = match step {
            OldStep::AwaitsReady { is_introduced } => await_ready(channel, service, is_introduced),
            OldStep::Quiesces => quiesce(channel, service),
            OldStep::AwaitsTaken => give(channel, service),
            OldStep::Orders => order(channel, service),
            OldStep::AwaitsServing { is_late } => Ok(await_service(channel, service, is_late)),
            OldStep::AsksLife => Ok(life(new)),
            OldStep::Serves => return Err(reason),
            OldStep::Resumes { has_refused } => {
                // In this order: the new process must not believe that this one has died.
                service.mark_resumed();
                let _ = channel.say(&Word::Refused(vec![reason.to_string()]), &[]);
                service.resume(has_refused);
                return Err(reason);
            }
            OldStep::ServesAgain { has_died } => {
                // A new process that is about to end may still look for the death of this one.
                service.mark_resumed();
                service.serve_again(has_died);
                return Ok(false);
            }
            OldStep::Leaves => {
                service.leave();
                return Ok(true);
            }
        };
        let event = done.unwrap_or_else(|failure| {
            reason = failure.reason;
            failure.event
        });
        step = step.after(event);
    }
}

/// Waits until the new process has opened everything that it needs.
fn await_ready<P: Protocol>(
    channel: &impl Channel<P>,
    service: &mut impl OldService<P>,
    is_introduced: bool,
) -> Result<Event, Failure> {
    match channel.hear() {
        Ok((Word::Ready, _)) => Ok(Event::Ready),
        Ok((Word::Introduction(said), _)) if !is_introduced => {
            let checked = service.introduced(said).map_err(Failure::own);
            checked.inspect_err(|failure| refuse(channel, &failure.reason))?;
            Ok(Event::Introduction)
        }
        Ok((Word::Refused(reasons), _)) => Err(Failure::new(Event::Refused, HandOverError::Refused(reasons))),
        Ok((word, _)) => Err(Failure::new(Event::of(&word), HandOverError::Instead("Ready"))),
        Err(source) => {
            let event = Event::of_error(&source);
            Err(Failure::new(event, HandOverError::NotReady { source, time: P::PREPARATION }))
        }
    }
}

fn quiesce<P: Protocol>(
    channel: &impl Channel<P>,
    service: &mut impl OldService<P>,
) -> Result<Event, Failure> {
    let quiesced = service.quiesce().map_err(Failure::own);
    quiesced.inspect_err(|failure| refuse(channel, &failure.reason))?;
    Ok(Event::Done)
}

/// Hands the quiesced state over, and waits until the new process has it.
fn give<P: Protocol>(channel: &impl Channel<P>, service: &mut impl OldService<P>) -> Result<Event, Failure> {
    let (state, descriptors) = service.give().map_err(Failure::own)?;
    let time = P::TAKING + P::TAKING_EACH * u32::try_from(descriptors.len()).unwrap_or(u32::MAX);
    let not_taken = |source: io::Error| {
        let event = Event::of_error(&source);
        Failure::new(event, HandOverError::NotTaken { source, time })
    };
    channel.wait_at_most(Some(time)).map_err(not_taken)?;
    channel.say(&Word::State(Box::new(state)), &descriptors).map_err(not_taken)?;
    match channel.hear() {
        Ok((Word::Taken(failed), _)) => {
            service.taken(failed);
            Ok(Event::Taken)
        }
        Ok((Word::Refused(reasons), _)) => Err(Failure::new(Event::Refused, HandOverError::Refused(reasons))),
        Ok((word, _)) => Err(Failure::new(Event::of(&word), HandOverError::Instead("its result"))),
        Err(error) => Err(not_taken(error)),
    }
}

/// Says that this process will not go on.
fn order<P: Protocol>(channel: &impl Channel<P>, service: &mut impl OldService<P>) -> Result<Event, Failure> {
    service.before_go();
    channel.say(&Word::Go, &[]).map_err(|error| Failure::new(Event::Lost, error.into()))?;
    service.after_go();
    Ok(Event::Done)
}

/// Waits for the confirmation of the new process, without a limit if it is late.
fn await_service<P: Protocol>(
    channel: &impl Channel<P>,
    service: &mut impl OldService<P>,
    is_late: bool,
) -> Event {
    if is_late {
        service.is_awaited();
    }
    let _ = channel.wait_at_most((!is_late).then_some(SERVING));
    match channel.hear() {
        Ok((word, _)) => Event::of(&word),
        Err(error) => Event::of_error(&error),
    }
}

fn life(new: &impl Process) -> Event {
    if new.has_died(DEATH) { Event::Died { has_resumed: false } } else { Event::Lives }
}

fn refuse<P: Protocol>(channel: &impl Channel<P>, reason: &HandOverError) {
    let _ = channel.say(&Word::Refused(vec![reason.to_string()]), &[]);
}
