//! What was asked for, after it has been checked: the flags and files of people become values that commands can
//! trust. Nothing is opened, listened on or connected to here.

pub(crate) use administration::config::{
    ceph_nvmeof, nvmet, target, target_dump, target_file, target_reference,
};
pub(crate) use host_connection::config::connection;
pub(crate) use measurement::workload;
