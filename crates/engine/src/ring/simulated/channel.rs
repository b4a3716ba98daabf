//! Channels of a simulation, with the standard library's words and errors. They wait in virtual time.

use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::clock;
use super::scheduler::{self, FiberId};
use crate::ring::Moment;

struct State<T> {
    queue: VecDeque<T>,
    senders: usize,
    has_receiver: bool,
    waits: Option<FiberId>,
}

struct Channel<T> {
    state: Mutex<State<T>>,
    bound: usize,
}

impl<T> Channel<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, message: T) -> Result<(), TrySendError<T>> {
        let mut state = self.state();
        if !state.has_receiver {
            return Err(TrySendError::Disconnected(message));
        }
        if state.queue.len() >= self.bound {
            return Err(TrySendError::Full(message));
        }
        state.queue.push_back(message);
        if let Some(waits) = state.waits.take() {
            scheduler::unpark(waits);
        }
        Ok(())
    }

    fn leave(&self) {
        let mut state = self.state();
        state.senders -= 1;
        if state.senders == 0
            && let Some(waits) = state.waits.take()
        {
            scheduler::unpark(waits);
        }
    }
}

macro_rules! sender {
    ($(#[$about:meta])* $name:ident) => {
        $(#[$about])*
        pub struct $name<T>(Arc<Channel<T>>);

        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                self.0.state().senders += 1;
                Self(self.0.clone())
            }
        }

        impl<T> Drop for $name<T> {
            fn drop(&mut self) {
                self.0.leave();
            }
        }

        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    };
}

sender!(
    /// Sends without end.
    Sender
);
sender!(
    /// Sends as much as there is room for.
    SyncSender
);

/// Takes what was sent.
pub struct Receiver<T>(Arc<Channel<T>>);

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receiver")
    }
}

fn make<T>(bound: usize) -> Arc<Channel<T>> {
    let state = State { queue: VecDeque::new(), senders: 1, has_receiver: true, waits: None };
    Arc::new(Channel { state: Mutex::new(state), bound })
}

/// A channel without end.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let channel = make(usize::MAX);
    (Sender(channel.clone()), Receiver(channel))
}

/// A channel with room for `bound`.
pub fn sync_channel<T>(bound: usize) -> (SyncSender<T>, Receiver<T>) {
    let channel = make(bound);
    (SyncSender(channel.clone()), Receiver(channel))
}

impl<T> Sender<T> {
    /// Sends.
    ///
    /// # Errors
    /// Gives the message back when the receiver is gone.
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.0.push(message).map_err(|error| match error {
            TrySendError::Disconnected(message) | TrySendError::Full(message) => SendError(message),
        })
    }
}

impl<T> SyncSender<T> {
    /// Sends, if there is room.
    ///
    /// # Errors
    /// Gives the message back when there is none, or the receiver is gone.
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.0.push(message)
    }
}

impl<T> Receiver<T> {
    /// The next message, if there is one.
    ///
    /// # Errors
    /// When there is none, or none will come.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut state = self.0.state();
        match state.queue.pop_front() {
            Some(message) => Ok(message),
            None if state.senders == 0 => Err(TryRecvError::Disconnected),
            None => Err(TryRecvError::Empty),
        }
    }

    /// All messages that are there.
    pub fn try_iter(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.try_recv().ok())
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// When none will come.
    pub fn recv(&self) -> Result<T, RecvError> {
        self.recv_until(None).map_err(|_| RecvError)
    }

    /// Waits for the next message, for `timeout` at most.
    ///
    /// # Errors
    /// When none came, or none will.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        let deadline = clock::now().after(timeout);
        self.recv_until((deadline.0 != u64::MAX).then_some(deadline))
    }

    fn recv_until(&self, deadline: Option<Moment>) -> Result<T, RecvTimeoutError> {
        loop {
            match self.try_recv() {
                Ok(message) => return Ok(message),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) => {}
            }
            if scheduler::is_ending() {
                return Err(RecvTimeoutError::Disconnected);
            }
            if deadline.is_some_and(|deadline| clock::now() >= deadline) {
                return Err(RecvTimeoutError::Timeout);
            }
            self.0.state().waits = scheduler::current();
            scheduler::park(deadline);
        }
    }
}

impl<T> Iterator for Receiver<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.recv().ok()
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let left = {
            let mut state = self.0.state();
            state.has_receiver = false;
            std::mem::take(&mut state.queue)
        };
        // Outside of the lock: what was never taken may hold senders of this very channel.
        drop(left);
    }
}
