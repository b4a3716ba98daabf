//! A host with several paths to a subsystem of which one is slower than another: its link, its way, or a full queue there.

use std::collections::BTreeMap;

use chart::units;

use crate::diagnosis::finding::{Finding, Severity};
use crate::diagnosis::rule::Rule;
use crate::diagnosis::served::{Served, ServedQueue};

pub const RULE: Rule = Rule { name: "slower-path", judge };

/// A path whose round trip is this many times another's, and longer by this, is slower: less is how far round trips are apart
/// on one path.
const TIMES_MIN: f64 = 3.0;
const LONGER_US_MIN: u64 = 500;
/// Commands in a second that say that a path is in use: a round trip of long ago says nothing.
const IOPS_MIN: f64 = 10.0;
/// A host acknowledges with its next command or some time later. A round trip that is not this many times as long as the time
/// between two commands may be that wait, and no slower way.
const GAPS_MIN: f64 = 2.0;

/// Least share of another path's commands from which on a path is compared with it: a full queue
/// has a longer latency.
const LOAD_MIN: f64 = 0.25;

/// A path: a port and an address of a host, with the fastest of its queues.
#[derive(Clone, Copy)]
struct Path<'a> {
    queue: &'a ServedQueue,
    /// Commands in a second by that queue.
    queue_iops: f64,
    /// By all of them.
    iops: f64,
}

/// Ends of a path: the target's port, and the host's address.
type Ends<'a> = (u16, &'a str);

fn judge(target: &Served) -> Vec<Finding> {
    let interval_s = target.interval_s().max(1e-3);
    let mut hosts: BTreeMap<(&str, &str), BTreeMap<Ends<'_>, Path<'_>>> = BTreeMap::new();
    for queue in target.queues.iter().filter(|queue| queue.queue_id > 0) {
        let iops = queue.commands as f64 / interval_s;
        if iops < IOPS_MIN {
            continue;
        }
        let address = queue.peer.rsplit_once(':').map_or(queue.peer.as_str(), |(address, _)| address);
        let paths = hosts.entry((&queue.host, &queue.subsystem)).or_default();
        let path = paths.entry((queue.port, address)).or_insert(Path { queue, queue_iops: iops, iops: 0.0 });
        path.iops += iops;
        // One queue may wait for another command of its own; all of them together wait for their way.
        if queue.rtt_us < path.queue.rtt_us {
            (path.queue, path.queue_iops) = (queue, iops);
        }
    }
    hosts.into_iter().filter_map(|((host, subsystem), paths)| finding(host, subsystem, &paths)).collect()
}

fn finding(host: &str, subsystem: &str, paths: &BTreeMap<Ends<'_>, Path<'_>>) -> Option<Finding> {
    let is_way = |path: &&Path<'_>| path.queue.rtt_us as f64 >= GAPS_MIN * 1e6 / path.queue_iops;
    let slowest = paths.values().filter(is_way).max_by_key(|path| path.queue.rtt_us)?;
    let is_loaded = |path: &&Path<'_>| path.iops >= LOAD_MIN * slowest.iops;
    let fastest = paths.values().filter(is_loaded).min_by_key(|path| path.queue.rtt_us)?;
    let (fast_us, slow_us) = (fastest.queue.rtt_us, slowest.queue.rtt_us);
    let is_slower = slow_us as f64 >= fast_us as f64 * TIMES_MIN && slow_us - fast_us >= LONGER_US_MIN;
    if !is_slower {
        return None;
    }
    let time = |us: u64| units::time_ns(us as f64 * 1e3);
    let seen = |path: &Path<'_>| {
        format!(
            "controller {} by port {}, queue {} from {}: round trip {}, {} commands/s",
            path.queue.cntlid,
            path.queue.port,
            path.queue.queue_id,
            path.queue.peer,
            time(path.queue.rtt_us),
            units::count(path.iops)
        )
    };
    let all: f64 = paths.values().map(|path| path.iops).sum();
    let cause = format!(
        "One path of {host} to {subsystem} is slower than its others: {} there and back, not {}",
        time(slow_us),
        time(fast_us)
    );
    Some(
        Finding::new(Severity::Slows, host, cause)
            // The part of what it sends that goes the slower way waits longer.
            .ranked(0.5 + 0.4 * slowest.iops / all)
            .seen(seen(slowest))
            .seen(seen(fastest))
            .cure(
                "Compare the two links: speed, a queue that is full, a longer way. Until that is mended, a policy that \
                 looks at how long commands take uses the faster one more.",
                "Commands by this path take as long as by the others.",
            )
            .command("selvedge doctor -a ADDRESS".to_owned())
            .command("echo queue-depth > /sys/class/nvme-subsystem/NAME/iopolicy".to_owned()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::sample::{NQN, named_first, well};

    /// A host with a path for each of these round trips, by each queue of which it sends this number of commands.
    fn with(paths: &[(u64, u64)]) -> Served {
        let mut target = well();
        for (number, (rtt_us, commands)) in (1..).zip(paths) {
            for queue_id in 0..3 {
                target.queues.push(ServedQueue {
                    host: "nqn.h".into(),
                    subsystem: NQN.into(),
                    cntlid: number,
                    port: number,
                    queue_id,
                    peer: format!("10.0.{number}.1:{queue_id}"),
                    rtt_us: if queue_id == 0 { 90_000 } else { rtt_us + u64::from(queue_id) },
                    commands: *commands,
                    ..ServedQueue::default()
                });
            }
        }
        target
    }

    #[test]
    fn one_slower_link_of_several_is_named() {
        for paths in
            [[(120, 20_000), (9000, 8000)], [(5000, 50_000), (90, 50_000)], [(300, 9000), (1200, 2000)]]
        {
            let found = named_first(&with(&paths), RULE.name);
            assert_eq!((found.severity, found.subject.as_str()), (Severity::Slows, "nqn.h"));
            assert!(found.evidence[0].contains("by port") && found.evidence.len() == 2, "{found:?}");
        }
        let found = named_first(&with(&[(120, 20_000), (9000, 8000)]), RULE.name);
        assert!(found.cause.contains("9.00 ms there and back, not 121 µs"), "{found:?}");
    }

    #[test]
    fn look_alikes_are_well() {
        // Paths of one speed; queues that wait; short ways; one that is not in use; one that is used seldom, whose host
        // waits before it acknowledges; one that has all the load; a single one; two programs of a host on one path.
        let mut one_path = with(&[(120, 20_000), (9000, 8000)]);
        for queue in &mut one_path.queues {
            (queue.port, queue.peer) = (1, "10.0.1.1:9".into());
        }
        for target in [
            with(&[(120, 20_000), (130, 20_000)]),
            with(&[(2000, 20_000), (4500, 20_000)]),
            with(&[(20, 20_000), (300, 20_000)]),
            with(&[(120, 20_000), (9000, 3)]),
            with(&[(50, 20_000), (9800, 100)]),
            with(&[(100, 100), (2200, 20_000)]),
            with(&[(9000, 20_000)]),
            one_path,
        ] {
            assert_eq!(RULE.findings(&target), []);
        }
    }
}
