//! Parameters of connections, after they have been checked: the flags and files of people become values that commands can
//! trust. Names are looked up here, and their addresses tried.

pub mod connection;
mod nvme_cli;
mod tls;
