//! Rates of hosts' changes: each is written to a disk, and some to the audit log. A host that asks for one after the other must
//! neither fill these nor keep others from them. Places among the waiting requests are in `shares`.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use nvme::Status;

use super::shares::Party;
use crate::limits::{
    HOST_CHANGE_INTERVAL_MS, HOST_RESERVATION_INTERVAL_MS, JOBS_SHARE_OF_HOST, JOBS_SHARE_OF_NETWORK,
};
use crate::ring::Moment;
use crate::target::controller::Guest;
use crate::target::lock::lock;

/// Rates of requests to the administration, and of reservation commands that change something.
#[derive(Debug)]
pub(crate) struct ChangeRates {
    pub(crate) requests: ChangeRate,
    pub(crate) reservations: ChangeRate,
}

impl Default for ChangeRates {
    fn default() -> Self {
        Self {
            requests: ChangeRate::new(HOST_CHANGE_INTERVAL_MS),
            reservations: ChangeRate::new(HOST_RESERVATION_INTERVAL_MS),
        }
    }
}

/// Rate of changes by each host: some at once, and one after each interval.
#[derive(Debug)]
pub(crate) struct ChangeRate {
    interval: Duration,
    /// Moments at which parties have their whole credit again, of those that do not have it.
    whole: Mutex<HashMap<Party, Moment>>,
}

impl ChangeRate {
    fn new(interval_ms: u64) -> Self {
        Self { interval: Duration::from_millis(interval_ms), whole: Mutex::default() }
    }

    /// Counts a command that makes this number of changes, of a host that may make `at_once`.
    ///
    /// # Errors
    /// Command Interrupted if the host, or its network, has no credit left: it may send the command again.
    pub(crate) fn count(
        &self,
        guest: &Guest,
        (changes, at_once): (usize, u32),
        now: Moment,
    ) -> Result<(), Status> {
        let (parties, credit) = (Party::all_of(guest), self.interval * at_once);
        let mut whole = lock(&self.whole);
        whole.retain(|_, at| *at > now);
        if parties.iter().any(|party| whole.get(party).is_some_and(|at| at.since(now) >= credit)) {
            return Err(Status::COMMAND_INTERRUPTED);
        }
        for party in parties {
            let cost = self.cost(&party, changes);
            let at = whole.entry(party).or_insert(now);
            *at = at.after(cost);
        }
        Ok(())
    }

    /// Takes back what was counted for a command that was not begun.
    pub(crate) fn uncount(&self, guest: &Guest, changes: usize) {
        let mut whole = lock(&self.whole);
        for party in Party::all_of(guest) {
            if let Some(at) = whole.get_mut(&party) {
                *at = Moment(at.0.saturating_sub(self.cost(&party, changes).as_nanos() as u64));
            }
        }
    }

    /// Time of the credit of a party that changes by its host take.
    fn cost(&self, party: &Party, changes: usize) -> Duration {
        let of_host = self.interval * changes as u32;
        match party {
            Party::Host { .. } => of_host,
            Party::Network(_) => of_host * JOBS_SHARE_OF_NETWORK as u32 / JOBS_SHARE_OF_HOST as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::controller::Network;

    const AT_ONCE: usize = 8;
    const START: Moment = Moment(1_000_000_000);

    fn guest(nqn: &str, last: u8, is_proved: bool) -> Guest {
        let network = Network::of([10, 0, 0, last].into());
        Guest { nqn: nqn.to_owned(), network, is_named: true, is_proved }
    }

    /// Changes that this host may make at a moment.
    fn count_all(rate: &ChangeRate, guest: &Guest, now: Moment) -> usize {
        (0..100).take_while(|_| rate.count(guest, (1, AT_ONCE as u32), now).is_ok()).count()
    }

    #[test]
    fn a_host_that_never_ends_leaves_others_their_changes_and_has_one_more_with_time() {
        let rate = ChangeRate::new(1000);
        let (greedy, other) = (guest("greedy", 1, true), guest("other", 1, true));
        assert_eq!(count_all(&rate, &greedy, START), AT_ONCE);
        let one = (1, AT_ONCE as u32);
        assert_eq!(rate.count(&greedy, one, START), Err(Status::COMMAND_INTERRUPTED), "it may come again");
        assert_eq!(rate.count(&other, (AT_ONCE, AT_ONCE as u32), START), Ok(()));
        assert_eq!(count_all(&rate, &other, START), 0, "one command may make many");
        let later = |ms| START.after(Duration::from_millis(ms));
        assert_eq!(count_all(&rate, &greedy, later(999)), 1, "a part of a change counts as one");
        assert_eq!(count_all(&rate, &greedy, later(1000)), 0);
        assert_eq!(count_all(&rate, &greedy, later(3_600_000)), AT_ONCE, "no more than at first");
        assert_eq!(lock(&rate.whole).len(), 1, "a party with its whole credit leaves no trace");
    }

    #[test]
    fn names_of_one_network_that_prove_nothing_share_what_a_network_has() {
        let rate = ChangeRate::new(1000);
        let name = |number: usize| guest(&format!("nqn.{number}"), 1, false);
        let counted: usize = (0..100).map(|number| count_all(&rate, &name(number), START)).sum();
        assert_eq!(counted, AT_ONCE * JOBS_SHARE_OF_HOST / JOBS_SHARE_OF_NETWORK);
        assert_eq!(count_all(&rate, &guest("nqn.0", 1, true), START), AT_ONCE, "a proved name has its own");
        assert_eq!(count_all(&rate, &guest("elsewhere", 2, false), START), AT_ONCE);
    }
}
