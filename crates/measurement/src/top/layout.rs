//! Common drawing of all views: a table below the view's own lines, the help on keys, and the line
//! of keys at the bottom, on a terminal of any size. It changes no state.

use chart::units;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::grid::{Column, Grid, List};
use super::keys::explained;
use super::view::View;
use crate::report::table::Side;

/// Between two columns.
const GAP: usize = 2;
/// Letters that the picture's name and its scale take, so that there is room for a minute on 80 columns.
const SCALE_WIDTH: usize = 17;
/// Eighths of a letter, from below.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub(super) const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
pub(super) const DIM: Style = Style::new().add_modifier(Modifier::DIM);
pub(super) const ALARM: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

/// Draws the lines above, the table of where one is below them, and the keys.
pub(super) fn draw<P: List>(
    frame: &mut Frame<'_>,
    above: Vec<Line<'static>>,
    view: &View<P>,
    known: Option<&P::Known>,
) {
    let area = frame.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let mut lines = above;
    lines.push(Line::default());
    let room = height.saturating_sub(lines.len() + 1);
    if view.help {
        lines.extend(help::<P>());
    } else if let Some(known) = known {
        lines.extend(table(view, known, width, room));
    }
    lines.truncate(height.saturating_sub(1));
    for (line, y) in lines.iter().zip(area.y..) {
        frame.render_widget(line, Rect { y, height: 1, ..area });
    }
    if let Some(y) = area.bottom().checked_sub(1) {
        frame.render_widget(Line::styled(padded(footer(view), width), DIM), Rect { y, height: 1, ..area });
    }
}

fn footer<P: List>(view: &View<P>) -> &'static str {
    match (view.help, view.choosing) {
        (true, _) => "any key goes back   q quit",
        (false, true) => "← → column   r reverse   Enter done   q quit",
        (false, false) => "q quit  ? help  ↑↓ choose  Enter open  Esc back  Tab other  s sort  r reverse",
    }
}

fn help<P: List>() -> Vec<Line<'static>> {
    let line = |(keys, what): (&'static str, &'static str)| {
        Line::from(vec![Span::styled(format!("  {keys:<10}"), BOLD), Span::raw(what)])
    };
    let notes = std::iter::once(&"").chain(P::NOTES).map(|note| Line::raw(*note));
    explained::<P>().into_iter().map(line).chain(notes).collect()
}

/// A bar of this number of letters, full up to a share.
pub(super) fn bar(share: f64, width: usize) -> String {
    let full = ((share * width as f64).round() as usize).min(width);
    format!("[{}{}]", "|".repeat(full), " ".repeat(width - full))
}

/// IOPS over time: a letter for each interval, the newest to the right, and the value of a whole letter.
pub(super) fn picture(history: &[f64], width: usize) -> String {
    if history.is_empty() {
        return "IOPS -".to_owned();
    }
    let room = width.saturating_sub(SCALE_WIDTH).max(1);
    let shown = &history[history.len().saturating_sub(room)..];
    let most = shown.iter().copied().fold(0.0, f64::max);
    let letter = |iops: &f64| match (iops / most * LEVELS.len() as f64).ceil() as usize {
        // Nothing at all is not a short bar.
        0 => ' ',
        eighths => LEVELS[eighths.min(LEVELS.len()) - 1],
    };
    let letters: String = shown.iter().map(letter).collect();
    format!("IOPS {letters} █ {}", units::count(most))
}

fn table<P: List>(view: &View<P>, known: &P::Known, width: usize, room: usize) -> Vec<Line<'static>> {
    let level = view.level();
    let Some(grid) = level.grid(known) else {
        return vec![Line::styled("it no longer exists; Esc goes back", ALARM)];
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

fn header<P>(grid: &Grid<P>, columns: &[(usize, usize)], (sorted, choosing): (usize, bool)) -> Line<'static> {
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
fn fitting<P>(grid: &Grid<P>, sorted: usize, width: usize) -> Vec<(usize, usize)> {
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

pub(super) fn padded(text: &str, width: usize) -> String {
    sided(text, width, Side::Left)
}
