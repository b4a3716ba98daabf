//! The seam between the engine and the machine: readiness of sockets, storage I/O, time, and waking another
//! thread. One ring belongs to one thread. It knows nothing of NVMe.
//!
//! The types that the engine and every machine share are in the files here. What a machine must have besides is the list
//! below: `real` has it, and so has `simulated`, which stands in its place in a simulation.

mod buffer;
pub mod core;
mod event;
mod moment;
mod operation;
mod options;
#[cfg(not(feature = "simulation"))]
mod real;
#[cfg(feature = "simulation")]
pub mod simulated;
mod span;
mod transfer;

#[cfg(not(feature = "simulation"))]
use real as machine;
#[cfg(feature = "simulation")]
use simulated as machine;

pub use buffer::{Buffer, BufferPool};
pub use event::{Event, Readiness};
pub use moment::Moment;
pub use operation::StorageOp;
pub use options::{Engine, RingOptions};
pub use span::{Span, SpanMut};

pub(crate) use machine::{EventCount, observe};
pub use machine::{
    Hold, RemoteOperation, RemoteStorage, Ring, Socket, Storage, Vital, Waker, channel, end_program, lock,
    now, random, tcp, thread, wall_time,
};

/// Fills bytes with random ones.
pub fn fill_random(bytes: &mut [u8]) {
    for chunk in bytes.chunks_mut(size_of::<u64>()) {
        chunk.copy_from_slice(&random().to_le_bytes()[..chunk.len()]);
    }
}
