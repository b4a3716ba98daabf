//! A survey as one HTML page: what is not as it should be, the picture, the tables.

use chart::Unit;
use chart::svg::Look;
use serde_json::Value;

use super::tables::{self, SurveyTable};
use super::text::{NO_FLOWS, has_queues};
use crate::packet_path::words::machine;
use crate::packet_path::{self, Survey, TITLE, picture, summary};
use crate::report::document::{Cell, Column, DataTable, Document, Finding, FindingKind};
use crate::report::page::{Figure, render_with};
use crate::report::table::Side;

/// The page, with all that was seen in it for programs.
pub(crate) fn page(survey: &Survey) -> String {
    let interfaces = survey.interfaces();
    let with_queues = interfaces.iter().filter(|interface| has_queues(interface));
    let mut tables = vec![tables::flows(survey), tables::interfaces(survey)];
    tables.extend(with_queues.map(|interface| tables::interface_queues(survey, interface)));
    tables.push(tables::unseen(survey));
    let document = Document {
        title: TITLE.to_owned(),
        subtitle: machine(&survey.topology),
        findings: findings(survey),
        tables: tables.into_iter().filter(|table| !table.rows.is_empty()).map(table).collect(),
        ..Document::default()
    };
    let picture = Figure {
        id: "courses",
        title: "From the connection to the worker",
        caption: &summary(survey),
        svg: &picture(survey, Look::Page),
    };
    let data = serde_json::to_value(survey).unwrap_or(Value::Null);
    render_with(&document, &data, &[picture])
}

fn findings(survey: &Survey) -> Vec<Finding> {
    let finding = |finding: &packet_path::Finding| Finding {
        kind: if finding.kind.is_caution() { FindingKind::Caution } else { FindingKind::Observation },
        title: finding.kind.title().to_owned(),
        text: finding.text.clone(),
        chart_id: None,
    };
    let mut all: Vec<Finding> = survey.findings.iter().map(finding).collect();
    if survey.topology.flows.is_empty() {
        all.push(Finding {
            kind: FindingKind::Observation,
            title: "No NVMe/TCP queues".to_owned(),
            text: NO_FLOWS.to_owned(),
            chart_id: None,
        });
    }
    all
}

/// Converts a table for the report.
fn table(source: SurveyTable) -> DataTable {
    let column = |(name, key, side): &(&str, &str, Side)| Column {
        name: (*name).to_owned(),
        key: (*key).to_owned(),
        unit: (*side == Side::Right).then_some(Unit::Count),
    };
    let row = |row: Vec<String>| row.into_iter().map(Cell::Text).collect();
    DataTable {
        id: source.id,
        title: source.title,
        columns: source.columns.iter().map(column).collect(),
        rows: source.rows.into_iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use chart::markup::escaped;
    use topology::sample;

    use super::*;

    #[test]
    fn a_page_has_the_picture_and_the_tables() {
        for name in sample::NAMES {
            let survey = Survey::new(sample::topology(name).unwrap());
            let page = page(&survey);
            assert!(page.contains("class=\"courses\""), "{name}");
            assert!(
                page.contains("id=\"table-flows\"") && page.contains("id=\"table-interfaces\""),
                "{name}"
            );
            for finding in &survey.findings {
                assert!(
                    page.contains(finding.kind.title()) || page.contains(&escaped(finding.kind.title())),
                    "{name}"
                );
            }
        }
    }
}
