//! Hand-over of an upgrade, from the process that serves (the old process) to the one that takes
//! its place (the new process): the words, their bytes, and which of the two serves whatever
//! happens to either. A product says what it offers, hands over and does at each step. Sockets,
//! clocks and processes come through traits.

mod channel;
mod frame;
mod hand_over_error;
mod new_process;
mod old_process;
mod step;
#[cfg(test)]
mod tests;
mod words;

use std::fmt::Debug;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use channel::{Channel, OldProcess, Process};
pub use frame::{decode, encode};
pub(crate) use hand_over_error::LATE_IMAGE;
pub use hand_over_error::{Fault, HandOverError};
pub use new_process::{NewService, NotOffered, TakeOverOutcome, ask, take_over};
pub use old_process::{Greeting, OldService, hand_over};
pub use step::{Event, NewStep, OldStep};
pub use words::{About, Word};

/// Hand-over of one product: its encoding, its limits, and the types of what it hands over.
pub trait Protocol: Sized + Debug {
    /// Magic number at the beginning of each message.
    const MAGIC: [u8; 8];
    /// Version of the encoding. Messages of another one are refused.
    const FORMAT: u32;
    /// Time limit for the new process to become ready. The old process serves meanwhile.
    const PREPARATION: Duration;
    /// Time limit for the new process to take over what is quiesced meanwhile.
    const TAKING: Duration;
    /// Addition to that limit for each descriptor.
    const TAKING_EACH: Duration;
    /// Input for the preparation of the new process.
    type Offer: Debug + Serialize + DeserializeOwned;
    /// State of what is quiesced.
    type State: Debug + Serialize + DeserializeOwned;
    /// Open socket or file that the old process sends.
    type Descriptor;
}

/// Time for a process to die after its last message. The channel ends with its last thread, after
/// which little is left to do.
const DEATH: Duration = Duration::from_secs(3);

/// Failure of a step, as an event for the decision and as the reason for people.
struct Failure {
    event: Event,
    reason: HandOverError,
}

impl Failure {
    const fn new(event: Event, reason: HandOverError) -> Self {
        Self { event, reason }
    }

    /// Failure of this process itself.
    const fn own(reason: HandOverError) -> Self {
        Self::new(Event::Failed, reason)
    }
}
