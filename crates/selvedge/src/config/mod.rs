//! What was asked for, after it has been checked: the flags and files of people become values that commands can
//! trust. Nothing is opened, listened on or connected to here.

pub(crate) use engine::units as size;

pub(crate) mod ceph;
pub(crate) mod connection;
mod former_names;
pub(crate) mod namespace;
pub(crate) mod nvmet;
pub(crate) mod paths;
pub(crate) mod quotas;
pub(crate) mod reactors;
#[cfg(test)]
mod recorded_tests;
pub(crate) mod rules;
pub(crate) mod target;
pub(crate) mod target_dump;
pub(crate) mod target_file;
pub(crate) mod workload;
