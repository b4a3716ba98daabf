//! Tables that are looked at: columns, rows, what a row leads to, and the order of rows. Their content is a list's,
//! which row is chosen is the view's, and how wide a column becomes is the layout's.

use std::cmp::Ordering;
use std::fmt;

use chart::units;

use crate::report::table::Side;

/// List of a view, with a table of its own.
pub trait List: Clone + fmt::Debug + PartialEq {
    /// Data that a table shows.
    type Known;
    /// Help texts for Enter, Tab and `q`.
    const OPENS: &'static str;
    const OTHER: &'static str;
    const ENDS: &'static str;
    /// Notes on the columns.
    const NOTES: &'static [&'static str];

    /// First list of a view.
    fn first() -> Self;

    fn columns(&self) -> &'static [Column];

    /// The column rows are sorted by at first, and whether the largest is first.
    fn first_order(&self) -> (usize, bool);

    /// The other list of the same thing, which Tab shows.
    fn sibling(&self) -> Option<Self>;

    /// The table, in the order that things have by themselves; nothing when what it is about has gone.
    fn grid(&self, known: &Self::Known) -> Option<Grid<Self>>;
}

/// A column.
#[derive(Debug)]
pub struct Column {
    pub title: &'static str,
    pub(crate) side: Side,
    /// Letters of its cells; the first column takes what is left.
    pub(crate) width: u16,
    /// Rank; if there is no room for all columns, those with the highest rank are left out first.
    pub(crate) rank: u8,
}

pub(super) const fn column(title: &'static str, side: Side, width: u16, rank: u8) -> Column {
    Column { title, side, width, rank }
}

/// The column of the busiest, largest first: where there is none, the first.
pub(super) fn busiest_first(columns: &[Column]) -> (usize, bool) {
    (columns.iter().position(|column| column.title.ends_with("IOPS")).unwrap_or(0), true)
}

/// Text of a cell, and its sort key among cells of its column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cell {
    pub text: String,
    sort_key: SortKey,
}

#[derive(Clone, Debug, PartialEq)]
enum SortKey {
    Number(f64),
    Text(String),
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row<P> {
    /// Key that stays the same when the row moves.
    pub key: String,
    pub(crate) cells: Vec<Cell>,
    /// List that Enter shows.
    pub opens: Option<P>,
}

/// A table.
#[derive(Debug)]
pub struct Grid<P> {
    pub title: String,
    pub(crate) columns: &'static [Column],
    pub(crate) rows: Vec<Row<P>>,
}

impl<P> Grid<P> {
    /// Puts the rows in the order of a column; what is equal there is in the order of the first.
    pub(crate) fn sort(&mut self, column: usize, descending: bool) {
        self.rows.sort_by(|a, b| {
            let by = |column: usize| match (a.cells.get(column), b.cells.get(column)) {
                (Some(a), Some(b)) => a.sort_key.compare(&b.sort_key),
                _ => Ordering::Equal,
            };
            let chosen = if descending { by(column).reverse() } else { by(column) };
            chosen.then_with(|| by(0))
        });
    }
}

impl SortKey {
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.total_cmp(b),
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            (Self::Number(_), Self::Text(_)) => Ordering::Less,
            (Self::Text(_), Self::Number(_)) => Ordering::Greater,
        }
    }
}

pub(super) fn words(text: &str) -> Cell {
    Cell { text: text.to_owned(), sort_key: SortKey::Text(text.to_owned()) }
}

/// A number as `show` writes it; what is not known comes before all numbers.
pub(super) fn shown(value: Option<f64>, show: impl Fn(f64) -> String) -> Cell {
    match value {
        Some(value) => Cell { text: show(value), sort_key: SortKey::Number(value) },
        None => Cell { text: "-".to_owned(), sort_key: SortKey::Number(f64::NEG_INFINITY) },
    }
}

pub(super) fn number(value: u64) -> Cell {
    shown(Some(value as f64), |_| value.to_string())
}

/// A rate; one that is small is not rounded to nothing.
pub(super) fn rate(value: Option<f64>) -> Cell {
    shown(
        value,
        |value| if value > 0.0 && value < 9.95 { format!("{value:.1}") } else { units::count(value) },
    )
}

pub(super) fn bandwidth(value: Option<f64>) -> Cell {
    shown(value, units::bandwidth)
}

pub(super) fn bytes(value: Option<u64>) -> Cell {
    shown(value.map(|bytes| bytes as f64), binary)
}

/// Bytes in the units that sizes have: `64.0 MiB`.
fn binary(bytes: f64) -> String {
    let (scale, unit) = match bytes {
        bytes if bytes < 1024.0 => return format!("{bytes:.0}"),
        bytes if bytes < 1_048_576.0 => (10, "K"),
        bytes if bytes < 1_073_741_824.0 => (20, "M"),
        bytes if bytes < 1_099_511_627_776.0 => (30, "G"),
        _ => (40, "T"),
    };
    let value = bytes / (1_u64 << scale) as f64;
    if value < 99.95 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

/// A name that stands where its number would.
pub(super) fn named(text: String, number: f64) -> Cell {
    Cell { text, sort_key: SortKey::Number(number) }
}

pub(super) fn time_us(value: Option<u64>) -> Cell {
    shown(value.map(|us| us as f64 * 1e3), units::time_ns)
}
