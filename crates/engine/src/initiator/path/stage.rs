//! Stages of a command's time at the host, as histograms that one thread writes. The stages at the
//! target are the target's to report.

use serde::Serialize;

use crate::Histogram;
use crate::initiator::Timing;
use crate::ring::Moment;

/// A part of a command's time, from when it is taken until it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// Wait for a path, or for a free entry of a queue. Time before it had to be sent again counts
    /// here too.
    Waiting,
    /// Hand-over of the command, or of the data that the target asked for, to the socket.
    Sending,
    /// Time at the target, and on the way there and back.
    Target,
    /// Reception of its data and response.
    Receiving,
}

impl Stage {
    /// All of them, each at the place of its number.
    pub const ALL: [Self; 4] = [Self::Waiting, Self::Sending, Self::Target, Self::Receiving];

    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Sending => "sending",
            Self::Target => "target",
            Self::Receiving => "receiving",
        }
    }
}

/// Times of commands in each stage. Each command is in all of them, and its times add up to its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StageLatencies([Histogram; Stage::ALL.len()]);

/// Latencies of these histograms, each at the place of its stage's number.
impl From<[Histogram; Stage::ALL.len()]> for StageLatencies {
    fn from(stages: [Histogram; Stage::ALL.len()]) -> Self {
        Self(stages)
    }
}

impl StageLatencies {
    /// The times in this stage.
    pub const fn of(&self, stage: Stage) -> &Histogram {
        &self.0[stage as usize]
    }

    /// Commands counted.
    pub fn count(&self) -> u64 {
        self.0[0].count()
    }

    /// All times of all commands, in nanoseconds.
    pub fn sum_ns(&self) -> u64 {
        self.0.iter().map(|stage| stage.sum_ns).sum()
    }

    /// Counts all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, others)| own.merge(others));
    }

    /// Times since `earlier`, an earlier state of these.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|stage| self.0[stage].since(&earlier.0[stage])))
    }

    /// Counts a command that was taken, put on a queue, and is complete now.
    pub(super) fn add(&mut self, taken: Moment, queued: Moment, timing: Timing, now: Moment) {
        let between = |from: Moment, to: Moment| to.since(from).as_nanos() as u64;
        let waiting = between(taken, queued);
        let rest = between(queued, now);
        let target = timing.target_ns.min(rest);
        let receiving = between(timing.answered.max(queued), now).min(rest - target);
        // What is left is sending, which may have been in several parts.
        let times = [waiting, rest - target - receiving, target, receiving];
        self.0.iter_mut().zip(times).for_each(|(stage, took_ns)| stage.add(took_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(taken: u64, queued: u64, timing: Timing, now: u64) -> [u64; 4] {
        let mut latencies = StageLatencies::default();
        latencies.add(Moment(taken), Moment(queued), timing, Moment(now));
        assert_eq!(latencies.count(), 1);
        assert_eq!(latencies.sum_ns(), now - taken);
        Stage::ALL.map(|stage| latencies.of(stage).sum_ns)
    }

    #[test]
    fn stages_stand_at_their_numbers() {
        for (number, stage) in Stage::ALL.into_iter().enumerate() {
            assert_eq!(stage as usize, number);
        }
    }

    #[test]
    fn times_add_up() {
        let timing = |target_ns, answered| Timing { target_ns, answered: Moment(answered) };
        assert_eq!(times(10, 15, timing(60, 90), 100), [5, 15, 60, 10]);
        // Sent again: what its first answer took is waiting.
        assert_eq!(times(10, 500, timing(60, 570), 571), [490, 10, 60, 1]);
        // Times that cannot be are cut, not wrapped.
        assert_eq!(times(10, 15, timing(1000, 2), 100), [5, 0, 85, 0]);
        assert_eq!(times(10, 15, timing(20, 200), 100), [5, 65, 20, 0]);
    }
}
