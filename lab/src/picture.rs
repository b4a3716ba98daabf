//! Curves and bars as SVG that reads on light and on dark pages. It knows no measurement.

use std::fmt::Write;

/// A curve through points of x and y.
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A part of the x axis that is shaded.
pub(crate) struct Band {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) name: String,
}

/// Bars under one heading.
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) bars: Vec<Bar>,
}

/// A pair of bars, side by side in two panels.
pub(crate) struct Bar {
    pub(crate) name: String,
    /// Which of the kinds it is, and so which colour it has.
    pub(crate) kind: usize,
    pub(crate) values: [Option<f64>; 2],
}

/// Colours that differ in brightness too; the first is the one that matters.
const COLOURS: [&str; 5] = ["#d9622b", "#3b7dd8", "#2a9d6f", "#a05cc5", "#b8860b"];
const STYLE: &str = "<style>.page{fill:#fff}.ink{fill:#222}.faint{fill:#667}.line{stroke:#bbc}\
    @media(prefers-color-scheme:dark){.page{fill:#16191d}.ink{fill:#eee}.faint{fill:#aab}.line{stroke:#445}}</style>";

const WIDTH: f64 = 900.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 20.0;
const PLOT_TOP: f64 = 70.0;
const PLOT_HEIGHT: f64 = 280.0;

/// How the y axis counts.
enum Height {
    /// From nothing on, with a label at each step.
    Even { step: f64, most: f64 },
    /// Each decade as high as the others.
    Decades { least: f64, most: f64 },
}

impl Height {
    fn even(curves: &[Curve]) -> Height {
        let (step, most) = scale(heights(curves).fold(1.0, f64::max));
        Height::Even { step, most }
    }

    /// From a round number to a round number. What is not above 0 has no place there.
    fn decades(curves: &[Curve]) -> Height {
        let above = || heights(curves).filter(|y| *y > 0.0);
        let least = above().reduce(f64::min).unwrap_or(1.0);
        let most = above().reduce(f64::max).unwrap_or(1.0);
        let below = rounds(least).into_iter().rfind(|round| *round <= least);
        let beyond = rounds(most).into_iter().find(|round| *round > most);
        Height::Decades { least: below.unwrap_or(least), most: beyond.unwrap_or(10.0 * most) }
    }

    /// Where y is, from 0 at the bottom to 1 at the top.
    fn share(&self, y: f64) -> f64 {
        match *self {
            Height::Even { most, .. } => y / most,
            Height::Decades { least, most } => (y.max(least) / least).ln() / (most / least).ln(),
        }
    }

    fn labels(&self) -> Vec<f64> {
        match *self {
            Height::Even { step, most } => steps(step, most).collect(),
            Height::Decades { least, most } => {
                let count = (most / least).log10().ceil() as i32;
                let decades =
                    (0..=count).flat_map(|decade| rounds(least * 10_f64.powi(decade)).into_iter().take(3));
                decades.filter(|y| (least * 0.999..=most * 1.001).contains(y)).collect()
            }
        }
    }
}

fn heights(curves: &[Curve]) -> impl Iterator<Item = f64> {
    curves.iter().flat_map(|curve| &curve.points).map(|point| point.1)
}

/// 1, 2, 5 and 10 times the power of ten at or below a number.
fn rounds(of: f64) -> [f64; 4] {
    let power = 10_f64.powf((of.log10() + 1e-9).floor());
    [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power)
}

/// Draws curves over a common x axis. The first is drawn thick.
pub(crate) fn curves(title: &str, x_axis: &str, y_axis: &str, curves: &[Curve], bands: &[Band]) -> String {
    plot(title, [x_axis, y_axis], curves, bands, &Height::even(curves))
}

/// The same for values that differ by powers of ten, with a mark at each point.
pub(crate) fn decades(title: &str, x_axis: &str, y_axis: &str, curves: &[Curve]) -> String {
    plot(title, [x_axis, y_axis], curves, &[], &Height::decades(curves))
}

