//! Threads. In a simulation they take turns on one thread of the machine and sleep in its virtual time.

#[cfg(feature = "simulation")]
pub(crate) use crate::simulation::thread::{Builder, JoinHandle, sleep};
#[cfg(not(feature = "simulation"))]
pub(crate) use std::thread::{Builder, JoinHandle, sleep};
