//! Sweeps of the made-up target: one that runs, with a hostile name and more lines than a picture has, one that is silent, and
//! some that have ended.

use serde_json::{Value, json};

use super::fixture::{DISKS, HOSTILE, MARKUP, longest, now_s};

/// The one that runs.
pub(super) const RUNNING: &str = "<b>nightly</b>\u{202e}gpj";
/// Lines of its pictures: two more than are drawn.
const LINES: u32 = 10;

fn progress(name: &str, subsystem: &str, state: &str, ago_s: u64) -> Value {
    json!({
        "name": name, "subsystem": subsystem, "nsid": 1, "machine": HOSTILE, "began": "2026-11-26T05:31:02Z", "state": state,
        "heard_s": now_s() as u64 - ago_s, "done": 21, "failed": 0, "planned": 63,
    })
}

fn running() -> Value {
    let mut running = progress(RUNNING, DISKS, "running", 2);
    running["left_s"] = json!(3661.0);
    running["measuring"] = json!("<i>randread</i>, depth 8, 2 queues");
    running["failed"] = json!(1);
    running
}

fn failed() -> Value {
    let mut failed = progress(&longest(), MARKUP, "failed", 90_000);
    failed["reason"] = json!("3 measurements in a row failed; the last: <b>connection refused</b>");
    failed
}

/// The list of them.
pub(super) fn all() -> Value {
    let mut complete = progress("first", DISKS, "complete", 4000);
    complete["done"] = json!(63);
    let sweeps = [running(), progress("cut off", DISKS, "silent", 600), complete, failed()];
    json!({ "sweeps": sweeps })
}

/// Sweep by its path.
pub(super) fn one(path: &str) -> Option<Value> {
    let name = path.rsplit('/').next()?;
    let names = [
        ("nightly", running()),
        ("cut", progress("cut off", DISKS, "silent", 600)),
        ("first", {
            let mut complete = progress("first", DISKS, "complete", 4000);
            complete["done"] = json!(63);
            complete
        }),
    ];
    let found = names.into_iter().find(|(part, _)| name.contains(part)).map(|(_, sweep)| sweep);
    let mut sweep = found.or_else(|| name.contains("wwww").then(failed))?;
    sweep["along"] = json!("outstanding");
    sweep["points_omitted"] = json!(3);
    let is_one_line = name.contains("first");
    let lines = if is_one_line { 1 } else { LINES };
    let points =
        (1..=lines).flat_map(|queues| (0..7).map(move |power| point(queues, 1 << power, is_one_line)));
    sweep["points"] = points.collect();
    Some(sweep)
}

/// Throughput grows with queues and depth, ever less, and latency ever more.
fn point(queues: u32, depth: u32, is_one_line: bool) -> Value {
    let most = 100e3 + 40e3 * f64::from(queues);
    let iops = most * f64::from(depth) / (f64::from(depth) + 6.0);
    let mean_ns = f64::from(depth) / iops * 1e9;
    let line = if is_one_line { String::new() } else { format!("{queues} queues<i>") };
    json!({
        "label": format!("depth {depth}, {queues} queues<i>"), "workload": "randread, 4 KiB", "line": line,
        "x": depth, "runs": 3, "iops": { "mean": iops, "low": iops * 0.9, "high": iops * 1.1 }, "bytes_per_s": iops * 4096.0,
        "mean_ns": mean_ns, "p99_ns": { "mean": mean_ns * 3.0, "low": mean_ns * 2.5, "high": mean_ns * 3.5 },
    })
}
