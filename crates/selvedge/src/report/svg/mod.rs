//! A chart as SVG: in a file that stands alone, or inside of a page. It draws what the chart says, and keeps out where
//! that comes from.

mod axis;
mod heat;
mod legend;
mod lines;
mod marks;
mod paint;
mod scale;
pub(crate) mod text;
mod ticks;

use std::fmt::Write;

use super::chart::{Chart, Drawing, Style};
use super::markup::escaped;
use super::units;
use paint::Canvas;

/// How colours and lines look, by class. A page has it once for all of its pictures.
pub(crate) const STYLE: &str = include_str!("chart.css");

/// Where a picture is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// In a file of its own: it has its title and its style with it.
    File,
    /// In a page, which shows the title and has the style.
    Page,
}

/// Draws a chart. Nothing in it is fetched, and nothing runs. Every value that has a place on its axes is an element of
/// class `point` (with `data-series`, `data-x`, `data-y`) or `cell` (with `data-column`, `data-row`, `data-count`).
pub(crate) fn draw(chart: &Chart, look: Look) -> String {
    let canvas = Canvas::new(chart, look);
    let mut body = String::new();
    if look == Look::File {
        axis::title(&mut body, &chart.title);
    }
    match &chart.drawing {
        Drawing::Lines(series) => {
            axis::draw(&mut body, &canvas, chart, axis::Grid::Behind);
            legend::lines(&mut body, &canvas, series);
            marks::lines(&mut body, &canvas, &chart.marks);
            lines::draw(&mut body, &canvas, chart, series);
        }
        Drawing::Heat(heat) => {
            axis::draw(&mut body, &canvas, chart, axis::Grid::None);
            legend::heat(&mut body, &canvas, heat);
            heat::draw(&mut body, &canvas, chart, heat);
            marks::lines(&mut body, &canvas, &chart.marks);
        }
    }
    marks::words(&mut body, &canvas, &chart.marks);
    let mut svg = opening(chart, &canvas, look);
    svg.push_str(&body);
    svg.push_str("</svg>\n");
    svg
}

fn opening(chart: &Chart, canvas: &Canvas, look: Look) -> String {
    let id = super::markup::identifier(&chart.id);
    let (width, height) = (paint::WIDTH, canvas.height);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" role=\"img\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         aria-labelledby=\"{id}-title {id}-desc\""
    );
    if look == Look::File {
        // A page gives it the room there is; a file alone has a size.
        let _ = write!(svg, " width=\"{:.0}\" height=\"{:.0}\"", width * 1.5, height * 1.5);
    }
    let _ = write!(
        svg,
        ">\n<title id=\"{id}-title\">{}</title>\n<desc id=\"{id}-desc\">{}</desc>\n",
        escaped(&chart.title),
        escaped(&description(chart))
    );
    if look == Look::File {
        let _ = write!(
            svg,
            "<style>\n{STYLE}</style>\n<rect class=\"paper\" width=\"{width:.0}\" height=\"{height:.0}\"/>\n"
        );
    }
    svg
}

/// What somebody is told who does not see the picture.
fn description(chart: &Chart) -> String {
    let mut text = chart.caption.trim().to_owned();
    if !text.is_empty() && !text.ends_with(['.', '!', '?']) {
        text.push('.');
    }
    let (x, y) = (&chart.x.label, &chart.y.label);
    let kind = match &chart.drawing {
        Drawing::Lines(series) => {
            let names = legend::names(series);
            match names.len() {
                0 | 1 => format!("A line of {y} against {x}."),
                count => format!("{count} lines of {y} against {x}: {}.", names.join(", ")),
            }
        }
        Drawing::Heat(heat) => {
            let count = heat.counts.iter().flatten().fold(0_u64, |sum, count| sum.saturating_add(*count));
            format!("A heat map of {} by {y} against {x}.", units::plural(count, "command"))
        }
    };
    format!("{text} {kind}").trim().to_owned()
}

/// The name of a line, and how it differs from the solid one of the same name.
pub(crate) fn series_name(name: &str, style: Style) -> String {
    match style {
        Style::Dashed if name.is_empty() => "dashed".to_owned(),
        Style::Dashed => format!("{name} (dashed)"),
        Style::Solid | Style::Dots => name.to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
