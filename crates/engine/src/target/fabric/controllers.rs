//! The controllers of a target, with the identifiers that they have, had, or will have. It makes none.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::admission::{Admission, Rule};
use super::promises::Promises;
use super::target_config::TargetConfig;
use crate::ring;
use crate::target::controller::{Controller, Network};
use crate::target::served::{Host, Subsystem};

#[derive(Debug)]
pub(super) struct Controllers {
    pub(super) admission: Admission,
    pub(super) by_id: HashMap<u16, Arc<Controller>>,
    /// Controllers that have ended, while the storage may still work on their commands.
    pub(super) ending: HashMap<u16, Arc<Controller>>,
    last_id: u16,
    /// Identifiers that were promised to hosts that have yet to authenticate.
    pub(super) promises: Promises,
    /// The uniquifier that the last controller with each identifier had.
    pub(super) uniquifiers: HashMap<u16, u8>,
}

impl Controllers {
    /// None yet. The first identifier is anywhere, so that two targets that a host takes for one by its configuration hardly
    /// give it the same (it refuses a second controller of one subsystem with the first one's identifier).
    pub(super) fn new(config: &TargetConfig) -> Self {
        let ids = &config.controller_ids;
        let count = u64::from(ids.end().saturating_sub(*ids.start())) + 1;
        Self {
            admission: Admission::new(config.quotas, config.reactors.count()),
            by_id: HashMap::new(),
            ending: HashMap::new(),
            last_id: ids.start() + (ring::random() % count) as u16,
            promises: Promises::default(),
            uniquifiers: HashMap::new(),
        }
    }

    /// Next free identifier after the last one. An identifier is reused as late as possible: a host
    /// that still uses an old one should find no controller rather than another host's.
    pub(super) fn free_id(&mut self, ids: &RangeInclusive<u16>) -> Result<u16, NoController> {
        // A controller that is ending still has its identifier.
        if self.by_id.len() + self.ending.len() + self.promises.len() >= ids.clone().count() {
            return Err(Rule::Controllers.into());
        }
        let mut id = self.last_id;
        loop {
            id = if id >= *ids.start() && id < *ids.end() { id + 1 } else { *ids.start() };
            let is_taken = self.by_id.contains_key(&id) || self.ending.contains_key(&id);
            if !is_taken && !self.promises.have(id) {
                break;
            }
        }
        self.last_id = id;
        Ok(id)
    }

    /// Sees that a host may use its identifier in a subsystem; the controllers of other hosts that have to go for that. Proof
    /// goes before claim: a proved host ends controllers of unproved ones, and is refused for none, not
    /// even for another proved one, which reservations tell from it by its NQN. Between unproved hosts the first keeps the
    /// identifier as long as it has controllers, since two machines with one HOSTID are a mistake that an operator has to learn of.
    /// Hosts without one are all different (Base 5.1.25.1.28), and a discovery service is open to all, where no claim counts.
    ///
    /// # Errors
    /// The host that has the identifier.
    pub(super) fn claim_host_id(
        &self,
        subsystem: &Arc<Subsystem>,
        host: &Host,
        is_proved: bool,
    ) -> Result<Vec<Arc<Controller>>, NoController> {
        if host.is_nameless() || subsystem.is_discovery {
            return Ok(Vec::new());
        }
        let is_other = |known: &&Arc<Controller>| {
            known.host.id == host.id && known.host.nqn != host.nqn && Arc::ptr_eq(&known.subsystem, subsystem)
        };
        let mut others = self.by_id.values().filter(is_other);
        if is_proved {
            return Ok(others.filter(|other| !other.is_proved).cloned().collect());
        }
        match others.next() {
            Some(known) => {
                let taken = format!("{}, which has controller {}", known.host.nqn, known.id);
                Err(NoController::HostIdTaken(taken))
            }
            None => Ok(Vec::new()),
        }
    }

    /// The discovery controller that has to go for another one, when there are as many as there may be: the one that has been
    /// silent for longest, of the network that has the most.
    pub(super) fn discovery_in_excess(&self) -> Option<Arc<Controller>> {
        let discovery = || self.by_id.values().filter(|controller| controller.subsystem.is_discovery);
        let mut by_network: HashMap<Network, usize> = HashMap::new();
        discovery().for_each(|controller| *by_network.entry(controller.guest.network).or_default() += 1);
        if by_network.values().sum::<usize>() < self.admission.quotas().discovery_controllers {
            return None;
        }
        let weight = |controller: &&Arc<Controller>| {
            (Reverse(by_network[&controller.guest.network]), controller.last_received(), controller.id)
        };
        discovery().min_by_key(weight).cloned()
    }
}

/// Why there is no controller, or no queue, for a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoController {
    /// There is no place for it.
    NoPlace(Rule),
    /// The host identifier belongs to another host, which the text names.
    HostIdTaken(String),
}

impl From<Rule> for NoController {
    fn from(rule: Rule) -> Self {
        Self::NoPlace(rule)
    }
}
