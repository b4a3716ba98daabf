//! One TCP stream, which is one queue. Its mirror is `initiator::queue`: both have a half that receives, a half that sends, and
//! owners who know what commands mean.

mod disconnect;
mod handed;
mod receive;
mod sealed;
mod send;
mod tcp_queue;

pub(crate) use disconnect::Disconnect;
pub(crate) use handed::QueueState;
pub(crate) use receive::{Incoming, Received};
pub(crate) use tcp_queue::{Next, Payload, Place, Queue, Reply};
