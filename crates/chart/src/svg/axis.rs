//! Axes as they are drawn: grid, numbers, names; and the title above all. It keeps out which numbers are marked.

use std::fmt::Write;

use super::paint::{Canvas, WIDTH};
use super::text::{self, LABEL_SIZE, TITLE_SIZE};
use crate::chart::Chart;

const TITLE_LINE: f64 = 21.0;

/// Grid lines behind the drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grid {
    Behind,
    /// The drawing fills the plot.
    None,
}

/// Draws the title of a picture that stands alone.
pub(super) fn title(svg: &mut String, title: &str) {
    for (number, line) in title_lines(title).iter().enumerate() {
        let y = 22.0 + TITLE_LINE * number as f64;
        text::push(svg, (6.0, y), "title", "start", line);
    }
}

/// Height of a title.
pub(super) fn title_height(title: &str) -> f64 {
    match title_lines(title).len() {
        0 => 0.0,
        lines => 12.0 + TITLE_LINE * lines as f64,
    }
}

fn title_lines(title: &str) -> Vec<String> {
    // Titles are bold, which is wider.
    text::lines(title, TITLE_SIZE * 1.08, WIDTH - 12.0, 2)
}

/// Draws both axes.
pub(super) fn draw(svg: &mut String, canvas: &Canvas, chart: &Chart, grid: Grid) {
    let Canvas { left, right, top, bottom, .. } = *canvas;
    svg.push_str("<g class=\"axis y\">\n");
    for tick in &canvas.y_ticks {
        let y = canvas.y_end(tick.value);
        if grid == Grid::Behind {
            let _ = writeln!(svg, "<path class=\"grid\" d=\"M{left:.1} {y:.1}H{right:.1}\"/>");
        }
        text::push(svg, (left - 7.0, y + 4.2), "tick", "end", &tick.label);
    }
    let name = text::shortened(&chart.y.label, LABEL_SIZE, WIDTH - 12.0);
    text::push(svg, (2.0, top - 15.0), "label", "start", &name);
    svg.push_str("</g>\n<g class=\"axis x\">\n");
    for tick in &canvas.x_ticks {
        let x = canvas.x_end(tick.value);
        if grid == Grid::Behind {
            let _ = writeln!(svg, "<path class=\"grid\" d=\"M{x:.1} {top:.1}V{bottom:.1}\"/>");
        }
        let end = bottom + 4.0;
        let _ = writeln!(svg, "<path class=\"notch\" d=\"M{x:.1} {bottom:.1}V{end:.1}\"/>");
        text::push(svg, (x, bottom + 17.0), "tick", "middle", &tick.label);
    }
    let _ = writeln!(svg, "<path class=\"base\" d=\"M{left:.1} {bottom:.1}H{right:.1}\"/>");
    let name = text::shortened(&chart.x.label, LABEL_SIZE, WIDTH - 12.0);
    // Under the middle of the plot, unless it is longer than that.
    let half = text::width(&chart.x.label, LABEL_SIZE) / 2.0;
    let x = f64::midpoint(left, right).min(WIDTH - half - 2.0).max(WIDTH / 2.0);
    text::push(svg, (x, bottom + 36.0), "label", "middle", &name);
    svg.push_str("</g>\n");
}
