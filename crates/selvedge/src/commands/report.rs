//! `selvedge report` and `selvedge compare`: reports of what was measured before, by a sweep or by fio.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use chart::units;
use serde::{Deserialize as _, Serialize};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::fio;
use crate::flags::OutputFormat;
use crate::flags::report::{CompareFlags, ReportFlags};
use crate::report::document::Document;
use crate::report::table::{self, Table};
use crate::report::{self, folder, paragraph};
use crate::sweep::compare::{Compared, Pair, Side, verdict};
use crate::sweep::from_fio;
use crate::sweep::journal::Journal;
use crate::sweep::plan::Plan;
use crate::sweep::report::SweepReport;
use crate::sweep::statistics::Comparison;
use crate::sweep::summary::Summary;

/// Bytes of a file that is read whole.
const BYTES_MAX: u64 = 256 << 20;

/// Makes a report.
pub(super) fn run(flags: &ReportFlags) -> Result<(), Failure> {
    if let Some(path) = flags.folder.as_ref().filter(|path| path.is_file()) {
        return again(path, flags);
    }
    let whole = match &flags.folder {
        Some(folder) => SweepReport::new(&Journal::read(folder)?),
        None => {
            let runs = flags.from_fio.iter().map(|path| fio_run(path)).collect::<Result<Vec<_>, _>>()?;
            let (plan, points) = from_fio::points(&runs).map_err(Failure::usage)?;
            SweepReport::from_fio(&plan, points, &runs)
        }
    };
    let folder = flags.output.as_ref().or(flags.folder.as_ref());
    let folder =
        folder.ok_or_else(|| Failure::usage("a folder for the report is required: add --output DIR"))?;
    folder::write(&whole.document, &whole.data, folder)?;
    match flags.output_flags.output_format {
        OutputFormat::Normal => report::print(whole.text(&folder.display().to_string())),
        OutputFormat::Json => report::print_json(&whole.data),
    }
}

/// Makes a report's files again from its JSON.
fn again(path: &Path, flags: &ReportFlags) -> Result<(), Failure> {
    let wrong = |error: serde_json::Error| Failure::usage(format!("{}: {error}", path.display()));
    let data: Value = serde_json::from_str(&read(path)?).map_err(wrong)?;
    let document = Document::deserialize(&data).map_err(wrong)?;
    let folder = flags
        .output
        .as_ref()
        .ok_or_else(|| Failure::usage("a folder for the report is required: add --output DIR"))?;
    folder::write(&document, &data, folder)?;
    match flags.output_flags.output_format {
        OutputFormat::Normal => report::print(format!("{}/report.html is made\n", folder.display())),
        OutputFormat::Json => report::print_json(&data),
    }
}

fn fio_run(path: &Path) -> Result<fio::json::FioRun, Failure> {
    let text = read(path)?;
    fio::json::read(&text).map_err(|reason| Failure::usage(format!("{}: {reason}", path.display())))
}

fn read(path: &Path) -> Result<String, Failure> {
    let cannot = |error: std::io::Error| Failure::usage(format!("{}: {error}", path.display()));
    let mut text = String::new();
    let file = File::open(path).map_err(cannot)?;
    let length = file.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(cannot)?;
    if length as u64 > BYTES_MAX {
        return Err(Failure::usage(format!("{}: it is too long for a report", path.display())));
    }
    Ok(text)
}

/// Compares two.
pub(super) fn compare(flags: &CompareFlags) -> Result<(), Failure> {
    let compared = Compared::new(side(&flags.first)?, side(&flags.second)?).map_err(Failure::usage)?;
    let document = compared.document();
    let data = data(&compared, &document);
    if let Some(output) = &flags.output {
        folder::write(&document, &data, output)?;
    }
    match flags.output_flags.output_format {
        OutputFormat::Normal => report::print(text(&compared, &document)),
        OutputFormat::Json => report::print_json(&data),
    }
}

/// Reads one of the two sweeps, from whatever source.
fn side(path: &Path) -> Result<Side, Failure> {
    let name = path.display().to_string();
    if path.is_dir() {
        let journal = Journal::read(path)?;
        let points = Summary::all(&journal.header.plan, &journal);
        return Ok(Side { name, plan: journal.header.plan, points, facts: journal.header.facts });
    }
    let text = read(path)?;
    let wrong = |reason: &dyn std::fmt::Display| Failure::usage(format!("{name}: {reason}"));
    let ours = serde_json::from_str::<Value>(&text).ok().filter(|value| value["kind"] == "sweep");
    if let Some(mut value) = ours {
        let plan: Plan = serde_json::from_value(value["plan"].take()).map_err(|error| wrong(&error))?;
        let points = serde_json::from_value(value["points"].take()).map_err(|error| wrong(&error))?;
        let facts = serde_json::from_value(value["facts"].take()).map_err(|error| wrong(&error))?;
        return Ok(Side { name, plan, points, facts });
    }
    let run = fio::json::read(&text)
        .map_err(|reason| wrong(&format!("it is neither a sweep's report.json nor fio's JSON: {reason}")))?;
    let (plan, points) = from_fio::points(&[run]).map_err(|reason| wrong(&reason))?;
    Ok(Side { name, plan, points, facts: Vec::new() })
}

#[derive(Serialize)]
struct SideReport<'a> {
    name: &'a str,
    /// Measured points without a counterpart.
    alone: usize,
}

fn data(compared: &Compared, document: &Document) -> Value {
    document.with(json!({
        "format": crate::sweep::report::FORMAT,
        "kind": "comparison",
        "first": SideReport { name: &compared.first.name, alone: compared.only_first },
        "second": SideReport { name: &compared.second.name, alone: compared.only_second },
        "iops_ratio": compared.overall().map(|overall| overall.ratio),
        "differences": compared.differences,
        "pairs": compared.pairs,
    }))
}

fn text(compared: &Compared, document: &Document) -> String {
    let mut table = Table::new(&[
        ("", table::Side::Left),
        ("IOPS", table::Side::Right),
        ("differs", table::Side::Left),
        ("mean", table::Side::Right),
        ("p99", table::Side::Right),
        ("CPU/IO", table::Side::Right),
        ("IOPS of A", table::Side::Right),
        ("of B", table::Side::Right),
        ("p99 of A", table::Side::Right),
        ("of B", table::Side::Right),
    ]);
    let times = |ratio: Option<Comparison>| {
        ratio.map_or_else(|| "-".to_owned(), |ratio| units::ratio(ratio.ratio, ratio.interval))
    };
    for Pair { label, iops, mean, p99, cpu_per_io, first, second } in &compared.pairs {
        table.row(vec![
            label.clone(),
            times(*iops),
            verdict(*iops).to_owned(),
            times(*mean),
            times(*p99),
            times(*cpu_per_io),
            units::count(first.iops),
            units::count(second.iops),
            units::time_ns(first.p99_ns),
            units::time_ns(second.p99_ns),
        ]);
    }
    let mut text = format!(
        "B over A, where A is {} and B is {}\n\n{table}\n",
        compared.first.name, compared.second.name
    );
    for finding in &document.findings {
        text.push_str(&format!("{}\n{}\n", finding.title, paragraph::shown(&finding.text, 4)));
    }
    text
}
