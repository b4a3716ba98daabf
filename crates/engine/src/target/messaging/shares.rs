//! Shares of hosts in what waits for another thread: none, and no network of hosts that prove nothing, takes all of it. What
//! waits, and for which thread, is not known here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use nvme::Status;

use crate::limits::{
    ALLOCATION_JOBS_MAX, HOST_REQUESTS_MAX, JOBS_SHARE_OF_HOST, JOBS_SHARE_OF_NETWORK, RESERVATION_JOBS_MAX,
};
use crate::target::controller::{Guest, Network};
use crate::target::lock::lock;

/// Shares in the jobs of a target's workers, and in the requests that wait for its administration.
#[derive(Debug)]
pub(crate) struct HostShares {
    pub(crate) reservations: Shares,
    pub(crate) allocations: Shares,
    pub(crate) requests: Shares,
}

impl Default for HostShares {
    fn default() -> Self {
        Self {
            reservations: Shares::of(RESERVATION_JOBS_MAX),
            allocations: Shares::of(ALLOCATION_JOBS_MAX),
            requests: Shares::of(HOST_REQUESTS_MAX),
        }
    }
}

/// Holder of a share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Party {
    /// Host by its name, which is a claim unless `is_proved` is set.
    Host { nqn: String, is_proved: bool },
    /// All hosts of a network that have not proved their names.
    Network(Network),
}

impl Party {
    /// The host, and its network unless it has proved its name.
    pub(super) fn all_of(Guest { nqn, network, is_proved, .. }: &Guest) -> Vec<Self> {
        let mut parties = vec![Self::Host { nqn: nqn.clone(), is_proved: *is_proved }];
        parties.extend((!is_proved).then_some(Self::Network(*network)));
        parties
    }
}

/// Places in one queue, by those that have some.
#[derive(Debug)]
pub(crate) struct Shares {
    of_host: usize,
    of_network: usize,
    taken: Arc<Mutex<HashMap<Party, usize>>>,
}

impl Shares {
    /// Of a queue with this number of places.
    fn of(places: usize) -> Self {
        let (of_host, of_network) = (places / JOBS_SHARE_OF_HOST, places / JOBS_SHARE_OF_NETWORK);
        Self { of_host, of_network, taken: Arc::default() }
    }

    /// Gives a host a place.
    ///
    /// # Errors
    /// Command Interrupted if the host, or its network, has its share: it may send the command again.
    pub(crate) fn take(&self, guest: &Guest) -> Result<Share, Status> {
        let parties = Party::all_of(guest);
        let mut taken = lock(&self.taken);
        for party in &parties {
            let most = match party {
                Party::Host { .. } => self.of_host,
                Party::Network(_) => self.of_network,
            };
            if taken.get(party).is_some_and(|places| *places >= most) {
                return Err(Status::COMMAND_INTERRUPTED);
            }
        }
        for party in &parties {
            *taken.entry(party.clone()).or_default() += 1;
        }
        drop(taken);
        Ok(Share { parties, taken: self.taken.clone() })
    }
}

/// Place in a queue. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Share {
    parties: Vec<Party>,
    taken: Arc<Mutex<HashMap<Party, usize>>>,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        for party in &self.parties {
            if let Some(places) = taken.get_mut(party) {
                *places -= 1;
                if *places == 0 {
                    taken.remove(party);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest(nqn: &str, last: u8, is_proved: bool) -> Guest {
        Guest {
            nqn: nqn.to_owned(),
            network: Network::of([10, 0, 0, last].into()),
            is_named: true,
            is_proved,
        }
    }

    /// As many places as there are for this host.
    fn take_all(shares: &Shares, guest: &Guest) -> Vec<Share> {
        std::iter::from_fn(|| shares.take(guest).ok()).collect()
    }

    #[test]
    fn a_host_that_takes_its_share_leaves_others_theirs_and_gets_it_back() {
        let shares = Shares::of(64);
        let (greedy, other) = (guest("greedy", 1, false), guest("other", 1, false));
        let taken = take_all(&shares, &greedy);
        assert_eq!(taken.len(), 64 / JOBS_SHARE_OF_HOST);
        assert_eq!(shares.take(&greedy).unwrap_err(), Status::COMMAND_INTERRUPTED);
        assert!(shares.take(&other).is_ok());
        assert!(
            shares.take(&guest("greedy", 1, true)).is_ok(),
            "the host that proves this name is another one"
        );
        drop(taken);
        assert!(lock(&shares.taken).is_empty(), "who has nothing leaves no trace");
        assert!(shares.take(&greedy).is_ok());
    }

    #[test]
    fn names_of_one_network_that_prove_nothing_share_what_a_network_has() {
        let shares = Shares::of(64);
        let name = |number: usize| format!("nqn.{number}");
        let taken: Vec<Share> =
            (0..64).flat_map(|number| take_all(&shares, &guest(&name(number), 1, false))).collect();
        assert_eq!(taken.len(), 64 / JOBS_SHARE_OF_NETWORK);
        assert!(shares.take(&guest("nqn.0", 1, true)).is_ok(), "who proves its name does not count there");
        assert!(shares.take(&guest("elsewhere", 2, false)).is_ok());
    }
}