fn plot(
    title: &str,
    [x_axis, y_axis]: [&str; 2],
    curves: &[Curve],
    bands: &[Band],
    height: &Height,
) -> String {
    let x_most = curves.iter().flat_map(|curve| &curve.points).map(|point| point.0).fold(1.0, f64::max);
    let (x_step, _) = scale(x_most);
    let bottom = PLOT_TOP + PLOT_HEIGHT;
    let x_of = |x: f64| LEFT + (WIDTH - LEFT - RIGHT) * x / x_most;
    let y_of = |y: f64| bottom - PLOT_HEIGHT * height.share(y);
    let mut svg = page(title, bottom + 46.0);
    for band in bands {
        let (from, to) = (x_of(band.from), x_of(band.to.min(x_most)));
        let width = (to - from).max(0.0);
        let _ = writeln!(
            svg,
            "<rect x=\"{from:.1}\" y=\"{PLOT_TOP}\" width=\"{width:.1}\" height=\"{PLOT_HEIGHT}\" fill=\"#888\" \
             opacity=\"0.22\"/>"
        );
        text(&mut svg, from + 4.0, PLOT_TOP + 14.0, "start", "faint", &band.name);
    }
    for y in height.labels() {
        line(&mut svg, (LEFT, y_of(y)), (WIDTH - RIGHT, y_of(y)));
        text(&mut svg, LEFT - 6.0, y_of(y) + 4.0, "end", "faint", &y.to_string());
    }
    for x in steps(x_step, x_most) {
        line(&mut svg, (x_of(x), bottom), (x_of(x), bottom + 5.0));
        text(&mut svg, x_of(x), bottom + 18.0, "middle", "faint", &x.to_string());
    }
    text(&mut svg, f64::midpoint(LEFT, WIDTH - RIGHT), bottom + 38.0, "middle", "ink", x_axis);
    text(&mut svg, 10.0, PLOT_TOP - 8.0, "start", "ink", y_axis);
    for (number, curve) in curves.iter().enumerate().rev() {
        let colour = COLOURS[number % COLOURS.len()];
        let width = if number == 0 { 2.5 } else { 1.2 };
        let path: Vec<String> =
            curve.points.iter().map(|&(x, y)| format!("{:.1},{:.1}", x_of(x), y_of(y))).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"/>",
            path.join(" ")
        );
        if matches!(height, Height::Decades { .. }) {
            for &(x, y) in &curve.points {
                let (x, y) = (x_of(x), y_of(y));
                let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
            }
        }
    }
    legend(&mut svg, 130.0, curves.iter().map(|curve| curve.name.as_str()));
    svg + "</svg>\n"
}

const BAR: f64 = 15.0;
const BAR_LEFT: f64 = 260.0;
const BAR_LENGTH: f64 = 255.0;
const PANEL: f64 = 320.0;

/// Draws pairs of horizontal bars: one panel for each of `panels`, one colour for each of `kinds`.
pub(crate) fn bars(title: &str, panels: [&str; 2], kinds: &[&str], groups: &[Group]) -> String {
    let values = groups.iter().flat_map(|group| &group.bars).flat_map(|bar| bar.values);
    let (step, most) = scale(values.flatten().fold(1.0, f64::max));
    let rows: usize = groups.iter().map(|group| group.bars.len()).sum();
    let bottom = PLOT_TOP + 20.0 + rows as f64 * BAR + groups.len() as f64 * 30.0;
    let mut svg = page(title, bottom + 30.0);
    for (panel, name) in panels.iter().enumerate() {
        let left = BAR_LEFT + PANEL * panel as f64;
        text(&mut svg, left, PLOT_TOP + 6.0, "start", "ink", name);
        for value in steps(step, most) {
            let x = left + BAR_LENGTH * value / most;
            line(&mut svg, (x, PLOT_TOP + 14.0), (x, bottom));
            text(&mut svg, x, bottom + 14.0, "middle", "faint", &value.to_string());
        }
    }
    let mut y = PLOT_TOP + 20.0;
    for group in groups {
        y += 26.0;
        let _ = writeln!(
            svg,
            "<text x=\"10\" y=\"{:.1}\" class=\"ink\" font-weight=\"bold\">{}</text>",
            y - 6.0,
            escaped(&group.name)
        );
        for bar in &group.bars {
            text(&mut svg, BAR_LEFT - 8.0, y + BAR - 4.0, "end", "ink", &bar.name);
            for (panel, value) in bar.values.iter().enumerate() {
                draw_bar(&mut svg, BAR_LEFT + PANEL * panel as f64, y, *value, most, bar.kind);
            }
            y += BAR;
        }
        y += 4.0;
    }
    legend(&mut svg, 230.0, kinds.iter().copied());
    svg + "</svg>\n"
}

