//! The paths of a run as lines that change once a second, and the news of those that come and go. What a path carried in
//! all is a report's.

use chart::units;
use engine::initiator::{PathState, PathStatus};

use crate::report::paths::PathReport;

/// Maximum number of a path's connections that are listed.
const CONNECTIONS_SHOWN_MAX: usize = 8;

/// State shown last.
#[derive(Debug, Default)]
pub(crate) struct PathView {
    /// Commands of each path, and the sum of their times.
    before: Vec<(u64, f64)>,
    states: Vec<PathState>,
}

impl PathView {
    /// A line for each path, about what happened since the last call, and none wider than `columns`.
    pub(crate) fn lines(&mut self, paths: &[PathReport], columns: Option<usize>) -> Vec<String> {
        self.before.resize(paths.len(), (0, 0.0));
        let now: Vec<(u64, f64)> =
            paths.iter().map(|path| (path.ios, path.lat_mean_ns * path.ios as f64)).collect();
        let since = |at: usize| {
            let (ios, time) = self.before[at];
            (now[at].0.saturating_sub(ios), (now[at].1 - time).max(0.0))
        };
        let total: u64 = (0..paths.len()).map(|at| since(at).0).sum();
        let rows: Vec<_> = paths.iter().enumerate().map(|(at, path)| cells(path, since(at), total)).collect();
        self.before = now;
        fitted(&rows, columns)
    }

    /// Returns the changes of the paths' states.
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

/// Number of cells of a path. Minimum widths keep columns in place while numbers change.
const CELLS: usize = 9;
const WIDTHS: [usize; CELLS] = [21, 12, 13, 7, 8, 14, 17, 8, 8];
/// Cells to leave out if there is no room for all, the first one first; others stay.
const LEFT_OUT: [usize; 6] = [8, 7, 6, 2, 5, 1];
/// Columns before a line's first cell, and between two.
const INDENT: usize = 2;
const GAP: usize = 2;

fn cells(path: &PathReport, (ios, time): (u64, f64), total: u64) -> [String; CELLS] {
    let share = if total > 0 { 100.0 * ios as f64 / total as f64 } else { 0.0 };
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
    [
        path.status.address.to_string(),
        format!("{:?}", path.status.state).to_lowercase(),
        path.status.ana.to_owned(),
        format!("{share:5.1} %"),
        format!("{:>8}", if ios > 0 { units::time_ns(time / ios as f64) } else { "-".to_owned() }),
        format!("in flight {}", path.in_flight),
        format!("retransmits {retransmits}"),
        format!("Recv-Q {}", each(|stream| stream.unread_bytes)),
        format!("Send-Q {}", each(|stream| stream.unsent_bytes)),
    ]
}

/// The rows as lines that line up. A line that wraps would leave a copy of itself behind each time it changes, so what
/// has no room is left out, the least important first.
fn fitted(rows: &[[String; CELLS]], columns: Option<usize>) -> Vec<String> {
    let room = columns.map_or(usize::MAX, |columns| columns.saturating_sub(1));
    let widest = |cell: usize| rows.iter().map(|row| row[cell].chars().count()).max().unwrap_or(0);
    let mut widths: Vec<usize> = (0..CELLS).map(|cell| widest(cell).max(WIDTHS[cell])).collect();
    let mut shown = [true; CELLS];
    let length = |shown: &[bool; CELLS], widths: &[usize]| {
        INDENT + (0..CELLS).filter(|cell| shown[*cell]).map(|cell| widths[cell] + GAP).sum::<usize>() - GAP
    };
    if length(&shown, &widths) > room {
        widths = (0..CELLS).map(widest).collect();
    }
    for cell in LEFT_OUT {
        if length(&shown, &widths) <= room {
            break;
        }
        shown[cell] = false;
    }
    let line = |row: &[String; CELLS]| {
        let cells = (0..CELLS).filter(|cell| shown[*cell]);
        let cells: Vec<String> = cells.map(|cell| format!("{:<1$}", row[cell], widths[cell])).collect();
        let line = format!("{:INDENT$}{}", "", cells.join(&" ".repeat(GAP)));
        line.trim_end().chars().take(room).collect()
    };
    rows.iter().map(line).collect()
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
            stages: None,
            requeued: 0,
            in_flight: 7,
            connections: Vec::new(),
        }
    }

    #[test]
    fn lines_are_about_what_is_new() {
        let mut view = PathView::default();
        view.lines(&[path(PathState::Live, 100, 1e6), path(PathState::Live, 100, 1e6)], None);
        let lines = view.lines(&[path(PathState::Live, 130, 1e6), path(PathState::Live, 110, 2e6)], None);
        assert!(lines[0].contains("75.0 %") && lines[0].contains("1.00 ms"), "{}", lines[0]);
        assert!(lines[1].contains("25.0 %") && lines[1].contains("in flight 7"), "{}", lines[1]);
    }

    #[test]
    fn lines_fit_and_keep_what_matters_most() {
        let paths = [path(PathState::Live, 130, 1e6), path(PathState::Reconnecting, 110, 2e6)];
        for columns in [20, 30, 40, 60, 80, 100, 120, 200] {
            let lines = PathView::default().lines(&paths, Some(columns));
            assert!(lines.iter().all(|line| line.chars().count() < columns), "{columns}: {lines:?}");
            let has = |part: &str| lines.iter().all(|line| line.contains(part));
            assert!(columns < 40 || has("10.1.1.1:4420") && has(" %") && has(" ms"), "{columns}: {lines:?}");
            assert!(columns < 60 || lines[1].contains("reconnecting"), "{columns}: {lines:?}");
            assert!(columns < 80 || has("optimized") && has("in flight 7"), "{columns}: {lines:?}");
            assert!(columns < 120 || has("Send-Q"), "{columns}: {lines:?}");
        }
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
