//! The policy `latency-ewma`: paths share the commands in inverse proportion to their average latency, as a patch for the
//! kernel proposes it under the name `latency`. It was written from the description of that patch, for comparison in the
//! laboratory, and is built into no program. It does not look at commands in flight.
//!
//! Each thread has its own averages, as each CPU has there, and each direction of data too.

use std::cmp::Reverse;
use std::time::Duration;

use super::candidate::{Candidate, usable};
use crate::ring::Moment;

/// Sum of the weights of all paths in one direction.
const WEIGHT_TOTAL: u64 = 1 << 16;
/// The smallest weight of a path is an equal share divided by this: a path without commands would have no samples, and its
/// recovery would stay unnoticed.
const MINIMUM_DIVISOR: u64 = 16;
/// Numerator of inverse latencies in nanoseconds.
const INVERSE_SCALE: u64 = 1 << 40;
/// The longest shift that 64 bits have.
const SHIFT_MAX: u8 = 63;

/// Knobs of the policy, after the patch's `latency_ewma_shift` and `latency_batch_timeout`. The defaults are this
/// project's, since the description names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EwmaKnobs {
    /// A batch counts one part in two to the power of this.
    pub shift: u8,
    /// Time in which the samples of a batch are gathered.
    pub batch_timeout: Duration,
}

impl Default for EwmaKnobs {
    fn default() -> Self {
        Self { shift: 3, batch_timeout: Duration::from_millis(480) }
    }
}

/// State of the policy on one thread.
#[derive(Debug)]
pub(super) struct LatencyEwma {
    now: Moment,
    sends: bool,
    /// Commands that bring data to the host or none, and commands that send.
    spreads: [Spread; 2],
}

impl LatencyEwma {
    pub(super) const fn new() -> Self {
        Self { now: Moment(0), sends: false, spreads: [Spread::new(), Spread::new()] }
    }

    /// The next choice is made at this time, for a command of this direction.
    pub(super) const fn see(&mut self, now: Moment, sends: bool) {
        self.now = now;
        self.sends = sends;
    }

    /// A path has completed a command.
    pub(super) fn done(&mut self, path: usize, sends: bool, latency: Duration) {
        let share = self.spreads[usize::from(sends)].shares.get_mut(path);
        if let Some(share) = share {
            share.batch_ns += latency.as_nanos() as u64;
            share.batch_samples += 1;
        }
    }

    /// The path whose turn it is by the weights.
    pub(super) fn choose(&mut self, paths: &[Candidate], knobs: EwmaKnobs) -> Option<usize> {
        let spread = &mut self.spreads[usize::from(self.sends)];
        spread.follow(self.now, paths.len(), knobs);
        spread.take_turn(paths)
    }
}

/// Spread of the commands of one direction among the paths.
#[derive(Debug)]
struct Spread {
    shares: Vec<Share>,
    batch_ends: Moment,
}

/// A path's share of it.
#[derive(Clone, Debug, Default)]
struct Share {
    /// Moving average of the latency; `None` before the first batch with a sample.
    ewma_ns: Option<i64>,
    /// Sum and number of the samples of this batch.
    batch_ns: u64,
    batch_samples: u64,
    weight: u64,
    /// Commands that it is owed, times the sum of the weights.
    credit: i64,
}

impl Spread {
    const fn new() -> Self {
        Self { shares: Vec::new(), batch_ends: Moment(0) }
    }

    /// Begins with as many paths as there are, and ends a batch whose time is over.
    fn follow(&mut self, now: Moment, paths: usize, knobs: EwmaKnobs) {
        let is_new = self.shares.len() != paths;
        if !is_new && now < self.batch_ends {
            return;
        }
        self.shares.resize(paths, Share::default());
        self.shares.iter_mut().for_each(|share| share.end_batch(knobs.shift));
        self.weigh();
        self.batch_ends = now.after(knobs.batch_timeout);
    }

