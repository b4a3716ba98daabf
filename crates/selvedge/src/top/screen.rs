//! Draws `top` on a terminal of any size: the whole target above, where one is below. It changes nothing.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::grid::{Column, Grid};
use super::keys::HELP;
use super::rates::{Rates, ReactorRates};
use super::text::summary;
use super::view::View;
use super::watch::Watch;
use crate::report::table::Side;

/// Columns of the terminal that a reactor's bar takes.
const REACTOR_WIDTH: usize = 39;
/// Letters of the bar itself.
const BAR_WIDTH: usize = 16;
/// Reactors take no more of the terminal's lines than one in so many.
const REACTOR_LINES_SHARE: u16 = 6;
/// Between two columns.
const GAP: usize = 2;

const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const ALARM: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

/// Draws what is watched as it is viewed, at `now`.
pub(crate) fn draw(frame: &mut Frame<'_>, watch: &Watch, view: &View, now: Duration) {
    let area = frame.area();
    let width = usize::from(area.width);
    let mut lines = vec![Line::styled(padded(&title(watch), width), REVERSED)];
    if let Some(absence) = watch.absence(now) {
        lines.push(Line::styled(absence, ALARM));
    }
    let rates = watch.rates();
    if let Some(rates) = rates {
        lines.extend(summary(rates).into_iter().map(Line::raw));
        lines.extend(reactors(&rates.reactors, width, usize::from(area.height / REACTOR_LINES_SHARE)));
    }
    lines.push(Line::default());
    let room = usize::from(area.height).saturating_sub(lines.len() + 1);
    if view.help {
        lines.extend(help());
    } else if let Some(rates) = rates {
        lines.extend(table(view, rates, width, room));
    }
    lines.truncate(usize::from(area.height).saturating_sub(1));
    for (line, y) in lines.iter().zip(area.y..) {
        frame.render_widget(line, Rect { y, height: 1, ..area });
    }
    if let Some(y) = area.bottom().checked_sub(1) {
        frame.render_widget(Line::styled(padded(&footer(view), width), DIM), Rect { y, height: 1, ..area });
    }
}

fn title(watch: &Watch) -> String {
    let mut title = "selvedge top".to_owned();
    // These come first: a long address must not push them off the screen.
    if watch.is_paused() {
        title += "  PAUSED";
    }
    if watch.rates().is_some_and(|rates| rates.restarted) {
        title += "  started anew";
    }
    title += &format!("  {}", watch.target);
    if let Some(rates) = watch.rates() {
        title += &format!("  version {}", rates.version);
    }
    title + &format!("  every {} s", watch.interval.as_secs_f64())
}

fn footer(view: &View) -> String {
    if view.help {
        return "any key goes back   q quit".to_owned();
    }
    if view.choosing {
        return "← → column   r reverse   Enter done   q quit".to_owned();
    }
    "q quit  ? help  ↑↓ choose  Enter open  Esc back  Tab other  s sort  r reverse".to_owned()
}

fn help() -> Vec<Line<'static>> {
    let line = |(keys, what): &(&'static str, &'static str)| {
        Line::from(vec![Span::styled(format!("  {keys:<10}"), BOLD), Span::raw(*what)])
    };
    let notes = [
        "",
        "Rates are over the last interval. P99≤: 99 of 100 commands took no longer, in",
        "steps of powers of two, from taking a command off the socket to queueing its",
        "answer. IN and OUT are the connections' bytes as the kernel counts them. BUSY",
        "is the processor time of a reactor, polling too.",
    ];
    HELP.iter().map(line).chain(notes.into_iter().map(Line::raw)).collect()
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
    let share = reactor.busy_percent.unwrap_or(0.0) / 100.0;
    let full = ((share * BAR_WIDTH as f64).round() as usize).min(BAR_WIDTH);
    let busy = reactor.busy_percent.map_or("-".to_owned(), |busy| format!("{busy:.1} %"));
    let text = format!(
        "reactor {:<2} [{}{}] {busy:>7}",
        reactor.number,
        "|".repeat(full),
        " ".repeat(BAR_WIDTH - full)
    );
    padded(&text, REACTOR_WIDTH)
}

