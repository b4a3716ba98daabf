//! An hour of what was done, in steps, in bounded memory. It keeps out when something is recorded.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Instant, UNIX_EPOCH};

use engine::target::Stage;
use schemars::JsonSchema;
use serde::Serialize;

use super::super::limits::{
    HISTORY_NAMESPACES_MAX, HISTORY_POINTS_MAX, HISTORY_STAGES_BYTES_MAX, LIVE_HISTORY_STEP,
};
use super::done::{Done, STAGES};
use super::interval::{Interval, Kinds, Sample};
use super::stage_counts::StageCounts;

/// Commands of one kind in a step. Counts that do not fit are the largest that do.
#[derive(Clone, Debug, Default)]
struct Step {
    bytes: u64,
    took_ns: u64,
    stages_ns: [u64; STAGES],
    buckets: [u32; 26],
    stage_counts: StageCounts,
    held: u32,
}

impl From<&Done> for Step {
    fn from(done: &Done) -> Self {
        let bounded = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            bytes: done.bytes,
            took_ns: done.latency.sum_ns,
            stages_ns: done.stages.map(|times| times.sum_ns),
            buckets: done.latency.buckets.map(bounded),
            stage_counts: StageCounts::new(&done.stages),
            held: bounded(done.held()),
        }
    }
}

/// Commands of one step.
#[derive(Clone, Debug)]
struct Point {
    at: Instant,
    time_s: u64,
    seconds: f32,
    read: Step,
    write: Step,
    other: u32,
    errors: u32,
}

impl Point {
    fn new(now: &Sample, seconds: f64, kinds: &Kinds) -> Self {
        Self {
            at: now.at,
            time_s: now.time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            seconds: seconds as f32,
            read: Step::from(&kinds.read),
            write: Step::from(&kinds.write),
            other: u32::try_from(kinds.other.commands()).unwrap_or(u32::MAX),
            errors: u32::try_from(kinds.errors).unwrap_or(u32::MAX),
        }
    }

    fn stages_bytes(&self) -> usize {
        self.read.stage_counts.bytes() + self.write.stage_counts.bytes()
    }
}

/// Steps in their order, with histograms of stages as far back as their bytes allow.
#[derive(Debug, Default)]
struct Steps {
    points: VecDeque<Point>,
    /// Bytes of the histograms of stages.
    stages_bytes: usize,
    /// Number of the first steps, whose histograms of stages are dropped.
    dropped: usize,
}

impl Steps {
    /// Adds a step, and drops histograms of stages of the oldest ones where all are too large.
    fn push(&mut self, point: Point) {
        self.stages_bytes += point.stages_bytes();
        // Growth by doubling would take more than an hour needs.
        self.points.reserve_exact(HISTORY_POINTS_MAX.saturating_sub(self.points.len()));
        self.points.push_back(point);
        while self.stages_bytes > HISTORY_STAGES_BYTES_MAX {
            let Some(oldest) = self.points.get_mut(self.dropped) else { return };
            self.stages_bytes -= oldest.stages_bytes();
            oldest.read.stage_counts = StageCounts::default();
            oldest.write.stage_counts = StageCounts::default();
            self.dropped += 1;
        }
    }

    /// Removes the steps that are an hour old, and the first one if there is no place for another.
    fn forget(&mut self, now: Instant) {
        let span = LIVE_HISTORY_STEP * HISTORY_POINTS_MAX as u32;
        while let Some(first) = self.points.front() {
            if now.saturating_duration_since(first.at) < span && self.points.len() < HISTORY_POINTS_MAX {
                return;
            }
            self.stages_bytes -= first.stages_bytes();
            self.dropped = self.dropped.saturating_sub(1);
            self.points.pop_front();
        }
    }
}

/// All steps of the last hour.
#[derive(Debug, Default)]
pub(super) struct History {
    all: Steps,
    /// The namespaces that were used first; a place is free when one has done nothing for an hour.
    namespaces: BTreeMap<(String, u32), Steps>,
}

impl History {
    /// Records a step that ends with this sample.
    pub(super) fn push(&mut self, now: &Sample, interval: &Interval<'_>) {
        let point = |kinds: &Kinds| Point::new(now, interval.seconds, kinds);
        self.all.forget(now.at);
        self.all.push(point(&interval.all));
        self.namespaces.retain(|_, steps| {
            steps.forget(now.at);
            !steps.points.is_empty()
        });
        for ((nqn, nsid), kinds) in &interval.namespaces {
            let place = ((*nqn).to_owned(), *nsid);
            if self.namespaces.len() < HISTORY_NAMESPACES_MAX || self.namespaces.contains_key(&place) {
                self.namespaces.entry(place).or_default().push(point(kinds));
            }
        }
    }

