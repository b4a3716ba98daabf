//! How far a run is, once a second on stderr: one line that changes on a terminal, or all of the terminal where that is
//! wanted, and a line every few seconds elsewhere. It prints no results.

use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use chart::units;

use super::histogram::Tally;
use crate::failure::Failure;
use crate::top::initiator::live::Live;
use crate::top::initiator::watch::About;

/// Where nobody watches a line change, a line this often says that things go on.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Keys are waited for by looking for them this often.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Shows progress, or does not.
pub(crate) struct Progress {
    began: Instant,
    terminal: bool,
    shown_at: Instant,
    quiet: bool,
    /// Whether the terminal's cursor stands behind a line of ours.
    on_line: bool,
    length: Option<Duration>,
    label: &'static str,
    /// All of the terminal, which has no lines then.
    screen: Option<Live>,
}

impl Progress {
    /// Progress of something that takes `length`, if that is known.
    pub(crate) fn new(label: &'static str, length: Option<Duration>, quiet: bool) -> Self {
        let now = Instant::now();
        let terminal = std::io::stderr().is_terminal();
        Self { began: now, terminal, shown_at: now, quiet, on_line: false, length, label, screen: None }
    }

    /// Takes all of the terminal to show this run.
    ///
    /// # Errors
    /// When it does not do what it is asked; then it is as before.
    pub(crate) fn fill_screen(&mut self, about: About) -> Result<(), Failure> {
        let failed =
            |error| Failure::failed(format!("the terminal cannot be used: {error}; leave --top out"));
        self.screen = Some(Live::take(about).map_err(failed)?);
        Ok(())
    }

    /// How long at most nobody may look at the keys; `None` where there is no screen that they change.
    pub(crate) fn look_interval(&self) -> Option<Duration> {
        self.screen.as_ref().map(|_| LOOK_INTERVAL)
    }

    /// The screen, if there is one.
    pub(crate) fn screen(&mut self) -> Option<&mut Live> {
        self.screen.as_mut()
    }

    /// Does what keys ask for and draws the screen, if there is one, until the run is to end: then a second Ctrl-C is to
    /// end it at once, as always, and what comes is told in lines.
    pub(crate) fn turn(&mut self, stop: &AtomicBool) {
        let Some(screen) = &mut self.screen else { return };
        match screen.turn() {
            Ok(false) => {}
            Ok(true) => stop.store(true, Ordering::Relaxed),
            // A screen that cannot be shown is not a reason to end what it is about.
            Err(_) => self.leave_screen(),
        }
        if stop.load(Ordering::Relaxed) {
            self.leave_screen();
        }
    }

    /// Gives the terminal back, and tells there what happened meanwhile.
    fn leave_screen(&mut self) {
        let Some(screen) = self.screen.take() else { return };
        let mut stderr = std::io::stderr().lock();
        for line in screen.end() {
            let _ = writeln!(stderr, "{line}");
        }
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
        if let Some(screen) = &mut self.screen {
            screen.hear_news(line);
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

    /// This number of blocks has been read back.
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
        // Progress that cannot be shown is not a reason to end what it is about.
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
        self.leave_screen();
        self.clear();
    }
}
