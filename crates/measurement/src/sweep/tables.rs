//! The table of a sweep's points: what varies, what was measured, how sure it is. How tables look is `report`'s.

use chart::Unit;

use super::plan::Plan;
use super::point::in_words;
use super::summary::{Quantity, StageSummary, Summary};
use crate::flags::sweep::AXES;
use crate::report::document::{Cell, Column, DataTable};

/// A column of measurements: name, key, unit, and the cell of a point.
type Measured = (&'static str, &'static str, Unit, fn(&Summary) -> Cell);

/// Columns with measured quantities.
const MEASURED: [Measured; 21] = [
    ("outstanding", "outstanding", Unit::Count, |summary| number(summary.outstanding as f64)),
    ("queues", "queues", Unit::Count, |summary| number(summary.queues_granted as f64)),
    ("offered", "offered_iops", Unit::Iops, |summary| summary.offered_iops.map_or(Cell::Nothing, number)),
    ("IOPS", "iops", Unit::Iops, |summary| quantity(&summary.iops)),
    ("bandwidth", "bw_bytes", Unit::BytesPerSecond, |summary| quantity(&summary.bw_bytes)),
    ("mean", "mean_ns", Unit::Nanoseconds, |summary| quantity(&summary.latency.mean_ns)),
    ("p50", "p50_ns", Unit::Nanoseconds, |summary| quantity(&summary.latency.p50_ns)),
    ("p99", "p99_ns", Unit::Nanoseconds, |summary| quantity(&summary.latency.p99_ns)),
    ("p99.9", "p99_9_ns", Unit::Nanoseconds, |summary| quantity(&summary.latency.p99_9_ns)),
    ("max", "max_ns", Unit::Nanoseconds, |summary| number(summary.latency.max_ns as f64)),
    ("mean since due", "response_mean_ns", Unit::Nanoseconds, |summary| {
        summary.response.as_ref().map_or(Cell::Nothing, |response| quantity(&response.mean_ns))
    }),
    ("p99 since due", "response_p99_ns", Unit::Nanoseconds, |summary| {
        summary.response.as_ref().map_or(Cell::Nothing, |response| quantity(&response.p99_ns))
    }),
    ("waiting for a queue", "waiting_ns", Unit::Nanoseconds, |summary| stage(summary, |all| &all.waiting_ns)),
    ("being sent", "sending_ns", Unit::Nanoseconds, |summary| stage(summary, |all| &all.sending_ns)),
    ("target and network", "target_ns", Unit::Nanoseconds, |summary| stage(summary, |all| &all.target_ns)),
    ("being received", "receiving_ns", Unit::Nanoseconds, |summary| stage(summary, |all| &all.receiving_ns)),
    ("CPU per I/O", "cpu_ns_per_io", Unit::Nanoseconds, |summary| quantity(&summary.cpu_ns_per_io)),
    ("target's CPU per I/O", "target_cpu_ns_per_io", Unit::Nanoseconds, |summary| {
        summary.target_cpu_ns_per_io.as_ref().map_or(Cell::Nothing, quantity)
    }),
    ("machine busy", "machine_busy_percent", Unit::Percent, |summary| {
        summary.machine_busy.map_or(Cell::Nothing, |busy| number(busy * 100.0))
    }),
    ("taken by others", "others_percent", Unit::Percent, |summary| {
        summary.taken_by_others().map_or(Cell::Nothing, |share| number(share * 100.0))
    }),
    ("runs", "runs", Unit::Count, |summary| number(summary.runs as f64)),
];

/// The table of all points. Columns without any value are left out.
pub fn points(plan: &Plan, summaries: &[Summary]) -> DataTable {
    let options: Vec<&str> = AXES.into_iter().filter(|option| plan.varies(option)).collect();
    let used: Vec<&Measured> = MEASURED
        .iter()
        .filter(|(.., of)| summaries.iter().any(|summary| of(summary) != Cell::Nothing))
        .collect();
    let text = |name: &str, key: &str| Column { name: name.to_owned(), key: key.to_owned(), unit: None };
    let mut columns: Vec<Column> =
        options.iter().map(|option| text(title(option), &option.replace('-', "_"))).collect();
    columns.extend(used.iter().map(|(name, key, unit, _)| Column {
        name: (*name).to_owned(),
        key: (*key).to_owned(),
        unit: Some(*unit),
    }));
    columns.push(text("remarks", "remarks"));
    let row = |summary: &Summary| {
        let value =
            |option: &&str| summary.point.value(option).map_or(Cell::Nothing, |value| cell(option, value));
        let mut cells: Vec<Cell> = options.iter().map(value).collect();
        let measured =
            |of: fn(&Summary) -> Cell| if summary.is_measured() { of(summary) } else { Cell::Nothing };
        cells.extend(used.iter().map(|(.., of)| measured(*of)));
        cells.push(Cell::Text(remarks(summary)));
        cells
    };
    DataTable {
        id: "points".to_owned(),
        title: "Every point".to_owned(),
        columns,
        rows: summaries.iter().map(row).collect(),
    }
}

/// Returns remarks on anomalies of a point.
fn remarks(summary: &Summary) -> String {
    let mut remarks = Vec::new();
    if summary.runs == 0 && summary.failures.is_empty() {
        remarks.push("not measured".to_owned());
    }
    if let Some(reason) = summary.failures.first() {
        remarks.push(format!("failed: {reason}"));
    }
    if summary.unsteady > 0 {
        remarks.push(format!("{} of {} not steady", summary.unsteady, summary.runs));
    }
    if summary.is_measured() && (summary.queues_granted as u64) < summary.queues {
        remarks.push(format!("{} of {} queues granted", summary.queues_granted, summary.queues));
    }
    remarks.join("; ")
}

/// The option as the head of a column.
fn title(option: &str) -> &str {
    match option {
        "nr-io-queues" => "-i",
        "match-hw-queues" => "matching",
        "rwmixread" => "reads",
        "rate_iops" => "load",
        other => other,
    }
}

/// Numbers are sorted as such.
fn cell(option: &str, value: &str) -> Cell {
    match (option, value.parse::<f64>()) {
        ("iodepth" | "numjobs" | "nr-io-queues" | "queue-size" | "poll-us" | "fsync", Ok(value)) => {
            number(value)
        }
        _ => Cell::Text(in_words(option, value)),
    }
}

fn number(value: f64) -> Cell {
    Cell::Number { value, interval: None }
}

/// Returns the cell with a command's time in one stage, if measured.
fn stage(summary: &Summary, of: fn(&StageSummary) -> &Quantity) -> Cell {
    summary.stages.as_ref().map_or(Cell::Nothing, |stages| quantity(of(stages)))
}

fn quantity(quantity: &Quantity) -> Cell {
    if quantity.count == 0 {
        return Cell::Nothing;
    }
    Cell::Number { value: quantity.mean, interval: quantity.interval }
}
