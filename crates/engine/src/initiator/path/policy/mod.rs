//! Policies that choose the path of a command, each in its own file, and what they know of a path.
//! They do no I/O.

mod candidate;
mod chooser;
mod estimate;
mod latency;
#[cfg(any(test, feature = "simulation"))]
mod latency_ewma;
mod numa;
mod queue_depth;
mod round_robin;

pub(crate) use candidate::{Access, Candidate};
pub(crate) use chooser::Chooser;
pub use chooser::{IoPolicy, UnknownPolicy};
pub(crate) use estimate::{Estimate, class_of};
#[cfg(any(test, feature = "simulation"))]
pub use latency_ewma::EwmaKnobs;
