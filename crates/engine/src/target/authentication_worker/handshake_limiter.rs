//! Limits on TLS handshakes under way, by network: the library holds much memory for each, and a
//! replayed ClientHello gets that far without a key.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::limits::{
    TLS_HANDSHAKE_PATIENCE_MS, TLS_HANDSHAKES_FEW, TLS_HANDSHAKES_MAX, TLS_HANDSHAKES_RESERVE,
};
use crate::ring::Moment;
use crate::target::controller::Network;
use crate::target::messaging::{Asker, HandshakePermit};

/// Handshakes under way.
#[derive(Default)]
pub(super) struct HandshakeLimiter {
    /// An `Arc` of each network, of which its permits have clones.
    networks: HashMap<Network, Arc<()>>,
    /// In the order in which they began, with some that have ended.
    begun: Vec<Begun>,
    /// Permit of the one that was given up last, which its connection may not have dropped yet.
    given_up: Weak<HandshakePermit>,
}

/// A handshake that has begun, and its connection.
struct Begun {
    permit: Weak<HandshakePermit>,
    network: Network,
    asker: Asker,
    since: Moment,
}

impl HandshakeLimiter {
    /// Number of handshakes under way.
    pub(super) fn under_way(&self) -> usize {
        self.networks.values().map(held).sum()
    }

    /// The same of a network.
    pub(super) fn of(&self, network: Network) -> usize {
        self.networks.get(&network).map_or(0, held)
    }

    /// True if a host of this network may start a handshake while `all` are under way: networks
    /// with few handshakes have a reserve that others cannot exhaust.
    pub(super) fn has_room(&self, network: Network, all: usize) -> bool {
        let few = || self.of(network) < TLS_HANDSHAKES_FEW;
        all < TLS_HANDSHAKES_MAX || all < TLS_HANDSHAKES_MAX + TLS_HANDSHAKES_RESERVE && few()
    }

    /// Counts a handshake of this network until the returned value is dropped.
    pub(super) fn take(&mut self, network: Network, asker: &Asker, now: Moment) -> Arc<HandshakePermit> {
        self.networks.retain(|_, permits| held(permits) > 0);
        if self.begun.len() >= 2 * (TLS_HANDSHAKES_MAX + TLS_HANDSHAKES_RESERVE) {
            self.begun.retain(Begun::is_under_way);
        }
        let permit =
            Arc::new(HandshakePermit { _network: self.networks.entry(network).or_default().clone() });
        self.begun.push(Begun { permit: Arc::downgrade(&permit), network, asker: asker.clone(), since: now });
        permit
    }

    /// Connection whose handshake is given up for a host of this network: the oldest of the network with the most, if that has
    /// more, of those that take long. Many networks that do not go on can hold all permits, and each only for this time. None is
    /// given up before the permit of the last one is free: jobs that come meanwhile would end handshakes that need not end.
    pub(super) fn give_up(&mut self, network: Network, now: Moment) -> Option<Asker> {
        if self.given_up.strong_count() > 0 {
            return None;
        }
        let patience = Duration::from_millis(TLS_HANDSHAKE_PATIENCE_MS);
        let takes_long = |begun: &Begun| begun.is_under_way() && now.since(begun.since) >= patience;
        let slow = self.begun.iter().enumerate().filter(|(_, begun)| takes_long(begun));
        let (most, Reverse(at)) = slow.map(|(at, begun)| (self.of(begun.network), Reverse(at))).max()?;
        if most <= self.of(network) {
            return None;
        }
        let Begun { permit, asker, .. } = self.begun.remove(at);
        self.given_up = permit;
        Some(asker)
    }
}

impl Begun {
    fn is_under_way(&self) -> bool {
        self.permit.strong_count() > 0
    }
}

fn held(permits: &Arc<()>) -> usize {
    Arc::strong_count(permits) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::messaging::Address;

    #[test]
    fn a_network_that_has_taken_all_keeps_no_other_from_a_few() {
        let [crowd, other, third] = [1, 2, 3].map(|last| Network::of([10, 0, 0, last].into()));
        let mut limiter = HandshakeLimiter::default();
        let asker = Asker {
            mailboxes: Arc::default(),
            address: Address { reactor: 0, connection: 0, serial: 1 },
            command_id: 0,
            peer: ([10, 0, 0, 1], 1).into(),
        };
        let take = |limiter: &mut HandshakeLimiter, network| limiter.take(network, &asker, Moment(0));
        let has_room = |limiter: &HandshakeLimiter, network| limiter.has_room(network, limiter.under_way());
        let mut held: Vec<_> = (0..TLS_HANDSHAKES_MAX).map(|_| take(&mut limiter, crowd)).collect();
        assert!(!has_room(&limiter, crowd) && has_room(&limiter, other));
        held.extend((0..TLS_HANDSHAKES_FEW).map(|_| take(&mut limiter, other)));
        assert!(!has_room(&limiter, other) && has_room(&limiter, third));
        held.extend((TLS_HANDSHAKES_FEW..TLS_HANDSHAKES_RESERVE).map(|_| take(&mut limiter, other)));
        assert!(!has_room(&limiter, third), "there is an end");
        held.clear();
        assert_eq!((limiter.under_way(), has_room(&limiter, crowd)), (0, true));
        drop(take(&mut limiter, third));
        assert_eq!(limiter.networks.len(), 1, "who has none is forgotten");
    }
}
