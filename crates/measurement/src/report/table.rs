//! A table of text: columns as wide as their widest cell. Where the terminal is narrower than all of them, a row takes
//! several lines, and no cell is cut. It knows nothing of what is in the cells.

use std::fmt;
use std::ops::Range;

use super::terminal;

/// Alignment of a column's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

/// Spaces between two columns, and where a row fits on its line with fewer only.
const GAP: usize = 2;
const GAP_MIN: usize = 1;
/// Indentation of a row's further lines, in columns.
const FURTHER: usize = 4;
/// Narrower terminals are taken for ones of this width.
const COLUMNS_MIN: usize = 20;

/// A table with a header.
#[derive(Debug)]
pub struct Table {
    sides: Vec<Side>,
    rows: Vec<Vec<String>>,
    indent: usize,
}

/// Columns that stand on one line of each row.
struct LineLayout {
    columns: Range<usize>,
    indent: usize,
    /// The widest cell that fits; only a column alone on its line can have wider ones.
    room: usize,
}

impl Table {
    /// A table with these columns.
    pub fn new(columns: &[(&str, Side)]) -> Self {
        let header = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        Self { sides: columns.iter().map(|(_, side)| *side).collect(), rows: vec![header], indent: 0 }
    }

    /// Returns the table, indented.
    #[must_use]
    pub fn indented(mut self, indent: usize) -> Self {
        self.indent = indent;
        self
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.sides.len(), "a cell for each column");
        self.rows.push(cells);
    }

    /// The table as text that is nowhere wider than this.
    pub fn within(&self, columns: Option<usize>) -> String {
        let widths = self.widths();
        let gap = self.gap(&widths, columns);
        let lines = self.lines(&widths, gap, columns);
        let mut text = String::new();
        for row in &self.rows {
            for line in &lines {
                self.push(&mut text, row, line, (&widths, gap));
            }
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        (0..self.sides.len()).map(width).collect()
    }

    fn gap(&self, widths: &[usize], columns: Option<usize>) -> usize {
        let length = |gap: usize| self.indent + widths.iter().map(|width| width + gap).sum::<usize>() - gap;
        let fits = |gap: usize| columns.is_none_or(|columns| length(gap) <= columns);
        if !fits(GAP) && fits(GAP_MIN) { GAP_MIN } else { GAP }
    }

    /// Distributes columns to lines: as many on each as fit, in their order.
    fn lines(&self, widths: &[usize], gap: usize, columns: Option<usize>) -> Vec<LineLayout> {
        let columns = columns.map_or(usize::MAX, |columns| columns.max(COLUMNS_MIN + self.indent));
        let mut lines: Vec<LineLayout> = Vec::new();
        let mut used = 0;
        for (column, width) in widths.iter().enumerate() {
            match lines.last_mut() {
                Some(line) if used + gap + width <= line.room => {
                    line.columns.end = column + 1;
                    used += gap + width;
                }
                before => {
                    let indent = self.indent + if before.is_some() { FURTHER } else { 0 };
                    lines.push(LineLayout { columns: column..column + 1, indent, room: columns - indent });
                    used = *width;
                }
            }
        }
        lines
    }

    /// Adds a line of a row. One on which nothing stands is left out, unless the row has no other.
    fn push(&self, text: &mut String, row: &[String], line: &LineLayout, (widths, gap): (&[usize], usize)) {
        let indent = " ".repeat(line.indent);
        let first = line.columns.start;
        if widths[first] > line.room {
            for piece in pieces(&row[first], line.room) {
                *text += &format!("{indent}{piece}\n");
            }
            return;
        }
        let mut cells = indent;
        for column in line.columns.clone() {
            let (cell, width) = (&row[column], widths[column]);
            match self.sides[column] {
                Side::Left => cells += &format!("{cell:<width$}{:gap$}", ""),
                Side::Right => cells += &format!("{cell:>width$}{:gap$}", ""),
            }
        }
        let cells = cells.trim_end();
        if first == 0 || !cells.is_empty() {
            *text += cells;
            text.push('\n');
        }
    }
}

