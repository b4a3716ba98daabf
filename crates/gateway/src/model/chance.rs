//! The chances of a made-up world of gateways, which follow from its seed. What they are about is the world's.

/// The chances of a world: SplitMix64.
#[derive(Debug)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// Milliseconds, mostly few and sometimes many.
    pub(super) fn delay_ms(&mut self) -> u64 {
        match self.below(50) {
            0 => self.below(3_000),
            1..=5 => self.below(300),
            _ => 1 + self.below(20),
        }
    }
}
