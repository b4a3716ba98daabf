//! Turns of connections that are not queues yet: a few in each round of a reactor, so that thousands of them delay no queue, and
//! one after the other, so that those which always want another turn delay no other one.

use crate::limits::GREETINGS_PER_ROUND;

/// Turns of a reactor's connections that are not queues yet, by their tokens.
#[derive(Debug, Default)]
pub(super) struct Greetings {
    /// Turns of this round.
    taken: usize,
    /// Connections that found none left in this round, in their order.
    postponed: Vec<u32>,
}

impl Greetings {
    /// A round begins, in which the connections in `again` want turns: those that found none in the last round go before those
    /// that have had one and want another.
    pub(super) fn begin_round(&mut self, again: &mut Vec<u32>) {
        self.taken = 0;
        // Both keep their memory, so that no round allocates.
        self.postponed.append(again);
        std::mem::swap(&mut self.postponed, again);
    }

    /// True while connections wait for the next round.
    pub(super) fn are_postponed(&self) -> bool {
        !self.postponed.is_empty()
    }

    /// Takes a turn of this round, if one is left. One is kept for those that have just arrived, if there are any.
    pub(super) const fn take(&mut self, has_arrivals: bool) -> bool {
        let most = if has_arrivals { GREETINGS_PER_ROUND - 1 } else { GREETINGS_PER_ROUND };
        let is_left = self.taken < most;
        self.taken += is_left as usize;
        is_left
    }

    /// Takes a turn for a connection that has just arrived, if one is left.
    pub(super) const fn take_for_arrival(&mut self) -> bool {
        self.take(false)
    }

    /// Leaves a connection to the next round.
    pub(super) fn postpone(&mut self, token: u32) {
        self.postponed.push(token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connections of strangers that always want another turn.
    const STRANGERS: u32 = 100;
    const HONEST: u32 = STRANGERS;

    /// A reactor's rounds.
    #[derive(Default)]
    struct Rounds {
        greetings: Greetings,
        again: Vec<u32>,
    }

    impl Rounds {
        /// Plays a round: the connections that have had a turn, and whether one was left for an arrival.
        fn play(&mut self, has_arrivals: bool) -> (Vec<u32>, bool) {
            self.greetings.begin_round(&mut self.again);
            let mut served = Vec::new();
            for token in std::mem::take(&mut self.again) {
                if self.greetings.take(has_arrivals) {
                    served.push(token);
                    self.again.push(token);
                } else {
                    self.greetings.postpone(token);
                }
            }
            (served, self.greetings.take_for_arrival())
        }
    }

    #[test]
    fn strangers_that_always_want_another_turn_keep_no_other_connection_waiting() {
        let mut rounds = Rounds { again: (0..=STRANGERS).collect(), ..Rounds::default() };
        let all = STRANGERS as usize + 1;
        let most = all.div_ceil(GREETINGS_PER_ROUND);
        for _ in 0..10 {
            let waits = (1..=most).find(|_| rounds.play(false).0.contains(&HONEST));
            assert!(waits.is_some(), "no turn in {most} rounds");
        }
    }

    #[test]
    fn one_that_arrives_has_its_first_turn_beside_any_number_of_others() {
        let mut rounds = Rounds { again: (0..STRANGERS).collect(), ..Rounds::default() };
        for _ in 0..10 {
            let (served, has_arrived) = rounds.play(true);
            assert_eq!((served.len(), has_arrived), (GREETINGS_PER_ROUND - 1, true));
            assert_eq!(
                rounds.play(false).0.len(),
                GREETINGS_PER_ROUND,
                "they have all turns where none arrives"
            );
        }
    }
}
