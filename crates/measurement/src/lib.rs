//! Measurements: workloads on namespaces, sweeps of them, formats of fio, live views, and reports.
//! The crate knows no control API; requests to targets are the program's.

#![allow(missing_docs, reason = "the program alone uses it; names say enough")]

// Modules of the crates below, under their own names.
use command_line::{failure, spec};
use examination::target_rates;

pub mod bench;
pub mod consent;
pub mod fio;
pub mod flags;
pub mod report;
pub mod setting;
pub mod sweep;
pub mod top;
pub mod workload;
