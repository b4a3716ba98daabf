//! Queues that metrics report one by one, where hosts have more than that altogether: all of a host with few, and equal shares of
//! the others.

use std::collections::BTreeMap;

use crate::limits::METRICS_QUEUES_MAX;

/// Number of queues of each controller that are reported, given the name of its host and how many it has.
pub fn reported_queues(controllers: &[(&str, usize)]) -> Vec<usize> {
    shares(controllers, METRICS_QUEUES_MAX)
}

fn shares(controllers: &[(&str, usize)], most: usize) -> Vec<usize> {
    let mut of_hosts: BTreeMap<&str, usize> = BTreeMap::new();
    for (host, queues) in controllers {
        *of_hosts.entry(*host).or_default() += *queues;
    }
    // From the host with the fewest on: what one has no use for is for those after it.
    let mut hosts: Vec<&mut usize> = of_hosts.values_mut().collect();
    hosts.sort_unstable();
    let (mut left, mut hosts_left) = (most, hosts.len());
    for queues in hosts {
        *queues = (*queues).min(left / hosts_left);
        left -= *queues;
        hosts_left -= 1;
    }
    let reported = controllers.iter().map(|(host, queues)| {
        let left = of_hosts.entry(*host).or_default();
        let reported = (*queues).min(*left);
        *left -= reported;
        reported
    });
    reported.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_with_many_queues_hides_no_other_host() {
        let few = [("a", 30), ("b", 2), ("a", 10)];
        assert_eq!(shares(&few, 42), [30, 2, 10], "there is room for all");
        // The host with all places comes first, with two controllers.
        assert_eq!(shares(&[("a", 30), ("a", 30), ("b", 2), ("c", 20)], 42), [20, 0, 2, 20]);
        assert_eq!(shares(&[("a", 60), ("b", 2), ("a", 5), ("c", 50)], 43), [21, 2, 0, 20]);
        let many = [("a", 2), ("a", 4), ("b", 1), ("c", 1), ("d", 1)];
        assert_eq!(shares(&many, 2).iter().sum::<usize>(), 2, "never more");
        assert_eq!(shares(&[("a", 0)], 42), [0]);
        assert!(shares(&[], 42).is_empty());
    }
}
