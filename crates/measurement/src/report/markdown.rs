//! A report as Markdown, for issues and wikis: its pictures are links to the SVG files beside it. It writes no file.

use std::fmt::Write;

use chart::markup::identifier;
use chart::{Chart, units};

use super::document::{Cell, Column, DataTable, Document, FactGroup, Finding, FindingKind};

/// The report.
pub fn render(document: &Document) -> String {
    let mut text = format!("# {}\n", inline(&document.title));
    if !document.subtitle.is_empty() {
        let _ = write!(text, "\n{}\n", inline(&document.subtitle));
    }
    let (leading, charts) = document.parted_charts();
    if let Some(answer) = &document.answer {
        let _ = write!(text, "\n**{}**\n", inline(answer));
    }
    if let Some(chart) = leading {
        push_chart(&mut text, chart);
    }
    if !document.figures.is_empty() {
        text.push('\n');
    }
    for figure in &document.figures {
        let value = units::measured(figure.unit, figure.value, figure.interval);
        let note =
            if figure.note.is_empty() { String::new() } else { format!(" ({})", inline(&figure.note)) };
        let _ = writeln!(text, "- {}: **{value}**{note}", inline(&figure.name));
    }
    if !document.findings.is_empty() {
        text.push_str("\n## Findings\n\n");
        for finding in &document.findings {
            push_finding(&mut text, finding, document);
        }
    }
    if !charts.is_empty() {
        text.push_str("\n## Charts\n");
    }
    for chart in charts {
        let _ = write!(text, "\n### {}\n", inline(&chart.title));
        push_chart(&mut text, chart);
    }
    for table in &document.tables {
        push_table(&mut text, table);
    }
    for group in &document.facts {
        push_facts(&mut text, group);
    }
    let _ = write!(text, "\nMade by selvedge {}\n", env!("CARGO_PKG_VERSION"));
    text
}

fn push_chart(text: &mut String, chart: &Chart) {
    let _ = write!(text, "\n![{}]({}.svg)\n", inline(&chart.title), identifier(&chart.id));
    if !chart.caption.is_empty() {
        let _ = write!(text, "\n{}\n", inline(&chart.caption));
    }
}

fn push_finding(text: &mut String, finding: &Finding, document: &Document) {
    let _ = write!(text, "- **{}: {}.**", kind(finding.kind), inline(finding.title.trim_end_matches('.')));
    if !finding.text.is_empty() {
        let _ = write!(text, " {}", inline(&finding.text));
    }
    let chart = document.charts.iter().find(|chart| Some(&chart.id) == finding.chart_id.as_ref());
    if let Some(chart) = chart {
        let _ = write!(text, " ([{}]({}.svg))", inline(&chart.title), identifier(&chart.id));
    }
    text.push('\n');
}

/// The word for a kind of finding.
pub fn kind(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Advice => "Advice",
        FindingKind::Observation => "Observation",
        FindingKind::Caution => "Caution",
    }
}

fn push_table(text: &mut String, table: &DataTable) {
    let _ = write!(text, "\n## {}\n\n|", inline(&table.title));
    for column in &table.columns {
        let _ = write!(text, " {} |", inline(&column.name));
    }
    text.push_str("\n|");
    for column in &table.columns {
        text.push_str(if column.unit.is_some() { " ---: |" } else { " --- |" });
    }
    text.push('\n');
    for row in &table.rows {
        text.push('|');
        for (number, column) in table.columns.iter().enumerate() {
            let _ = write!(text, " {} |", cell(row.get(number), column));
        }
        text.push('\n');
    }
}

fn cell(cell: Option<&Cell>, column: &Column) -> String {
    match (cell, column.unit) {
        (Some(Cell::Number { value, interval }), Some(unit)) => units::measured(unit, *value, *interval),
        (Some(Cell::Number { value, .. }), None) if value.is_finite() => value.to_string(),
        (Some(Cell::Text(text)), _) => inline(text),
        _ => "–".to_owned(),
    }
}

fn push_facts(text: &mut String, group: &FactGroup) {
    let _ = write!(text, "\n## {}\n\n| | |\n| --- | --- |\n", inline(&group.title));
    for (name, value) in &group.facts {
        let _ = writeln!(text, "| {} | {} |", inline(name), inline(value));
    }
}

/// A text in one line, with nothing in it that Markdown or HTML would read as more than text.
fn inline(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            letter if letter.is_control() => line.push(' '),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' => {
                line.push('\\');
                line.push(letter);
            }
            '<' => line.push_str("&lt;"),
            '&' => line.push_str("&amp;"),
            letter => line.push(letter),
        }
    }
    line.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn a_report_links_its_pictures_and_has_its_numbers() {
        let text = render(&sample::document());
        for part in [
            "# Sweep of nqn.2026-01.io.selvedge:target\n",
            "- **Advice: Use -i 4.** ",
            "![IOPS against outstanding commands](iops.svg)",
            "| queues | depth |",
            "| Kernel | ",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn text_is_only_text() {
        assert_eq!(inline("a|b\n<i>*x*</i>"), "a\\|b &lt;i>\\*x\\*&lt;/i>");
    }
}
