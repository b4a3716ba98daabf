//! Parts of the machine that front ends bring: their connections and messages, and event descriptors. `real` has those of Linux,
//! and `simulated` those of a simulation.

#[cfg(not(feature = "simulation"))]
mod real;
#[cfg(feature = "simulation")]
mod simulated;

#[cfg(not(feature = "simulation"))]
use real as system;
#[cfg(feature = "simulation")]
use simulated as system;

pub use system::FrontEndListener;
pub(super) use system::{
    Arrival, BackendChannel, Call, Connection, Event, Handler, Message, Wake, accept, await_front_end,
    await_more, close, event_of, guarded, may_be_interrupted, open, open_event, open_file, prepare, share,
    share_event, share_file,
};
#[cfg(feature = "simulation")]
pub use system::{
    BackEndReply, FrontEnd, FrontEndConnection, FrontEndMessage, FrontEndSocket, guest_file,
    stop_where_a_kill_matters,
};

/// End of a wait for more of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    /// There is a command for the thread.
    Command,
    /// The time is over.
    Time,
    /// Something has come.
    More,
    /// The connection cannot be waited for. Its reader reports the fault.
    Fault,
}
