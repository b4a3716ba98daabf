//! The policy `queue-depth`: the path with the least to do, as Linux has it. It counts commands, not bytes.

use super::candidate::{Candidate, usable};

/// The optimized path with the fewest commands in flight, else the other one with the fewest; the first of several.
pub(super) fn choose(paths: &[Candidate]) -> Option<usize> {
    usable(paths).min_by_key(|(_, path)| path.in_flight).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::super::candidate::Access;
    use super::*;

    #[test]
    fn the_least_loaded_path_is_taken() {
        let path = |access, in_flight| Candidate { access, in_flight, ..Candidate::default() };
        let busy = path(Access::Optimized, 9);
        assert_eq!(choose(&[path(Access::NonOptimized, 0), busy]), Some(1));
        assert_eq!(choose(&[busy, path(Access::Optimized, 8)]), Some(1));
        assert_eq!(choose(&[busy, busy]), Some(0), "ties go to the first");
        assert_eq!(choose(&[path(Access::NonOptimized, 2), path(Access::NonOptimized, 1)]), Some(1));
        assert_eq!(choose(&[path(Access::None, 0)]), None);
    }
}
