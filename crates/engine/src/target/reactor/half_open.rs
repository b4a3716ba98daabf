//! Connections of a reactor that are not queues yet. Any peer can open one, so their number is
//! limited: at the limit, the oldest connection of the network with the most has to go.

use std::collections::{HashMap, VecDeque};

use crate::limits::HALF_OPEN_PER_REACTOR_MAX;
use crate::target::controller::Network;

/// Connections in the order in which they came, by any name that tells them apart.
#[derive(Debug)]
pub(crate) struct HalfOpen<T> {
    entries: VecDeque<(T, Network)>,
    by_network: HashMap<Network, usize>,
}

impl<T> Default for HalfOpen<T> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), by_network: HashMap::new() }
    }
}

impl<T> HalfOpen<T> {
    /// Takes one in.
    pub(crate) fn push(&mut self, one: T, network: Network) {
        self.entries.push_back((one, network));
        *self.by_network.entry(network).or_default() += 1;
    }

    /// The oldest of all.
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.take(0)
    }

    /// Takes out the first that is meant, if there is one.
    pub(crate) fn remove(&mut self, is_meant: impl Fn(&T) -> bool) -> Option<T> {
        let at = self.entries.iter().position(|(one, _)| is_meant(one))?;
        self.take(at)
    }

    /// Takes out one that has to go, while there are too many: the oldest of the network that has the most.
    pub(crate) fn take_surplus(&mut self) -> Option<T> {
        (self.entries.len() > HALF_OPEN_PER_REACTOR_MAX).then(|| self.take_heaviest()).flatten()
    }

    /// Takes out the oldest of the network that has the most.
    pub(crate) fn take_heaviest(&mut self) -> Option<T> {
        let most = self.by_network.values().copied().max()?;
        // Of several that have as many, the one whose oldest is older: no order of the map's comes in.
        let at = self.entries.iter().position(|(_, network)| self.by_network.get(network) == Some(&most))?;
        self.take(at)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes all out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.by_network.clear();
        self.entries.drain(..).map(|(one, _)| one)
    }

    fn take(&mut self, at: usize) -> Option<T> {
        let (one, network) = self.entries.remove(at)?;
        if let Some(count) = self.by_network.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                self.by_network.remove(&network);
            }
        }
        Some(one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(last: u8) -> Network {
        Network::of([10, 0, 0, last].into())
    }

    #[test]
    fn who_has_the_most_loses_the_oldest() {
        let mut all = HalfOpen::default();
        all.push(0, network(1));
        for number in 1..=HALF_OPEN_PER_REACTOR_MAX {
            assert_eq!(all.take_surplus(), None);
            all.push(number, network(9));
        }
        assert_eq!(all.take_surplus(), Some(1), "the only one of another network stays, though it is older");
        assert_eq!(all.take_surplus(), None);
        assert_eq!(all.remove(|one| *one == 3), Some(3));
        assert_eq!((all.pop(), all.pop()), (Some(0), Some(2)));
        assert_eq!(all.drain().count(), HALF_OPEN_PER_REACTOR_MAX - 3);
        assert!(all.is_empty() && all.by_network.is_empty() && all.take_heaviest().is_none());
    }

    #[test]
    fn of_many_networks_the_oldest_connection_goes() {
        let mut all = HalfOpen::default();
        for number in 0..=HALF_OPEN_PER_REACTOR_MAX {
            let [.., high, low] = (number as u32).to_be_bytes();
            all.push(number, Network::of([10, 1, high, low].into()));
        }
        assert_eq!(all.take_surplus(), Some(0));
    }
}
