//! A step before a request that may change something: the target takes over what was changed through other gateways. It asks the
//! cluster, and so needs a place among requests that may take long.

use std::sync::Arc;

use axum::extract::Request;

use super::administration::Administration;
use crate::spec::role::Role;

/// The step, as an extension of the request before which it comes.
#[derive(Clone)]
pub(super) struct CatchUp(Arc<dyn Fn() + Send + Sync>);

impl CatchUp {
    pub(super) fn new(step: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(step))
    }

    /// The step of a target, which only a gateway has.
    pub(super) fn of(administration: Arc<Administration>) -> Self {
        // Without an answer, what is known is looked at, and a change of something older is refused.
        Self::new(move || {
            administration.membership().into_iter().for_each(|membership| membership.catch_up());
        })
    }

    /// The step before this request. A caller that may change nothing gets answers from what is known.
    pub(super) fn before(request: &Request, role: Role) -> Option<Self> {
        let step = request.extensions().get::<Self>();
        step.filter(|_| role > Role::Read).cloned()
    }

    pub(super) fn run(&self) {
        (self.0)();
    }
}
