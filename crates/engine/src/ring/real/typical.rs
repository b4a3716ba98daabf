//! Typical length of waits: a low quantile, followed in steps that are a share of itself. Not a mean, in which one
//! wait of which milliseconds were stolen would outweigh a hundred.

/// Shortest length that is kept, so that every step moves it.
const NS_MIN: u64 = 1000;
/// Samples on one side after which steps no longer grow.
const RUN_MAX: u32 = 4;
/// Halvings of the length that make the first step up and the first down. A step down is twice a step up: two waits in
/// three are longer then.
const FIRST_RISE: u32 = 6;
const FIRST_FALL: u32 = 5;

/// A length that follows samples: a few of them move it by some percent, and some dozens to wherever they are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Typical {
    /// The length; 0 before the first sample.
    ns: u64,
    /// Samples in a row that were longer, and that were shorter. One of both is 0.
    longer: u32,
    shorter: u32,
}

impl Typical {
    /// The length, without a sample to follow from.
    pub(super) const fn of(ns: u64) -> Self {
        Self { ns, longer: 0, shorter: 0 }
    }

    /// The length in nanoseconds; 0 before the first sample.
    pub(super) const fn ns(&self) -> u64 {
        self.ns
    }

    /// Counts a sample.
    pub(super) fn count(&mut self, sample_ns: u64) {
        let sample_ns = sample_ns.max(NS_MIN);
        if self.ns == 0 {
            self.ns = sample_ns;
        } else if sample_ns > self.ns {
            (self.longer, self.shorter) = ((self.longer + 1).min(RUN_MAX), 0);
            let step_ns = self.ns >> (FIRST_RISE + 1 - self.longer);
            self.ns = self.ns.saturating_add(step_ns).min(sample_ns);
        } else if sample_ns < self.ns {
            (self.longer, self.shorter) = (0, (self.shorter + 1).min(RUN_MAX));
            let step_ns = self.ns >> (FIRST_FALL + 1 - self.shorter);
            self.ns = (self.ns - step_ns).max(sample_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1000;

    #[test]
    fn what_is_stolen_now_and_then_changes_little() {
        let mut typical = Typical::default();
        for at in 0..1000 {
            typical.count(if at % 4 == 3 { 5000 * US } else { 60 * US });
            assert!((60 * US..66 * US).contains(&typical.ns()), "{} ns after {at}", typical.ns());
        }
    }

    #[test]
    fn a_change_is_followed_within_some_dozens_either_way() {
        let mut typical = Typical::of(60 * US);
        for (length_us, samples) in [(5000, 44), (60, 24), (1, 24), (60, 44)] {
            (0..samples).for_each(|_| typical.count(length_us * US));
            assert_eq!(typical.ns(), length_us * US);
        }
    }

    #[test]
    fn two_in_three_are_longer() {
        let mut typical = Typical::of(500 * US);
        let (mut shorter, mut counted) = (0, 0);
        for at in 0..100_000u64 {
            // Lengths from 50 to 150 µs, in an order without a pattern.
            let sample_ns = (50 + at * 7919 % 101) * US;
            if at > 1000 {
                counted += 1;
                shorter += u32::from(sample_ns < typical.ns());
            }
            typical.count(sample_ns);
        }
        let percent = shorter * 100 / counted;
        assert!((20..50).contains(&percent), "{percent} % are shorter");
    }

    #[test]
    fn no_sample_is_too_short_or_too_long() {
        let mut typical = Typical::default();
        for sample_ns in [0, u64::MAX, 0, 0, 0, 0] {
            typical.count(sample_ns);
        }
        assert_eq!(typical.ns(), NS_MIN);
        (0..10_000).for_each(|_| typical.count(u64::MAX / 2));
        assert_eq!(typical.ns(), u64::MAX / 2);
    }
}
