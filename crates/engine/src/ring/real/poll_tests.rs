//! The poll window in traces of waits: two ends that wait for each other, time that is stolen, bursts, and a core that
//! others want. All on made-up time.

use std::time::Duration;

use super::*;

const WINDOW_US: u64 = 50;

/// Random numbers that are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Waits of the same length, of which each is polled for as long as the window says. The share of the time that was
/// polled, in percent.
fn polled_percent(window: &mut PollWindow, wait: Duration, count: u32) -> u64 {
    let (mut now, mut polled) = (Moment(0), Duration::ZERO);
    for _ in 0..count {
        let length = window.length(now);
        now = now.after(wait);
        if wait <= length {
            window.found(wait);
            polled += wait;
        } else {
            window.slept(wait, length);
            polled += length;
        }
    }
    (polled.as_nanos() * 100 / (wait * count).as_nanos()) as u64
}

/// End of a connection at depth 1: a core, a window, and the start of its wait.
struct End {
    window: PollWindow,
    waits_since: Moment,
    /// Start and length of the next time that its core is taken away.
    stolen_at: Moment,
    stolen_for: Duration,
}

impl End {
    fn new() -> Self {
        let window = PollWindow::new(WINDOW_US);
        Self { window, waits_since: Moment(0), stolen_at: Moment(u64::MAX), stolen_for: Duration::ZERO }
    }

    /// The moment at which it takes what arrives at `arrival`.
    fn takes(&mut self, arrival: Moment, random: &mut Random, steal_percent: u64) -> Moment {
        let length = self.window.length(self.waits_since);
        let since = self.waits_since;
        let is_polled = arrival.since(since) <= length;
        // A sleeping thread is woken by the other core, and in a virtual machine that takes its time.
        let wake_up = Duration::from_micros(25 + random.below(40));
        let mut at = if is_polled { arrival } else { arrival.after(wake_up) };
        let mut gap = None;
        while steal_percent > 0 && self.stolen_at <= at {
            let end = self.stolen_at.after(self.stolen_for);
            let is_amid_polling = self.stolen_at >= since && self.stolen_at.since(since) <= length;
            if is_amid_polling {
                gap = Some((self.stolen_for, end));
            }
            at = at.max(end);
            self.plan_theft(end, random, steal_percent);
        }
        match gap {
            Some((gap, end)) => self.window.lost(gap, end),
            None if is_polled => self.window.found(at.since(since)),
            None => self.window.slept(at.since(since), length),
        }
        at
    }

    fn plan_theft(&mut self, now: Moment, random: &mut Random, percent: u64) {
        self.stolen_for = Duration::from_micros(100 + random.below(5_000));
        let apart = self.stolen_for * (100 - percent) as u32 * 2 / percent as u32;
        self.stolen_at = now.after(Duration::from_nanos(random.below(apart.as_nanos() as u64)));
    }
}

