//! Selvedge's engine: everything that touches the operating system. Reactors and backends that serve blocks, and
//! the initiator that uses them. What the bytes mean is the `nvme` crate's; what people type is the program's.

#![cfg_attr(
    feature = "simulation",
    allow(dead_code, reason = "what only a real machine needs stays, unused")
)]

pub mod backend;
#[cfg(not(feature = "simulation"))]
pub mod ceph;
pub mod initiator;
pub mod limits;
pub mod observation;
pub mod private_file;
pub mod private_folder;
pub mod ring;
#[cfg(feature = "simulation")]
pub mod simulation;
mod sync;
pub mod target;
#[cfg(not(feature = "simulation"))]
pub mod topology;
pub mod transport;
