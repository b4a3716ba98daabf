//! Limits on TLS handshakes under way, by network: the library holds much memory for each, and a
//! replayed ClientHello gets that far without a key.

use std::collections::HashMap;
use std::sync::Arc;

use crate::limits::{TLS_HANDSHAKES_FEW, TLS_HANDSHAKES_MAX, TLS_HANDSHAKES_RESERVE};
use crate::target::controller::Network;

/// Handshakes under way by network. Each holds a clone of its network's `Arc`.
#[derive(Default)]
pub(super) struct HandshakeLimiter(HashMap<Network, Arc<()>>);

impl HandshakeLimiter {
    /// Number of handshakes under way.
    pub(super) fn under_way(&self) -> usize {
        self.0.values().map(held).sum()
    }

    /// True if a host of this network may start a handshake while `all` are under way: networks
    /// with few handshakes have a reserve that others cannot exhaust.
    pub(super) fn has_room(&self, network: Network, all: usize) -> bool {
        let few = || self.0.get(&network).map_or(0, held) < TLS_HANDSHAKES_FEW;
        all < TLS_HANDSHAKES_MAX || all < TLS_HANDSHAKES_MAX + TLS_HANDSHAKES_RESERVE && few()
    }

    /// Counts a handshake of this network until the returned value is dropped.
    pub(super) fn take(&mut self, network: Network) -> Arc<()> {
        self.0.retain(|_, permits| held(permits) > 0);
        self.0.entry(network).or_default().clone()
    }
}

fn held(permits: &Arc<()>) -> usize {
    Arc::strong_count(permits) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_that_has_taken_all_keeps_no_other_from_a_few() {
        let [crowd, other, third] = [1, 2, 3].map(|last| Network::of([10, 0, 0, last].into()));
        let mut limiter = HandshakeLimiter::default();
        let has_room = |limiter: &HandshakeLimiter, network| limiter.has_room(network, limiter.under_way());
        let mut held: Vec<_> = (0..TLS_HANDSHAKES_MAX).map(|_| limiter.take(crowd)).collect();
        assert!(!has_room(&limiter, crowd) && has_room(&limiter, other));
        held.extend((0..TLS_HANDSHAKES_FEW).map(|_| limiter.take(other)));
        assert!(!has_room(&limiter, other) && has_room(&limiter, third));
        held.extend((TLS_HANDSHAKES_FEW..TLS_HANDSHAKES_RESERVE).map(|_| limiter.take(other)));
        assert!(!has_room(&limiter, third), "there is an end");
        held.clear();
        assert_eq!((limiter.under_way(), has_room(&limiter, crowd)), (0, true));
        drop(limiter.take(third));
        assert_eq!(limiter.0.len(), 1, "who has none is forgotten");
    }
}
