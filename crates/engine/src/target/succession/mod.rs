//! What a target leaves to the next process that serves in its place, as data: all that hosts rely on and no configuration says.
//! Every queue is handed over at rest, between two of its commands, so that nothing of a command is among it. Sockets go beside
//! it, in the same order.

mod handed_controller;
mod handed_queue;
mod handed_reservations;

pub use handed_controller::{HandedController, HandedFeatures, HandedProof};
pub use handed_queue::{HandedKey, HandedQueue, HandedStream};
pub use handed_reservations::HandedReservations;

use serde::{Deserialize, Serialize};

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedTarget {
    /// Half of the random number of each controller, by which no other target takes them for its own.
    pub tag: u32,
    /// The uniquifier that the last controller with each identifier had.
    pub uniquifiers: Vec<(u16, u8)>,
    /// Reservations of namespaces, where there are some.
    pub reservations: Vec<HandedReservations>,
    /// The controllers, in the order of their identifiers.
    pub controllers: Vec<HandedController>,
    /// Their queues.
    pub queues: Vec<HandedQueue>,
}
