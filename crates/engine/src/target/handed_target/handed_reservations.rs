//! The reservations of a namespace as they are left to the new process, also those that would not
//! outlive a loss of power.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Registrations and the reservation of one namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedReservations {
    /// The namespace.
    pub namespace: Uuid,
    /// Number of changes of registrations (GEN).
    pub generation: u32,
    /// True if the reservations persist through power loss (PTPL).
    pub persists: bool,
    /// Registrants in the order of their registration: host identifier, NQN and key.
    pub registrants: Vec<(Uuid, String, u64)>,
    /// The reservation: its type (RTYPE), and its holder unless every registrant is one.
    pub reservation: Option<(u8, Option<Uuid>)>,
    /// The holder's NQN. Without it, the holder is the one registrant with its identifier.
    #[serde(default)]
    pub holder_nqn: Option<String>,
}
