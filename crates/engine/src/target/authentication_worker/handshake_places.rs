//! Limits on TLS handshakes under way, by network: the library holds much memory for each, and a
//! replayed ClientHello gets that far without a key.

use std::collections::HashMap;
use std::sync::Arc;

use crate::limits::{TLS_HANDSHAKES_FEW, TLS_HANDSHAKES_MAX, TLS_HANDSHAKES_RESERVE};
use crate::target::controller::Network;

/// Handshakes under way by network. Each holds a clone of its network's `Arc`.
#[derive(Default)]
pub(super) struct HandshakePlaces(HashMap<Network, Arc<()>>);

impl HandshakePlaces {
    /// Number of handshakes under way.
    pub(super) fn taken(&self) -> usize {
        self.0.values().map(taken).sum()
    }

    /// True if a host of this network may start a handshake while `all` are under way: networks
    /// with few handshakes have a reserve that others cannot exhaust.
    pub(super) fn has_room(&self, network: Network, all: usize) -> bool {
        let few = || self.0.get(&network).map_or(0, taken) < TLS_HANDSHAKES_FEW;
        all < TLS_HANDSHAKES_MAX || all < TLS_HANDSHAKES_MAX + TLS_HANDSHAKES_RESERVE && few()
    }

    /// Counts a handshake of this network until the returned value is dropped.
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
