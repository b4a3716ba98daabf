//! The marks of an axis: at which numbers, and how these are written. It keeps out where they are drawn.

use super::scale::{Range, round_step};
use super::text;
use crate::chart::{Axis, Scale, Unit};
use crate::units;

/// Mark of an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) label: String,
}

/// Along which way labels need room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Side by side.
    Across,
    /// On top of each other.
    Up,
}

/// Room between two labels.
const GAP_ACROSS: f64 = 10.0;
const GAP_UP: f64 = 9.0;
/// More marks do not help on a picture of this size.
const TICKS_MAX: usize = 9;

/// The densest marks whose labels have room on `length` pixels.
pub(super) fn ticks(axis: &Axis, range: &Range, length: f64, direction: Direction) -> Vec<Tick> {
    let values = |choice| values(axis.unit, range, choice);
    let labelled = |choice| values(choice).into_iter().map(|value| tick(axis, range, value)).collect();
    let choices: Vec<Vec<Tick>> = (0..CHOICES).map(labelled).collect();
    let fits = |ticks: &&Vec<Tick>| ticks.len() >= 2 && have_room(ticks, range, length, direction);
    let densest = choices.iter().find(fits).cloned();
    // Where no two have room, one number still says of what size things are.
    densest
        .unwrap_or_else(|| choices.into_iter().next_back().unwrap_or_default().into_iter().take(1).collect())
}

/// Number of ways to choose marks, from dense to sparse.
const CHOICES: u32 = 12;

fn values(unit: Unit, range: &Range, choice: u32) -> Vec<f64> {
    let found = match range.scale {
        Scale::Linear => Vec::new(),
        Scale::Log2 => powers(range, 2.0, choice + 1, &[1.0]),
        Scale::Log10 if choice == 0 => powers(range, 10.0, 1, &[1.0, 2.0, 5.0]),
        Scale::Log10 => powers(range, 10.0, choice, &[1.0]),
    };
    // A short piece of a logarithmic axis may hold no power at all.
    if found.len() >= 2 { found } else { multiples(unit, range, 5.0 - f64::from(choice.min(4))) }
}

/// The multiples of a round step in the range.
fn multiples(unit: Unit, range: &Range, steps: f64) -> Vec<f64> {
    let step = round_step(unit, (range.high - range.low) / steps);
    let slack = 1e-9;
    let first = (range.low / step - slack).ceil();
    let last = (range.high / step + slack).floor();
    // Both are small whole numbers unless the range lies far from 0, where steps are lost to rounding.
    if !(first.is_finite() && last.is_finite()) || last - first > 100.0 {
        return Vec::new();
    }
    let mut values = Vec::new();
    let mut count = first;
    while count <= last && values.len() <= TICKS_MAX {
        values.push(count * step);
        count += 1.0;
    }
    values
}

/// Each `stride`-th power of `base` in the range, times each of `factors`.
fn powers(range: &Range, base: f64, stride: u32, factors: &[f64]) -> Vec<f64> {
    let exponent = |value: f64| value.ln() / base.ln();
    let first = exponent(range.low).floor() as i32 - 1;
    let last = exponent(range.high).ceil() as i32 + 1;
    let inside = |value: &f64| *value >= range.low * (1.0 - 1e-9) && *value <= range.high * (1.0 + 1e-9);
    let stride = i32::try_from(stride).unwrap_or(1).max(1);
    let chosen = (first..=last).filter(|exponent| exponent.rem_euclid(stride) == 0);
    let all = chosen.flat_map(|exponent| factors.iter().map(move |factor| factor * base.powi(exponent)));
    all.filter(inside).collect()
}

fn tick(axis: &Axis, range: &Range, value: f64) -> Tick {
    let reference = match range.scale {
        // All marks of a linear axis are in one unit, or steps between them would be hard to see.
        Scale::Linear => range.high.abs().max(range.low.abs()),
        Scale::Log2 | Scale::Log10 => value,
    };
    Tick { value, label: units::tick(axis.unit, value, reference) }
}

fn have_room(ticks: &[Tick], range: &Range, length: f64, direction: Direction) -> bool {
    if ticks.len() > TICKS_MAX {
        return false;
    }
    let room = |tick: &Tick| match direction {
        Direction::Across => text::width(&tick.label, text::TICK_SIZE) + GAP_ACROSS,
        Direction::Up => text::TICK_SIZE + GAP_UP,
    };
    ticks.windows(2).all(|pair| {
        let apart = (range.fraction(pair[1].value) - range.fraction(pair[0].value)) * length;
        apart >= f64::midpoint(room(&pair[0]), room(&pair[1]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(unit: Unit, scale: Scale, values: &[f64], length: f64) -> String {
        let axis = Axis { label: String::new(), unit, scale };
        let range = Range::around(&axis, values.iter().copied());
        let ticks = ticks(&axis, &range, length, Direction::Across);
        ticks.into_iter().map(|tick| tick.label).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn marks_are_round() {
        assert_eq!(
            labels(Unit::Iops, Scale::Linear, &[412e3], 400.0),
            "0, 100 k, 200 k, 300 k, 400 k, 500 k"
        );
        assert_eq!(labels(Unit::Count, Scale::Log2, &[1.0, 64.0], 400.0), "1, 2, 4, 8, 16, 32, 64");
        assert_eq!(
            labels(Unit::Nanoseconds, Scale::Log10, &[52e3, 1.9e6], 400.0),
            "50 µs, 100 µs, 200 µs, 500 µs, 1 ms, 2 ms"
        );
        assert_eq!(labels(Unit::Nanoseconds, Scale::Linear, &[1.5e6], 400.0), "0, 0.5 ms, 1 ms, 1.5 ms");
    }

    #[test]
    fn marks_become_fewer_where_there_is_no_room() {
        assert_eq!(labels(Unit::Count, Scale::Log2, &[1.0, 1024.0], 130.0), "1, 8, 64, 512");
        assert_eq!(labels(Unit::Nanoseconds, Scale::Log10, &[1e3, 1e10], 300.0), "10 µs, 1 ms, 100 ms, 10 s");
    }
}
