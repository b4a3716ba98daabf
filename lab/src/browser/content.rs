//! Checks that the page says what the report says: every point, every cell, every row, the data itself; with a script and
//! without.

use serde_json::{Value, json};

use super::page::Page;
use super::{Report, demand};

/// All points and cells of a document, by chart, in no order.
const SHOWN: &str = "Array.from(document.querySelectorAll('svg.chart'), svg => [
    Array.from(svg.querySelectorAll('.point'), p => [p.dataset.series, p.dataset.x, p.dataset.y].map(Number)),
    Array.from(svg.querySelectorAll('.cell'), c => [c.dataset.column, c.dataset.row, c.dataset.count].map(Number)),
])";

/// Triples of numbers, in an order of their own so that they can be compared.
type Triples = Vec<[f64; 3]>;

/// The page's charts have exactly the report's points.
pub(super) fn points(page: &mut Page<'_>, report: &Report) -> Result<(), String> {
    page.open(&report.page())?;
    compare(page, report.charts())
}

/// Each picture's own file has exactly its chart's points, and is one that a browser takes.
pub(super) fn pictures(page: &mut Page<'_>, report: &Report) -> Result<(), String> {
    for chart in report.charts() {
        let id = chart["id"].as_str().unwrap_or_default();
        page.open(&report.folder.join(format!("{id}.svg")))?;
        let root =
            page.ask("document.documentElement.nodeName + document.querySelectorAll('parsererror').length")?;
        demand(root == "svg0", || format!("{id}.svg is not well-formed"))?;
        compare(page, std::slice::from_ref(chart)).map_err(|reason| format!("{id}.svg: {reason}"))?;
    }
    Ok(())
}

/// Without its script the page has the same charts, and its tables and findings.
pub(super) fn without_script(page: &mut Page<'_>, report: &Report) -> Result<(), String> {
    page.browser.call("Emulation.setScriptExecutionDisabled", &json!({"value": true}))?;
    page.open(&report.page())?;
    let buttons = page.ask("document.querySelectorAll('button').length")?;
    demand(buttons == 0, || format!("there are {buttons} buttons, which do nothing without a script"))?;
    compare(page, report.charts())?;
    check_rows(page, report)?;
    let findings = page.ask("document.querySelectorAll('.finding').length")?;
    let expected = report.document["findings"].as_array().map_or(0, Vec::len);
    demand(findings == expected, || format!("{findings} findings instead of {expected}"))
}

/// The page's tables have the report's rows and numbers.
pub(super) fn rows(page: &mut Page<'_>, report: &Report) -> Result<(), String> {
    page.open(&report.page())?;
    check_rows(page, report)
}

fn check_rows(page: &mut Page<'_>, report: &Report) -> Result<(), String> {
    let shown = page.ask(
        "Array.from(document.querySelectorAll('table.sortable'), table => Array.from(table.tBodies[0].rows,
            row => Array.from(row.cells, cell => cell.dataset.value ?? cell.textContent)))",
    )?;
    for (number, table) in report.tables().iter().enumerate() {
        let rows = table["rows"].as_array().ok_or("a table has no rows")?;
        let expected: Vec<Value> = rows
            .iter()
            .map(|row| row.as_array().into_iter().flatten().map(|cell| json!(cell_text(cell))).collect())
            .collect();
        demand(shown[number] == json!(expected), || {
            format!("the rows of {} are not the report's", table["id"])
        })?;
    }
    Ok(())
}

fn cell_text(cell: &Value) -> String {
    match cell {
        Value::String(text) => text.clone(),
        Value::Object(number) => number["value"].as_f64().map_or_else(String::new, |value| value.to_string()),
        _ => String::new(),
    }
}

/// The data in the page is the data that it was made from.
pub(super) fn data(page: &mut Page<'_>, report: &Report) -> Result<(), String> {
    page.open(&report.page())?;
    let text = page.ask("document.getElementById('report-data').textContent")?;
    let data: Value = serde_json::from_str(text.as_str().unwrap_or_default())
        .map_err(|error| format!("the embedded data is not valid JSON: {error}"))?;
    demand(data == report.document, || "the embedded data is not the report's".to_owned())
}

fn compare(page: &mut Page<'_>, charts: &[Value]) -> Result<(), String> {
    let shown = page.ask(SHOWN)?;
    let shown = shown.as_array().ok_or("there are no charts")?;
    demand(shown.len() == charts.len(), || format!("{} charts instead of {}", shown.len(), charts.len()))?;
    for (shown, chart) in shown.iter().zip(charts) {
        let id = &chart["id"];
        let (points, cells) = (expected_points(chart), expected_cells(chart));
        demand(points.len() + cells.len() > 0, || format!("{id} has nothing to show, which proves nothing"))?;
        check_same(triples(&shown[0]), points).map_err(|why| format!("points of {id}: {why}"))?;
        check_same(triples(&shown[1]), cells).map_err(|why| format!("cells of {id}: {why}"))?;
    }
    Ok(())
}

fn check_same(mut shown: Triples, mut expected: Triples) -> Result<(), String> {
    let order = |a: &[f64; 3], b: &[f64; 3]| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal);
    shown.sort_by(order);
    expected.sort_by(order);
    demand(shown.len() == expected.len(), || format!("{} instead of {}", shown.len(), expected.len()))?;
    let other = shown.iter().zip(&expected).find(|(shown, expected)| shown != expected);
    other.map_or(Ok(()), |(shown, expected)| Err(format!("{shown:?} instead of {expected:?}")))
}

fn triples(value: &Value) -> Triples {
    let number = |triple: &Value, place: usize| triple[place].as_f64().unwrap_or(f64::NAN);
    let items = value.as_array().into_iter().flatten();
    items.map(|triple| [number(triple, 0), number(triple, 1), number(triple, 2)]).collect()
}

/// True if the axis has a place for a value: on a logarithmic one it is more than 0.
fn has_place(axis: &Value, value: f64) -> bool {
    axis["scale"] == "linear" || value > 0.0
}

fn expected_points(chart: &Value) -> Triples {
    let mut triples = Vec::new();
    let series = chart["drawing"]["lines"].as_array().into_iter().flatten();
    for (number, line) in series.enumerate() {
        for point in line["points"].as_array().into_iter().flatten() {
            if let (Some(x), Some(y)) = (point["x"].as_f64(), point["y"].as_f64())
                && has_place(&chart["x"], x)
                && has_place(&chart["y"], y)
            {
                triples.push([number as f64, x, y]);
            }
        }
    }
    triples
}

fn expected_cells(chart: &Value) -> Triples {
    let mut triples = Vec::new();
    let columns = chart["drawing"]["heat"]["counts"].as_array().into_iter().flatten();
    for (column, counts) in columns.enumerate() {
        for (row, count) in counts.as_array().into_iter().flatten().enumerate() {
            if let Some(count) = count.as_f64().filter(|count| *count > 0.0) {
                triples.push([column as f64, row as f64, count]);
            }
        }
    }
    triples
}
