//! Places of requests that may take long. Callers of a lesser role share a part of them, so that however much these ask of a
//! cluster that does not respond, callers with more rights find a place.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits::{SLOW_BELOW_ADMIN_MAX, SLOW_BELOW_OPERATE_MAX, SLOW_MAX};
use crate::spec::role::Role;

/// Places of a listener: those of the least roles, those of all roles but the greatest, and all.
#[derive(Debug)]
pub(super) struct SlowPlaces([Arc<Semaphore>; 3]);

/// Place of one request, given back when this is dropped.
#[derive(Debug)]
#[must_use]
pub(super) struct SlowPlace {
    _permits: Vec<OwnedSemaphorePermit>,
}

impl SlowPlaces {
    pub(super) fn new() -> Self {
        Self(
            [SLOW_BELOW_OPERATE_MAX, SLOW_BELOW_ADMIN_MAX, SLOW_MAX]
                .map(|most| Arc::new(Semaphore::new(most))),
        )
    }

    /// Place for a caller of this role, which waits for others of its role or a lesser one.
    pub(super) async fn take(&self, role: Role) -> SlowPlace {
        let first = match role {
            Role::Metrics | Role::Read => 0,
            Role::Operate => 1,
            Role::Admin => 2,
        };
        let mut permits = Vec::new();
        for places in &self.0[first..] {
            // They are never closed.
            permits.extend(places.clone().acquire_owned().await);
        }
        SlowPlace { _permits: permits }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Place that is free now, if one is.
    fn free(places: &SlowPlaces, role: Role) -> Option<SlowPlace> {
        match pin!(places.take(role)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(place) => Some(place),
            Poll::Pending => None,
        }
    }

    fn fill(places: &SlowPlaces, role: Role) -> Vec<SlowPlace> {
        std::iter::from_fn(|| free(places, role)).collect()
    }

    #[test]
    fn callers_of_a_lesser_role_leave_places_to_those_of_a_greater_one() {
        let places = SlowPlaces::new();
        let readers = fill(&places, Role::Read);
        assert_eq!(readers.len(), SLOW_BELOW_OPERATE_MAX);
        let operators = fill(&places, Role::Operate);
        assert_eq!(readers.len() + operators.len(), SLOW_BELOW_ADMIN_MAX);
        let mut admins = fill(&places, Role::Admin);
        assert_eq!(admins.len(), SLOW_MAX - SLOW_BELOW_ADMIN_MAX);
        admins.pop();
        assert!(free(&places, Role::Read).is_none() && free(&places, Role::Operate).is_none());
        assert!(free(&places, Role::Admin).is_some());
        drop((readers, operators, admins));
        assert_eq!(fill(&places, Role::Admin).len(), SLOW_MAX, "an administrator alone has all");
    }
}
