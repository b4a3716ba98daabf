//! What the colours of a picture mean, in rows above the plot. It keeps out the plot itself.

use std::fmt::Write;

use super::lines::marker;
use super::paint::{Canvas, WIDTH};
use super::{heat, text};
use crate::chart::{Heat, Series, Style};
use crate::markup::escaped;
use crate::units;

const ROW: f64 = 20.0;
/// From the beginning of an entry to its name.
const SAMPLE: f64 = 28.0;
const GAP: f64 = 18.0;
/// Width of a colour of a heat map.
const STEP: f64 = 22.0;

/// The names of a picture's lines, each once, in their order: a name's place is its colour.
pub(super) fn names(series: &[Series]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for line in series {
        if !names.contains(&line.name.as_str()) {
            names.push(&line.name);
        }
    }
    names
}

/// An entry, where it stands in the legend.
struct Entry<'a> {
    number: usize,
    name: &'a str,
    shown: String,
    x: f64,
    row: usize,
}

fn entries(series: &[Series]) -> Vec<Entry<'_>> {
    let names = names(series);
    // A line alone without a name needs no explanation.
    if matches!(names[..], [] | [""]) {
        return Vec::new();
    }
    let (mut x, mut row) = (4.0, 0);
    let mut entries = Vec::new();
    for (number, name) in names.into_iter().enumerate() {
        let shown = text::shortened(name, text::TICK_SIZE, WIDTH - SAMPLE - 8.0);
        let width = SAMPLE + text::width(&shown, text::TICK_SIZE);
        if x + width > WIDTH && x > 4.0 {
            (x, row) = (4.0, row + 1);
        }
        entries.push(Entry { number, name, shown, x, row });
        x += width + GAP;
    }
    entries
}

/// Height of the legend of lines.
pub(super) fn lines_height(series: &[Series]) -> f64 {
    entries(series).last().map_or(0.0, |last| ROW * (last.row + 1) as f64 + 4.0)
}

/// Draws the legend of lines.
pub(super) fn lines(svg: &mut String, top: f64, series: &[Series]) {
    let entries = entries(series);
    if entries.is_empty() {
        return;
    }
    svg.push_str("<g class=\"legend\">\n");
    for Entry { number, name, shown, x, row } in entries {
        let y = top + 12.0 + ROW * row as f64;
        let width = SAMPLE + text::width(&shown, text::TICK_SIZE) + 6.0;
        let colour = number % COLOURS;
        let _ = write!(
            svg,
            "<g class=\"entry s{colour}\" data-name=\"{number}\" transform=\"translate({x:.1} {y:.1})\">\
             <rect class=\"touch\" x=\"-3\" y=\"-10\" width=\"{width:.1}\" height=\"20\" rx=\"4\"/>"
        );
        let has = |style| series.iter().any(|line| line.name == name && line.style == style);
        // Where there is a solid and a dashed line, both are shown.
        let apart = if has(Style::Solid) && has(Style::Dashed) { 3.0 } else { 0.0 };
        if has(Style::Solid) || has(Style::Plain) {
            let _ = write!(svg, r#"<path class="line" d="M0 {:.1}H22"/>"#, -apart);
        }
        if has(Style::Dashed) {
            let _ = write!(svg, r#"<path class="line dashed" d="M0 {apart:.1}H22"/>"#);
        }
        if !has(Style::Plain) {
            let shape = marker(number, MARKER_RADIUS);
            let _ =
                write!(svg, r#"<path class="marker" transform="translate(11 {:.1})" d="{shape}"/>"#, -apart);
        }
        let shown = escaped(&shown);
        let _ = writeln!(svg, r#"<text class="name" x="{SAMPLE}" y="4.2">{shown}</text></g>"#);
    }
    svg.push_str("</g>\n");
}

/// Number of colours for lines, as in `chart.css`.
pub(super) const COLOURS: usize = 8;
/// About half as wide as a marker is.
pub(super) const MARKER_RADIUS: f64 = 3.6;

/// Height of the legend of a heat map.
pub(super) fn heat_height(map: &Heat) -> f64 {
    if heat::most(map) == 0 { 0.0 } else { ROW + 4.0 }
}

/// Draws the steps of a heat map's colours, with the counts at both ends.
pub(super) fn heat(svg: &mut String, canvas: &Canvas, map: &Heat) {
    let most = heat::most(map);
    if most == 0 {
        return;
    }
    let y = canvas.legend_top + 3.0;
    let low = units::quantity(crate::chart::Unit::Count, 1.0);
    let high = format!("{} commands", units::grouped(most));
    let mut x = 4.0;
    svg.push_str("<g class=\"legend\">\n");
    text::push(svg, (x, y + 12.2), "name", "start", &low);
    x += text::width(&low, text::TICK_SIZE) + 6.0;
    for step in 0..heat::STEPS {
        let _ = writeln!(
            svg,
            r#"<rect class="h{step}" x="{x:.1}" y="{:.1}" width="{STEP}" height="12"/>"#,
            y + 2.0
        );
        x += STEP;
    }
    text::push(svg, (x + 6.0, y + 12.2), "name", "start", &high);
    svg.push_str("</g>\n");
}
