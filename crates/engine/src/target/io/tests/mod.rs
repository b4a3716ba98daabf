//! Commands in memory and on virtual time, without a socket, a thread or a disk: what goes in is what a queue hands over, and
//! what comes out are answers, requests for data, and operations that nobody carries out but the test.

mod abort;
mod answers;
mod copy;
mod limits;
mod pair;
mod reservation;
mod rig;
