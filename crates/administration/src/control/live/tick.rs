//! The event of each second: activity since the previous event, and health of the target.

use std::collections::{BTreeMap, HashMap};
use std::time::UNIX_EPOCH;

use engine::target::{ControllerMetrics, QueueMetrics, ReactorMetrics, Stage};
use schemars::JsonSchema;
use serde::Serialize;

use super::super::limits::LIVE_NAMESPACES_MAX;
use super::done::Done;
use super::health::Health;
use super::interval::{Interval, Kinds, Sample, busy};

/// A second of a target. What did nothing is left out.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LiveTick")]
pub(in crate::control) struct Tick {
    /// End of the second, in seconds since 1970.
    time_s: f64,
    /// The time that rates are over.
    interval_s: f64,
    health: Health,
    /// All namespaces together.
    all: Load,
    /// Namespaces that took commands, by subsystem.
    subsystems: Vec<SubsystemTick>,
    /// Namespaces that are left out, since others took more commands.
    namespaces_omitted: usize,
    /// Controllers whose queues took commands or have some under way.
    controllers: Vec<ControllerTick>,
    /// Queues that are left out, since there are too many.
    queues_omitted: usize,
    reactors: Vec<ReactorTick>,
}

/// Commands done for hosts.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "LiveLoad")]
struct Load {
    #[serde(skip_serializing_if = "Option::is_none")]
    read: Option<Flow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write: Option<Flow>,
    /// All other commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    other: Option<Flow>,
    /// Commands that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    errors_per_s: Option<f64>,
}

