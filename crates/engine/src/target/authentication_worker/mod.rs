//! The thread that computes what hosts and controllers prove to each other.

mod handshake;
mod handshake_places;
mod waiting_line;
mod worker;

pub(crate) use worker::AuthenticationWorker;
