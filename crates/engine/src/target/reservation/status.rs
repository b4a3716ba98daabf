//! Registrations and the reservation of a namespace as an operator sees them: a snapshot, made on request.

use nvme::reservation::ReservationType;
use serde::Serialize;
use uuid::Uuid;

use super::state::Reservations;

/// Registrations and the reservation of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Reservations")]
pub struct ReservationStatus {
    /// Type of the reservation, where one is held.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    /// True if they outlive a restart of the target and a loss of power (PTPL).
    pub persists: bool,
    /// Hosts that are registered, in the order in which they came.
    pub registrants: Vec<RegistrantStatus>,
}

/// A host that is registered on a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Registrant")]
pub struct RegistrantStatus {
    /// The host's name.
    pub host_nqn: String,
    /// The host's identifier. Another host may have the same.
    pub host_id: Uuid,
    /// True if it holds the reservation.
    pub holds: bool,
}

impl Reservations {
    pub(crate) fn status(&self) -> ReservationStatus {
        let registrants = self.registrants().iter().map(|registrant| RegistrantStatus {
            host_nqn: registrant.host_nqn.clone(),
            host_id: Uuid::from_bytes(registrant.host_id),
            holds: self.holds(registrant.host),
        });
        ReservationStatus {
            kind: self.reservation().map(|reservation| name(reservation.kind)),
            persists: self.persists(),
            registrants: registrants.collect(),
        }
    }
}

const fn name(kind: ReservationType) -> &'static str {
    match kind {
        ReservationType::WriteExclusive => "write_exclusive",
        ReservationType::ExclusiveAccess => "exclusive_access",
        ReservationType::WriteExclusiveRegistrantsOnly => "write_exclusive_registrants_only",
        ReservationType::ExclusiveAccessRegistrantsOnly => "exclusive_access_registrants_only",
        ReservationType::WriteExclusiveAllRegistrants => "write_exclusive_all_registrants",
        ReservationType::ExclusiveAccessAllRegistrants => "exclusive_access_all_registrants",
    }
}
