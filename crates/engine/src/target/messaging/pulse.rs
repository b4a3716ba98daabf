//! Whether all reactors go round: each is asked, and one that hangs does not answer. What follows from that is for a watchdog
//! to say.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A question to all reactors, and how many have answered.
#[derive(Clone, Debug)]
pub struct Pulse {
    heard: Arc<AtomicUsize>,
    reactors: usize,
}

impl Pulse {
    /// One that this number of reactors is to answer.
    pub(crate) fn of(reactors: usize) -> Self {
        Self { heard: Arc::default(), reactors }
    }

    /// A reactor answers.
    pub(crate) fn beat(&self) {
        self.heard.fetch_add(1, Ordering::AcqRel);
    }

    /// How many reactors have not answered yet.
    pub fn missing(&self) -> usize {
        self.reactors.saturating_sub(self.heard.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_hangs_is_missed() {
        let pulse = Pulse::of(2);
        let other = pulse.clone();
        other.beat();
        assert_eq!(pulse.missing(), 1);
        pulse.beat();
        assert_eq!(pulse.missing(), 0);
    }
}
