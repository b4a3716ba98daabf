//! Rows and columns as Markdown and as plain text, from the same cells. It keeps out what they say.

use crate::statistics::Estimate;

/// A table: the first column is text, the others are figures.
pub(crate) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(head: &[&str]) -> Table {
        Table { head: head.iter().map(|&text| text.to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds a row. What it lacks stays empty.
    pub(crate) fn row(&mut self, mut cells: Vec<String>) {
        cells.resize(self.head.len(), String::new());
        self.rows.push(cells);
    }

    /// As Markdown.
    pub(crate) fn markdown(&self) -> String {
        let marks: Vec<String> =
            (0..self.head.len()).map(|column| if column == 0 { "---" } else { "---:" }.to_owned()).collect();
        let lines = [&self.head, &marks].into_iter().chain(&self.rows);
        lines.map(|cells| format!("| {} |\n", cells.join(" | "))).collect()
    }

    /// As text in columns.
    pub(crate) fn text(&self) -> String {
        let lines: Vec<&Vec<String>> = [&self.head].into_iter().chain(&self.rows).collect();
        let width =
            |column: usize| lines.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut text = String::new();
        for cells in lines {
            let mut line = String::new();
            for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
                line += &if column == 0 { format!("{cell:width$}") } else { format!("  {cell:>width$}") };
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

/// A figure without decimals, or a dash.
pub(crate) fn whole(figure: Option<f64>) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.0}"))
}

/// Median with its interval, or a dash.
pub(crate) fn spread(estimate: Option<&Estimate>) -> String {
    match estimate {
        None => "-".to_owned(),
        Some(one) if one.runs < 2 => format!("{:.0}", one.median),
        Some(Estimate { median, low, high, .. }) => format!("{median:.0} ({low:.0}-{high:.0})"),
    }
}

/// Three digits, or a dash.
pub(crate) fn short(figure: Option<f64>) -> String {
    match figure {
        None => "-".to_owned(),
        Some(figure) if figure >= 99.95 => format!("{figure:.0}"),
        Some(figure) => format!("{figure:.1}"),
    }
}

/// Ratio of `figure` to `of`, or a dash.
pub(crate) fn ratio(figure: Option<f64>, of: Option<f64>) -> String {
    match (figure, of) {
        (Some(figure), Some(of)) if of > 0.0 => format!("{:.2}", figure / of),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_the_same_twice() {
        let mut table = Table::new(&["cell", "MB/s"]);
        table.row(vec!["tcp".to_owned(), whole(Some(119.4))]);
        table.row(vec!["mptcp".to_owned()]);
        assert_eq!(table.markdown(), "| cell | MB/s |\n| --- | ---: |\n| tcp | 119 |\n| mptcp |  |\n");
        assert_eq!(table.text(), "cell   MB/s\ntcp     119\nmptcp\n");
    }

    #[test]
    fn a_median_of_several_has_its_interval() {
        let spread = |figures: &[f64]| spread(Estimate::of(figures).as_ref());
        assert_eq!([spread(&[]), spread(&[7.4]), spread(&[1.0, 3.0, 2.0])], ["-", "7", "2 (1-3)"]);
    }

    #[test]
    fn no_figure_is_a_dash() {
        assert_eq!(
            (whole(None), ratio(None, Some(1.0)), ratio(Some(1.0), Some(0.0))),
            ("-".into(), "-".into(), "-".into())
        );
        assert_eq!(ratio(Some(3.0), Some(2.0)), "1.50");
        assert_eq!([None, Some(1.24), Some(99.96)].map(short), ["-", "1.2", "100"]);
    }
}
