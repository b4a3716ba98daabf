//! Latencies by powers of two of a microsecond, as counters keep them. Who counts is not its concern.

use serde::Serialize;

/// Buckets with an end: 1 µs, 2 µs and so on to about 16.8 s.
const BUCKETS_BOUNDED: usize = 25;
/// All buckets; the last is for what took longer.
pub(crate) const LATENCY_BUCKETS: usize = BUCKETS_BOUNDED + 1;

/// The bucket of a latency: the first whose end is not before it.
pub(crate) const fn bucket_of(took_ns: u64) -> usize {
    if took_ns <= 1000 {
        return 0;
    }
    let bucket = (took_ns.div_ceil(1000) - 1).ilog2() as usize + 1;
    if bucket < BUCKETS_BOUNDED { bucket } else { BUCKETS_BOUNDED }
}

/// Latencies of commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Histogram {
    /// Commands in each bucket alone: number n holds those that took at most 2^n µs and more than half of that, the
    /// last all that took longer.
    pub buckets: [u64; LATENCY_BUCKETS],
    /// All latencies together, in nanoseconds.
    pub sum_ns: u64,
}

impl Histogram {
    /// Counts one command.
    pub fn add(&mut self, took_ns: u64) {
        self.buckets[bucket_of(took_ns)] += 1;
        self.sum_ns = self.sum_ns.wrapping_add(took_ns);
    }

    /// Counts all of `other`.
    pub fn merge(&mut self, other: &Self) {
        let both = self.buckets.iter_mut().zip(&other.buckets);
        both.for_each(|(own, others)| *own = own.wrapping_add(*others));
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
    }

    /// Values since `earlier`, an earlier state of this histogram.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = *self;
        let both = since.buckets.iter_mut().zip(&earlier.buckets);
        both.for_each(|(own, before)| *own = own.saturating_sub(*before));
        since.sum_ns = since.sum_ns.saturating_sub(earlier.sum_ns);
        since
    }

    /// The end of the bucket within which `quantile` of the commands stayed, in microseconds; `None` without commands, and
    /// where that is the bucket without an end.
    pub fn quantile_us(&self, quantile: f64) -> Option<u64> {
        let count = self.count();
        let wanted = ((count as f64 * quantile).ceil() as u64).clamp(1, count.max(1));
        self.cumulative().find(|(_, commands)| *commands >= wanted).map(|(end_us, _)| end_us)
    }

    /// Commands in all buckets.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The end of each bucket that has one, in microseconds, with the commands that took no longer.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut sum = 0;
        self.buckets.iter().take(BUCKETS_BOUNDED).enumerate().map(move |(number, commands)| {
            sum += commands;
            (1 << number, sum)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_is_within_its_bucket_and_beyond_the_one_before() {
        let edges = (0..50).flat_map(|shift| {
            let edge = 1_u64 << shift;
            [edge - 1, edge, edge + 1, edge * 1000 - 1, edge * 1000, edge * 1000 + 1]
        });
        for took_ns in edges.chain([u64::MAX]) {
            let bucket = bucket_of(took_ns);
            let end_ns = |bucket: usize| 1000_u64 << bucket;
            assert!(bucket == BUCKETS_BOUNDED || took_ns <= end_ns(bucket), "{took_ns} ns");
            assert!(bucket == 0 || took_ns > end_ns(bucket - 1), "{took_ns} ns");
        }
    }

    #[test]
    fn histograms_merge_and_subtract() {
        let (mut one, mut other) = (Histogram::default(), Histogram::default());
        one.add(900);
        let before = one;
        for took_ns in [1500, 3000, 70_000_000_000] {
            other.add(took_ns);
        }
        one.merge(&other);
        assert_eq!((one.count(), one.sum_ns), (4, 70_000_005_400));
        assert_eq!(one.since(&before), other);
        assert_eq!(one.since(&one), Histogram::default());
    }

    #[test]
    fn a_quantile_is_the_end_of_its_bucket() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile_us(0.5), None);
        for took_ns in [900, 1500, 3000, 70_000_000_000] {
            histogram.add(took_ns);
        }
        let ends = [0.0, 0.25, 0.5, 0.75, 1.0].map(|quantile| histogram.quantile_us(quantile));
        assert_eq!(ends, [Some(1), Some(1), Some(2), Some(4), None]);
    }

    #[test]
    fn buckets_add_up() {
        let mut histogram = Histogram::default();
        for took_ns in [0, 1000, 1001, 2000, 5_000_000, 60_000_000_000] {
            histogram.buckets[bucket_of(took_ns)] += 1;
        }
        assert_eq!(histogram.count(), 6);
        let cumulative: Vec<(u64, u64)> = histogram.cumulative().collect();
        assert_eq!(cumulative[..3], [(1, 2), (2, 4), (4, 4)]);
        assert_eq!(cumulative.last(), Some(&(1 << 24, 5)));
        assert!(cumulative.contains(&(8192, 5)) && cumulative.contains(&(4096, 4)));
    }
}
