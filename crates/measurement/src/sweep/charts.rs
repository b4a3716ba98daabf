//! The pictures of a sweep: which there are, and the points in them. How they are drawn is `report`'s.

use chart::units;
use chart::{Axis, Chart, Drawing, Heat, Mark, Point, Scale, Series, Style, Unit};

use super::answer;
use super::choice::{Knee, knee};
use super::family::{Along, Family, Workload, families, workloads};
use super::measurement::QUANTILES;
use super::plan::Plan;
use super::summary::{LatencySummary, Quantity, Summary};

/// Maximum number of lines in one chart that a reader can tell apart.
pub const LINES_MAX: usize = 8;
/// Points that are looked at more closely, each workload.
const CLOSER_MAX: usize = 3;

/// All pictures of a sweep.
pub fn all(plan: &Plan, summaries: &[Summary]) -> Vec<Chart> {
    let mut charts: Vec<Chart> = answer::picture(plan, summaries).into_iter().collect();
    let workloads = workloads(plan, summaries);
    let is_brief = answer::is_brief(plan, workloads.len());
    for workload in &workloads {
        charts.extend(by_outstanding(plan, workload));
        charts.extend(by_queues(plan, workload));
        charts.extend(curves(plan, workload));
        if !is_brief {
            charts.extend(closer(plan, workload));
        }
    }
    charts.retain(|chart| match &chart.drawing {
        Drawing::Lines(lines) => lines.iter().any(|line| !line.points.is_empty()),
        Drawing::Heat(heat) => !heat.counts.is_empty(),
    });
    charts
}

/// A quantity over what members of families differ in.
struct Wanted {
    id: &'static str,
    title: &'static str,
    label: &'static str,
    unit: Unit,
    /// Solid lines.
    of: fn(&Summary) -> Quantity,
    /// Dashed ones.
    second: Option<fn(&Summary) -> Option<Quantity>>,
    caption: &'static str,
}

const IOPS: Wanted = Wanted {
    id: "iops",
    title: "IOPS",
    label: "IOPS",
    unit: Unit::Iops,
    of: |summary| summary.iops,
    second: None,
    caption: "More is better.",
};
const MEAN: Wanted = Wanted {
    id: "mean",
    title: "Mean latency",
    label: "mean latency",
    unit: Unit::Nanoseconds,
    of: |summary| summary.latency.mean_ns,
    second: None,
    caption: "Less is better. From sending a command to its completion.",
};
const P99: Wanted = Wanted {
    id: "p99",
    title: "p99 latency",
    label: "p99 latency",
    unit: Unit::Nanoseconds,
    of: |summary| summary.latency.p99_ns,
    second: None,
    caption: "Less is better. 99 of 100 commands took no longer.",
};
const CPU: Wanted = Wanted {
    id: "cpu",
    title: "Processor time per I/O",
    label: "processor time per I/O",
    unit: Unit::Nanoseconds,
    of: |summary| summary.cpu_ns_per_io,
    second: Some(|summary| summary.target_cpu_ns_per_io),
    caption: "Less is better. Solid: the initiator's workers. Dashed: the target, where it is known.",
};

impl Wanted {
    fn chart(&self, workload: &Workload<'_>, families: &[Family<'_>], along: Along) -> Chart {
        let (name, words, x) = match along {
            Along::Outstanding => ("outstanding", "outstanding I/O", "outstanding commands"),
            Along::Queues => ("queues", "I/O queues", "I/O queues of each path (-i)"),
            Along::Load => ("load", "load", "load"),
        };
        let mut lines = Vec::new();
        for family in families.iter().take(LINES_MAX) {
            let point = |summary: &Summary, quantity: &Quantity| Point {
                x: along.of(summary),
                y: quantity.mean,
                interval: quantity.interval,
                note: Some(units::plural(summary.runs as u64, "run")),
            };
            let points = family.members.iter().map(|summary| point(summary, &(self.of)(summary))).collect();
            lines.push(Series { name: family.label.clone(), style: Style::Solid, points });
            let Some(second) = self.second else { continue };
            let points = family.members.iter().filter_map(|summary| Some(point(summary, &second(summary)?)));
            let points: Vec<Point> = points.collect();
            if !points.is_empty() {
                lines.push(Series { name: family.label.clone(), style: Style::Dashed, points });
            }
        }
        Chart {
            id: format!("{}-by-{name}{}", self.id, workload.key),
            title: titled(&format!("{} by {words}", self.title), workload),
            caption: format!("{}{}", self.caption, left_out(families.len())),
            x: Axis { label: x.to_owned(), unit: Unit::Count, scale: Scale::Log2 },
            y: Axis {
                label: self.label.to_owned(),
                unit: self.unit,
                scale: scale(values(&lines, |point| point.y)),
            },
            drawing: Drawing::Lines(lines),
            marks: Vec::new(),
        }
    }
}

