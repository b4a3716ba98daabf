//! What a process has to be that a disk of this machine depends on: while memory is short, the system writes to its disks to get
//! some, and would wait for the process that waits for memory.

use std::io;

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::configure_io_flusher_behavior;

/// Allocations of this thread, and of all that it starts from now on, do not wait for disks, and no memory of the process is
/// swapped out.
///
/// # Errors
/// When the process has not the right, which is CAP_SYS_RESOURCE, or may not lock so much memory.
pub fn bear_memory_pressure() -> io::Result<()> {
    configure_io_flusher_behavior(true)?;
    // Not what is mapped and never touched, such as most of each stack.
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)?;
    Ok(())
}
