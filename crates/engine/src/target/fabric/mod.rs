//! What all threads of a target share, and who is let in.

mod admission;
mod controllers;
mod directory;
mod displacement;
mod fabric;
mod generated_keys;
mod host_changes;
mod promised_id;
mod promises;
mod psks;
mod reservable;

pub(crate) use admission::Fault;
pub use admission::Quotas;
pub(crate) use controllers::NoController;
pub(crate) use fabric::Fabric;
pub(crate) use promised_id::PromisedId;
pub(crate) use promises::{Promise, WantedId};
mod target_config;
pub(crate) use directory::Directory;
pub use target_config::{Reactors, TargetConfig};
