//! Tests of the page's text; a browser tests the rest.

use chart::svg::Look;
use chart::{Chart, Drawing, Unit};
use proptest::num::f64;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::report::document::{Cell, Column, DataTable, LeadingFigure};
use crate::report::{csv, sample};

#[test]
fn a_page_has_every_part_and_fetches_nothing() {
    let document = sample::document();
    let page = render(&document, &json!({}));
    for chart in &document.charts {
        assert!(page.contains(&format!("<figure id=\"{}\">", chart.id)), "{}", chart.id);
    }
    for part in
        ["<h1>Sweep of nqn", "class=\"finding advice\"", "class=\"finding caution\"", "<dt>Kernel</dt>"]
    {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.contains(concat!("Made by selvedge ", env!("CARGO_PKG_VERSION"))));
    // The namespace of SVG is a name and no address.
    let addresses = page.replace("http://www.w3.org/2000/svg", "");
    assert!(
        !addresses.contains("http://") && !addresses.contains("https://") && !addresses.contains("@import")
    );
}

#[test]
fn an_answer_stands_first_with_the_first_picture() {
    let mut document = sample::document();
    document.answer = Some("Bandwidth is the limit <everywhere>.".to_owned());
    let first = format!("<figure id=\"{}\">", document.charts[0].id);
    let page = render(&document, &json!({}));
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is missing"));
    assert!(place("<p>Bandwidth is the limit &lt;everywhere&gt;.</p>") < place(&first));
    assert!(place(&first) < place("id=\"findings\""));
    assert_eq!(page.matches(&first).count(), 1);
    let text = markdown::render(&document);
    let picture = format!("({}.svg)\n", document.charts[0].id);
    assert!(text.find("**Bandwidth").unwrap() < text.find(&picture).unwrap(), "{text}");
    assert!(text.find(&picture).unwrap() < text.find("## Findings").unwrap(), "{text}");
}

#[test]
fn the_sample_is_drawn_with_all_its_points() {
    for chart in &sample::document().charts {
        chart::testing::check(chart).unwrap_or_else(|problem| panic!("{}: {problem}", chart.id));
        let svg = svg::draw(chart, Look::File);
        let expected = match &chart.drawing {
            Drawing::Lines(series) => series.iter().map(|line| line.points.len()).sum(),
            Drawing::Heat(heat) => heat.counts.iter().flatten().filter(|count| **count > 0).count(),
        };
        let drawn = svg.matches("class=\"point").count() + svg.matches("class=\"cell").count();
        assert_eq!(drawn, expected, "{}", chart.id);
        assert!(!svg.contains("<script") && !svg.contains("href"), "{}", chart.id);
    }
}

#[test]
fn no_text_is_markup() {
    let evil = "</script><script>alert(1)</script><b a='\">";
    let mut document = sample::document();
    document.title = evil.to_owned();
    document.subtitle = evil.to_owned();
    document.findings[0].title = evil.to_owned();
    document.findings[0].text = evil.to_owned();
    document.charts[0].title = evil.to_owned();
    document.charts[0].id = evil.to_owned();
    document.charts[0].x.label = evil.to_owned();
    document.facts[0].facts[0] = (evil.to_owned(), evil.to_owned());
    document.tables.push(DataTable {
        id: evil.to_owned(),
        title: evil.to_owned(),
        columns: vec![Column { name: evil.to_owned(), key: evil.to_owned(), unit: None }],
        rows: vec![vec![Cell::Text(evil.to_owned())]],
    });
    let page = render(&document, &json!({ "evil": [evil, "<!--"] }));
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script>").count(), 2);
    assert!(!page.contains("alert(1)</script>") && !page.contains("<!--"));
}

#[test]
fn the_data_in_the_page_is_the_data() {
    let data = json!({"text": "</script> <!-- & \" \u{2028}", "number": 0.1});
    let page = render(&sample::document(), &data);
    let (_, behind) = page.split_once("id=\"report-data\">").unwrap();
    let (text, _) = behind.split_once("</script>").unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), data);
}

fn bare(charts: Vec<Chart>, tables: Vec<DataTable>) -> Document {
    Document { charts, tables, ..Document::default() }
}

proptest! {
    #[test]
    fn every_chart_and_table_has_its_place(
        chart in chart::testing::any_chart(),
        cells in prop::collection::vec((f64::ANY, prop::option::of((f64::ANY, f64::ANY))), 0..9),
    ) {
        let columns = [("a", Some(Unit::Nanoseconds)), ("b", None), ("c", Some(Unit::Bytes))];
        let column = |(key, unit): (&str, _)| Column { name: key.to_owned(), key: key.to_owned(), unit };
        let number = |&(value, interval): &(f64, Option<(f64, f64)>)| Cell::Number { value, interval };
        let table = DataTable {
            id: "t".to_owned(),
            title: "T".to_owned(),
            columns: columns.map(column).to_vec(),
            // The last row may be too short.
            rows: cells.chunks(3).map(|cells| cells.iter().map(number).collect()).collect(),
        };
        let lines = csv::render(&table).lines().count();
        prop_assert_eq!(lines, table.rows.len() + 1);
        let page = render(&bare(vec![chart], vec![table]), &Value::Null);
        for attribute in ["value", "low", "high", "x", "y"] {
            for odd in ["NaN", "inf", "-inf"] {
                let text = format!("data-{attribute}=\"{odd}");
                prop_assert!(!page.contains(&text), "{}", text);
            }
        }
    }
}

#[test]
fn figures_lead_in_large_type() {
    let figure = |name: &str, unit, value, interval| LeadingFigure {
        name: name.to_owned(),
        unit,
        value,
        interval,
        note: "depth <1>".to_owned(),
    };
    let mut document = sample::document();
    document.figures = vec![
        figure("IOPS at most", Unit::Iops, 635e3, Some((600e3, 670e3))),
        figure("times the IOPS", Unit::Ratio, 1.234, Some((1.2, 1.27))),
    ];
    let page = render(&document, &Value::Null);
    for part in [
        "<dt>IOPS at most</dt><dd>635 k <small>±5.5 %</small></dd><dd class=\"note\">depth &lt;1&gt;</dd>",
        "<dt>times the IOPS</dt><dd>1.23 <small>± 0.04</small></dd>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.find("class=\"leading\"") < page.find("id=\"findings\""));
    let text = markdown::render(&document);
    assert!(text.contains("- times the IOPS: **1.23 ± 0.04** (depth &lt;1>)\n"), "{text}");
    assert!(!render(&sample::document(), &Value::Null).contains("class=\"leading\""));
}

#[test]
fn an_empty_report_is_a_page() {
    let page = render(&bare(vec![], vec![]), &Value::Null);
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
}
