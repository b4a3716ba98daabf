//! The policy `latency`: the path that is expected to have a command done first. Each path's expectation comes from what
//! it did lately with commands of the same kind (`estimate`), so that a lossy, slow or far path gets what it can carry.
//! It neither measures nor remembers anything itself.

use super::candidate::{Candidate, usable};

/// Commands a path of which nothing is known gets to show what it can.
const TRIAL: u32 = 4;
/// A path that has had nothing to do for this time gets a command, to see how it is now.
const PROBE_AFTER_NS: u64 = 500_000_000;
/// Ratio to the best up to which another path is taken because the best has no room.
const SECOND_BEST: u64 = 2;
/// Silence beyond what is expected counts this many times: a path that has stopped is left alone long before it is
/// declared dead.
const SILENCE_WEIGHT: u64 = 4;
/// Silence that means nothing yet, in nanoseconds: threads are not always scheduled at once.
const SILENCE_GRACE_NS: u64 = 10_000_000;

/// The path to take now; `None` when there is none or when waiting for one with room is better.
pub(super) fn choose(paths: &[Candidate]) -> Option<usize> {
    let candidates = usable(paths);
    let probe = candidates.clone().find(|(_, path)| {
        path.has_room && path.in_flight == 0 && (path.idle_ns >= PROBE_AFTER_NS || path.service_ns == 0)
    });
    if let Some((at, _)) = probe {
        return Some(at);
    }
    let best = candidates.clone().map(|(_, path)| expected_ns(path)).min()?;
    let (at, path) =
        candidates.filter(|(_, path)| path.has_room).min_by_key(|(_, path)| expected_ns(path))?;
    (expected_ns(path) <= best.saturating_mul(SECOND_BEST)).then_some(at)
}

/// Expected completion of a command given to `path` now.
fn expected_ns(path: &Candidate) -> u64 {
    let ahead = u64::from(path.in_flight);
    if path.service_ns == 0 {
        return if path.in_flight < TRIAL { 0 } else { u64::MAX };
    }
    let usual = path.service_ns.saturating_mul(ahead + 1);
    let overdue = path.silent_ns.saturating_sub(usual.saturating_add(SILENCE_GRACE_NS));
    usual.saturating_add(overdue.saturating_mul(SILENCE_WEIGHT))
}

#[cfg(test)]
mod tests {
    use super::super::candidate::Access;
    use super::*;

    const MS: u64 = 1_000_000;

    fn path(service_ns: u64, in_flight: u32) -> Candidate {
        Candidate { access: Access::Optimized, has_room: true, in_flight, service_ns, ..Candidate::default() }
    }

    #[test]
    fn each_path_gets_what_it_carries() {
        // A path of a quarter of the speed, and no room to learn: what is in flight settles at one to four.
        let mut paths = [path(MS, 1), path(4 * MS, 1)];
        for _ in 0..98 {
            let at = choose(&paths).unwrap();
            paths[at].in_flight += 1;
        }
        assert_eq!((paths[0].in_flight, paths[1].in_flight), (80, 20));
    }

    #[test]
    fn a_path_that_stopped_is_left_alone() {
        let stopped = Candidate { silent_ns: 500 * MS, ..path(MS, 20) };
        assert_eq!(choose(&[stopped, path(MS, 60)]), Some(1));
        // Even when the other has no room: waiting for it is better.
        let full = Candidate { has_room: false, ..path(MS, 60) };
        assert_eq!(choose(&[stopped, full]), None);
        // When all have stopped, one is as good as the other.
        assert!(choose(&[stopped, stopped]).is_some());
    }

    #[test]
    fn an_idle_path_is_tried_again() {
        let bad = Candidate { idle_ns: PROBE_AFTER_NS, ..path(1000 * MS, 0) };
        assert_eq!(choose(&[path(MS, 3), bad]), Some(1));
        let asked = Candidate { idle_ns: 0, in_flight: 1, ..bad };
        assert_eq!(choose(&[path(MS, 3), asked]), Some(0), "one command is enough to see");
    }

    #[test]
    fn an_unknown_path_is_tried_with_a_few() {
        let mut paths = [path(MS, 10), path(0, 0)];
        for _ in 0..TRIAL {
            assert_eq!(choose(&paths), Some(1));
            paths[1].in_flight += 1;
        }
        assert_eq!(choose(&paths), Some(0));
        assert!(choose(&[path(0, 100)]).is_some(), "where there is nothing else, it is taken all the same");
    }

    #[test]
    fn other_paths_are_for_when_there_is_no_optimized_one() {
        let slow = Candidate { access: Access::NonOptimized, ..path(1, 0) };
        assert_eq!(choose(&[slow, path(1000 * MS, 50)]), Some(1));
        assert_eq!(choose(&[slow, Candidate { access: Access::None, ..path(1, 0) }]), Some(0));
        assert_eq!(choose(&[]), None);
    }
}
