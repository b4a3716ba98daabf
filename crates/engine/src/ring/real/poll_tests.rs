//! The poll windows in traces of waits: two ends that wait for each other, disks, time that is stolen, bursts, a core that
//! others want, and clocks that jump. All on made-up time.

use std::time::Duration;

use super::Outstanding::{Large, Many, Nothing, Small};
use super::*;
use crate::ring::Buffer;

const WAKE_UP: Duration = Duration::from_micros(25);
const USUAL: Duration = Duration::from_micros(POLL_USUAL_US);

/// Random numbers that are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Windows of a ring on a machine of two cores, where a wake-up costs this time.
fn windows(wake_up: Duration) -> PollWindows {
    let mut windows = PollWindows::new(POLL_US_MAX, true);
    windows.set_wake_up(wake_up);
    windows
}

/// Time until which the next event does not have to wake the ring.
fn reach(windows: &PollWindows, outstanding: Outstanding, now: Moment) -> Duration {
    let plan = windows.plan(outstanding, now);
    plan.doze + plan.poll
}

/// A wait for an event that comes after `wait`, where a wake-up takes as long as the windows assume. The time polled.
fn wait_once(windows: &mut PollWindows, outstanding: Outstanding, wait: Duration, now: Moment) -> Duration {
    let wake_up = Duration::from_nanos(windows.wake_up.ns());
    wait_for_once(windows, outstanding, wait, wake_up, now)
}

/// The same, where a wake-up takes this time.
fn wait_for_once(
    windows: &mut PollWindows,
    outstanding: Outstanding,
    wait: Duration,
    wake_up: Duration,
    now: Moment,
) -> Duration {
    let Plan { doze, poll } = windows.plan(outstanding, now);
    let mut dozed = Duration::ZERO;
    if !doze.is_zero() {
        dozed = doze.min(wait) + wake_up;
        windows.dozed(doze, dozed, wait <= dozed);
    }
    let polled = poll.min(wait.saturating_sub(dozed));
    if wait <= dozed {
        windows.slept(outstanding, dozed, Duration::ZERO);
    } else if wait <= dozed + poll {
        windows.found(outstanding, wait);
    } else {
        windows.slept(outstanding, wait + wake_up, polled);
    }
    polled
}

/// Waits of the same length, of which each goes as is planned. The share of the time that was polled, in percent.
fn polled_percent(windows: &mut PollWindows, outstanding: Outstanding, wait: Duration, count: u32) -> u64 {
    let (mut now, mut polled) = (Moment(0), Duration::ZERO);
    for _ in 0..count {
        polled += wait_once(windows, outstanding, wait, now);
        now = now.after(wait);
    }
    (polled.as_nanos() * 100 / (wait * count).as_nanos()) as u64
}

/// End of a connection at depth 1: a core, windows, and the start of its wait.
struct End {
    windows: PollWindows,
    waits_since: Moment,
    /// Start and length of the next time that its core is taken away.
    stolen_at: Moment,
    stolen_for: Duration,
}

impl End {
    fn new() -> Self {
        let windows = windows(WAKE_UP);
        Self { windows, waits_since: Moment(0), stolen_at: Moment(u64::MAX), stolen_for: Duration::ZERO }
    }

    /// The moment at which it takes an event of `arrival`.
    fn takes(
        &mut self,
        beside: Outstanding,
        arrival: Moment,
        random: &mut Random,
        steal_percent: u64,
    ) -> Moment {
        let Plan { doze, poll } = self.windows.plan(beside, self.waits_since);
        let since = self.waits_since;
        // A sleeping thread is woken by the other core, and in a virtual machine that takes its time.
        let wake_up = Duration::from_micros(25 + random.below(40));
        let dozed = if doze.is_zero() { Duration::ZERO } else { doze + wake_up };
        let polls_from = since.after(dozed);
        let came = arrival.since(since);
        let is_polled = came > dozed && came <= dozed + poll || doze.is_zero() && came <= poll;
        let polled = if is_polled || came <= dozed { Duration::ZERO } else { poll };
        let mut at = if is_polled {
            arrival
        } else if came > doze && came <= dozed {
            polls_from
        } else {
            arrival.after(wake_up)
        };
        if !doze.is_zero() {
            self.windows.dozed(doze, doze.min(came) + wake_up, came <= dozed);
        }
        let mut gap = None;
        while steal_percent > 0 && self.stolen_at <= at {
            let end = self.stolen_at.after(self.stolen_for);
            let is_amid_polling = self.stolen_at >= polls_from && self.stolen_at.since(polls_from) <= poll;
            if is_amid_polling {
                gap = Some((self.stolen_for, end));
            }
            at = at.max(end);
            self.plan_theft(end, random, steal_percent);
        }
        match gap {
            Some((gap, end)) => self.windows.lost(gap, end),
            None if is_polled => self.windows.found(beside, at.since(since)),
            None => self.windows.slept(beside, at.since(since), polled),
        }
        self.waits_since = at;
        at
    }

