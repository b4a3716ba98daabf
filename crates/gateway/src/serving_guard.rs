//! Guard of the configuration that a gateway's target serves. Its holder may wait for a cluster;
//! readers do not wait for it.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError, TryLockError};

use engine::ring::lock;

use super::membership::Membership;
use super::serving::Serving;

/// Exclusive access to the configuration that the target serves. Dropping it publishes the changes.
#[derive(Debug)]
pub struct ServingGuard<'a> {
    serving: lock::MutexGuard<'a, Serving>,
    last: &'a Mutex<Serving>,
}

impl Deref for ServingGuard<'_> {
    type Target = Serving;

    fn deref(&self) -> &Serving {
        &self.serving
    }
}

impl DerefMut for ServingGuard<'_> {
    fn deref_mut(&mut self) -> &mut Serving {
        &mut self.serving
    }
}

impl Drop for ServingGuard<'_> {
    /// Publishes the changes before the guard is released.
    fn drop(&mut self) {
        *last(self.last) = self.serving.glance();
    }
}

impl Membership {
    /// Locks the configuration that the target serves, to change it.
    pub fn serving_guard(&self) -> ServingGuard<'_> {
        ServingGuard {
            serving: self.serving.lock().unwrap_or_else(PoisonError::into_inner),
            last: &self.served_last,
        }
    }

    /// Copy of the served configuration from the last drop of the guard.
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
