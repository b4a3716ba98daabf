//! Reservations as they are written down, wherever that is.

use nvme::reservation::ReservationType;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::state::{HostId, Registrant, Reservation, Reservations};

/// A host that is registered.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RegistrantRecord {
    host_id: Uuid,
    host_nqn: String,
    key: u64,
}

/// A reservation that is held.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReservationRecord {
    /// The specification's value of the type (RTYPE).
    kind: u8,
    /// Not there where every registrant is a holder.
    holder: Option<Uuid>,
}

impl Reservations {
    pub(super) fn registrant_records(&self) -> Vec<RegistrantRecord> {
        let record = |registrant: &Registrant| RegistrantRecord {
            host_id: Uuid::from_bytes(registrant.host_id),
            host_nqn: registrant.host_nqn.clone(),
            key: registrant.key,
        };
        self.registrants().iter().map(record).collect()
    }

    pub(super) fn reservation_record(&self) -> Option<ReservationRecord> {
        let uuid = |host_id: HostId| Uuid::from_bytes(host_id);
        self.reservation().map(|reservation| ReservationRecord {
            kind: reservation.kind as u8,
            holder: reservation.holder.map(uuid),
        })
    }

    /// Restores recorded reservations.
    ///
    /// # Errors
    /// What no sequence of commands could have led to, in words.
    pub(super) fn recorded(
        generation: u32,
        registrants: Vec<RegistrantRecord>,
        reservation: Option<ReservationRecord>,
        persists: bool,
    ) -> Result<Self, String> {
        let registrants = registrants.into_iter().map(|registrant| Registrant {
            host_id: registrant.host_id.into_bytes(),
            host_nqn: registrant.host_nqn,
            key: registrant.key,
        });
        let held = |ReservationRecord { kind, holder }: ReservationRecord| {
            let known = ReservationType::from_wire(kind);
            let kind = known.ok_or_else(|| format!("there is no reservation type {kind}"))?;
            Ok::<_, String>(Reservation { kind, holder: holder.map(Uuid::into_bytes) })
        };
        let reservation = reservation.map(held).transpose()?;
        Self::restore(generation, registrants.collect(), reservation, persists).map_err(str::to_owned)
    }
}
