//! Bars in panels side by side, all to one scale. It keeps out titles and legends.

use std::fmt::Write;

use super::frame::Frame;
use super::legend::COLOURS;
use super::scale::Range;
use super::text::{self, TICK_SIZE};
use super::ticks::{Direction, Tick, ticks};
use super::{STYLE, axis, legend};
use crate::markup::escaped;
use crate::units;
use crate::{Axis, Bar, Bars, Scale, Series, Style};

/// Wider than a chart: beside the panels are names.
const WIDTH: f64 = 720.0;
const ROW: f64 = 16.0;
const HEADING: f64 = 24.0;
/// Behind the longest bar of a panel, for its value.
const VALUE: f64 = 62.0;

/// Layout of the panels.
struct Panels {
    left: f64,
    /// From one panel to the next, and how much of it bars may take.
    width: f64,
    length: f64,
    range: Range,
    ticks: Vec<Tick>,
}

impl Panels {
    fn new(bars: &Bars) -> Panels {
        let rows = || bars.groups.iter().flat_map(|group| &group.bars);
        let names = rows().map(|bar| text::width(&bar.name, TICK_SIZE));
        let left = names.fold(0.0, f64::max).min(WIDTH / 3.0) + 16.0;
        let width = (WIDTH - left) / bars.panels.len().max(1) as f64;
        let length = (width - VALUE).max(1.0);
        let value = Axis { label: String::new(), unit: bars.unit, scale: Scale::Linear };
        let range = Range::around(&value, rows().flat_map(|bar| &bar.values).flatten().copied());
        let ticks = ticks(&value, &range, length, Direction::Across);
        Panels { left, width, length, range, ticks }
    }

    fn left_of(&self, panel: usize) -> f64 {
        self.left + self.width * panel as f64
    }
}

/// Draws bars in a file of their own.
pub fn draw_bars(bars: &Bars) -> String {
    let panels = Panels::new(bars);
    let kinds: Vec<Series> = bars.kinds.iter().map(|kind| entry(kind)).collect();
    let legend_top = axis::title_height(&bars.title) + 2.0;
    let top = legend_top + legend::lines_height(&kinds) + 16.0;
    let rows: usize = bars.groups.iter().map(|group| group.bars.len()).sum();
    let bottom = top + 8.0 + HEADING * bars.groups.len() as f64 + ROW * rows as f64;
    let frame = Frame {
        class: "chart",
        id: &bars.id,
        title: &bars.title,
        description: &format!("Bars of {}: {}.", bars.panels.join(", "), bars.kinds.join(", ")),
        width: WIDTH,
        height: bottom + 26.0,
        top: 0.0,
        scale: Some(1.5),
        style: Some(STYLE),
    };
    let mut svg = frame.opening();
    axis::title(&mut svg, &bars.title);
    legend::lines(&mut svg, legend_top, &kinds);
    for (number, name) in bars.panels.iter().enumerate() {
        let left = panels.left_of(number);
        text::push(&mut svg, (left, top), "label", "start", &text::shortened(name, 12.5, panels.width));
        for tick in &panels.ticks {
            let x = left + panels.range.fraction(tick.value) * panels.length;
            let _ = writeln!(svg, "<path class=\"grid\" d=\"M{x:.1} {:.1}V{bottom:.1}\"/>", top + 8.0);
            text::push(&mut svg, (x, bottom + 15.0), "tick", "middle", &tick.label);
        }
    }
    let mut y = top + 8.0;
    for group in &bars.groups {
        y += HEADING;
        text::push(&mut svg, (4.0, y - 6.0), "label", "start", &group.name);
        for bar in &group.bars {
            row(&mut svg, &panels, bars, bar, y);
            y += ROW;
        }
    }
    svg + "</svg>\n"
}

/// A kind as the legend knows it.
fn entry(kind: &str) -> Series {
    Series { name: kind.to_owned(), style: Style::Dots, points: Vec::new() }
}

fn row(svg: &mut String, panels: &Panels, bars: &Bars, bar: &Bar, y: f64) {
    let line = y + ROW - 4.0;
    let name = text::shortened(&bar.name, TICK_SIZE, panels.left - 12.0);
    text::push(svg, (panels.left - 8.0, line), "name", "end", &name);
    for (number, value) in bar.values.iter().enumerate() {
        let left = panels.left_of(number);
        let Some(value) = value.filter(|value| value.is_finite()) else {
            text::push(svg, (left + 5.0, line), "tick", "start", "failed");
            continue;
        };
        let length = panels.range.fraction(value) * panels.length;
        let shown = units::quantity(bars.unit, value);
        let _ = writeln!(
            svg,
            "<rect class=\"bar s{}\" data-value=\"{value}\" aria-label=\"{}\" x=\"{left:.1}\" y=\"{y:.1}\" \
             width=\"{length:.1}\" height=\"{:.1}\"/>",
            bar.kind % COLOURS,
            escaped(&shown),
            ROW - 3.0
        );
        text::push(svg, (left + length + 4.0, line), "name", "start", &shown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{elements, values};
    use crate::{Group, Unit};

    #[test]
    fn a_bar_is_as_long_as_its_value() {
        let bar =
            |value: Option<f64>| Bar { name: "tcp".to_owned(), kind: 1, values: vec![value, Some(5e8)] };
        let bars = Bars {
            id: "paths".to_owned(),
            title: "a < b".to_owned(),
            unit: Unit::BytesPerSecond,
            panels: vec!["read".to_owned(), "write".to_owned()],
            kinds: vec!["ours".to_owned(), "other".to_owned()],
            groups: vec![Group { name: "lossy".to_owned(), bars: vec![bar(Some(2.5e8)), bar(None)] }],
        };
        let svg = draw_bars(&bars);
        elements(&svg).unwrap();
        let lengths: Vec<f64> = svg
            .split("class=\"bar s1\"")
            .skip(1)
            .map(|fraction| values(fraction, "width")[0].parse().unwrap())
            .collect();
        assert_eq!(lengths.len(), 3);
        assert!((lengths[0] * 2.0 - lengths[1]).abs() < 0.2 && lengths[1] == lengths[2], "{lengths:?}");
        for text in [">a &lt; b<", ">failed<", ">write<", ">lossy<", ">250 MB/s<", ">ours<", ">other<"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }

    #[test]
    fn no_bars_are_a_picture_too() {
        let bars = Bars {
            id: String::new(),
            title: String::new(),
            unit: Unit::Iops,
            panels: Vec::new(),
            kinds: Vec::new(),
            groups: Vec::new(),
        };
        let svg = draw_bars(&bars);
        elements(&svg).unwrap();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
