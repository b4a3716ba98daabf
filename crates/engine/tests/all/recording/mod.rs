//! Recordings of hosts that others wrote, and what it takes to make and to play them.

pub(crate) mod config;
pub(crate) mod format;
pub(crate) mod masks;
pub(crate) mod replay;
pub(crate) mod wire;
