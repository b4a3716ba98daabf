//! Log lines about the paths of an attached disk: a path that cannot be connected, is lost or is back, and I/O that waits because
//! no path is usable. States are looked at from time to time, and nothing is changed.

use std::time::{Duration, Instant};

use chart::units;
use engine::address::NetAddress;
use engine::initiator::{PathState, PathStatus, Paths};
use engine::ring;
use engine::seldom::Seldom;

/// Time after which a first connection counts as unanswered.
const SLOW: Duration = Duration::from_secs(3);
/// The ANA states in which a path takes commands. One that is not known yet is tried.
const USABLE: [&str; 3] = ["optimized", "non-optimized", "unknown"];

/// States of the paths of one disk when they were last looked at.
#[derive(Debug, Default)]
pub(super) struct PathNotice {
    paths: Vec<Known>,
    /// Since when no path is usable.
    waits_since: Option<Instant>,
    /// Paths that come and go fill no log.
    changes: Seldom,
}

/// State of a path.
#[derive(Debug)]
struct Known {
    address: NetAddress,
    state: PathState,
    reconnects: u64,
    since: Instant,
    /// Set once the log has that it is not live.
    is_logged: bool,
}

impl PathNotice {
    /// Logs the changes of the paths' states.
    pub(super) fn look(&mut self, paths: &Paths) {
        let namespace = paths.namespace();
        let disk = format!("namespace {}", namespace.nsid);
        for line in self.changed(&paths.status(), Instant::now()) {
            match self.changes.count_to_log(ring::now()) {
                Some(times) if times > 15 => tracing::warn!(
                    target: "selvedge::commands::attach::path_notice",
                    times, "{disk}: {line}"
                ),
                Some(_) => {
                    tracing::warn!(target: "selvedge::commands::attach::path_notice", "{disk}: {line}");
                }
                None => {}
            }
        }
    }

    /// A line for each change.
    fn changed(&mut self, all: &[PathStatus], now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        for (at, path) in all.iter().enumerate() {
            // The disk is used since a path is live; what comes first is not new.
            if at >= self.paths.len() {
                let known = Known {
                    address: path.address.into(),
                    state: PathState::Connecting,
                    reconnects: 0,
                    since: now,
                    is_logged: false,
                };
                self.paths.push(known);
            }
            lines.extend(self.paths[at].changed(path, now));
        }
        let is_usable = |path: &PathStatus| path.state == PathState::Live && USABLE.contains(&path.ana);
        match (all.iter().any(is_usable), self.waits_since) {
            (false, None) => {
                self.waits_since = Some(now);
                lines.push("no path is usable: I/O waits until one is, or --ctrl-loss-tmo or --fast_io_fail_tmo is over".to_owned());
            }
            (true, Some(since)) => {
                self.waits_since = None;
                lines.push(format!("a path is usable: I/O goes on after {}", words(now - since)));
            }
            _ => {}
        }
        lines
    }
}

impl Known {
    fn changed(&mut self, path: &PathStatus, now: Instant) -> Option<String> {
        let address = self.address;
        let was_live = self.state == PathState::Live;
        let has_been_back = path.reconnects > self.reconnects;
        let lasted = words(now - self.since);
        let is_new = path.state != self.state;
        if is_new {
            self.since = now;
        }
        (self.state, self.reconnects) = (path.state, path.reconnects);
        let why = path.error.as_deref().unwrap_or("no answer yet");
        match path.state {
            PathState::Live if self.is_logged => {
                self.is_logged = false;
                Some(format!("path {address}: connected, after {lasted}"))
            }
            // Between two looks.
            PathState::Live if was_live && has_been_back => {
                Some(format!("path {address}: lost, and connected again"))
            }
            PathState::Live => None,
            PathState::Dead if is_new => {
                self.is_logged = true;
                Some(format!("path {address}: given up: {why}"))
            }
            PathState::Reconnecting if !self.is_logged => {
                self.is_logged = true;
                Some(format!("path {address}: lost: {why}; trying to connect again"))
            }
            PathState::Connecting
                if !self.is_logged && (path.error.is_some() || now - self.since >= SLOW) =>
            {
                self.is_logged = true;
                Some(format!("path {address}: not connected: {why}; trying again"))
            }
            PathState::Dead | PathState::Reconnecting | PathState::Connecting => None,
        }
    }
}

