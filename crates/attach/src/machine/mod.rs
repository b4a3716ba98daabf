//! Parts of the machine beyond the engine's: listening sockets, and open descriptors that are passed to another process. `real`
//! has those of Linux, and `simulated` those of a simulation.

#[cfg(not(feature = "simulation"))]
mod real;
#[cfg(feature = "simulation")]
mod simulated;

#[cfg(not(feature = "simulation"))]
use real as system;
#[cfg(feature = "simulation")]
use simulated as system;

pub use system::{Descriptor, Listener};
pub(crate) use system::{bytes_of, file_of, open, party_of, share, shut_down};
