//! How much of a namespace its hosts may use in a second: when the next command may start, over all reactors,
//! without a lock. It keeps neither the time nor the commands' data, and starts nothing.
//!
//! Each limit is a virtual schedule (GCRA): one atomic number says until when everything that was let through
//! so far takes at the limit's rate. A command is entered behind it and may start as soon as the schedule is
//! no more than `BURST_NS` ahead of the clock. So the rate is exact in the long run whatever the commands'
//! sizes: a large command under a small limit starts like any other, and what follows waits the longer. A
//! command is entered in every limit that applies to it and starts when the last of them lets it.
//!
//! Entering a command ahead of its time, rather than letting callers try again until they are
//! lucky, gives each a definite time to sleep until, and a place that no other command takes. A
//! caller enters only the first of its waiting commands (`Backlog`), so callers have turns and a
//! deep queue gets no more of them than a shallow one. It also bounds what is entered but not
//! started to one command for each backlog: that much is what a caller that forgets to close its
//! backlogs costs the others, what a late change of the limits has to enter again, and what several
//! limits that hold each other up can let through at once.
//!
//! Other limits have other schedules. A change makes new ones and moves the epoch, and what was
//! entered in the old ones counts no more: a backlog that finds the epoch moved enters its command
//! again, so that no command waits for a time that was computed under another limit, and a caller
//! that is still entering under the old limits cannot disturb the new schedule. Only the first
//! command after a change takes a lock, to fetch the new schedules.
//!
//! Writes may be held altogether until a moment, as for a snapshot of several images: what was asked for before goes on, and no
//! write begins that was asked for after. That ends by itself, whatever becomes of who has asked for it.
//!
//! Commands on a namespace with a limit write to a cache line that other cores write too, which is what
//! sharing a limit means. On one without, a command costs two loads of lines that are never written.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::target::config::QosConfig;

/// Advance on its limit that a namespace may gain while idle, in nanoseconds. It has to cover the
/// lateness of a reactor's timer, so that the limit is reached, and be short against a second, so
/// that it is kept in each.
const BURST_NS: u64 = 20_000_000;
/// Longest time for which a waiting caller does not check the limits, in nanoseconds: after this
/// time it knows of a change.
const RECHECK_NS: u64 = 100_000_000;
/// Schedules count in this part of a nanosecond: with 16 million commands a second, a nanosecond would be 2 %
/// of one.
const PARTS_PER_NS: u64 = 16;
const PARTS_PER_S: u128 = 1_000_000_000 * PARTS_PER_NS as u128;

/// Direction of a command, which selects the limits that apply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// The bytes that a command costs. One that copies costs some in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
}

impl Cost {
    pub(crate) const fn read(bytes: u64) -> Self {
        Self { read_bytes: bytes, written_bytes: 0 }
    }

    pub(crate) const fn written(bytes: u64) -> Self {
        Self { read_bytes: 0, written_bytes: bytes }
    }

    /// The bytes in a direction, or in both together.
    const fn bytes(&self, direction: Option<Direction>) -> u64 {
        match direction {
            Some(Direction::Read) => self.read_bytes,
            Some(Direction::Write) => self.written_bytes,
            None => self.read_bytes.saturating_add(self.written_bytes),
        }
    }
}

/// Unit of a limit.
#[derive(Clone, Copy, Debug)]
enum Measure {
    Commands,
    Bytes,
}

/// A single limit and its schedule, on a cache line of its own so that reads and writes do not slow
/// each other.
#[derive(Debug)]
#[repr(align(128))]
struct Limit {
    /// `None` is both.
    direction: Option<Direction>,
    measure: Measure,
    per_second: u64,
    /// Until when what was entered takes, in parts of a nanosecond: the theoretical arrival time of the next
    /// command.
    busy_until: AtomicU64,
}