fn draw_bar(svg: &mut String, left: f64, y: f64, value: Option<f64>, most: f64, kind: usize) {
    let Some(value) = value else {
        return text(svg, left + 5.0, y + BAR - 4.0, "start", "faint", "failed");
    };
    let (length, colour) = (BAR_LENGTH * value / most, COLOURS[kind % COLOURS.len()]);
    let height = BAR - 3.0;
    let _ = writeln!(
        svg,
        "<rect x=\"{left}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"{height}\" fill=\"{colour}\"/>"
    );
    text(svg, left + length + 4.0, y + BAR - 4.0, "start", "ink", &format!("{value:.0}"));
}

fn page(title: &str, height: f64) -> String {
    let title = escaped(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\" role=\"img\">\n<title>{title}</title>\n{STYLE}\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"6\" class=\"page\"/>\n\
         <text x=\"10\" y=\"20\" font-size=\"14\" class=\"ink\">{title}</text>\n"
    )
}

fn legend<'a>(svg: &mut String, width: f64, names: impl Iterator<Item = &'a str>) {
    for (number, name) in names.enumerate() {
        let (x, colour) = (10.0 + width * number as f64, COLOURS[number % COLOURS.len()]);
        let _ = writeln!(svg, "<rect x=\"{x}\" y=\"29\" width=\"11\" height=\"11\" fill=\"{colour}\"/>");
        text(svg, x + 16.0, 39.0, "start", "ink", name);
    }
}

fn line(svg: &mut String, from: (f64, f64), to: (f64, f64)) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ =
        writeln!(svg, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"line\"/>");
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, class: &str, text: &str) {
    let text = escaped(text);
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{text}</text>"
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A step of 1, 2 or 5 times a power of ten, of which about five make `most`; and how far the axis goes.
fn scale(most: f64) -> (f64, f64) {
    let rough = most / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    (step, step * (most / step).ceil())
}

/// The labels of an axis. They are made by counting, so that no error adds up.
fn steps(step: f64, most: f64) -> impl Iterator<Item = f64> {
    let count = (most / step + 1e-9).floor() as u32;
    (0..=count).map(move |number| (f64::from(number) * step * 1000.0).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_steps() {
        assert_eq!(scale(478.0), (100.0, 500.0));
        assert_eq!(scale(20.0), (5.0, 20.0));
        assert_eq!(scale(0.9).0, 0.2);
        assert_eq!(steps(0.2, 0.9).collect::<Vec<_>>(), [0.0, 0.2, 0.4, 0.6, 0.8]);
    }

    #[test]
    fn all_that_is_given_is_drawn() {
        let curve = |name: &str| Curve { name: name.to_owned(), points: vec![(0.0, 0.0), (10.0, 400.0)] };
        let band = Band { from: 4.0, to: 12.0, name: "link 2 cut".to_owned() };
        let svg = curves("a < b", "time (s)", "MB/s", &[curve("all"), curve("link 1")], &[band]);
        assert_eq!(svg.matches("<polyline").count(), 2);
        for expected in ["a &lt; b", "time (s)", "MB/s", ">all<", ">link 1<", "link 2 cut", "880.0,70.0"] {
            assert!(svg.contains(expected), "{expected}");
        }
    }

    #[test]
    fn decades_are_equally_high() {
        let curve = Curve { name: "p99".to_owned(), points: vec![(1.0, 0.3), (2.0, 40.0), (3.0, 0.0)] };
        let height = Height::decades(std::slice::from_ref(&curve));
        assert_eq!(height.labels(), [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        let step = height.share(2.0) - height.share(0.2);
        assert!((height.share(20.0) - height.share(2.0) - step).abs() < 1e-9);
        assert_eq!((height.share(0.0), height.share(0.2), height.share(50.0)), (0.0, 0.0, 1.0));
        let svg = decades("t", "IOPS", "ms", &[curve]);
        assert_eq!((svg.matches("<circle").count(), svg.matches(">0.2<").count()), (3, 1));
    }

    #[test]
    fn a_bar_is_as_long_as_its_value() {
        let bar = |value: Option<f64>| Bar { name: "tcp".to_owned(), kind: 1, values: [value, Some(500.0)] };
        let group = Group { name: "lossy".to_owned(), bars: vec![bar(Some(250.0)), bar(None)] };
        let svg = bars("title", ["read (MB/s)", "write (MB/s)"], &["ours", "other"], &[group]);
        assert_eq!(svg.matches("width=\"127.5\"").count(), 1);
        assert_eq!(svg.matches("width=\"255.0\"").count(), 2);
        assert!(svg.contains(">failed<") && svg.contains("write (MB/s)") && svg.contains(">lossy<"));
    }
}
