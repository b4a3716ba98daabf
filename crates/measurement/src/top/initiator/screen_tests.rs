//! The screen of a run as a terminal of a certain size shows it, as text.

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::fixture::{captured, line};
use super::super::grid::List as _;
use super::super::keys::Wish;
use super::super::view::View;
use super::fixture::{NOW, lost, sample, watch};
use super::list::InitiatorList;
use super::screen;
use super::watch::{About, Watch};
use crate::bench::sample::{Phase, Sample};

const SMALL: (u16, u16) = (80, 24);
const LARGE: (u16, u16) = (130, 40);

fn shown(size: (u16, u16), watch: &Watch, keys: &[KeyCode]) -> Vec<String> {
    let mut view = View::<InitiatorList>::new();
    for key in keys {
        assert_eq!(view.press(KeyEvent::new(*key, KeyModifiers::NONE), watch.rates()), Wish::Stay);
    }
    captured(size, |frame| screen::draw(frame, watch, &view, NOW))
}

/// Four paths, of which the last was lost a moment ago.
fn one_lost() -> Watch {
    let mut watch = watch(4);
    watch.hear_news(Duration::from_millis(3050), "path 10.1.3.1:4420 is lost: it was cut");
    watch.hear(lost(sample(4, 4, 9000), &sample(4, 3, 6000), 3));
    watch
}

#[test]
fn a_run_on_one_path_has_its_time_its_totals_and_its_path() {
    let screen = shown(SMALL, &watch(1), &[]);
    let expected = [
        "selvedge bench  randread 4 KiB  nqn.2026-01.io.selvedge:target namespace 1",
        "measuring  2 of 30 s  [|               ]  28 s left   2 jobs × 32, io_uring",
        "last second  3.00 k IOPS, 12.3 MB/s   p50 100 µs, p99 100 µs, p99.9 100 µs",
        "so far       3.00 k IOPS, 12.3 MB/s   p50 100 µs, p99 100 µs, p99.9 100 µs",
        "time spent   waiting 5.0 %, sending 10.0 %, target 80.0 %, receiving 5.0 %",
        "IOPS █ █ 3.00 k",
        "",
    ];
    assert_eq!(screen[..7], expected);
    assert!(
        screen[7].starts_with("paths (1) ") && screen[7].ends_with("by IOPS, largest first"),
        "{}",
        screen[7]
    );
    let wide = shown((200, 24), &watch(1), &[]);
    line(&wide, &["PATH", "MEAN", "WAIT", "SEND", "TARGET", "RECV", "DEPTH"]);
    line(&wide, &["10.1.0.1:4420", "100 µs", "5.0 %", "10.0 %", "80.0 %", "5.0 %", "32"]);
    line(&screen, &["PATH", "STATE", "IOPS", "BANDWIDTH", "SHARE", "DEPTH", "RTT"]);
    line(&screen, &["10.1.0.1:4420", "live", "3.00 k", "12.3 MB/s", "100.0 %", "32", "46.0 µs"]);
    line(&screen[23..], &["q quit", "Enter open", "r reverse"]);
}

#[test]
fn the_one_lost_path_of_four_is_an_alarm() {
    let screen = shown(LARGE, &one_lost(), &[]);
    line(
        &screen,
        &["PATH", "STATE", "ANA", "IOPS", "BANDWIDTH", "SHARE", "MEAN", "DEPTH", "RTT", "RETR/S", "AGAIN"],
    );
    line(&screen, &["10.1.0.1:4420", "live", "optimized", "1.50 k", "6.14 MB/s", "60.0 %", "100 µs", "32"]);
    line(&screen, &["10.1.2.1:4420", "live", "non-optimized", "500", "2.05 MB/s", "20.0 %", "100 µs", "32"]);
    line(
        &screen,
        &["10.1.3.1:4420", "reconnecting", "non-optimized", "0 B/s", "0.0 %", "-", "0", "-", "-", "16"],
    );
    line(&screen, &["[  3 s] path 10.1.3.1:4420 is lost: it was cut"]);
    assert_eq!(line(&screen, &["IOPS ██"]), "IOPS ██ █ 3.00 k");
    // By state, the lost one is first.
    let keys = [KeyCode::Char('s'), KeyCode::Left, KeyCode::Left, KeyCode::Enter];
    let by_state = shown(LARGE, &one_lost(), &keys);
    line(&by_state, &["by STATE, largest first"]);
    let first = by_state.iter().position(|line| line.starts_with("PATH")).unwrap() + 1;
    line(&by_state[first..=first], &["10.1.3.1:4420", "reconnecting"]);
}

