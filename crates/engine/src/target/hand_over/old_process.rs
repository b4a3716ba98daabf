//! The old process of a hand-over: as long as it has not sent `Go`, it continues unchanged
//! after any failure.

use std::io;
use std::time::Duration;

use super::HandOver;
use super::beside::Lends;
use super::channel::{Channel, Process};
use super::words::{State, Word};
use crate::ring::{Socket, thread};
use crate::target::Target;
use crate::target::succession::{HandOverError, is_late};

/// Time limit for the new process to open what it is to serve. This process serves meanwhile.
const PREPARATION: Duration = Duration::from_secs(20);
/// Time limit for taking over the hosts, which wait meanwhile; and the addition for each queue.
const TAKING: Duration = Duration::from_secs(2);
const TAKING_QUEUE: Duration = Duration::from_micros(50);
/// Time after `Go` until a missing confirmation is reported.
const SERVING: Duration = Duration::from_secs(2);
/// Time for a process to die after its last message.
const DEATH: Duration = Duration::from_secs(3);

/// Purpose of an incoming connection.
#[derive(Debug)]
pub enum Greeting {
    /// A query of how the target was started.
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
    pub fn hear(channel: &impl Channel) -> Result<Self, HandOverError> {
        channel.wait_at_most(Some(PREPARATION))?;
        match channel.hear() {
            Ok((Word::Hello { asks_only: true, .. }, _)) => Ok(Self::Asks),
            Ok((Word::Hello { version, knows, .. }, _)) => Ok(Self::Comes { version, knows }),
            Ok(_) => Err(HandOverError::NoGreeting),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Self::Probe),
            Err(error) => {
                // What it cannot read, it may not be able to say; the reason is for people.
                let _ = channel.say(&Word::Refused(vec![error.to_string()]), &[]);
                Err(error.into())
            }
        }
    }
}

/// Describes an extension in `needs` that a process does not know, if there is one.
pub fn unknown_to(knows: &[String], needs: &[&str]) -> Option<HandOverError> {
    let unknown = needs.iter().find(|need| !knows.iter().any(|known| known == *need))?;
    Some(HandOverError::Extension((*unknown).to_owned()))
}

impl Target {
    /// Hands over to the process `next`, to which it was said what is served: whether that one
    /// serves now. Where it has died after it was to, this one does, without the hosts that it had.
    /// `tell_resumed` leaves behind, for the new process to find also when this one dies then, that
    /// what was handed over is no longer true.
    ///
    /// # Errors
    /// Why this process serves on as before.
    pub fn hand_over_to(
        &self,
        channel: &impl Channel,
        (next, knows): (&impl Process, &[String]),
        beside: &mut impl Lends,
        tell_resumed: impl FnOnce(),
    ) -> Result<bool, HandOverError> {
        await_ready(channel, beside)?;
        let rest = beside.hold_still().and_then(|()| self.freeze_as_offered(knows));
        let hand_over = match rest {
            Ok(hand_over) => hand_over,
            Err(reason) => {
                let _ = channel.say(&Word::Refused(vec![reason.to_string()]), &[]);
                return Err(reason);
            }
        };
        if let Err(NotGiven { reason, has_refused }) = give(channel, hand_over, beside) {
            // In this order: the new process must not believe that this one has died.
            tell_resumed();
            let _ = channel.say(&Word::Refused(vec![reason.to_string()]), &[]);
            beside.take_back(has_refused);
            self.go_on();
            return Err(reason);
        }
        let is_over = self.await_service(channel, next, beside);
        if is_over {
            self.configurator.leave();
            beside.leave();
        } else {
            // One that is about to end may still look whether this process has died at rest.
            tell_resumed();
            beside.begin_again();
            self.go_on();
        }
        Ok(is_over)
    }

    /// Brings everything to rest, unless something has come about since it was offered that the new
    /// process would not know.
    fn freeze_as_offered(&self, knows: &[String]) -> Result<HandOver, HandOverError> {
        let hand_over = self.freeze()?;
        let obstacles = self.obstacles();
        let reason = if obstacles.is_empty() {
            unknown_to(knows, &self.needs())
        } else {
            Some(HandOverError::Obstacles(obstacles))
        };
        let Some(reason) = reason else { return Ok(hand_over) };
        self.go_on();
        Err(reason)
    }

