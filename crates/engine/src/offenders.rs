//! Parties that have failed to prove who they are, and the delay of the answer to each failure. Nothing but that answer is
//! delayed: a right proof of the same party has its own at once, so that failures of a neighbour cost it nothing.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use crate::limits::{AUTHENTICATION_DELAY_MS, AUTHENTICATION_DELAY_MS_MAX, AUTHENTICATION_OFFENDERS_MAX};
use crate::ring::Moment;

#[derive(Debug)]
struct Record {
    failures: u32,
    last: Moment,
}

/// Parties that have failed since they last succeeded, each by a name `P`.
#[derive(Debug)]
pub struct Offenders<P>(HashMap<P, Record>);

impl<P> Default for Offenders<P> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<P: Hash + Eq + Clone> Offenders<P> {
    /// Counts a failure; the delay of its answer.
    pub fn add(&mut self, party: &P, now: Moment) -> Duration {
        if !self.0.contains_key(party) && self.0.len() >= AUTHENTICATION_OFFENDERS_MAX {
            let oldest = self.0.iter().min_by_key(|(_, record)| record.last).map(|(party, _)| party.clone());
            oldest.map(|oldest| self.0.remove(&oldest));
        }
        let record = self.0.entry(party.clone()).or_insert(Record { failures: 0, last: now });
        record.failures = record.failures.saturating_add(1);
        record.last = now;
        let doubled = AUTHENTICATION_DELAY_MS << (record.failures.max(1) - 1).min(16);
        Duration::from_millis(doubled.min(AUTHENTICATION_DELAY_MS_MAX))
    }

    /// Forgets the failures of a party that has succeeded.
    pub fn forgive(&mut self, party: &P) {
        self.0.remove(party);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn party(number: usize) -> String {
        format!("nqn.{number}")
    }

    fn ms(ms: u64) -> Moment {
        Moment(ms * 1_000_000)
    }

    #[test]
    fn each_failure_doubles_the_delay_of_its_party_alone() {
        let mut offenders = Offenders::default();
        for delay_ms in [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000] {
            assert_eq!(offenders.add(&party(1), ms(5_000)), Duration::from_millis(delay_ms));
        }
        (0..100).for_each(|_| assert_eq!(offenders.add(&party(1), ms(5_000)).as_millis(), 10_000));
        assert_eq!(offenders.add(&party(2), ms(5_000)).as_millis(), 100);
        offenders.forgive(&party(1));
        assert_eq!(offenders.add(&party(1), ms(5_000)).as_millis(), 100);
    }

    #[test]
    fn no_crowd_of_offenders_takes_more_than_its_room() {
        let mut offenders = Offenders::default();
        for number in 0..AUTHENTICATION_OFFENDERS_MAX + 10 {
            offenders.add(&party(number), Moment(number as u64));
        }
        assert_eq!(offenders.0.len(), AUTHENTICATION_OFFENDERS_MAX);
        assert!(!offenders.0.contains_key(&party(9)) && offenders.0.contains_key(&party(10)));
    }
}
