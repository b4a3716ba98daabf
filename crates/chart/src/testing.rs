//! Random charts, and properties of every picture: for the tests of this crate and of its users.

use proptest::prelude::*;

use crate::svg::{Look, draw, paint};
use crate::{Axis, Chart, Drawing, Heat, Mark, Point, Scale, Series, Style, Unit};

/// Goes through the elements and says what is not well-formed; how many there were.
///
/// # Errors
/// What is not well-formed.
pub fn elements(svg: &str) -> Result<usize, String> {
    let (mut open, mut count, mut rest) = (Vec::new(), 0, svg);
    while let Some((text, behind)) = rest.split_once('<') {
        if text.contains('>') && !open.contains(&"style") {
            return Err(format!("a bare > in {text:?}"));
        }
        let (tag, after) = behind.split_once('>').ok_or("a tag does not end")?;
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Err(format!("</{name}> ends nothing"));
            }
            continue;
        }
        count += 1;
        let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        attributes(tag)?;
        if !is_empty {
            open.push(tag.split_whitespace().next().unwrap_or_default());
        }
    }
    if open.is_empty() { Ok(count) } else { Err(format!("{open:?} stay open")) }
}

/// Every attribute has its value in double quotes, and comes once.
fn attributes(tag: &str) -> Result<(), String> {
    let mut names = Vec::new();
    let mut rest = tag.split_once(char::is_whitespace).map_or("", |(_, rest)| rest).trim();
    while !rest.is_empty() {
        let (name, behind) = rest.split_once("=\"").ok_or(format!("an attribute without value: {tag}"))?;
        let (_, after) = behind.split_once('"').ok_or(format!("a value does not end: {tag}"))?;
        if names.contains(&name) {
            return Err(format!("{name} comes twice: {tag}"));
        }
        names.push(name);
        rest = after.trim();
    }
    Ok(())
}

/// The numbers of an attribute, wherever it is.
pub(crate) fn values<'a>(svg: &'a str, attribute: &str) -> Vec<&'a str> {
    let start = format!(" {attribute}=\"");
    svg.split(start.as_str()).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// Draws the chart, and says what is wrong: not well-formed, not a number, or outside of the picture.
///
/// # Errors
/// What is wrong.
pub fn check(chart: &Chart) -> Result<(), String> {
    for look in [Look::File, Look::Page] {
        let svg = draw(chart, look);
        elements(&svg)?;
        let drawn: String = svg
            .split("aria-label=\"")
            .map(|part| part.split_once('"').map_or(part, |(_, rest)| rest))
            .collect();
        let body = drawn.split_once("</desc>").map_or("", |(_, body)| body);
        for attribute in ["d", "x", "y", "width", "height", "transform", "cx", "cy", "data-x", "data-y"] {
            for value in values(body, attribute) {
                if value.contains("NaN") || value.contains("inf") {
                    return Err(format!("{attribute}={value}"));
                }
            }
        }
        for (attribute, limit) in [("x", paint::WIDTH), ("y", 2000.0), ("cx", paint::WIDTH)] {
            for value in values(body, attribute) {
                let place: f64 = value.parse().map_err(|_| format!("{attribute}={value}"))?;
                if !(-30.0..=limit + 1.0).contains(&place) {
                    return Err(format!("{attribute}={value} is outside of the picture"));
                }
            }
        }
    }
    Ok(())
}

fn any_value() -> impl Strategy<Value = f64> {
    prop_oneof![
        5 => -10.0..1e6_f64,
        3 => (-12.0..18.0_f64).prop_map(|power| 10_f64.powf(power)),
        3 => prop::num::f64::ANY,
        1 => Just(0.0),
        1 => Just(f64::NAN),
    ]
}

fn any_axis() -> impl Strategy<Value = Axis> {
    let units = [
        Unit::Count,
        Unit::Iops,
        Unit::Bytes,
        Unit::BytesPerSecond,
        Unit::Nanoseconds,
        Unit::Seconds,
        Unit::Percent,
        Unit::Ratio,
    ];
    let scales = [Scale::Linear, Scale::Log2, Scale::Log10];
    (".{0,60}", prop::sample::select(units.to_vec()), prop::sample::select(scales.to_vec()))
        .prop_map(|(label, unit, scale)| Axis { label, unit, scale })
}

fn any_series() -> impl Strategy<Value = Series> {
    let interval = prop::option::of((any_value(), any_value()));
    let point = (any_value(), any_value(), interval, prop::option::of(".{0,20}"))
        .prop_map(|(x, y, interval, note)| Point { x, y, interval, note });
    let styles = [Style::Solid, Style::Dashed, Style::Dots, Style::Plain];
    (".{0,30}", prop::sample::select(styles.to_vec()), prop::collection::vec(point, 0..12))
        .prop_map(|(name, style, points)| Series { name, style, points })
}

fn any_drawing() -> impl Strategy<Value = Drawing> {
    let edges = || prop::collection::vec(any_value(), 0..8);
    let counts = prop::collection::vec(prop::collection::vec(any::<u64>(), 0..8), 0..8);
    prop_oneof![
        prop::collection::vec(any_series(), 0..10).prop_map(Drawing::Lines),
        (edges(), edges(), counts).prop_map(|(x_edges, y_edges, counts)| Drawing::Heat(Heat {
            x_edges,
            y_edges,
            counts
        })),
    ]
}

/// Charts of chance, with numbers that no measurement gives.
pub fn any_chart() -> impl Strategy<Value = Chart> {
    let place = || prop::option::of(any_value());
    let mark =
        (place(), place(), place(), ".{0,80}").prop_map(|(x, y, until, label)| Mark { x, y, until, label });
    (".{0,10}", ".{0,120}", any_axis(), any_axis(), any_drawing(), prop::collection::vec(mark, 0..4))
        .prop_map(|(id, title, x, y, drawing, marks)| {
            let caption = title.clone();
            Chart { id, title, caption, x, y, drawing, marks }
        })
}
