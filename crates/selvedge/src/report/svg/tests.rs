//! Tests of whole pictures: on a sample as a sweep makes it, and on charts of chance.

use proptest::prelude::*;

use super::*;
use crate::report::chart::{Axis, Heat, Mark, Point, Scale, Series, Unit};
use crate::report::sample;

/// Goes through the elements and says what is not well-formed; how many there were.
pub(crate) fn elements(svg: &str) -> Result<usize, String> {
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
fn values<'a>(svg: &'a str, attribute: &str) -> Vec<&'a str> {
    let start = format!(" {attribute}=\"");
    svg.split(start.as_str()).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// What holds for every picture.
fn check(chart: &Chart) -> Result<(), String> {
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

fn axis(unit: Unit, scale: Scale) -> Axis {
    Axis { label: "a < b & \"c\"".to_owned(), unit, scale }
}

fn point(x: f64, y: f64) -> Point {
    Point { x, y, interval: None, note: None }
}

fn lines(scale: Scale, points: Vec<Point>) -> Chart {
    let series = Series { name: "one".to_owned(), style: Style::Solid, points };
    Chart {
        id: "id".to_owned(),
        title: "Title".to_owned(),
        caption: "Caption".to_owned(),
        x: axis(Unit::Count, scale),
        y: axis(Unit::Nanoseconds, scale),
        drawing: Drawing::Lines(vec![series]),
        marks: Vec::new(),
    }
}

#[test]
fn the_sample_is_drawn_with_all_its_points() {
    for chart in &sample::document().charts {
        check(chart).unwrap_or_else(|problem| panic!("{}: {problem}", chart.id));
        let svg = draw(chart, Look::File);
        let expected = match &chart.drawing {
            Drawing::Lines(series) => series.iter().map(|line| line.points.len()).sum(),
            Drawing::Heat(heat) => heat.counts.iter().flatten().filter(|count| **count > 0).count(),
        };
        let drawn = svg.matches("class=\"point").count() + svg.matches("class=\"cell").count();
        assert_eq!(drawn, expected, "{}", chart.id);
        assert!(!svg.contains("<script") && !svg.contains("href"), "{}", chart.id);
    }
}

#[test]
fn numbers_are_there_at_full_precision() {
    let svg = draw(&lines(Scale::Linear, vec![point(0.1, 123_456.789_012_345)]), Look::Page);
    assert_eq!(values(&svg, "data-x"), ["0.1"]);
    assert_eq!(values(&svg, "data-y"), ["123456.789012345"]);
}

#[test]
fn what_has_no_place_is_left_out() {
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0];
    for scale in [Scale::Log2, Scale::Log10] {
        let mut points = vec![point(1.0, 2.0)];
        points.extend(odd.iter().flat_map(|value| [point(*value, 1.0), point(1.0, *value)]));
        let chart = lines(scale, points);
        assert_eq!(check(&chart), Ok(()));
        assert_eq!(values(&draw(&chart, Look::Page), "data-y"), ["2"]);
    }
    assert_eq!(check(&lines(Scale::Linear, Vec::new())), Ok(()));
}

#[test]
fn a_line_breaks_where_a_value_is_missing() {
    let points = vec![point(1.0, 1.0), point(2.0, f64::NAN), point(3.0, 3.0), point(4.0, 4.0)];
    let svg = draw(&lines(Scale::Linear, points), Look::Page);
    let path = svg.split("class=\"line\" d=\"").last().unwrap().split('"').next().unwrap();
    assert_eq!((path.matches('M').count(), path.matches('L').count()), (2, 1), "{path}");
}

#[test]
fn a_dashed_line_has_the_colour_of_the_solid_one() {
    let mut chart = lines(Scale::Linear, vec![point(1.0, 1.0)]);
    let Drawing::Lines(series) = &mut chart.drawing else { panic!("these are lines") };
    let other = Series { name: "two".to_owned(), ..series[0].clone() };
    let dashed = Series { style: Style::Dashed, ..series[0].clone() };
    series.extend([other, dashed]);
    let svg = draw(&chart, Look::Page);
    for group in ["s0\" data-series=\"0\"", "s1\" data-series=\"1\"", "s0\" data-series=\"2\""] {
        assert!(svg.contains(group), "{group}");
    }
    assert_eq!(svg.matches("class=\"entry ").count(), 2);
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
    let styles = [Style::Solid, Style::Dashed, Style::Dots];
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
pub(crate) fn any_chart() -> impl Strategy<Value = Chart> {
    let mark = (prop::option::of(any_value()), prop::option::of(any_value()), ".{0,80}")
        .prop_map(|(x, y, label)| Mark { x, y, label });
    (".{0,10}", ".{0,120}", any_axis(), any_axis(), any_drawing(), prop::collection::vec(mark, 0..4))
        .prop_map(|(id, title, x, y, drawing, marks)| {
            let caption = title.clone();
            Chart { id, title, caption, x, y, drawing, marks }
        })
}

proptest! {
    #[test]
    fn every_chart_is_drawn(chart in any_chart()) {
        prop_assert_eq!(check(&chart), Ok(()));
    }
}
