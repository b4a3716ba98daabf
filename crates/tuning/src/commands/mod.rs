//! Commands that examine this machine and tune it.

pub mod doctor;
pub mod tune;
