//! Configurations of targets, checked: from flags, `target.toml`, nvmet and ceph-nvmeof. Nothing is opened or listened on
//! here.

pub mod ceph_nvmeof;
mod former_names;
pub mod nvmet;
#[cfg(test)]
mod recorded_tests;
pub mod target;
pub mod target_dump;
pub mod target_file;
pub mod target_reference;