/// Two ends that answer each other for 20 s. The longest time in which more round trips were slow than fast.
fn longest_slow_state(seed: u64, steal_percent: u64, begins_asleep: bool) -> Duration {
    const STRETCH: Duration = Duration::from_millis(10);
    const SLOW: Duration = Duration::from_micros(60);
    let mut random = Random(seed);
    let mut ends = [End::new(), End::new()];
    if steal_percent > 0 {
        ends.iter_mut().for_each(|end| end.plan_theft(Moment(0), &mut random, steal_percent));
    }
    if !begins_asleep {
        ends.iter_mut().for_each(|end| _ = polled_percent(&mut end.window, Duration::from_micros(5), 100));
    }
    let (mut now, mut stretch_began, mut slow_since) = (Moment(0), Moment(0), Moment(0));
    let (mut slow, mut fast, mut longest) = (0, 0, Duration::ZERO);
    while now < Moment(20_000_000_000) {
        let began = now;
        for at in [1, 0] {
            let arrival = now.after(Duration::from_micros(3));
            now = ends[at].takes(arrival, &mut random, steal_percent).after(Duration::from_micros(4));
            ends[at].waits_since = now;
        }
        // A round trip of which milliseconds were stolen tells nothing of the windows.
        let took = now.since(began);
        if took > SLOW && took < Duration::from_micros(200) {
            slow += 1;
        } else if took <= SLOW {
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
        let mut window = PollWindow::new(WINDOW_US);
        polled_percent(&mut window, Duration::from_micros(8), 200);
        polled_percent(&mut window, wait, 50);
        assert_eq!(polled_percent(&mut window, wait, 10_000), 0, "{wait:?}");
    }
}

#[test]
fn one_idle_wait_ends_polling() {
    let mut window = PollWindow::new(WINDOW_US);
    polled_percent(&mut window, Duration::from_micros(10), 1000);
    assert!(!window.length(Moment(u64::MAX)).is_zero());
    window.slept(Duration::from_millis(99), Duration::from_micros(WINDOW_US));
    assert!(!window.length(Moment(u64::MAX)).is_zero(), "such a wait may be stolen time");
    window.slept(Duration::from_secs(1), Duration::from_micros(WINDOW_US));
    assert!(window.length(Moment(u64::MAX)).is_zero());
    assert!(polled_percent(&mut window, Duration::from_micros(10), 1000) > 90, "and work begins it again");
}

#[test]
fn frequent_events_are_polled_for() {
    let mut window = PollWindow::new(WINDOW_US);
    polled_percent(&mut window, Duration::from_micros(8), 50);
    assert_eq!(window.length(Moment(0)), Duration::from_micros(WINDOW_US));
    let mut never = PollWindow::new(0);
    assert_eq!(polled_percent(&mut never, Duration::from_micros(8), 1000), 0);
}

#[test]
fn a_device_that_is_slower_than_the_window_costs_little_polling() {
    for wait_us in [110, 150, 190] {
        let mut window = PollWindow::new(WINDOW_US);
        let percent = polled_percent(&mut window, Duration::from_micros(wait_us), 20_000);
        assert!(percent <= 7, "{wait_us} µs: {percent} % of a core");
    }
}

#[test]
fn bursts_are_polled_for_and_the_pauses_between_them_are_not() {
    let mut window = PollWindow::new(WINDOW_US);
    polled_percent(&mut window, Duration::from_micros(5), 100);
    for burst in 0..100 {
        assert!(polled_percent(&mut window, Duration::from_micros(5), 50) == 100, "burst {burst}");
        assert!(polled_percent(&mut window, Duration::from_millis(20), 2) == 0, "pause after {burst}");
    }
}

#[test]
fn two_ends_that_sleep_begin_to_poll() {
    for seed in 0..10 {
        let slow = longest_slow_state(seed, 0, true);
        assert!(slow <= Duration::from_millis(50), "seed {seed}: slow for {slow:?}");
    }
}

#[test]
fn stolen_time_leads_into_no_slow_state() {
    for seed in 0..10 {
        for steal_percent in [5, 30] {
            let slow = longest_slow_state(seed, steal_percent, seed % 2 == 0);
            assert!(slow <= Duration::from_millis(100), "seed {seed}, {steal_percent} %: slow for {slow:?}");
        }
    }
}

#[test]
fn a_core_that_others_want_all_the_time_is_left_to_them() {
    // Who yields gets the core back after a time slice, who sleeps when it is woken.
    const SLICE: Duration = Duration::from_millis(3);
    let mut window = PollWindow::new(WINDOW_US);
    polled_percent(&mut window, Duration::from_micros(5), 100);
    let (mut now, mut lost) = (Moment(0), Duration::ZERO);
    while now < Moment(10_000_000_000) {
        if window.length(now).is_zero() {
            let wait = Duration::from_micros(40);
            now = now.after(wait);
            window.slept(wait, Duration::ZERO);
        } else {
            now = now.after(SLICE);
            lost += SLICE;
            window.lost(SLICE, now);
        }
    }
    assert!(lost < Duration::from_millis(600), "lost {lost:?} of 10 s");
    // And when they have gone, it is polled again.
    let wait = Duration::from_micros(5);
    now = now.after(Duration::from_nanos(AWAY_NS_MAX));
    assert!(!window.length(now).is_zero());
    window.found(wait);
}

#[test]
fn beside_busy_storage_polling_is_short_and_counted_for_itself() {
    let (now, short) = (Moment(0), Duration::from_micros(10));
    let mut windows = PollWindows::new(WINDOW_US);
    for stores_pending in [0, STORES_BUSY - 1, STORES_BUSY, 1000] {
        polled_percent(windows.beside(stores_pending), short, 100);
    }
    let longest = |windows: &mut PollWindows, pending| windows.beside(pending).length(now).as_micros() as u64;
    assert_eq!(longest(&mut windows, STORES_BUSY - 1), WINDOW_US);
    assert_eq!(longest(&mut windows, STORES_BUSY), POLL_BUSY_US_MAX);
    // A device that takes longer ends polling where it is waited for, and nowhere else.
    polled_percent(windows.beside(STORES_BUSY), Duration::from_millis(1), 100);
    assert_eq!(longest(&mut windows, STORES_BUSY), 0);
    assert_eq!(longest(&mut windows, 0), WINDOW_US);
}

#[test]
fn a_window_that_was_asked_for_is_kept_beside_busy_storage() {
    for (asked, busy) in [(0, 0), (5, 5), (1000, POLL_BUSY_US_MAX)] {
        let mut windows = PollWindows::new(asked);
        for (stores_pending, longest) in [(0, asked), (STORES_BUSY, busy)] {
            let window = windows.beside(stores_pending);
            polled_percent(window, Duration::from_micros(1), 100);
            assert_eq!(window.length(Moment(0)), Duration::from_micros(longest));
        }
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
