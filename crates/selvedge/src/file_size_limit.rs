//! The limit on the size of files (`ulimit -f`, a container's `--ulimit fsize`, `LimitFSIZE=`) as an error of the write that meets
//! it: by default the kernel ends the process instead, with all that it serves. What an error comes to is for the writer to say.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::SIGXFSZ;

use crate::failure::Failure;

/// Has writes beyond the limit fail with EFBIG from now on, in all threads. A handler does it, and not `SIG_IGN`, so that programs
/// which are run later begin with the system's default.
pub(crate) fn fail_writes() -> Result<(), Failure> {
    let caught = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    caught.map(drop).map_err(|error| Failure::failed(format!("SIGXFSZ cannot be caught: {error}")))
}