fn words(time: Duration) -> String {
    units::plural(time.as_secs().max(1), "second")
}

#[cfg(test)]
mod tests {
    use engine::transport::Transport;

    use super::*;

    fn path(port: u16, state: PathState, reconnects: u64) -> PathStatus {
        PathStatus {
            address: ([127, 0, 0, 1], port).into(),
            transport: Transport::Tcp,
            state,
            ana: if state == PathState::Live { "optimized" } else { "unknown" },
            cntlid: None,
            reconnects,
            error: (state != PathState::Live).then(|| "Connection refused".to_owned()),
        }
    }

    /// Lines about these states, a second after each other.
    fn said(steps: &[&[PathStatus]]) -> Vec<String> {
        let (mut notice, begin) = (PathNotice::default(), Instant::now());
        let looks = steps.iter().zip(0..);
        looks.flat_map(|(paths, at)| notice.changed(paths, begin + Duration::from_secs(at))).collect()
    }

    #[test]
    fn a_path_that_never_came_is_named_once_and_again_when_it_comes() {
        let live = || path(1, PathState::Live, 0);
        let never = || path(2, PathState::Connecting, 0);
        let lines = said(&[
            &[live(), never()],
            &[live(), never()],
            &[live(), never()],
            &[live(), path(2, PathState::Live, 1)],
        ]);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("127.0.0.1:2: not connected: Connection refused"), "{lines:?}");
        assert!(lines[1].contains("127.0.0.1:2: connected, after 3 seconds"), "{lines:?}");
        // No refusal comes, and no answer.
        let silent = || PathStatus { error: None, ..never() };
        let steps: Vec<Vec<PathStatus>> = (0..6).map(|_| vec![live(), silent()]).collect();
        let steps: Vec<&[PathStatus]> = steps.iter().map(Vec::as_slice).collect();
        let lines = said(&steps);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("no answer yet"), "{lines:?}");
    }

    #[test]
    fn the_last_path_is_the_one_that_io_waits_for() {
        let (live, lost) = (|n| path(1, PathState::Live, n), || path(1, PathState::Reconnecting, 0));
        let lines = said(&[&[live(0)], &[lost()], &[lost()], &[live(1)], &[live(2)]]);
        assert_eq!(lines.len(), 5, "{lines:?}");
        for (line, words) in lines.iter().zip([
            "127.0.0.1:1: lost: Connection refused",
            "I/O waits",
            "127.0.0.1:1: connected, after 2 seconds",
            "I/O goes on after 2 seconds",
            "lost, and connected again",
        ]) {
            assert!(line.contains(words), "{line}");
        }
        // With another path nothing waits; one that is inaccessible is none.
        let other = |ana| PathStatus { ana, ..path(2, PathState::Live, 0) };
        assert_eq!(said(&[&[live(0), other("optimized")], &[lost(), other("non-optimized")]]).len(), 1);
        assert_eq!(said(&[&[live(0), other("optimized")], &[lost(), other("inaccessible")]]).len(), 2);
    }

    #[test]
    fn a_path_that_is_given_up_is_named() {
        for before in [PathState::Live, PathState::Reconnecting, PathState::Connecting] {
            let dead = || path(1, PathState::Dead, 0);
            let lines = said(&[&[path(1, before, 0)], &[dead()], &[dead()]]);
            let given_up = lines.iter().filter(|line| line.contains("given up: Connection refused"));
            assert_eq!(given_up.count(), 1, "{lines:?}");
        }
    }
}
