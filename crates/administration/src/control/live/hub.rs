//! Where viewers and the one thread that samples meet: who looks, what they are sent, and the hour that is kept. It knows
//! no target: what is sampled comes from outside.

use std::cmp::Reverse;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use hyper::body::Bytes;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::super::access::Identity;
use super::super::limits::{LIVE_HISTORY_STEP, LIVE_LINGER, LIVE_TICK, VIEWER_EVENTS_MAX, VIEWERS_MAX};
use super::super::refusal::Refusal;
use super::history::History;

/// Something that viewers are sent, as it stands in the stream.
#[derive(Clone, Debug)]
pub(super) enum Message {
    Roster(Bytes),
    Findings(Bytes),
    Tick(Bytes),
}

/// The meeting place.
#[derive(Debug, Default)]
pub(in crate::control) struct Hub {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Each with the caller that looks, in the order of their coming.
    viewers: Vec<(Identity, Sender<Message>)>,
    /// Set when a viewer has come that has no roster yet.
    wants_roster: bool,
    history: History,
    thread: Option<JoinHandle<()>>,
    /// Number of the thread that samples now; a thread with a lower number ends.
    round: u64,
    /// True while there is a thread. The thread clears it before it ends, so a later viewer starts
    /// another.
    is_running: bool,
    /// Time since which there is no viewer.
    left: Option<Instant>,
}

/// Next action of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Sample, for those who look.
    Tick {
        wants_roster: bool,
    },
    /// Sample for the history alone.
    Step,
    End,
}

impl Hub {
    /// A place among the viewers, for this caller. `start` starts the thread that samples, where there is none, with its
    /// number.
    pub(super) fn enter(
        &self,
        caller: &Identity,
        start: impl FnOnce(u64) -> io::Result<JoinHandle<()>>,
    ) -> Result<Receiver<Message>, Refusal> {
        let mut state = self.lock();
        state.forget_those_who_left();
        if state.viewers.len() >= VIEWERS_MAX && !state.make_room(caller) {
            let refusal = Refusal::new(503, format!("{VIEWERS_MAX} viewers look at this target already"));
            return Err(refusal.hint("close one of them"));
        }
        if !state.is_running {
            if let Some(ended) = state.thread.take() {
                // It has announced its end and waits for nothing. The message of a panic has been
                // printed.
                let _ = ended.join();
            }
            let failed =
                |error| Refusal::new(503, format!("there is no thread to sample the target: {error}"));
            state.round += 1;
            state.thread = Some(start(state.round).map_err(failed)?);
            state.is_running = true;
        }
        let (sender, receiver) = channel(VIEWER_EVENTS_MAX);
        state.viewers.push((caller.clone(), sender));
        (state.wants_roster, state.left) = (true, None);
        self.changed.notify_all();
        Ok(receiver)
    }

    /// Waits until it is time for the next sample of the thread with this number, the last of which was `last`.
    pub(super) fn wait(&self, round: u64, last: Option<Instant>) -> Next {
        let mut state = self.lock();
        loop {
            if round != state.round {
                return Next::End;
            }
            state.forget_those_who_left();
            let now = Instant::now();
            let is_alone = state.viewers.is_empty();
            let pause = if is_alone { LIVE_HISTORY_STEP } else { LIVE_TICK };
            let left = if is_alone { Some(*state.left.get_or_insert(now)) } else { None };
            // What is kept would be older than what it is kept for.
            if left.is_some_and(|left| now.duration_since(left) >= LIVE_LINGER) {
                state.is_running = false;
                state.history = History::default();
                return Next::End;
            }
            let due = last.map_or(now, |last| last + pause);
            if now >= due {
                let wants_roster = std::mem::take(&mut state.wants_roster);
                return if is_alone { Next::Step } else { Next::Tick { wants_roster } };
            }
            let waited = self.changed.wait_timeout(state, due - now);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Sends all viewers this. One that does not read misses it: nothing is kept for anybody.
    pub(super) fn send(&self, message: &Message) {
        for (_, viewer) in &self.lock().viewers {
            // Viewers that have left are removed before the next sample.
            let _ = viewer.try_send(message.clone());
        }
    }

    /// Looks at the history, or adds to it.
    pub(super) fn with_history<T>(&self, act: impl FnOnce(&mut History) -> T) -> T {
        act(&mut self.lock().history)
    }

    /// Ends the thread, unless there are viewers on another listener.
    pub(in crate::control) fn rest(&self) {
        let thread = {
            let mut state = self.lock();
            state.forget_those_who_left();
            if !state.viewers.is_empty() {
                return;
            }
            // A viewer that comes later starts another thread.
            state.round += 1;
            (state.is_running, state.history) = (false, History::default());
            self.changed.notify_all();
            state.thread.take()
        };
        if let Some(thread) = thread {
            // The message of a panic has been printed.
            let _ = thread.join();
        }
    }

    /// The thread with this number ends, since what it samples is gone.
    pub(super) fn rest_by_itself(&self, round: u64) {
        let mut state = self.lock();
        if round != state.round {
            return;
        }
        (state.is_running, state.history) = (false, History::default());
        // Viewers must not be left waiting.
        state.viewers.clear();
    }

    /// Number of viewers.
    #[cfg(test)]
    pub(super) fn viewers(&self) -> usize {
        let mut state = self.lock();
        state.forget_those_who_left();
        state.viewers.len()
    }

    #[cfg(test)]
    pub(super) fn is_running(&self) -> bool {
        self.lock().is_running
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn forget_those_who_left(&mut self) {
        self.viewers.retain(|(_, viewer)| !viewer.is_closed());
    }

    /// Ends the oldest stream of the caller that has the most, if this one still has fewer with another; false otherwise.
    fn make_room(&mut self, caller: &Identity) -> bool {
        let held = |by: &Identity| self.viewers.iter().filter(|(holder, _)| holder == by).count();
        let places = self.viewers.iter().enumerate().map(|(at, (holder, _))| (held(holder), Reverse(at)));
        let Some((most, Reverse(oldest))) = places.max() else { return false };
        let is_fairer = held(caller) + 1 < most;
        if is_fairer {
            self.viewers.remove(oldest);
        }
        is_fairer
    }
}

/// The hub of a target, which its thread has too.
pub(in crate::control) type SharedHub = Arc<Hub>;
