//! What was asked for, after it has been checked: the flags and files of people become values that commands can
//! trust. Nothing is opened, listened on or connected to here.

pub(crate) mod attach_file;
pub(crate) mod connection;
mod nvme_cli;
mod tls;

pub(crate) use administration::config::{
    ceph_nvmeof, nvmet, target, target_dump, target_file, target_reference,
};
pub(crate) use measurement::workload;
