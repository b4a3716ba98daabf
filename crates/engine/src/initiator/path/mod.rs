//! Paths: several controllers of one subsystem as ways to one namespace. They are connected and kept (`keeper`), commands
//! choose among them by a policy, and a command whose path is lost goes another way as soon as this can do no harm
//! (`quiesce`). What a command means is not known here.
//!
//! - [`Paths`] keeps the controllers, on threads of its own that sleep while nothing happens.
//! - [`PathQueues`] is one thread's queues on all paths: nothing is allocated, locked or shared per command.

mod candidate;
mod estimate;
mod join;
mod keeper;
mod lane;
mod latency;
mod numa;
mod options;
mod policy;
mod queue_depth;
mod queues;
mod quiesce;
mod retry;
mod round_robin;
mod sample;
mod set;
mod state;
mod turn;

pub use lane::ConnectionReport;
pub use options::PathOptions;
pub use policy::IoPolicy;
pub use queues::{LaneReport, PathQueues};
pub use set::{PathStatus, Paths};
pub use state::PathState;