/// A text in pieces of this length at most, broken behind what parts words and names where there is such a place.
pub(crate) fn pieces(text: &str, room: usize) -> Vec<String> {
    let mut left: Vec<char> = text.chars().collect();
    let mut pieces = Vec::new();
    while left.len() > room {
        let parts = |letter: &char| matches!(letter, ' ' | ':' | ',' | '/' | '-');
        // A break close to the beginning would make more lines than it is worth.
        let place = left[..room].iter().rposition(parts).filter(|place| *place >= room / 3);
        let rest = left.split_off(place.map_or(room, |place| place + 1));
        pieces.push(left.iter().collect::<String>().trim_end().to_owned());
        left = rest;
    }
    pieces.push(left.iter().collect());
    pieces
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.within(terminal::columns()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&[("name", Side::Left), ("p99", Side::Right)]).indented(1);
        table.row(vec!["a".into(), "61.4 µs".into()]);
        table.row(vec!["longer".into(), "1 s".into()]);
        assert_eq!(table.to_string(), " name        p99\n a       61.4 µs\n longer      1 s\n");
    }

    /// Table as `list` shows it.
    fn list() -> Table {
        let mut table = Table::new(&[
            ("subsystem", Side::Left),
            ("nsid", Side::Right),
            ("size", Side::Right),
            ("block", Side::Right),
            ("uuid", Side::Left),
            ("model", Side::Left),
            ("serial", Side::Left),
        ]);
        for nsid in ["1", "12"] {
            table.row(
                [
                    "nqn.2026-01.io.selvedge:e2q0-40wh-zdeh:4711",
                    nsid,
                    "16 MiB",
                    "4096",
                    "2d1219c7-c4c5-404a-aa1f-6d2a48adfda4",
                    "Selvedge",
                    "SLV4a77b8fb712d5e09",
                ]
                .map(str::to_owned)
                .to_vec(),
            );
        }
        table
    }

    fn width(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    #[test]
    fn a_row_takes_as_many_lines_as_it_needs() {
        let wide = list().within(None);
        let closer = list().within(Some(width(&wide) - 1));
        assert_eq!((closer.lines().count(), width(&closer)), (3, width(&wide) - 6), "with single spaces");
        assert_eq!((wide.lines().count(), wide.clone()), (3, list().within(Some(width(&wide)))));
        assert_eq!(
            list().within(Some(80)),
            "\
subsystem                                    nsid    size  block
    uuid                                  model     serial
nqn.2026-01.io.selvedge:e2q0-40wh-zdeh:4711     1  16 MiB   4096
    2d1219c7-c4c5-404a-aa1f-6d2a48adfda4  Selvedge  SLV4a77b8fb712d5e09
nqn.2026-01.io.selvedge:e2q0-40wh-zdeh:4711    12  16 MiB   4096
    2d1219c7-c4c5-404a-aa1f-6d2a48adfda4  Selvedge  SLV4a77b8fb712d5e09
"
        );
        assert_eq!(
            list().within(Some(40)).lines().skip(4).take(5).collect::<Vec<_>>(),
            [
                "nqn.2026-01.io.selvedge:e2q0-40wh-zdeh:",
                "4711",
                "       1  16 MiB   4096",
                "    2d1219c7-c4c5-404a-aa1f-6d2a48adfda4",
                "    Selvedge  SLV4a77b8fb712d5e09",
            ]
        );
    }

    #[test]
    fn nothing_is_wider_than_the_terminal_and_nothing_is_lost() {
        let letters = |text: &str| text.chars().filter(|letter| !letter.is_whitespace()).collect::<Vec<_>>();
        for columns in [20, 21, 33, 40, 60, 79, 80, 81, 100, 118, 150] {
            for indent in [0, 2] {
                let text = list().indented(indent).within(Some(columns));
                assert!(width(&text) <= columns.max(COLUMNS_MIN + indent), "{columns}:\n{text}");
                let mut lines = text.lines();
                assert!(lines.all(|line| line.trim_end() == line && !line.is_empty()), "{columns}:\n{text}");
                assert_eq!(letters(&text).len(), letters(&list().within(None)).len(), "{columns}:\n{text}");
            }
        }
    }

    #[test]
    fn long_texts_are_broken_between_words_and_names() {
        assert_eq!(pieces("short", 5), ["short"]);
        assert_eq!(pieces("a sentence of words", 12), ["a sentence", "of words"]);
        assert_eq!(pieces("nqn.a:uuid:1234", 11), ["nqn.a:uuid:", "1234"]);
        assert_eq!(pieces("aaaaaaaaaa", 4), ["aaaa", "aaaa", "aa"]);
    }
}
