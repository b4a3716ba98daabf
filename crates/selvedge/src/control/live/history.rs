//! An hour of what was done, in steps, in bounded memory. It keeps out when something is recorded.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Instant, UNIX_EPOCH};

use engine::target::Stage;
use schemars::JsonSchema;
use serde::Serialize;

use super::super::limits::{HISTORY_NAMESPACES_MAX, HISTORY_POINTS_MAX, LIVE_HISTORY_STEP};
use super::done::{Done, STAGES};
use super::interval::{Interval, Kinds, Sample};

/// Commands of one kind in a step. Counts that do not fit are the largest that do.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    bytes: u64,
    took_ns: u64,
    stages_ns: [u64; STAGES],
    buckets: [u32; 26],
    held: u32,
}

impl From<&Done> for Step {
    fn from(done: &Done) -> Self {
        let bounded = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            bytes: done.bytes,
            took_ns: done.latency.sum_ns,
            stages_ns: done.stages_ns,
            buckets: done.latency.buckets.map(bounded),
            held: bounded(done.held),
        }
    }
}

/// Commands of one step.
#[derive(Clone, Copy, Debug)]
struct Point {
    at: Instant,
    time_s: u64,
    seconds: f32,
    read: Step,
    write: Step,
    other: u32,
    errors: u32,
}

/// All steps of the last hour.
#[derive(Debug, Default)]
pub(super) struct History {
    all: VecDeque<Point>,
    /// The namespaces that were used first; a place is free when one has done nothing for an hour.
    namespaces: BTreeMap<(String, u32), VecDeque<Point>>,
}

impl History {
    /// Records a step that ends with this sample.
    pub(super) fn push(&mut self, now: &Sample, interval: &Interval<'_>) {
        let point = |kinds: &Kinds| Point {
            at: now.at,
            time_s: now.time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            seconds: interval.seconds as f32,
            read: Step::from(&kinds.read),
            write: Step::from(&kinds.write),
            other: u32::try_from(kinds.other.commands()).unwrap_or(u32::MAX),
            errors: u32::try_from(kinds.errors).unwrap_or(u32::MAX),
        };
        let span = LIVE_HISTORY_STEP * HISTORY_POINTS_MAX as u32;
        let forget = |points: &mut VecDeque<Point>| {
            while points.front().is_some_and(|first| now.at.saturating_duration_since(first.at) >= span)
                || points.len() >= HISTORY_POINTS_MAX
            {
                points.pop_front();
            }
        };
        forget(&mut self.all);
        self.all.push_back(point(&interval.all));
        self.namespaces.retain(|_, points| {
            forget(points);
            !points.is_empty()
        });
        for ((nqn, nsid), kinds) in &interval.namespaces {
            let place = ((*nqn).to_owned(), *nsid);
            if self.namespaces.len() < HISTORY_NAMESPACES_MAX || self.namespaces.contains_key(&place) {
                self.namespaces.entry(place).or_default().push_back(point(kinds));
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
    /// Commands that limits held back.
    held: u32,
}

impl HistoryAnswer {
    fn new(points: Option<&VecDeque<Point>>) -> Self {
        let points = points.into_iter().flatten().map(|point| HistoryPoint {
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
            held: step.held,
        }
    }
}
