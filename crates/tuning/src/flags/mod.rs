//! Flags of `tune` and `doctor`, and their help.

pub mod doctor;
pub mod tune;

pub(crate) use command_line::flags::{OutputFlags, OutputFormat, control, interval};