    fn plan_theft(&mut self, now: Moment, random: &mut Random, percent: u64) {
        self.stolen_for = Duration::from_micros(100 + random.below(5_000));
        let apart = self.stolen_for * (100 - percent) as u32 * 2 / percent as u32;
        self.stolen_at = now.after(Duration::from_nanos(random.below(apart.as_nanos() as u64)));
    }
}

/// Two ends that answer each other for 20 s, one of them after a disk has answered, if there is one. The longest time in
/// which more round trips were slow than fast.
fn longest_slow_state(
    seed: u64,
    steal_percent: u64,
    begins_asleep: bool,
    disk: Option<Duration>,
) -> Duration {
    const STRETCH: Duration = Duration::from_millis(10);
    const WORK: Duration = Duration::from_micros(4);
    let slow_from = Duration::from_micros(60) + disk.unwrap_or_default();
    let mut random = Random(seed);
    let mut ends = [End::new(), End::new()];
    if steal_percent > 0 {
        ends.iter_mut().for_each(|end| end.plan_theft(Moment(0), &mut random, steal_percent));
    }
    if !begins_asleep {
        let short = Duration::from_micros(5);
        ends.iter_mut().for_each(|end| _ = polled_percent(&mut end.windows, Nothing, short, 100));
    }
    let (mut now, mut stretch_began, mut slow_since) = (Moment(0), Moment(0), Moment(0));
    let (mut slow, mut fast, mut longest) = (0, 0, Duration::ZERO);
    while now < Moment(20_000_000_000) {
        let began = now;
        for at in [1, 0] {
            let arrival = now.after(Duration::from_micros(3));
            now = ends[at].takes(Nothing, arrival, &mut random, steal_percent).after(WORK);
            ends[at].waits_since = now;
            if let Some(disk) = disk
                && at == 1
            {
                now = ends[at].takes(Small, now.after(disk), &mut random, steal_percent).after(WORK);
                ends[at].waits_since = now;
            }
        }
        // A round trip of which milliseconds were stolen tells nothing of the windows.
        let took = now.since(began);
        if took > slow_from && took < slow_from + Duration::from_micros(140) {
            slow += 1;
        } else if took <= slow_from {
            fast += 1;
        }
        if now.since(stretch_began) >= STRETCH {
            if slow <= fast {
                slow_since = now;
            }
            longest = longest.max(now.since(slow_since));
            (stretch_began, slow, fast) = (now, 0, 0);
        }
    }
    longest
}

#[test]
fn rare_events_are_slept_for() {
    for wait in [Duration::from_micros(300), Duration::from_millis(1), Duration::from_secs(1)] {
        let mut windows = windows(WAKE_UP);
        polled_percent(&mut windows, Nothing, Duration::from_micros(8), 200);
        polled_percent(&mut windows, Nothing, wait, 50);
        assert_eq!(polled_percent(&mut windows, Nothing, wait, 10_000), 0, "{wait:?}");
    }
}

#[test]
fn one_idle_wait_ends_polling() {
    let (never, now) = (Duration::ZERO, Moment(u64::MAX));
    let mut windows = windows(WAKE_UP);
    for outstanding in [Nothing, Small] {
        polled_percent(&mut windows, outstanding, Duration::from_micros(10), 1000);
    }
    assert_eq!(reach(&windows, Nothing, now), USUAL);
    windows.slept(Nothing, Duration::from_millis(99), USUAL);
    assert_eq!(reach(&windows, Nothing, now), USUAL, "such a wait may be stolen time");
    windows.slept(Nothing, Duration::from_secs(1), USUAL);
    assert_eq!(reach(&windows, Nothing, now), never);
    assert_eq!(reach(&windows, Small, now), never, "an idle ring polls for its disk neither");
    assert!(
        polled_percent(&mut windows, Nothing, Duration::from_micros(10), 1000) > 90,
        "and work begins it again"
    );
}

