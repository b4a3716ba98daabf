//! Progress of a sweep on stderr: on a terminal one line that changes every second, elsewhere a
//! line for each measurement. It prints no results.

use std::io::{IsTerminal as _, Write as _};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use chart::units;

use crate::report::duration::duration;
use crate::report::locale;
use crate::sweep::measurement::Measurement;

/// Cells of the bar.
const BAR: usize = 20;
const TICK: Duration = Duration::from_secs(1);

/// Shows it until it is dropped.
pub(super) struct Progress {
    state: Arc<Mutex<State>>,
    /// On a terminal: ends the thread that draws, and waits for it.
    drawer: Option<(Sender<()>, JoinHandle<()>)>,
}

struct State {
    began: Instant,
    all: usize,
    /// Measurements that were there before, and that are there.
    before: usize,
    done: usize,
    /// Least duration of a measurement.
    takes: Duration,
    doing: String,
    since: Instant,
    /// End of the last measurement.
    ended: Instant,
    last: String,
}

impl Progress {
    /// `done` of `all` are there; each of the others takes `takes` at least.
    pub(super) fn begin(all: usize, done: usize, takes: Duration) -> Self {
        let now = Instant::now();
        let (doing, last) = (String::new(), String::new());
        let state = State { began: now, all, before: done, done, takes, doing, since: now, ended: now, last };
        let text = if done > 0 { format!(", {done} of them are there") } else { String::new() };
        eprintln!(
            "{}{text}, about {} to go",
            units::plural(all as u64, "measurement"),
            duration(state.left(now))
        );
        let state = Arc::new(Mutex::new(state));
        let drawer = std::io::stderr().is_terminal().then(|| {
            let (end, ended) = channel();
            let state = state.clone();
            let thread = std::thread::spawn(move || {
                while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                    draw(&state);
                }
            });
            (end, thread)
        });
        Self { state, drawer }
    }

    /// A measurement begins.
    pub(super) fn measuring(&self, label: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        label.clone_into(&mut state.doing);
        state.since = Instant::now();
        drop(state);
        if self.drawer.is_some() {
            draw(&self.state);
        }
    }

    /// Prints the result of a measurement.
    pub(super) fn measured(&self, measurement: &Measurement) {
        let latency = measurement.response_ns.unwrap_or(measurement.total.lat_ns);
        let (iops, p99) = (units::count(measurement.total.iops), units::time_ns(latency.p99 as f64));
        self.ended(format!("{iops} IOPS, p99 {p99}"));
    }

    /// Prints the failure of a measurement.
    pub(super) fn failed(&self, reason: &str) {
        self.ended(format!("failed: {reason}"));
    }

    /// Something that a person should know, and that ends nothing.
    pub(super) fn warn(&self, what: &str) {
        // The line that changes is redrawn below.
        let before = if self.drawer.is_some() { "\r\x1b[K" } else { "" };
        eprintln!("{before}selvedge: {}", locale::shown(what));
    }

    /// Returns the estimated remaining time.
    pub(super) fn left(&self) -> Duration {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).left(Instant::now())
    }

    fn ended(&self, what: String) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.done += 1;
        state.ended = Instant::now();
        if self.drawer.is_none() {
            let left = duration(state.left(Instant::now()));
            let line = format!("[{}/{}, {left} left] {}: {what}", state.done, state.all, state.doing);
            eprintln!("{}", locale::shown(&line));
        }
        state.last = what;
    }
}

impl State {
    /// Estimates the remaining time from the measurements done so far, or from the plan before the
    /// first.
    fn left(&self, now: Instant) -> Duration {
        let here = self.done - self.before;
        let each = if here > 0 { (self.ended - self.began) / here as u32 } else { self.takes };
        let each = each.max(self.takes / 2);
        let rest = each * (self.all - self.done) as u32;
        // Between two measurements nothing of the next one is spent.
        let spent = if self.since >= self.ended { now - self.since } else { Duration::ZERO };
        rest.saturating_sub(spent)
    }
}

fn draw(state: &Mutex<State>) {
    let state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let full = state.done * BAR / state.all.max(1);
    let bar: String = (0..BAR).map(|cell| if cell < full { '#' } else { '.' }).collect();
    let last = if state.last.is_empty() { String::new() } else { format!("  (last: {})", state.last) };
    let line = format!(
        "[{bar}] {}/{}, {} left  {}{last}",
        state.done,
        state.all,
        duration(state.left(Instant::now())),
        state.doing
    );
    let line = locale::shown(&line);
    let mut stderr = std::io::stderr().lock();
    // Lines are not wrapped while they change, or each would leave its beginning behind.
    let _ = write!(stderr, "\r\x1b[?7l\x1b[K{line}\x1b[?7h").and_then(|()| stderr.flush());
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.drawer.take() {
            drop(end);
            let _ = thread.join();
            let mut stderr = std::io::stderr().lock();
            let _ = write!(stderr, "\r\x1b[K").and_then(|()| stderr.flush());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_what_was_done() {
        let began = Instant::now();
        let takes = Duration::from_secs(2);
        let since = began + Duration::from_secs(12);
        let (doing, last) = ("a".to_owned(), String::new());
        let state = State { began, all: 10, before: 2, done: 6, takes, doing, since, ended: since, last };
        assert_eq!(state.left(since), Duration::from_secs(12));
        assert_eq!(state.left(since + Duration::from_secs(1)), Duration::from_secs(11));
        assert_eq!(State { done: 2, ..state }.left(since), Duration::from_secs(16));
    }
}
