//! Which of the kernel's connections to one address is which queue of which controller, where the kernel does not say.
//!
//! The kernel's initiator connects a controller's queues one after the other, the admin queue
//! first, and each connection gets the next free number of an inode and a source port. Numbers of
//! inodes are given to each processor by the 1,024, so that they tell the order within such a
//! batch. Ports to one address go upwards by small steps where the kernel chooses them, so that
//! they tell the order too, but only for ten seconds: then it goes on somewhere else
//! (`EPHEMERAL_PORT_SHUFFLE_PERIOD`). So connections fall into runs of ports. Where each controller
//! has a run of its own, and each has another number of queues, the runs are theirs. Else runs are
//! put in order by the inodes of a batch that two of them share, and a controller's connections
//! stand next to each other in that order. Among controllers, the one that connected first has the
//! lower controller identifier, where the target counts up, and the lower number in its name; where
//! these two disagree, only one that fits can be recognised, by the bytes that the admin queue has
//! received: it has got an Identify Controller data structure at least.
//!
//! What is assumed: no two controllers of one address connected at the very same time, as they may when their target was
//! away for a while and both try again. As long as their I/O queues have not read more than a page, it shows.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::FlowSource;

/// Numbers of inodes that one processor gets at a time (`LAST_INO_BATCH`).
const INODE_BATCH: u32 = 1024;
/// The largest step from one source port to the next that is taken for one upwards: the kernel's own are of some ports,
/// and others may have been taken between.
const PORT_STEP_MAX: u16 = 128;
/// Bytes that an admin queue has received at least: an Identify Controller data structure.
const ADMIN_BYTES_MIN: u64 = 4096;

/// A controller that wants connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanting {
    /// Controller identifier (CNTLID), where it is known.
    pub(super) controller_id: Option<u32>,
    /// Number in its name.
    pub(super) instance: u32,
    /// Queues whose connections are not known yet, in order.
    pub(super) queue_ids: Vec<u16>,
}

/// A connection of the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) inode: u32,
    pub(super) port: u16,
    pub(super) received_bytes: Option<u64>,
}

/// Queue that a connection was identified as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pairing {
    /// Index of the candidate.
    pub(super) candidate: usize,
    /// Index of the controller; absent where it may be any.
    pub(super) controller: Option<usize>,
    /// The queue; absent where it may be any.
    pub(super) queue_id: Option<u16>,
    pub(super) source: FlowSource,
}

/// Pairs connections with queues of controllers, all of one address.
pub(super) fn pair(controllers: &[Wanting], candidates: &[Candidate]) -> Vec<Pairing> {
    let wanted: usize = controllers.iter().map(|controller| controller.queue_ids.len()).sum();
    let only = (controllers.len() == 1).then_some(0);
    if wanted != candidates.len() {
        // Some are missing, or some are not queues: each can be any.
        let unknown =
            |candidate| Pairing { candidate, controller: only, queue_id: None, source: FlowSource::Guessed };
        return (0..candidates.len()).map(unknown).collect();
    }
    let (connected, order, is_sure) = match by_size(controllers, candidates) {
        Some(connected) => (connected, (0..controllers.len()).collect(), true),
        None => {
            let (connected, is_sure) = in_order(candidates);
            let (order, is_only_order) = controller_order(controllers, candidates, &connected);
            (connected, order, is_sure && is_only_order)
        }
    };
    let source = if is_sure { FlowSource::Derived } else { FlowSource::Guessed };
    let queues =
        order.iter().flat_map(|at| controllers[*at].queue_ids.iter().map(move |queue| (*at, *queue)));
    let pairs = connected.iter().zip(queues).map(|(candidate, (controller, queue))| Pairing {
        candidate: *candidate,
        controller: Some(controller),
        queue_id: Some(queue),
        source,
    });
    pairs.collect()
}

/// The batch that an inode's number is of.
fn batch(candidate: &Candidate) -> u32 {
    candidate.inode.saturating_sub(1) / INODE_BATCH
}

/// Candidates in runs of ports that go upwards by small steps, each run in that order.
fn runs(candidates: &[Candidate]) -> Vec<Vec<usize>> {
    let mut by_port: Vec<usize> = (0..candidates.len()).collect();
    by_port.sort_by_key(|at| candidates[*at].port);
    let is_near = |one: &usize, next: &usize| {
        (1..=PORT_STEP_MAX).contains(&(candidates[*next].port - candidates[*one].port))
    };
    by_port.chunk_by(is_near).map(<[usize]>::to_vec).collect()
}

