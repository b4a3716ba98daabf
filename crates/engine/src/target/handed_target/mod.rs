//! What a target leaves to the new process that serves in its place, as data: all that hosts rely
//! on and no configuration says. Every queue is handed over at rest, between two of its commands,
//! so that nothing of a command is among it. Sockets go beside it, in the same order.

mod handed_controller;
mod handed_former_key;
mod handed_generated_key;
mod handed_namespace;
mod handed_queue;
mod handed_reservations;
mod handed_secret;

pub use handed_controller::{HandedController, HandedError, HandedFeatures, HandedProof};
pub use handed_former_key::HandedFormerKey;
pub use handed_generated_key::HandedGeneratedKey;
pub use handed_namespace::HandedNamespace;
pub(crate) use handed_namespace::HandedNamespaceError;
pub use handed_queue::{HandedKey, HandedQueue, HandedStream};
pub use handed_reservations::HandedReservations;
pub use handed_secret::HandedSecret;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedTarget {
    /// Half of the random number of each controller, by which no other target takes them for its own.
    pub tag: u32,
    /// The uniquifier that the last controller with each identifier had.
    pub uniquifiers: Vec<(u16, u8)>,
    /// The namespaces that are there, by subsystem and identifier: no host may find one of them gone.
    #[serde(default)]
    pub served: BTreeSet<(String, u32)>,
    /// Namespaces that are not as their storage says.
    #[serde(default)]
    pub namespaces: Vec<HandedNamespace>,
    /// TLS keys that have come out of authentications.
    #[serde(default)]
    pub generated_keys: Vec<HandedGeneratedKey>,
    /// Secrets and TLS keys that were replaced, and are still accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former_keys: Vec<HandedFormerKey>,
    /// Reservations of namespaces, where there are some.
    pub reservations: Vec<HandedReservations>,
    /// The controllers, in the order of their identifiers.
    pub controllers: Vec<HandedController>,
    /// Queues of these controllers.
    pub queues: Vec<HandedQueue>,
    /// Hosts, with their addresses, that were too slow to be handed over, and connect again.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub disconnected: BTreeSet<String>,
}
