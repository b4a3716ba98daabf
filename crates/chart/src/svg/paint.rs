//! The surface of a picture: how large it is, where the plot lies in it, and where a value comes to lie.

use super::scale::{Range, is_on_scale};
use super::ticks::{Direction, Tick, ticks};
use super::{Look, legend, text};
use crate::chart::{Chart, Drawing, Heat, Scale, Series};

/// Width of the picture in its own pixels; the page scales it.
pub(crate) const WIDTH: f64 = 480.0;
const PLOT_HEIGHT: f64 = 236.0;
/// Below the plot: numbers, and what they are.
const FOOT: f64 = 42.0;
/// Distance of a line's ends from the sides on a logarithmic axis, which has no natural beginning.
const INSET: f64 = 12.0;

/// A picture's measures.
pub(super) struct Canvas {
    pub(super) height: f64,
    /// The plot's sides.
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
    pub(super) x_ticks: Vec<Tick>,
    pub(super) y_ticks: Vec<Tick>,
    /// Upper edge of the legend.
    pub(super) legend_top: f64,
    /// The base line of words at the plot's top, and from where on they may stand there.
    pub(super) word_y: f64,
    pub(super) word_left: f64,
    x: Range,
    y: Range,
    inset: f64,
}

impl Canvas {
    /// Plans the picture of a chart.
    pub(super) fn new(chart: &Chart, look: Look) -> Canvas {
        let (x, y) = ranges(chart);
        let title = match look {
            Look::File => super::axis::title_height(&chart.title),
            Look::Page => 0.0,
        };
        let legend_top = title + 2.0;
        let legend = match &chart.drawing {
            Drawing::Lines(series) => legend::lines_height(series),
            Drawing::Heat(heat) => legend::heat_height(heat),
        };
        // A line for the name of the y axis, which stands above it.
        let top = legend_top + legend + 30.0;
        let y_ticks = ticks(&chart.y, &y, PLOT_HEIGHT, Direction::Up);
        let widest = |ticks: &[Tick]| {
            ticks.iter().map(|tick| text::width(&tick.label, text::TICK_SIZE)).fold(0.0, f64::max)
        };
        let left = (widest(&y_ticks) + 10.0).clamp(28.0, WIDTH / 3.0);
        let is_heat = matches!(chart.drawing, Drawing::Heat(_));
        let inset = if is_heat || chart.x.scale == Scale::Linear { 0.0 } else { INSET };
        let mut right = WIDTH - 12.0;
        let mut x_ticks = ticks(&chart.x, &x, right - left - 2.0 * inset, Direction::Across);
        if let Some(last) = x_ticks.last() {
            let half = text::width(&last.label, text::TICK_SIZE) / 2.0;
            let position = left + inset + x.fraction(last.value) * (right - left - 2.0 * inset);
            // The last number stands under its mark, and half of it to the right of that.
            right -= (position + half - WIDTH).clamp(0.0, 40.0);
            x_ticks = ticks(&chart.x, &x, right - left - 2.0 * inset, Direction::Across);
        }
        let bottom = top + PLOT_HEIGHT;
        Canvas {
            height: bottom + FOOT,
            left,
            right,
            top,
            bottom,
            x_ticks,
            y_ticks,
            legend_top,
            // On a heat map words would hide what they are about: they stand above it, behind the axis' name.
            word_y: if is_heat { top - 5.0 } else { top + 12.0 },
            word_left: if is_heat { text::width(&chart.y.label, text::LABEL_SIZE) + 14.0 } else { 0.0 },
            x,
            y,
            inset,
        }
    }

    /// Position of a value from left to right. None if the axis has no place for it.
    pub(super) fn x(&self, value: f64) -> Option<f64> {
        let length = self.right - self.left - 2.0 * self.inset;
        is_on_scale(self.x.scale, value).then(|| self.left + self.inset + self.x.fraction(value) * length)
    }

    /// Position of a value from top to bottom. None if the axis has no place for it.
    pub(super) fn y(&self, value: f64) -> Option<f64> {
        is_on_scale(self.y.scale, value)
            .then(|| self.bottom - self.y.fraction(value) * (self.bottom - self.top))
    }

    /// True if the plot shows this value of the y axis.
    pub(super) fn holds_y(&self, value: f64) -> bool {
        self.y.holds(value)
    }

    /// As `y`, for the end of something that has a place: what lies beyond the plot lies at its side.
    pub(super) fn y_end(&self, value: f64) -> f64 {
        match value {
            value if value == f64::INFINITY => self.top,
            value => self.y(value).unwrap_or(self.bottom),
        }
    }

    /// As `y_end`, from left to right.
    pub(super) fn x_end(&self, value: f64) -> f64 {
        match value {
            value if value == f64::INFINITY => self.right,
            value => self.x(value).unwrap_or(self.left),
        }
    }
}

/// Height above the highest point to which intervals are shown, as a multiple of it.
const INTERVALS_SHOWN: f64 = 1.25;

fn ranges(chart: &Chart) -> (Range, Range) {
    match &chart.drawing {
        Drawing::Lines(series) => {
            let mark_x = chart.marks.iter().filter_map(|mark| mark.x);
            let mark_y = chart.marks.iter().filter_map(|mark| mark.y);
            let (xs, ys): (Vec<f64>, Vec<f64>) = drawn(chart, series).unzip();
            let ends = series.iter().flat_map(|series| &series.points).filter_map(|point| point.interval);
            // A mean that is hardly known must not make all others flat: longer intervals are cut at the border.
            let most = ys.iter().copied().fold(0.0, f64::max) * INTERVALS_SHOWN;
            // A logarithmic axis has no beginning at 0 that would cut them.
            let least = match chart.y.scale {
                Scale::Linear => f64::MIN,
                Scale::Log2 | Scale::Log10 => ys.iter().copied().fold(f64::MAX, f64::min) / INTERVALS_SHOWN,
            };
            let ends =
                ends.flat_map(|(low, high)| [low.max(least), high.min(most)]).filter(|end| *end >= 0.0);
            let x = Range::around(&chart.x, xs.into_iter().chain(mark_x));
            let y = Range::around(&chart.y, ys.into_iter().chain(mark_y).chain(ends));
            (x, y)
        }
        Drawing::Heat(heat) => {
            let (low, high) = used_rows(heat);
            let edges = heat.y_edges.get(low..=high).unwrap_or_default();
            (Range::exactly(&chart.x, &heat.x_edges), Range::exactly(&chart.y, edges))
        }
    }
}

/// The points that have a place on both axes.
fn drawn<'a>(chart: &'a Chart, series: &'a [Series]) -> impl Iterator<Item = (f64, f64)> + 'a {
    let points = series.iter().flat_map(|series| &series.points).map(|point| (point.x, point.y));
    points.filter(|(x, y)| is_on_scale(chart.x.scale, *x) && is_on_scale(chart.y.scale, *y))
}

/// Between which borders of rows there are commands, with one empty row on each side: most of a histogram is empty.
fn used_rows(heat: &Heat) -> (usize, usize) {
    let last = heat.y_edges.len().saturating_sub(1);
    let is_used =
        |row: &usize| heat.counts.iter().any(|column| column.get(*row).is_some_and(|count| *count > 0));
    let first = (0..last).find(is_used);
    let end = (0..last).rev().find(is_used);
    match (first, end) {
        (Some(first), Some(end)) => (first.saturating_sub(1), (end + 2).min(last)),
        _ => (0, last),
    }
}
