//! Selvedge's engine: everything that touches the operating system. Reactors and backends that serve blocks, and
//! the initiator that uses them. What the bytes mean is the `nvme` crate's; what people type is the program's.
//!
//! # A target in your program
//!
//! A target serves namespaces from threads of its own until it is dropped. This one has a megabyte of memory, and listens
//! where the system finds a free port:
//!
//! ```
//! use engine::backend::BackendConfig;
//! use engine::target::{FabricConfig, NamespaceConfig, PortConfig, SubsystemConfig, Target, TargetConfig};
//!
//! let nqn = "nqn.2014-08.org.example:disk";
//! let memory = NamespaceConfig::new(1, BackendConfig::Memory { size: 1 << 20 }, 4096);
//! let fabric = FabricConfig {
//!     ports: vec![PortConfig::new(1, "127.0.0.1:0".parse()?)],
//!     subsystems: vec![SubsystemConfig::new(nqn, "serial", "model").with(vec![memory])],
//!     ..FabricConfig::default()
//! };
//! let target = Target::start(&TargetConfig { fabric, ..TargetConfig::default() })?;
//! println!("{nqn} is served at {}", target.ports()[0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A target in a test
//!
//! The same target makes a test of a host's behaviour: change what it serves while it is used, and look what follows.
//! Here a namespace becomes write protected, and its user gets the error:
//!
//! ```
//! # use engine::backend::BackendConfig;
//! # use engine::target::{FabricConfig, NamespaceConfig, PortConfig, SubsystemConfig, Target, TargetConfig};
//! use engine::initiator::Volume;
//! use engine::target::WriteProtection;
//! use nvme::Status;
//!
//! # let nqn = "nqn.2014-08.org.example:disk";
//! # let memory = NamespaceConfig::new(1, BackendConfig::Memory { size: 1 << 20 }, 4096);
//! # let target = Target::start(&TargetConfig {
//! #     fabric: FabricConfig {
//! #         ports: vec![PortConfig::new(1, "127.0.0.1:0".parse()?)],
//! #         subsystems: vec![SubsystemConfig::new(nqn, "serial", "model").with(vec![memory])],
//! #         ..FabricConfig::default()
//! #     },
//! #     ..TargetConfig::default()
//! # })?;
//! let volume = Volume::open(&target.ports(), nqn, 1)?;
//! volume.write_at(0, &[1; 4096])?;
//!
//! let mut config = target.config();
//! config.subsystems[0].namespaces[0].write_protection = WriteProtection::On;
//! target.apply(&config)?;
//! let error = volume.write_at(0, &[2; 4096]).unwrap_err();
//! assert_eq!(error.status().map(Status::without_flags), Some(Status::WRITE_PROTECTED));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`initiator`] describes how blocks are read and written over one path or several.

#![cfg_attr(
    feature = "simulation",
    allow(dead_code, reason = "what only a real machine needs stays, unused")
)]
#![cfg_attr(
    not(all(feature = "target", feature = "ceph")),
    allow(dead_code, unused_imports, reason = "what only the target or Ceph's libraries need stays, unused")
)]

pub mod address;
pub mod backend;
pub mod ceph;
#[cfg(not(feature = "simulation"))]
pub mod claims;
pub mod hand_over;
mod histogram;
pub mod initiator;
pub mod limits;
pub mod observation;
pub mod offenders;
pub mod ring;
pub mod secret_file;
pub mod secure_stream;
pub mod seldom;
mod sync;
#[cfg(feature = "target")]
pub mod target;
pub mod time_bound;
pub mod transport;
pub mod units;

pub use histogram::Histogram;
#[cfg(feature = "simulation")]
pub use ring::simulated as simulation;

/// Programs of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadMe;
