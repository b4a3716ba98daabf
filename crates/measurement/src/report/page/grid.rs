//! A table in a page, with every number at its full precision beside what is shown of it.

use std::fmt::Write;

use chart::markup::{escaped, identifier};
use chart::units;

use crate::report::document::{Cell, Column, DataTable};

/// Adds the table.
pub(super) fn push(page: &mut String, table: &DataTable) {
    let id = identifier(&table.id);
    let title = escaped(&table.title);
    let _ = write!(
        page,
        "<section class=\"table\" id=\"table-{id}\" aria-labelledby=\"table-{id}-title\">\n\
         <div class=\"bar\"><h3 id=\"table-{id}-title\">{title}</h3></div>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\">\n\
         <table class=\"sortable\" data-name=\"{id}\">\n<caption class=\"unseen\">{title}</caption>\n<thead><tr>"
    );
    for column in &table.columns {
        let class = if column.unit.is_some() { " class=\"number\"" } else { "" };
        let (key, name) = (escaped(&column.key), escaped(&column.name));
        let _ = write!(page, "<th scope=\"col\"{class} data-key=\"{key}\">{name}</th>");
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        page.push_str("<tr>");
        for (number, column) in table.columns.iter().enumerate() {
            push_cell(page, row.get(number).unwrap_or(&Cell::Nothing), column);
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table>\n</div>\n</section>\n");
}

fn push_cell(page: &mut String, cell: &Cell, column: &Column) {
    let class = if column.unit.is_some() { " class=\"number\"" } else { "" };
    let _ = match cell {
        Cell::Number { value, interval } if value.is_finite() => {
            let interval = interval.filter(|(low, high)| low.is_finite() && high.is_finite());
            let ends = interval.map_or_else(String::new, |interval| ends(column, interval));
            let (shown, spread) = column
                .unit
                .map_or_else(|| (value.to_string(), None), |unit| units::parted(unit, *value, interval));
            let spread = spread.map_or_else(String::new, |spread| format!(" <small>{spread}</small>"));
            write!(page, "<td{class} data-value=\"{value}\"{ends}>{shown}{spread}</td>")
        }
        Cell::Text(text) => write!(page, "<td{class}>{}</td>", escaped(text)),
        Cell::Number { .. } | Cell::Nothing => write!(page, "<td{class} data-value=\"\">–</td>"),
    };
}

/// An interval as attributes.
fn ends(column: &Column, (low, high): (f64, f64)) -> String {
    let write = |end: f64| column.unit.map_or_else(|| end.to_string(), |unit| units::bound(unit, end));
    format!(
        " data-low=\"{low}\" data-high=\"{high}\" title=\"95 % confidence: {} to {}\"",
        write(low),
        write(high)
    )
}