/// Commands of one kind that went well.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LiveFlow")]
struct Flow {
    iops: f64,
    bytes_per_s: f64,
    mean_us: f64,
    /// Half of them took no longer: the end of a bucket, as in the metrics. Missing where that is beyond the last end.
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_us_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_us_max: Option<u64>,
    /// Share of each stage in the mean, in microseconds: `receive`, `limits`, `buffer`, `storage`,
    /// `others`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    stages_us: BTreeMap<&'static str, f64>,
    /// Commands that limits held back, each second.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_per_s: Option<f64>,
    /// Commands by latency: number n took at most 2^n µs, and more than half of that. Of all namespaces together only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    buckets: Vec<u64>,
    /// The same by their time in each stage, by its name. A command that was not in a stage is not in its buckets.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    stage_buckets: BTreeMap<&'static str, Vec<u64>>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LiveSubsystem")]
struct SubsystemTick {
    nqn: String,
    namespaces: Vec<NamespaceTick>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LiveNamespace")]
struct NamespaceTick {
    nsid: u32,
    #[serde(flatten)]
    load: Load,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LiveController")]
struct ControllerTick {
    cntlid: u16,
    queues: Vec<QueueTick>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LiveQueue")]
struct QueueTick {
    queue_id: u16,
    /// Commands that it took, each second.
    iops: f64,
    /// Commands under way.
    depth: u32,
    /// The stage on which most of its commands' time was spent, and that share; missing where they took no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    stage: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stage_percent: Option<f64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LiveReactor")]
struct ReactorTick {
    number: usize,
    connections: usize,
    /// The share of its time in which it did not wait for events.
    busy_percent: f64,
}

impl Tick {
    pub(super) fn new(now: &Sample, before: &Sample, interval: &Interval<'_>, health: Health) -> Self {
        let seconds = interval.seconds;
        let (subsystems, namespaces_omitted) = subsystems(interval);
        Self {
            time_s: rounded(now.time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()),
            interval_s: rounded(seconds),
            health,
            all: Load::new(&interval.all, seconds, true),
            subsystems,
            namespaces_omitted,
            controllers: controllers(now, before, seconds),
            queues_omitted: now.metrics.queues_omitted,
            reactors: now
                .metrics
                .reactors
                .iter()
                .map(|reactor| reactor_tick(reactor, before, seconds))
                .collect(),
        }
    }
}

impl Load {
    fn new(kinds: &Kinds, seconds: f64, with_buckets: bool) -> Self {
        let flow = |done: &Done| Flow::new(done, seconds, with_buckets);
        Self {
            read: flow(&kinds.read),
            write: flow(&kinds.write),
            other: flow(&kinds.other),
            errors_per_s: (kinds.errors > 0).then(|| per_second(kinds.errors, seconds)),
        }
    }
}

impl Flow {
    fn new(done: &Done, seconds: f64, with_buckets: bool) -> Option<Self> {
        let commands = done.commands();
        let mean_us = |sum_ns: u64| rounded(sum_ns as f64 / 1000.0 / commands as f64);
        (commands > 0).then(|| Self {
            iops: per_second(commands, seconds),
            bytes_per_s: per_second(done.bytes, seconds),
            mean_us: mean_us(done.latency.sum_ns),
            p50_us_max: done.within_us(0.5),
            p99_us_max: done.within_us(0.99),
            stages_us: done.stages_ns().map(|(stage, sum_ns)| (stage, mean_us(sum_ns))).collect(),
            held_per_s: (done.held() > 0).then(|| per_second(done.held(), seconds)),
            buckets: if with_buckets { done.buckets() } else { Vec::new() },
            stage_buckets: if with_buckets { done.stage_buckets() } else { BTreeMap::new() },
        })
    }
}

/// The namespaces that took most commands, in order, and how many others there were.
fn subsystems(interval: &Interval<'_>) -> (Vec<SubsystemTick>, usize) {
    let mut busiest: Vec<_> = interval.namespaces.iter().collect();
    let omitted = busiest.len().saturating_sub(LIVE_NAMESPACES_MAX);
    if omitted > 0 {
        busiest.sort_by_key(|(_, kinds)| std::cmp::Reverse(kinds.commands()));
        busiest.truncate(LIVE_NAMESPACES_MAX);
        busiest.sort_by_key(|(place, _)| **place);
    }
    let mut subsystems: Vec<SubsystemTick> = Vec::new();
    for ((nqn, nsid), kinds) in busiest {
        if subsystems.last().is_none_or(|last| last.nqn != *nqn) {
            subsystems.push(SubsystemTick { nqn: (*nqn).to_owned(), namespaces: Vec::new() });
        }
        let load = Load::new(kinds, interval.seconds, false);
        if let Some(subsystem) = subsystems.last_mut() {
            subsystem.namespaces.push(NamespaceTick { nsid: *nsid, load });
        }
    }
    (subsystems, omitted)
}

fn controllers(now: &Sample, before: &Sample, seconds: f64) -> Vec<ControllerTick> {
    let former: HashMap<u16, &ControllerMetrics> =
        before.metrics.controllers.iter().map(|controller| (controller.cntlid, controller)).collect();
    let active = now.metrics.controllers.iter().filter_map(|controller| {
        // A number is given to another host some day.
        let former = former.get(&controller.cntlid).filter(|former| former.host_nqn == controller.host_nqn);
        let queues: Vec<QueueTick> = controller
            .queues
            .iter()
            .filter_map(|queue| {
                let former = former?.queues.iter().find(|former| former.queue_id == queue.queue_id);
                let commands = queue.commands.saturating_sub(former.map_or(0, |former| former.commands));
                let longest = longest_stage(queue, former);
                let tick = QueueTick {
                    queue_id: queue.queue_id,
                    iops: per_second(commands, seconds),
                    depth: queue.depth,
                    stage: longest.map(|(stage, _)| stage.name()),
                    stage_percent: longest.map(|(_, share)| rounded(100.0 * share)),
                };
                (commands > 0 || queue.depth > 0).then_some(tick)
            })
            .collect();
        (!queues.is_empty()).then_some(ControllerTick { cntlid: controller.cntlid, queues })
    });
    active.collect()
}

/// On which stage a queue's commands have spent most of their time since `former`, and what share of it.
fn longest_stage(now: &QueueMetrics, former: Option<&QueueMetrics>) -> Option<(Stage, f64)> {
    let before = former.map(|former| former.stages_ns).unwrap_or_default();
    let spent = Stage::ALL.map(|stage| now.stages_ns[stage as usize].saturating_sub(before[stage as usize]));
    let all: u64 = spent.iter().sum();
    let longest = Stage::ALL.into_iter().zip(spent).max_by_key(|(_, spent_ns)| *spent_ns)?;
    (all > 0).then(|| (longest.0, longest.1 as f64 / all as f64))
}

fn reactor_tick(reactor: &ReactorMetrics, before: &Sample, seconds: f64) -> ReactorTick {
    let former = before.metrics.reactors.iter().find(|former| former.number == reactor.number);
    let share = former.map_or(0.0, |former| busy(reactor, former, seconds));
    ReactorTick {
        number: reactor.number,
        connections: reactor.connections,
        busy_percent: rounded(100.0 * share),
    }
}

fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { rounded(count as f64 / seconds) } else { 0.0 }
}

/// Digits that mean nothing are not sent to anybody each second.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_tells_the_stage_that_most_time_was_spent_on_since() {
        let queue = |stages_ns| QueueMetrics { queue_id: 1, commands: 10, depth: 0, stages_ns };
        let (before, now) = (queue([900, 100, 0, 500, 0]), queue([900, 400, 0, 600, 0]));
        assert_eq!(longest_stage(&now, Some(&before)), Some((Stage::Limits, 0.75)));
        assert_eq!(longest_stage(&now, None), Some((Stage::Receive, 900.0 / 1900.0)));
        assert_eq!(longest_stage(&now, Some(&now)), None, "nothing took time");
    }
}
