//! `lab paths`: runs cells, keeps what happened, and shows it. It keeps out how a run is made and how figures compare.

use std::path::{Path, PathBuf};
use std::time::Instant;

use chart::svg::Look;
use chart::{Axis, Chart, Drawing, Mark, Point, Scale, Series as Curve, Style, Unit};
use serde::Serialize;
use serde_json::json;

use crate::arguments::{Arguments, Task};
use crate::cell::{Access, Cell, Congestion, Family, Tls, Transport, Word as _};
use crate::command_line::refuse;
use crate::contest;
use crate::cuts;
use crate::experiment::{self, Event, Plan, Record};
use crate::matrix::{self, Axes, Progress, minutes};
use crate::network::Network;
use crate::outcome::{self, CellOutcome};
use crate::scenario::Scenario;
use crate::seed;
use crate::series::Series;
use crate::subflows::{self, Asked, Seen};
use crate::table::{Table, whole};
use crate::tls_files::TlsFiles;

/// Does what the arguments say.
///
/// # Errors
/// What failed. Runs that fail do not stop the others, and are an error in the end.
pub(crate) fn main(arguments: &Arguments) -> Result<(), String> {
    let runtime_s = arguments.runtime_s().unwrap_or_else(|problem| refuse(&problem));
    let (task, program) = (arguments.task(), &arguments.program);
    if !program.is_file() {
        return Err(format!("{}: no such program", program.display()));
    }
    let cells = task.cells();
    let has_tls = cells.iter().any(|cell| cell.tls == Tls::On);
    let tls = has_tls.then(|| TlsFiles::new(program)).transpose()?;
    let mut lab = Lab::new(arguments, runtime_s, tls.as_ref())?;
    if cells.iter().any(|cell| cell.family == Family::Ipv6) {
        lab.network.enable_ipv6()?;
    }
    println!("seed {}; loss by {}", arguments.seed, json!(arguments.mode));
    match task {
        Task::Single(cell) => lab.single(cell),
        Task::Seed { congestion, queues } => lab.seed_table(congestion, queues),
        Task::Compare(axes) => lab.compare(&axes),
        Task::Cut(cell) => lab.cut(cell),
        Task::Cuts(cell, count) => lab.cuts(cell, count),
    }
}

/// Seconds of a workload during which connections are listed.
const LOOK_S: u32 = 3;
/// Explanation of the kept tables.
const CAPTION: &str = "Figures are medians of all runs in MB/s (10^6 bytes per second), in parentheses the interval that \
    holds the true median with 95 % confidence, or of fewer than six runs from the lowest to the highest (94 % with five). \
    MPTCP wins or loses where the intervals are apart and the medians differ by more than 3 %: of two equal settings with \
    five runs each, one pair in 126 looks so.";

/// A network, and what is to be done on it.
struct Lab<'a> {
    network: Network,
    arguments: &'a Arguments,
    /// Of each workload.
    runtime_s: u32,
    /// Folder of raw runs.
    runs: PathBuf,
    tls: Option<&'a TlsFiles>,
}

impl<'a> Lab<'a> {
    fn new(arguments: &'a Arguments, runtime_s: u32, tls: Option<&'a TlsFiles>) -> Result<Self, String> {
        let runs = arguments.output.join("runs");
        std::fs::create_dir_all(&runs).map_err(|error| format!("{}: {error}", runs.display()))?;
        Ok(Lab { network: Network::new(arguments.seed)?, arguments, runtime_s, runs, tls })
    }

    /// Runs a cell once, with these events or those of its scenario, and keeps all that is known of the run under `name`.
    fn once(&mut self, cell: Cell, access: Access, events: &[Event], name: &str) -> Result<Record, String> {
        let plan = self.plan(cell);
        let own = cuts::of(cell.scenario, plan.runtime_s);
        let events = if events.is_empty() { own.as_slice() } else { events };
        self.kept(&Plan { access, events, ..plan }, name)
    }