    /// The history of all namespaces together.
    pub(super) fn of_all(&self) -> HistoryAnswer {
        HistoryAnswer::new(Some(&self.all))
    }

    /// History of one namespace.
    pub(super) fn of_namespace(&self, nqn: &str, nsid: u32) -> HistoryAnswer {
        HistoryAnswer::new(self.namespaces.get(&(nqn.to_owned(), nsid)))
    }
}

/// History of the last hour, as far as it was sampled.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "History")]
pub(in crate::control) struct HistoryAnswer {
    /// Seconds that a step is over, unless it says another time.
    step_s: u64,
    /// Steps that are kept.
    points_max: usize,
    /// The steps, the oldest first. One of a namespace that did nothing is missing.
    points: Vec<HistoryPoint>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct HistoryPoint {
    /// End of the step, in seconds since 1970.
    time_s: u64,
    /// The time that it is over.
    interval_s: f32,
    read: HistoryFlow,
    write: HistoryFlow,
    /// Other commands.
    other: u32,
    /// Commands that failed.
    errors: u32,
}

#[derive(Debug, Serialize, JsonSchema)]
struct HistoryFlow {
    bytes: u64,
    /// Microseconds that all of its commands took together.
    took_us: u64,
    /// Commands by latency: number n took at most 2^n µs, and more than half of that.
    buckets: Vec<u32>,
    /// Microseconds in each stage, by its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    stages_us: BTreeMap<&'static str, u64>,
    /// Commands by their time in each stage, by its name, in buckets like those of the latency. A command that was not in a
    /// stage is not in its buckets. Missing in the oldest steps where those of the hour take too much memory.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    stage_buckets: BTreeMap<&'static str, Vec<u64>>,
    /// Commands that limits held back.
    held: u32,
}

impl HistoryAnswer {
    fn new(steps: Option<&Steps>) -> Self {
        let points = steps.into_iter().flat_map(|steps| &steps.points).map(|point| HistoryPoint {
            time_s: point.time_s,
            interval_s: point.seconds,
            read: HistoryFlow::new(&point.read),
            write: HistoryFlow::new(&point.write),
            other: point.other,
            errors: point.errors,
        });
        Self { step_s: LIVE_HISTORY_STEP.as_secs(), points_max: HISTORY_POINTS_MAX, points: points.collect() }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.points.len()
    }
}

impl HistoryFlow {
    fn new(step: &Step) -> Self {
        let filled = step.buckets.iter().rposition(|commands| *commands > 0).map_or(0, |last| last + 1);
        let stages = Stage::ALL.into_iter().zip(step.stages_ns).filter(|(_, sum_ns)| *sum_ns > 0);
        Self {
            bytes: step.bytes,
            took_us: step.took_ns / 1000,
            buckets: step.buckets[..filled].to_vec(),
            stages_us: stages.map(|(stage, sum_ns)| (stage.name(), sum_ns / 1000)).collect(),
            stage_buckets: step.stage_counts.buckets(),
            held: step.held,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A step whose reads were in all stages, with commands in each bucket.
    fn step(at: Instant) -> Point {
        let mut done = Done::default();
        done.latency.buckets = [200; 26];
        for times in &mut done.stages {
            times.buckets = [200; 26];
        }
        let read = Step::from(&done);
        Point { at, time_s: 0, seconds: 5.0, read, write: Step::default(), other: 0, errors: 0 }
    }

    #[test]
    fn histograms_of_stages_go_back_as_far_as_their_bytes_allow() {
        let (base, mut steps) = (Instant::now(), Steps::default());
        let bytes = step(base).stages_bytes();
        assert!(bytes * HISTORY_POINTS_MAX > HISTORY_STAGES_BYTES_MAX, "the limit is reached");
        for number in 0..HISTORY_POINTS_MAX as u32 + 9 {
            let now = base + LIVE_HISTORY_STEP * number;
            steps.forget(now);
            steps.push(step(now));
            let kept: usize = steps.points.iter().map(Point::stages_bytes).sum();
            assert_eq!(kept, steps.stages_bytes);
            assert!(kept <= HISTORY_STAGES_BYTES_MAX);
        }
        let history = HistoryAnswer::new(Some(&steps));
        let with_stages: Vec<bool> =
            history.points.iter().map(|point| !point.read.stage_buckets.is_empty()).collect();
        let dropped = HISTORY_POINTS_MAX - HISTORY_STAGES_BYTES_MAX / bytes;
        assert!(with_stages.iter().enumerate().all(|(at, has_stages)| *has_stages == (at >= dropped)));
        assert!(history.points.iter().all(|point| point.read.buckets.len() == 26), "the whole is kept");
        steps.forget(base + Duration::from_secs(3600) * 3);
        assert_eq!((steps.points.len(), steps.stages_bytes, steps.dropped), (0, 0, 0));
    }
}
