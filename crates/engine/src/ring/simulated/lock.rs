//! Locks of a simulation that are held while their holder waits: others then wait in virtual time.
//! A lock of the standard library is enough where it is never held across a wait.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{self, LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::Duration;

use super::clock;
use super::scheduler::{self, FiberId};

/// A lock.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    value: sync::Mutex<T>,
    waiting: sync::Mutex<Vec<FiberId>>,
}

/// Access to the value, while the lock is held.
pub struct MutexGuard<'a, T> {
    /// There until it is given back.
    guard: Option<sync::MutexGuard<'a, T>>,
    mutex: &'a Mutex<T>,
}

impl<T> Mutex<T> {
    /// A lock that is free.
    pub const fn new(value: T) -> Self {
        Self { value: sync::Mutex::new(value), waiting: sync::Mutex::new(Vec::new()) }
    }

    /// Takes it as soon as it is free.
    ///
    /// # Errors
    /// Never: a panic ends the simulation.
    ///
    /// # Panics
    /// When it is held in a process that has ended, by a thread that has not been unwound.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        loop {
            match self.value.try_lock() {
                Ok(guard) => return Ok(MutexGuard { guard: Some(guard), mutex: self }),
                Err(TryLockError::Poisoned(error)) => {
                    return Ok(MutexGuard { guard: Some(error.into_inner()), mutex: self });
                }
                Err(TryLockError::WouldBlock) => {}
            }
            assert!(!scheduler::is_ending(), "a lock is held in a process that has ended");
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).extend(scheduler::current());
            scheduler::park(None);
        }
    }

    /// Takes it if it is free.
    ///
    /// # Errors
    /// It is held.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        match self.value.try_lock() {
            Ok(guard) => Ok(MutexGuard { guard: Some(guard), mutex: self }),
            Err(TryLockError::Poisoned(error)) => {
                Ok(MutexGuard { guard: Some(error.into_inner()), mutex: self })
            }
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
        }
    }

    /// The value, for the lock's only owner.
    ///
    /// # Errors
    /// Never.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        Ok(self.value.get_mut().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().expect("there until it is given back")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("there until it is given back")
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.guard = None;
        let waiting = std::mem::take(&mut *self.mutex.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        waiting.into_iter().for_each(scheduler::unpark);
    }
}

/// Wakes those who wait for something that a lock keeps.
#[derive(Debug, Default)]
pub struct Condvar {
    waiting: sync::Mutex<Vec<FiberId>>,
}

/// Result of a wait with a time-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// True if the time was over.
    pub const fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// A condition variable without waiters.
    pub const fn new() -> Self {
        Self { waiting: sync::Mutex::new(Vec::new()) }
    }

    /// Wakes all who wait.
    pub fn notify_all(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        waiting.into_iter().for_each(scheduler::unpark);
    }

    /// Gives the lock back and waits, for as long as `waits` says, for `timeout` at most.
    ///
    /// # Errors
    /// Never.
    pub fn wait_timeout_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        timeout: Duration,
        mut waits: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let deadline = clock::now().after(timeout);
        while waits(&mut guard) {
            if scheduler::is_ending() || clock::now() >= deadline {
                return Ok((guard, WaitTimeoutResult(true)));
            }
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).extend(scheduler::current());
            let mutex = guard.mutex;
            drop(guard);
            scheduler::park(Some(deadline));
            guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
        }
        Ok((guard, WaitTimeoutResult(false)))
    }
}