    /// Computes the weights: an equal share for paths without an average, and of the rest a share in inverse proportion to
    /// the average for each other, of which those that would have less than the minimum take that from the others.
    fn weigh(&mut self) {
        let count = self.shares.len() as u64;
        let known = self.shares.iter().filter(|share| share.ewma_ns.is_some()).count() as u64;
        let equal = WEIGHT_TOTAL / count.max(1);
        let (minimum, rest) = (equal / MINIMUM_DIVISOR, WEIGHT_TOTAL - equal * (count - known));
        let inverse =
            |share: &Share| share.ewma_ns.map_or(0, |ewma| INVERSE_SCALE / ewma.unsigned_abs().max(1));
        let inverses: u64 = self.shares.iter().map(inverse).sum();
        let surplus = |share: &Share| (rest * inverse(share) / inverses.max(1)).saturating_sub(minimum);
        let surpluses: u64 = self.shares.iter().map(surplus).sum();
        let spare = rest.saturating_sub(minimum * known);
        for share in &mut self.shares {
            share.weight = match share.ewma_ns {
                None => equal,
                Some(_) => minimum + spare * surplus(share) / surpluses.max(1),
            };
        }
        let rounded: u64 = self.shares.iter().map(|share| share.weight).sum();
        if let Some(heaviest) = self.shares.iter_mut().max_by_key(|share| share.weight) {
            heaviest.weight += WEIGHT_TOTAL - rounded;
        }
    }

    /// Weighted round robin: each usable path gets its weight as credit, and the one with the most pays for all.
    fn take_turn(&mut self, paths: &[Candidate]) -> Option<usize> {
        let mut weights = 0;
        for (at, _) in usable(paths) {
            let share = &mut self.shares[at];
            share.credit += share.weight as i64;
            weights += share.weight as i64;
        }
        let credit = |at: &usize| (self.shares[*at].credit, Reverse(*at));
        let at = usable(paths).map(|(at, _)| at).max_by_key(credit)?;
        self.shares[at].credit -= weights;
        Some(at)
    }
}

