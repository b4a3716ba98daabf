//! Fixture of tests: the watch of a target with fixed numbers, and what a screen shows of it.

use std::time::Duration;

pub(crate) use examination::target_rates::fixture::{NQN, rates, sample};
use ratatui::backend::TestBackend;
use ratatui::{Frame, Terminal};

use super::screen;
use super::target_list::TargetList;
use super::view::View;
use super::watch::Watch;

/// Time of the second sample.
pub(crate) const NOW: Duration = Duration::from_millis(2100);

/// Watch of that second.
pub(crate) fn watch() -> Watch {
    let mut watch = Watch::new("unix:/run/selvedge/4420.sock".into(), Duration::from_secs(1));
    watch.hear(Ok(sample(1, 100, 30)));
    watch.hear(Ok(sample(2, 100, 31)));
    watch
}

/// Returns the content of a terminal of this size, line by line, without trailing blanks.
pub(crate) fn drawn(size: (u16, u16), watch: &Watch, view: &View<TargetList>, now: Duration) -> Vec<String> {
    captured(size, |frame| screen::draw(frame, watch, view, now))
}

/// Returns the content of a terminal with any drawing.
pub(crate) fn captured((width, height): (u16, u16), draw: impl FnOnce(&mut Frame<'_>)) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(draw).unwrap();
    let buffer = terminal.backend().buffer();
    let lines = buffer.content.chunks(usize::from(width));
    lines
        .map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned())
        .collect()
}

/// The line that has all of these in this order, or the screen.
#[track_caller]
pub(crate) fn line<'a>(shown: &'a [String], parts: &[&str]) -> &'a str {
    let has_all = |line: &&String| {
        let mut rest = line.as_str();
        parts.iter().all(|part| rest.find(part).map(|at| rest = &rest[at + part.len()..]).is_some())
    };
    let found = shown.iter().find(has_all);
    found.unwrap_or_else(|| panic!("no line has {parts:?}:\n{}", shown.join("\n")))
}
