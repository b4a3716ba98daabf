//! Lines with their points and intervals. It keeps out axes, and what the lines mean.

use std::fmt::Write;

use super::legend::{COLOURS, MARKER_RADIUS, names};
use super::paint::Canvas;
use super::series_name;
use crate::chart::{Axis, Chart, Point, Series, Style};
use crate::markup::escaped;
use crate::units;

/// Of more points than this the markers are small, or they would hide the line.
const LARGE_MARKERS_MAX: usize = 40;
/// Half of the cross-stroke at a whisker's end.
const WHISKER: f64 = 3.5;
/// Distance between whiskers of two lines at one place, and between the outermost.
const WHISKERS_APART: f64 = 3.0;
const WHISKERS_APART_MAX: f64 = 18.0;

/// Draws all series: the first one last, so that it lies above the others.
pub(super) fn draw(svg: &mut String, canvas: &Canvas, chart: &Chart, series: &[Series]) {
    let names = names(series);
    for (number, line) in series.iter().enumerate().rev() {
        let name = names.iter().position(|name| *name == line.name).unwrap_or_default();
        let _ = writeln!(
            svg,
            "<g class=\"series s{}\" data-series=\"{number}\" data-name=\"{name}\">",
            name % COLOURS
        );
        whiskers(svg, canvas, line, aside(number, series.len()));
        if line.style != Style::Dots {
            stroke(svg, canvas, line);
        }
        let points: &[Point] = if line.style == Style::Plain { &[] } else { &line.points };
        let radius = if line.points.len() > LARGE_MARKERS_MAX { 1.8 } else { MARKER_RADIUS };
        let shape = marker(name, radius);
        for point in points {
            let (Some(x), Some(y)) = (canvas.x(point.x), canvas.y(point.y)) else { continue };
            let hollow = if line.style == Style::Dashed { " hollow" } else { "" };
            let words = words(chart, line, point);
            let _ = writeln!(
                svg,
                "<path class=\"point{hollow}\" data-series=\"{number}\" data-x=\"{}\" data-y=\"{}\" \
                 aria-label=\"{}\" transform=\"translate({x:.1} {y:.1})\" d=\"{shape}\"/>",
                point.x,
                point.y,
                escaped(&words)
            );
        }
        svg.push_str("</g>\n");
    }
}

/// The line itself. It is broken where a value has no place: what lies there is not known.
fn stroke(svg: &mut String, canvas: &Canvas, line: &Series) {
    let mut path = String::new();
    let mut pen = 'M';
    for point in &line.points {
        if let (Some(x), Some(y)) = (canvas.x(point.x), canvas.y(point.y)) {
            let _ = write!(path, "{pen}{x:.1} {y:.1}");
            pen = 'L';
        } else {
            pen = 'M';
        }
    }
    if path.is_empty() {
        return;
    }
    let dashed = if line.style == Style::Dashed { " dashed" } else { "" };
    let _ = writeln!(svg, "<path class=\"line{dashed}\" d=\"{path}\"/>");
}

/// Offset of the whiskers of a line: those of several lines would hide each other.
fn aside(number: usize, lines: usize) -> f64 {
    let gaps = lines.saturating_sub(1) as f64;
    let apart = WHISKERS_APART.min(WHISKERS_APART_MAX / gaps.max(1.0));
    (number as f64 - gaps / 2.0) * apart
}

fn whiskers(svg: &mut String, canvas: &Canvas, line: &Series, aside: f64) {
    let mut path = String::new();
    for point in &line.points {
        let (Some(x), Some(_), Some((low, high))) = (canvas.x(point.x), canvas.y(point.y), point.interval)
        else {
            continue;
        };
        if low.is_nan() || high.is_nan() {
            continue;
        }
        let x = (x + aside).clamp(canvas.left, canvas.right);
        let [bottom, top] = [low, high].map(|end| canvas.y_end(end).clamp(canvas.top, canvas.bottom));
        let _ = write!(path, "M{x:.1} {bottom:.1}V{top:.1}");
        // An interval that goes on beyond the plot is open there.
        for (_, y) in [(low, bottom), (high, top)].into_iter().filter(|(end, _)| canvas.holds_y(*end)) {
            let _ = write!(path, "M{:.1} {y:.1}H{:.1}", x - WHISKER, x + WHISKER);
        }
    }
    if !path.is_empty() {
        let _ = writeln!(svg, "<path class=\"whisker\" d=\"{path}\"/>");
    }
}

/// Texts of a point, a line each.
fn words(chart: &Chart, line: &Series, point: &Point) -> String {
    let mut words = Vec::new();
    let name = series_name(&line.name, line.style);
    if !name.is_empty() {
        words.push(name);
    }
    let named = |axis: &Axis, value| format!("{}: {}", axis.label, units::quantity(axis.unit, value));
    words.push(named(&chart.x, point.x));
    words.push(named(&chart.y, point.y));
    if let Some((low, high)) = point.interval {
        let [low, high] = [low, high].map(|end| units::bound(chart.y.unit, end));
        words.push(format!("95 % confidence: {low} to {high}"));
    }
    words.extend(point.note.clone());
    words.join("\n")
}

/// The outline of a marker around 0: a shape of its own for each name, for those who do not tell colours apart.
pub(super) fn marker(number: usize, radius: f64) -> String {
    let r = radius;
    let (s, t) = (r * 0.88, r * 1.22);
    // Eight colours and seven shapes: it takes 56 names until a pair comes again.
    match number % 7 {
        0 => format!(
            "M{:.2} 0a{r:.2} {r:.2} 0 1 0 {:.2} 0a{r:.2} {r:.2} 0 1 0 {:.2} 0z",
            -r,
            2.0 * r,
            -2.0 * r
        ),
        1 => format!("M{:.2} {:.2}h{:.2}v{:.2}h{:.2}z", -s, -s, 2.0 * s, 2.0 * s, -2.0 * s),
        2 => format!("M0 {:.2}L{t:.2} {:.2}H{:.2}z", -t, t * 0.8, -t),
        3 => format!("M0 {:.2}L{t:.2} 0L0 {t:.2}L{:.2} 0z", -t, -t),
        4 => format!("M0 {t:.2}L{t:.2} {:.2}H{:.2}z", -t * 0.8, -t),
        5 => {
            let (thick, long) = (r * 0.42, r * 1.2);
            let arm = long - thick;
            format!(
                "M{:.2} {:.2}h{:.2}v{arm:.2}h{arm:.2}v{:.2}h{:.2}v{arm:.2}h{:.2}v{:.2}h{:.2}v{:.2}h{arm:.2}z",
                -thick,
                -long,
                2.0 * thick,
                2.0 * thick,
                -arm,
                -2.0 * thick,
                -arm,
                -arm,
                -2.0 * thick
            )
        }
        _ => {
            let h = r * 0.6;
            format!("M{:.2} 0L{:.2} {:.2}H{h:.2}L{t:.2} 0L{h:.2} {s:.2}H{:.2}z", -t, -h, -s, -h)
        }
    }
}