/// True if no inodes of one batch say that a later one was first.
fn is_possible(candidates: &[Candidate], order: &[usize]) -> bool {
    let mut last: BTreeMap<u32, u32> = BTreeMap::new();
    order.iter().all(|at| {
        let candidate = &candidates[*at];
        let before = last.insert(batch(candidate), candidate.inode);
        before.is_none_or(|before| before < candidate.inode)
    })
}

/// The connections of each controller, one controller after the other, where each has a run of its own that can only be
/// its by their sizes.
fn by_size(controllers: &[Wanting], candidates: &[Candidate]) -> Option<Vec<usize>> {
    let runs = runs(candidates);
    if runs.len() != controllers.len() || controllers.len() < 2 {
        return None;
    }
    let mut connected = Vec::new();
    for controller in controllers {
        let mut fitting = runs.iter().filter(|run| run.len() == controller.queue_ids.len());
        let (Some(run), None) = (fitting.next(), fitting.next()) else { return None };
        if !is_possible(candidates, run) || !begins(controller, run.first().map(|at| &candidates[*at])) {
            return None;
        }
        connected.extend(run);
    }
    // Two controllers of one size would have the same run, and another controller none.
    (connected.len() == candidates.len() && is_distinct(&connected)).then_some(connected)
}

fn is_distinct(positions: &[usize]) -> bool {
    let mut sorted = positions.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).all(|two| two[0] != two[1])
}

/// Candidates in the order in which they were connected, and whether that is sure.
fn in_order(candidates: &[Candidate]) -> (Vec<usize>, bool) {
    let mut by_inode: Vec<usize> = (0..candidates.len()).collect();
    by_inode.sort_by_key(|at| candidates[*at].inode);
    let is_one_batch =
        by_inode.windows(2).all(|two| batch(&candidates[two[0]]) == batch(&candidates[two[1]]));
    if is_one_batch && is_possible(candidates, &by_inode) {
        return (by_inode, true);
    }
    let mut left = runs(candidates);
    let mut order = Vec::new();
    while !left.is_empty() {
        let is_first = |run: &[usize]| {
            left.iter()
                .filter(|other| *other != run)
                .all(|other| compare(candidates, run, other) == Some(Ordering::Less))
        };
        let Some(first) = left.iter().position(|run| is_first(run)) else { return (by_inode, false) };
        order.extend(left.remove(first));
    }
    if is_possible(candidates, &order) { (order, true) } else { (by_inode, false) }
}

/// Order of two runs, where they share batches of inodes and all of those agree.
fn compare(candidates: &[Candidate], one: &[usize], other: &[usize]) -> Option<Ordering> {
    let mut found = None;
    for (first, second) in one.iter().flat_map(|first| other.iter().map(move |second| (first, second))) {
        let (first, second) = (&candidates[*first], &candidates[*second]);
        if batch(first) != batch(second) {
            continue;
        }
        let order = first.inode.cmp(&second.inode);
        if found.is_some_and(|found| found != order) {
            return None;
        }
        found = Some(order);
    }
    found
}

/// True if a controller's first connection can be this one: an admin queue has received something.
fn begins(controller: &Wanting, first: Option<&Candidate>) -> bool {
    let received = first.and_then(|first| first.received_bytes);
    controller.queue_ids.first() != Some(&0) || received.is_none_or(|bytes| bytes >= ADMIN_BYTES_MIN)
}

