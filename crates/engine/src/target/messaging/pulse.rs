//! Liveness check of reactors: each is asked, and a reactor that hangs does not answer. The
//! conclusion is left to the watchdog.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A question to all reactors, and how many have answered.
#[derive(Clone, Debug)]
pub struct Pulse {
    heard: Arc<AtomicUsize>,
    reactors: usize,
}

impl Pulse {
    /// Creates a check that `reactors` reactors are to answer.
    pub(crate) fn of(reactors: usize) -> Self {
        Self { heard: Arc::default(), reactors }
    }

    /// A reactor answers.
    pub(crate) fn beat(&self) {
        self.heard.fetch_add(1, Ordering::AcqRel);
    }

    /// Number of reactors that have not answered yet.
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
