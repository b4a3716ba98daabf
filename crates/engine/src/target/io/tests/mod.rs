//! Commands in memory and on virtual time, without a socket, a thread or a disk: the tests hand
//! over what a queue would, and check replies, requests for data, and storage operations, which the
//! test itself carries out.

mod abort;
mod answers;
mod copy;
mod limits;
mod pair;
mod place;
mod reservation;
mod rig;
mod zeroes;
