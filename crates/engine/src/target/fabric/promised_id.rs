//! Identifiers promised to hosts, held until their controllers have them or their connections end.

use std::sync::Arc;

use super::admission::Rule;
use super::controllers::NoController;
use super::fabric::Fabric;
use super::promises::Promise;
use crate::target::controller::Network;
use crate::target::lock::lock;

/// An identifier that was promised to a host. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct PromisedId {
    fabric: Arc<Fabric>,
    pub(crate) promise: Promise,
}

impl Drop for PromisedId {
    fn drop(&mut self) {
        lock(&self.fabric.controllers).promises.end(self.promise);
    }
}

impl Fabric {
    /// Promises an identifier to a host of this network that has to authenticate before it gets a controller: what any stranger
    /// can ask for must take nothing from others.
    ///
    /// # Errors
    /// When all are taken by controllers.
    pub(crate) fn promise_id(self: &Arc<Self>, network: Network) -> Result<PromisedId, NoController> {
        let controllers = &mut *lock(&self.controllers);
        let loser = controllers.promises.make_room(network);
        let id = controllers.free_id(&self.controller_ids)?;
        let promise = controllers.promises.add(id, network);
        if loser.is_some()
            && let Some(times) = self.refusals.count(Rule::Promises)
        {
            let rule = Rule::Promises.name();
            tracing::warn!(rule, times, "Took a promised controller identifier back: {}", Rule::Promises);
        }
        Ok(PromisedId { fabric: self.clone(), promise })
    }
}
