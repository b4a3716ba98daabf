//! Rules about targets, one file each with its cases beside it, in the order in which findings of one cost are reported:
//! causes that explain other findings come first.

pub mod busy_reactor;
pub mod host_not_reading;
pub mod hot_namespace;
pub mod late_flush;
pub mod lossy_path;
pub mod namespace_down;
pub mod namespace_limit;
pub mod old_tls_key;
pub mod reconnecting_host;
pub mod refused_host;
pub mod silent_gateway;
pub mod slow_storage;
pub mod slower_path;

use super::rule::Rule;

/// All of them.
pub const ALL: [Rule; 13] = [
    silent_gateway::RULE,
    refused_host::RULE,
    namespace_down::RULE,
    reconnecting_host::RULE,
    namespace_limit::RULE,
    host_not_reading::RULE,
    hot_namespace::RULE,
    slow_storage::RULE,
    late_flush::RULE,
    busy_reactor::RULE,
    lossy_path::RULE,
    slower_path::RULE,
    old_tls_key::RULE,
];

#[cfg(test)]
mod tests {
    use super::super::{findings, sample};

    #[test]
    fn a_target_that_is_well_has_nothing() {
        for target in [sample::well(), sample::idle()] {
            assert_eq!(findings(&target), []);
        }
    }
}
