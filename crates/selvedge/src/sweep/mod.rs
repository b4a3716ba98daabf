//! Sweeps: which points there are, in which order they are measured, what is kept of each measurement, and what all of
//! them say together. Measuring itself is the bench's; how reports look is `report`'s.

pub(crate) mod advice;
mod answer;
pub(crate) mod axis;
pub(crate) mod charts;
pub(crate) mod choice;
pub(crate) mod compare;
pub(crate) mod environment;
pub(crate) mod family;
pub(crate) mod from_fio;
pub(crate) mod journal;
pub(crate) mod leading_figures;
pub(crate) mod measurement;
pub(crate) mod plan;
pub(crate) mod point;
pub(crate) mod preset;
pub(crate) mod publication;
#[cfg(test)]
mod publication_tests;
pub(crate) mod report;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod statistics;
pub(crate) mod steady;
pub(crate) mod summary;
pub(crate) mod tables;
