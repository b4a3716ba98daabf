//! Reservations that are left to the new process, and those that come from the old one.

use nvme::reservation::ReservationType;
use uuid::Uuid;

use super::impossible_state::ImpossibleState;
use super::record::holder_among;
use super::state::{Registrant, Reservation, Reservations};
use crate::target::handed_target::HandedReservations;

impl Reservations {
    /// State for the new process; `None` without registrations.
    pub(crate) fn handed(&self, namespace: Uuid) -> Option<HandedReservations> {
        let registrants = self.registrants().iter();
        let holder = self.reservation().and_then(|of| of.holder);
        let holder = holder.and_then(|holder| self.registrants().iter().find(|known| known.host == holder));
        let handed = HandedReservations {
            namespace,
            generation: self.generation(),
            persists: self.persists(),
            registrants: registrants
                .map(|of| (Uuid::from_bytes(of.host_id), of.host_nqn.clone(), of.key))
                .collect(),
            reservation: self
                .reservation()
                .map(|of| (of.kind as u8, holder.map(|holder| Uuid::from_bytes(holder.host_id)))),
            holder_nqn: holder.map(|holder| holder.host_nqn.clone()),
        };
        (*self != Self::default()).then_some(handed)
    }

    /// The old process' ones.
    ///
    /// # Errors
    /// `ImpossibleState`, which no sequence of commands could have led to.
    pub(crate) fn going_on(handed: HandedReservations) -> Result<Self, ImpossibleState> {
        let registrants: Vec<Registrant> = handed
            .registrants
            .into_iter()
            .map(|(host_id, host_nqn, key)| Registrant::new(host_id.into_bytes(), host_nqn, key))
            .collect();
        let reservation = match handed.reservation {
            None => None,
            Some((kind, holder)) => {
                let kind = ReservationType::from_wire(kind).ok_or(ImpossibleState::UnknownType(kind))?;
                let nqn = handed.holder_nqn.as_deref();
                let holder = holder.map(|host_id| holder_among(&registrants, host_id, nqn));
                Some(Reservation { kind, holder })
            }
        };
        Self::restore(handed.generation, registrants, reservation, handed.persists)
    }
}
