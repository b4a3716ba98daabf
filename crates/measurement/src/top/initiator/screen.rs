//! Draws a run of `selvedge bench` on a terminal of any size: the whole run above, where one is below. It changes nothing.

use std::time::Duration;

use chart::units;
use engine::initiator::{PathState, Stage};
use ratatui::Frame;
use ratatui::style::Style;
use ratatui::text::Line;

use super::super::layout::{self, ALARM, DIM, REVERSED, padded};
use super::super::view::View;
use super::list::InitiatorList;
use super::rates::{Done, Rates};
use super::watch::Watch;
use crate::bench::sample::Phase;

/// Letters of the bar of time.
const BAR_WIDTH: usize = 16;
/// Width of the labels before the totals.
const LABEL_WIDTH: usize = 13;
/// News that are on the screen.
const NEWS_SHOWN: usize = 2;

/// Draws what is watched as it is viewed, at `now`.
pub fn draw(frame: &mut Frame<'_>, watch: &Watch, view: &View<InitiatorList>, now: Duration) {
    let width = usize::from(frame.area().width);
    let rates = watch.rates();
    let mut lines = vec![
        Line::styled(padded(&title(watch), width), REVERSED),
        Line::raw(time(watch, rates.map_or(Phase::Connecting, |rates| rates.phase), now)),
    ];
    if let Some(absence) = watch.absence(now) {
        lines.push(Line::styled(absence, ALARM));
    }
    if let Some(rates) = rates {
        lines.push(Line::raw(totals("last second", rates.lately.as_ref())));
        lines.push(Line::raw(totals("so far", rates.so_far.as_ref())));
        lines.push(Line::raw(stages(rates)));
        lines.push(Line::raw(layout::picture(&rates.history, width)));
        lines.extend(news(watch, rates));
    }
    layout::draw(frame, lines, view, rates);
}

fn title(watch: &Watch) -> String {
    // It comes first: a long name must not push it off the screen.
    let paused = if watch.is_paused() { "  PAUSED" } else { "" };
    format!("selvedge bench{paused}  {}  {}", watch.about.workload, watch.about.target)
}

/// Returns the phase, the elapsed time and the remaining time.
fn time(watch: &Watch, phase: Phase, now: Duration) -> String {
    let elapsed = watch.elapsed(now);
    let phase = match phase {
        Phase::Connecting => "connecting".to_owned(),
        Phase::Ramp => "ramp, not measured".to_owned(),
        Phase::Measuring => "measuring".to_owned(),
        Phase::ReadingBack(blocks) => format!("reading back, {} blocks so far", units::count(blocks as f64)),
    };
    let far = match watch.about.length {
        Some(length) if elapsed < length => {
            let share = elapsed.as_secs_f64() / length.as_secs_f64();
            let (elapsed, left) = (elapsed.as_secs(), (length - elapsed).as_secs_f64().ceil());
            format!(
                "{elapsed} of {} s  {}  {left:.0} s left",
                length.as_secs_f64(),
                layout::bar(share, BAR_WIDTH)
            )
        }
        _ => format!("{} s", elapsed.as_secs()),
    };
    format!("{phase}  {far}   {}", watch.about.means)
}

fn totals(label: &str, done: Option<&Done>) -> String {
    let Some(done) = done else { return format!("{label:<LABEL_WIDTH$}-") };
    let latency = done.latency.map_or("latency -".to_owned(), |latency| {
        let time = |ns: u64| units::time_ns(ns as f64);
        format!("p50 {}, p99 {}, p99.9 {}", time(latency.p50), time(latency.p99), time(latency.p99_9))
    });
    let (iops, bandwidth) = (units::count(done.iops), units::bandwidth(done.bytes_per_s));
    format!("{label:<LABEL_WIDTH$}{iops} IOPS, {bandwidth}   {latency}")
}

/// Returns the stages on which the commands of the last second spent their time.
fn stages(rates: &Rates) -> String {
    let label = "time spent";
    let Some(shares) = rates.stages_percent else { return format!("{label:<LABEL_WIDTH$}-") };
    let part = |(stage, percent): (&Stage, f64)| format!("{} {percent:.1} %", stage.name());
    let parts: Vec<String> = Stage::ALL.iter().zip(shares).map(part).collect();
    format!("{label:<LABEL_WIDTH$}{}", parts.join(", "))
}

/// Returns the latest news, in the alarm style as long as a path is lost.
fn news(watch: &Watch, rates: &Rates) -> Vec<Line<'static>> {
    let is_whole = rates.paths.iter().all(|path| path.status.state == PathState::Live);
    let style: Style = if is_whole { DIM } else { ALARM };
    let mut last: Vec<_> = watch.news().rev().take(NEWS_SHOWN).collect();
    last.reverse();
    last.iter().map(|(at, line)| Line::styled(news_line(*at, line), style)).collect()
}

/// News as a line.
pub(super) fn news_line(at: Duration, line: &str) -> String {
    format!("[{:3.0} s] {line}", at.as_secs_f64())
}