    fn plan(&self, cell: Cell) -> Plan<'a> {
        Plan {
            program: &self.arguments.program,
            cell,
            access: Access::Write,
            runtime_s: cell.scenario.runtime_s(self.runtime_s),
            verify: false,
            mode: self.arguments.mode,
            events: &[],
            tls: self.tls,
        }
    }

    fn kept(&mut self, plan: &Plan<'_>, name: &str) -> Result<Record, String> {
        let record = experiment::run(&mut self.network, plan)?;
        let file = self.runs.join(format!("{name}-{}-{}.json", plan.cell.file_name(), plan.access.name()));
        keep_json(&file, &record, false)?;
        let cell = format!("{} {}", plan.cell.scenario.name(), plan.cell.name());
        let load = format!(
            "emulator {:.0} % of a processor, all {:.0} % idle, packets late by {:.1} ms at most",
            record.load.emulator_percent,
            record.load.idle_percent,
            record.late_us_max as f64 / 1000.0
        );
        println!("{cell}: {} {} MB/s ({load})", plan.access.name(), whole(record.mb_s));
        if let Some(failure) = &record.failure {
            println!("  FAILED: {failure}");
        }
        Ok(record)
    }

    fn single(&mut self, cell: Cell) -> Result<(), String> {
        let mut outcome = CellOutcome::new(cell);
        for number in 1..=self.arguments.repeat() {
            for access in Access::BOTH {
                let record = self.once(cell, access, &[], &format!("single-{number}"))?;
                outcome.take(&record);
                if number == 1 {
                    self.draw(&record, &format!("single-{}", cell.file_name()))?;
                }
            }
        }
        let outcomes = [outcome];
        let table = match seed::find(cell.transport, cell.policy, cell.scenario) {
            Some(_) if cell.paths == 4 => outcome::seed_table(&outcomes),
            _ => outcome::compare_table(&outcomes),
        };
        print!("\n{}", table.text());
        judge(&outcomes)
    }

    fn seed_table(&mut self, congestion: Congestion, queues: u32) -> Result<(), String> {
        let cells: Vec<Cell> = seed::TABLE
            .iter()
            .map(|row| Cell {
                transport: row.transport,
                policy: row.policy,
                congestion,
                queues: Some(queues),
                ..Cell::product(row.scenario)
            })
            .collect();
        let outcomes = self.measure(&cells, "seed")?;
        let table = outcome::seed_table(&outcomes);
        print!("\nMB/s beside the seed's:\n{}", table.text());
        self.keep("seed.md", &table.markdown())?;
        self.keep("seed.txt", &table.text())?;
        let title = format!("The seed's experiment, 4 links of 1 Gbit/s, 128 KiB, {}", congestion.name());
        self.keep("seed.svg", &outcome::seed_picture(&title, &outcomes))?;
        keep_json(&self.arguments.output.join("seed.json"), &json!({ "cells": outcomes }), true)?;
        judge(&outcomes)
    }

    fn compare(&mut self, axes: &Axes) -> Result<(), String> {
        let (cells, repeat) = (axes.cells(), self.arguments.repeat());
        let expected_s = matrix::all_s(&cells, self.runtime_s, repeat);
        println!(
            "{} cells, each of reads and of writes run {repeat} times: about {}",
            cells.len(),
            minutes(expected_s)
        );
        let seen = self.look(&axes.all_families())?;
        let options = subflows::table(&seen);
        print!("\nOptions on connections:\n{}\n", options.text());
        let outcomes = self.measure(&cells, "compare")?;
        let verdicts = outcome::verdicts(&outcomes);
        let (duels, best) = (contest::duels(&outcomes), contest::best_duels(&outcomes));
        let sentence = contest::sentence(&best);
        let tables = [
            contest::best_table(&best),
            contest::duel_table(&duels),
            outcome::verdict_table(&verdicts),
            options,
            outcome::compare_table(&outcomes),
        ];
        let text = tables.each_ref().map(Table::text).join("\n");
        print!("\n{text}\n{sentence}\n");
        let markdown = tables.each_ref().map(Table::markdown).join("\n");
        self.keep("compare.md", &format!("{sentence}\n\n{CAPTION}\n\n{markdown}"))?;
        self.keep("compare.txt", &format!("{sentence}\n\n{CAPTION}\n\n{text}"))?;
        let title = "Default settings against other ways, 4 links of 1 Gbit/s, 128 KiB";
        self.keep("compare.svg", &outcome::compare_picture(title, &outcomes))?;
        let kept = json!({
            "sentence": sentence, "best": best, "duels": duels, "verdicts": verdicts, "options": seen,
            "cells": outcomes,
        });
        keep_json(&self.arguments.output.join("compare.json"), &kept, true)?;
        match seen.iter().filter(|seen| seen.has_failed()).count() {
            0 => judge(&outcomes),
            failed => Err(format!("{failed} of {} options are not on all connections", seen.len())),
        }
    }

    /// Looks at the options on connections of both transports and each of these families.
    fn look(&mut self, families: &[Family]) -> Result<Vec<Seen>, String> {
        let mut all = Vec::new();
        for &family in families {
            for (transport, paths) in [(Transport::Tcp, 4), (Transport::Mptcp, 1)] {
                for asked in Asked::ALL {
                    let product = Cell::product(Scenario::Lossless);
                    let cell = Cell { transport, paths, family, queues: Some(1), ..product };
                    let plan = Plan { access: Access::Read, runtime_s: LOOK_S, ..self.plan(cell) };
                    all.push(experiment::look(&mut self.network, &plan, asked)?);
                }
            }
        }
        Ok(all)
    }

    /// All cells, again and again, so that a machine that changes meanwhile changes for all of them.
    fn measure(&mut self, cells: &[Cell], name: &str) -> Result<Vec<CellOutcome>, String> {
        let mut outcomes: Vec<CellOutcome> = cells.iter().copied().map(CellOutcome::new).collect();
        let repeat = self.arguments.repeat();
        let (began, mut progress) = (Instant::now(), Progress::new(cells, self.runtime_s, repeat));
        for number in 1..=repeat {
            for outcome in &mut outcomes {
                for access in Access::BOTH {
                    let record = self.once(outcome.cell, access, &[], &format!("{name}-{number}"))?;
                    outcome.take(&record);
                    progress.note(matrix::run_s(&outcome.cell, self.runtime_s));
                    println!("  {}", progress.line(began.elapsed()));
                }
            }
        }
        Ok(outcomes)
    }

    fn cut(&mut self, cell: Cell) -> Result<(), String> {
        let events = cuts::middle(self.runtime_s);
        let [cut, back] = events;
        let mut table = Table::new(&["cut of 5 s", "MB/s before", "3/4 back after s", "all back after s"]);
        let (mut outcome, mut recoveries) = (CellOutcome::new(cell), Vec::new());
        for number in 1..=self.arguments.repeat() {
            for access in Access::BOTH {
                let record = self.once(cell, access, &events, &format!("cut-{number}"))?;
                outcome.take(&record);
                let recovery = Series::of(&record).recovery(cut.at_s, back.at_s);
                let seconds =
                    |time: Option<f64>| time.map_or_else(|| "never".to_owned(), |time| format!("{time:.1}"));
                table.row(vec![
                    format!("{} {}", cell.name(), access.name()),
                    whole(recovery.map(|recovery| recovery.before_mb_s)),
                    seconds(recovery.and_then(|recovery| recovery.three_quarters_s)),
                    seconds(recovery.and_then(|recovery| recovery.full_s)),
                ]);
                recoveries.push(json!({ "access": access, "recovery": recovery, "failure": record.failure }));
                if number == 1 {
                    self.draw(&record, &format!("cut-{}", cell.file_name()))?;
                }
            }
        }
        print!("\n{}", table.text());
        let name = format!("cut-{}", cell.file_name());
        self.keep(&format!("{name}.md"), &table.markdown())?;
        keep_json(&self.arguments.output.join(format!("{name}.json")), &recoveries, true)?;
        judge(&[outcome])
    }

    fn cuts(&mut self, cell: Cell, count: u32) -> Result<(), String> {
        let (events, runtime_s) = cuts::by_chance(count, self.arguments.seed);
        println!("{count} cuts in {runtime_s} s, writes checked");
        let plan = Plan { runtime_s, verify: true, events: &events, ..self.plan(cell) };
        let record = self.kept(&plan, &format!("cuts-{count}"))?;
        let verify = &record.bench["verify"];
        println!(
            "{count} cuts, seed {}: {} writes, {} blocks read back, {} wrong; {} segments swallowed",
            self.arguments.seed,
            verify["writes"],
            verify["blocks_read_back"],
            verify["blocks_wrong"],
            record.counters.swallowed_segments
        );
        self.draw(&record, &format!("cuts-{}", cell.file_name()))?;
        record.failure.map_or(Ok(()), Err)
    }

    /// Draws throughput over time.
    fn draw(&self, record: &Record, name: &str) -> Result<(), String> {
        let series = Series::of(record);
        let mut curves = vec![curve("completed".to_owned(), &series.at_s, &series.mb_s)];
        for (link, rates) in record.links.of(record.access).iter().enumerate() {
            curves.push(curve(format!("on link {}", link + 1), &record.links.at_s, rates));
        }
        let cell = &record.cell;
        let title = format!("{}s, {} {}", record.access.name(), cell.scenario.name(), cell.name());
        let axis = |label: &str, unit| Axis { label: label.to_owned(), unit, scale: Scale::Linear };
        let chart = Chart {
            id: name.to_owned(),
            title,
            caption: String::new(),
            x: axis("time", Unit::Seconds),
            y: axis("throughput", Unit::BytesPerSecond),
            drawing: Drawing::Lines(curves),
            marks: cut_marks(&record.events),
        };
        let svg = chart::svg::draw(&chart, Look::File);
        self.keep(&format!("{name}-{}.svg", record.access.name()), &svg)
    }

    fn keep(&self, name: &str, text: &str) -> Result<(), String> {
        let path = self.arguments.output.join(name);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl CellOutcome {
    fn take(&mut self, record: &Record) {
        match (&record.failure, record.mb_s) {
            (None, Some(mb_s)) => self.note(record.access, mb_s),
            (None, None) => self.failures.push("the workload tells no throughput".to_owned()),
            (Some(failure), _) => self.failures.push(failure.clone()),
        }
    }
}

/// Throughput over time; there are too many points for markers.
fn curve(name: String, at_s: &[f64], mb_s: &[f64]) -> Curve {
    let points = at_s.iter().zip(mb_s).map(|(at, rate)| Point::new(*at, rate * 1e6));
    Curve { name, style: Style::Plain, points: points.collect() }
}

/// Marks of cuts; the names are left out where there is no room for them.
fn cut_marks(events: &[Event]) -> Vec<Mark> {
    let few = events.len() <= 4;
    let named = |link: usize| if few { format!("link {link} cut") } else { String::new() };
    events
        .chunks_exact(2)
        .map(|pair| Mark {
            x: Some(pair[0].at_s),
            y: None,
            until: Some(pair[1].at_s),
            label: named(pair[0].link),
        })
        .collect()
}

fn judge(outcomes: &[CellOutcome]) -> Result<(), String> {
    match outcomes.iter().map(|outcome| outcome.failures.len()).sum() {
        0 => Ok(()),
        1 => Err("a run failed".to_owned()),
        count => Err(format!("{count} runs failed")),
    }
}

fn keep_json(path: &Path, value: &impl Serialize, pretty: bool) -> Result<(), String> {
    let text = if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
    let text = text.map_err(|error| error.to_string())?;
    std::fs::write(path, text + "\n").map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_shaded() {
        let marks = cut_marks(&cuts::middle(20));
        assert_eq!((marks.len(), marks[0].x, marks[0].until), (1, Some(7.5), Some(12.5)));
        assert_eq!(marks[0].label, "link 2 cut");
    }
}
