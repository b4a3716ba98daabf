//! What several figures say together. It keeps out what they are of.

use serde::Serialize;

/// The middle one of some figures, or the mean of the two in the middle.
pub(crate) fn median(figures: &[f64]) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The figure that this share of all others does not exceed, between two of them where it falls there.
pub(crate) fn quantile(figures: &[f64], share: f64) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = share * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    Some(below + (above - below) * at.fract())
}

/// The interval that holds the true median with at least 95 % confidence, whatever the figures' distribution: the
/// smallest between two of them. None of fewer than six, which cannot say so much.
pub(crate) fn median_interval(figures: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    // Each figure is above the true median with probability 1/2. The interval from the figure of rank `left` to that of
    // the same rank from the other end misses it when fewer than `left` are on one side.
    let (mut left, mut outside, mut term) = (0, 0.0, 0.5_f64.powi(i32::try_from(count).ok()?));
    while left < count / 2 && 2.0 * (outside + term) <= 0.05 {
        outside += term;
        left += 1;
        term *= (count - left + 1) as f64 / left as f64;
    }
    (left > 0).then(|| (sorted[left - 1], sorted[count - left]))
}

/// The median of some figures, with the interval that holds the true one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Estimate {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Number of figures.
    pub(crate) runs: usize,
}

impl Estimate {
    /// Of fewer than six figures, the interval is from the lowest to the highest: of five, it holds the true median with
    /// 94 % confidence.
    pub(crate) fn of(figures: &[f64]) -> Option<Estimate> {
        let ends = || Some((quantile(figures, 0.0)?, quantile(figures, 1.0)?));
        let (low, high) = median_interval(figures).or_else(ends)?;
        Some(Estimate { median: median(figures)?, low, high, runs: figures.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
    }

    #[test]
    fn quantiles_lie_between_figures() {
        let figures = [4.0, 1.0, 2.0, 3.0, 5.0];
        assert_eq!(
            [0.0, 0.25, 0.5, 0.9, 1.0].map(|share| quantile(&figures, share).unwrap()),
            [1.0, 2.0, 3.0, 4.6, 5.0]
        );
        assert_eq!((quantile(&[], 0.5), quantile(&[7.0], 0.25)), (None, Some(7.0)));
    }

    #[test]
    fn few_figures_have_an_interval_from_end_to_end() {
        let five = Estimate { median: 3.0, low: 1.0, high: 5.0, runs: 5 };
        assert_eq!(Estimate::of(&[5.0, 1.0, 2.0, 4.0, 3.0]), Some(five));
        let nine: Vec<f64> = (1..=9).map(f64::from).collect();
        assert_eq!(Estimate::of(&nine).map(|nine| (nine.low, nine.high)), Some((2.0, 8.0)));
        assert_eq!(Estimate::of(&[]), None);
    }

    #[test]
    fn intervals_are_those_of_the_sign_test() {
        let interval = |count: u32| {
            let figures: Vec<f64> = (1..=count).rev().map(f64::from).collect();
            median_interval(&figures)
        };
        // The ranks of the usual tables.
        assert_eq!((interval(0), interval(5)), (None, None));
        assert_eq!((interval(6), interval(8)), (Some((1.0, 6.0)), Some((1.0, 8.0))));
        assert_eq!((interval(9), interval(12)), (Some((2.0, 8.0)), Some((3.0, 10.0))));
        assert_eq!((interval(20), interval(25)), (Some((6.0, 15.0)), Some((8.0, 18.0))));
    }
}
