//! Limits of the library with their reasons. Those of commands and buffers are the engine's.

use engine::limits::{QUEUE_ENTRIES_MAX, REQUEST_COMMANDS_MAX};

/// Requests outstanding in a queue: as many as commands fit into eight NVMe queues of the largest size.
pub(crate) const QUEUE_DEPTH_MAX: u32 = 8 * QUEUE_ENTRIES_MAX as u32;
/// Bytes of the text of an option: two addresses of the longest names would fit for each of 32 paths.
pub(crate) const OPTION_BYTES_MAX: usize = 16 << 10;
/// Entries of an I/O queue where no number is set, as with Linux; a deeper queue asks for more.
pub(crate) const QUEUE_ENTRIES: u16 = 128;

// A single request keeps this number of commands outstanding, whatever the depth.
const _: () = assert!(QUEUE_DEPTH_MAX as usize >= REQUEST_COMMANDS_MAX);