#[test]
fn the_way_down_is_drawn() {
    use KeyCode::{Down, Enter, Esc, Tab};
    let connections = shown(LARGE, &watch(4), &[Enter]);
    line(&connections, &["connections of path 10.1.0.1:4420 (2)", "by QUEUE, smallest first"]);
    line(
        &connections,
        &["1", "0", "16", "3.75 MB/s", "54.0 kB/s", "45.0 µs", "2.0", "100", "4.0 K", "10.1.0.2:40000"],
    );
    line(&connections, &["2", "1", "16", "46.0 µs", "10.1.0.2:40001"]);
    let shares = shown(SMALL, &watch(4), &[Enter, Tab]);
    line(&shares, &["workers on path 10.1.0.1:4420 (2)", "by IOPS, largest first"]);
    line(&shares, &["0", "1", "16", "750", "3.07 MB/s", "25.0 %", "100 µs", "0"]);
    let workers = shown(SMALL, &watch(4), &[Tab]);
    // Eighty columns have no room for all.
    line(&workers, &["WORKER", "DEPTH", "IOPS", "P50", "P99", "P99.9"]);
    line(&workers, &["1", "64", "1.50 k", "6.14 MB/s", "50.0 %", "100 µs", "100 µs"]);
    let of_worker = shown(LARGE, &watch(4), &[Tab, Down, Enter]);
    line(&of_worker, &["connections of worker 1 (4)"]);
    line(&of_worker, &["2", "1", "16", "10.1.3.2:40001", "10.1.3.1:4420"]);
    let lost = shown(SMALL, &one_lost(), &[KeyCode::End, Enter]);
    line(&lost, &["connections of path 10.1.3.1:4420 (0)"]);
    line(&lost, &["none"]);
    line(&shown(SMALL, &watch(4), &[Enter, Tab, Esc]), &["paths (4)"]);
}

#[test]
fn phases_pause_and_help_are_drawn() {
    let mut watch = Watch::new(About { workload: "randwrite 4 KiB".into(), ..About::default() });
    let first = shown(SMALL, &watch, &[]);
    assert!(first[1].starts_with("connecting  0 s"), "{}", first[1]);
    watch.begin(Duration::from_secs(1));
    let ramp =
        |at, commands| Sample { phase: Phase::Ramp, measured: Duration::ZERO, ..sample(1, at, commands) };
    watch.hear(ramp(1, 0));
    watch.hear(ramp(2, 4000));
    let ramp = shown(SMALL, &watch, &[]);
    line(&ramp, &["ramp, not measured  2 s"]);
    assert_eq!(ramp[2..4], ["last second  4.00 k IOPS, 16.4 MB/s   latency -", "so far       -"]);
    watch.hear(Sample { phase: Phase::ReadingBack(2500), ..sample(1, 3, 6000) });
    line(&shown(SMALL, &watch, &[]), &["reading back, 2.50 k blocks so far"]);
    watch.pause();
    line(&shown(SMALL, &watch, &[])[..1], &["selvedge bench  PAUSED  randwrite"]);
    let help = shown(SMALL, &watch, &[KeyCode::Char('?')]);
    line(&help, &["Enter", "a path's connections"]);
    line(&help, &["q", "end the run, like Ctrl-C"]);
    assert!(InitiatorList::NOTES.iter().all(|note| note.chars().count() <= 80));
}

#[test]
fn the_picture_is_of_the_last_minute_and_a_stop_is_a_gap() {
    let mut watch = watch(1);
    for (at, commands) in [(4, 6000), (5, 7500), (6, 13_500)] {
        watch.hear(sample(1, at, commands));
    }
    // 3000, then nothing, then a quarter and all of 6000.
    line(&shown(SMALL, &watch, &[]), &["IOPS ▄ ▂█ █ 6.00 k"]);
    (7..100).for_each(|at| watch.hear(sample(1, at, 13_500 + (at - 6) * 10)));
    let long = shown(SMALL, &watch, &[]);
    let picture = line(&long, &["IOPS █████"]);
    assert_eq!(picture, format!("IOPS {} █ 10", "█".repeat(60)));
    let narrow = shown((40, 24), &watch, &[]);
    assert_eq!(line(&narrow, &["IOPS █"]), format!("IOPS {} █ 10", "█".repeat(23)));
}

#[test]
fn no_size_of_a_terminal_is_too_small() {
    for (width, height) in [(1, 1), (2, 3), (7, 5), (20, 8), (40, 10), (79, 2), (500, 1), (500, 200)] {
        for keys in [&[][..], &[KeyCode::Enter], &[KeyCode::Char('?')], &[KeyCode::Tab, KeyCode::Enter]] {
            assert_eq!(shown((width, height), &one_lost(), keys).len(), usize::from(height));
        }
    }
}