impl Share {
    /// Takes the average of the batch into the moving average.
    fn end_batch(&mut self, shift: u8) {
        let Some(average) = self.batch_ns.checked_div(self.batch_samples) else { return };
        let average = average as i64;
        let moved = |ewma: i64| ewma + ((average - ewma) >> shift.min(SHIFT_MAX));
        self.ewma_ns = Some(self.ewma_ns.map_or(average, moved));
        (self.batch_ns, self.batch_samples) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::candidate::Access;
    use super::*;

    /// Commands of a batch in these tests, which divides its time.
    const COMMANDS: u32 = 4_800;

    fn path(access: Access) -> Candidate {
        Candidate { access, ..Candidate::default() }
    }

    /// A thread at work: each path completes its commands after a latency that is given.
    struct Thread {
        ewma: LatencyEwma,
        now: Moment,
        paths: Vec<Candidate>,
    }

    impl Thread {
        fn new(paths: usize) -> Self {
            let paths = vec![path(Access::Optimized); paths];
            Self { ewma: LatencyEwma::new(), now: Moment(0), paths }
        }

        /// Part of a batch's commands that each path gets; a path without a latency completes nothing.
        fn batch(&mut self, sends: bool, latencies_us: &[Option<u64>]) -> Vec<f64> {
            let knobs = EwmaKnobs::default();
            let mut counts = vec![0_u32; self.paths.len()];
            for _ in 0..COMMANDS {
                self.now = self.now.after(knobs.batch_timeout / COMMANDS);
                self.ewma.see(self.now, sends);
                let at = self.ewma.choose(&self.paths, knobs).expect("a usable path");
                counts[at] += 1;
                if let Some(latency) = latencies_us[at] {
                    self.ewma.done(at, sends, Duration::from_micros(latency));
                }
            }
            counts.into_iter().map(|count| f64::from(count) / f64::from(COMMANDS)).collect()
        }

        /// The same for several batches, with the parts of the last one.
        fn batches(&mut self, count: usize, sends: bool, latencies_us: &[u64]) -> Vec<f64> {
            let latencies: Vec<_> = latencies_us.iter().copied().map(Some).collect();
            for _ in 1..count {
                self.batch(sends, &latencies);
            }
            self.batch(sends, &latencies)
        }
    }

    fn assert_near(shares: &[f64], expected: &[f64]) {
        let are_near = shares.iter().zip(expected).all(|(share, other)| (share - other).abs() < 0.01);
        assert!(shares.len() == expected.len() && are_near, "{shares:?}, not {expected:?}");
    }

    #[test]
    fn shares_become_inverse_to_latency() {
        let mut thread = Thread::new(3);
        assert_near(&thread.batches(1, false, &[100, 200, 400]), &[1.0 / 3.0; 3]);
        let shares = thread.batches(20, false, &[100, 200, 400]);
        assert_near(&shares, &[4.0 / 7.0, 2.0 / 7.0, 1.0 / 7.0]);
        let weights = thread.ewma.spreads[0].shares.iter().map(|share| share.weight);
        assert_eq!(weights.sum::<u64>(), WEIGHT_TOTAL);
    }

    #[test]
    fn a_path_that_gets_slow_loses_share_within_two_batches() {
        let mut thread = Thread::new(2);
        assert_near(&thread.batches(10, false, &[100, 100]), &[0.5, 0.5]);
        // The first batch in which it is slow is spread by the averages before it.
        assert_near(&thread.batches(1, false, &[100, 1_000]), &[0.5, 0.5]);
        // An eighth of the difference of 900 us, and then an eighth of the rest.
        assert_near(&thread.batches(1, false, &[100, 1_000]), &[0.68, 0.32]);
        assert_near(&thread.batches(1, false, &[100, 1_000]), &[0.757, 0.243]);
    }

    #[test]
    fn a_path_that_recovers_is_found_by_its_minimal_share() {
        let mut thread = Thread::new(4);
        let shares = thread.batches(60, false, &[100, 100, 100, 1_000_000]);
        let minimum = 0.25 / MINIMUM_DIVISOR as f64;
        let others = (1.0 - minimum) / 3.0;
        assert_near(&shares, &[others, others, others, minimum]);
        let shares = thread.batches(120, false, &[100; 4]);
        assert_near(&shares, &[0.25; 4]);
    }

    #[test]
    fn reads_and_writes_have_shares_of_their_own() {
        let mut thread = Thread::new(2);
        thread.batches(20, false, &[100, 300]);
        assert_near(&thread.batches(1, true, &[300, 100]), &[0.5, 0.5]);
        assert_near(&thread.batches(20, true, &[300, 100]), &[0.25, 0.75]);
        assert_near(&thread.batches(1, false, &[100, 300]), &[0.75, 0.25]);
    }

    #[test]
    fn a_path_without_a_sample_keeps_an_equal_share() {
        let mut thread = Thread::new(3);
        for _ in 0..5 {
            thread.batch(false, &[Some(100), Some(300), None]);
        }
        let shares = thread.batch(false, &[Some(100), Some(300), None]);
        assert_near(&shares, &[0.5, 1.0 / 6.0, 1.0 / 3.0]);
        let shares = thread.batches(20, false, &[100, 300, 300]);
        assert_near(&shares, &[0.6, 0.2, 0.2]);
    }

    #[test]
    fn other_paths_are_for_when_there_is_no_optimized_one() {
        let mut thread = Thread::new(3);
        thread.paths[0].access = Access::NonOptimized;
        assert_near(&thread.batches(3, false, &[1, 100, 100]), &[0.0, 0.5, 0.5]);
        thread.paths[1].access = Access::None;
        thread.paths[2].access = Access::None;
        assert_near(&thread.batches(1, false, &[1, 100, 100]), &[1.0, 0.0, 0.0]);
        thread.paths[0].access = Access::None;
        assert_eq!(thread.ewma.choose(&thread.paths, EwmaKnobs::default()), None);
    }

    #[test]
    fn a_longer_shift_and_time_make_it_slower() {
        let after = |shift: u8, batch_ms: u64| {
            let knobs = EwmaKnobs { shift, batch_timeout: Duration::from_millis(batch_ms) };
            let (mut ewma, paths) = (LatencyEwma::new(), [path(Access::Optimized); 2]);
            for ms in 0..2_000 {
                ewma.see(Moment(ms * 1_000_000), false);
                let at = ewma.choose(&paths, knobs).expect("a usable path");
                let latency = if at == 1 && ms >= 1_000 { 10_000 } else { 1_000 };
                ewma.done(at, false, Duration::from_micros(latency));
            }
            ewma.spreads[0].shares[1].weight
        };
        assert!(after(1, 100) < after(3, 100) && after(3, 100) < after(3, 400));
        assert_eq!(after(0, 3_000), WEIGHT_TOTAL / 2, "no batch has ended");
        assert_eq!(after(u8::MAX, 100), WEIGHT_TOTAL / 2, "such a shift leaves nothing of a sample");
    }
}
