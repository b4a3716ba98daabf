//! A chart as SVG: in a file that stands alone, or inside of a page. It draws what the chart says, and keeps out where
//! that comes from.

mod axis;
mod bars;
mod frame;
mod heat;
mod legend;
mod lines;
mod marks;
pub(crate) mod paint;
mod scale;
pub mod text;
mod ticks;

use super::chart::{Chart, Drawing, Style};
use super::units;
use paint::Canvas;

pub use bars::draw_bars;
pub use frame::Frame;

/// Style sheet of colours and lines, by class. A page has it once for all of its pictures.
pub const STYLE: &str = include_str!("chart.css");

/// Place in which a picture is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// In a file of its own: it has its title and its style with it.
    File,
    /// In a page, which shows the title and has the style.
    Page,
}

/// Draws a chart. Nothing in it is fetched, and nothing runs. Every value that has a place on its axes is an element of
/// class `point` (with `data-series`, `data-x`, `data-y`) or `cell` (with `data-column`, `data-row`, `data-count`).
pub fn draw(chart: &Chart, look: Look) -> String {
    let canvas = Canvas::new(chart, look);
    let mut body = String::new();
    if look == Look::File {
        axis::title(&mut body, &chart.title);
    }
    match &chart.drawing {
        Drawing::Lines(series) => {
            axis::draw(&mut body, &canvas, chart, axis::Grid::Behind);
            legend::lines(&mut body, canvas.legend_top, series);
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
    let frame = Frame {
        class: "chart",
        id: &chart.id,
        title: &chart.title,
        description: &description(chart),
        width: paint::WIDTH,
        height: canvas.height,
        top: 0.0,
        // A page gives it the room there is, and has the style; a file alone has both.
        scale: (look == Look::File).then_some(1.5),
        style: (look == Look::File).then_some(STYLE),
    };
    frame.opening() + &body + "</svg>\n"
}

/// Description of the picture for readers that do not see it.
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
pub fn series_name(name: &str, style: Style) -> String {
    match style {
        Style::Dashed if name.is_empty() => "dashed".to_owned(),
        Style::Dashed => format!("{name} (dashed)"),
        Style::Solid | Style::Dots | Style::Plain => name.to_owned(),
    }
}

#[cfg(test)]
mod tests;
