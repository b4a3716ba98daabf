//! Reservations as they are written down, wherever that is.

use nvme::reservation::ReservationType;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::host_digest::HostDigest;
use super::impossible_state::ImpossibleState;
use super::state::{Registrant, Reservation, Reservations};

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
    /// HOSTID of the holder. Not there where every registrant is a holder.
    holder: Option<Uuid>,
    /// NQN of the holder, in the format with several hosts of one HOSTID alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holder_nqn: Option<String>,
}

/// Format in which a HOSTID names one registrant, which all versions read.
pub(super) const VERSION_OF_HOST_IDS: u32 = 1;
/// Format in which hosts may share a HOSTID. Only what needs it is written so: a version that takes a HOSTID for a host has to
/// refuse it, and can still read all else.
pub(super) const VERSION_OF_NAMES: u32 = 2;

/// The host with this HOSTID among registrants, and with this NQN where that is known.
pub(super) fn holder_among(registrants: &[Registrant], host_id: Uuid, host_nqn: Option<&str>) -> HostDigest {
    let is_named = |registrant: &&Registrant| {
        registrant.host_id == *host_id.as_bytes() && host_nqn.is_none_or(|nqn| nqn == registrant.host_nqn)
    };
    // A holder that is not registered has the digest of no registrant, and is refused.
    let unknown = || HostDigest::of(host_nqn.unwrap_or_default(), host_id.as_bytes());
    registrants.iter().find(is_named).map_or_else(unknown, |registrant| registrant.host)
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

    /// The format that they are written in.
    pub(super) fn version(&self) -> u32 {
        let mut host_ids: Vec<_> = self.registrants().iter().map(|registrant| registrant.host_id).collect();
        host_ids.sort_unstable();
        let is_shared = host_ids.windows(2).any(|pair| pair[0] == pair[1]);
        if is_shared { VERSION_OF_NAMES } else { VERSION_OF_HOST_IDS }
    }

    pub(super) fn reservation_record(&self) -> Option<ReservationRecord> {
        let has_names = self.version() == VERSION_OF_NAMES;
        let Reservation { kind, holder } = self.reservation()?;
        let holder = holder.and_then(|holder| self.registrants().iter().find(|known| known.host == holder));
        Some(ReservationRecord {
            kind: kind as u8,
            holder: holder.map(|holder| Uuid::from_bytes(holder.host_id)),
            holder_nqn: holder.filter(|_| has_names).map(|holder| holder.host_nqn.clone()),
        })
    }

    /// Restores reservations recorded in a format, with their generation.
    ///
    /// # Errors
    /// `ImpossibleState`, which no sequence of commands could have led to.
    pub(super) fn recorded(
        of: (u32, u32),
        registrants: Vec<RegistrantRecord>,
        reservation: Option<ReservationRecord>,
        persists: bool,
    ) -> Result<Self, ImpossibleState> {
        let registrants: Vec<Registrant> = registrants
            .into_iter()
            .map(|RegistrantRecord { host_id, host_nqn, key }| {
                Registrant::new(host_id.into_bytes(), host_nqn, key)
            })
            .collect();
        let (version, generation) = of;
        let held = |ReservationRecord { kind, holder, holder_nqn }: ReservationRecord| {
            let kind = ReservationType::from_wire(kind).ok_or(ImpossibleState::UnknownType(kind))?;
            let holder = holder.map(|host_id| holder_among(&registrants, host_id, holder_nqn.as_deref()));
            Ok::<_, ImpossibleState>(Reservation { kind, holder })
        };
        let reservation = reservation.map(held).transpose()?;
        let restored = Self::restore(generation, registrants, reservation, persists)?;
        if version < restored.version() {
            return Err(ImpossibleState::RegisteredTwice);
        }
        Ok(restored)
    }
}
