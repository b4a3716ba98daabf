//! The policy `round-robin`: each usable path in turn, as Linux has it. It does not look at how they fare.

use super::candidate::{Candidate, usable};

/// The next optimized path after `last`; others in turn where there is no optimized one.
pub(super) fn choose(paths: &[Candidate], last: usize) -> Option<usize> {
    let candidates = usable(paths);
    candidates.clone().find(|(at, _)| *at > last).or_else(|| candidates.clone().next()).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::super::candidate::Access;
    use super::*;

    #[test]
    fn usable_paths_take_turns() {
        let path = |access| Candidate { access, ..Candidate::default() };
        let (good, other, none) = (path(Access::Optimized), path(Access::NonOptimized), path(Access::None));
        let paths = [good, other, none, good];
        assert_eq!(choose(&paths, 0), Some(3));
        assert_eq!(choose(&paths, 3), Some(0));
        assert_eq!(choose(&[other, none, other], 0), Some(2));
        assert_eq!(choose(&[other, none, other], 2), Some(0));
        assert_eq!(choose(&[good], 0), Some(0), "the only one is its own successor");
        assert_eq!(choose(&[none], 0), None);
    }
}
