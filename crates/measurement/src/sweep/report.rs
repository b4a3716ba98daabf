//! A sweep as a report: everything that was kept of it, for programs, and a document for people. It reads a journal and
//! writes nothing.

use std::fmt::Write as _;

use chart::units;
use serde_json::{Value, json};

use super::advice::Surroundings;
use super::journal::Journal;
use super::leading_figures::leading_figures;
use super::measurement::QUANTILES;
use super::plan::Plan;
use super::summary::Summary;
use super::{advice, answer, charts, tables};
use crate::failure::Failure;
use crate::fio::json::FioRun;
use crate::flags::sweep::Preset;
use crate::report::document::{Document, FactGroup};
use crate::report::paragraph;
use crate::report::table::{Side, Table};

/// Version of the JSON. Names stay; new ones may be added.
pub const FORMAT: u32 = 1;

/// A sweep's report.
pub struct SweepReport {
    pub document: Document,
    pub data: Value,
    summaries: Vec<Summary>,
}

impl SweepReport {
    /// Of everything that was kept.
    pub fn new(journal: &Journal) -> Self {
        let header = &journal.header;
        let plan = &header.plan;
        let summaries = Summary::all(plan, journal);
        let mut facts = vec![asked(plan)];
        facts.extend(header.facts.iter().cloned());
        let runs: usize = summaries.iter().map(|summary| summary.runs).sum();
        let sweep = format!("Sweep of {}", header.identity.nqn);
        let (title, namespace) = match plan.preset.and_then(Preset::question) {
            Some(question) => (question.to_owned(), format!("{sweep}, namespace")),
            None => (sweep, "Namespace".to_owned()),
        };
        let head = Document {
            title,
            subtitle: format!(
                "{namespace} {}, {} in {}, begun {}",
                header.identity.nsid,
                units::plural(summaries.len() as u64, "point"),
                units::plural(runs as u64, "measurement"),
                header.began
            ),
            facts,
            ..Document::default()
        };
        let more = json!({
            "version": header.version,
            "began": header.began,
            "lasted_s": journal.lasted_s(),
            "ground": header.identity,
        });
        Self::of(plan, summaries, Some(header.identity.surroundings), head, more)
    }

    /// Of what fio measured.
    pub fn from_fio(plan: &Plan, summaries: Vec<Summary>, runs: &[FioRun]) -> Self {
        let versions: Vec<&str> = runs.iter().map(|run| run.version.as_str()).collect();
        let head = Document {
            title: "Measured by fio".to_owned(),
            subtitle: format!(
                "{} in {}",
                units::plural(summaries.len() as u64, "point"),
                units::plural(runs.len() as u64, "file")
            ),
            facts: vec![FactGroup {
                title: "fio".to_owned(),
                facts: vec![("version".to_owned(), versions.join(", "))],
            }],
            ..Document::default()
        };
        // Nothing is known of where fio ran.
        Self::of(plan, summaries, None, head, json!({"version": env!("CARGO_PKG_VERSION")}))
    }

    /// Builds a report of points under a title; `more` is JSON about their origin.
    fn of(
        plan: &Plan,
        summaries: Vec<Summary>,
        around: Option<Surroundings>,
        head: Document,
        mut more: Value,
    ) -> Self {
        let findings = advice::findings(plan, &summaries, around);
        let document = Document {
            answer: answer::sentence(plan, &summaries, &findings),
            figures: leading_figures(plan, &summaries),
            findings,
            charts: charts::all(plan, &summaries),
            tables: vec![tables::points(plan, &summaries)],
            ..head
        };
        for (name, value) in [
            ("format", json!(FORMAT)),
            ("kind", json!("sweep")),
            ("plan", json!(plan)),
            ("quantiles", json!(QUANTILES)),
            ("points", json!(summaries)),
        ] {
            more[name] = value;
        }
        Self { data: document.with(more), document, summaries }
    }

    /// Returns the text for the end of a sweep: points and conclusions. `folder` is the place of
    /// the full report.
    pub fn text(&self, folder: &str) -> String {
        let mut table = Table::new(&[
            ("", Side::Left),
            ("IOPS", Side::Right),
            ("±", Side::Right),
            ("bandwidth", Side::Right),
            ("mean", Side::Right),
            ("p50", Side::Right),
            ("p99", Side::Right),
            ("p99.9", Side::Right),
        ]);
        for summary in self.summaries.iter().filter(|summary| summary.is_measured()) {
            let latency = summary.seen_latency();
            let uncertainty = summary.iops.sample().uncertainty();
            let mut cells = vec![summary.label.clone(), units::count(summary.iops.mean)];
            cells.push(uncertainty.map_or_else(String::new, |share| format!("{:.0} %", share * 100.0)));
            cells.push(units::bandwidth(summary.bw_bytes.mean));
            for quantity in [&latency.mean_ns, &latency.p50_ns, &latency.p99_ns, &latency.p99_9_ns] {
                cells.push(units::time_ns(quantity.mean));
            }
            table.row(cells);
        }
        let mut text = format!("{}\n{}\n\n{table}\n", self.document.title, self.document.subtitle);
        for finding in &self.document.findings {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}\n{}", finding.title, paragraph::shown(&finding.text, 4));
        }
        let _ = writeln!(text, "{folder}/report.html has the pictures");
        text
    }

    /// Fails if a point could not be measured.
    ///
    /// # Errors
    /// Number of points that could not be measured, and the reason of the first.
    pub fn failures(&self) -> Result<(), Failure> {
        let failed: Vec<&Summary> =
            self.summaries.iter().filter(|summary| !summary.failures.is_empty()).collect();
        let Some(first) = failed.first() else { return Ok(()) };
        let reason = first.failures.first().map_or("", String::as_str);
        Err(Failure::failed(format!(
            "{} could not be measured: {}: {reason}",
            units::plural(failed.len() as u64, "point"),
            first.label
        )))
    }
}

/// Returns the options of the sweep.
fn asked(plan: &Plan) -> FactGroup {
    let fixed = plan.fixed.iter().map(|given| (format!("--{}", given.option), given.values.join(",")));
    let axes = plan.axes.iter().map(|axis| (format!("--{}", axis.option), axis.values.join(",")));
    let mut facts: Vec<(String, String)> = axes.chain(fixed).collect();
    facts.push(("measurements of each point".to_owned(), plan.repeat.to_string()));
    facts.push(("order".to_owned(), if plan.in_order { "as listed" } else { "random" }.to_owned()));
    if let Some(most) = plan.steady_rounds_max {
        facts.push(("rounds until steady, at most".to_owned(), most.to_string()));
    }
    FactGroup { title: "Asked for".to_owned(), facts }
}
