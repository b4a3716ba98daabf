//! Decisions of both processes: the next step after each event. Nothing here waits, sends or looks
//! anything up. Until the old process has said `Go` it may serve on, and after that word only if
//! the new process has refused or died; the new process serves after `Go`, or once the old one has
//! died.

use std::io;

use super::Protocol;
use super::hand_over_error::is_late;
use super::words::Word;

/// Event at a step of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// `Introduction` was heard, and is sound.
    Introduction,
    /// `Ready` was heard.
    Ready,
    /// `State` was heard, and taken over.
    State,
    /// `Taken` was heard.
    Taken,
    /// `Go` was heard.
    Go,
    /// `Serving` was heard.
    Serving,
    /// `Refused` was heard.
    Refused,
    /// Another word was heard, which opens a conversation.
    Other,
    /// No word was heard in time.
    Late,
    /// The channel has ended, or something else than a word came over it.
    Lost,
    /// This process has done its part.
    Done,
    /// This process cannot do its part.
    Failed,
    /// The other process lives.
    Lives,
    /// The other process has died. The flag is set if it had resumed after it handed over.
    Died {
        /// True if what was handed over is void.
        has_resumed: bool,
    },
}

impl Event {
    /// Event of a word.
    pub(super) const fn of<P: Protocol>(word: &Word<P>) -> Self {
        match word {
            Word::Hello { .. } | Word::About(_) | Word::Offer(_) => Self::Other,
            Word::Refused(_) => Self::Refused,
            Word::Introduction(_) => Self::Introduction,
            Word::Ready => Self::Ready,
            Word::State(_) => Self::State,
            Word::Taken(_) => Self::Taken,
            Word::Go => Self::Go,
            Word::Serving => Self::Serving,
        }
    }

    /// Event of a word that was not heard.
    pub(super) fn of_error(error: &io::Error) -> Self {
        if is_late(error) { Self::Late } else { Self::Lost }
    }
}

/// Step of the old process, behind its offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldStep {
    /// Serves while the new process prepares.
    AwaitsReady {
        /// True if the new process has introduced itself.
        is_introduced: bool,
    },
    /// Quiesces what it serves.
    Quiesces,
    /// Hands its state over.
    AwaitsTaken,
    /// Says `Go`.
    Orders,
    /// Serves no longer.
    AwaitsServing {
        /// True if the confirmation has not come in time.
        is_late: bool,
    },
    /// Looks for the life of the new process, which has received `Go` and says nothing.
    AsksLife,
    /// End: serves as before, and has handed nothing over.
    Serves,
    /// End: resumes what was quiesced and handed over.
    Resumes {
        /// True if the new process has refused by itself, or was not given anything.
        has_refused: bool,
    },
    /// End: serves again after `Go`, without its connections.
    ServesAgain {
        /// True if the new process has died, whose commands may still be under way.
        has_died: bool,
    },
    /// End: the new process serves.
    Leaves,
}

impl OldStep {
    /// Step behind the offer.
    pub const FIRST: Self = Self::AwaitsReady { is_introduced: false };

    /// Step after an event.
    #[must_use]
    pub const fn after(self, event: Event) -> Self {
        match (self, event) {
            (Self::AwaitsReady { is_introduced: false }, Event::Introduction) => {
                Self::AwaitsReady { is_introduced: true }
            }
            (Self::AwaitsReady { .. }, Event::Ready) => Self::Quiesces,
            (Self::Quiesces, Event::Done) => Self::AwaitsTaken,
            (Self::AwaitsReady { .. } | Self::Quiesces, _) => Self::Serves,
            (Self::AwaitsTaken, Event::Taken) => Self::Orders,
            (Self::AwaitsTaken, Event::Refused | Event::Failed) => Self::Resumes { has_refused: true },
            (Self::Orders, Event::Done) => Self::AwaitsServing { is_late: false },
            (Self::AwaitsTaken | Self::Orders, _) => Self::Resumes { has_refused: false },
            (Self::AwaitsServing { .. }, Event::Serving) => Self::Leaves,
            // The new process cannot serve, and will not.
            (Self::AwaitsServing { .. }, Event::Refused) => Self::ServesAgain { has_died: false },
            (Self::AwaitsServing { is_late: false }, Event::Late) => Self::AwaitsServing { is_late: true },
            // The confirmation may be lost although the process serves: it has received `Go`.
            (Self::AwaitsServing { .. }, _) => Self::AsksLife,
            (Self::AsksLife, Event::Died { .. }) => Self::ServesAgain { has_died: true },
            (Self::AsksLife, _) => Self::Leaves,
            (end, _) => end,
        }
    }
}

/// Step of the new process, behind the offer that it has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewStep {
    /// Opens what it is to serve.
    Prepares,
    /// Is ready.
    AwaitsState,
    /// Has taken everything over.
    AwaitsGo,
    /// Looks for the life of the old process, which does not let it serve.
    AsksLife {
        /// True if this process has the whole quiesced state.
        has_all: bool,
        /// True if the old process has refused: it lives, or did a moment ago.
        is_refused: bool,
    },
    /// End: serves what it has taken over.
    Serves {
        /// True if the old process has died without its order: requests may still be under way.
        has_died: bool,
    },
    /// End: the old process has died while requests were under way, or after it had resumed.
    StartsAnew,
    /// End: the old process serves.
    Ends,
}

impl NewStep {
    /// Step behind the offer.
    pub const FIRST: Self = Self::Prepares;

    /// Step after an event.
    #[must_use]
    pub const fn after(self, event: Event) -> Self {
        let is_refused = matches!(event, Event::Refused);
        match (self, event) {
            (Self::Prepares, Event::Done) => Self::AwaitsState,
            (Self::AwaitsState, Event::State) => Self::AwaitsGo,
            (Self::AwaitsGo, Event::Go) => Self::Serves { has_died: false },
            (Self::Prepares | Self::AwaitsState, _) => Self::AsksLife { has_all: false, is_refused },
            (Self::AwaitsGo, _) => Self::AsksLife { has_all: true, is_refused },
            (Self::AsksLife { has_all: true, .. }, Event::Died { has_resumed: false }) => {
                Self::Serves { has_died: true }
            }
            (Self::AsksLife { .. }, Event::Died { .. }) => Self::StartsAnew,
            (Self::AsksLife { .. }, _) | (Self::Serves { .. }, Event::Failed) => Self::Ends,
            (end, _) => end,
        }
    }
}