/// A logarithmic scale for values that span a decade or more, among which a linear one would show the greatest alone.
pub(super) fn scale(values: impl Iterator<Item = f64>) -> Scale {
    let (low, high) =
        values.fold((f64::MAX, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    if low > 0.0 && high >= low * 10.0 { Scale::Log10 } else { Scale::Linear }
}

/// Values of lines, across or up.
fn values(lines: &[Series], of: fn(&Point) -> f64) -> impl Iterator<Item = f64> {
    lines.iter().flat_map(|line| &line.points).map(of)
}

fn titled(title: &str, workload: &Workload<'_>) -> String {
    if workload.key.is_empty() { title.to_owned() } else { format!("{title}: {}", workload.label) }
}

fn left_out(lines: usize) -> String {
    match lines.checked_sub(LINES_MAX) {
        None | Some(0) => String::new(),
        Some(more) => format!(" {} more are in the table.", units::plural(more as u64, "line")),
    }
}

fn by_outstanding(plan: &Plan, workload: &Workload<'_>) -> Vec<Chart> {
    if !plan.varies("iodepth") && !plan.varies("numjobs") {
        return Vec::new();
    }
    let families = families(plan, &workload.at_full_load(), Along::Outstanding);
    let mut wanted = vec![&IOPS, &MEAN, &P99];
    if !plan.varies("nr-io-queues") {
        wanted.push(&CPU);
    }
    wanted.into_iter().map(|wanted| wanted.chart(workload, &families, Along::Outstanding)).collect()
}

fn by_queues(plan: &Plan, workload: &Workload<'_>) -> Vec<Chart> {
    if !plan.varies("nr-io-queues") {
        return Vec::new();
    }
    let families = families(plan, &workload.at_full_load(), Along::Queues);
    let wanted = [&MEAN, &P99, &IOPS, &CPU];
    wanted.into_iter().map(|wanted| wanted.chart(workload, &families, Along::Queues)).collect()
}

/// Throughput and latency together: as more is outstanding, and as the load grows.
fn curves(plan: &Plan, workload: &Workload<'_>) -> Vec<Chart> {
    let mut charts = Vec::new();
    if plan.varies("iodepth") || plan.varies("numjobs") {
        let families = families(plan, &workload.at_full_load(), Along::Outstanding);
        charts.push(closed_loop(plan, workload, &families));
    }
    let loaded = workload.with_loads();
    if !loaded.is_empty() {
        let families = families(plan, &loaded, Along::Load);
        charts.push(open_loop(plan, workload, &families));
        charts.push(delivered(workload, &families));
    }
    charts
}

fn closed_loop(plan: &Plan, workload: &Workload<'_>, families: &[Family<'_>]) -> Chart {
    let line = |family: &Family<'_>| Series {
        name: family.label.clone(),
        style: Style::Solid,
        points: family.members.iter().map(|summary| curve_point(summary, &summary.latency)).collect(),
    };
    let lines: Vec<Series> = families.iter().take(LINES_MAX).map(line).collect();
    let (across, up) = (scale(values(&lines, |point| point.x)), scale(values(&lines, |point| point.y)));
    Chart {
        id: format!("curve{}", workload.key),
        title: titled("Latency by throughput, as more is outstanding", workload),
        caption: format!(
            "Down and to the right is better. At the knee, more outstanding commands begin to cost more in waiting than \
             they bring in throughput.{}",
            left_out(families.len())
        ),
        x: Axis { label: "throughput".to_owned(), unit: Unit::Iops, scale: across },
        y: Axis { label: "p99 latency".to_owned(), unit: Unit::Nanoseconds, scale: up },
        drawing: Drawing::Lines(lines),
        marks: marks(plan, workload, families),
    }
}

