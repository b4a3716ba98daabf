//! Sweeps: which points there are, in which order they are measured, what is kept of each measurement, and what all of
//! them say together. Measuring itself is the bench's; how reports look is `report`'s.

pub mod advice;
mod answer;
pub(crate) mod axis;
pub mod charts;
pub mod choice;
pub mod compare;
pub mod environment;
pub mod family;
pub mod from_fio;
pub mod journal;
pub mod leading_figures;
pub mod measurement;
pub mod plan;
pub mod point;
pub mod preset;
pub mod report;
#[cfg(any(test, feature = "testing"))]
pub mod sample;
pub mod statistics;
pub mod steady;
pub mod summary;
pub mod tables;
