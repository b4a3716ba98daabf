//! Answer to the question of a preset: one sentence and the leading picture. The rules are `choice`'s, and it answers only a
//! complete sweep.

use chart::units;
use chart::{Axis, Chart, Drawing, Mark, Point, Scale, Series, Style, Unit};

use super::choice::{
    self, BANDWIDTH_RULE, CommonQueues, WRITE_LIMIT_RULE, WriteCell, WriteLimit, write_cells,
};
use super::family::{ACKNOWLEDGEMENT, Workload, setting, workloads};
use super::plan::Plan;
use super::summary::{Quantity, Summary};
use crate::flags::sweep::Preset;
use crate::report::document::{Finding, FindingKind};

/// Names of the leading pictures.
const WRITES_ID: &str = "acknowledgement";
const BLOCKS_ID: &str = "block-sizes";
/// Busy beyond this, processors are the limit.
const AT_LIMIT: f64 = 0.90;
/// Workloads beside an answer from which on reports have the most important of each only.
const WORKLOADS_IN_FULL_MAX: usize = 4;

/// True if the report has the most important findings and pictures of each workload only: a question has an answer, and the
/// rest of many workloads would hide it.
pub(super) fn is_brief(plan: &Plan, workloads: usize) -> bool {
    plan.preset.and_then(Preset::question).is_some() && workloads > WORKLOADS_IN_FULL_MAX
}

/// The answer to the question of the sweep's preset, if it has one; without all measurements, the reason of none.
pub(super) fn finding(plan: &Plan, summaries: &[Summary]) -> Option<Finding> {
    let preset = plan.preset?;
    let question = preset.question()?;
    let incomplete = summaries.iter().filter(|summary| is_incomplete(plan, summary)).count();
    let all = workloads(plan, summaries);
    let answer = match (incomplete, preset) {
        (0, Preset::Writes) => of_writes(plan, &writing(all)),
        (0, Preset::Blocks) => of_blocks(plan, &all),
        _ => Err(format!(
            "measurements of {} of {} points are missing: resume the sweep (--resume)",
            incomplete,
            summaries.len()
        )),
    };
    let (kind, title, text, id) = match answer {
        Ok((title, text, id)) => {
            let is_advice = preset == Preset::Blocks;
            let kind = if is_advice { FindingKind::Advice } else { FindingKind::Observation };
            (kind, title, text, Some(id.to_owned()))
        }
        Err(reason) => {
            let text = format!("{question} {}.", capitalized(&reason));
            (FindingKind::Caution, "The question is not answered".to_owned(), text, None)
        }
    };
    Some(Finding { kind, title, text, chart_id: id })
}

/// The picture of the answer, if there is one.
pub(super) fn picture(plan: &Plan, summaries: &[Summary]) -> Option<Chart> {
    if summaries.iter().any(|summary| is_incomplete(plan, summary)) {
        return None;
    }
    let all = workloads(plan, summaries);
    match plan.preset? {
        Preset::Writes => picture_of_writes(plan, &writing(all)),
        Preset::Blocks => picture_of_blocks(plan, &all),
        Preset::Quick | Preset::Queues | Preset::Network | Preset::Load => None,
    }
}

/// The finding with that picture, as a sentence.
pub(super) fn sentence(plan: &Plan, summaries: &[Summary], findings: &[Finding]) -> Option<String> {
    let picture = picture(plan, summaries)?;
    let answer = findings.iter().find(|finding| finding.chart_id.as_ref() == Some(&picture.id))?;
    Some(format!("{}.", capitalized(answer.title.trim_end_matches('.'))))
}

/// Finding about values of the preset that were left out.
pub(super) fn left_out(plan: &Plan) -> impl Iterator<Item = Finding> + '_ {
    plan.left_out.iter().map(|left_out| Finding {
        kind: FindingKind::Caution,
        title: format!("{} left out", left_out.values),
        text: format!("{}.", capitalized(&left_out.reason)),
        chart_id: None,
    })
}

fn is_incomplete(plan: &Plan, summary: &Summary) -> bool {
    summary.runs < plan.repeat as usize
}

