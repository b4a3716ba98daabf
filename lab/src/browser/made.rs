//! The reports that the browser looks at, made as users make them: one of a report's JSON that has everything a report can
//! have, one of a sweep of a target that is started for it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::program::Program;

/// A report with every kind of picture, table and finding.
const SAMPLE: &str = include_str!("../../../crates/measurement/tests/report.json");

/// Time for a target to listen, and for a sweep to complete.
const START: Duration = Duration::from_secs(30);
const SWEEP: Duration = Duration::from_secs(120);

/// Makes both in `output`: their names and folders.
///
/// # Errors
/// What could not be made, with what the program said.
pub(super) fn reports(program: &str, output: &Path) -> Result<Vec<(&'static str, PathBuf)>, String> {
    std::fs::create_dir_all(output).map_err(|error| format!("{}: {error}", output.display()))?;
    let (json, sample, sweep) = (output.join("sample.json"), output.join("sample"), output.join("sweep"));
    std::fs::write(&json, SAMPLE).map_err(|error| format!("{}: {error}", json.display()))?;
    let path = |path: &Path| path.display().to_string();
    finish(&[program, "report", &path(&json), "--output", &path(&sample)])?;
    let nqn = "nqn.2026-01.org.example:disks";
    let target = ["serve", "-s", "0", "-n", nqn, "--control", "none", "--namespace", "memory:16m"];
    let serving = start(&[&[program], &target[..]].concat())?;
    let first = serving.line(Instant::now() + START).unwrap_or_default();
    let port = first.rsplit_once(':').map_or("", |(_, port)| port);
    let place = ["-a", "127.0.0.1", "-s", port, "-n", nqn];
    // Everything that makes pictures: several depths, queues, workloads, and loads.
    let axes = [
        "--rw",
        "randread,randrw",
        "--numjobs",
        "2",
        "--iodepth",
        "1,4,16",
        "-i",
        "1,2",
        "--rate_iops",
        "50%",
    ];
    let times = [
        "--runtime",
        "300ms",
        "--ramp_time",
        "50ms",
        "--pause",
        "0",
        "--repeat",
        "2",
        "--latency-target",
        "2ms",
    ];
    let folder = path(&sweep);
    let words = [&[program, "sweep"], &place[..], &axes[..], &times[..], &["--output", &folder]].concat();
    finish(&words)?;
    Ok(vec![("sample", sample), ("sweep", sweep)])
}

fn start(words: &[&str]) -> Result<Program, String> {
    Program::start(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
}

/// Runs a program that must succeed.
fn finish(words: &[&str]) -> Result<(), String> {
    let mut running = start(words)?;
    match running.ended(Instant::now() + SWEEP)? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("{}: {status}: {}", words.join(" "), running.errors())),
        None => Err(format!("{} is not done after {} s", words.join(" "), SWEEP.as_secs())),
    }
}
