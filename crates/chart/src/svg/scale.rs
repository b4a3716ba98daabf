//! Where a number lies on an axis, and which range an axis shows. It keeps out marks on it, and pixels.

use crate::chart::{Axis, Scale, Unit};

/// Larger numbers would overflow on the way to their place, and measure nothing.
const VALUE_MAX: f64 = 1e300;
/// Smaller numbers are 0, or have no place on a logarithmic scale.
const VALUE_MIN: f64 = 1e-12;
/// Steps to which a linear range is rounded.
const STEPS: f64 = 5.0;

/// The part of an axis that a picture shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    pub(super) scale: Scale,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// True if a value has a place on a scale.
pub(super) fn is_on_scale(scale: Scale, value: f64) -> bool {
    value.is_finite() && value.abs() <= VALUE_MAX && (scale == Scale::Linear || value >= VALUE_MIN)
}

impl Range {
    /// A range that begins and ends at round numbers and holds all of `values` that have a place.
    pub(super) fn around(axis: &Axis, values: impl Iterator<Item = f64>) -> Range {
        let (scale, extent) = (axis.scale, extent(axis.scale, values));
        let (low, high) = match scale {
            Scale::Linear => linear(axis.unit, extent),
            Scale::Log2 => {
                let (low, high) = extent.unwrap_or((1.0, 2.0));
                let (low, high) = (low.log2().floor().exp2(), high.log2().ceil().exp2());
                if low < high { (low, high) } else { (low / 2.0, high * 2.0) }
            }
            Scale::Log10 => {
                let (low, high) = extent.unwrap_or((1.0, 10.0));
                let (low, high) = (at_most(low), at_least(high));
                if low < high { (low, high) } else { (at_most(low * 0.9), at_least(high * 1.1)) }
            }
        };
        Range { scale, low, high }
    }

    /// The range from the least to the greatest of `values`; one that is round where they are all the same.
    pub(super) fn exactly(axis: &Axis, values: &[f64]) -> Range {
        match extent(axis.scale, values.iter().copied()) {
            Some((low, high)) if low < high && (high - low) > VALUE_MIN => {
                Range { scale: axis.scale, low, high }
            }
            _ => Range::around(axis, values.iter().copied()),
        }
    }

    /// True if a value lies within the range.
    pub(super) fn holds(&self, value: f64) -> bool {
        is_on_scale(self.scale, value) && (self.low..=self.high).contains(&value)
    }

    /// Position of a value: 0 at the low end, 1 at the high one. A value without a place is at the
    /// low end.
    pub(super) fn fraction(&self, value: f64) -> f64 {
        let fraction = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log2 | Scale::Log10 => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        if fraction.is_finite() { fraction.clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// The least and the greatest value that have a place.
fn extent(scale: Scale, values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| is_on_scale(scale, *value)).fold(None, |extent, value| match extent {
        None => Some((value, value)),
        Some((low, high)) => Some((low.min(value), high.max(value))),
    })
}

fn linear(unit: Unit, extent: Option<(f64, f64)>) -> (f64, f64) {
    let (low, high) = extent.unwrap_or((0.0, 0.0));
    let (low, high) = (low.min(0.0), high.max(0.0));
    if high - low < VALUE_MIN {
        return (0.0, 1.0);
    }
    let step = round_step(unit, (high - low) / STEPS);
    ((low / step).floor() * step, (high / step).ceil() * step)
}

/// The step of 1, 2 or 5 times a power of ten (of a power of two for bytes) that is not below `least`.
pub(super) fn round_step(unit: Unit, least: f64) -> f64 {
    match unit {
        Unit::Bytes => least.max(1.0).log2().ceil().exp2(),
        // There is no half of a queue.
        Unit::Count => at_least(least.max(1.0)),
        _ => at_least(least),
    }
}

/// The least of 1, 2 and 5 times a power of ten that is not below `value`, which is positive.
fn at_least(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    // What a division has made a little larger than a round number is that number.
    let steps = [1.0, 2.0, 5.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= value * (1.0 - 1e-9)).unwrap_or(power * 10.0)
}

/// The greatest of 1, 2 and 5 times a power of ten that is not above `value`, which is positive.
fn at_most(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let steps = [5.0, 2.0, 1.0].map(|step| step * power);
    steps.into_iter().find(|step| *step <= value * (1.0 + 1e-9)).unwrap_or(power / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(unit: Unit, scale: Scale) -> Axis {
        Axis { label: String::new(), unit, scale }
    }

    fn around(unit: Unit, scale: Scale, values: &[f64]) -> (f64, f64) {
        let range = Range::around(&axis(unit, scale), values.iter().copied());
        (range.low, range.high)
    }

    #[test]
    fn ranges_are_round() {
        assert_eq!(around(Unit::Iops, Scale::Linear, &[81_000.0, 412_000.0]), (0.0, 500_000.0));
        assert_eq!(around(Unit::Count, Scale::Linear, &[1.0, 3.0]), (0.0, 3.0));
        assert_eq!(around(Unit::Percent, Scale::Linear, &[-3.0, 3.0]), (-4.0, 4.0));
        assert_eq!(around(Unit::Count, Scale::Log2, &[1.0, 24.0]), (1.0, 32.0));
        assert_eq!(around(Unit::Count, Scale::Log2, &[4.0]), (2.0, 8.0));
        assert_eq!(around(Unit::Nanoseconds, Scale::Log10, &[31_000.0, 1.4e6]), (20_000.0, 2e6));
    }

    #[test]
    fn nothing_and_nonsense_have_a_range() {
        for scale in [Scale::Linear, Scale::Log2, Scale::Log10] {
            for values in
                [&[][..], &[0.0], &[f64::NAN, f64::INFINITY], &[-1.0], &[1e-320], &[1e308], &[7.0, 7.0]]
            {
                let (low, high) = around(Unit::Count, scale, values);
                assert!(
                    low < high && low.is_finite() && high.is_finite(),
                    "{scale:?} {values:?}: {low} {high}"
                );
            }
        }
    }

    #[test]
    fn a_part_is_between_0_and_1() {
        let range = Range::around(&axis(Unit::Count, Scale::Log2), [1.0, 16.0].into_iter());
        assert_eq!(range.fraction(4.0), 0.5);
        assert_eq!(range.fraction(0.0), 0.0);
        assert_eq!(range.fraction(f64::NAN), 0.0);
        assert_eq!(range.fraction(1e9), 1.0);
    }
}