/// A sentence, its reasons, and its picture; or the reason of none.
type Answer = Result<(String, String, &'static str), String>;

/// Workloads with writes, which have an acknowledgement.
fn writing(mut all: Vec<Workload<'_>>) -> Vec<Workload<'_>> {
    all.retain(|workload| workload.members.iter().any(|summary| summary.point.writes()));
    all
}

/// Writes with one acknowledgement beside volatile ones, in one setting.
struct Writes<'a> {
    name: String,
    cells: Vec<WriteCell<'a>>,
}

/// All acknowledgements of a sweep beside volatile writes of the same kind.
fn writes<'a>(plan: &Plan, all: &[Workload<'a>]) -> Vec<Writes<'a>> {
    let is_volatile =
        |workload: &&Workload<'_>| workload.members.iter().all(|summary| summary.point.is_volatile());
    let are_several = are_of_several_kinds(all);
    let mut found = Vec::new();
    for workload in all.iter().filter(|workload| !is_volatile(workload)) {
        let same = |other: &&Workload<'_>| is_volatile(other) && kind(other) == kind(workload);
        let (Some(volatile), Some(first)) = (all.iter().find(same), workload.members.first()) else {
            continue;
        };
        let acknowledgement = first.point.acknowledgement();
        let name =
            if are_several { format!("{}, {acknowledgement}", kind(workload)) } else { acknowledgement };
        found.extend(by_setting(plan, &name, write_cells(plan, volatile, workload)));
    }
    found
}

/// Label of a workload that is the same for each acknowledgement.
fn kind(workload: &Workload<'_>) -> String {
    workload.label_without(&ACKNOWLEDGEMENT)
}

/// True if workloads differ in more than their acknowledgement.
fn are_of_several_kinds(all: &[Workload<'_>]) -> bool {
    all.iter().any(|workload| kind(workload) != kind(&all[0]))
}

/// Writes with this name, those of each setting for themselves.
fn by_setting<'a>(plan: &Plan, name: &str, cells: Vec<WriteCell<'a>>) -> Vec<Writes<'a>> {
    let mut found: Vec<Writes<'a>> = Vec::new();
    for cell in cells {
        let setting = setting(plan, cell.best);
        let name = if setting.is_empty() { name.to_owned() } else { format!("{name}, {setting}") };
        match found.iter_mut().find(|writes| writes.name == name) {
            Some(writes) => writes.cells.push(cell),
            None => found.push(Writes { name, cells: vec![cell] }),
        }
    }
    found
}

fn of_writes(plan: &Plan, all: &[Workload<'_>]) -> Answer {
    let found = writes(plan, all);
    if found.is_empty() {
        return match plan.left_out.is_empty() {
            true => {
                Err("it needs volatile writes and others to compare with (--rw, --sync, --fsync)".to_owned())
            }
            // Each write is durable when it is acknowledged.
            false => {
                let title = "Acknowledgement is not a limit here: no write waits for a cache".to_owned();
                let reason = plan.left_out.iter().map(|left_out| left_out.reason.as_str());
                Ok((title, format!("{}.", capitalized(&reason.collect::<Vec<_>>().join("; "))), WRITES_ID))
            }
        };
    }
    if plan.repeat < 2 {
        return Err("one run of each point does not tell a difference from chance (--repeat)".to_owned());
    }
    let places: Vec<String> =
        found.iter().map(|writes| format!("with {} {}", writes.name, place(writes))).collect();
    let is_nowhere =
        found.iter().flat_map(|writes| &writes.cells).all(|cell| cell.limit() != WriteLimit::Acknowledgement);
    let title = if is_nowhere {
        "Acknowledgement is nowhere the limit of these writes".to_owned()
    } else {
        let queues = if plan.varies("nr-io-queues") { ", not queues," } else { "" };
        format!("Acknowledgement{queues} is the limit {}", places.join(", "))
    };
    let reasons: Vec<String> = found.iter().flat_map(reasons).collect();
    Ok((title, format!("{}. The rule: {WRITE_LIMIT_RULE}.", reasons.join("; ")), WRITES_ID))
}

/// Numbers of outstanding commands at which acknowledgement is the limit, in words.
fn place(writes: &Writes<'_>) -> String {
    let is_limited = |cell: &WriteCell<'_>| cell.limit() == WriteLimit::Acknowledgement;
    let limited: Vec<bool> = writes.cells.iter().map(is_limited).collect();
    let at: Vec<u64> =
        writes.cells.iter().filter(|cell| is_limited(cell)).map(|cell| cell.outstanding).collect();
    let (Some(first), Some(last)) = (at.first(), at.last()) else { return "nowhere".to_owned() };
    // All of them before the first that is not, or after the last.
    let is_prefix = limited.iter().take(at.len()).all(|is_limited| *is_limited);
    let is_suffix = limited.iter().rev().take(at.len()).all(|is_limited| *is_limited);
    match (is_prefix, is_suffix) {
        (true, true) => "at each number of outstanding commands".to_owned(),
        (true, false) => format!("up to {last} outstanding"),
        (false, true) => format!("from {first} outstanding on"),
        (false, false) => {
            let numbers: Vec<String> = at.iter().map(u64::to_string).collect();
            format!("at {} outstanding", numbers.join(", "))
        }
    }
}

/// The figures of each number of outstanding commands, and the limit.
fn reasons(writes: &Writes<'_>) -> Vec<String> {
    let does =
        |summary: &Summary| format!("{} IOPS with -i {}", units::count(summary.iops.mean), summary.queues);
    let reason = |cell: &WriteCell<'_>| {
        let limit = match cell.limit() {
            WriteLimit::Acknowledgement => "acknowledgement limits",
            WriteLimit::Queues => "queues limit",
            WriteLimit::Neither => "neither limits",
        };
        let mut measured = does(cell.best);
        if cell.fewest.queues != cell.best.queues {
            measured = format!("{measured}, {}", does(cell.fewest));
        }
        let (outstanding, volatile) = (cell.outstanding, does(cell.volatile));
        format!("{}, {outstanding} outstanding: {measured}; volatile {volatile}: {limit}", writes.name)
    };
    writes.cells.iter().map(reason).collect()
}

