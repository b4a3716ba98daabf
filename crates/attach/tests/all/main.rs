//! A server over a target, both in this process, and clients that write NBD by hand.

mod client;
mod data;
mod hostile;
mod life;
mod world;
