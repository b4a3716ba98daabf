//! A report as one HTML file that asks no network: what it means, pictures, tables, facts. Everything is there without
//! its script; the script adds tooltips, keys, sorting and saving. It keeps out how a chart is drawn.

mod figure;
mod grid;

use std::fmt::Write;

use chart::markup::{escaped, identifier};
use chart::{svg, units};
use serde_json::Value;

use super::document::{Document, FactGroup, Finding, FindingKind};
use super::markdown;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Content security policy: nothing is fetched; style and script are in the page itself.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; \
    base-uri 'none'; form-action 'none'";

/// A picture that is not a chart. It takes the page's whole width.
pub struct Figure<'a> {
    /// Unique in its page.
    pub id: &'a str,
    pub title: &'a str,
    pub caption: &'a str,
    /// An element that has its style with it.
    pub svg: &'a str,
}

/// The page. `data` is all that was measured, for programs; it is in the page as `#report-data`.
pub fn render(document: &Document, data: &Value) -> String {
    render_with(document, data, &[])
}

/// The page with pictures that stand before its charts.
pub fn render_with(document: &Document, data: &Value, pictures: &[Figure<'_>]) -> String {
    let mut page = head(document);
    page.push_str("<body>\n");
    header(&mut page, document, !pictures.is_empty());
    page.push_str("<main>\n");
    answer(&mut page, document);
    leading_figures(&mut page, document);
    findings(&mut page, document);
    let (_, charts) = document.parted_charts();
    if !charts.is_empty() || !pictures.is_empty() {
        page.push_str(
            "<section id=\"charts\" aria-labelledby=\"charts-title\">\n<h2 id=\"charts-title\">Charts</h2>\n",
        );
        page.push_str("<div class=\"figures\">\n");
        for picture in pictures {
            figure::push_picture(&mut page, picture);
        }
        for chart in charts {
            figure::push(&mut page, chart);
        }
        page.push_str("</div>\n</section>\n");
    }
    if !document.tables.is_empty() {
        page.push_str(
            "<section id=\"tables\" aria-labelledby=\"tables-title\">\n<h2 id=\"tables-title\">Tables</h2>\n",
        );
        for table in &document.tables {
            grid::push(&mut page, table);
        }
        page.push_str("</section>\n");
    }
    facts(&mut page, &document.facts);
    let version = env!("CARGO_PKG_VERSION");
    let _ = write!(
        page,
        "</main>\n<footer><p>Made by selvedge {version}</p></footer>\n\
         <p id=\"said\" class=\"unseen\" aria-live=\"polite\"></p>\n\
         <script type=\"application/json\" id=\"report-data\">{}</script>\n\
         <script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        embedded(data)
    );
    page
}

fn head(document: &Document) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"selvedge {}\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n\
         <style id=\"chart-style\">\n{}</style>\n</head>\n",
        env!("CARGO_PKG_VERSION"),
        escaped(&document.title),
        svg::STYLE
    )
}

/// JSON in which nothing can end the element that it stands in: `<` is only found in its strings.
fn embedded(data: &Value) -> String {
    data.to_string().replace('<', "\\u003c")
}

fn header(page: &mut String, document: &Document, has_pictures: bool) {
    let _ = write!(page, "<header>\n<h1>{}</h1>\n", escaped(&document.title));
    if !document.subtitle.is_empty() {
        let _ = writeln!(page, "<p class=\"subtitle\">{}</p>", escaped(&document.subtitle));
    }
    let parts = [
        ("findings", "Findings", document.findings.is_empty()),
        ("charts", "Charts", document.parted_charts().1.is_empty() && !has_pictures),
        ("tables", "Tables", document.tables.is_empty()),
        ("facts", "Where it was measured", document.facts.is_empty()),
    ];
    page.push_str("<nav aria-label=\"Parts of this report\">\n");
    for (id, name, _) in parts.iter().filter(|(_, _, is_empty)| !is_empty) {
        let _ = writeln!(page, "<a href=\"#{id}\">{name}</a>");
    }
    page.push_str("</nav>\n</header>\n");
}

