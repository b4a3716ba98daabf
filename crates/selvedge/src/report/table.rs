//! A table of text: columns as wide as their widest cell. It knows nothing of what is in the cells.

use std::fmt;

/// Which side of its column a cell keeps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// A table with a header.
#[derive(Debug)]
pub(crate) struct Table {
    sides: Vec<Side>,
    rows: Vec<Vec<String>>,
    indent: usize,
}

impl Table {
    /// A table with these columns.
    pub(crate) fn new(columns: &[(&str, Side)]) -> Self {
        let header = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        Self { sides: columns.iter().map(|(_, side)| *side).collect(), rows: vec![header], indent: 0 }
    }

    /// The same table, moved to the right.
    #[must_use]
    pub(crate) fn indented(mut self, indent: usize) -> Self {
        self.indent = indent;
        self
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.sides.len(), "a cell for each column");
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.sides.len()).map(width).collect();
        for row in &self.rows {
            let mut line = " ".repeat(self.indent);
            for ((cell, side), width) in row.iter().zip(&self.sides).zip(&widths) {
                match side {
                    Side::Left => line += &format!("{cell:<width$}  "),
                    Side::Right => line += &format!("{cell:>width$}  "),
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
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
}
