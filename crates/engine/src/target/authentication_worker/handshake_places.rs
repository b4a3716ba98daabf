//! Places of TLS handshakes that are under way, counted by network: the library holds much memory for each, and who repeats a hello
//! that it has recorded comes that far without a key. What a handshake is, is others' concern.

use std::collections::HashMap;
use std::sync::Arc;

use crate::limits::{TLS_HANDSHAKES_FEW, TLS_HANDSHAKES_MAX, TLS_HANDSHAKES_RESERVE};
use crate::target::controller::Network;

/// Whoever has a clone of a network's has a place.
#[derive(Default)]
pub(super) struct HandshakePlaces(HashMap<Network, Arc<()>>);

impl HandshakePlaces {
    /// How many are taken.
    pub(super) fn taken(&self) -> usize {
        self.0.values().map(taken).sum()
    }

    /// Whether there is one for a host of this network when this number is taken: where one network has taken all, others with few
    /// still get theirs.
    pub(super) fn has_room(&self, network: Network, all: usize) -> bool {
        let few = || self.0.get(&network).map_or(0, taken) < TLS_HANDSHAKES_FEW;
        all < TLS_HANDSHAKES_MAX || all < TLS_HANDSHAKES_MAX + TLS_HANDSHAKES_RESERVE && few()
    }

    /// One for a host of this network.
    pub(super) fn take(&mut self, network: Network) -> Arc<()> {
        self.0.retain(|_, places| taken(places) > 0);
        self.0.entry(network).or_default().clone()
    }
}

fn taken(places: &Arc<()>) -> usize {
    Arc::strong_count(places) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_that_has_taken_all_keeps_no_other_from_a_few() {
        let [crowd, other, third] = [1, 2, 3].map(|last| Network::of([10, 0, 0, last].into()));
        let mut places = HandshakePlaces::default();
        let has_room = |places: &HandshakePlaces, network| places.has_room(network, places.taken());
        let mut held: Vec<_> = (0..TLS_HANDSHAKES_MAX).map(|_| places.take(crowd)).collect();
        assert!(!has_room(&places, crowd) && has_room(&places, other));
        held.extend((0..TLS_HANDSHAKES_FEW).map(|_| places.take(other)));
        assert!(!has_room(&places, other) && has_room(&places, third));
        held.extend((TLS_HANDSHAKES_FEW..TLS_HANDSHAKES_RESERVE).map(|_| places.take(other)));
        assert!(!has_room(&places, third), "there is an end");
        held.clear();
        assert_eq!((places.taken(), has_room(&places, crowd)), (0, true));
        drop(places.take(third));
        assert_eq!(places.0.len(), 1, "who has none is forgotten");
    }
}
