//! Checks of those who see nothing or use no mouse: names, keys, what is said; and of what can be taken along.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::page::{DOWN, ENTER, Page, RIGHT, UP};
use super::{Report, demand};

const SAVE_LIMIT: Duration = Duration::from_secs(30);

/// Every chart has a name and a description for those who do not see it, and every table a caption.
pub(super) fn names(page: &mut Page<'_>, report: &Report) -> Result<(), String> {
    page.open(&report.page())?;
    let tree = page.browser.call("Accessibility.getFullAXTree", &json!({}))?;
    let nodes = tree["nodes"].as_array().ok_or("there is no accessibility tree")?;
    for chart in report.charts() {
        let is_it = |node: &&Value| {
            let role = node["role"]["value"].as_str().unwrap_or_default();
            let name = node["name"]["value"].as_str().unwrap_or_default();
            let title = chart["title"].as_str().unwrap_or_default();
            ["application", "image", "img", "graphics-document"].contains(&role) && name.starts_with(title)
        };
        demand(nodes.iter().any(|node| is_it(&node)), || format!("{} has no accessible name", chart["id"]))?;
    }
    let bare = page.ask(
        "Array.from(document.querySelectorAll('table')).filter(t => !t.caption || !t.caption.textContent.trim()).length",
    )?;
    demand(bare == 0, || format!("{bare} tables have no caption"))?;
    let bare = page.ask(
        "Array.from(document.querySelectorAll('figure')).filter(f => !f.querySelector('details table.data tbody tr')).length",
    )?;
    demand(bare == 0, || format!("{bare} charts have no table of their data"))?;
    let tables = page.ask("document.querySelectorAll('table.sortable').length")?;
    demand(tables == report.tables().len(), || {
        format!("{tables} tables instead of {}", report.tables().len())
    })
}

/// Focused point, and the announced text.
const HERE: &str = "(p => ({ series: Number(p.dataset.series), x: Number(p.dataset.x), y: Number(p.dataset.y),
    said: document.getElementById('said').textContent, label: p.getAttribute('aria-label').split('\\n').join(', '),
    tip: Array.from(document.querySelectorAll('.tip')).filter(tip => !tip.hidden).length }))(document.activeElement)";

/// Tab leads into a chart, arrows lead along a line and to another one, and what is there is said.
pub(super) fn points(page: &mut Page<'_>, report: &Report) -> Result<(), String> {
    page.open(&report.page())?;
    let several = |chart: &&Value| chart["drawing"]["lines"].as_array().is_some_and(|lines| lines.len() > 1);
    let chart =
        report.charts().iter().find(several).ok_or("no chart has several lines, which proves nothing")?;
    let id = chart["id"].as_str().unwrap_or_default();
    page.tab_to(&format!("element.matches('#{id} .point')"))?;
    let first = &chart["drawing"]["lines"][0]["points"];
    let at = |page: &mut Page<'_>, series: u64, point: &Value| {
        let here = page.ask(HERE)?;
        let is_there = here["series"] == series
            && here["x"].as_f64() == point["x"].as_f64()
            && here["y"].as_f64() == point["y"].as_f64();
        demand(is_there, || format!("the focus is on {here} instead of {point}"))?;
        let said = here["said"].as_str().unwrap_or_default();
        demand(!said.is_empty() && here["said"] == here["label"], || format!("{said:?} was said of {here}"))?;
        demand(here["tip"] == 1, || format!("{} tooltips are shown", here["tip"]))?;
        let note = point["note"].as_str().unwrap_or_default();
        let name = chart["drawing"]["lines"][series as usize]["name"].as_str().unwrap_or_default();
        demand(said.contains(note) && said.contains(name), || format!("{said:?} has no {name:?} or {note:?}"))
    };
    at(page, 0, &first[0])?;
    page.press(RIGHT)?;
    at(page, 0, &first[1])?;
    page.press(DOWN)?;
    let here = page.ask(HERE)?;
    demand(here["series"] == 1, || format!("down leads to {here}"))?;
    page.press(UP)?;
    let here = page.ask(HERE)?;
    demand(here["series"] == 0, || format!("up leads to {here}"))
}

/// A heading's button sorts its table both ways; the filter leaves the rows that have the words.
pub(super) fn tables(page: &mut Page<'_>, report: &Report) -> Result<(), String> {
    page.open(&report.page())?;
    let table = report.tables().first().ok_or("there is no table, which proves nothing")?;
    let columns = table["columns"].as_array().ok_or("a table has no columns")?;
    let column = (0..columns.len()).rev().find(|column| tells_sorts_apart(table, *column));
    let column = column.ok_or("no column tells a sort by number from one by text, which proves nothing")?;
    page.tab_to(&format!(
        "element.matches('table.sortable .sort') && element.closest('th').cellIndex === {column}"
    ))?;
    for (direction, order) in [("ascending", 1.0), ("descending", -1.0)] {
        page.press(ENTER)?;
        let found = page.ask(&format!(
            "(() => {{ const table = document.querySelector('table.sortable');
                return {{ sort: table.tHead.rows[0].cells[{column}].getAttribute('aria-sort'),
                    focus: document.activeElement.matches('.sort'),
                    values: Array.from(table.tBodies[0].rows, row => row.cells[{column}].dataset.value) }}; }})()"
        ))?;
        demand(found["sort"] == direction, || {
            format!("aria-sort is {} instead of {direction}", found["sort"])
        })?;
        demand(found["focus"] == true, || "the focus is lost by sorting".to_owned())?;
        let texts = found["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let values: Vec<f64> =
            texts.filter(|text| !text.is_empty()).filter_map(|text| text.parse().ok()).collect();
        let expected = table["rows"].as_array().into_iter().flatten();
        let expected = expected.filter(|row| row[column]["value"].is_number()).count();
        demand(values.len() == expected, || format!("{} values instead of {expected}", values.len()))?;
        let sorted = values.windows(2).all(|pair| order * (pair[1] - pair[0]) >= 0.0);
        demand(sorted, || format!("not {direction}: {values:?}"))?;
    }
    filter(page, table)
}

