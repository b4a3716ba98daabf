//! The one source of chance in a simulation: a small generator whose numbers follow from the seed.

/// A generator of random numbers (SplitMix64): fast, the same everywhere, good for nothing secret.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator that `seed` makes.
    pub const fn new(seed: u64) -> Self {
        Self(seed ^ 0x5e1f_ed9e_5e1f_ed9e)
    }

    /// The next 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    ///
    /// # Panics
    /// When `end` is 0.
    pub const fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "there is no number below 0");
        ((self.next() as u128 * end as u128) >> 64) as u64
    }

    /// A number from `from` to `to`, both included.
    ///
    /// # Panics
    /// When `to` is less than `from`.
    pub const fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// True for this many of a thousand.
    pub const fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// Picks one of these.
    ///
    /// # Panics
    /// When there are none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// A generator that goes its own way from here.
    #[must_use]
    pub const fn fork(&mut self) -> Self {
        Self::new(self.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_within_their_bounds() {
        let (mut one, mut other) = (Random::new(7), Random::new(7));
        for _ in 0..1000 {
            assert_eq!(one.next(), other.next());
            assert!(one.below(10) < 10 && (3..=5).contains(&one.between(3, 5)));
            other = one.clone();
        }
        assert_ne!(Random::new(1).next(), Random::new(2).next());
    }
}