fn table(view: &View, rates: &Rates, width: usize, room: usize) -> Vec<Line<'static>> {
    let level = view.level();
    let Some(grid) = level.grid(rates) else {
        return vec![Line::styled("it is not there any more; Esc goes back", ALARM)];
    };
    let chosen = level.index(&grid.rows);
    let columns = fitting(&grid, level.column, width);
    let direction = if level.descending { "largest first" } else { "smallest first" };
    let by = grid.columns.get(level.column).map_or("", |column| column.title);
    let title = format!("{} ({})", grid.title, grid.rows.len());
    let order = format!("by {by}, {direction}");
    let title_room = width.saturating_sub(order.chars().count() + GAP);
    let mut lines = vec![
        Line::from(vec![
            Span::styled(padded(&tail(&title, title_room), title_room + GAP), BOLD),
            Span::styled(order, if view.choosing { REVERSED } else { DIM }),
        ]),
        header(&grid, &columns, (level.column, view.choosing)),
    ];
    let room = room.saturating_sub(lines.len()).max(1);
    let first = (chosen + 1).saturating_sub(room);
    for (at, row) in grid.rows.iter().enumerate().skip(first).take(room) {
        let cells = columns.iter().map(|&(column, width)| {
            let text = row.cells.get(column).map_or("", |cell| cell.text.as_str());
            let text = if column == 0 { tail(text, width) } else { text.to_owned() };
            sided(&text, width, grid.columns[column].side)
        });
        let text = cells.collect::<Vec<_>>().join("  ");
        let style = if at == chosen { REVERSED } else { Style::new() };
        lines.push(Line::styled(padded(&text, width), style));
    }
    if grid.rows.is_empty() {
        lines.push(Line::styled("none", DIM));
    }
    lines
}

fn header(grid: &Grid, columns: &[(usize, usize)], (sorted, choosing): (usize, bool)) -> Line<'static> {
    let mut spans = Vec::new();
    for &(column, width) in columns {
        let Column { title, side, .. } = grid.columns[column];
        let style = match column == sorted {
            true if choosing => BOLD.add_modifier(Modifier::REVERSED),
            true => BOLD.add_modifier(Modifier::UNDERLINED),
            false => BOLD,
        };
        let text = sided(title, width, side);
        let blank = text.len() - text.trim_start().len();
        spans.extend([Span::raw(" ".repeat(blank)), Span::styled(text.trim_start().to_owned(), style)]);
        spans.push(Span::raw(" ".repeat(GAP)));
    }
    Line::from(spans)
}

/// The columns there is room for, with their widths. The first and the one that rows are sorted by are always there; the
/// first takes what is left, as far as it needs it.
fn fitting(grid: &Grid, sorted: usize, width: usize) -> Vec<(usize, usize)> {
    let mut columns: Vec<(usize, usize)> =
        grid.columns.iter().enumerate().map(|(at, column)| (at, usize::from(column.width))).collect();
    let taken =
        |columns: &[(usize, usize)]| columns.iter().map(|(_, width)| width + GAP).sum::<usize>() - GAP;
    while taken(&columns) > width {
        let least = columns
            .iter()
            .enumerate()
            .filter(|(_, (column, _))| *column != 0 && *column != sorted)
            .max_by_key(|(_, (column, _))| grid.columns[*column].rank)
            .map(|(at, _)| at);
        let Some(at) = least else { break };
        columns.remove(at);
    }
    let left = width.saturating_sub(taken(&columns));
    let longest = grid.rows.iter().filter_map(|row| Some(row.cells.first()?.text.chars().count())).max();
    if let Some((_, first)) = columns.first_mut() {
        *first = (*first + left).min(longest.unwrap_or(0).max(*first));
    }
    columns
}

/// The end of a text, which is what tells names of one kind apart.
fn tail(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let rest = text.chars().skip(count - width.saturating_sub(1));
    std::iter::once('…').chain(rest).take(width).collect()
}

fn sided(text: &str, width: usize, side: Side) -> String {
    let text: String = text.chars().take(width).collect();
    match side {
        Side::Left => format!("{text:<width$}"),
        Side::Right => format!("{text:>width$}"),
    }
}

fn padded(text: &str, width: usize) -> String {
    sided(text, width, Side::Left)
}
