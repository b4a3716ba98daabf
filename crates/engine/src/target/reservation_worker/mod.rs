//! The threads that do reservation commands.

mod backlogs;
mod dropping;
mod shared_reservations;
mod turns;
mod worker;

pub(crate) use dropping::{clear, drop_denied};
pub(crate) use worker::{ReservationWorker, forget, open_archive, restore};
