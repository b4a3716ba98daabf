//! Progress of a run on stderr, once a second: one line that changes on a terminal, the whole
//! terminal if wanted, and a line every few seconds elsewhere. The run does not depend on it, and
//! it prints no results.

use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use chart::units;
use engine::ring::{Ring, RingOptions};

use super::live::Live;
use super::path_view::PathView;
use super::watch::About;
use crate::bench::histogram::Tally;
use crate::bench::run::{Outcome, Run, Step};
use crate::bench::sample::{Phase, Sample};
use crate::failure::Failure;
use crate::report::paths::PathReport;
use crate::report::{locale, terminal};

/// Interval of progress lines without a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Keys are waited for by looking for them this often.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Runs a run and shows how far it is; on all of the terminal, under this name, where there is one.
///
/// # Errors
/// When it could not begin, or the terminal cannot be used.
pub fn follow(run: &Run<'_>, name: Option<&str>) -> Result<Outcome, Failure> {
    let mut progress = Progress::new(run, name)?;
    let mut running = run.start()?;
    loop {
        progress.turn(&run.stop);
        let Some(step) = running.next(progress.look_interval()) else { break };
        match (step, &mut progress.screen) {
            (Step::Silence, _) | (Step::Begun, None) => {}
            (Step::Begun, Some(screen)) => screen.begin(),
            (Step::Progress, _) => progress.hear(running.sample()),
        }
    }
    drop(progress);
    running.end()
}

/// Shows progress.
struct Progress {
    began: Instant,
    terminal: bool,
    line_at: Instant,
    /// True if the terminal's cursor is behind a line of ours.
    on_line: bool,
    length: Option<Duration>,
    label: &'static str,
    view: PathView,
    /// Last totals shown, and the time.
    shown: Option<(Tally, Instant)>,
    /// All of the terminal, which has no lines then.
    screen: Option<Live>,
}

impl Progress {
    fn new(run: &Run<'_>, name: Option<&str>) -> Result<Self, Failure> {
        let now = Instant::now();
        let workload = &run.fitted.workload;
        let length = workload.runtime.filter(|_| run.record.is_none()).map(|runtime| runtime + workload.ramp);
        let label = if run.record.is_some() { "check" } else { workload.kind() };
        let about = name.map(|name| about(run, name, label, length)).transpose()?;
        let failed =
            |error| Failure::failed(format!("the terminal cannot be used: {error}; leave --top out"));
        Ok(Self {
            began: now,
            terminal: std::io::stderr().is_terminal(),
            line_at: now,
            on_line: false,
            length,
            label,
            view: PathView::default(),
            shown: None,
            screen: about.map(Live::take).transpose().map_err(failed)?,
        })
    }

    /// Returns the longest time between two looks at the keys; `None` without a screen.
    fn look_interval(&self) -> Option<Duration> {
        self.screen.as_ref().map(|_| LOOK_INTERVAL)
    }

    /// Does what keys ask for and draws the screen, if there is one, until the run is to end: then a second Ctrl-C is to
    /// end it at once, as always, and further news are printed as lines.
    fn turn(&mut self, stop: &AtomicBool) {
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

    /// Restores the terminal, and prints the news there.
    fn leave_screen(&mut self) {
        let Some(screen) = self.screen.take() else { return };
        let mut stderr = std::io::stderr().lock();
        for line in screen.end() {
            let _ = writeln!(stderr, "{}", locale::shown(&line));
        }
    }

    /// Shows what all workers have said.
    fn hear(&mut self, sample: Sample) {
        self.view.news(&sample.paths).iter().for_each(|line| self.news(line));
        if let Some(screen) = &mut self.screen {
            screen.hear(sample);
            return;
        }
        match sample.phase {
            Phase::Connecting | Phase::Ramp => self.show(&format!("{}  ramp, not measured", self.label)),
            Phase::ReadingBack(blocks) => {
                self.show(&format!("reading back  {} blocks", units::count(blocks as f64)));
            }
            Phase::Measuring => self.measuring(&sample),
        }
    }

    /// Shows what was done since the workers spoke last.
    fn measuring(&mut self, sample: &Sample) {
        let mut total = Tally::default();
        sample.totals.iter().for_each(|tally| total.merge(tally));
        let now = Instant::now();
        let earlier = self.shown.replace((total.clone(), now));
        // Counting restarts after the ramp; for a second there is no earlier total.
        if let Some((earlier, at)) = earlier
            && let Some(last) = total.since(&earlier)
        {
            let details = match sample.paths.len() {
                2.. if self.terminal => {
                    self.view.lines(&PathReport::all(&sample.by_path()), terminal::stderr_columns())
                }
                _ => Vec::new(),
            };
            self.working(&last, now - at, &details);
        }
    }

    /// Something that is worth a line that stays.
    fn news(&mut self, line: &str) {
        if let Some(screen) = &mut self.screen {
            screen.hear_news(line);
            return;
        }
        self.clear();
        let _ = writeln!(std::io::stderr().lock(), "[{:3.0} s] {line}", self.began.elapsed().as_secs_f64());
    }

    /// Prints the work of the last interval, `interval` long, with lines of details on a terminal.
    fn working(&mut self, last: &Tally, interval: Duration, details: &[String]) {
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
        if !details.is_empty() {
            let mut stderr = std::io::stderr().lock();
            // The lines below are written and the cursor goes back up, so that the next ones take their place.
            let _ = details
                .iter()
                .try_for_each(|line| write!(stderr, "\n\x1b[K{}", locale::shown(line)))
                .and_then(|()| write!(stderr, "\x1b[{}A\r", details.len()))
                .and_then(|()| stderr.flush());
        }
    }

    fn show(&mut self, line: &str) {
        if !self.terminal && self.line_at.elapsed() < LINE_INTERVAL {
            return;
        }
        let line = locale::shown(line);
        self.line_at = Instant::now();
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
            let room = terminal::stderr_columns().map_or(usize::MAX, |columns| columns.saturating_sub(1));
            // A line that wraps would leave its beginning behind when the next one takes its place.
            let line: String = format!("{time} {line}").chars().take(room).collect();
            write!(stderr, "\r\x1b[K{line}").and_then(|()| stderr.flush())
        } else {
            writeln!(stderr, "{time} {line}")
        };
    }

    /// Takes the line away.
    fn clear(&mut self) {
        if std::mem::take(&mut self.on_line) {
            let mut stderr = std::io::stderr().lock();
            let _ = write!(stderr, "\r\x1b[J").and_then(|()| stderr.flush());
        }
    }
}

/// Returns the screen's data about a run.
///
/// # Errors
/// When there is no ring for the I/O.
fn about(run: &Run<'_>, name: &str, label: &'static str, length: Option<Duration>) -> Result<About, Failure> {
    let workload = &run.fitted.workload;
    let failed = |error| Failure::failed(format!("cannot set up io_uring or epoll: {error}"));
    // The workers choose alike; theirs are not there yet.
    let options = RingOptions { poll_us_max: 0, ..run.ring };
    let engine = Ring::new(options).map_err(failed)?.engine_name();
    let (jobs, depth) = (units::plural(workload.jobs.into(), "job"), workload.depth);
    let policy = match run.paths.status().len() {
        2.. => format!(", {}", run.paths.policy()),
        _ => String::new(),
    };
    Ok(About {
        workload: format!("{label} {}", units::bytes(workload.block_bytes.into())),
        target: format!("{name} namespace {}", run.nsid),
        means: format!("{jobs} × {depth}, {engine}{policy}"),
        length,
    })
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.leave_screen();
        self.clear();
    }
}
