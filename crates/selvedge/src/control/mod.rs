//! The control API: HTTP and JSON, by which a running target is looked at and changed. It runs on threads of its own,
//! never on a reactor, and changes nothing itself: that is the administration's.

pub(crate) mod access;
#[cfg(test)]
mod access_tests;
pub(crate) mod administration;
#[cfg(test)]
mod api_tests;
mod ask;
pub(crate) mod audit;
mod audit_tail;
mod browser;
mod ceph_nvmeof;
pub(crate) mod client;
mod config_store;
mod connection_limiter;
mod connections;
mod console;
pub(crate) mod difference;
mod examples;
mod fabric;
mod file_stamp;
pub(crate) mod fingerprint;
mod gateways;
#[cfg(test)]
mod handed_over_tests;
pub(crate) mod host_keys;
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
pub(crate) mod openapi;
mod patches;
mod ports;
mod preview;
#[cfg(test)]
mod preview_tests;
mod preview_words;
#[cfg(test)]
mod recorded_tests;
pub(crate) mod refusal;
mod routes;
#[cfg(test)]
mod schema_tests;
mod server;
mod size_watch;
mod slow_commands;
pub(crate) mod socket;
pub(crate) mod subsystems;
pub(crate) mod sweeps;
pub(crate) mod tasks;
#[cfg(test)]
mod test_target;
pub(crate) mod tls;
mod token;
mod write_hold;

pub(crate) use host_requests::HostRequestWorker;
pub use in_process::{InProcess, Reply};
pub(crate) use listeners::Listeners;
pub(crate) use server::Control;
pub(crate) use size_watch::SizeWatch;
pub(crate) use token::Token;
