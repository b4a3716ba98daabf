//! The screen as a terminal of a certain size shows it, as text.

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::fixture::{NOW, drawn, line, rates, sample, watch};
use super::target_list::TargetList;
use super::view::View;
use super::watch::Watch;

const SMALL: (u16, u16) = (80, 24);
const LARGE: (u16, u16) = (120, 40);

fn after(keys: &[KeyCode]) -> View<TargetList> {
    let mut view = View::new();
    for key in keys {
        view.press(KeyEvent::new(*key, KeyModifiers::NONE), Some(&rates()));
    }
    view
}

fn shown(size: (u16, u16), keys: &[KeyCode]) -> Vec<String> {
    drawn(size, &watch(), &after(keys), NOW)
}

#[test]
fn the_first_screen_has_the_target_its_reactors_and_its_subsystems() {
    let screen = shown(SMALL, &[]);
    assert!(screen[0].starts_with("selvedge top  unix:/run/selvedge/4420.sock  version "), "{}", screen[0]);
    assert!(screen[0].ends_with("every 1 s"), "{}", screen[0]);
    let above = [
        "read 10.0 k IOPS, 41.0 MB/s   write 5.00 k IOPS, 20.5 MB/s   errors 2/s",
        "latency mean 100 µs, p50 ≤64.0 µs, p99 ≤256 µs, p99.9 ≤256 µs   in flight 16",
        "of that storage 75 %, limits 25 %",
        "2 subsystems, 2 controllers, 4 connections, listening on 127.0.0.1:4420",
        "reactor 0  [||||||||        ]  50.0 %  reactor 1  [||||||||||||||||] 100.0 %",
        "",
    ];
    assert_eq!(screen[1..7], above);
    assert!(screen[7].starts_with("subsystems (2) ") && screen[7].ends_with("by R IOPS, largest first"));
    line(&screen, &["SUBSYSTEM", "R IOPS", "READ", "W IOPS", "WRITE", "MEAN", "P99≤"]);
    assert!(screen[9].contains("…"), "a long name is cut at its beginning: {}", screen[8]);
    line(&screen, &["selvedge:target", "10.0 k", "41.0 MB/s", "5.00 k", "20.5 MB/s", "100 µs", "256 µs"]);
    line(&screen, &["discovery", "-", "-"]);
    line(&screen[23..], &["q quit", "Enter open", "r reverse"]);
}

#[test]
fn a_larger_terminal_shows_more_columns() {
    let screen = shown(LARGE, &[]);
    line(&screen, &["SUBSYSTEM", "NS", "HOSTS", "QUEUES", "DEPTH", "R IOPS", "P99≤", "ERR/S"]);
    line(&screen, &["io.selvedge:target", "2", "1", "3", "16", "10.0 k"]);
    assert_eq!(line(&screen, &["IOPS █ "]), "IOPS █ █ 15.0 k");
    assert!(screen.len() == 40 && screen.iter().all(|line| line.chars().count() <= 120));
}

#[test]
fn the_way_down_is_drawn() {
    use KeyCode::{Enter, Tab};
    let controllers = shown(LARGE, &[Enter]);
    line(&controllers, &["controllers of nqn.2026-01.io.selvedge:target (1)"]);
    line(&controllers, &["uuid:a?", "1", "3", "16", "15.0 k", "30.0 MB/s", "60.0 MB/s", "45.0 µs", "9.0"]);
    let queues = shown(SMALL, &[Enter, Enter]);
    line(&queues, &["host nqn.2014-08", "by QUEUE, smallest first"]);
    line(&queues, &["admin", "-", "-", "10.0 MB/s", "20.0 MB/s", "45.0 µs"]);
    line(&queues, &["2", "8", "7.50 k", "10.0 MB/s"]);
    let namespaces = shown(LARGE, &[Enter, Tab]);
    line(&namespaces, &["1", "64.0 M", "10.0 k", "41.0 MB/s", "256 µs"]);
    let operations = shown(SMALL, &[Enter, Tab, Enter]);
    line(&operations, &["selvedge:target (6)", "by IOPS, largest first"]);
    line(&operations, &["read", "10.0 k", "41.0 MB/s", "100 µs", "64.0 µs", "256 µs"]);
    let wide = shown((200, 40), &[Enter, Tab, Enter]);
    line(&wide, &["read 4k", "-", "67 %", "33 %", "0 %"]);
    line(&wide, &["read larger", "-", "100 %", "0 %"]);
    line(&shown((200, 40), &[Enter, Enter]), &["2", "8", "7.50 k", "storage 100 %", "45.0 µs"]);
    let reactors = shown(SMALL, &[Tab]);
    line(&reactors, &["0", "0", "50.0 %", "2", "7.50 k", "2.50 k", "1.00 k"]);
}

