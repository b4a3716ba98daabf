//! Reservations: their state, their storage, and hosts' notifications. Permission to ask is decided
//! elsewhere.

mod file;
mod handed;
mod log;
mod record;
mod shared_reservations;
mod state;

pub(crate) use file::ReservationDirectory;
pub(crate) use log::ReservationLog;
pub(crate) use shared_reservations::{Abandoned, Hold, SharedReservationError, SharedReservations};
pub(crate) use state::{Access, Acquire, HostId, Outcome, Register, Release, ReservationView, Reservations};
#[cfg(test)]
pub(crate) use state::{Registrant, Reservation};
