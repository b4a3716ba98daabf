//! The thread that does reservation commands.

mod shared_keeper;
mod worker;

pub(crate) use worker::{ReservationWorker, forget, open_archive, restore};
