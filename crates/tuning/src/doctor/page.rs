//! The report as one HTML page, as sweeps and the tuner have theirs.

use chart::units::plural;

use super::report::Report;
use crate::diagnosis::finding::{Finding, Severity};
use crate::report::document::{self, Cell, Column, DataTable, Document, FactGroup, FindingKind};
use crate::report::page::render;

/// The page, with the report for programs in it.
pub(crate) fn page(report: &Report) -> String {
    let none = document::Finding {
        kind: FindingKind::Observation,
        title: "Nothing found".to_owned(),
        text: "No rule has found a cause in the samples.".to_owned(),
        chart_id: None,
    };
    let mut findings: Vec<document::Finding> = report.findings.iter().map(to_document).collect();
    if findings.is_empty() {
        findings.push(none);
    }
    let subtitle = format!(
        "{}; two samples, {:.1} s apart",
        plural(report.findings.len() as u64, "finding"),
        report.interval_s
    );
    let group = |title: &str, facts: Vec<(String, String)>| FactGroup { title: title.to_owned(), facts };
    let seen = report.looked_at.iter().enumerate();
    let seen = seen.map(|(at, line)| ((at + 1).to_string(), line.clone())).collect();
    let unseen = report.not_looked_at.iter();
    let unseen: Vec<_> = unseen.map(|shortfall| (shortfall.what.clone(), shortfall.reason.clone())).collect();
    let mut facts = vec![group("Examined", seen)];
    if !unseen.is_empty() {
        facts.push(group("Not examined", unseen));
    }
    let document = Document {
        title: "Findings of selvedge doctor".to_owned(),
        subtitle,
        findings,
        tables: commands(&report.findings),
        facts,
        ..Document::default()
    };
    render(&document, &serde_json::to_value(report).unwrap_or_default())
}

fn to_document(finding: &Finding) -> document::Finding {
    let kind = match finding.severity {
        Severity::Outage | Severity::Limits | Severity::Slows => FindingKind::Caution,
        Severity::MayCost => FindingKind::Observation,
    };
    let mut text = format!("Evidence: {}.", finding.evidence.join("; "));
    for part in [&finding.cure, &finding.expected].into_iter().filter(|part| !part.is_empty()) {
        text.push(' ');
        text.push_str(part);
    }
    let title = format!("{} ({})", finding.cause, finding.severity.title());
    document::Finding { kind, title, text, chart_id: None }
}

/// The commands, each with the finding that it is for.
fn commands(findings: &[Finding]) -> Vec<DataTable> {
    let rows: Vec<Vec<Cell>> = findings
        .iter()
        .flat_map(|finding| finding.commands.iter().map(move |command| (finding, command)))
        .map(|(finding, command)| {
            [&finding.rule, &finding.subject, command].map(|text| Cell::Text(text.clone())).into()
        })
        .collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let column = |name: &str| Column { name: name.to_owned(), key: name.to_lowercase(), unit: None };
    vec![DataTable {
        id: "commands".to_owned(),
        title: "Commands".to_owned(),
        columns: ["Rule", "Subject", "Command"].map(column).into(),
        rows,
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::sample::healthy;
    use crate::probe::Probe;

    #[test]
    fn what_was_found_is_on_the_page_and_hostile_names_are_text() {
        let mut case = healthy();
        case.host.paths[0].probe = Some(Probe::Refused { reason: "<script>no</script>".to_owned() });
        let text = page(&Report::of(&case, Vec::new(), None));
        assert!(
            text.contains("Nothing takes connections at 10.0.0.2:4420")
                && text.contains("selvedge discover -a 10.0.0.2")
        );
        assert!(!text.contains("<script>no"), "names are text");
        let text = page(&Report::of(&healthy(), Vec::new(), None));
        assert!(text.contains("Nothing found") && !text.contains("selvedge discover"));
    }
}
