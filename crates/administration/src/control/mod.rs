//! The control API: HTTP and JSON, by which a running target is looked at and changed. It runs on threads of its own,
//! never on a reactor, and changes nothing itself: that is the administration's.

mod absent_images;
pub mod access;
#[cfg(test)]
mod access_tests;
pub mod administration;
#[cfg(test)]
mod api_tests;
mod ask;
pub mod audit;
mod audit_tail;
mod browser;
mod catch_up;
mod ceph_nvmeof;
pub mod client;
mod config_store;
mod connection_limiter;
mod connections;
mod console;
pub mod difference;
mod examples;
mod fabric;
mod file_stamp;
pub mod fingerprint;
mod gateways;
#[cfg(test)]
mod handed_over_tests;
pub mod host_keys;
mod host_metrics;
mod host_requests;
mod in_process;
mod limits;
mod listeners;
mod live;
#[cfg(test)]
mod local_caller_tests;
mod log_level;
mod metrics;
mod namespaces;
pub mod openapi;
mod patches;
mod ports;
mod preview;
#[cfg(test)]
mod preview_tests;
mod preview_words;
#[cfg(test)]
mod recorded_tests;
pub mod refusal;
mod routes;
#[cfg(test)]
mod schema_tests;
mod server;
mod size_watch;
mod slow_commands;
mod slow_places;
pub mod socket;
pub mod subsystems;
pub mod sweeps;
pub mod tasks;
#[cfg(test)]
mod test_target;
mod text_pieces;
pub mod tls;
mod token;
mod write_hold;

pub use host_requests::HostRequestWorker;
pub use in_process::{InProcess, Reply};
pub use listeners::Listeners;
pub use server::Control;
pub use size_watch::SizeWatch;
pub use token::Token;
