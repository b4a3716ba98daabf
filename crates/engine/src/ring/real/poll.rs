//! Polling before sleep: a bounded window that follows how soon events came lately, and yields
//! where others want the core. Where events are farther than polling is worth, the ring sleeps until
//! shortly before the expected one. It reads no clock itself.

use std::time::Duration;

use super::typical::Typical;
use crate::limits::{
    POLL_BUSY_US_MAX, POLL_END_WAKE_UPS, POLL_SMALL_LENGTH_MAX, POLL_US_MAX, POLL_USUAL_US,
    POLL_WHOLE_WAKE_UPS, STORES_BUSY, WAKE_UP_US_MAX, WAKE_UP_US_MIN,
};
use crate::ring::{Moment, StorageOp};

#[cfg(test)]
#[path = "poll_tests.rs"]
mod tests;

/// The most that `score` and `near` count: a few exceptions among this many waits change nothing.
const SCORE_MAX: u32 = 32;
/// Polling begins at the first score and ends below the second. The distance keeps it from changing with every wait.
const SCORE_TO_POLL: u32 = 24;
const SCORE_TO_SLEEP: u32 = 8;
/// Waits of up to this many usual windows can be two ends that wait for each other's wake-up: then polling is tried.
const NEAR_WINDOWS: u64 = 4;
/// Waits that a trial lasts: enough for the other end to find that its own waits have become short.
const TRIAL_WAITS: u32 = 32;
/// Waits between two trials: few at first, more after each trial that changed nothing. At the longest waits for which
/// there are trials, the longest pause is 100 ms.
const PAUSE_WAITS_MIN: u32 = 64;
const PAUSE_WAITS_MAX: u32 = 512;
/// After a wait of this many usual windows, 100 ms by default, no peer is at work: an idle ring
/// wakes up every few seconds, and would else poll for minutes. Stolen time is hardly ever as long,
/// and polling resumes within milliseconds.
const IDLE_WINDOWS: u64 = 2000;
/// The same for all windows together.
const IDLE: Duration = Duration::from_micros(IDLE_WINDOWS * POLL_USUAL_US);
/// Waits after which one measures a wake-up, if none has meanwhile, since an estimate that allows no dozes would stay wrong. A
/// measure can make its wait longer: as many others put that beyond the 99.9th percentile.
const MEASURE_WAITS: u32 = 1024;
/// Longest waits that are dozed for with any cost of a wake-up.
const DOZED_NS_MAX: u64 = POLL_END_WAKE_UPS * WAKE_UP_US_MAX * 1000;
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

/// Storage operations under way during a wait: waits beside the same take about the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outstanding {
    /// None: waits are for a peer.
    Nothing,
    /// Few, of which the last begun is small.
    Small,
    /// Few, of which the last begun is large.
    Large,
    /// Enough to keep storage busy.
    Many,
}

impl Outstanding {
    /// This number of operations, of which the last begun [is large](Self::is_large) or not.
    pub(super) const fn of(stores_pending: usize, is_large: bool) -> Self {
        match stores_pending {
            0 => Self::Nothing,
            STORES_BUSY.. => Self::Many,
            _ if is_large => Self::Large,
            _ => Self::Small,
        }
    }

    /// True if an operation takes longer than one of a few blocks.
    pub(super) fn is_large(operation: &StorageOp) -> bool {
        match operation {
            StorageOp::Read { buffer, .. } | StorageOp::Write { buffer, .. } => {
                buffer.len() > POLL_SMALL_LENGTH_MAX
            }
            StorageOp::Sync | StorageOp::Allocate { .. } => true,
        }
    }
}

/// Course of a wait: a doze, then polling, then sleep until something happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Longest sleep before polling. Any event ends it.
    pub(super) doze: Duration,
    /// Longest polling.
    pub(super) poll: Duration,
}

impl Plan {
    const fn of(doze_ns: u64, poll_ns: u64) -> Self {
        Self { doze: Duration::from_nanos(doze_ns), poll: Duration::from_nanos(poll_ns) }
    }

    /// Time until which an event does not have to wake the ring.
    const fn reach_ns(&self) -> u64 {
        (self.doze.as_nanos() + self.poll.as_nanos()) as u64
    }
}

/// The windows of a ring, one for each kind of outstanding operations, of which none learns from another's waits; the cost of
/// a wake-up, and the time for which polling stays away, which are the core's.
#[derive(Debug)]
pub(super) struct PollWindows {
    windows: [PollWindow; 4],
    wake_up: Typical,
    /// Waits since a wake-up was measured.
    unmeasured: u32,
    withdrawal: Withdrawal,
    /// Time of the waits since the last event.
    eventless: Duration,
    is_adaptive: bool,
}

