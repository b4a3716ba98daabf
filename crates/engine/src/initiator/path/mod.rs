//! Paths: several controllers of one subsystem as ways to one namespace. They are connected and monitored (`monitor`), commands
//! choose among them by a policy, and a command whose path is lost goes another way as soon as this can do no harm
//! (`quiesce`). What a command means is not known here.
//!
//! - [`Paths`] keeps the controllers, on threads of its own that sleep while nothing happens.
//! - [`PathQueues`] is one thread's queues on all paths: nothing is allocated, locked or shared per command.

mod command;
mod controller_record;
mod distance;
mod identity;
mod join_lock;
mod kept_controllers;
mod monitor;
mod options;
mod path;
mod path_connections;
mod path_share;
mod paths;
mod policy;
mod queues;
mod quiesce;
mod quiescing;
mod retry;
mod sample;
mod shared;
mod stage;

pub use controller_record::{ControllerRecord, ControllerRecordStore, RecordError};
pub use kept_controllers::{ControllerFiles, Found, FoundContent, KeptControllers};
pub use options::PathOptions;
pub use path::PathState;
pub use path_connections::ConnectionReport;
pub use path_share::PathShare;
pub use paths::{PathStatus, Paths};
#[cfg(any(test, feature = "simulation"))]
pub use policy::EwmaKnobs;
pub use policy::{IoPolicy, UnknownPolicy};
pub use queues::PathQueues;
pub use stage::{Stage, StageLatencies};