/// Answer to the title, with its picture.
fn answer(page: &mut String, document: &Document) {
    let Some(answer) = &document.answer else { return };
    let _ = write!(page, "<section id=\"answer\" aria-label=\"Answer\">\n<p>{}</p>\n", escaped(answer));
    if let (Some(chart), _) = document.parted_charts() {
        page.push_str("<div class=\"figures\">\n");
        figure::push(page, chart);
        page.push_str("</div>\n");
    }
    page.push_str("</section>\n");
}

fn leading_figures(page: &mut String, document: &Document) {
    if document.figures.is_empty() {
        return;
    }
    page.push_str("<dl class=\"leading\">\n");
    for figure in &document.figures {
        let (value, spread) = units::parted(figure.unit, figure.value, figure.interval);
        let spread = spread.map(|spread| format!(" <small>{}</small>", escaped(&spread)));
        let _ = writeln!(
            page,
            "<div><dt>{}</dt><dd>{}{}</dd><dd class=\"note\">{}</dd></div>",
            escaped(&figure.name),
            escaped(&value),
            spread.unwrap_or_default(),
            escaped(&figure.note)
        );
    }
    page.push_str("</dl>\n");
}

fn findings(page: &mut String, document: &Document) {
    if document.findings.is_empty() {
        return;
    }
    page.push_str(
        "<section id=\"findings\" aria-labelledby=\"findings-title\">\n\
         <h2 id=\"findings-title\">Findings</h2>\n<ul class=\"findings\">\n",
    );
    for finding in &document.findings {
        push_finding(page, finding, document);
    }
    page.push_str("</ul>\n</section>\n");
}

fn push_finding(page: &mut String, finding: &Finding, document: &Document) {
    // A shape of its own for each kind, for those who do not tell colours apart.
    let (class, icon) = match finding.kind {
        FindingKind::Advice => ("advice", "M3 8.6l3.3 3.3L13 4.4"),
        FindingKind::Observation => {
            ("observation", "M8 1.8a6.2 6.2 0 1 0 0 12.4a6.2 6.2 0 1 0 0-12.4M8 7.4v3.5M8 5v.1")
        }
        FindingKind::Caution => ("caution", "M8 2L14.6 13.6H1.4zM8 6.6v3.1M8 11.6v.1"),
    };
    let _ = write!(
        page,
        "<li class=\"finding {class}\">\n<p class=\"kind\"><svg viewBox=\"0 0 16 16\" aria-hidden=\"true\">\
         <path d=\"{icon}\"/></svg>{}</p>\n<h3>{}</h3>\n",
        markdown::kind(finding.kind),
        escaped(&finding.title)
    );
    if !finding.text.is_empty() {
        let _ = writeln!(page, "<p>{}</p>", escaped(&finding.text));
    }
    let chart = document.charts.iter().find(|chart| Some(&chart.id) == finding.chart_id.as_ref());
    if let Some(chart) = chart {
        let _ = writeln!(
            page,
            "<p class=\"see\"><a href=\"#{}\">{}</a></p>",
            identifier(&chart.id),
            escaped(&chart.title)
        );
    }
    page.push_str("</li>\n");
}

fn facts(page: &mut String, groups: &[FactGroup]) {
    if groups.is_empty() {
        return;
    }
    page.push_str(
        "<section id=\"facts\" aria-labelledby=\"facts-title\">\n\
         <h2 id=\"facts-title\">Where it was measured</h2>\n<div class=\"facts\">\n",
    );
    for group in groups {
        let _ = write!(page, "<div class=\"group\">\n<h3>{}</h3>\n<dl>\n", escaped(&group.title));
        for (name, value) in &group.facts {
            let _ = writeln!(page, "<div><dt>{}</dt><dd>{}</dd></div>", escaped(name), escaped(value));
        }
        page.push_str("</dl>\n</div>\n");
    }
    page.push_str("</div>\n</section>\n");
}

#[cfg(test)]
mod tests;
