//! Sums over the commands of one kind in an interval. It keeps out their presentation.

use std::collections::BTreeMap;

use engine::target::{Histogram, OperationMetrics, Stage};

/// Number of stages.
pub(super) const STAGES: usize = Stage::ALL.len();

/// Commands that went well, and what their time was spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) bytes: u64,
    pub(super) latency: Histogram,
    /// Time in each stage, in their order. A command that was not in a stage is not in its count.
    pub(super) stages: [Histogram; STAGES],
}

impl Done {
    /// Commands done between two samples; `None` if a counter fell, since its object was removed
    /// and added again.
    pub(super) fn between(now: &OperationMetrics, before: Option<&OperationMetrics>) -> Option<Self> {
        let whole = Self::of(now);
        match before {
            Some(before) => whole.since(&Self::of(before)),
            None => Some(whole),
        }
    }

    fn of(metrics: &OperationMetrics) -> Self {
        let mut done = Self { bytes: metrics.bytes, latency: metrics.latency, ..Self::default() };
        for spent in &metrics.stages {
            done.stages[spent.stage as usize].merge(&spent.times);
        }
        done
    }

    fn since(mut self, before: &Self) -> Option<Self> {
        self.bytes = self.bytes.checked_sub(before.bytes)?;
        subtract(&mut self.latency, &before.latency)?;
        for (now, before) in self.stages.iter_mut().zip(&before.stages) {
            subtract(now, before)?;
        }
        Some(self)
    }

    /// Adds what others did.
    pub(super) fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.latency.merge(&other.latency);
        self.stages.iter_mut().zip(&other.stages).for_each(|(sum, more)| sum.merge(more));
    }

    /// Number of commands.
    pub(super) fn commands(&self) -> u64 {
        self.latency.count()
    }

    /// Commands that limits held back.
    pub(super) fn held(&self) -> u64 {
        self.stages[Stage::Limits as usize].count()
    }

    /// Nanoseconds in each stage with time, by its name.
    pub(super) fn stages_ns(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let stages = Stage::ALL.into_iter().zip(self.stages.iter().map(|times| times.sum_ns));
        stages.filter(|(_, sum_ns)| *sum_ns > 0).map(|(stage, sum_ns)| (stage.name(), sum_ns))
    }

    /// The time within which this share of the commands was done: the end of a bucket, so that it took no longer. `None`
    /// where there were none, or where that was beyond the last end.
    pub(super) fn within_us(&self, share: f64) -> Option<u64> {
        let enough = (self.commands() as f64 * share).ceil() as u64;
        let mut ends = self.latency.cumulative();
        ends.find(|(_, commands)| enough > 0 && *commands >= enough).map(|(end_us, _)| end_us)
    }

    /// Commands by bucket, without the empty ones at the end.
    pub(super) fn buckets(&self) -> Vec<u64> {
        filled(&self.latency)
    }

    /// Commands by their time in each stage that had any, likewise.
    pub(super) fn stage_buckets(&self) -> BTreeMap<&'static str, Vec<u64>> {
        let stages = Stage::ALL.into_iter().zip(&self.stages);
        let stages = stages.map(|(stage, times)| (stage.name(), filled(times)));
        stages.filter(|(_, buckets)| !buckets.is_empty()).collect()
    }
}

/// Takes an earlier state away from a histogram; `None` if a counter fell.
fn subtract(now: &mut Histogram, before: &Histogram) -> Option<()> {
    now.sum_ns = now.sum_ns.checked_sub(before.sum_ns)?;
    for (now, before) in now.buckets.iter_mut().zip(&before.buckets) {
        *now = now.checked_sub(*before)?;
    }
    Some(())
}

fn filled(histogram: &Histogram) -> Vec<u64> {
    let filled = histogram.buckets.iter().rposition(|commands| *commands > 0);
    histogram.buckets[..filled.map_or(0, |last| last + 1)].to_vec()
}

#[cfg(test)]
mod tests {
    use engine::target::{Operation, SizeClass, StageMetrics};

    use super::*;

    fn metrics(bucket: usize, commands: u64, held: u64) -> OperationMetrics {
        let mut latency = Histogram { sum_ns: commands * 1000, ..Histogram::default() };
        latency.buckets[bucket] = commands;
        // Half of them small, and half of them large.
        let of_size = |size| {
            let mut times = Histogram { sum_ns: held * 250, ..Histogram::default() };
            times.buckets[3] = held / 2 + if size == SizeClass::Small { held % 2 } else { 0 };
            StageMetrics { stage: Stage::Limits, size, times }
        };
        let stages = vec![of_size(SizeClass::Small), of_size(SizeClass::Large)];
        OperationMetrics { operation: Operation::Read, bytes: commands * 4096, latency, stages }
    }

    #[test]
    fn what_was_done_is_the_difference_of_two_samples() {
        let done = Done::between(&metrics(4, 10, 3), Some(&metrics(4, 4, 1))).unwrap();
        assert_eq!((done.commands(), done.bytes, done.held()), (6, 6 * 4096, 2));
        assert_eq!(done.stages_ns().collect::<Vec<_>>(), [("limits", 1000)]);
        assert_eq!(done.stage_buckets(), BTreeMap::from([("limits", vec![0, 0, 0, 2])]));
        assert_eq!(done.buckets(), [0, 0, 0, 0, 6]);
        assert_eq!((done.within_us(0.5), done.within_us(1.0)), (Some(16), Some(16)));
        assert_eq!(Done::between(&metrics(4, 3, 0), Some(&metrics(4, 4, 0))), None, "a counter fell");
        assert_eq!(Done::between(&metrics(4, 5, 1), Some(&metrics(4, 4, 2))), None, "one of a stage fell");
        assert_eq!(Done::between(&metrics(4, 3, 0), None).map(|done| done.commands()), Some(3));
    }

    #[test]
    fn what_has_no_end_has_no_percentile() {
        let done = Done::between(&metrics(25, 5, 0), None).unwrap();
        assert_eq!((done.within_us(0.5), done.buckets().len()), (None, 26));
        assert_eq!((Done::default().within_us(0.99), Done::default().buckets().len()), (None, 0));
    }
}
