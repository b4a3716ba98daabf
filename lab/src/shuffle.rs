//! Random order of measurements, by a seed.

use crate::emulator::link::Dice;

/// Random orders of a list: no measurement always follows the same other one.
pub(crate) struct Shuffle(Dice);

impl Shuffle {
    /// Orders that follow from this seed.
    pub(crate) fn new(seed: u64) -> Shuffle {
        Shuffle(Dice::new(seed))
    }

    /// All items in the next order.
    pub(crate) fn of<T: Clone>(&mut self, all: &[T]) -> Vec<T> {
        let mut all = all.to_vec();
        for last in (1..all.len()).rev() {
            all.swap(last, (self.0.fraction() * (last + 1) as f64) as usize);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_decides_only_the_order() {
        let all: Vec<u32> = (0..9).collect();
        let mut shuffle = Shuffle::new(5);
        let (first, second) = (shuffle.of(&all), shuffle.of(&all));
        assert_eq!(Shuffle::new(5).of(&all), first);
        assert_ne!(first, second);
        for mut shuffled in [first, second] {
            shuffled.sort_unstable();
            assert_eq!(shuffled, all);
        }
    }
}
