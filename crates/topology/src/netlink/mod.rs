//! The kernel's netlink: questions to it, and its answers with every length in them checked. What an answer is good for
//! is not known here.

pub(super) mod generic;
pub(super) mod message;
pub(super) mod queueing;
pub(super) mod route;
pub(super) mod sock_diag;
mod socket;

pub(super) use message::{Attributes, Writer};
pub(super) use socket::{KernelWords, NetlinkSocket};