fn open_loop(plan: &Plan, workload: &Workload<'_>, families: &[Family<'_>]) -> Chart {
    let mut lines = Vec::new();
    for family in families.iter().take(LINES_MAX) {
        // The full load is not a load of its own: its commands are due whenever there is room.
        let offered: Vec<&&Summary> =
            family.members.iter().filter(|summary| summary.response.is_some()).collect();
        let due = offered.iter().map(|summary| curve_point(summary, summary.seen_latency()));
        lines.push(Series { name: family.label.clone(), style: Style::Solid, points: due.collect() });
        let sent = offered.iter().map(|summary| curve_point(summary, &summary.latency));
        lines.push(Series { name: family.label.clone(), style: Style::Dashed, points: sent.collect() });
    }
    Chart {
        id: format!("load{}", workload.key),
        title: titled("Latency by throughput, as the load grows", workload),
        caption: "Commands are due at fixed times. Solid: since they were due, which is what a user waits. Dashed: since \
                  they were sent, which hides the queue in front of the initiator."
            .to_owned(),
        x: Axis { label: "throughput".to_owned(), unit: Unit::Iops, scale: Scale::Linear },
        y: Axis { label: "p99 latency".to_owned(), unit: Unit::Nanoseconds, scale: Scale::Log10 },
        drawing: Drawing::Lines(lines),
        marks: marks(plan, workload, families),
    }
}

fn delivered(workload: &Workload<'_>, families: &[Family<'_>]) -> Chart {
    let line = |family: &Family<'_>| {
        let offered = family.members.iter().filter_map(|summary| Some((summary.offered_iops?, summary)));
        let point = |(offered, summary): (f64, &&Summary)| Point {
            x: offered,
            y: summary.iops.mean,
            interval: summary.iops.interval,
            note: Some(summary.label.clone()),
        };
        Series { name: family.label.clone(), style: Style::Solid, points: offered.map(point).collect() }
    };
    Chart {
        id: format!("delivered{}", workload.key),
        title: titled("Throughput by load", workload),
        caption: "Where the line leaves the diagonal, the load is more than can be done.".to_owned(),
        x: Axis { label: "load".to_owned(), unit: Unit::Iops, scale: Scale::Linear },
        y: Axis { label: "throughput".to_owned(), unit: Unit::Iops, scale: Scale::Linear },
        drawing: Drawing::Lines(families.iter().take(LINES_MAX).map(line).collect()),
        marks: Vec::new(),
    }
}

fn curve_point(summary: &Summary, latency: &LatencySummary) -> Point {
    Point {
        x: summary.iops.mean,
        y: latency.p99_ns.mean,
        interval: latency.p99_ns.interval,
        note: Some(summary.label.clone()),
    }
}

/// The workload's knee, if it is among the points of these families, and the line that they must stay below.
fn marks(plan: &Plan, workload: &Workload<'_>, families: &[Family<'_>]) -> Vec<Mark> {
    let mut marks = Vec::new();
    if let Some(target) = plan.latency_target_ns {
        let label = units::time_ns(target as f64);
        marks.push(Mark { x: None, y: Some(target as f64), until: None, label });
    }
    // The last point that was measured is not known to be a knee.
    let Some(Knee { summary, is_passed: true }) = knee(plan, workload) else { return marks };
    if families.iter().flat_map(|family| &family.members).any(|member| std::ptr::eq(*member, summary)) {
        let label = format!("knee: {} IOPS", units::count(summary.iops.mean));
        let (x, y) = (Some(summary.iops.mean), Some(summary.seen_latency().p99_ns.mean));
        marks.push(Mark { x, y, until: None, label });
    }
    marks
}

/// Some points, looked at more closely: latency over time, percentiles, throughput over time.
fn closer(plan: &Plan, workload: &Workload<'_>) -> Vec<Chart> {
    let chosen = worth_a_closer_look(plan, workload);
    let mut charts = Vec::new();
    if let Some(first) = chosen.first() {
        charts.push(percentiles(workload, &chosen, first.response.is_some()));
        charts.push(over_time(workload, &chosen));
    }
    for (number, summary) in chosen.iter().take(CLOSER_MAX).enumerate() {
        let grid = &summary.latency_grid;
        let columns = grid.counts.len();
        charts.push(Chart {
            id: format!("heat{}-{}", workload.key, number + 1),
            title: titled(&format!("Latency over time, {}", at_least(&summary.label)), workload),
            caption: "How many commands took how long, in the run in the middle. A second band, or stripes, are work that \
                      comes and goes: other loads, timers, retransmissions."
                .to_owned(),
            x: Axis { label: "time".to_owned(), unit: Unit::Seconds, scale: Scale::Linear },
            y: Axis { label: "latency".to_owned(), unit: Unit::Nanoseconds, scale: Scale::Log10 },
            drawing: Drawing::Heat(Heat {
                x_edges: (0..=columns).map(|column| column as f64 * grid.column_s).collect(),
                y_edges: grid.edges_ns.iter().map(|edge| *edge as f64).collect(),
                counts: grid.counts.clone(),
            }),
            marks: Vec::new(),
        });
    }
    charts
}

