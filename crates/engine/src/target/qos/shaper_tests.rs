//! What limits give on virtual time, to any number of callers, and who gets it.

use std::thread;

use super::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// A host that keeps `depth` commands outstanding, each of which ends when it starts.
struct Caller {
    view: ShaperView,
    backlog: Backlog<()>,
    cost: Cost,
    starts_ns: Vec<u64>,
}

impl Caller {
    fn new(shaper: &Arc<Shaper>, direction: Direction, depth: usize, bytes: u64) -> Self {
        let cost = match direction {
            Direction::Read => Cost::read(bytes),
            Direction::Write => Cost::written(bytes),
        };
        Self::of(shaper, direction, depth, cost)
    }

    fn of(shaper: &Arc<Shaper>, direction: Direction, depth: usize, cost: Cost) -> Self {
        let mut backlog = Backlog::new(direction);
        (0..depth).for_each(|_| backlog.push((), cost));
        Self { view: ShaperView::new(Arc::clone(shaper)), backlog, cost, starts_ns: Vec::new() }
    }

    /// Starts what may start; when it wants to be asked again.
    fn step(&mut self, now_ns: u64) -> u64 {
        while self.backlog.take(&mut self.view, now_ns).is_some() {
            self.starts_ns.push(now_ns);
            self.backlog.push((), self.cost);
        }
        self.backlog.wake_ns(now_ns).expect("its queue is never empty")
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
        (0..EACH)
            .map(|_| view.enter(SECOND, Direction::Write, Cost::written(512)).start_ns)
            .collect::<Vec<_>>()
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
fn a_copy_takes_from_the_limits_of_both_directions() {
    const LENGTH: u64 = 64 << 10;
    let copy = Cost { read_bytes: LENGTH, written_bytes: LENGTH };
    let none = QosConfig::default();
    let per_second = 1000 * LENGTH;
    for (config, copies) in [
        (QosConfig { read_bytes: Some(per_second), ..none }, 1_000.0),
        (QosConfig { write_bytes: Some(per_second), ..none }, 1_000.0),
        // Each byte of it is one that is read, and one that is written.
        (QosConfig { bytes: Some(per_second), ..none }, 500.0),
        (QosConfig { read_bytes: Some(per_second), write_bytes: Some(per_second / 4), ..none }, 250.0),
        // As a command it is one that writes.
        (QosConfig { write_iops: Some(100), ..none }, 100.0),
        (QosConfig { iops: Some(100), ..none }, 100.0),
    ] {
        let shaper = shaper(config);
        let mut callers = [Caller::of(&shaper, Direction::Write, 8, copy)];
        run(&mut callers, SECOND, 11 * SECOND, 0);
        assert_near(callers[0].starts_ns.len() as f64, 10.0 * copies, 0.025, &format!("{config:?}"));
    }
    let mut view = ShaperView::new(shaper(QosConfig { read_iops: Some(1), ..none }));
    assert!(!view.is_limited(Direction::Write, copy), "as a command it reads nothing");
}

#[test]
fn copies_and_reads_share_what_there_is_to_read() {
    const LENGTH: u64 = 4096;
    let shaper = shaper(QosConfig { read_bytes: Some(1_000 * LENGTH), ..QosConfig::default() });
    let copy = Cost { read_bytes: LENGTH, written_bytes: LENGTH };
    let mut callers = [
        Caller::of(&shaper, Direction::Write, 16, copy),
        Caller::new(&shaper, Direction::Read, 16, LENGTH),
        Caller::new(&shaper, Direction::Write, 1, LENGTH),
    ];
    // Writes are not limited: of the third only some turns are looked at.
    assert!(!callers[2].view.is_limited(Direction::Write, Cost::written(LENGTH)));
    run(&mut callers[..2], SECOND, 11 * SECOND, 0);
    for caller in &callers[..2] {
        assert_near(caller.starts_ns.len() as f64, 5_000.0, 0.01, "half each");
    }
}

#[test]
fn what_a_copy_was_entered_with_is_given_back_in_both_directions() {
    const LENGTH: u64 = 1 << 20;
    let limit = Some(LENGTH);
    let shaper = shaper(QosConfig { read_bytes: limit, write_bytes: limit, ..QosConfig::default() });
    let copy = Cost { read_bytes: LENGTH, written_bytes: LENGTH };
    let free_at =
        |direction| ShaperView::new(Arc::clone(&shaper)).enter(SECOND, direction, Cost::default()).start_ns;
    ShaperView::new(Arc::clone(&shaper)).enter(SECOND, Direction::Write, copy);
    let mut waiting = Caller::of(&shaper, Direction::Write, 1, copy);
    waiting.step(SECOND);
    for direction in [Direction::Read, Direction::Write] {
        assert_eq!(free_at(direction), 3 * SECOND - BURST_NS, "{direction:?}");
    }
    waiting.backlog.close(&mut waiting.view).for_each(drop);
    for direction in [Direction::Read, Direction::Write] {
        assert_eq!(free_at(direction), 2 * SECOND - BURST_NS, "{direction:?}");
    }
}

#[test]
fn a_deep_queue_starves_no_shallow_one() {
    for late_ns in [0, MS] {
        let shaper = shaper(iops(1_000));
        let mut callers: Vec<_> =
            [1, 128, 128].iter().map(|depth| Caller::new(&shaper, Direction::Read, *depth, 4096)).collect();
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
    assert!(!callers[0].view.is_limited(Direction::Read, Cost::read(4096)));
    for _ in 0..8 {
        assert!(callers[0].backlog.take(&mut callers[0].view, SECOND).is_some(), "nothing is limited");
    }
    shaper.update(&iops(10));
    callers[0].backlog.push((), Cost::read(4096));
    run(&mut callers, SECOND, 11 * SECOND, 0);
    assert_near(callers[0].count(SECOND, 11 * SECOND), 100.0, 0.02, "the lower limit holds at once");
}

#[test]
fn no_caller_sleeps_through_a_change() {
    let shaper = shaper(QosConfig { bytes: Some(1), ..QosConfig::default() });
    let mut caller = Caller::new(&shaper, Direction::Write, 2, 1 << 20);
    caller.step(SECOND);
    let wake_ns = caller.step(SECOND);
    assert!(wake_ns <= SECOND + RECHECK_NS, "twelve days are ahead, and it asks at {wake_ns}");
    // A command entered under the old limit, at the last moment, has not disturbed the new one's schedule.
    let late = ShaperView::new(Arc::clone(&shaper));
    shaper.update(&QosConfig { bytes: Some(1 << 30), ..QosConfig::default() });
    late.enter(SECOND, Direction::Write, Cost::written(1 << 20));
    assert!(caller.backlog.take(&mut caller.view, wake_ns).is_some());
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
    assert_eq!(closed.backlog.len(), 3);
    assert_eq!(closed.backlog.close(&mut closed.view).count(), 3);
    assert!(closed.backlog.is_empty() && closed.backlog.wake_ns(SECOND).is_none());
    let (mut aborted, same_ns) = enter(SECOND);
    assert_eq!(wake_ns, same_ns, "the place is free again");
    assert!(aborted.backlog.remove(&mut aborted.view, |()| true).is_some());
    assert_eq!(aborted.step(SECOND), wake_ns, "the next one takes the first one's place");
    shaper.update(&iops(20));
    assert_eq!(
        aborted.backlog.close(&mut aborted.view).count(),
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
        assert!(
            view.enter(now_ns, Direction::Read, Cost::read(u64::MAX)).start_ns <= u64::MAX / PARTS_PER_NS + 1
        );
    }
}

#[test]
fn writes_are_held_until_a_moment_and_reads_are_not() {
    let config = QosConfig { write_iops: Some(1_000_000), ..QosConfig::default() };
    for config in [QosConfig::default(), config] {
        let shaper = Arc::new(Shaper::new(&config));
        let mut reader = Caller::new(&shaper, Direction::Read, 1, 4096);
        let mut writer = Caller::new(&shaper, Direction::Write, 2, 4096);
        let is_limited = |caller: &mut Caller, direction| caller.view.is_limited(direction, caller.cost);
        assert_eq!(is_limited(&mut writer, Direction::Write), config.write_iops.is_some());
        shaper.hold_writes(SECOND);
        assert!(shaper.holds_writes(SECOND) && !shaper.holds_writes(2 * SECOND));
        assert!(is_limited(&mut writer, Direction::Write) && !is_limited(&mut reader, Direction::Read));
        assert_eq!(writer.backlog.take(&mut writer.view, 5 * MS), None);
        assert_eq!(
            writer.backlog.take_at_once(&mut writer.view, 5 * MS),
            None,
            "an upgrade lets none go either"
        );
        let wake_ns = writer.backlog.wake_ns(5 * MS).expect("two wait");
        assert!(
            wake_ns > 5 * MS && wake_ns <= 5 * MS + RECHECK_NS,
            "it is not asked all the time: {wake_ns}"
        );
        assert_eq!(writer.backlog.wake_ns(SECOND - MS), Some(SECOND), "it ends by itself");
        assert_eq!(reader.backlog.take(&mut reader.view, 5 * MS), Some(()));
        // Other limits meanwhile let nothing go.
        shaper.update(&QosConfig { read_iops: Some(5), ..config });
        assert_eq!(writer.backlog.take(&mut writer.view, 6 * MS), None);
        shaper.hold_writes(0);
        assert!(!shaper.holds_writes(SECOND));
        assert_eq!(writer.backlog.take(&mut writer.view, 7 * MS), Some(()));
        shaper.hold_writes(SECOND);
        assert_eq!(writer.backlog.take(&mut writer.view, SECOND - 1), None);
        assert_eq!(writer.backlog.take(&mut writer.view, SECOND), Some(()));
    }
}

#[test]
fn what_was_held_and_never_entered_is_not_given_back() {
    let config = QosConfig { write_iops: Some(10), ..QosConfig::default() };
    let shaper = Arc::new(Shaper::new(&config));
    let mut writer = Caller::new(&shaper, Direction::Write, 4, 4096);
    assert!(writer.backlog.take(&mut writer.view, SECOND).is_some());
    shaper.hold_writes(3 * SECOND);
    for _ in 0..20 {
        assert_eq!(writer.backlog.take(&mut writer.view, 2 * SECOND), None);
        assert_eq!(writer.backlog.remove(&mut writer.view, |()| true), Some(()));
        writer.backlog.push((), writer.cost);
    }
    shaper.hold_writes(0);
    let mut count = 0;
    while writer.backlog.take(&mut writer.view, 2 * SECOND).is_some() {
        count += 1;
        assert!(count < 3, "removed commands have made room in the schedule");
    }
}