/// True if a column's numbers have another order than their texts.
fn tells_sorts_apart(table: &Value, column: usize) -> bool {
    let rows = table["rows"].as_array().into_iter().flatten();
    let mut numbers: Vec<f64> = rows.filter_map(|row| row[column]["value"].as_f64()).collect();
    numbers.sort_by(f64::total_cmp);
    let texts: Vec<String> = numbers.iter().map(f64::to_string).collect();
    !texts.is_sorted()
}

fn filter(page: &mut Page<'_>, table: &Value) -> Result<(), String> {
    let shown = "Array.from(document.querySelector('table.sortable').tBodies[0].rows).filter(row => !row.hidden).length";
    let all = page.ask(shown)?;
    // All the words of one row are in few others.
    let words = page.ask(
        "(() => { const rows = Array.from(document.querySelector('table.sortable').tBodies[0].rows);
            return Array.from(rows[rows.length - 1].cells, cell => cell.textContent).join(' '); })()",
    )?;
    let words = words.as_str().unwrap_or_default().to_owned();
    page.ask("document.querySelector('.table input').focus()")?;
    page.browser.call("Input.insertText", &json!({"text": words}))?;
    let some = page.ask(shown)?.as_u64().unwrap_or(0);
    let all = all.as_u64().unwrap_or(0);
    demand(0 < some && some < all, || format!("{some} of {all} rows of {} have {words:?}", table["id"]))
}

/// A legend's entry hides its line and shows it again.
pub(super) fn legends(page: &mut Page<'_>, report: &Report) -> Result<(), String> {
    page.open(&report.page())?;
    page.tab_to("element.matches('.entry')")?;
    let hidden = "(() => { const entry = document.activeElement; const svg = entry.closest('svg');
        const lines = Array.from(svg.querySelectorAll('.series')).filter(g => getComputedStyle(g).display === 'none');
        return [entry.getAttribute('aria-pressed'), lines.length,
            lines.every(g => g.dataset.name === entry.dataset.name)]; })()";
    demand(page.ask(hidden)? == json!(["true", 0, true]), || "a line is hidden from the start".to_owned())?;
    page.press(ENTER)?;
    let found = page.ask(hidden)?;
    demand(found == json!(["false", 1, true]), || format!("after one press: {found}"))?;
    page.press(ENTER)?;
    let found = page.ask(hidden)?;
    demand(found == json!(["true", 0, true]), || format!("after two presses: {found}"))
}

/// Checks the files of the buttons: tables as the report's own CSV files, pictures that a browser
/// takes.
pub(super) fn saving(page: &mut Page<'_>, report: &Report) -> Result<(), String> {
    let folder = report.folder.join("saved");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let allow = json!({"behavior": "allow", "downloadPath": folder});
    page.browser.call("Browser.setDownloadBehavior", &allow)?;
    page.open(&report.page())?;
    let table = report.tables().first().ok_or("there is no table, which proves nothing")?;
    let name = format!("{}.csv", table["id"].as_str().unwrap_or_default());
    page.ask("document.querySelector('.table .small').click()")?;
    let saved = wait_for_file(&folder.join(&name))?;
    let own =
        std::fs::read_to_string(report.folder.join(&name)).map_err(|error| format!("{name}: {error}"))?;
    demand(saved == own, || format!("the {name} that the page saves is not the report's"))?;
    let chart = report.charts().first().ok_or("there is no chart")?;
    let name = format!("{}.svg", chart["id"].as_str().unwrap_or_default());
    page.ask("document.querySelector('figure .actions button').click()")?;
    wait_for_file(&folder.join(&name))?;
    page.open(&folder.join(&name))?;
    let root =
        page.ask("document.documentElement.nodeName + document.querySelectorAll('parsererror').length")?;
    demand(root == "svg0", || format!("the {name} that the page saves is not well-formed"))
}

/// A file's text, once it is there and has any.
fn wait_for_file(path: &Path) -> Result<String, String> {
    let until = Instant::now() + SAVE_LIMIT;
    while Instant::now() < until {
        match std::fs::read_to_string(path) {
            Ok(text) if !text.is_empty() => return Ok(text),
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    Err(format!("{} was not saved", path.display()))
}