/// Commands of one kind by their size, each with the points of that size.
struct Sizes<'a, 'b> {
    kind: String,
    /// By size, the smallest first.
    sizes: Vec<(f64, &'b Workload<'a>, &'a Summary)>,
    /// The first size from which bandwidth is the limit.
    turn: Option<usize>,
}

/// Commands of each kind by their size.
fn sizes<'a, 'b>(all: &'b [Workload<'a>]) -> Vec<Sizes<'a, 'b>> {
    let mut found: Vec<Sizes<'a, 'b>> = Vec::new();
    for workload in all {
        let Some(best) = choice::best_by_bandwidth(workload, |_| true) else { continue };
        let bytes = choice::block_bytes(best);
        let kind = workload.label_without(&["bs"]);
        match found.iter_mut().find(|other| other.kind == kind) {
            Some(other) => other.sizes.push((bytes, workload, best)),
            None => found.push(Sizes { kind, sizes: vec![(bytes, workload, best)], turn: None }),
        }
    }
    for one in &mut found {
        one.sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let bandwidths: Vec<(f64, f64)> =
            one.sizes.iter().map(|(bytes, _, best)| (*bytes, best.bw_bytes.mean)).collect();
        one.turn = choice::bandwidth_from(&bandwidths);
    }
    found.retain(|one| one.sizes.len() > 1);
    found
}

