//! Progress of a run's workers, as they report it once a second. The module formats nothing.

use std::time::Duration;

use engine::initiator::{PathShare, PathStatus};

use super::histogram::Tally;

/// Phase of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Connects its queues.
    #[default]
    Connecting,
    /// Runs without measuring.
    Ramp,
    Measuring,
    /// Reads back; the number of blocks so far.
    ReadingBack(u64),
}

/// Reports of all workers, and the paths' states at that time.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Time since the run was begun.
    pub at: Duration,
    pub(crate) phase: Phase,
    /// Time that is measured.
    pub measured: Duration,
    /// Commands that each worker has counted, and its share of each path.
    pub(crate) totals: Vec<Tally>,
    pub(crate) shares: Vec<Vec<PathShare>>,
    pub paths: Vec<PathStatus>,
}

impl Sample {
    /// Each path with what all workers say of it.
    pub(crate) fn by_path(&self) -> Vec<(PathStatus, Vec<PathShare>)> {
        by_path(&self.paths, &self.shares.iter())
    }
}

/// Each path with what all workers say of it.
pub(super) fn by_path<'a>(
    paths: &[PathStatus],
    workers: &(impl Iterator<Item = &'a Vec<PathShare>> + Clone),
) -> Vec<(PathStatus, Vec<PathShare>)> {
    let shares = |at: usize| workers.clone().filter_map(|shares| shares.get(at).cloned()).collect();
    paths.iter().enumerate().map(|(at, status)| (status.clone(), shares(at))).collect()
}
