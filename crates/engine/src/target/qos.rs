//! How much of a namespace its hosts may use in a second: when the next command may start, over all reactors,
//! without a lock. It keeps neither the time nor the commands' data, and starts nothing.
//!
//! Each limit is a virtual schedule (GCRA): one atomic number says until when everything that was let through
//! so far takes at the limit's rate. A command is entered behind it and may start as soon as the schedule is
//! no more than `BURST_NS` ahead of the clock. So the rate is exact in the long run whatever the commands'
//! sizes: a large command under a small limit starts like any other, and what follows waits the longer. A
//! command is entered in every limit that applies to it and starts when the last of them lets it.
//!
//! Entering a command ahead of its time, rather than letting callers try again until they are lucky, gives
//! each a definite time to sleep until, and a place that nobody takes. A caller enters only the first of its
//! waiting commands (`Lane`), so callers have turns and a deep queue gets no more of them than a shallow one.
//! It also bounds what is entered but not started to one command for each lane: that much is what a caller
//! that forgets to close its lanes costs the others, what a late change of the limits has to ask anew, and
//! what several limits that hold each other up can let through at once.
//!
//! Other limits have other schedules. A change makes new ones and moves the epoch, and what was entered in
//! the old ones counts no more: a lane that finds the epoch moved enters its command anew, so that no command
//! waits for a time that was computed under another limit, and a caller that is still entering under the old
//! limits cannot spoil the new schedule. Only the first command after a change takes a lock, to fetch the new
//! schedules.
//!
//! Commands on a namespace with a limit write to a cache line that other cores write too, which is what
//! sharing a limit means. On one without, a command costs two loads of lines that nobody writes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::config::QosConfig;

/// How far ahead of its limit a namespace may get after being idle, in nanoseconds. It has to cover what a
/// reactor's timer may be late, so that the limit is reached, and be short against a second, so that it is
/// kept in each.
const BURST_NS: u64 = 20_000_000;
/// How long a waiting caller may leave the limits unasked, in nanoseconds: after so long it has heard of a
/// change.
const RECHECK_NS: u64 = 100_000_000;
/// Schedules count in this part of a nanosecond: with 16 million commands a second, a nanosecond would be 2 %
/// of one.
const PARTS_PER_NS: u64 = 16;
const PARTS_PER_S: u128 = 1_000_000_000 * PARTS_PER_NS as u128;

/// Which of a namespace's limits a command comes under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

/// What a limit counts.
#[derive(Clone, Copy, Debug)]
enum Measure {
    Commands,
    Bytes,
}

/// One limit and its schedule, on a cache line of its own so that reads and writes do not slow each other.
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
    fn applies_to(&self, direction: Direction) -> bool {
        self.direction.is_none_or(|own| own == direction)
    }

    /// How long a command takes at this rate, in parts of a nanosecond.
    fn cost(&self, bytes: u64) -> u64 {
        let amount = match self.measure {
            Measure::Commands => 1,
            Measure::Bytes => bytes,
        };
        // Rounded to the nearest, so that a great many commands are not off by a part each.
        let rate = u128::from(self.per_second);
        let cost = (u128::from(amount) * PARTS_PER_S + rate / 2) / rate;
        u64::try_from(cost).unwrap_or(u64::MAX)
    }

    /// Enters a command; from when on it may start, in parts of a nanosecond.
    fn enter(&self, now: u64, bytes: u64) -> u64 {
        let cost = self.cost(bytes);
        let mut before = self.busy_until.load(Ordering::Relaxed);
        loop {
            // A schedule behind the clock has nothing left: what was not used is gone.
            let after = before.max(now).saturating_add(cost);
            // Nothing else is read on the strength of this number, so no order is needed.
            let exchange =
                self.busy_until.compare_exchange_weak(before, after, Ordering::Relaxed, Ordering::Relaxed);
            match exchange {
                Ok(_) => return before.saturating_sub(BURST_NS * PARTS_PER_NS),
                Err(current) => before = current,
            }
        }
    }

    /// Takes a command off that was entered and does not start. Whoever was entered behind it keeps its time.
    fn leave(&self, bytes: u64) {
        let cost = self.cost(bytes);
        let less = |busy_until: u64| Some(busy_until.saturating_sub(cost));
        // The closure never refuses.
        let _ = self.busy_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

/// All limits of a namespace, as they were between two changes.
#[derive(Debug)]
struct Limits {
    epoch: u64,
    config: QosConfig,
    limits: Vec<Limit>,
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
        Self { epoch, config: *config, limits }
    }
}

