//! Reservations: their state, their storage, and hosts' notifications. Permission to ask is decided
//! elsewhere.

mod file;
mod handed;
mod host_digest;
mod impossible_state;
mod log;
mod record;
mod shared_reservations;
mod state;
mod status;

pub(crate) use file::ReservationDirectory;
pub(crate) use host_digest::{HostDigest, HostId};
pub(crate) use impossible_state::ImpossibleState;
pub(crate) use log::ReservationLog;
pub(crate) use shared_reservations::{Abandoned, Hold, SharedReservationError, SharedReservations};
pub(crate) use state::{Access, Acquire, Outcome, Register, Release, ReservationView, Reservations};
#[cfg(test)]
pub(crate) use state::{Registrant, Reservation};
pub use status::{RegistrantStatus, ReservationStatus};