impl PollWindows {
    /// Windows of at most `max_us` microseconds. They follow the time that events take only on a machine where that `pays`:
    /// with short sleeps that end in time, and with a processor for those that are waited for.
    pub(super) fn new(max_us: u64, pays: bool) -> Self {
        let max_us = if pays { max_us } else { max_us.min(POLL_USUAL_US) };
        let window = |max_us: u64| PollWindow::new(max_us.min(POLL_USUAL_US), max_us);
        Self {
            windows: [window(max_us), window(max_us), window(max_us), window(max_us.min(POLL_BUSY_US_MAX))],
            wake_up: Typical::of(WAKE_UP_US_MIN * 1000),
            unmeasured: 0,
            withdrawal: Withdrawal::default(),
            eventless: Duration::ZERO,
            is_adaptive: max_us > POLL_USUAL_US,
        }
    }

    /// True if windows depend on the cost of a wake-up.
    pub(super) const fn is_adaptive(&self) -> bool {
        self.is_adaptive
    }

    /// Sets the cost of a wake-up.
    pub(super) fn set_wake_up(&mut self, cost: Duration) {
        self.wake_up = Typical::of(wake_up_ns(cost));
    }

    /// Plan for a wait that begins now.
    pub(super) fn plan(&self, outstanding: Outstanding, now: Moment) -> Plan {
        if self.withdrawal.is_away(now) {
            return Plan::default();
        }
        let window = &self.windows[outstanding as usize];
        let plan = window.plan(self.wake_up.ns());
        if plan.doze.is_zero() && self.unmeasured >= MEASURE_WAITS {
            return Plan { doze: window.measuring_doze(), ..plan };
        }
        plan
    }

    /// A doze that was to last for `asked` has ended after `took`. The difference is what a wake-up costs. Where there is an
    /// event, the event may have ended the doze sooner: a wake-up costs at least that, and so it counts only where it is more
    /// than was assumed. Without those, an estimate that is far too low would stay: each doze would end behind its event.
    pub(super) fn dozed(&mut self, asked: Duration, took: Duration, has_event: bool) {
        self.unmeasured = 0;
        if took > asked {
            let cost_ns = wake_up_ns(took - asked);
            if !has_event || cost_ns > self.wake_up.ns() {
                self.wake_up.count(cost_ns);
            }
        }
    }

    /// The ring slept for `rest` after polling that found nothing. A wake-up costs no more than that, which may be less than was
    /// assumed: waits then seem to be within the window, while their events come behind it. It counts no oftener than another
    /// measure, since it moves the estimate to one side only.
    fn missed(&mut self, rest: Duration) {
        if self.unmeasured >= MEASURE_WAITS {
            self.unmeasured = 0;
            self.wake_up.count(wake_up_ns(rest).min(self.wake_up.ns()));
        }
    }

    /// Counts a wait that has ended with an event.
    fn ended(&mut self) {
        self.eventless = Duration::ZERO;
        self.unmeasured = self.unmeasured.saturating_add(1);
    }

    /// Polling has found an event after `waited`.
    pub(super) fn found(&mut self, outstanding: Outstanding, waited: Duration) {
        self.ended();
        self.windows[outstanding as usize].found(waited, self.wake_up.ns());
    }

    /// An event came to the sleeping ring after `waited`, of which `polled` were polled.
    pub(super) fn slept(&mut self, outstanding: Outstanding, waited: Duration, polled: Duration) {
        self.ended();
        if waited >= IDLE {
            self.windows.iter_mut().for_each(PollWindow::forget);
        } else {
            self.windows[outstanding as usize].slept(waited, polled, self.wake_up.ns());
            if !polled.is_zero() {
                self.missed(waited.saturating_sub(polled));
            }
        }
    }

    /// A wait has ended after `waited` without an event, by its timeout: it says nothing of the time that events take, but
    /// many of them say that the ring is idle.
    pub(super) fn expired(&mut self, waited: Duration) {
        self.eventless = self.eventless.saturating_add(waited);
        if self.eventless >= IDLE {
            self.windows.iter_mut().for_each(PollWindow::forget);
        }
    }

    /// Records that another thread or, in a virtual machine, another machine had the core for `gap`
    /// until `now`, while polling. The length of the wait without it is unknown: it is not counted.
    pub(super) fn lost(&mut self, gap: Duration, now: Moment) {
        self.withdrawal.lost(gap, now);
    }
}

/// Cost of a wake-up in nanoseconds, within its limits.
fn wake_up_ns(cost: Duration) -> u64 {
    (cost.as_nanos() as u64).clamp(WAKE_UP_US_MIN * 1000, WAKE_UP_US_MAX * 1000)
}

/// Time for which polling stays away from a core that others want.
#[derive(Debug, Default)]
struct Withdrawal {
    /// End of the last gap, or of the time away that followed it.
    undisturbed_since: Moment,
    away_ns: u64,
    until: Moment,
}

impl Withdrawal {
    /// True if polling stays away. An end that is too far comes of a clock that has been set back.
    fn is_away(&self, now: Moment) -> bool {
        now < self.until && self.until.since(now) <= Duration::from_nanos(AWAY_NS_MAX)
    }

