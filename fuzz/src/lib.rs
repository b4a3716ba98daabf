//! What the fuzzers hold the code to. The fuzz targets themselves are one line each; what is fuzzed is in the crates.

pub mod ceph_nvmeof;
pub mod client_hello;
pub mod config;
pub mod connection;
pub mod control;
pub mod exchange;
pub mod gateway_state;
pub mod hand_over;
pub mod handshake;
pub mod hostile;
pub mod machine;
pub mod nbd;
pub mod nvmet;
pub mod parsers;
pub mod receive;
pub mod record;
mod schema;
pub mod state_files;
pub mod ublk;
pub mod virtqueue;
