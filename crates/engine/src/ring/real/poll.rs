//! Polling before sleep: a bounded window that follows how soon events came lately, and yields
//! where others want the core. It reads no clock itself.

use std::time::Duration;

use crate::limits::{POLL_BUSY_US_MAX, STORES_BUSY};
use crate::ring::Moment;

#[cfg(test)]
#[path = "poll_tests.rs"]
mod tests;

/// The most that `score` and `near` count: a few exceptions among this many waits change nothing.
const SCORE_MAX: u32 = 32;
/// Polling begins at the first score and ends below the second. The distance keeps it from changing with every wait.
const SCORE_TO_POLL: u32 = 24;
const SCORE_TO_SLEEP: u32 = 8;
/// Waits of up to this many windows can be two ends that wait for each other's wake-up: then polling is tried.
const NEAR_WINDOWS: u64 = 4;
/// Waits that a trial lasts: enough for the other end to find that its own waits have become short.
const TRIAL_WAITS: u32 = 32;
/// Waits between two trials: few at first, more after each trial that changed nothing. At the longest waits for which
/// there are trials, the longest pause is 100 ms.
const PAUSE_WAITS_MIN: u32 = 64;
const PAUSE_WAITS_MAX: u32 = 512;
/// After a wait of this many windows, 100 ms for the usual one, no peer is at work: an idle ring
/// wakes up every few seconds, and would else poll for minutes. Stolen time is hardly ever as long,
/// and polling resumes within milliseconds.
const IDLE_WINDOWS: u64 = 2000;
/// Longest undisturbed step of polling; one usually takes a few microseconds. In a longer one,
/// another thread had the core.
pub(super) const GAP: Duration = Duration::from_micros(100);
/// Time of polling before it yields to others: longer than a peer on another core takes to answer.
/// Yielding sooner would give other threads of this core a whole time slice for each answer.
const YIELD_AFTER: Duration = Duration::from_micros(20);
/// Shortest yield in which another thread ran.
const YIELD_MIN: Duration = Duration::from_micros(2);
/// First and longest time that polling stays away from a core that others want.
const AWAY_NS_MIN: u64 = 1_000_000;
const AWAY_NS_MAX: u64 = 50_000_000;

/// Decision when polling yields to other threads: late, but at once where the peer is a thread of
/// this very core, which answers only if it gets to run.
#[derive(Debug, Default)]
pub(super) struct Yielding {
    /// Recent yields that brought an answer, and fewer for those that did not.
    score: u32,
}

impl Yielding {
    /// True if polling should yield after this time.
    pub(super) fn is_due(&self, polled: Duration) -> bool {
        polled >= YIELD_AFTER || self.score > SCORE_MAX / 2
    }

    /// Making way took so long, and there was something then or not.
    pub(super) fn yielded(&mut self, took: Duration, has_news: bool) {
        self.score = if took > GAP {
            // That was not a peer, or one beside which looking for longer costs nothing.
            0
        } else if took >= YIELD_MIN && has_news {
            (self.score + 2).min(SCORE_MAX)
        } else {
            self.score.saturating_sub(1)
        };
    }
}

/// The windows of a ring: one for waits while storage is busy, and one for all others. Neither learns from the other's waits.
#[derive(Debug)]
pub(super) struct PollWindows {
    busy: PollWindow,
    other: PollWindow,
}

impl PollWindows {
    /// Windows of at most `max_us` microseconds.
    pub(super) fn new(max_us: u64) -> Self {
        Self { busy: PollWindow::new(max_us.min(POLL_BUSY_US_MAX)), other: PollWindow::new(max_us) }
    }

    /// The one for a wait during which storage has this number of operations.
    pub(super) const fn beside(&mut self, stores_pending: usize) -> &mut PollWindow {
        if stores_pending >= STORES_BUSY { &mut self.busy } else { &mut self.other }
    }
}

