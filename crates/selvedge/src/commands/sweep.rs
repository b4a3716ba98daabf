//! `selvedge sweep`: many measurements in one command, kept as they are made, and a report of them.

mod meter;
mod progress;
mod publication;
#[cfg(test)]
mod publication_tests;
mod publisher;
mod testbed;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use chart::units;
use measurement::consent;
use serde::Serialize;

use crate::failure::Failure;
use crate::flags::OutputFormat;
use crate::flags::sweep::{OwnFlags, SweepFlags};
use crate::report::duration::duration;
use crate::report::{self, utc};
use crate::stop::Stop;
use crate::sweep::journal::{Header, Journal};
use crate::sweep::plan::{Plan, PlannedRun};
use crate::sweep::point::{Load, Point};
use crate::sweep::report::{FORMAT, SweepReport};
use crate::sweep::statistics::median;
use meter::{Meter, Missed};
use progress::Progress;
use publication::{Stage, publication};
use publisher::Publisher;
use testbed::Testbed;

/// Failures in a row after which the rest is no longer tried.
const FAILURES_MAX: u32 = 3;

/// Does it all.
pub(super) fn run(flags: &SweepFlags) -> Result<(), Failure> {
    let own = &flags.own;
    let resumed = own.resume.as_deref().map(Journal::open).transpose()?;
    let plan = match &resumed {
        Some(journal) => journal.header.plan.clone(),
        None => Plan::new(flags).map_err(Failure::usage)?,
    };
    if own.dry_run {
        return dry_run(&plan, own.output_flags.output_format);
    }
    let stop = Stop::on_signals()?;
    let typed = resumed.is_none().then_some(flags.given.as_slice());
    let (testbed, plan) = Testbed::look(plan, typed)?;
    for left_out in &plan.left_out {
        eprintln!("selvedge: {} left out: {}", left_out.values, left_out.reason);
    }
    // What was found once is measured at every point, and when the sweep goes on.
    let plan = plan.on(testbed.nqn());
    // Undone when the sweep is over.
    let _machine = testbed.prepare_machine(&plan)?;
    let meter = Meter::new(&plan, own, &stop, &testbed)?;
    let folder = own.resume.clone().or_else(|| own.output.clone());
    let folder = folder.unwrap_or_else(|| default_folder(SystemTime::now()));
    // Before anything is made that would be in the way of another try.
    let publisher = Publisher::new(own, testbed.nqn().as_ref(), &folder)?;
    let journal = match resumed {
        Some(journal) => {
            testbed.is_still(&journal.header.identity)?;
            journal
        }
        None => {
            if plan.writes() && !own.destroy_data {
                consent::ask("this sweep", (testbed.nqn(), &testbed.open()?), &[plan.range()])?;
            }
            let header =
                Header::new(plan.clone(), testbed.facts(), testbed.identity(), utc::text(SystemTime::now()));
            Journal::create(&folder, header)?
        }
    };
    let mut sweep = Sweep { plan: &plan, points: plan.points(), meter, journal, stop: &stop, publisher };
    let ended = sweep.measure_all();
    tell(own, &folder, &sweep.journal, ended)
}

/// Points of a dry run, as JSON.
#[derive(Serialize)]
struct DryRun {
    format: u32,
    /// Each point in words, as the report names it, in the plan's order.
    points: Vec<String>,
    measurements: usize,
    /// Expected duration; with `--steady` the least.
    takes_s: f64,
    takes_longer: bool,
}

/// Prints the plan of a dry run.
fn dry_run(plan: &Plan, format: OutputFormat) -> Result<(), Failure> {
    let points = plan.points();
    let runs = plan.planned_runs().len();
    if format == OutputFormat::Json {
        return report::print_json(&DryRun {
            format: FORMAT,
            points: points.iter().map(|point| point.label(|_| true)).collect(),
            measurements: runs,
            takes_s: (plan.run_takes() * runs as u32).as_secs_f64(),
            takes_longer: plan.steady_rounds_max.is_some(),
        });
    }
    let mut text = String::new();
    for (number, point) in points.iter().enumerate() {
        text.push_str(&format!("{:4}  {}\n", number + 1, point.label(|_| true)));
    }
    let takes = plan.run_takes() * runs as u32;
    text.push_str(&format!(
        "{}, {}, {}{}\n",
        units::plural(points.len() as u64, "point"),
        units::plural(runs as u64, "measurement"),
        if plan.steady_rounds_max.is_some() { "at least " } else { "about " },
        duration(takes)
    ));
    report::print(text)
}

fn default_folder(now: SystemTime) -> PathBuf {
    let digits: String = utc::text(now).chars().filter(char::is_ascii_digit).collect();
    let (date, time) = digits.split_at(8);
    PathBuf::from(format!("sweep-{date}-{time}"))
}

/// Why a sweep ended before its end.
enum Ended {
    Complete,
    Interrupted,
    /// The target went away, or nothing worked from some point on.
    Broken(String),
}

