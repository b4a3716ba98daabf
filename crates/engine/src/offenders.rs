//! Parties that have failed to authenticate, and the wait before their next attempt: guessing costs
//! time, and only the party that guesses.

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
    /// Counts a failure of a party.
    pub fn add(&mut self, party: &P, now: Moment) {
        if !self.0.contains_key(party) && self.0.len() >= AUTHENTICATION_OFFENDERS_MAX {
            let oldest = self.0.iter().min_by_key(|(_, record)| record.last).map(|(party, _)| party.clone());
            oldest.map(|oldest| self.0.remove(&oldest));
        }
        let record = self.0.entry(party.clone()).or_insert(Record { failures: 0, last: now });
        record.failures = record.failures.saturating_add(1);
        record.last = now;
    }

    /// Forgets the failures of a party that has succeeded.
    pub fn forgive(&mut self, party: &P) {
        self.0.remove(party);
    }

    /// Number of failures of a party.
    pub fn failures(&self, party: &P) -> u32 {
        self.0.get(party).map_or(0, |record| record.failures)
    }

    /// Time of a party's next attempt.
    pub fn due(&self, party: &P) -> Moment {
        self.0.get(party).map_or(Moment(0), |Record { failures, last }| {
            let doubled = AUTHENTICATION_DELAY_MS << (failures - 1).min(16);
            last.after(Duration::from_millis(doubled.min(AUTHENTICATION_DELAY_MS_MAX)))
        })
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
        assert_eq!(offenders.due(&party(1)), Moment(0));
        for (failures, delay_ms) in
            [(1, 100), (2, 200), (3, 400), (4, 800), (5, 1600), (6, 3200), (7, 6400), (8, 10_000)]
        {
            offenders.add(&party(1), ms(5_000));
            assert_eq!(offenders.failures(&party(1)), failures);
            assert_eq!(offenders.due(&party(1)), ms(5_000 + delay_ms), "{failures}");
        }
        (0..100).for_each(|_| offenders.add(&party(1), ms(5_000)));
        assert_eq!(offenders.due(&party(1)), ms(15_000));
        assert_eq!(offenders.due(&party(2)), Moment(0));
        offenders.forgive(&party(1));
        assert_eq!(offenders.failures(&party(1)), 0);
    }

    #[test]
    fn no_crowd_of_offenders_takes_more_than_its_room() {
        let mut offenders = Offenders::default();
        for number in 0..AUTHENTICATION_OFFENDERS_MAX + 10 {
            offenders.add(&party(number), Moment(number as u64));
        }
        assert_eq!(offenders.0.len(), AUTHENTICATION_OFFENDERS_MAX);
        assert_eq!((offenders.failures(&party(9)), offenders.failures(&party(10))), (0, 1));
    }
}
