//! What was asked for, after it has been checked: the flags and files of people become values that commands can
//! trust. Nothing is opened, listened on or connected to here.

pub(crate) mod ceph;
pub(crate) mod connection;
pub(crate) mod former_identity;
pub(crate) mod namespace;
pub(crate) mod nvmet;
pub(crate) mod quotas;
pub(crate) mod reactors;
pub(crate) mod size;
mod storage_table;
pub(crate) mod target;
pub(crate) mod target_dump;
pub(crate) mod target_file;
pub(crate) mod workload;
