//! Outcome of a task: one side gives it, or is dropped, and the other awaits it.

use std::any::Any;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Value that a task has returned, or that it has panicked with.
pub(super) type Returned<T> = Result<T, Box<dyn Any + Send>>;

#[derive(Debug)]
struct State<T> {
    returned: Option<Returned<T>>,
    has_ended: bool,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct Shared<T>(Mutex<State<T>>);

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The side of the task.
pub(super) struct Giver<T>(Arc<Shared<T>>);

/// The side that awaits it: `None` when the task was dropped before its end.
#[derive(Debug)]
pub(super) struct Outcome<T>(Arc<Shared<T>>);

/// Both sides.
pub(super) fn outcome<T>() -> (Giver<T>, Outcome<T>) {
    let state = State { returned: None, has_ended: false, waker: None };
    let shared = Arc::new(Shared(Mutex::new(state)));
    (Giver(shared.clone()), Outcome(shared))
}

impl<T> Giver<T> {
    pub(super) fn give(self, returned: Returned<T>) {
        self.0.state().returned = Some(returned);
    }
}

impl<T> Drop for Giver<T> {
    fn drop(&mut self) {
        let waker = {
            let mut state = self.0.state();
            state.has_ended = true;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Future for Outcome<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut state = self.0.state();
        if !state.has_ended {
            state.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        let returned = state.returned.take();
        // A task's waiter panics with it, without our lock.
        drop(state);
        Poll::Ready(returned.map(|returned| returned.unwrap_or_else(|panic| resume_unwind(panic))))
    }
}