#[test]
fn frequent_events_are_polled_for() {
    let mut windows = windows(WAKE_UP);
    polled_percent(&mut windows, Nothing, Duration::from_micros(8), 50);
    assert_eq!(windows.plan(Nothing, Moment(0)), Plan { doze: Duration::ZERO, poll: USUAL });
    let mut never = PollWindows::new(0, true);
    for wait_us in [8, 60, 150, 5000] {
        assert_eq!(polled_percent(&mut never, Small, Duration::from_micros(wait_us), 1000), 0);
        assert_eq!(never.plan(Small, Moment(0)), Plan::default());
    }
}

#[test]
fn a_disk_is_waited_for_as_long_as_it_takes() {
    for wake_up_us in [25, 40, 70] {
        let mut windows = windows(Duration::from_micros(wake_up_us));
        for (wait_us, least, most) in [(60, 99, 100), (5000, 0, 0)] {
            let wait = Duration::from_micros(wait_us);
            polled_percent(&mut windows, Small, wait, 100);
            let percent = polled_percent(&mut windows, Small, wait, 1000);
            assert!((least..=most).contains(&percent), "{wake_up_us}, {wait_us} µs: {percent} % polled");
        }
    }
}

#[test]
fn a_disk_that_becomes_slow_and_fast_again_is_followed_within_some_dozens_of_waits() {
    const WAITS: u32 = 64;
    let (fast, slow) = (Duration::from_micros(60), Duration::from_millis(5));
    let mut windows = windows(Duration::from_micros(40));
    for _ in 0..3 {
        for (wait, is_polled) in [(fast, true), (slow, false), (fast, true)] {
            polled_percent(&mut windows, Small, wait, WAITS);
            let plan = windows.plan(Small, Moment(0));
            assert!(plan.doze.is_zero() && (plan.poll >= wait) == is_polled, "{wait:?}: {plan:?}");
            assert!(is_polled || plan.poll.is_zero(), "{wait:?}: {plan:?}");
            polled_percent(&mut windows, Small, wait, 1000);
        }
    }
}

#[test]
fn a_device_that_is_slower_than_polling_is_worth_costs_little_of_it() {
    for wait_us in [110, 150, 190] {
        let wait = Duration::from_micros(wait_us);
        let mut windows = windows(WAKE_UP);
        polled_percent(&mut windows, Small, wait, 100);
        let plan = windows.plan(Small, Moment(0));
        assert!(plan.doze + WAKE_UP < wait && wait < plan.doze + plan.poll, "{wait:?}: {plan:?}");
        let percent = polled_percent(&mut windows, Small, wait, 20_000);
        assert!(percent <= 12, "{wait_us} µs: {percent} % of a core");
        // And without a share where the longest polling was set as short as the usual one.
        let mut fixed = PollWindows::new(POLL_USUAL_US, true);
        let percent = polled_percent(&mut fixed, Small, wait, 20_000);
        assert!(percent <= 7, "{wait_us} µs: {percent} % of a core");
    }
}

#[test]
fn what_a_wake_up_costs_is_learned_from_timed_sleeps() {
    let mut windows = windows(WAKE_UP);
    let (wait, real) = (Duration::from_micros(180), Duration::from_micros(60));
    polled_percent(&mut windows, Small, wait, 100);
    let Plan { doze, .. } = windows.plan(Small, Moment(0));
    assert!(!doze.is_zero());
    for at in 0..200 {
        // Some of which an event has ended, or in which time was stolen.
        let took = [doze / 2, doze + real, doze + real, doze + real, Duration::from_secs(1)][at % 5];
        windows.dozed(doze, took, took < doze);
    }
    let cost = Duration::from_nanos(windows.wake_up.ns());
    assert!(cost >= real && cost < 2 * real, "{cost:?}");
    polled_percent(&mut windows, Small, wait, 10);
    assert_eq!(windows.plan(Small, Moment(0)).doze, Duration::ZERO, "it wakes up too late for a doze");
    (0..200).for_each(|_| windows.dozed(doze, doze + Duration::from_nanos(1), true));
    assert_eq!(Duration::from_nanos(windows.wake_up.ns()), cost, "an event ended it just before its end");
    (0..200).for_each(|_| windows.dozed(doze, doze + Duration::from_nanos(1), false));
    assert_eq!(windows.wake_up.ns(), WAKE_UP_US_MIN * 1000);
    (0..200).for_each(|_| windows.dozed(doze, doze + real, true));
    assert_eq!(Duration::from_nanos(windows.wake_up.ns()), real, "at least that, whatever ended it");
    (0..200).for_each(|_| windows.dozed(doze, Duration::from_secs(1), false));
    assert_eq!(windows.wake_up.ns(), WAKE_UP_US_MAX * 1000);
}