/// The window.
#[derive(Debug)]
pub(super) struct PollWindow {
    max_ns: u64,
    is_polling: bool,
    /// Count that rises with each short wait and falls with each other one: not a mean, since one
    /// wait of which milliseconds were stolen would outweigh a hundred in a mean.
    score: u32,
    /// The same of waits that are near.
    near: u32,
    /// Waits that are left of a trial.
    trial: u32,
    /// Waits until the next trial.
    pause: u32,
    /// The pause after the next trial.
    next_pause: u32,
    /// End of the last gap, or of the time away that followed it.
    undisturbed_since: Moment,
    away_ns: u64,
    away_until: Moment,
}

impl PollWindow {
    /// A window of at most `max_us` microseconds.
    pub(super) const fn new(max_us: u64) -> Self {
        Self {
            max_ns: max_us * 1000,
            is_polling: false,
            score: 0,
            near: 0,
            trial: 0,
            pause: PAUSE_WAITS_MIN,
            next_pause: PAUSE_WAITS_MIN,
            undisturbed_since: Moment(0),
            away_ns: 0,
            away_until: Moment(0),
        }
    }

    /// Length of the window at this moment.
    pub(super) fn length(&self, now: Moment) -> Duration {
        if now < self.away_until {
            return Duration::ZERO;
        }
        // In a trial the other end still sleeps: its wake-up is given another window.
        let windows = if self.trial > 0 { 2 } else { u64::from(self.is_polling) };
        Duration::from_nanos(windows * self.max_ns)
    }

    /// Polling has found an event after `waited`.
    pub(super) fn found(&mut self, waited: Duration) {
        let waited_ns = waited.as_nanos() as u64;
        let windows = if self.trial > 0 { 2 } else { 1 };
        self.count(waited_ns, windows * self.max_ns);
    }

    /// The ring has slept, and an event came after `waited`, of which the first `polled` were polled.
    pub(super) fn slept(&mut self, waited: Duration, polled: Duration) {
        // The time has this end's own wake-up in it, which polling would save.
        let short_ns = if polled.is_zero() { 2 * self.max_ns } else { 0 };
        self.count(waited.as_nanos() as u64, short_ns);
    }

    /// Records that another thread or, in a virtual machine, another machine had the core for `gap`
    /// until `now`, while polling. The length of the wait without it is unknown: it is not counted.
    pub(super) fn lost(&mut self, gap: Duration, now: Moment) {
        // A thread that takes a turn now and then costs polling no more than it costs everybody. Where more time is lost
        // than is left, threads are waiting for this core, and one that sleeps gets it back sooner than one that yields.
        let is_crowded = now.since(self.undisturbed_since) < 2 * gap;
        self.away_ns = if is_crowded { (self.away_ns * 2).clamp(AWAY_NS_MIN, AWAY_NS_MAX) } else { 0 };
        self.away_until = now.after(Duration::from_nanos(self.away_ns));
        self.undisturbed_since = self.away_until;
    }

    fn count(&mut self, waited_ns: u64, short_ns: u64) {
        if waited_ns >= IDLE_WINDOWS * self.max_ns {
            (self.is_polling, self.score, self.near, self.trial) = (false, 0, 0, 0);
            (self.pause, self.next_pause) = (PAUSE_WAITS_MIN, PAUSE_WAITS_MIN);
            return;
        }
        let is_near = waited_ns <= NEAR_WINDOWS * self.max_ns;
        self.near = if is_near { (self.near + 1).min(SCORE_MAX) } else { self.near.saturating_sub(1) };
        let is_short = waited_ns <= short_ns;
        self.score = if is_short { (self.score + 1).min(SCORE_MAX) } else { self.score.saturating_sub(1) };
        if self.score >= SCORE_TO_POLL && !self.is_polling {
            (self.is_polling, self.pause, self.next_pause) = (true, PAUSE_WAITS_MIN, PAUSE_WAITS_MIN);
        } else if self.score < SCORE_TO_SLEEP {
            self.is_polling = false;
        }
        if self.trial > 0 {
            self.trial -= 1;
        } else if !self.is_polling && self.near > SCORE_MAX / 2 {
            self.pause -= 1;
            if self.pause == 0 {
                self.trial = TRIAL_WAITS;
                self.pause = self.next_pause;
                self.next_pause = (self.next_pause * 2).min(PAUSE_WAITS_MAX);
            }
        }
    }
}
