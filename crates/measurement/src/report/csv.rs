//! Tables as CSV (RFC 4180): bare numbers in the units that the columns' keys name. It writes no file.

use super::document::{Cell, DataTable};

/// The table. A column in which any cell has an interval is followed by two more, `KEY_low` and `KEY_high`. What was not
/// measured is empty.
pub fn render(table: &DataTable) -> String {
    let with_interval: Vec<bool> =
        (0..table.columns.len()).map(|column| has_interval(table, column)).collect();
    let mut header = Vec::new();
    for (column, with_interval) in table.columns.iter().zip(&with_interval) {
        header.push(column.key.clone());
        if *with_interval {
            header.extend([format!("{}_low", column.key), format!("{}_high", column.key)]);
        }
    }
    let mut text = record(&header);
    for row in &table.rows {
        let mut fields = Vec::new();
        for (number, with_interval) in with_interval.iter().enumerate() {
            let cell = row.get(number).unwrap_or(&Cell::Nothing);
            push_cell(&mut fields, cell, *with_interval);
        }
        text.push_str(&record(&fields));
    }
    text
}

/// True if a cell of a column has a confidence interval.
pub(crate) fn has_interval(table: &DataTable, column: usize) -> bool {
    table.rows.iter().any(|row| matches!(row.get(column), Some(Cell::Number { interval: Some(_), .. })))
}

fn push_cell(fields: &mut Vec<String>, cell: &Cell, with_interval: bool) {
    let (value, interval) = match cell {
        Cell::Number { value, interval } => (number(*value), *interval),
        Cell::Text(text) => (text.clone(), None),
        Cell::Nothing => (String::new(), None),
    };
    fields.push(value);
    if with_interval {
        let (low, high) = interval.map_or_else(Default::default, |(low, high)| (number(low), number(high)));
        fields.extend([low, high]);
    }
}

/// All digits that the number has; nothing for what is not a number.
fn number(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { String::new() }
}

fn record(fields: &[String]) -> String {
    let quoted: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
    quoted.join(",") + "\r\n"
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\r', '\n']) {
        return format!("\"{}\"", field.replace('"', "\"\""));
    }
    field.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::document::Column;
    use chart::Unit;

    fn column(key: &str, unit: Option<Unit>) -> Column {
        Column { name: key.to_owned(), key: key.to_owned(), unit }
    }

    #[test]
    fn a_table_is_records_with_intervals_beside_their_values() {
        let table = DataTable {
            id: "t".into(),
            title: "T".into(),
            columns: vec![column("name", None), column("iops", Some(Unit::Iops)), column("depth", None)],
            rows: vec![
                vec![
                    Cell::Text("a, \"b\"".into()),
                    Cell::Number { value: 0.1, interval: Some((0.05, 0.15)) },
                    Cell::Nothing,
                ],
                vec![Cell::Text("line\nend".into()), Cell::Number { value: f64::NAN, interval: None }],
            ],
        };
        let expected =
            "name,iops,iops_low,iops_high,depth\r\n\"a, \"\"b\"\"\",0.1,0.05,0.15,\r\n\"line\nend\",,,,\r\n";
        assert_eq!(render(&table), expected);
    }

    #[test]
    fn a_table_without_rows_is_its_header() {
        let table =
            DataTable { id: "t".into(), title: "T".into(), columns: vec![column("a", None)], rows: vec![] };
        assert_eq!(render(&table), "a\r\n");
    }
}