#[test]
fn a_wrong_cost_of_a_wake_up_is_corrected_where_it_matters() {
    let us = Duration::from_micros;
    for (assumed_us, real_us, wait_us, is_corrected) in [
        (5, 25, 60, true),
        (5, 60, 150, true),
        (100, 25, 60, true),
        (100, 25, 150, true),
        // Polled for from its beginning with either.
        (100, 40, 60, false),
        (100, 25, 8, false),
    ] {
        let [corrected, right] = [assumed_us, real_us].map(|wake_up_us| {
            let mut windows = windows(us(wake_up_us));
            for _ in 0..100_000 {
                wait_for_once(&mut windows, Small, us(wait_us), us(real_us), Moment(0));
            }
            (windows.wake_up.ns(), windows.windows[Small as usize].plan(windows.wake_up.ns()))
        });
        let case = format!("{assumed_us} for {real_us} µs, waits of {wait_us} µs");
        assert_eq!(corrected.1, right.1, "{case}");
        assert_eq!(corrected.0 == real_us * 1000, is_corrected, "{case}: {} ns", corrected.0);
    }
}

#[test]
fn bursts_are_polled_for_and_the_pauses_between_them_are_not() {
    let mut windows = windows(WAKE_UP);
    polled_percent(&mut windows, Nothing, Duration::from_micros(5), 100);
    for burst in 0..100 {
        assert!(polled_percent(&mut windows, Nothing, Duration::from_micros(5), 50) == 100, "burst {burst}");
        assert!(
            polled_percent(&mut windows, Nothing, Duration::from_millis(20), 2) == 0,
            "pause after {burst}"
        );
    }
}

#[test]
fn two_ends_that_sleep_begin_to_poll() {
    for seed in 0..10 {
        for disk_us in [None, Some(70), Some(150)] {
            let slow = longest_slow_state(seed, 0, true, disk_us.map(Duration::from_micros));
            assert!(slow <= Duration::from_millis(50), "seed {seed}, disk {disk_us:?}: slow for {slow:?}");
        }
    }
}

#[test]
fn stolen_time_leads_into_no_slow_state() {
    for seed in 0..10 {
        for (steal_percent, disk_us) in [(5, None), (30, None), (5, Some(70))] {
            let disk = disk_us.map(Duration::from_micros);
            let slow = longest_slow_state(seed, steal_percent, seed % 2 == 0, disk);
            assert!(
                slow <= Duration::from_millis(100),
                "seed {seed}, {steal_percent} %, disk {disk_us:?}: slow for {slow:?}"
            );
        }
    }
}

#[test]
fn a_core_that_others_want_all_the_time_is_left_to_them() {
    // A thread that yields gets the core back after a time slice, one that sleeps when it is woken.
    const SLICE: Duration = Duration::from_millis(3);
    let mut windows = windows(WAKE_UP);
    for outstanding in [Nothing, Small] {
        polled_percent(&mut windows, outstanding, Duration::from_micros(5), 100);
    }
    let (mut now, mut lost) = (Moment(0), Duration::ZERO);
    // In turns, as a target waits for its host and for its disk.
    for outstanding in [Nothing, Small].into_iter().cycle() {
        if now >= Moment(10_000_000_000) {
            break;
        }
        if reach(&windows, outstanding, now).is_zero() {
            let wait = Duration::from_micros(40);
            now = now.after(wait);
            windows.slept(outstanding, wait, Duration::ZERO);
        } else {
            now = now.after(SLICE);
            lost += SLICE;
            windows.lost(SLICE, now);
        }
    }
    assert!(lost < Duration::from_millis(600), "lost {lost:?} of 10 s");
    // And when they have gone, it is polled again.
    now = now.after(Duration::from_nanos(AWAY_NS_MAX));
    assert!(!reach(&windows, Nothing, now).is_zero());
}

