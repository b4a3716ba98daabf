//! The messages of ceph-nvmeof's gRPC service `Gateway` (version 1.7), as Protocol Buffers: what
//! clients of Ceph's own gateway ask, and how they are answered. Names and numbers of fields are
//! that project's, for recognition; unknown fields are skipped.
//!
//! ```
//! use ceph_nvmeof::{CreateSubsystemReq, Message as _};
//!
//! // A field of a newer version, number 99, behind the name.
//! let bytes = b"\x0a\x05nqn.a\x98\x06\x01";
//! assert_eq!(CreateSubsystemReq::decode(&bytes[..])?.subsystem_nqn, "nqn.a");
//! # Ok::<(), ceph_nvmeof::DecodeError>(())
//! ```

#![allow(missing_docs, reason = "messages and fields are another project's, and documented there")]

mod connection;
mod gateway;
mod host;
mod kmip;
mod listener;
mod namespace;
mod statistics;
mod subsystem;

pub use connection::*;
pub use gateway::*;
pub use host::*;
pub use kmip::*;
pub use listener::*;
pub use namespace::*;
pub use prost::{DecodeError, Message};
pub use statistics::*;
pub use subsystem::*;

/// The path that all calls have before their names.
pub const PATH: &str = "/Gateway/";

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressFamily {
    Ipv4 = 0,
    Ipv6 = 1,
}

/// Verbosity of a gateway's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GwLogLevel {
    Debug = 10,
    Info = 20,
    Warning = 30,
    Error = 40,
    Critical = 50,
}

/// The state of an ANA group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnaState {
    Optimized = 1,
    NonOptimized = 2,
    Inaccessible = 3,
}

/// Origin of the key by which a subsystem authenticates to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerKeyOrigin {
    NoKey = 0,
    HostSpecific = 1,
    SubsystemImplicit = 2,
}