    /// `Go` was said. Whether the new process serves.
    fn await_service(&self, channel: &impl Channel, next: &impl Process, beside: &mut impl Lends) -> bool {
        let _ = channel.wait_at_most(Some(SERVING));
        let mut heard = channel.hear();
        if heard.as_ref().is_err_and(is_late) {
            beside.is_awaited();
            let _ = channel.wait_at_most(None);
            heard = channel.hear();
        }
        match heard {
            Ok((Word::Serving, _)) => return true,
            // It has not understood that it is to serve, and will not.
            Ok((Word::Refused(_), _)) => self.disown(),
            // The confirmation may be lost although the process serves: it has received `Go`.
            _ if !next.has_died(DEATH) => return true,
            _ => {
                self.disown();
                // Its commands may still be at the storage, for the quiesce time reported to hosts.
                thread::sleep(self.fabric.longest_quiesce());
            }
        }
        false
    }
}

/// Waits until the new process has opened all that it needs.
fn await_ready(channel: &impl Channel, beside: &mut impl Lends) -> Result<(), HandOverError> {
    let mut is_known = false;
    loop {
        match channel.hear() {
            Ok((Word::Ready, _)) => return Ok(()),
            Ok((Word::Introduction(said), _)) if !is_known => {
                is_known = true;
                beside.introduced(said).inspect_err(|reason| {
                    let _ = channel.say(&Word::Refused(vec![reason.to_string()]), &[]);
                })?;
            }
            Ok((Word::Refused(reasons), _)) => return Err(HandOverError::Refused(reasons)),
            Ok(_) => return Err(HandOverError::Instead("Ready")),
            Err(source) => return Err(HandOverError::NotReady { source, time: PREPARATION }),
        }
    }
}

/// Why this process goes on.
struct NotGiven {
    reason: HandOverError,
    /// True if the new process has refused by itself, or has not been given anything yet.
    has_refused: bool,
}

impl NotGiven {
    const fn silently(reason: HandOverError) -> Self {
        Self { reason, has_refused: false }
    }
}

/// Hands over how the hosts are, and says that this process will not go on.
fn give(channel: &impl Channel, hand_over: HandOver, beside: &mut impl Lends) -> Result<(), NotGiven> {
    let lent = beside.let_go().map_err(|reason| NotGiven { reason, has_refused: true })?;
    let HandOver { state, queues, arrivals } = hand_over;
    let taking = TAKING + TAKING_QUEUE * u32::try_from(queues.len()).unwrap_or(u32::MAX);
    let untaken =
        |source: io::Error| NotGiven::silently(HandOverError::HostsNotTaken { source, time: taking });
    channel.wait_at_most(Some(taking)).map_err(untaken)?;
    let places = arrivals.iter().map(|(port, peer, _)| (*port, *peer)).collect();
    let sockets = queues.iter().chain(arrivals.iter().map(|(_, _, socket)| socket));
    let sockets: Vec<&Socket> = sockets.map(|socket| &**socket).collect();
    let word = Word::State(Box::new(State { target: state, arrivals: places, beside: lent }));
    channel.say(&word, &sockets).map_err(untaken)?;
    match channel.hear() {
        Ok((Word::Taken(failed), _)) => {
            for (host, reason) in failed {
                tracing::warn!(
                    host,
                    reason,
                    "the next process cannot take a queue over; its host connects again"
                );
            }
        }
        Ok((Word::Refused(reasons), _)) => {
            return Err(NotGiven { reason: HandOverError::Refused(reasons), has_refused: true });
        }
        Ok(_) => return Err(NotGiven::silently(HandOverError::Instead("its result"))),
        Err(error) => return Err(untaken(error)),
    }
    beside.rest();
    channel.say(&Word::Go, &[]).map_err(|error| NotGiven::silently(error.into()))
}