#[test]
fn a_clock_that_jumps_keeps_polling_away_no_longer_than_others_do() {
    const HOUR: Duration = Duration::from_secs(3600);
    let mut windows = windows(WAKE_UP);
    let short = Duration::from_micros(60);
    polled_percent(&mut windows, Small, short, 100);
    let poll = reach(&windows, Small, Moment(0));
    // An hour ahead, and back.
    let ahead = Moment(0).after(HOUR);
    windows.lost(HOUR, ahead);
    assert_eq!(reach(&windows, Small, ahead), Duration::ZERO);
    assert_eq!(reach(&windows, Small, Moment(0)), poll);
    assert_eq!(reach(&windows, Small, ahead.after(Duration::from_nanos(AWAY_NS_MAX))), poll);
    // Set back amid polling, which is a gap without length.
    windows.lost(Duration::ZERO, Moment(0));
    assert_eq!(reach(&windows, Small, Moment(0)), poll);
    // A clock that stands still, which polling notices by the number of its steps.
    (0..2).for_each(|_| windows.lost(poll, ahead));
    assert_eq!(reach(&windows, Small, ahead), Duration::ZERO);
    // Waits of no time by the clock, or of an age.
    for waited in [Duration::ZERO, Duration::from_nanos(u64::MAX), Duration::ZERO] {
        windows.found(Small, waited);
        windows.slept(Small, waited, Duration::ZERO);
        windows.dozed(short, waited, false);
    }
    assert!(reach(&windows, Small, Moment(0)) <= poll);
    assert!(polled_percent(&mut windows, Small, short, 200) > 50, "and it is polled again");
}

#[test]
fn storage_that_never_answers_ends_polling_after_one_window() {
    let mut windows = windows(WAKE_UP);
    for outstanding in [Small, Large, Many] {
        polled_percent(&mut windows, outstanding, Duration::from_micros(3), 100);
        let window = reach(&windows, outstanding, Moment(0));
        assert!(!window.is_zero() && window <= USUAL, "{outstanding:?}: {window:?}");
        // The ring's owner looks after its own affairs meanwhile, twice a second.
        windows.expired(Duration::from_millis(500));
        let percent = polled_percent(&mut windows, outstanding, Duration::from_millis(500), 100);
        assert_eq!(percent, 0, "{outstanding:?}");
        assert_eq!(reach(&windows, outstanding, Moment(0)), Duration::ZERO, "{outstanding:?}");
    }
}

#[test]
fn waits_that_end_without_an_event_teach_nothing_until_the_ring_is_idle() {
    let (wait, timeout) = (Duration::from_micros(60), Duration::from_millis(5));
    let mut windows = windows(WAKE_UP);
    polled_percent(&mut windows, Small, wait, 100);
    let plan = windows.plan(Small, Moment(0));
    assert!(plan.poll > wait);
    for _ in 0..10 {
        (0..19).for_each(|_| windows.expired(timeout));
        assert_eq!(windows.plan(Small, Moment(0)), plan);
        wait_once(&mut windows, Small, wait, Moment(0));
    }
    (0..20).for_each(|_| windows.expired(timeout));
    assert_eq!(windows.plan(Small, Moment(0)), Plan::default(), "after 100 ms");
    windows.expired(Duration::MAX);
}

#[test]
fn a_machine_of_one_core_or_late_timers_keeps_to_the_usual_window() {
    for wait_us in [5, 60, 110, 150, 400, 5000] {
        let mut windows = PollWindows::new(POLL_US_MAX, false);
        windows.set_wake_up(WAKE_UP);
        let wait = Duration::from_micros(wait_us);
        for _ in 0..1000 {
            let plan = windows.plan(Small, Moment(0));
            assert!(plan.doze.is_zero() && plan.poll <= 2 * USUAL, "{wait:?}: {plan:?}");
            wait_once(&mut windows, Small, wait, Moment(0));
        }
        let percent = polled_percent(&mut windows, Small, wait, 20_000);
        assert!(wait_us <= 60 || percent <= 10, "{wait:?}: {percent} % polled");
    }
}

