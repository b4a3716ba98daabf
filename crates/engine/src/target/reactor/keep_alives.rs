//! The controllers whose queues a reactor has, and when the first of them could be silent for too long.

use std::collections::BTreeMap;
use std::sync::Arc;

use nvme::cross_reset::ControllerInstance;

use crate::ring::Moment;
use crate::target::controller::Controller;

/// Controllers, each with the number of its queues here. In the order of their instances: what a simulation does must not
/// depend on where they are in memory.
#[derive(Debug, Default)]
pub(super) struct KeepAlives {
    controllers: BTreeMap<ControllerInstance, (Arc<Controller>, usize)>,
}

impl KeepAlives {
    /// The controller has one more queue here.
    pub(super) fn add_queue(&mut self, controller: Option<&Arc<Controller>>) {
        if let Some(controller) = controller {
            self.controllers.entry(controller.instance).or_insert_with(|| (controller.clone(), 0)).1 += 1;
        }
    }

    /// The controller has one queue less here.
    pub(super) fn remove_queue(&mut self, controller: Option<&Arc<Controller>>) {
        if let Some(controller) = controller
            && let Some((_, queues)) = self.controllers.get_mut(&controller.instance)
        {
            *queues -= 1;
            if *queues == 0 {
                self.controllers.remove(&controller.instance);
            }
        }
    }

    /// Controllers whose hosts are silent, or that have ended.
    pub(super) fn over(&self, now: Moment) -> Vec<Arc<Controller>> {
        let controllers = self.controllers.values().map(|(controller, _)| controller);
        controllers
            .filter(|controller| controller.has_ended() || controller.is_silent(now))
            .cloned()
            .collect()
    }

    /// Earliest time at which one of the controllers could be silent.
    pub(super) fn first_silent_at(&self) -> Option<Moment> {
        self.controllers.values().filter_map(|(controller, _)| controller.silent_at()).min()
    }
}
