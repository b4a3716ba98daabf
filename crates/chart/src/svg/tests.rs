//! Tests of whole pictures: on charts of chance, and on some whose drawing is known.

use proptest::prelude::*;

use super::*;
use crate::testing::{any_chart, check, values};
use crate::{Axis, Mark, Point, Scale, Series, Unit};

fn axis(unit: Unit, scale: Scale) -> Axis {
    Axis { label: "a < b & \"c\"".to_owned(), unit, scale }
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
fn numbers_are_there_at_full_precision() {
    let svg = draw(&lines(Scale::Linear, vec![Point::new(0.1, 123_456.789_012_345)]), Look::Page);
    assert_eq!(values(&svg, "data-x"), ["0.1"]);
    assert_eq!(values(&svg, "data-y"), ["123456.789012345"]);
}

#[test]
fn what_has_no_place_is_left_out() {
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0];
    for scale in [Scale::Log2, Scale::Log10] {
        let mut points = vec![Point::new(1.0, 2.0)];
        points.extend(odd.iter().flat_map(|value| [Point::new(*value, 1.0), Point::new(1.0, *value)]));
        let chart = lines(scale, points);
        assert_eq!(check(&chart), Ok(()));
        assert_eq!(values(&draw(&chart, Look::Page), "data-y"), ["2"]);
    }
    assert_eq!(check(&lines(Scale::Linear, Vec::new())), Ok(()));
}

#[test]
fn a_line_breaks_where_a_value_is_missing() {
    let points =
        vec![Point::new(1.0, 1.0), Point::new(2.0, f64::NAN), Point::new(3.0, 3.0), Point::new(4.0, 4.0)];
    let svg = draw(&lines(Scale::Linear, points), Look::Page);
    let path = svg.split("class=\"line\" d=\"").last().unwrap().split('"').next().unwrap();
    assert_eq!((path.matches('M').count(), path.matches('L').count()), (2, 1), "{path}");
}

#[test]
fn a_dashed_line_has_the_colour_of_the_solid_one() {
    let mut chart = lines(Scale::Linear, vec![Point::new(1.0, 1.0)]);
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

#[test]
fn intervals_stand_side_by_side_and_one_that_goes_on_is_open() {
    let point = |interval| Point { interval: Some(interval), ..Point::new(1.0, 10.0) };
    let mut chart = lines(Scale::Linear, vec![point((9.0, 11.0)), Point::new(2.0, 10.0)]);
    let Drawing::Lines(series) = &mut chart.drawing else { panic!("these are lines") };
    let other = Series { name: "two".to_owned(), points: vec![point((5.0, 900.0))], ..series[0].clone() };
    series.push(other);
    assert_eq!(check(&chart), Ok(()));
    let svg = draw(&chart, Look::Page);
    let paths: Vec<&str> =
        svg.split("class=\"whisker\" d=\"M").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    // The first line is drawn last.
    let [cut, whole] = paths[..] else { panic!("{paths:?}") };
    assert_eq!((cut.matches('H').count(), whole.matches('H').count()), (1, 2), "{paths:?}");
    let x = |path: &str| path.split(' ').next().unwrap().parse::<f64>().unwrap();
    assert!((x(cut) - x(whole) - 3.0).abs() < 0.2, "{paths:?}");
}

#[test]
fn a_band_is_shaded_and_ends_with_the_plot() {
    let mut chart = lines(Scale::Linear, vec![Point::new(0.0, 1.0), Point::new(10.0, 2.0)]);
    let mark = |x, until| Mark { x: Some(x), y: None, until: Some(until), label: "cut".to_owned() };
    chart.marks = vec![mark(2.0, 4.0), mark(8.0, 50.0)];
    assert_eq!(check(&chart), Ok(()));
    let svg = draw(&chart, Look::Page);
    let widths: Vec<f64> =
        svg.split("class=\"band\"").skip(1).map(|part| values(part, "width")[0].parse().unwrap()).collect();
    assert_eq!(widths.len(), 2);
    assert!((widths[0] - widths[1]).abs() < 0.2, "{widths:?}");
    assert_eq!(svg.matches(">cut<").count(), 2);
}

#[test]
fn a_plain_line_has_no_markers() {
    let mut chart = lines(Scale::Linear, vec![Point::new(0.0, 1.0), Point::new(10.0, 2.0)]);
    let Drawing::Lines(series) = &mut chart.drawing else { panic!("these are lines") };
    series[0].style = Style::Plain;
    let svg = draw(&chart, Look::Page);
    assert_eq!((svg.matches("class=\"point").count(), svg.matches("class=\"line\"").count()), (0, 2));
    assert!(!svg.contains("class=\"marker\""), "{svg}");
}

proptest! {
    #[test]
    fn every_chart_is_drawn(chart in any_chart()) {
        prop_assert_eq!(check(&chart), Ok(()));
    }
}