#[test]
fn waits_beside_different_operations_are_counted_for_themselves() {
    let outstanding = [Nothing, Small, Large, Many];
    let short = Duration::from_micros(3);
    let mut windows = windows(WAKE_UP);
    let all = |windows: &PollWindows| outstanding.map(|each| reach(windows, each, Moment(0)));
    outstanding.iter().for_each(|each| _ = polled_percent(&mut windows, *each, short, 100));
    let busy = Duration::from_micros(POLL_BUSY_US_MAX);
    assert_eq!(all(&windows), [USUAL, USUAL, USUAL, busy]);
    polled_percent(&mut windows, Small, Duration::from_micros(60), 100);
    assert_eq!(all(&windows), [USUAL, Duration::from_micros(120), USUAL, busy]);
    // A device that takes longer ends polling where it is waited for, and nowhere else.
    polled_percent(&mut windows, Large, Duration::from_millis(1), 100);
    polled_percent(&mut windows, Many, Duration::from_millis(1), 100);
    assert_eq!(all(&windows), [USUAL, Duration::from_micros(120), Duration::ZERO, Duration::ZERO]);
}

#[test]
fn operations_differ_by_their_number_and_length() {
    for (stores_pending, is_large, outstanding) in [
        (0, true, Nothing),
        (1, false, Small),
        (1, true, Large),
        (STORES_BUSY - 1, false, Small),
        (STORES_BUSY - 1, true, Large),
        (STORES_BUSY, false, Many),
        (1000, true, Many),
    ] {
        assert_eq!(Outstanding::of(stores_pending, is_large), outstanding);
    }
    for (length, is_large) in
        [(512, false), (POLL_SMALL_LENGTH_MAX, false), (POLL_SMALL_LENGTH_MAX + 512, true)]
    {
        let read = StorageOp::Read { buffer: Buffer::zeroed(length), offset: 0 };
        let write = StorageOp::Write { buffer: Buffer::zeroed(length), offset: 0, durable: false };
        assert_eq!((Outstanding::is_large(&read), Outstanding::is_large(&write)), (is_large, is_large));
    }
    assert!(Outstanding::is_large(&StorageOp::Sync));
}

#[test]
fn no_window_is_longer_than_was_asked_for() {
    let us = Duration::from_micros;
    for (asked, usual, longest, busy) in [(0, 0, 0, 0), (5, 5, 5, 5), (90, 50, 90, 15), (1000, 50, 120, 15)] {
        let mut windows = PollWindows::new(asked, true);
        if windows.is_adaptive() {
            windows.set_wake_up(WAKE_UP);
        }
        for (outstanding, wait_us, window) in [(Nothing, 1, usual), (Small, 60, longest), (Many, 1, busy)] {
            polled_percent(&mut windows, outstanding, us(wait_us), 100);
            let expected = if asked < wait_us { 0 } else { window };
            assert_eq!(reach(&windows, outstanding, Moment(0)), us(expected), "{asked}, {outstanding:?}");
        }
    }
}

#[test]
fn longer_polling_than_by_default_is_done_for_all_waits_within_it() {
    let wait = Duration::from_micros(400);
    for (asked, plan) in [
        (500, Plan { doze: Duration::ZERO, poll: Duration::from_micros(500) }),
        (POLL_US_MAX, Plan::default()),
        (390, Plan::default()),
    ] {
        let mut windows = PollWindows::new(asked, true);
        windows.set_wake_up(WAKE_UP);
        polled_percent(&mut windows, Small, wait, 100);
        assert_eq!(windows.plan(Small, Moment(0)), plan, "{asked} µs");
        polled_percent(&mut windows, Small, Duration::from_millis(5), 100);
        assert_eq!(windows.plan(Small, Moment(0)), Plan::default(), "{asked} µs, and no longer than that");
    }
}

#[test]
fn making_way_waits_unless_the_peer_is_on_this_core() {
    let (soon, late) = (Duration::from_micros(1), Duration::from_micros(20));
    let mut yielding = Yielding::default();
    let mut make_way = |took_us: u64, has_news: bool, times: u32| {
        (0..times).for_each(|_| yielding.yielded(Duration::from_micros(took_us), has_news));
        assert!(yielding.is_due(late));
        yielding.is_due(soon)
    };
    assert!(!make_way(0, true, 100), "no other thread wanted the core, and the answer came just then");
    assert!(!make_way(3000, true, 100), "a busy neighbour had its slice, and the answer came meanwhile");
    assert!(make_way(5, true, 20), "the peer was let, and answered");
    assert!(make_way(5, false, 4), "it had other things to do, now and then");
    assert!(!make_way(0, false, 40), "the peer has moved to another core");
    assert!(make_way(5, true, 20));
    assert!(!make_way(3000, true, 1), "a neighbour has come to this core");
}
