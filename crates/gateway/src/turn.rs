//! The right to change what a gateway's target serves. Who has it may wait for a cluster; who only looks does not wait for that.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError, TryLockError};

use engine::ring::lock;

use super::membership::Membership;
use super::serving::Serving;

/// The right to change what the target serves, as long as it is held.
#[derive(Debug)]
pub struct Turn<'a> {
    serving: lock::MutexGuard<'a, Serving>,
    last: &'a Mutex<Serving>,
}

impl Deref for Turn<'_> {
    type Target = Serving;

    fn deref(&self) -> &Serving {
        &self.serving
    }
}

impl DerefMut for Turn<'_> {
    fn deref_mut(&mut self) -> &mut Serving {
        &mut self.serving
    }
}

impl Drop for Turn<'_> {
    /// Publishes the changes before the turn ends.
    fn drop(&mut self) {
        *last(self.last) = self.serving.glance();
    }
}

impl Membership {
    /// The right to change what the target serves.
    pub fn turn(&self) -> Turn<'_> {
        Turn { serving: self.serving.lock().unwrap_or_else(PoisonError::into_inner), last: &self.served_last }
    }

    /// Copy of the served configuration from the end of the last turn.
    pub(super) fn glance(&self) -> Serving {
        match self.serving.try_lock() {
            Ok(serving) => serving.glance(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().glance(),
            Err(TryLockError::WouldBlock) => last(&self.served_last).glance(),
        }
    }
}

fn last(serving: &Mutex<Serving>) -> std::sync::MutexGuard<'_, Serving> {
    serving.lock().unwrap_or_else(PoisonError::into_inner)
}
