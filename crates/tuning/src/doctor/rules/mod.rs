//! Rules: those about machines, one file each with its cases beside it, and those about targets, from `diagnosis`. They
//! stand in the order in which findings of one cost are reported: causes that explain other findings come first.

mod bbr_on_short_way;
mod bond_hash;
mod busy_worker;
mod cpu_starvation;
mod far_queues;
mod long_way;
mod lost_controller;
mod lost_packets;
mod offloads_off;
mod one_link_for_two_paths;
mod packet_loss;
mod path_mtu;
mod path_policy;
mod queueing_limit;
mod short_queue;
mod slow_answers;
mod slow_coalescing;
mod slow_link;
mod small_buffers;
mod stolen_cpu;
mod strict_rp_filter;
mod tls_without_aes;
mod unreachable;

use super::rule::AnyRule::{self, Machine, Target};
use crate::diagnosis::rules::{
    busy_reactor, host_not_reading, hot_namespace, late_flush, lossy_path, namespace_down, namespace_limit,
    old_tls_key, reconnecting_host, refused_host, silent_gateway, slow_storage, slower_path,
};

/// All of them.
pub(super) const ALL: [AnyRule; 36] = [
    Machine(strict_rp_filter::RULE),
    Machine(path_mtu::RULE),
    Target(silent_gateway::RULE),
    Target(refused_host::RULE),
    Target(namespace_down::RULE),
    Target(reconnecting_host::RULE),
    Machine(lost_controller::RULE),
    Machine(unreachable::RULE),
    Target(namespace_limit::RULE),
    Machine(queueing_limit::RULE),
    Target(host_not_reading::RULE),
    Target(hot_namespace::RULE),
    Target(slow_storage::RULE),
    Target(late_flush::RULE),
    Target(busy_reactor::RULE),
    Machine(busy_worker::RULE),
    Machine(slow_link::RULE),
    Machine(lost_packets::RULE),
    Machine(packet_loss::RULE),
    Target(lossy_path::RULE),
    Target(slower_path::RULE),
    Machine(short_queue::RULE),
    Machine(slow_answers::RULE),
    Machine(long_way::RULE),
    Machine(stolen_cpu::RULE),
    Machine(cpu_starvation::RULE),
    Machine(small_buffers::RULE),
    Machine(bond_hash::RULE),
    Machine(bbr_on_short_way::RULE),
    Machine(path_policy::RULE),
    Machine(one_link_for_two_paths::RULE),
    Machine(far_queues::RULE),
    Machine(offloads_off::RULE),
    Machine(slow_coalescing::RULE),
    Machine(tls_without_aes::RULE),
    Target(old_tls_key::RULE),
];

#[cfg(test)]
mod tests {
    use super::super::{report::Report, sample};
    use super::*;

    #[test]
    fn a_healthy_machine_has_nothing() {
        for case in [sample::healthy(), sample::idle(), sample::with_target()] {
            let found = Report::of(&case, Vec::new(), None).findings;
            assert!(found.is_empty(), "{found:#?}");
        }
    }

    #[test]
    fn every_rule_is_documented() {
        let page = include_str!("../../../../../docs/doctor.md");
        for rule in &ALL {
            assert!(page.contains(&format!("| `{}` |", rule.name())), "{}", rule.name());
        }
    }

    #[test]
    fn names_are_different() {
        let mut names: Vec<&str> = ALL.iter().map(AnyRule::name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }

    #[test]
    fn every_rule_about_targets_is_one_of_them_in_the_same_order() {
        let targets = |rule: &AnyRule| matches!(rule, Target(_)).then(|| rule.name());
        let mine: Vec<&str> = ALL.iter().filter_map(targets).collect();
        let theirs: Vec<&str> = crate::diagnosis::rules::ALL.iter().map(|rule| rule.name).collect();
        assert_eq!(mine, theirs);
    }
}
