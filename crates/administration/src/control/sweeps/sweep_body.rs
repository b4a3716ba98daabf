//! A report of a sweep. Each report has everything known so far, so a lost report is made good by
//! the next one. It keeps out the sender.

use serde::{Deserialize, Serialize};

use super::super::limits::{SWEEP_BYTES_MAX, SWEEP_POINTS_MAX, SWEEP_QUIET_MAX_S, SWEEP_TEXT_BYTES_MAX};
use super::super::refusal::Refusal;

/// A sweep so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SweepSoFar")]
pub struct SweepBody {
    /// Start of the sweep, as RFC 3339. A resumed sweep has that of its first start.
    pub began: String,
    /// The machine that measures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The namespace that it uses.
    pub nsid: u32,
    pub state: SweepState,
    /// Why it ended early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Measurements that are made, those among them that failed, and all that are planned.
    pub done: u32,
    pub failed: u32,
    pub planned: u32,
    /// Estimate of the remaining time, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_s: Option<f64>,
    /// The point that is measured now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measuring: Option<String>,
    /// Within this number of seconds there is word again, if all is well: nothing is sent while something is measured.
    pub quiet_s: f64,
    /// Number on the horizontal axis of the sweep's charts.
    pub along: Along,
    /// Measured points, as many as a report has room for.
    pub points: Vec<SweepPoint>,
    /// Measured points beyond those in `points`.
    #[serde(default)]
    pub points_omitted: u32,
}

/// State of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SweepState {
    Running,
    Complete,
    /// Ended early by its user; it can be resumed.
    Interrupted,
    Failed,
}

/// A number by which points differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "SweepAlong")]
pub enum Along {
    /// Commands outstanding.
    Outstanding,
    /// I/O queues of each path.
    Queues,
    /// Commands a second that were due.
    Load,
}

/// A point of a sweep, with all its measurements together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SweepPoint {
    /// Name of the point, different from all others.
    pub label: String,
    /// The workload that it belongs to.
    pub workload: String,
    /// The line that it belongs to: points that differ in one number only.
    pub line: String,
    /// The number; a point without it is in no chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// Measurements.
    pub runs: u32,
    pub iops: Interval,
    pub bytes_per_s: f64,
    /// Latency in nanoseconds: since commands were due, where they were due at a time, else since they were sent.
    pub mean_ns: f64,
    pub p99_ns: Interval,
}

/// A mean, and what holds the true one with 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SweepInterval")]
pub struct Interval {
    pub mean: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

impl SweepBody {
    /// Refuses what no sweep is.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let wrong = |field: &str, what: String| Err(Refusal::unprocessable(what).about(field));
        if self.began.parse::<jiff::Timestamp>().is_err() {
            return wrong("began", "it has to be a time, such as 2026-11-28T22:30:00Z".to_owned());
        }
        if self.points.len() > SWEEP_POINTS_MAX {
            return wrong("points", format!("a sweep has {SWEEP_POINTS_MAX} points here at most"));
        }
        if self.done > self.planned || self.failed > self.done {
            return wrong("done", "more measurements are made than planned, or failed than made".to_owned());
        }
        if self.quiet_s > SWEEP_QUIET_MAX_S {
            return wrong("quiet_s", format!("the next message is due within {SWEEP_QUIET_MAX_S} s"));
        }
        for (field, text) in self.texts() {
            if text.len() > SWEEP_TEXT_BYTES_MAX {
                return wrong(&field, format!("a text has {SWEEP_TEXT_BYTES_MAX} bytes at most"));
            }
        }
        let numbers = self.points.iter().flat_map(SweepPoint::numbers);
        if numbers.chain(self.left_s).chain([self.quiet_s]).any(|number| number < 0.0) {
            return wrong("points", "none of the numbers can be less than nothing".to_owned());
        }
        Ok(())
    }

    fn texts(&self) -> impl Iterator<Item = (String, &str)> {
        let own = [("machine", &self.machine), ("reason", &self.reason), ("measuring", &self.measuring)];
        let own = own.into_iter().filter_map(|(field, text)| Some((field.to_owned(), text.as_deref()?)));
        let points = self.points.iter().enumerate().flat_map(|(at, point)| {
            let named = move |field: &str| format!("points[{at}].{field}");
            [
                (named("label"), &*point.label),
                (named("workload"), &*point.workload),
                (named("line"), &*point.line),
            ]
        });
        own.chain(points)
    }

    /// The same as a target takes it: texts that are cut, and as many points as there is room for.
    #[must_use]
    pub fn within_limits(mut self) -> Self {
        for text in [&mut self.machine, &mut self.reason, &mut self.measuring].into_iter().flatten() {
            cut(text);
        }
        for point in &mut self.points {
            [&mut point.label, &mut point.workload, &mut point.line].into_iter().for_each(cut);
        }
        self.quiet_s = self.quiet_s.min(SWEEP_QUIET_MAX_S);
        let all = self.points.len();
        self.points.truncate(SWEEP_POINTS_MAX);
        while serde_json::to_string(&self).is_ok_and(|text| text.len() > SWEEP_BYTES_MAX)
            && !self.points.is_empty()
        {
            self.points.truncate(self.points.len() / 2);
        }
        self.points_omitted += (all - self.points.len()) as u32;
        self
    }
}

impl SweepPoint {
    fn numbers(&self) -> impl Iterator<Item = f64> {
        let means = [self.bytes_per_s, self.mean_ns, self.iops.mean, self.p99_ns.mean];
        let others = [self.x, self.iops.low, self.iops.high, self.p99_ns.low, self.p99_ns.high];
        means.into_iter().chain(others.into_iter().flatten())
    }
}

fn cut(text: &mut String) {
    text.truncate(text.floor_char_boundary(SWEEP_TEXT_BYTES_MAX));
}
