//! Data and rules of `doctor`: a machine's initiators, targets and network as plain data, rules
//! that each name one cause, and the report of their findings. It changes nothing, and puts no load
//! on the target unless --measure is given.

mod case;
mod counters;
#[cfg(test)]
mod faults_tests;
pub(crate) mod host;
mod host_reader;
mod kernel_controllers;
pub(crate) mod measurement;
pub(crate) mod page;
mod path;
mod report;
mod rule;
mod rules;
#[cfg(test)]
mod sample;
mod target_reader;

pub(crate) use case::Case;
pub(crate) use host_reader::{Wanted, after, before};
pub(crate) use report::Former;
pub use report::Report;
pub(crate) use target_reader::{Named, look};
