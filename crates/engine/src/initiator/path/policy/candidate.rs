//! Properties of a path that a policy judges: plain values, nothing that could do I/O. They come
//! from `path_connections`, and a policy draws the conclusions.

/// Use of a path for a namespace, after its ANA state and its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Access {
    /// Not at present.
    #[default]
    None,
    /// Only if there is no optimized path.
    NonOptimized,
    /// Preferred.
    Optimized,
}

/// A path as the policies see it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Candidate {
    /// Permitted use.
    pub(crate) access: Access,
    /// Distance of its network interface from the thread that asks, as the firmware's tables count it; 0 where nothing
    /// is known.
    pub(crate) distance: u32,
    /// Commands it was given and has not completed.
    pub(crate) in_flight: u32,
    /// Set if it can take a command at once.
    pub(crate) has_room: bool,
    /// Time it takes for each command in flight, in nanoseconds, for commands like the one that is asked for; 0 when it
    /// is not known.
    pub(crate) service_ns: u64,
    /// Time for which it has owed answers and given none, in nanoseconds.
    pub(crate) silent_ns: u64,
    /// Time since it was last given a command, in nanoseconds.
    pub(crate) idle_ns: u64,
}

/// The positions of the paths that may be used: the optimized ones, or the others where there are none.
pub(super) fn usable(paths: &[Candidate]) -> impl Iterator<Item = (usize, &Candidate)> + Clone {
    let best = if paths.iter().any(|path| path.access == Access::Optimized) {
        Access::Optimized
    } else {
        Access::NonOptimized
    };
    paths.iter().enumerate().filter(move |(_, path)| path.access == best)
}