impl Limit {
    /// True if the limit applies to a command: by its direction, or by bytes that it moves in the
    /// other one.
    fn applies_to(&self, direction: Direction, cost: Cost) -> bool {
        self.direction.is_none_or(|own| own == direction)
            || matches!(self.measure, Measure::Bytes) && cost.bytes(self.direction) > 0
    }

    /// Time of a command at this rate, in parts of a nanosecond.
    fn time(&self, cost: Cost) -> u64 {
        let amount = match self.measure {
            Measure::Commands => 1,
            Measure::Bytes => cost.bytes(self.direction),
        };
        // Rounded to the nearest, so that a great many commands are not off by a part each.
        let rate = u128::from(self.per_second);
        let time = (u128::from(amount) * PARTS_PER_S + rate / 2) / rate;
        u64::try_from(time).unwrap_or(u64::MAX)
    }

    /// Enters a command; from when on it may start, in parts of a nanosecond.
    fn enter(&self, now: u64, cost: Cost) -> u64 {
        let time = self.time(cost);
        let mut before = self.busy_until.load(Ordering::Relaxed);
        loop {
            // A schedule behind the clock has nothing left: what was not used is gone.
            let after = before.max(now).saturating_add(time);
            // Nothing else is read on the strength of this number, so no order is needed.
            let exchange =
                self.busy_until.compare_exchange_weak(before, after, Ordering::Relaxed, Ordering::Relaxed);
            match exchange {
                Ok(_) => return before.saturating_sub(BURST_NS * PARTS_PER_NS),
                Err(current) => before = current,
            }
        }
    }