fn of_blocks(plan: &Plan, all: &[Workload<'_>]) -> Answer {
    let found = sizes(all);
    if found.is_empty() {
        return Err("it needs several block sizes (--bs)".to_owned());
    }
    let titles: Vec<String> = found.iter().map(|one| format!("{}: {}", one.kind, turn(plan, one))).collect();
    let shown = |(bytes, _, best): &(f64, &Workload<'_>, &Summary)| {
        format!(
            "{} {} ({} IOPS, {})",
            units::bytes(*bytes),
            units::bandwidth(best.bw_bytes.mean),
            units::count(best.iops.mean),
            best.label
        )
    };
    let reasons = found.iter().map(|one| {
        let sizes: Vec<String> = one.sizes.iter().map(shown).collect();
        format!("{}: {}", one.kind, sizes.join(", "))
    });
    let reasons: Vec<String> = reasons.collect();
    Ok((titles.join("; "), format!("{}. The rule: {BANDWIDTH_RULE}.", reasons.join("; ")), BLOCKS_ID))
}

/// The turn of one kind of commands in words, with the queues of each side.
fn turn(plan: &Plan, one: &Sizes<'_, '_>) -> String {
    let (below, above) = one.sizes.split_at(one.turn.unwrap_or(one.sizes.len()));
    let queues = |side: &[(f64, &Workload<'_>, &Summary)]| {
        let workloads: Vec<&Workload<'_>> = side.iter().map(|(_, workload, _)| *workload).collect();
        match choice::common_queues(plan, &workloads) {
            Some(CommonQueues { queues, is_decided: true }) => format!(" (best -i {queues})"),
            Some(CommonQueues { is_decided: false, .. }) => " (no difference between -i is known)".to_owned(),
            None => String::new(),
        }
    };
    // Where processors have time left, commands wait for something else.
    let busy = below.iter().filter(|(_, _, best)| has_full_processors(best)).count();
    let limit = if busy * 2 > below.len() { "processors are" } else { "commands are" };
    let size =
        |at: Option<&(f64, &Workload<'_>, &Summary)>| at.map_or_else(String::new, |at| units::bytes(at.0));
    match (below.last(), above.first()) {
        (last, None) => format!("{limit} the limit up to {}{}", size(last), queues(below)),
        (None, first) => format!("bandwidth is the limit from {} on{}", size(first), queues(above)),
        (last, first) => format!(
            "{limit} the limit up to {}{}, bandwidth from {} on{}",
            size(last),
            queues(below),
            size(first),
            queues(above)
        ),
    }
}

/// True if the processors of this machine, or the initiator's workers, had no time left.
fn has_full_processors(summary: &Summary) -> bool {
    summary.machine_busy >= Some(AT_LIMIT) || summary.cpus >= AT_LIMIT * summary.workers.max(1) as f64
}

fn line(name: &str, style: Style, points: Vec<Point>) -> Series {
    Series { name: name.to_owned(), style, points }
}

fn point(x: f64, summary: &Summary, quantity: &Quantity) -> Point {
    let note = Some(format!("{}, {}", summary.label, units::plural(summary.runs as u64, "run")));
    Point { x, y: quantity.mean, interval: quantity.interval, note }
}

fn scale(lines: &[Series]) -> Scale {
    super::charts::scale(lines.iter().flat_map(|line| &line.points).map(|point| point.y))
}

fn picture_of_writes(plan: &Plan, all: &[Workload<'_>]) -> Option<Chart> {
    let mut lines = Vec::new();
    let are_several = are_of_several_kinds(all);
    for workload in all {
        let name = match (all.len(), workload.members.first()) {
            (0 | 1, _) | (_, None) => "writes".to_owned(),
            (_, Some(_)) if are_several => workload.label.clone(),
            (_, Some(first)) => first.point.acknowledgement(),
        };
        for Writes { name, cells } in by_setting(plan, &name, write_cells(plan, workload, workload)) {
            let at = |cell: &WriteCell<'_>, summary: &Summary| {
                point(cell.outstanding as f64, summary, &summary.iops)
            };
            let best = cells.iter().map(|cell| at(cell, cell.best)).collect();
            lines.push(line(&name, Style::Solid, best));
            if plan.varies("nr-io-queues") {
                let fewest = cells.iter().map(|cell| at(cell, cell.fewest)).collect();
                lines.push(line(&name, Style::Dashed, fewest));
            }
        }
    }
    (!lines.is_empty()).then(|| Chart {
        id: WRITES_ID.to_owned(),
        title: "IOPS of writes by acknowledgement".to_owned(),
        caption:
            "Solid: with the queues that do most. Dashed: with the fewest. Where solid lines are far apart, \
                  acknowledgement is the limit; where a dashed line is far below its solid one, queues are."
                .to_owned(),
        x: Axis { label: "outstanding commands".to_owned(), unit: Unit::Count, scale: Scale::Log2 },
        y: Axis { label: "IOPS".to_owned(), unit: Unit::Iops, scale: scale(&lines) },
        drawing: Drawing::Lines(lines),
        marks: Vec::new(),
    })
}

fn picture_of_blocks(plan: &Plan, all: &[Workload<'_>]) -> Option<Chart> {
    let (mut lines, mut marks) = (Vec::new(), Vec::new());
    for one in sizes(all) {
        let (mut best, mut fewest) = (Vec::new(), Vec::new());
        for (bytes, workload, summary) in &one.sizes {
            best.push(point(*bytes, summary, &summary.bw_bytes));
            let least = workload.members.iter().map(|summary| summary.queues).min();
            let with_fewest = choice::best_by_bandwidth(workload, |summary| Some(summary.queues) == least);
            fewest.extend(with_fewest.map(|summary| point(*bytes, summary, &summary.bw_bytes)));
        }
        lines.push(line(&one.kind, Style::Solid, best));
        if plan.varies("nr-io-queues") {
            lines.push(line(&one.kind, Style::Dashed, fewest));
        }
        if let Some((bytes, ..)) = one.turn.and_then(|turn| one.sizes.get(turn)) {
            let label = format!("{}: bandwidth from here on", one.kind);
            marks.push(Mark { x: Some(*bytes), y: None, until: None, label });
        }
    }
    (!lines.is_empty()).then(|| Chart {
        id: BLOCKS_ID.to_owned(),
        title: "Bandwidth by block size".to_owned(),
        caption: "Solid: with the queues that do most. Dashed: with the fewest. Where a line rises with the block size, commands \
                  are the limit; where it is level, bandwidth is."
            .to_owned(),
        x: Axis { label: "block size".to_owned(), unit: Unit::Bytes, scale: Scale::Log2 },
        y: Axis { label: "bandwidth".to_owned(), unit: Unit::BytesPerSecond, scale: scale(&lines) },
        drawing: Drawing::Lines(lines),
        marks,
    })
}

/// The text with a capital letter at its beginning.
pub(super) fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
