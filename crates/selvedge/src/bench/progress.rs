//! How far a run is, once a second on stderr: one line that changes on a terminal, a line every few seconds
//! elsewhere. It prints no results.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use super::histogram::Tally;
use crate::report::units;

/// Where nobody watches a line change, a line this often says that things go on.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Shows progress, or does not.
#[derive(Debug)]
pub(crate) struct Progress {
    began: Instant,
    terminal: bool,
    shown_at: Instant,
    quiet: bool,
    /// Whether the terminal's cursor stands behind a line of ours.
    on_line: bool,
    length: Option<Duration>,
    label: &'static str,
}

impl Progress {
    /// Progress of something that takes `length`, if that is known.
    pub(crate) fn new(label: &'static str, length: Option<Duration>, quiet: bool) -> Self {
        let now = Instant::now();
        let terminal = std::io::stderr().is_terminal();
        Self { began: now, terminal, shown_at: now, quiet, on_line: false, length, label }
    }

    /// Whether somebody watches lines change.
    pub(crate) const fn is_watched(&self) -> bool {
        self.terminal && !self.quiet
    }

    /// Something that is worth a line that stays.
    pub(crate) fn news(&mut self, line: &str) {
        if self.quiet {
            return;
        }
        self.clear();
        let _ = writeln!(std::io::stderr().lock(), "[{:3.0} s] {line}", self.began.elapsed().as_secs_f64());
    }

    /// What was done in the last interval, `interval` long, with lines of details for those who watch.
    pub(crate) fn working(&mut self, last: &Tally, interval: Duration, details: &[String]) {
        let seconds = interval.as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        let line = format!(
            "{}  {} IOPS  {}  p99 {}",
            self.label,
            units::count(last.count() as f64 / seconds),
            units::bandwidth(last.bytes as f64 / seconds),
            units::time_ns(last.quantile_ns(0.99) as f64),
        );
        self.show(&line);
        if self.is_watched() && !details.is_empty() {
            let mut stderr = std::io::stderr().lock();
            // The lines below are written and the cursor goes back up, so that the next ones take their place.
            let _ = details
                .iter()
                .try_for_each(|line| write!(stderr, "\n\x1b[K{line}"))
                .and_then(|()| write!(stderr, "\x1b[{}A\r", details.len()))
                .and_then(|()| stderr.flush());
        }
    }

    /// It runs, and nothing counts yet.
    pub(crate) fn ramping(&mut self) {
        self.show(&format!("{}  ramp, not measured", self.label));
    }

    /// So many blocks have been read back.
    pub(crate) fn reading_back(&mut self, blocks: u64) {
        self.show(&format!("reading back  {} blocks", units::count(blocks as f64)));
    }

    fn show(&mut self, line: &str) {
        if self.quiet || (!self.terminal && self.shown_at.elapsed() < LINE_INTERVAL) {
            return;
        }
        self.shown_at = Instant::now();
        let seconds = self.began.elapsed().as_secs_f64();
        let time = match self.length {
            Some(length) => {
                format!("[{:3.0}/{:.0} s]", seconds.min(length.as_secs_f64()), length.as_secs_f64())
            }
            None => format!("[{seconds:3.0} s]"),
        };
        let mut stderr = std::io::stderr().lock();
        // Progress that cannot be shown is no reason to end what it is about.
        let _ = if self.terminal {
            self.on_line = true;
            write!(stderr, "\r\x1b[K{time} {line}").and_then(|()| stderr.flush())
        } else {
            writeln!(stderr, "{time} {line}")
        };
    }

    /// Takes the line away.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.on_line) {
            let mut stderr = std::io::stderr().lock();
            let _ = write!(stderr, "\r\x1b[J").and_then(|()| stderr.flush());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
