//! The thread that computes what hosts and controllers prove to each other.

mod fair_queue;
mod handshake;
mod handshake_limiter;
mod worker;

pub(crate) use worker::AuthenticationWorker;
