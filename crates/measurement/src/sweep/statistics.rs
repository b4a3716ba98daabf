//! Statistics of repeated measurements: mean, confidence interval, and significance of a
//! difference.

use serde::Serialize;

/// Mean and what is needed to say how sure it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    pub count: usize,
    pub mean: f64,
    /// Of the measurements, not of the mean.
    pub(crate) variance: f64,
}

impl Sample {
    /// Of these measurements.
    pub fn of(values: &[f64]) -> Self {
        let count = values.len();
        if count == 0 {
            return Self::default();
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let variance = if count > 1 { squares / (count - 1) as f64 } else { 0.0 };
        Self { count, mean, variance }
    }

    /// Interval that holds the true mean with 95 % confidence, if the measurements are normally
    /// distributed; `None` with fewer than two.
    pub fn interval(&self) -> Option<(f64, f64)> {
        if self.count < 2 {
            return None;
        }
        let half = student_95(self.count as f64 - 1.0) * (self.variance / self.count as f64).sqrt();
        Some((self.mean - half, self.mean + half))
    }

    /// Half the interval as a share of the mean.
    pub(crate) fn uncertainty(&self) -> Option<f64> {
        let (low, high) = self.interval()?;
        (self.mean != 0.0).then(|| (high - low) / 2.0 / self.mean.abs())
    }
}

/// Comparison of two means.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The second over the first.
    pub ratio: f64,
    /// 95 % confidence; nothing where either was measured once.
    pub interval: Option<(f64, f64)>,
    /// True if the means differ with 95 % confidence (Welch's test); `None` if that is unknown.
    pub(crate) differs: Option<bool>,
}

/// Compares `second` with `first`; nothing where the first is 0.
pub fn compare(first: &Sample, second: &Sample) -> Option<Comparison> {
    if first.mean == 0.0 || first.count == 0 || second.count == 0 {
        return None;
    }
    let ratio = second.mean / first.mean;
    if first.count < 2 || second.count < 2 {
        return Some(Comparison { ratio, interval: None, differs: None });
    }
    let (a, b) = (first.variance / first.count as f64, second.variance / second.count as f64);
    let error = (a + b).sqrt();
    if error == 0.0 {
        let differs = Some(first.mean != second.mean);
        return Some(Comparison { ratio, interval: Some((ratio, ratio)), differs });
    }
    // Welch and Satterthwaite's degrees of freedom.
    let freedom =
        (a + b) * (a + b) / (a * a / (first.count as f64 - 1.0) + b * b / (second.count as f64 - 1.0));
    let student = student_95(freedom);
    // To first order, the relative variances of the two means add up in that of their ratio.
    let relative = (a / (first.mean * first.mean) + b / (second.mean * second.mean)).sqrt();
    // As a factor, since no ratio is below 0, however much both vary.
    let factor = (student * relative).exp();
    let differs = Some((second.mean - first.mean).abs() > student * error);
    let interval = factor.is_finite().then_some((ratio / factor, ratio * factor));
    Some(Comparison { ratio, interval, differs })
}

/// The middle of the values; 0 for none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// Student's t for 95 % on both sides, by degrees of freedom.
fn student_95(freedom: f64) -> f64 {
    const TABLE: [(f64, f64); 17] = [
        (1.0, 12.706),
        (2.0, 4.303),
        (3.0, 3.182),
        (4.0, 2.776),
        (5.0, 2.571),
        (6.0, 2.447),
        (7.0, 2.365),
        (8.0, 2.306),
        (9.0, 2.262),
        (10.0, 2.228),
        (12.0, 2.179),
        (15.0, 2.131),
        (20.0, 2.086),
        (30.0, 2.042),
        (60.0, 2.000),
        (120.0, 1.980),
        (1000.0, 1.962),
    ];
    if freedom <= 1.0 {
        return TABLE[0].1;
    }
    for pair in TABLE.windows(2) {
        let ((low, above), (high, below)) = (pair[0], pair[1]);
        if freedom <= high {
            // It is nearly a straight line over 1 / freedom.
            let share = (1.0 / low - 1.0 / freedom) / (1.0 / low - 1.0 / high);
            return above + (below - above) * share;
        }
    }
    1.960
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_textbook() {
        let sample = Sample::of(&[10.0, 12.0, 14.0]);
        assert_eq!((sample.mean, sample.variance), (12.0, 4.0));
        let (low, high) = sample.interval().unwrap();
        // 12 +- 4.303 * 2 / sqrt(3)
        assert!((low - 7.031).abs() < 0.001 && (high - 16.969).abs() < 0.001, "{low} {high}");
        assert_eq!(Sample::of(&[5.0]).interval(), None);
        assert_eq!(Sample::of(&[]), Sample::default());
    }

    #[test]
    fn students_t_falls_and_meets_its_table() {
        let mut last = f64::MAX;
        for tenth in 10..5000 {
            let value = student_95(f64::from(tenth) / 10.0);
            assert!(value <= last && value >= 1.96, "{tenth}");
            last = value;
        }
        assert!((student_95(11.0) - 2.201).abs() < 0.002);
        assert!((student_95(25.0) - 2.060).abs() < 0.002);
        assert!((student_95(2.5) - 3.6).abs() < 0.15);
    }

    #[test]
    fn what_differs_differs_beyond_its_noise() {
        let of = |values: &[f64]| Sample::of(values);
        let (slow, fast) = (of(&[100.0, 101.0, 99.0]), of(&[120.0, 121.0, 119.0]));
        let comparison = compare(&slow, &fast).unwrap();
        assert!((comparison.ratio - 1.2).abs() < 1e-9 && comparison.differs == Some(true));
        let (low, high) = comparison.interval.unwrap();
        assert!(low > 1.15 && high < 1.25, "{low} {high}");
        let noisy = of(&[90.0, 130.0, 110.0]);
        assert_eq!(compare(&slow, &noisy).unwrap().differs, Some(false));
        assert_eq!(compare(&of(&[1.0]), &fast).unwrap().differs, None);
        assert_eq!(compare(&of(&[0.0, 0.0]), &fast), None);
        assert_eq!(compare(&of(&[2.0, 2.0]), &of(&[2.0, 2.0])).unwrap().differs, Some(false));
    }

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[]), 0.0);
    }
}
