//! Recent speed of a path, learned from its completions: time per command in flight, by kind and
//! size of command. A policy draws the conclusions.

use crate::ring::Moment;

/// Size classes of either direction: up to 4, 16, 64, 256 KiB, and above.
const SIZES: usize = 5;
/// All classes: commands that bring data to the host or none, and commands that send.
const CLASSES: usize = 2 * SIZES;
/// A new sample counts one part in this many.
const INERTIA: u64 = 16;
/// A sample counts as at most this many times what was expected: a stall shows as silence, and
/// should not be held against a path once it is over.
const SURPRISE_MAX: u64 = 2;

/// The class of a command of `length` bytes.
pub(crate) fn class_of(sends: bool, length: usize) -> usize {
    let size = match length {
        0..=0x1000 => 0,
        0x1001..=0x4000 => 1,
        0x4001..=0x1_0000 => 2,
        0x1_0001..=0x4_0000 => 3,
        _ => 4,
    };
    size + if sends { SIZES } else { 0 }
}

/// Estimate of one path's speed by one thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Estimate {
    service_ns: [u64; CLASSES],
    /// Time when it last completed something, or began to owe an answer.
    heard: Moment,
    /// Time when it was last given something.
    asked: Moment,
}

impl Estimate {
    /// The path was given a command, the `in_flight`th that it now has.
    pub(crate) fn sent(&mut self, now: Moment, in_flight: u32) {
        self.asked = now;
        if in_flight == 1 {
            self.heard = now;
        }
    }

    /// A command of `class` was completed, which was the `in_flight`th when it was sent.
    pub(crate) fn done(&mut self, now: Moment, class: usize, sent: Moment, in_flight: u32) {
        self.heard = now;
        let latency_ns = now.since(sent).as_nanos() as u64;
        let sample = (latency_ns / u64::from(in_flight.max(1))).max(1);
        let known = &mut self.service_ns[class];
        *known = match *known {
            0 => sample,
            // A command that was alone tells how the path is now, whatever was before.
            known if in_flight <= 1 && sample < known => sample,
            known => {
                let sample = sample.min(known.saturating_mul(SURPRISE_MAX));
                (known - known / INERTIA + sample / INERTIA).max(1)
            }
        };
    }

    /// Time per command in flight, in nanoseconds, of commands of `class`; what is known of its neighbours where nothing
    /// is known of it, and 0 where nothing is known at all.
    pub(crate) fn service_ns(&self, class: usize) -> u64 {
        let own = self.service_ns[class];
        if own > 0 {
            return own;
        }
        let half = if class < SIZES { 0..SIZES } else { SIZES..CLASSES };
        let distance = |other: &usize| other.abs_diff(class);
        half.filter(|other| self.service_ns[*other] > 0)
            .min_by_key(distance)
            .map_or(0, |other| self.service_ns[other])
    }

    /// Time for which the path has owed answers and given none, in nanoseconds.
    pub(crate) fn silent_ns(&self, now: Moment, in_flight: u32) -> u64 {
        if in_flight == 0 { 0 } else { now.since(self.heard).as_nanos() as u64 }
    }

    /// Time since the path was last given something, in nanoseconds.
    pub(crate) fn idle_ns(&self, now: Moment) -> u64 {
        now.since(self.asked).as_nanos() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn it_follows_what_the_path_does() {
        let mut estimate = Estimate::default();
        let class = class_of(false, 4096);
        assert_eq!(estimate.service_ns(class), 0);
        estimate.done(Moment(10 * MS), class, Moment(0), 10);
        assert_eq!(estimate.service_ns(class), MS);
        for _ in 0..100 {
            estimate.done(Moment(50 * MS), class, Moment(0), 10);
        }
        assert!((4 * MS..=5 * MS).contains(&estimate.service_ns(class)), "{}", estimate.service_ns(class));
        // One command that took no time at all tells that a bad time is over.
        estimate.done(Moment(MS), class, Moment(0), 1);
        assert_eq!(estimate.service_ns(class), MS);
    }

    #[test]
    fn one_stall_is_not_held_against_it() {
        let mut estimate = Estimate::default();
        estimate.done(Moment(MS), 0, Moment(0), 1);
        estimate.done(Moment(5000 * MS), 0, Moment(0), 2);
        assert!(estimate.service_ns(0) < MS + MS / 8);
    }

    #[test]
    fn what_is_unknown_is_taken_from_the_nearest_size() {
        let mut estimate = Estimate::default();
        estimate.done(Moment(MS), class_of(false, 100 << 10), Moment(0), 1);
        assert_eq!(estimate.service_ns(class_of(false, 4096)), MS);
        assert_eq!(estimate.service_ns(class_of(true, 4096)), 0, "the other direction is another matter");
    }

    #[test]
    fn silence_counts_while_answers_are_owed() {
        let mut estimate = Estimate::default();
        estimate.sent(Moment(5 * MS), 1);
        estimate.sent(Moment(7 * MS), 2);
        assert_eq!(estimate.silent_ns(Moment(9 * MS), 2), 4 * MS);
        assert_eq!(estimate.silent_ns(Moment(9 * MS), 0), 0);
        assert_eq!(estimate.idle_ns(Moment(9 * MS)), 2 * MS);
    }
}