/// The limits of one namespace, shared by all who use it.
#[derive(Debug)]
pub(super) struct Shaper {
    /// The current limits' number. It is asked before every command and written at a change only.
    epoch: AtomicU64,
    current: Mutex<Arc<Limits>>,
}

impl Shaper {
    pub(super) fn new(config: &QosConfig) -> Self {
        Self { epoch: AtomicU64::new(0), current: Mutex::new(Arc::new(Limits::new(0, config))) }
    }

    /// Puts other limits into effect, for commands that wait too. The same limits once more change nothing,
    /// so that nobody gets new allowance by repeating them.
    pub(super) fn update(&self, config: &QosConfig) {
        let mut current = self.lock();
        if current.config != *config {
            let epoch = current.epoch + 1;
            *current = Arc::new(Limits::new(epoch, config));
            self.epoch.store(epoch, Ordering::Release);
        }
    }

    /// The limits in effect.
    pub(super) fn config(&self) -> QosConfig {
        self.lock().config
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Limits>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One caller's access to a namespace's shaper. It belongs to one thread.
#[derive(Debug)]
pub(super) struct ShaperView {
    shaper: Arc<Shaper>,
    limits: Arc<Limits>,
}

/// A command's entry in the schedules of one epoch.
#[derive(Clone, Copy, Debug)]
struct Turn {
    epoch: u64,
    start_ns: u64,
}

impl ShaperView {
    pub(super) fn new(shaper: Arc<Shaper>) -> Self {
        let limits = Arc::clone(&shaper.lock());
        Self { shaper, limits }
    }

    /// Whether commands of this direction have to be asked about at all.
    pub(super) fn is_limited(&mut self, direction: Direction) -> bool {
        self.refresh();
        self.limits.limits.iter().any(|limit| limit.applies_to(direction))
    }

    fn refresh(&mut self) {
        if self.shaper.epoch.load(Ordering::Acquire) != self.limits.epoch {
            self.limits = Arc::clone(&self.shaper.lock());
        }
    }

    fn enter(&self, now_ns: u64, direction: Direction, bytes: u64) -> Turn {
        let now = now_ns.saturating_mul(PARTS_PER_NS);
        let applicable = self.limits.limits.iter().filter(|limit| limit.applies_to(direction));
        let start = applicable.map(|limit| limit.enter(now, bytes)).max().unwrap_or(0).max(now);
        Turn { epoch: self.limits.epoch, start_ns: start.div_ceil(PARTS_PER_NS) }
    }

    fn leave(&self, turn: Turn, direction: Direction, bytes: u64) {
        if turn.epoch == self.limits.epoch {
            for limit in self.limits.limits.iter().filter(|limit| limit.applies_to(direction)) {
                limit.leave(bytes);
            }
        }
    }
}

/// The commands of one caller and one direction that wait for the limits, in their order. Only the first is
/// entered in the schedules. Reads and writes have a lane each, so that those under the harder limit do not
/// hold up the others.
///
/// A lane holds no more than its caller puts in, which is a queue's entries. Its memory stays for the next
/// commands.
#[derive(Debug)]
pub(super) struct Lane<T> {
    direction: Direction,
    /// The commands with their bytes.
    waiting: VecDeque<(T, u64)>,
    /// The first one's.
    turn: Option<Turn>,
}

impl<T> Lane<T> {
    pub(super) const fn new(direction: Direction) -> Self {
        Self { direction, waiting: VecDeque::new(), turn: None }
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many commands wait.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Puts a command of `bytes` bytes behind those that wait. It is to be asked for with [`Self::take`],
    /// also at once.
    pub(super) fn push(&mut self, command: T, bytes: u64) {
        self.waiting.push_back((command, bytes));
    }

    /// The next command if it may start at `now_ns`. It is asked until there is none, after commands were put
    /// in and when the time of [`Self::wake_ns`] has come.
    pub(super) fn take(&mut self, view: &mut ShaperView, now_ns: u64) -> Option<T> {
        let (_, bytes) = self.waiting.front()?;
        view.refresh();
        let turn = match self.turn {
            Some(turn) if turn.epoch == view.limits.epoch => turn,
            _ => view.enter(now_ns, self.direction, *bytes),
        };
        if turn.start_ns > now_ns {
            self.turn = Some(turn);
            return None;
        }
        self.turn = None;
        self.waiting.pop_front().map(|(command, _)| command)
    }

    /// When to ask again, in nanoseconds, or `None` while nothing waits. That may be before a command may
    /// start, since the limits may change meanwhile.
    pub(super) fn wake_ns(&self, now_ns: u64) -> Option<u64> {
        self.waiting.front()?;
        let start_ns = self.turn.map_or(now_ns, |turn| turn.start_ns);
        Some(start_ns.min(now_ns.saturating_add(RECHECK_NS)))
    }

    /// Takes out the first command that `is_meant`, as for one that is aborted. What it was entered with is
    /// given back.
    pub(super) fn remove(&mut self, view: &mut ShaperView, is_meant: impl Fn(&T) -> bool) -> Option<T> {
        let at = self.waiting.iter().position(|(command, _)| is_meant(command))?;
        if at == 0 {
            self.give_back(view);
        }
        self.waiting.remove(at).map(|(command, _)| command)
    }

    /// Takes out everything, as for a connection that closes. What was entered is given back.
    pub(super) fn close(&mut self, view: &mut ShaperView) -> impl Iterator<Item = T> + use<T> {
        self.give_back(view);
        std::mem::take(&mut self.waiting).into_iter().map(|(command, _)| command)
    }

    fn give_back(&mut self, view: &mut ShaperView) {
        if let (Some(turn), Some((_, bytes))) = (self.turn.take(), self.waiting.front()) {
            view.refresh();
            view.leave(turn, self.direction, *bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MS;

    /// A host that keeps `depth` commands outstanding, each of which ends when it starts.
    struct Caller {
        view: ShaperView,
        lane: Lane<()>,
        bytes: u64,
        starts_ns: Vec<u64>,
    }

    impl Caller {
        fn new(shaper: &Arc<Shaper>, direction: Direction, depth: usize, bytes: u64) -> Self {
            let mut lane = Lane::new(direction);
            (0..depth).for_each(|_| lane.push((), bytes));
            Self { view: ShaperView::new(Arc::clone(shaper)), lane, bytes, starts_ns: Vec::new() }
        }

        /// Starts what may start; when it wants to be asked again.
        fn step(&mut self, now_ns: u64) -> u64 {
            while self.lane.take(&mut self.view, now_ns).is_some() {
                self.starts_ns.push(now_ns);
                self.lane.push((), self.bytes);
            }
            self.lane.wake_ns(now_ns).expect("its queue is never empty")
        }

        fn count(&self, from_ns: u64, to_ns: u64) -> f64 {
            self.starts_ns.iter().filter(|start| (from_ns..to_ns).contains(start)).count() as f64
        }
    }

    /// Runs the callers on virtual time, each woken up to `late_ns` after it wanted to be.
    fn run(callers: &mut [Caller], from_ns: u64, to_ns: u64, late_ns: u64) {
        let mut wake_ns = vec![from_ns; callers.len()];
        let mut turns = 0_u64;
        loop {
            let at = (0..callers.len()).min_by_key(|at| wake_ns[*at]).expect("there are callers");
            let now_ns = wake_ns[at];
            if now_ns >= to_ns {
                return;
            }
            // Spread over the whole range, and the same each time.
            turns += 1;
            let late = if late_ns == 0 { 0 } else { turns.wrapping_mul(0x9e37_79b9_7f4a_7c15) % late_ns };
            wake_ns[at] = callers[at].step(now_ns).max(now_ns + 1) + late;
        }
    }

    fn shaper(config: QosConfig) -> Arc<Shaper> {
        Arc::new(Shaper::new(&config))
    }

    fn iops(iops: u64) -> QosConfig {
        QosConfig { iops: Some(iops), ..QosConfig::default() }
    }

    fn assert_near(actual: f64, expected: f64, tolerance: f64, what: &str) {
        let off = (actual - expected).abs() / expected;
        assert!(off <= tolerance, "{what}: {actual}, not {expected}");
    }

    #[test]
    fn the_rate_over_ten_seconds_is_the_limit_with_any_number_of_callers() {
        for (count, depth, late_ns) in [(1, 1, 0), (1, 32, 0), (16, 1, 0), (16, 32, 0), (16, 8, 5 * MS)] {
            for limit in [1_000, 33_333, 100_000] {
                let shaper = shaper(iops(limit));
                let new = |_| Caller::new(&shaper, Direction::Read, depth, 4096);
                let mut callers: Vec<_> = (0..count).map(new).collect();
                run(&mut callers, SECOND, 11 * SECOND, late_ns);
                let total: f64 = callers.iter().map(|caller| caller.starts_ns.len() as f64).sum();
                assert_near(total, 10.0 * limit as f64, 0.005, &format!("{count} callers of depth {depth}"));
            }
        }
    }

    #[test]
    fn threads_get_distinct_places_in_one_schedule() {
        const THREADS: usize = 16;
        const EACH: usize = 2_000;
        let shaper = shaper(iops(10_000));
        let enter_all = || {
            let view = ShaperView::new(Arc::clone(&shaper));
            (0..EACH).map(|_| view.enter(SECOND, Direction::Write, 512).start_ns).collect::<Vec<_>>()
        };
        let mut starts_ns: Vec<u64> = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(enter_all)).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
        });
        starts_ns.sort_unstable();
        for (place, start_ns) in starts_ns.iter().enumerate() {
            // 100 us each; the first 200 are the burst.
            let due_ns = (SECOND + place as u64 * SECOND / 10_000).saturating_sub(BURST_NS).max(SECOND);
            assert_eq!(*start_ns, due_ns, "place {place}");
        }
    }

    #[test]
    fn every_second_after_the_first_has_the_limit() {
        for late_ns in [0, 10 * MS] {
            let shaper = shaper(iops(1_000));
            let mut callers = [Caller::new(&shaper, Direction::Read, 16, 4096)];
            run(&mut callers, 0, 10 * SECOND, late_ns);
            for from_ms in 1_000..9_000 {
                let count = callers[0].count(from_ms * MS, from_ms * MS + SECOND);
                assert!((950.0..=1050.0).contains(&count), "{count} from {from_ms} ms on");
            }
        }
    }

    #[test]
    fn bytes_are_limited_whatever_the_size_of_commands() {
        for (bytes, limit) in
            [(512, 10_000_000_000), (4096, 100_000_000), (1 << 20, 10 << 20), (131_072, 3 << 20)]
        {
            let shaper = shaper(QosConfig { write_bytes: Some(limit), ..QosConfig::default() });
            let mut callers = [Caller::new(&shaper, Direction::Write, 4, bytes)];
            // A tenth of a second is enough where there are millions of commands in it.
            let time_ns = if bytes == 512 { SECOND / 10 } else { 30 * SECOND };
            run(&mut callers, 2 * SECOND, 2 * SECOND + time_ns, 0);
            let moved = callers[0].starts_ns.len() as f64 * bytes as f64;
            let burst = limit as f64 * BURST_NS as f64 / 1e9 + bytes as f64;
            let due = limit as f64 * time_ns as f64 / 1e9;
            assert!((due * 0.999..=due * 1.001 + burst).contains(&moved), "{moved} of {due}");
        }
    }

    #[test]
    fn a_command_larger_than_a_second_allows_passes_and_is_paid_for() {
        let shaper = shaper(QosConfig { bytes: Some(64 << 10), ..QosConfig::default() });
        let mut callers = [Caller::new(&shaper, Direction::Read, 2, 1 << 20)];
        run(&mut callers, SECOND, 50 * SECOND, 0);
        let due_ns = [0, 16, 32, 48].map(|at| SECOND + at * SECOND - if at == 0 { 0 } else { BURST_NS });
        assert_eq!(callers[0].starts_ns, due_ns);
    }

    #[test]
    fn reads_and_writes_have_limits_apart_and_one_together() {
        let both = QosConfig { read_iops: Some(2_000), write_iops: Some(500), ..QosConfig::default() };
        for (config, reads, writes) in [
            (both, 2_000.0, 500.0),
            // Each waits for its own, so the one under the common limit that is left gets the rest.
            (QosConfig { iops: Some(1_500), ..both }, 1_000.0, 500.0),
            (QosConfig { iops: Some(600), write_iops: Some(100), ..QosConfig::default() }, 500.0, 100.0),
        ] {
            let shaper = shaper(config);
            let mut callers = [
                Caller::new(&shaper, Direction::Read, 32, 4096),
                Caller::new(&shaper, Direction::Write, 32, 4096),
            ];
            run(&mut callers, SECOND, 11 * SECOND, 0);
            assert_near(callers[0].starts_ns.len() as f64, 10.0 * reads, 0.01, "reads");
            assert_near(callers[1].starts_ns.len() as f64, 10.0 * writes, 0.01, "writes");
        }
    }

    #[test]
    fn a_deep_queue_starves_no_shallow_one() {
        for late_ns in [0, MS] {
            let shaper = shaper(iops(1_000));
            let mut callers: Vec<_> = [1, 128, 128]
                .iter()
                .map(|depth| Caller::new(&shaper, Direction::Read, *depth, 4096))
                .collect();
            run(&mut callers, SECOND, 11 * SECOND, late_ns);
            for caller in &callers {
                let share = caller.starts_ns.len() as f64 / 10_000.0;
                assert!(share > 0.25, "a third is fair, and one caller has {share}");
            }
        }
    }

    #[test]
    fn waiting_commands_learn_of_other_limits() {
        let shaper = shaper(iops(1));
        let mut callers = [Caller::new(&shaper, Direction::Read, 8, 4096)];
        run(&mut callers, 0, SECOND / 2, 0);
        assert_eq!(callers[0].starts_ns.len(), 1, "one command a second");
        shaper.update(&iops(1_000));
        assert_eq!(shaper.config(), iops(1_000));
        run(&mut callers, SECOND / 2, SECOND, 0);
        assert_near(callers[0].count(SECOND / 2, SECOND), 500.0, 0.05, "a thousand times more");
        shaper.update(&QosConfig::default());
        assert!(!callers[0].view.is_limited(Direction::Read));
        for _ in 0..8 {
            assert!(callers[0].lane.take(&mut callers[0].view, SECOND).is_some(), "nothing is limited");
        }
        shaper.update(&iops(10));
        callers[0].lane.push((), 4096);
        run(&mut callers, SECOND, 11 * SECOND, 0);
        assert_near(callers[0].count(SECOND, 11 * SECOND), 100.0, 0.02, "the lower limit holds at once");
    }

    #[test]
    fn nobody_sleeps_through_a_change() {
        let shaper = shaper(QosConfig { bytes: Some(1), ..QosConfig::default() });
        let mut caller = Caller::new(&shaper, Direction::Write, 2, 1 << 20);
        caller.step(SECOND);
        let wake_ns = caller.step(SECOND);
        assert!(wake_ns <= SECOND + RECHECK_NS, "twelve days are ahead, and it asks at {wake_ns}");
        // Whoever entered under the old limit, at the last moment, has not spoilt the new one's schedule.
        let late = ShaperView::new(Arc::clone(&shaper));
        shaper.update(&QosConfig { bytes: Some(1 << 30), ..QosConfig::default() });
        late.enter(SECOND, Direction::Write, 1 << 20);
        assert!(caller.lane.take(&mut caller.view, wake_ns).is_some());
    }

    #[test]
    fn the_same_limits_again_give_no_new_allowance() {
        let shaper = shaper(iops(10));
        let mut callers = [Caller::new(&shaper, Direction::Read, 4, 4096)];
        for second in 0..10 {
            run(&mut callers, second * SECOND, (second + 1) * SECOND, 0);
            shaper.update(&iops(10));
        }
        assert!(callers[0].starts_ns.len() <= 101);
    }

    #[test]
    fn what_is_cancelled_is_given_back() {
        let shaper = shaper(iops(10));
        let mut first = Caller::new(&shaper, Direction::Read, 1, 4096);
        first.step(SECOND);
        let enter = |now_ns| {
            let mut caller = Caller::new(&shaper, Direction::Read, 3, 4096);
            let wake_ns = caller.step(now_ns);
            (caller, wake_ns)
        };
        let (mut closed, wake_ns) = enter(SECOND);
        assert_eq!(closed.lane.len(), 3);
        assert_eq!(closed.lane.close(&mut closed.view).count(), 3);
        assert!(closed.lane.is_empty() && closed.lane.wake_ns(SECOND).is_none());
        let (mut aborted, same_ns) = enter(SECOND);
        assert_eq!(wake_ns, same_ns, "the place is free again");
        assert!(aborted.lane.remove(&mut aborted.view, |()| true).is_some());
        assert_eq!(aborted.step(SECOND), wake_ns, "the next one takes the first one's place");
        shaper.update(&iops(20));
        assert_eq!(
            aborted.lane.close(&mut aborted.view).count(),
            2,
            "nothing to give back in the new schedule"
        );
        assert_eq!(enter(SECOND).0.starts_ns.len(), 1);
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let config = QosConfig { bytes: Some(1), iops: Some(u64::MAX), ..QosConfig::default() };
        let view = ShaperView::new(shaper(config));
        for now_ns in [0, u64::MAX / 2, u64::MAX] {
            assert!(view.enter(now_ns, Direction::Read, u64::MAX).start_ns <= u64::MAX / PARTS_PER_NS + 1);
        }
    }
}