    /// Removes a command that was entered and does not start. Commands entered behind it keep their times.
    fn leave(&self, cost: Cost) {
        let time = self.time(cost);
        let less = |busy_until: u64| Some(busy_until.saturating_sub(time));
        // The closure never refuses.
        let _ = self.busy_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

/// All limits of a namespace, as they were between two changes.
#[derive(Debug)]
struct Limits {
    epoch: u64,
    config: QosConfig,
    limits: Arc<[Limit]>,
    /// Until when no write begins, in nanoseconds.
    held_until_ns: u64,
}

impl Limits {
    fn new(epoch: u64, config: &QosConfig) -> Self {
        let (read, write) = (Some(Direction::Read), Some(Direction::Write));
        let limits = [
            (config.read_iops, read, Measure::Commands),
            (config.write_iops, write, Measure::Commands),
            (config.iops, None, Measure::Commands),
            (config.read_bytes, read, Measure::Bytes),
            (config.write_bytes, write, Measure::Bytes),
            (config.bytes, None, Measure::Bytes),
        ];
        let limits = limits
            .into_iter()
            .filter_map(|(per_second, direction, measure)| {
                // No limit is 0: the configuration's check sees to that, and here it means none.
                let per_second = per_second.filter(|per_second| *per_second > 0)?;
                Some(Limit { direction, measure, per_second, busy_until: AtomicU64::new(0) })
            })
            .collect();
        Self { epoch, config: *config, limits, held_until_ns: 0 }
    }

    /// The same ones, with writes held until a moment.
    fn held(&self, until_ns: u64) -> Self {
        Self {
            epoch: self.epoch + 1,
            config: self.config,
            limits: self.limits.clone(),
            held_until_ns: until_ns,
        }
    }

    fn are_held(&self, direction: Direction, now_ns: u64) -> bool {
        direction == Direction::Write && now_ns < self.held_until_ns
    }
}

/// The limits of one namespace, shared by all who use it.
#[derive(Debug)]
pub(crate) struct Shaper {
    /// The current limits' number. It is asked before every command and written at a change only.
    epoch: AtomicU64,
    current: Mutex<Arc<Limits>>,
}

impl Shaper {
    pub(crate) fn new(config: &QosConfig) -> Self {
        Self { epoch: AtomicU64::new(0), current: Mutex::new(Arc::new(Limits::new(0, config))) }
    }

    /// Puts other limits into effect, for commands that wait too. The same limits once more change nothing,
    /// so that repeating them gains no new allowance.
    pub(crate) fn update(&self, config: &QosConfig) {
        let mut current = self.lock();
        if current.config != *config {
            let held_until_ns = current.held_until_ns;
            let limits = Limits { held_until_ns, ..Limits::new(current.epoch + 1, config) };
            self.replace(&mut current, limits);
        }
    }

    /// Lets no write begin until this moment that is asked for from now on; 0 lets them go on.
    pub(crate) fn hold_writes(&self, until_ns: u64) {
        let mut current = self.lock();
        if current.held_until_ns != until_ns {
            let limits = current.held(until_ns);
            self.replace(&mut current, limits);
        }
    }

    /// True if there are limits, or writes are held.
    pub(crate) fn is_needed(&self) -> bool {
        let current = self.lock();
        !current.config.is_unlimited() || current.held_until_ns > 0
    }

    /// True if writes are held until this moment.
    pub(crate) fn holds_writes(&self, until_ns: u64) -> bool {
        self.lock().held_until_ns == until_ns
    }

    fn replace(&self, current: &mut Arc<Limits>, limits: Limits) {
        let epoch = limits.epoch;
        *current = Arc::new(limits);
        // Who holds several namespaces' writes has held them all when the last of these stores is seen: they stay in their order.
        self.epoch.store(epoch, Ordering::SeqCst);
    }

    /// The limits in effect.
    pub(crate) fn config(&self) -> QosConfig {
        self.lock().config
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Limits>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Access of one caller to a namespace's shaper. It belongs to one thread.
#[derive(Debug)]
pub(crate) struct ShaperView {
    shaper: Arc<Shaper>,
    limits: Arc<Limits>,
}

/// A command's entry in the schedules of one epoch.
#[derive(Clone, Copy, Debug)]
struct ScheduleEntry {
    epoch: u64,
    start_ns: u64,
    /// True if the command is in the schedules; false if it is held.
    is_entered: bool,
}

impl ShaperView {
    pub(crate) fn new(shaper: Arc<Shaper>) -> Self {
        let limits = Arc::clone(&shaper.lock());
        Self { shaper, limits }
    }

    /// True if a command of this direction and cost may have to wait.
    pub(crate) fn is_limited(&mut self, direction: Direction, cost: Cost) -> bool {
        self.refresh();
        // Whether it is over by now is looked at by who waits: no time is asked for here.
        direction == Direction::Write && self.limits.held_until_ns > 0
            || self.limits.limits.iter().any(|limit| limit.applies_to(direction, cost))
    }

    fn refresh(&mut self) {
        if self.shaper.epoch.load(Ordering::Acquire) != self.limits.epoch {
            self.limits = Arc::clone(&self.shaper.lock());
        }
    }

    fn enter(&self, now_ns: u64, direction: Direction, cost: Cost) -> ScheduleEntry {
        let now = now_ns.saturating_mul(PARTS_PER_NS);
        let applicable = self.limits.limits.iter().filter(|limit| limit.applies_to(direction, cost));
        let start = applicable.map(|limit| limit.enter(now, cost)).max().unwrap_or(0).max(now);
        ScheduleEntry { epoch: self.limits.epoch, start_ns: start.div_ceil(PARTS_PER_NS), is_entered: true }
    }

    fn leave(&self, entry: ScheduleEntry, direction: Direction, cost: Cost) {
        if entry.is_entered && entry.epoch == self.limits.epoch {
            for limit in self.limits.limits.iter().filter(|limit| limit.applies_to(direction, cost)) {
                limit.leave(cost);
            }
        }
    }
}

/// The commands of one caller and one direction that wait for the limits, in their order. Only the first is
/// entered in the schedules. Reads and writes have a backlog each, so that those under the harder limit do not
/// hold up the others.
///
/// A backlog holds no more than its caller puts in, which is a queue's entries. Its memory stays for the next
/// commands.
#[derive(Debug)]
pub(crate) struct Backlog<T> {
    direction: Direction,
    /// The commands with their costs.
    waiting: VecDeque<(T, Cost)>,
    /// The first one's.
    entry: Option<ScheduleEntry>,
}

impl<T> Backlog<T> {
    pub(crate) const fn new(direction: Direction) -> Self {
        Self { direction, waiting: VecDeque::new(), entry: None }
    }

    /// True if no command waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Number of waiting commands.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Puts a command behind those that wait. It is to be asked for with [`Self::take`], also at once.
    pub(crate) fn push(&mut self, command: T, cost: Cost) {
        self.waiting.push_back((command, cost));
    }

    /// The next command if it may start at `now_ns`. It is asked until there is none, after commands were put
    /// in and when the time of [`Self::wake_ns`] has come.
    pub(crate) fn take(&mut self, view: &mut ShaperView, now_ns: u64) -> Option<T> {
        let cost = self.waiting.front()?.1;
        view.refresh();
        if self.is_held(view, now_ns) {
            return None;
        }
        let entry = match self.entry {
            Some(entry) if entry.is_entered && entry.epoch == view.limits.epoch => entry,
            _ => view.enter(now_ns, self.direction, cost),
        };
        if entry.start_ns > now_ns {
            self.entry = Some(entry);
            return None;
        }
        self.entry = None;
        self.waiting.pop_front().map(|(command, _)| command)
    }

    /// True if the direction's commands are held now; they have to be retried then.
    fn is_held(&mut self, view: &ShaperView, now_ns: u64) -> bool {
        let is_held = view.limits.are_held(self.direction, now_ns);
        if is_held {
            let (epoch, start_ns) = (view.limits.epoch, view.limits.held_until_ns);
            self.entry = Some(ScheduleEntry { epoch, start_ns, is_entered: false });
        }
        is_held
    }

    /// Time of the next retry, in nanoseconds, or `None` while no command waits. May be before a
    /// command can start, since the limits may change meanwhile.
    pub(crate) fn wake_ns(&self, now_ns: u64) -> Option<u64> {
        self.waiting.front()?;
        let start_ns = self.entry.map_or(now_ns, |entry| entry.start_ns);
        Some(start_ns.min(now_ns.saturating_add(RECHECK_NS)))
    }

    /// Takes out the first command that `is_meant`, as for one that is aborted. What it was entered with is
    /// given back.
    pub(crate) fn remove(&mut self, view: &mut ShaperView, is_meant: impl Fn(&T) -> bool) -> Option<T> {
        let at = self.waiting.iter().position(|(command, _)| is_meant(command))?;
        if at == 0 {
            self.give_back(view);
        }
        self.waiting.remove(at).map(|(command, _)| command)
    }

    /// Takes out everything, as for a connection that closes. What was entered is given back.
    pub(crate) fn close(&mut self, view: &mut ShaperView) -> impl Iterator<Item = T> + use<T> {
        self.give_back(view);
        std::mem::take(&mut self.waiting).into_iter().map(|(command, _)| command)
    }

    /// The next command, whatever the limits say, unless it is held.
    pub(crate) fn take_at_once(&mut self, view: &mut ShaperView, now_ns: u64) -> Option<T> {
        self.give_back(view);
        view.refresh();
        if self.waiting.is_empty() || self.is_held(view, now_ns) {
            return None;
        }
        self.waiting.pop_front().map(|(command, _)| command)
    }

    fn give_back(&mut self, view: &mut ShaperView) {
        if let (Some(entry), Some((_, cost))) = (self.entry.take(), self.waiting.front()) {
            view.refresh();
            view.leave(entry, self.direction, *cost);
        }
    }
}

#[cfg(test)]
#[path = "shaper_tests.rs"]
mod tests;
