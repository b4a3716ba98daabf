//! ceph-nvmeof's gRPC service, for programs that administer Ceph's own gateway: each call is made of requests to the control
//! API, so that there is one place that changes things, one that says who may, and one record of it. Results are numbers of
//! errno in the answer, with one line, as clients of that gateway expect; an error of gRPC itself is for bytes that are not a call.

#[cfg(test)]
mod caller_tests;
mod calls;
#[cfg(test)]
mod concurrent_calls_tests;
mod connections;
mod controllers;
mod exposition;
mod failed;
mod gateway;
mod hosts;
mod kmip;
#[cfg(test)]
mod limits_tests;
mod listeners;
mod namespace_settings;
mod namespaces;
mod native;
mod networks;
#[cfg(test)]
mod newer_calls_tests;
#[cfg(test)]
mod silent_cluster_tests;
mod statistics;
mod subsystems;
#[cfg(test)]
mod tests;

pub(super) use calls::router;
pub(super) use exposition::answer as metrics;
