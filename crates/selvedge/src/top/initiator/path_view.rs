//! The paths of a run as lines that change once a second, and the news of those that come and go. What a path carried in
//! all is a report's.

use chart::units;
use engine::initiator::{PathState, PathStatus};

use crate::report::paths::PathReport;

/// Connections of a path that are told one by one.
const CONNECTIONS_SHOWN_MAX: usize = 8;

/// What was shown last.
#[derive(Debug, Default)]
pub(crate) struct PathView {
    /// Commands of each path, and the sum of their times.
    before: Vec<(u64, f64)>,
    states: Vec<PathState>,
}

impl PathView {
    /// A line for each path, about what happened since the last call.
    pub(crate) fn lines(&mut self, paths: &[PathReport]) -> Vec<String> {
        self.before.resize(paths.len(), (0, 0.0));
        let now: Vec<(u64, f64)> =
            paths.iter().map(|path| (path.ios, path.lat_mean_ns * path.ios as f64)).collect();
        let since = |at: usize| {
            let (ios, time) = self.before[at];
            (now[at].0.saturating_sub(ios), (now[at].1 - time).max(0.0))
        };
        let total: u64 = (0..paths.len()).map(|at| since(at).0).sum();
        let lines = paths.iter().enumerate().map(|(at, path)| line(path, since(at), total)).collect();
        self.before = now;
        lines
    }

    /// What is new about the paths' states.
    pub(crate) fn news(&mut self, paths: &[PathStatus]) -> Vec<String> {
        let states: Vec<PathState> = paths.iter().map(|path| path.state).collect();
        if self.states.len() != states.len() {
            // All paths that are not live have said so at the beginning.
            self.states = vec![PathState::Live; states.len()];
        }
        let mut news = Vec::new();
        for (path, before) in paths.iter().zip(&self.states) {
            if path.state == *before {
                continue;
            }
            let reason = path.error.as_deref().unwrap_or("no reason known");
            news.push(match path.state {
                PathState::Live => format!("path {} is back", path.address),
                PathState::Dead => format!("path {} is given up: {reason}", path.address),
                _ => format!("path {} is lost: {reason}", path.address),
            });
        }
        self.states = states;
        news
    }
}

fn line(path: &PathReport, (ios, time): (u64, f64), total: u64) -> String {
    let share = if total > 0 { 100.0 * ios as f64 / total as f64 } else { 0.0 };
    let latency = if ios > 0 { units::time_ns(time / ios as f64) } else { "-".to_owned() };
    let streams: Vec<_> =
        path.connections.iter().filter_map(|connection| connection.stream.as_ref()).collect();
    let retransmits: u64 = streams.iter().map(|stream| stream.retransmits).sum();
    let each = |of: fn(&engine::transport::info::StreamInfo) -> u64| {
        let mut text: Vec<String> =
            streams.iter().take(CONNECTIONS_SHOWN_MAX).map(|stream| short(of(stream))).collect();
        if streams.len() > CONNECTIONS_SHOWN_MAX {
            text.push("...".to_owned());
        }
        text.join(" ")
    };
    format!(
        "  {:<21} {:<12} {:<13} {share:5.1} %  {latency:>8}  in flight {:<4} retransmits {retransmits:<5} Recv-Q {}  \
         Send-Q {}",
        path.status.address.to_string(),
        format!("{:?}", path.status.state).to_lowercase(),
        path.status.ana,
        path.in_flight,
        each(|stream| stream.unread_bytes),
        each(|stream| stream.unsent_bytes),
    )
}

/// A number of bytes in few letters.
fn short(bytes: u64) -> String {
    match bytes {
        0..1024 => bytes.to_string(),
        1024..0x10_0000 => format!("{}k", bytes >> 10),
        _ => format!("{}M", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use engine::transport::Transport;

    use super::*;

    fn path(state: PathState, ios: u64, lat_mean_ns: f64) -> PathReport {
        let status = PathStatus {
            address: "10.1.1.1:4420".parse().unwrap(),
            transport: Transport::Tcp,
            state,
            ana: "optimized",
            cntlid: Some(1),
            reconnects: 0,
            error: Some("it was cut".to_owned()),
        };
        PathReport {
            status,
            ios,
            bytes: 0,
            share_percent: 0.0,
            lat_mean_ns,
            requeued: 0,
            in_flight: 7,
            connections: Vec::new(),
        }
    }

    #[test]
    fn lines_are_about_what_is_new() {
        let mut view = PathView::default();
        view.lines(&[path(PathState::Live, 100, 1e6), path(PathState::Live, 100, 1e6)]);
        let lines = view.lines(&[path(PathState::Live, 130, 1e6), path(PathState::Live, 110, 2e6)]);
        assert!(lines[0].contains("75.0 %") && lines[0].contains("1.00 ms"), "{}", lines[0]);
        assert!(lines[1].contains("25.0 %") && lines[1].contains("in flight 7"), "{}", lines[1]);
    }

    #[test]
    fn states_are_news_when_they_change() {
        let mut view = PathView::default();
        let status = |state| path(state, 0, 0.0).status;
        assert!(view.news(&[status(PathState::Live)]).is_empty());
        assert_eq!(view.news(&[status(PathState::Reconnecting)]), ["path 10.1.1.1:4420 is lost: it was cut"]);
        assert!(view.news(&[status(PathState::Reconnecting)]).is_empty());
        assert_eq!(view.news(&[status(PathState::Live)]), ["path 10.1.1.1:4420 is back"]);
        assert!(view.news(&[status(PathState::Dead)])[0].contains("given up"));
    }
}
