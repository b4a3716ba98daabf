//! A chart in a page: its title, the picture, what to see in it, and its numbers as a table. It keeps out the drawing.

use std::fmt::Write;

use chart::markup::{escaped, identifier};
use chart::svg::{self, Look};
use chart::units;
use chart::{Axis, Chart, Drawing, Heat, Series, Unit};

use super::Figure;

/// Adds the figure.
pub(super) fn push(page: &mut String, chart: &Chart) {
    let id = identifier(&chart.id);
    let _ = write!(
        page,
        "<figure id=\"{id}\">\n<figcaption>\n<h3>{}</h3>\n<p>{}</p>\n</figcaption>\n<div class=\"picture\">\n",
        escaped(&chart.title),
        escaped(&chart.caption)
    );
    page.push_str(&svg::draw(chart, Look::Page));
    let _ = write!(
        page,
        "</div>\n<details>\n<summary>Data</summary>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Data of {title}\">\n\
         <table class=\"data\">\n<caption>{title}</caption>\n",
        title = escaped(&chart.title)
    );
    match &chart.drawing {
        Drawing::Lines(series) => push_points(page, chart, series),
        Drawing::Heat(heat) => push_cells(page, chart, heat),
    }
    page.push_str("</table>\n</div>\n</details>\n</figure>\n");
}

/// Adds a picture that is not a chart.
pub(super) fn push_picture(page: &mut String, picture: &Figure<'_>) {
    let _ = write!(
        page,
        "<figure id=\"{}\" class=\"whole\">\n<figcaption>\n<h3>{}</h3>\n<p>{}</p>\n</figcaption>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n{}</div>\n</figure>\n",
        identifier(picture.id),
        escaped(picture.title),
        escaped(picture.caption),
        escaped(picture.title),
        picture.svg
    );
}

/// A header cell; `key` is the column's name in a CSV file.
fn push_head(page: &mut String, name: &str, key: &str, is_number: bool) {
    let class = if is_number { " class=\"number\"" } else { "" };
    let _ = write!(page, "<th scope=\"col\"{class} data-key=\"{}\">{}</th>", escaped(key), escaped(name));
}

fn push_number(page: &mut String, unit: Unit, value: f64) {
    if value.is_finite() {
        let _ =
            write!(page, "<td class=\"number\" data-value=\"{value}\">{}</td>", units::quantity(unit, value));
    } else {
        page.push_str("<td class=\"number\" data-value=\"\">–</td>");
    }
}

/// An end of an interval.
fn push_bound(page: &mut String, unit: Unit, value: f64) {
    if value.is_finite() {
        let _ =
            write!(page, "<td class=\"number\" data-value=\"{value}\">{}</td>", units::bound(unit, value));
    } else {
        push_number(page, unit, value);
    }
}

fn push_points(page: &mut String, chart: &Chart, series: &[Series]) {
    let points = || series.iter().flat_map(|line| &line.points);
    let with_name = series.iter().any(|line| !line.name.is_empty());
    let with_interval = points().any(|point| point.interval.is_some());
    let with_note = points().any(|point| point.note.is_some());
    page.push_str("<thead><tr>");
    if with_name {
        push_head(page, "Line", "line", false);
    }
    push_head(page, &chart.x.label, &key(&chart.x), true);
    push_head(page, &chart.y.label, &key(&chart.y), true);
    if with_interval {
        push_head(page, "95 % from", &format!("{}_low", key(&chart.y)), true);
        push_head(page, "to", &format!("{}_high", key(&chart.y)), true);
    }
    if with_note {
        push_head(page, "Note", "note", false);
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for line in series {
        for point in &line.points {
            page.push_str("<tr>");
            if with_name {
                let name = svg::series_name(&line.name, line.style);
                let _ = write!(page, "<th scope=\"row\">{}</th>", escaped(&name));
            }
            push_number(page, chart.x.unit, point.x);
            push_number(page, chart.y.unit, point.y);
            if with_interval {
                let (low, high) = point.interval.unwrap_or((f64::NAN, f64::NAN));
                push_bound(page, chart.y.unit, low);
                push_bound(page, chart.y.unit, high);
            }
            if with_note {
                let _ = write!(page, "<td>{}</td>", escaped(point.note.as_deref().unwrap_or_default()));
            }
            page.push_str("</tr>\n");
        }
    }
    page.push_str("</tbody>\n");
}

/// A heat map's cells: a row for each of its columns, and in it each of its rows in which there is anything.
fn push_cells(page: &mut String, chart: &Chart, heat: &Heat) {
    let is_used =
        |row: &usize| heat.counts.iter().any(|column| column.get(*row).is_some_and(|count| *count > 0));
    let rows: Vec<usize> = (0..heat.y_edges.len().saturating_sub(1)).filter(is_used).collect();
    let span = |axis: &Axis, edges: &[f64]| {
        edges.iter().map(|edge| units::bound(axis.unit, *edge)).collect::<Vec<_>>().join(" to ")
    };
    page.push_str("<thead><tr>");
    push_head(page, &chart.x.label, &key(&chart.x), false);
    for row in &rows {
        let edges = heat.y_edges.get(*row..row + 2).unwrap_or_default();
        let from = edges.first().copied().unwrap_or_default();
        push_head(page, &span(&chart.y, edges), &format!("{}_{from}", key(&chart.y)), true);
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for (counts, edges) in heat.counts.iter().zip(heat.x_edges.windows(2)) {
        let from = edges.first().filter(|edge| edge.is_finite()).map_or_else(String::new, f64::to_string);
        let name = escaped(&span(&chart.x, edges));
        let _ = write!(page, "<tr><th scope=\"row\" data-value=\"{from}\">{name}</th>");
        for row in &rows {
            let count = counts.get(*row).copied().unwrap_or(0);
            let _ =
                write!(page, "<td class=\"number\" data-value=\"{count}\">{}</td>", units::grouped(count));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n");
}

/// An axis as a column's name, with its unit at the end.
fn key(axis: &Axis) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '_' };
    let words: String = axis.label.chars().map(plain).collect();
    let name = words.split('_').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_");
    let unit = match axis.unit {
        Unit::Count | Unit::Ratio => return name,
        Unit::Iops => "iops",
        Unit::Bytes => "bytes",
        Unit::BytesPerSecond => "bytes_per_s",
        Unit::Nanoseconds => "ns",
        Unit::Seconds => "s",
        Unit::Percent => "percent",
    };
    if name.is_empty() || name == unit { unit.to_owned() } else { format!("{name}_{unit}") }
}
