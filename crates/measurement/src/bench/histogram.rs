//! Latencies and numbers of commands: histograms that are merged, subtracted and summed up. The
//! reports own units and layout.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Upper bound of recorded latencies: one hour. Longer ones are recorded as one hour.
const LATENCY_NS_MAX: u64 = 3600 * 1_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// Commands of one kind.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Bytes they moved.
    pub bytes: u64,
    latency_ns: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Self {
        let latency_ns = Histogram::new_with_bounds(1, LATENCY_NS_MAX, SIGNIFICANT_DIGITS);
        Self { bytes: 0, latency_ns: latency_ns.expect("valid bounds") }
    }
}

impl Tally {
    /// Counts one command.
    pub(crate) fn add(&mut self, bytes: u64, latency_ns: u64) {
        self.bytes += bytes;
        self.latency_ns.saturating_record(latency_ns.max(1));
    }

    /// Counts all of `other`.
    pub(crate) fn merge(&mut self, other: &Tally) {
        self.bytes += other.bytes;
        self.latency_ns.add(&other.latency_ns).expect("all tallies have the same bounds");
    }

    /// Returns the commands since `earlier`; `None` if `earlier` is not a previous state of this
    /// tally, as after a restart.
    pub fn since(&self, earlier: &Tally) -> Option<Tally> {
        let mut since = self.clone();
        since.bytes = since.bytes.checked_sub(earlier.bytes)?;
        since.latency_ns.subtract(&earlier.latency_ns).ok()?;
        Some(since)
    }

    /// Number of commands.
    pub fn count(&self) -> u64 {
        self.latency_ns.len()
    }

    /// The latency that `quantile` of the commands stayed within, in nanoseconds.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        self.latency_ns.value_at_quantile(quantile)
    }

    /// From the shortest latency to the longest.
    pub(crate) fn spread(&self) -> SpreadNs {
        SpreadNs {
            min: self.latency_ns.min(),
            max: self.latency_ns.max(),
            mean: self.latency_ns.mean(),
            stddev: self.latency_ns.stdev(),
        }
    }

    /// Counts the commands below each of `bounds_ns` and not below the previous bound; the last
    /// count is of those above all. The bounds ascend.
    pub(crate) fn counts_between(&self, bounds_ns: &[u64]) -> Vec<u64> {
        let mut counts = vec![0; bounds_ns.len() + 1];
        for recorded in self.latency_ns.iter_recorded() {
            let at = bounds_ns.partition_point(|bound| *bound <= recorded.value_iterated_to());
            counts[at] += recorded.count_at_value();
        }
        counts
    }

    /// The numbers worth telling.
    pub fn latency(&self) -> LatencyNs {
        LatencyNs {
            mean: self.latency_ns.mean(),
            p50: self.quantile_ns(0.5),
            p99: self.quantile_ns(0.99),
            p99_9: self.quantile_ns(0.999),
            max: self.latency_ns.max(),
        }
    }
}

/// Latency in nanoseconds, as the JSON report has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LatencyNs {
    pub mean: f64,
    pub p50: u64,
    pub p99: u64,
    pub p99_9: u64,
    pub max: u64,
}

/// Statistics of latencies, in nanoseconds; all 0 without any.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SpreadNs {
    pub min: u64,
    pub max: u64,
    pub mean: f64,
    pub(crate) stddev: f64,
}

/// All commands of a job, or of several.
#[derive(Clone, Debug, Default)]
pub struct Tallies {
    pub read: Tally,
    pub write: Tally,
    pub flush: Tally,
    /// Reads and writes where a rate is set, from when each was due: what waited to be sent counts too.
    pub(crate) response: Tally,
}

impl Tallies {
    pub(crate) fn merge(&mut self, other: &Tallies) {
        self.read.merge(&other.read);
        self.write.merge(&other.write);
        self.flush.merge(&other.flush);
        self.response.merge(&other.response);
    }

    /// Returns reads and writes together, without flushes, which transfer no data.
    pub fn total(&self) -> Tally {
        let mut total = self.read.clone();
        total.merge(&self.write);
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact_to_three_digits() {
        let mut tally = Tally::default();
        for latency in 1..=10_000 {
            tally.add(4096, latency * 1000);
        }
        let latency = tally.latency();
        assert_eq!(tally.count(), 10_000);
        assert_eq!(tally.bytes, 40_960_000);
        for (value, expected) in [
            (latency.p50, 5_000_000),
            (latency.p99, 9_900_000),
            (latency.p99_9, 9_990_000),
            (latency.max, 10_000_000),
        ] {
            assert!(value.abs_diff(expected) * 1000 <= expected, "{value} is not {expected}");
        }
        assert!((latency.mean - 5_000_500.0).abs() < 5_000.0);
    }

    #[test]
    fn latencies_are_spread_and_counted_between_bounds() {
        let mut tally = Tally::default();
        for latency in [100, 200, 300, 400] {
            tally.add(0, latency);
        }
        let spread = tally.spread();
        assert_eq!((spread.min, spread.max, spread.mean), (100, 400, 250.0));
        assert!((spread.stddev - 12_500_f64.sqrt()).abs() < 1e-9);
        assert_eq!(tally.counts_between(&[100, 201, 300]), [0, 2, 0, 2]);
        assert_eq!(tally.counts_between(&[]), [4]);
        assert_eq!(Tally::default().spread(), SpreadNs::default());
    }

    #[test]
    fn tallies_merge_and_subtract() {
        let (mut one, mut other) = (Tallies::default(), Tallies::default());
        one.read.add(512, 10);
        other.read.add(512, 30);
        other.write.add(4096, 50);
        let before = one.total();
        one.merge(&other);
        assert_eq!(one.total().count(), 3);
        assert_eq!(one.total().bytes, 5120);
        let since = one.total().since(&before).unwrap();
        assert_eq!((since.count(), since.bytes), (2, 4608));
        assert_eq!(since.quantile_ns(1.0), 50);
        assert!(Tally::default().since(&before).is_none());
    }

    #[test]
    fn absurd_latencies_are_kept_in_bounds() {
        let mut tally = Tally::default();
        tally.add(0, 0);
        tally.add(0, u64::MAX);
        assert_eq!(tally.count(), 2);
        assert_eq!(Tally::default().latency(), LatencyNs::default());
    }
}
