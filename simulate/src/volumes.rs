//! The volumes that hosts use: one on the targets' storage, or images that gateways serve. The history knows their blocks as if
//! each came behind the one before.

use std::path::Path;

use engine::simulation::disk;
use engine::simulation::rados;

use crate::gateway_plan::{POOL, image};
use crate::plan::Plan;
use crate::scene::{Scene, VOLUME};

impl Plan {
    /// Number of volumes.
    pub(crate) fn volumes(&self) -> usize {
        self.gateways.as_ref().map_or(1, |plan| plan.groups.len())
    }

    /// The one that a job of a host uses.
    pub(crate) fn volume_of(&self, host: usize, job: u16) -> usize {
        (host + usize::from(job)) % self.volumes()
    }
}

impl Scene {
    /// Contents of the volumes.
    pub(crate) fn content(&self) -> Option<Vec<u8>> {
        if self.plan.gateways.is_none() {
            return disk::content(Path::new(VOLUME));
        }
        let contents: Option<Vec<_>> =
            (0..self.plan.volumes()).map(|volume| rados::content(POOL, &image(volume))).collect();
        contents.map(|contents| contents.concat())
    }

    pub(crate) fn look_at_effects(&self) {
        let effects = match &self.plan.gateways {
            Some(_) => (0..self.plan.volumes())
                .flat_map(|volume| rados::take_effects(POOL, &image(volume)))
                .collect(),
            None => disk::take_effects(Path::new(VOLUME)),
        };
        self.history.borrow().check_effects(&effects);
        self.reservation.borrow().check_effects(&effects, &self.writers.borrow());
    }
}
