//! Draws `selvedge top` on a terminal of any size: the whole target above, where one is below. It changes nothing.

use std::time::Duration;

use ratatui::Frame;
use ratatui::text::Line;

use super::layout::{self, ALARM, REVERSED, padded};
use super::target_list::TargetList;
use super::text::summary;
use super::view::View;
use super::watch::Watch;
use crate::target_rates::rates::ReactorRates;

/// Columns of the terminal that a reactor's bar takes.
const REACTOR_WIDTH: usize = 39;
/// Letters of the bar itself.
const BAR_WIDTH: usize = 16;
/// Reactors take no more of the terminal's lines than one in this number.
const REACTOR_LINES_SHARE: u16 = 6;

/// Lines of a terminal that has room for the picture of the last intervals.
const HISTORY_LINES_MIN: u16 = 30;

/// Draws what is watched as it is viewed, at `now`.
pub fn draw(frame: &mut Frame<'_>, watch: &Watch, view: &View<TargetList>, now: Duration) {
    let area = frame.area();
    let width = usize::from(area.width);
    let mut lines = vec![Line::styled(padded(&title(watch), width), REVERSED)];
    if let Some(absence) = watch.absence(now) {
        lines.push(Line::styled(absence, ALARM));
    }
    let rates = watch.rates();
    if let Some(rates) = rates {
        lines.extend(summary(rates).into_iter().map(Line::raw));
        if area.height >= HISTORY_LINES_MIN {
            lines.push(Line::raw(layout::picture(&watch.history(), width)));
        }
        lines.extend(reactors(&rates.reactors, width, usize::from(area.height / REACTOR_LINES_SHARE)));
    }
    layout::draw(frame, lines, view, rates);
}

fn title(watch: &Watch) -> String {
    let mut title = "selvedge top".to_owned();
    // These come first: a long address must not push them off the screen.
    if watch.is_paused() {
        title += "  PAUSED";
    }
    if watch.rates().is_some_and(|rates| rates.restarted) {
        title += "  restarted";
    }
    title += &format!("  {}", watch.target);
    if let Some(rates) = watch.rates() {
        title += &format!("  version {}", rates.version);
    }
    title + &format!("  every {} s", watch.interval.as_secs_f64())
}

/// Reactors as bars, in at most `lines_max` lines.
fn reactors(reactors: &[ReactorRates], width: usize, lines_max: usize) -> Vec<Line<'static>> {
    let per_line = (width / REACTOR_WIDTH).max(1);
    let room = per_line * lines_max.max(1);
    let mut cells: Vec<String> = reactors.iter().take(room).map(bar).collect();
    if reactors.len() > room {
        cells.truncate(room.saturating_sub(1));
        cells.push(format!("and {} more reactors: Tab", reactors.len() - cells.len()));
    }
    cells.chunks(per_line).map(|cells| Line::raw(cells.concat().trim_end().to_owned())).collect()
}

fn bar(reactor: &ReactorRates) -> String {
    let busy = reactor.busy_percent.map_or("-".to_owned(), |busy| format!("{busy:.1} %"));
    let bar = layout::bar(reactor.busy_percent.unwrap_or(0.0) / 100.0, BAR_WIDTH);
    padded(&format!("reactor {:<2} {bar} {busy:>7}", reactor.number), REACTOR_WIDTH)
}
