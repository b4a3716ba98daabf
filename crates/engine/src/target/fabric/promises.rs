//! Identifiers of controllers that hosts were promised in the answer to their Connect, before they have proved their names. Any
//! stranger can ask for one, so that a network has a quota of them, and all networks together leave enough for all controllers
//! that there may be. Each host that asks gets one: the oldest promise goes, of the network that has the most.

use std::collections::{BTreeMap, HashMap};

use crate::limits::{PROMISED_IDS_MAX, PROMISED_IDS_PER_NETWORK_MAX};
use crate::target::controller::Network;

/// A promise, by the identifier and the number that no other promise has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Promise {
    pub(crate) id: u16,
    serial: u64,
}

/// Promises that hold.
#[derive(Debug, Default)]
pub(super) struct Promises {
    by_id: BTreeMap<u16, (Promise, Network)>,
    last_serial: u64,
}

impl Promises {
    /// True if the identifier is promised.
    pub(super) fn have(&self, id: u16) -> bool {
        self.by_id.contains_key(&id)
    }

    /// True if this promise still holds.
    pub(super) fn hold(&self, promise: Promise) -> bool {
        self.by_id.get(&promise.id).is_some_and(|(known, _)| *known == promise)
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Makes room for another promise to a host of this network: the network that loses one, if one does.
    pub(super) fn make_room(&mut self, network: Network) -> Option<Network> {
        let mut crowds: HashMap<Network, usize> = HashMap::new();
        self.by_id.values().for_each(|(_, of)| *crowds.entry(*of).or_default() += 1);
        let loses = if crowds.get(&network).is_some_and(|own| *own >= PROMISED_IDS_PER_NETWORK_MAX) {
            network
        } else if self.by_id.len() >= PROMISED_IDS_MAX {
            // Of several that have as many, the one with the older promise: no order of the map's comes in.
            let oldest = |network: Network| self.oldest_of(network).map(|promise| promise.serial);
            let most = crowds.into_iter().max_by_key(|(of, count)| (*count, std::cmp::Reverse(oldest(*of))));
            most.map(|(network, _)| network)?
        } else {
            return None;
        };
        let oldest = self.oldest_of(loses)?;
        self.by_id.remove(&oldest.id);
        Some(loses)
    }

    fn oldest_of(&self, network: Network) -> Option<Promise> {
        let own = self.by_id.values().filter(|(_, of)| *of == network);
        own.map(|(promise, _)| *promise).min_by_key(|promise| promise.serial)
    }

    /// Promises a free identifier to a host of this network.
    pub(super) fn add(&mut self, id: u16, network: Network) -> Promise {
        self.last_serial += 1;
        let promise = Promise { id, serial: self.last_serial };
        self.by_id.insert(id, (promise, network));
        promise
    }

    /// The promise is kept, or no longer wanted.
    pub(super) fn end(&mut self, promise: Promise) {
        if self.hold(promise) {
            self.by_id.remove(&promise.id);
        }
    }
}

/// Identifier that a controller is to have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WantedId {
    /// Any that is free.
    Any,
    /// The one that its host was promised.
    Promised(Promise),
    /// The one that it had in the old process.
    Former(u16),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(number: usize) -> Network {
        Network::of(std::net::Ipv4Addr::from(number as u32).into())
    }

    #[test]
    fn a_network_that_asks_for_many_loses_its_own() {
        let mut promises = Promises::default();
        let honest = promises.add(0xffff, network(1));
        let mut lost = Vec::new();
        for id in 0..3 * PROMISED_IDS_MAX as u16 {
            lost.extend(promises.make_room(network(2)));
            promises.add(id, network(2));
        }
        assert!(promises.hold(honest) && lost.iter().all(|loser| *loser == network(2)));
        assert_eq!(promises.len(), PROMISED_IDS_PER_NETWORK_MAX + 1);
    }

    #[test]
    fn of_many_networks_the_one_with_the_most_loses_its_oldest() {
        let mut promises = Promises::default();
        let heavy = [promises.add(0, network(0)), promises.add(1, network(0))];
        for number in 2..PROMISED_IDS_MAX {
            assert_eq!(promises.make_room(network(number)), None);
            promises.add(number as u16, network(number));
        }
        assert_eq!(promises.make_room(network(9999)), Some(network(0)));
        assert!(!promises.hold(heavy[0]) && promises.hold(heavy[1]));
        promises.add(0, network(9999));
        promises.end(heavy[0]);
        assert!(promises.have(0), "the end of a promise that was lost ends no other of the same identifier");
        assert_eq!(promises.make_room(network(7777)), Some(network(0)), "of equals the oldest goes");
    }
}