#[test]
fn help_and_the_choice_of_a_column_are_drawn() {
    let help = shown(SMALL, &[KeyCode::Char('?')]);
    line(&help, &["Enter", "a subsystem's controllers"]);
    line(&help, &["any key goes back"]);
    let choosing = shown(SMALL, &[KeyCode::Char('s'), KeyCode::Right, KeyCode::Char('r')]);
    line(&choosing, &["by READ, smallest first"]);
    line(&choosing, &["Enter done"]);
    // The column that rows are sorted by is there, whatever else has no room.
    let [s, right] = [KeyCode::Char('s'), KeyCode::Right];
    let last = [s, right, right, right, right, right];
    line(&shown((60, 24), &last), &["SUBSYSTEM", "P50≤"]);
    assert!(!shown((60, 24), &[]).iter().any(|line| line.contains("P50≤")));
}

#[test]
fn silence_pause_and_a_new_start_are_drawn() {
    let mut watch = watch();
    watch.hear(Err("no target serves there".into()));
    let screen = drawn(SMALL, &watch, &View::new(), NOW + Duration::from_secs(60));
    assert_eq!(screen[1], "no answer for 60 s, still asking: no target serves there");
    line(&screen, &["selvedge:target", "10.0 k"]);
    watch.hear(Ok(sample(70, 169, 1)));
    let screen = drawn(SMALL, &watch, &View::new(), Duration::from_secs(70));
    line(&screen[..1], &["restarted"]);
    line(&screen, &["read -   write -   errors -"]);
    watch.pause();
    line(&drawn(SMALL, &watch, &View::new(), NOW)[..1], &["PAUSED"]);
    let nothing = Watch::new("unix:x".into(), Duration::from_secs(1));
    line(&drawn(SMALL, &nothing, &View::new(), Duration::ZERO)[..1], &["unix:x"]);
}

#[test]
fn what_is_chosen_is_on_the_screen_however_long_the_list_is() {
    let mut watch = watch();
    let many = |at| {
        let mut sample = sample(at, 100, 30 + at);
        let reactor = sample.reactors[&0].clone();
        sample.reactors.extend((2..100).map(|number| (number, reactor.clone())));
        sample
    };
    watch.hear(Ok(many(3)));
    watch.hear(Ok(many(4)));
    let mut view = View::new();
    for key in [KeyCode::Tab, KeyCode::End] {
        view.press(KeyEvent::new(key, KeyModifiers::NONE), watch.rates());
    }
    let screen = drawn(SMALL, &watch, &view, Duration::from_secs(4));
    line(&screen, &["and 93 more reactors: Tab"]);
    line(&screen, &["REACTOR", "BUSY"]);
    assert!(screen[22].starts_with("99 "), "{}", screen.join("\n"));
}

#[test]
fn no_size_of_a_terminal_is_too_small() {
    for (width, height) in [(1, 1), (2, 3), (7, 5), (20, 8), (40, 10), (79, 2), (500, 1), (500, 200)] {
        for keys in [&[][..], &[KeyCode::Enter, KeyCode::Enter], &[KeyCode::Char('?')], &[KeyCode::Tab]] {
            assert_eq!(shown((width, height), keys).len(), usize::from(height));
        }
    }
}
