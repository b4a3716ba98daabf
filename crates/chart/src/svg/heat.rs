//! Heat maps: a rectangle for each cell with commands, darker the more there are. It keeps out axes.

use std::fmt::Write;

use super::paint::Canvas;
use crate::chart::{Axis, Chart, Heat};
use crate::markup::escaped;
use crate::units;

/// Number of colours, as in `chart.css`.
pub(super) const STEPS: usize = 8;

/// Draws the cells that count anything. Cells without borders, and beyond the axes, are left out.
pub(super) fn draw(svg: &mut String, canvas: &Canvas, chart: &Chart, heat: &Heat) {
    let most = most(heat);
    svg.push_str("<g class=\"heat\">\n");
    for (column, (counts, x)) in heat.counts.iter().zip(heat.x_edges.windows(2)).enumerate() {
        let Some((x_from, x_to)) = side(x, |value| canvas.x_end(value)) else { continue };
        for (row, (count, y)) in counts.iter().zip(heat.y_edges.windows(2)).enumerate() {
            if *count == 0 {
                continue;
            }
            let Some((y_from, y_to)) = side(y, |value| canvas.y_end(value)) else { continue };
            let words = words(chart, x, y, *count);
            let _ = writeln!(
                svg,
                "<rect class=\"cell h{}\" data-column=\"{column}\" data-row=\"{row}\" data-count=\"{count}\" \
                 aria-label=\"{}\" x=\"{x_from:.1}\" y=\"{y_to:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                step(*count, most),
                escaped(&words),
                // Half a pixel hides the seam to the next cell.
                (x_to - x_from + 0.5).max(0.5),
                (y_from - y_to + 0.5).max(0.5)
            );
        }
    }
    svg.push_str("</g>\n");
}

fn side(edges: &[f64], position: impl Fn(f64) -> f64) -> Option<(f64, f64)> {
    let &[from, to] = edges else { return None };
    if from.is_nan() || to.is_nan() {
        return None;
    }
    Some((position(from), position(to)))
}

/// The greatest count.
pub(super) fn most(heat: &Heat) -> u64 {
    heat.counts.iter().flatten().copied().max().unwrap_or(0)
}

/// Index of a count's colour. The scale is logarithmic, since a heat map is to show a few slow
/// commands among millions.
fn step(count: u64, most: u64) -> usize {
    if most <= 1 {
        return STEPS - 1;
    }
    let part = (count.max(1) as f64).ln() / (most as f64).ln();
    ((part * STEPS as f64) as usize).min(STEPS - 1)
}

/// Texts of a cell, a line each.
fn words(chart: &Chart, x: &[f64], y: &[f64], count: u64) -> String {
    let span = |axis: &Axis, edges: &[f64]| {
        let ends: Vec<String> = edges.iter().map(|edge| units::quantity(axis.unit, *edge)).collect();
        format!("{}: {}", axis.label, ends.join(" to "))
    };
    format!("{}\n{}\n{}", units::plural(count, "command"), span(&chart.x, x), span(&chart.y, y))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_follow_factors() {
        assert_eq!(step(1, 100_000_000), 0);
        assert_eq!(step(10_000, 100_000_000), 4);
        assert_eq!(step(100_000_000, 100_000_000), STEPS - 1);
        assert_eq!(step(1, 1), STEPS - 1);
        assert_eq!(step(u64::MAX, u64::MAX), STEPS - 1);
    }
}