/// Measurements that are being made.
struct Sweep<'a> {
    plan: &'a Plan,
    points: Vec<Point>,
    meter: Meter<'a>,
    journal: Journal,
    stop: &'a Stop,
    publisher: Option<Publisher>,
}

impl Sweep<'_> {
    /// Measures what is not there yet, and tells the target how it ended.
    fn measure_all(&mut self) -> Result<Ended, Failure> {
        let runs = self.plan.planned_runs();
        let left: Vec<PlannedRun> = runs.iter().copied().filter(|run| !self.journal.has(*run)).collect();
        let done = runs.len() - left.len();
        let progress = Progress::begin(runs.len(), done, self.plan.run_takes());
        let ended = self.measure(left, &progress);
        let reason = ended.as_ref().err().and_then(Failure::line).unwrap_or_default();
        let stage = match &ended {
            Ok(Ended::Complete) => Stage::Complete,
            Ok(Ended::Interrupted) => Stage::Interrupted,
            Ok(Ended::Broken(reason)) => Stage::Broken(reason),
            Err(_) => Stage::Broken(&reason),
        };
        self.publish(stage, &progress);
        ended
    }

    /// Sends the results so far to the target, if wanted.
    fn publish(&mut self, stage: Stage<'_>, progress: &Progress) {
        let Some(publisher) = &mut self.publisher else { return };
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let is_last = !matches!(stage, Stage::Measuring { .. });
        let body = publication(self.plan, &self.journal, Some(machine), stage);
        if let Some(warning) = publisher.publish(&body, is_last) {
            progress.warn(&warning);
        }
    }

    fn measure(&mut self, left: Vec<PlannedRun>, progress: &Progress) -> Result<Ended, Failure> {
        // The time of a sweep goes on where it was interrupted.
        let began = Instant::now();
        let before = Duration::from_secs_f64(self.journal.lasted_s());
        let mut failures = 0;
        for run in left {
            // Between measurements, of which none is to be disturbed.
            self.publish(Stage::Measuring { run, left: progress.left() }, progress);
            let point = &self.points[run.point];
            progress.measuring(&point.label(|option| self.plan.varies(option)));
            if !self.stop.sleep(Duration::from_millis(self.plan.pause_ms)) {
                return Ok(Ended::Interrupted);
            }
            let rate = match self.rate(point) {
                Ok(rate) => rate,
                Err(reason) => {
                    self.journal.keep_failure(run, &reason)?;
                    progress.failed(&reason);
                    continue;
                }
            };
            match self.meter.measure(point, rate, before + began.elapsed()) {
                Ok(measurement) => {
                    failures = 0;
                    progress.measured(&measurement);
                    self.journal.keep(run, measurement)?;
                }
                Err(Missed::Interrupted) => return Ok(Ended::Interrupted),
                Err(Missed::Lost(reason)) => {
                    self.journal.keep_failure(run, &reason)?;
                    return Ok(Ended::Broken(reason));
                }
                Err(Missed::Failed(reason)) => {
                    self.journal.keep_failure(run, &reason)?;
                    progress.failed(&reason);
                    failures += 1;
                    if failures >= FAILURES_MAX {
                        return Ok(Ended::Broken(format!(
                            "{failures} measurements in a row failed; the last: {reason}"
                        )));
                    }
                }
            }
        }
        Ok(Ended::Complete)
    }

    /// Commands a second of each job, where the point has a share of a load.
    fn rate(&self, point: &Point) -> Result<Option<u64>, String> {
        let Ok(Load::Share(percent)) = point.load() else { return Ok(None) };
        let full = self.plan.full_load_of(point);
        let full: Vec<f64> =
            full.iter().flat_map(|full| self.journal.measurements(*full)).map(|run| run.total.iops).collect();
        if full.is_empty() {
            return Err("its full load could not be measured".to_owned());
        }
        let rate = median(&full) * percent / 100.0 / point.jobs() as f64;
        Ok(Some((rate.round() as u64).max(1)))
    }
}

/// Writes the report, prints what it says, and tells what is missing.
fn tell(
    own: &OwnFlags,
    folder: &Path,
    journal: &Journal,
    ended: Result<Ended, Failure>,
) -> Result<(), Failure> {
    let whole = SweepReport::new(journal);
    // Results are reported even if the sweep was interrupted.
    if journal.count() > 0 {
        report::folder::write(&whole.document, &whole.data, folder)?;
        match own.output_flags.output_format {
            OutputFormat::Normal => report::print(whole.text(&folder.display().to_string()))?,
            OutputFormat::Json => report::print_json(&whole.data)?,
        }
    }
    let ended = ended?;
    let reason = match &ended {
        Ended::Complete => return whole.failures(),
        Ended::Interrupted => "interrupted",
        Ended::Broken(reason) => reason,
    };
    let count = journal.header.plan.planned_runs().len();
    let what = format!(
        "{reason}; {} of {count} measurements are kept, do the rest with: selvedge sweep --resume {}",
        journal.count(),
        folder.display()
    );
    Err(if matches!(ended, Ended::Interrupted) { Failure::interrupted(what) } else { Failure::failed(what) })
}
