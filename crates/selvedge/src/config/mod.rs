//! What was asked for, after it has been checked: the flags and files of people become values that commands can
//! trust. Nothing is opened, listened on or connected to here.

pub(crate) mod attach_file;
pub(crate) mod ceph_nvmeof;
pub(crate) mod connection;
mod former_names;
mod nvme_cli;
pub(crate) mod nvmet;
#[cfg(test)]
mod recorded_tests;
pub(crate) mod target;
pub(crate) mod target_dump;
pub(crate) mod target_file;
pub(crate) mod target_reference;
mod tls;
pub(crate) mod workload;
