//! The order in which things are measured. It keeps out what they are.

use crate::emulator::link::Dice;

/// The order of what is compared: random, so that nothing always runs right after the same other thing.
pub(crate) struct Order(Dice);

impl Order {
    /// The orders that follow from this seed.
    pub(crate) fn new(seed: u64) -> Order {
        Order(Dice::new(seed))
    }

    /// All of them in the next order.
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
        let mut order = Order::new(5);
        let (first, second) = (order.of(&all), order.of(&all));
        assert_eq!(Order::new(5).of(&all), first);
        assert_ne!(first, second);
        for mut shuffled in [first, second] {
            shuffled.sort_unstable();
            assert_eq!(shuffled, all);
        }
    }
}
