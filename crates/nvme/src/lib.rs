//! Bytes of NVMe and NVMe/TCP: commands, completions, data structures, PDUs and the two state
//! machines that frame them. It does no I/O, reads no clock and knows nothing of files or sockets.
#![no_std]

extern crate alloc;

pub mod authentication;
pub mod command;
pub mod completion;
pub mod cross_reset;
pub mod discovery;
pub mod fabrics;
pub mod features;
pub mod identify;
pub mod io;
pub mod lba_status;
pub mod log_page;
pub mod namespace_management;
pub mod reservation;
pub mod status;
pub mod tcp;
mod wire_value;

pub use command::{SglDescriptor, SubmissionEntry};
pub use completion::CompletionEntry;
pub use status::Status;