fn at_least(label: &str) -> &str {
    if label.is_empty() { "the only point" } else { label }
}

/// All points where they are few; else the one that does most, the knee, and the one with the longest tail.
fn worth_a_closer_look<'a>(plan: &Plan, workload: &Workload<'a>) -> Vec<&'a Summary> {
    if workload.members.len() <= CLOSER_MAX {
        return workload.members.clone();
    }
    let mut chosen: Vec<&Summary> = Vec::new();
    let mut add = |summary: Option<&'a Summary>| {
        if let Some(summary) =
            summary.filter(|summary| !chosen.iter().any(|other| std::ptr::eq(*other, *summary)))
        {
            chosen.push(summary);
        }
    };
    let all = &workload.members;
    add(all.iter().max_by(|a, b| a.iops.mean.total_cmp(&b.iops.mean)).copied());
    add(knee(plan, workload).map(|knee| knee.summary));
    let tail = |summary: &Summary| summary.latency.p99_9_ns.mean / summary.latency.p50_ns.mean.max(1.0);
    add(all.iter().max_by(|a, b| tail(a).total_cmp(&tail(b))).copied());
    chosen
}

fn percentiles(workload: &Workload<'_>, chosen: &[&Summary], is_open: bool) -> Chart {
    let line = |summary: &&Summary| {
        let values = &summary.seen_latency().quantiles_ns;
        let below_all = QUANTILES.iter().zip(values).filter(|(quantile, _)| **quantile < 1.0);
        let point = |(quantile, value): (&f64, &f64)| Point {
            x: 1.0 / (1.0 - quantile),
            y: *value,
            interval: None,
            note: Some(format!("p{}", (quantile * 1e6).round() / 1e4)),
        };
        let name = if chosen.len() > 1 { summary.label.clone() } else { String::new() };
        Series { name, style: Style::Solid, points: below_all.map(point).collect() }
    };
    let since = if is_open { "were due" } else { "were sent" };
    Chart {
        id: format!("percentiles{}", workload.key),
        title: titled("Percentiles of latency", workload),
        caption: format!(
            "How long one of that number of commands takes at least, since they {since}: 100 is p99."
        ),
        x: Axis { label: "one command of".to_owned(), unit: Unit::Count, scale: Scale::Log10 },
        y: Axis { label: "latency".to_owned(), unit: Unit::Nanoseconds, scale: Scale::Log10 },
        drawing: Drawing::Lines(chosen.iter().map(line).collect()),
        marks: Vec::new(),
    }
}

fn over_time(workload: &Workload<'_>, chosen: &[&Summary]) -> Chart {
    let line = |summary: &&Summary| {
        let grid = &summary.latency_grid;
        // The last column need not be a whole one.
        let whole = grid.counts.len().saturating_sub(1);
        let point = |(at, counts): (usize, &Vec<u64>)| Point {
            x: at as f64 * grid.column_s,
            y: counts.iter().sum::<u64>() as f64 / grid.column_s,
            interval: None,
            note: None,
        };
        let name = if chosen.len() > 1 { summary.label.clone() } else { String::new() };
        Series {
            name,
            style: Style::Solid,
            points: grid.counts.iter().take(whole).enumerate().map(point).collect(),
        }
    };
    Chart {
        id: format!("over-time{}", workload.key),
        title: titled("IOPS over time", workload),
        caption: "The run in the middle of each of these points. A level line is a steady one.".to_owned(),
        x: Axis { label: "time".to_owned(), unit: Unit::Seconds, scale: Scale::Linear },
        y: Axis { label: "IOPS".to_owned(), unit: Unit::Iops, scale: Scale::Linear },
        drawing: Drawing::Lines(chosen.iter().map(line).collect()),
        marks: Vec::new(),
    }
}
