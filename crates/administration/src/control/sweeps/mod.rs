//! Sweeps that `selvedge sweep --publish` measures at this target, as far as they tell: who measures is asked for nothing, and
//! nothing that is served depends on them. They are kept in memory alone.

mod requests;
mod sweep_board;
mod sweep_body;
#[cfg(test)]
mod tests;

pub(super) use requests::{SweepTitle, Sweeps, list, publish, show};
pub(super) use sweep_board::{PublishedSweep, SweepBoard};
pub use sweep_body::{Along, Interval, SweepBody, SweepPoint, SweepState};
