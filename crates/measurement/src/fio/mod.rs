//! Formats of fio: job files are parsed into jobs, JSON into figures. The module runs nothing;
//! `report::fio` prints fio's format.

mod engine;
pub mod job_file;
pub mod job_manual;
pub(crate) mod job_options;
pub mod json;
mod storage;
pub mod typed;
pub mod variables;

/// Output of fio 3.33, with the line of warning before it.
#[cfg(test)]
pub(crate) const PRINTED_BY_FIO: &str = include_str!("fio-3.33.json");
