//! Turns of hosts at the reservation worker: a host that sends a hundred commands waits behind itself.

use std::collections::VecDeque;

/// Jobs that wait, those of each party in their order.
pub(super) struct Turns<P, J>(VecDeque<(P, VecDeque<J>)>);

impl<P, J> Default for Turns<P, J> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<P: PartialEq, J> Turns<P, J> {
    /// Adds a job of this party.
    pub(super) fn put(&mut self, party: P, job: J) {
        match self.0.iter_mut().find(|(known, _)| *known == party) {
            Some((_, jobs)) => jobs.push_back(job),
            None => self.0.push_back((party, VecDeque::from([job]))),
        }
    }

    /// Takes the next job: the first one of the party whose turn it is.
    pub(super) fn next(&mut self) -> Option<J> {
        let (party, mut jobs) = self.0.pop_front()?;
        let job = jobs.pop_front();
        if !jobs.is_empty() {
            self.0.push_back((party, jobs));
        }
        job
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_of_one_host_waits_behind_itself() {
        let mut turns = Turns::default();
        (0..100).for_each(|job| turns.put("greedy", job));
        assert_eq!(turns.next(), Some(0));
        turns.put("modest", 1000);
        turns.put("modest", 1001);
        let next: Vec<_> = (0..5).map(|_| turns.next()).collect();
        assert_eq!(next, [Some(1), Some(1000), Some(2), Some(1001), Some(3)]);
        assert_eq!(std::iter::from_fn(|| turns.next()).collect::<Vec<_>>(), (4..100).collect::<Vec<_>>());
    }
}
