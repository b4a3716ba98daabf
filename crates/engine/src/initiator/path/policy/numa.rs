//! The policy `numa`: always the nearest path, as Linux has it by default. It spreads nothing.

use super::candidate::{Candidate, usable};

/// The nearest optimized path, else the nearest other one; the first of several.
pub(super) fn choose(paths: &[Candidate]) -> Option<usize> {
    usable(paths).min_by_key(|(_, path)| path.distance).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::super::candidate::Access;
    use super::*;

    fn path(access: Access, distance: u32) -> Candidate {
        Candidate { access, distance, ..Candidate::default() }
    }

    #[test]
    fn the_nearest_optimized_path_is_taken() {
        let (near, far) = (path(Access::NonOptimized, 10), path(Access::Optimized, 20));
        assert_eq!(choose(&[near, far, far]), Some(1));
        assert_eq!(choose(&[far, path(Access::Optimized, 10)]), Some(1));
        assert_eq!(choose(&[path(Access::None, 0), near]), Some(1));
        assert_eq!(choose(&[path(Access::None, 0)]), None);
        assert_eq!(choose(&[]), None);
    }
}