/// Controllers in the order in which they connected, and whether that is sure.
fn controller_order(
    controllers: &[Wanting],
    candidates: &[Candidate],
    connected: &[usize],
) -> (Vec<usize>, bool) {
    let mut by_id: Vec<usize> = (0..controllers.len()).collect();
    let mut by_name = by_id.clone();
    by_name.sort_by_key(|at| controllers[*at].instance);
    by_id.sort_by_key(|at| (controllers[*at].controller_id, controllers[*at].instance));
    let fits = |order: &[usize]| {
        let mut position = 0;
        order.iter().all(|at| {
            let first = connected.get(position).map(|candidate| &candidates[*candidate]);
            position += controllers[*at].queue_ids.len();
            begins(&controllers[*at], first)
        })
    };
    match (fits(&by_id), fits(&by_name)) {
        (true, true) if by_id == by_name => (by_id, true),
        (true, false) => (by_id, true),
        (false, true) => (by_name, true),
        _ => (by_id, false),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wanting(controller_id: u32, instance: u32, queues: u16) -> Wanting {
        Wanting { controller_id: Some(controller_id), instance, queue_ids: (0..queues).collect() }
    }

    fn candidates(ends: &[(u32, u16)]) -> Vec<Candidate> {
        ends.iter()
            .map(|(inode, port)| Candidate { inode: *inode, port: *port, received_bytes: None })
            .collect()
    }

    fn paired(pairs: &[Pairing]) -> Vec<(usize, Option<usize>, Option<u16>)> {
        pairs.iter().map(|pair| (pair.candidate, pair.controller, pair.queue_id)).collect()
    }

    #[test]
    fn two_controllers_follow_each_other() {
        let sockets = candidates(&[(2010, 40), (2001, 10), (2011, 50), (2002, 20), (2003, 30)]);
        let pairs = pair(&[wanting(2, 1, 2), wanting(1, 0, 3)], &sockets);
        assert!(pairs.iter().all(|pair| pair.source == FlowSource::Derived));
        let expected = [
            (1, Some(1), Some(0)),
            (3, Some(1), Some(1)),
            (4, Some(1), Some(2)),
            (0, Some(0), Some(0)),
            (2, Some(0), Some(1)),
        ];
        assert_eq!(paired(&pairs), expected);
    }

    #[test]
    fn ports_tell_the_order_where_processors_changed() {
        let sockets = candidates(&[(9001, 40000), (1025, 40002), (9002, 40008)]);
        let pairs = pair(&[wanting(1, 0, 3)], &sockets);
        assert_eq!(paired(&pairs), [(0, Some(0), Some(0)), (1, Some(0), Some(1)), (2, Some(0), Some(2))]);
        assert_eq!(pairs[0].source, FlowSource::Derived);
        let sockets = candidates(&[(9001, 40000), (1025, 50000), (9002, 33000)]);
        let pairs = pair(&[wanting(1, 0, 3)], &sockets);
        assert!(pairs.iter().all(|pair| pair.source == FlowSource::Guessed && pair.queue_id.is_some()));
    }

    /// Connections of Linux 6.12 for a controller with 2 I/O queues and then one with 4, more than
    /// ten seconds later.
    fn two_windows() -> Vec<Candidate> {
        let sockets = [
            (150, 51702, 103_232),
            (2078, 51710, 152),
            (2079, 51722, 4296),
            (155, 37992, 103_232),
            (2142, 37998, 152),
            (2143, 38000, 4296),
            (2144, 38010, 152),
            (1253, 38026, 152),
        ];
        let candidate = |(inode, port, bytes)| Candidate { inode, port, received_bytes: Some(bytes) };
        sockets.into_iter().map(candidate).collect()
    }

    fn in_this_order(first: u16, second: u16) -> Vec<(usize, Option<usize>, Option<u16>)> {
        let queues = |controller, count, from: u16| {
            (0..count).map(move |queue| (usize::from(from + queue), Some(controller), Some(queue)))
        };
        queues(0, first, 0).chain(queues(1, second, first)).collect()
    }

    #[test]
    fn ports_go_on_elsewhere_after_ten_seconds() {
        // By their sizes, whatever the identifiers and names are.
        for (ids, names) in [((1, 2), (0, 1)), ((3, 2), (0, 1)), ((1, 2), (1, 0))] {
            let controllers = [wanting(ids.0, names.0, 3), wanting(ids.1, names.1, 5)];
            let pairs = pair(&controllers, &two_windows());
            assert!(pairs.iter().all(|pair| pair.source == FlowSource::Derived), "{ids:?}");
            assert_eq!(paired(&pairs), in_this_order(3, 5));
        }
        // Of one size, by the inodes that one processor gave.
        let sockets = &two_windows()[..6];
        let pairs = pair(&[wanting(1, 0, 3), wanting(2, 1, 3)], sockets);
        assert!(pairs.iter().all(|pair| pair.source == FlowSource::Derived));
        assert_eq!(paired(&pairs), in_this_order(3, 3));
    }

    #[test]
    fn runs_in_no_order_or_against_the_inodes_are_no_evidence() {
        // No batch in common.
        let sockets = candidates(&[(1, 100), (2, 110), (5000, 40000), (5001, 40010)]);
        let pairs = pair(&[wanting(1, 0, 2), wanting(2, 1, 2)], &sockets);
        assert!(pairs.iter().all(|pair| pair.source == FlowSource::Guessed));
        // Two windows that touch, the later one below: the inodes tell.
        let sockets = candidates(&[(20, 1000), (21, 1010), (5000, 1020), (10, 1030), (11, 1040)]);
        let pairs = pair(&[wanting(1, 0, 2), wanting(2, 1, 3)], &sockets);
        assert!(pairs.iter().all(|pair| pair.source == FlowSource::Guessed));
        // A run of the right size whose first connection is not an admin queue.
        let mut sockets = two_windows();
        sockets[3].received_bytes = Some(152);
        let pairs = pair(&[wanting(1, 0, 3), wanting(2, 1, 5)], &sockets);
        assert!(pairs.iter().all(|pair| pair.source == FlowSource::Guessed));
    }

    #[test]
    fn a_number_of_connections_that_does_not_fit_is_no_evidence() {
        let sockets = candidates(&[(1, 1), (2, 2)]);
        let pairs = pair(&[wanting(1, 0, 3)], &sockets);
        assert!(pairs.iter().all(|pair| pair.source == FlowSource::Guessed && pair.queue_id.is_none()));
        assert!(pairs.iter().all(|pair| pair.controller == Some(0)));
        let pairs = pair(&[wanting(1, 0, 3), wanting(2, 1, 3)], &sockets);
        assert!(pairs.iter().all(|pair| pair.controller.is_none()));
        assert!(pair(&[], &[]).is_empty());
    }

    #[test]
    fn what_admin_queues_received_decides_between_two_orders() {
        let mut sockets = candidates(&[(1, 10), (2, 20), (3, 30), (4, 40), (5, 50)]);
        // Two orders are possible: 2 and 3 queues, or 3 and 2.
        let controllers = [wanting(9, 0, 2), wanting(4, 1, 3)];
        assert!(pair(&controllers, &sockets).iter().all(|pair| pair.source == FlowSource::Guessed));
        for (socket, bytes) in sockets.iter_mut().zip([9000, 152, 9000, 152, 152]) {
            socket.received_bytes = Some(bytes);
        }
        let pairs = pair(&controllers, &sockets);
        assert!(pairs.iter().all(|pair| pair.source == FlowSource::Derived));
        assert_eq!(paired(&pairs)[2], (2, Some(1), Some(0)));
        // No connection has received enough to be an admin queue.
        sockets.iter_mut().for_each(|socket| socket.received_bytes = Some(152));
        assert!(pair(&controllers, &sockets).iter().all(|pair| pair.source == FlowSource::Guessed));
    }

    proptest! {
        #[test]
        fn every_connection_is_paired_once(
            counts in proptest::collection::vec((0_u32..4, 1_u16..5), 0..4),
            ends in proptest::collection::vec((0_u32..5000, any::<u16>(), proptest::option::of(0_u64..10_000)), 0..16),
        ) {
            let controllers: Vec<Wanting> = counts.iter().enumerate()
                .map(|(at, (id, queues))| wanting(*id, at as u32, *queues)).collect();
            let sockets: Vec<Candidate> = ends.iter()
                .map(|(inode, port, received_bytes)| Candidate {
                    inode: *inode, port: *port, received_bytes: *received_bytes,
                }).collect();
            let pairs = pair(&controllers, &sockets);
            let mut paired: Vec<usize> = pairs.iter().map(|pair| pair.candidate).collect();
            paired.sort_unstable();
            prop_assert_eq!(paired, (0..sockets.len()).collect::<Vec<_>>());
            let mut queues: Vec<_> = pairs.iter().filter_map(|pair| Some((pair.controller?, pair.queue_id?))).collect();
            let count = queues.len();
            queues.sort_unstable();
            queues.dedup();
            prop_assert_eq!(queues.len(), count, "no queue has two connections");
        }
    }
}
