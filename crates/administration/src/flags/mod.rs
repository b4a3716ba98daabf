//! Flags of a target and of what it serves, and their help.

pub mod confinement;
pub mod image;
pub mod nsid_list;
pub mod serve;
pub mod subsystem;

pub use command_line::flags::{EngineFlag, OutputFlags, connection, control, log, tls_use};
