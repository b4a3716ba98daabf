//! Places of requests that may take long, and of callers whose names are looked up. Callers of a lesser role share a part of
//! the first, so that however much these ask of a silent cluster, callers with more rights find a place.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::access::Peer;
use super::limits::{LOOK_UPS_MAX, SLOW_BELOW_ADMIN_MAX, SLOW_BELOW_OPERATE_MAX, SLOW_MAX};
use crate::spec::role::Role;

/// Places of a listener.
#[derive(Debug)]
pub(super) struct SlowPlaces {
    /// Places of the least roles, those of all roles but the greatest, and all.
    of_roles: [Arc<Semaphore>; 3],
    look_ups: Arc<Semaphore>,
}

/// Place of one request, given back when this is dropped.
#[derive(Debug)]
#[must_use]
pub(super) struct SlowPlace {
    _permits: Vec<OwnedSemaphorePermit>,
}

impl SlowPlaces {
    pub(super) fn new() -> Self {
        let places = |most| Arc::new(Semaphore::new(most));
        let of_roles = [SLOW_BELOW_OPERATE_MAX, SLOW_BELOW_ADMIN_MAX, SLOW_MAX].map(places);
        Self { of_roles, look_ups: places(LOOK_UPS_MAX) }
    }

    /// Place for a peer whose name may be looked up; others need none.
    pub(super) async fn take_look_up(&self, peer: &Peer) -> Option<OwnedSemaphorePermit> {
        if peer.may_be_looked_up() { self.look_ups.clone().acquire_owned().await.ok() } else { None }
    }

    /// Place for a caller of this role, which waits for others of its role or a lesser one.
    pub(super) async fn take(&self, role: Role) -> SlowPlace {
        let first = match role {
            Role::Metrics | Role::Read => 0,
            Role::Operate => 1,
            Role::Admin => 2,
        };
        let mut permits = Vec::new();
        for places in &self.of_roles[first..] {
            // These semaphores are never closed.
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

    /// Value of a future that is ready now.
    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn free(places: &SlowPlaces, role: Role) -> Option<SlowPlace> {
        now(places.take(role))
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

    #[test]
    fn users_whose_look_ups_do_not_end_leave_threads_to_root_and_remote_callers() {
        let places = SlowPlaces::new();
        let user = |uid| Peer::Local { uid, pid: None };
        let look_ups: Vec<_> =
            std::iter::from_fn(|| now(places.take_look_up(&user(3_000_000_017)))).take(100).collect();
        assert_eq!(look_ups.len(), LOOK_UPS_MAX);
        let remote = Peer::Remote { address: ([10, 0, 0, 1], 1).into(), certificate: None };
        let own = user(rustix::process::geteuid().as_raw());
        for peer in [user(0), own, remote, Peer::Process] {
            assert!(now(places.take_look_up(&peer)).is_some_and(|place| place.is_none()), "{peer}");
        }
    }
}
