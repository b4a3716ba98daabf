//! The order in which a job visits its slots: one after the other, or at random with each slot once in every
//! pass, as fio's random map has it, but without the map. It knows nothing of time or I/O.

/// A small generator of pseudo-random numbers (splitmix64): enough for workloads, and the same on every machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Fills `bytes` with numbers.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// Spreads every bit of `value` over all bits.
pub(crate) const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Visits the slots `0..slots`, pass after pass.
#[derive(Clone, Debug)]
pub(crate) struct SlotSequence {
    slots: u64,
    counter: u64,
    shuffle: Option<Shuffle>,
}

impl SlotSequence {
    /// A sequence over `slots` slots, of which there must be some.
    pub(crate) fn new(slots: u64, random: bool, seed: u64) -> Self {
        assert!(slots > 0, "a sequence needs slots");
        let shuffle = random.then(|| Shuffle::new(slots, Random::new(seed)));
        Self { slots, counter: 0, shuffle }
    }

    /// The next slot.
    pub(crate) fn next(&mut self) -> u64 {
        let Some(shuffle) = &mut self.shuffle else {
            let slot = self.counter;
            self.counter = if slot + 1 == self.slots { 0 } else { slot + 1 };
            return slot;
        };
        loop {
            let slot = shuffle.permute(self.counter);
            self.counter += 1;
            if self.counter > shuffle.mask {
                self.counter = 0;
                shuffle.again();
            }
            // The permutation is over a power of two, less than twice as large as the range.
            if slot < self.slots {
                return slot;
            }
        }
    }
}

/// A permutation of the numbers up to a power of two, made of steps that can each be undone.
#[derive(Clone, Debug)]
struct Shuffle {
    mask: u64,
    shift: u32,
    keys: [u64; 3],
    random: Random,
}

impl Shuffle {
    fn new(slots: u64, random: Random) -> Self {
        let bits = u64::BITS - (slots - 1).leading_zeros();
        let mask = if bits == u64::BITS { u64::MAX } else { (1 << bits) - 1 };
        let mut shuffle = Self { mask, shift: (bits / 2).max(1), keys: [0; 3], random };
        shuffle.again();
        shuffle
    }

    /// Another order for the next pass.
    fn again(&mut self) {
        self.keys = [self.random.next(), self.random.next(), self.random.next()];
    }

    fn permute(&self, number: u64) -> u64 {
        let mut number = number;
        for key in self.keys {
            // Adding, multiplying by an odd number and folding the upper half down are all one-to-one.
            number = number.wrapping_add(key >> 1).wrapping_mul(key | 1) & self.mask;
            number ^= number >> self.shift;
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pass_visits_every_slot_once() {
        for slots in [1, 2, 3, 7, 64, 100, 1000, 4097] {
            for random in [false, true] {
                let mut sequence = SlotSequence::new(slots, random, 42 + slots);
                for pass in 0..4 {
                    let mut seen = vec![false; slots as usize];
                    for _ in 0..slots {
                        let slot = sequence.next() as usize;
                        assert!(!seen[slot], "{slots} slots, pass {pass}: {slot} came twice");
                        seen[slot] = true;
                    }
                }
            }
        }
    }

    #[test]
    fn random_orders_differ_by_seed_and_pass_and_repeat_with_the_seed() {
        let take = |sequence: &mut SlotSequence| (0..1000).map(|_| sequence.next()).collect::<Vec<_>>();
        let (mut one, mut same, mut other) = (
            SlotSequence::new(1000, true, 1),
            SlotSequence::new(1000, true, 1),
            SlotSequence::new(1000, true, 2),
        );
        let first = take(&mut one);
        assert_eq!(first, take(&mut same));
        assert_ne!(first, take(&mut other));
        assert_ne!(first, take(&mut one));
    }

    #[test]
    fn random_neighbours_are_far_apart() {
        let mut sequence = SlotSequence::new(1 << 20, true, 7);
        let mut last = sequence.next();
        let mut near = 0;
        for _ in 0..10_000 {
            let slot = sequence.next();
            near += u32::from(slot.abs_diff(last) < 1 << 10);
            last = slot;
        }
        assert!(near < 100, "{near} of 10,000 steps were short");
    }
}
