//! Rules about targets, one file each with its cases beside it, in the order in which findings of one cost are reported:
//! causes that explain other findings come first.

pub(crate) mod busy_reactor;
pub(crate) mod host_not_reading;
pub(crate) mod hot_namespace;
pub(crate) mod late_flush;
pub(crate) mod lossy_path;
pub(crate) mod namespace_down;
pub(crate) mod namespace_limit;
pub(crate) mod old_tls_key;
pub(crate) mod reconnecting_host;
pub(crate) mod refused_host;
pub(crate) mod silent_gateway;
pub(crate) mod slow_storage;
pub(crate) mod slower_path;

use super::rule::Rule;

/// All of them.
pub(crate) const ALL: [Rule; 13] = [
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
