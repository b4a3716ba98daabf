//! Steady state of a series of measurements, by the SNIA's Solid State Storage Performance Test
//! Specification: within a window, the values stay near their mean, and their trend is flat.

use serde::{Deserialize, Serialize};

/// Rounds of a window.
pub const WINDOW: usize = 5;
/// Largest less smallest value of the window, as a share of its mean.
const RANGE_MAX: f64 = 0.20;
/// Largest rise or fall of the best-fitting line over the window, as a share of its mean.
const SLOPE_MAX: f64 = 0.10;

/// Variation within a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Unrest {
    /// Largest less smallest, as a share of the mean.
    pub(crate) range: f64,
    /// Rise over the window, as a share of the mean; negative where it falls.
    pub(crate) slope: f64,
}

impl Unrest {
    /// Returns the variation of the values; `None` with fewer than two, or if they are 0.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        if values.len() < 2 || mean <= 0.0 || !mean.is_finite() {
            return None;
        }
        let (least, most) = values
            .iter()
            .fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(*value), most.max(*value)));
        let middle = (count - 1.0) / 2.0;
        let (mut rise, mut run) = (0.0, 0.0);
        for (at, value) in values.iter().enumerate() {
            let x = at as f64 - middle;
            rise += x * (value - mean);
            run += x * x;
        }
        Some(Self { range: (most - least) / mean, slope: rise / run * (count - 1.0) / mean })
    }

    /// True if the variation is within the limits.
    pub(crate) fn is_steady(&self) -> bool {
        self.range <= RANGE_MAX && self.slope.abs() <= SLOPE_MAX
    }
}

/// True if the last rounds are steady.
pub fn is_steady(rounds: &[f64]) -> bool {
    let window = rounds.len().checked_sub(WINDOW).map(|from| &rounds[from..]);
    window.and_then(Unrest::of).is_some_and(|unrest| unrest.is_steady())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_rests_when_it_neither_jumps_nor_climbs() {
        assert!(is_steady(&[100.0; 5]));
        assert!(is_steady(&[1.0, 100.0, 102.0, 99.0, 101.0, 100.0]));
        // Within the range, but climbing.
        assert!(!is_steady(&[100.0, 104.0, 108.0, 112.0, 116.0]));
        // Flat, but jumping.
        assert!(!is_steady(&[100.0, 125.0, 100.0, 125.0, 100.0]));
        assert!(!is_steady(&[100.0; 4]));
        assert!(!is_steady(&[0.0; 5]));
    }

    #[test]
    fn unrest_is_a_share_of_the_mean() {
        let unrest = Unrest::of(&[90.0, 95.0, 100.0, 105.0, 110.0]).unwrap();
        assert!((unrest.range - 0.2).abs() < 1e-9 && (unrest.slope - 0.2).abs() < 1e-9, "{unrest:?}");
        let falling = Unrest::of(&[110.0, 90.0]).unwrap();
        assert!((falling.slope + 0.2).abs() < 1e-9);
        assert_eq!(Unrest::of(&[1.0]), None);
        assert_eq!(Unrest::of(&[f64::NAN, 1.0]), None);
    }
}
