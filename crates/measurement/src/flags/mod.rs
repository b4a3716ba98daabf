//! Flags of measurements, and their help.

pub mod bench;
pub mod fio_names;
pub mod fio_options;
pub mod sweep;

pub use command_line::flags::{EngineFlag, OutputFlags, OutputFormat, connection, control, number_error};
