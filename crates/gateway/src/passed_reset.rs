//! What other gateways ask of this one for hosts that have lost it: resets of its own controllers, each begun once, and
//! whether it has ended. Who asks, and how the answer gets there, is not its business.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::beat::Lost;

/// The resets that others ask for.
#[derive(Debug, Default)]
pub(crate) struct PassedResets {
    /// With whether nothing of the controller can still take effect. One that is none of this gateway's stays without.
    known: Mutex<BTreeMap<Lost, Arc<AtomicBool>>>,
}

impl PassedResets {
    /// Records all that others ask for now, and forgets what they did before. What is new, with what has to be set when
    /// it is done.
    pub(crate) fn hear(&self, asked: &BTreeSet<Lost>) -> Vec<(Lost, Arc<AtomicBool>)> {
        let mut known = self.lock();
        known.retain(|lost, _| asked.contains(lost));
        let mut new = Vec::new();
        for lost in asked.iter().filter(|lost| !known.contains_key(*lost)) {
            new.push((lost.clone(), Arc::default()));
        }
        known.extend(new.iter().cloned());
        new
    }

    /// Controllers whose commands can no longer take effect.
    pub(crate) fn rested(&self) -> Vec<Lost> {
        let known = self.lock();
        let rested = known.iter().filter(|(_, is_at_rest)| is_at_rest.load(Ordering::Acquire));
        rested.map(|(lost, _)| lost.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Lost, Arc<AtomicBool>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use engine::target::LostController;
    use nvme::cross_reset::ControllerInstance;

    use super::*;

    fn lost(cntlid: u16) -> Lost {
        LostController {
            instance: ControllerInstance { controller_id: cntlid, uniquifier: 1, random_number: 7 },
            subsystem: "s".to_owned(),
            host_nqn: "h".to_owned(),
            host_id: uuid::Uuid::nil(),
        }
        .into()
    }

    #[test]
    fn each_reset_is_begun_once_and_reported_while_a_gateway_asks() {
        let resets = PassedResets::default();
        let both = BTreeSet::from([lost(1), lost(2)]);
        let new = resets.hear(&both);
        assert_eq!(new.iter().map(|(lost, _)| lost.clone()).collect::<BTreeSet<_>>(), both);
        assert!(resets.hear(&both).is_empty() && resets.rested().is_empty());
        new[1].1.store(true, Ordering::Release);
        assert_eq!(resets.rested(), [new[1].0.clone()]);
        assert!(resets.hear(&BTreeSet::from([lost(1)])).is_empty());
        assert!(resets.rested().is_empty(), "no gateway asks for it now");
        assert_eq!(resets.hear(&both).len(), 1, "it is begun again");
    }
}
