//! Latencies by powers of two of a microsecond, as counters keep them. Who counts is not its concern.

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Commands in each bucket alone: number n holds those that took at most 2^n µs and more than half of that, the
    /// last all that took longer.
    pub buckets: [u64; LATENCY_BUCKETS],
    /// All latencies together, in nanoseconds.
    pub sum_ns: u64,
}

impl Histogram {
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