    fn lost(&mut self, gap: Duration, now: Moment) {
        // A thread that takes a turn now and then costs polling no more than it costs everybody. Where more time is lost
        // than is left, threads are waiting for this core, and one that sleeps gets it back sooner than one that yields.
        let is_crowded = now.since(self.undisturbed_since) < 2 * gap;
        self.away_ns = if is_crowded { (self.away_ns * 2).clamp(AWAY_NS_MIN, AWAY_NS_MAX) } else { 0 };
        self.until = now.after(Duration::from_nanos(self.away_ns));
        self.undisturbed_since = self.until;
    }
}

/// The window.
#[derive(Debug)]
struct PollWindow {
    /// Length for waits that are shorter, or of which nothing is known yet.
    usual_ns: u64,
    max_ns: u64,
    /// Length of most waits, without this end's wake-up.
    expected: Typical,
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
}

impl PollWindow {
    /// A window of this length in microseconds usually, and of this at most.
    const fn new(usual_us: u64, max_us: u64) -> Self {
        Self {
            usual_ns: usual_us.saturating_mul(1000),
            max_ns: max_us.saturating_mul(1000),
            expected: Typical::of(0),
            is_polling: false,
            score: 0,
            near: 0,
            trial: 0,
            pause: PAUSE_WAITS_MIN,
            next_pause: PAUSE_WAITS_MIN,
        }
    }

    /// Plan for the next wait, where a wake-up costs this time.
    fn plan(&self, wake_up_ns: u64) -> Plan {
        if self.trial > 0 {
            // The other end still sleeps: its wake-up is given another window.
            Plan::of(0, 2 * self.usual_ns)
        } else if self.is_polling {
            self.course(wake_up_ns)
        } else {
            Plan::default()
        }
    }

    const fn is_fixed(&self) -> bool {
        self.usual_ns == self.max_ns
    }

    /// Longest wait that is polled for from its beginning.
    fn whole_ns(&self, wake_up_ns: u64) -> u64 {
        if self.max_ns > POLL_US_MAX * 1000 {
            // More than the default is an operator's wish, whatever it saves.
            self.max_ns
        } else {
            (POLL_WHOLE_WAKE_UPS * wake_up_ns).clamp(self.usual_ns, self.max_ns)
        }
    }

    /// Course of a wait that takes as long as most do.
    fn course(&self, wake_up_ns: u64) -> Plan {
        let expected_ns = self.expected.ns();
        let whole_ns = self.whole_ns(wake_up_ns);
        if self.is_fixed() || expected_ns > whole_ns.max(POLL_END_WAKE_UPS * wake_up_ns) {
            Plan::of(0, self.usual_ns)
        } else if expected_ns <= whole_ns {
            Plan::of(0, expected_ns.saturating_mul(2).clamp(self.usual_ns, self.max_ns))
        } else {
            // Awake again half a wake-up before the event, and polling until one and a half after it, if waking up takes as
            // long as it did.
            let ahead_ns = wake_up_ns * 3 / 2;
            Plan::of(expected_ns.saturating_sub(ahead_ns), (2 * ahead_ns).min(self.max_ns))
        }
    }

    /// Doze that measures a wake-up: half of a wait of which the course depends on that cost. Where a wake-up takes the other
    /// half or more, the wait is polled for in any case, and the estimate does not matter.
    fn measuring_doze(&self) -> Duration {
        let expected_ns = self.expected.ns();
        let depends = !self.is_fixed()
            && self.trial == 0
            && expected_ns > self.whole_ns(WAKE_UP_US_MIN * 1000)
            && expected_ns <= DOZED_NS_MAX;
        Duration::from_nanos(if depends { expected_ns / 2 } else { 0 })
    }

    fn found(&mut self, waited: Duration, wake_up_ns: u64) {
        let waited_ns = waited.as_nanos() as u64;
        let short_ns = if self.trial > 0 { 2 * self.usual_ns } else { self.course(wake_up_ns).reach_ns() };
        self.count(waited_ns, waited_ns, short_ns);
    }

    fn slept(&mut self, waited: Duration, polled: Duration, wake_up_ns: u64) {
        let waited_ns = waited.as_nanos() as u64;
        // The time has this end's own wake-up in it, which polling would save.
        let short_ns = if !polled.is_zero() {
            0
        } else if self.is_fixed() {
            2 * self.usual_ns
        } else {
            (self.course(wake_up_ns).reach_ns() + wake_up_ns).max(2 * self.usual_ns)
        };
        self.count(waited_ns, waited_ns.saturating_sub(wake_up_ns), short_ns);
    }

    /// Ends polling until events are frequent again. The time that events take stays known.
    fn forget(&mut self) {
        (self.is_polling, self.score, self.near, self.trial) = (false, 0, 0, 0);
        (self.pause, self.next_pause) = (PAUSE_WAITS_MIN, PAUSE_WAITS_MIN);
    }

    /// Counts a wait, of which `awake_ns` would have passed for a ring that polls.
    fn count(&mut self, waited_ns: u64, awake_ns: u64, short_ns: u64) {
        if waited_ns >= IDLE_WINDOWS * self.usual_ns {
            return self.forget();
        }
        self.expected.count(awake_ns);
        let is_near = waited_ns <= NEAR_WINDOWS * self.usual_ns;
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
