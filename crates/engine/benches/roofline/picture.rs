//! The figures of a roofline run as bars in an SVG that reads on light and dark pages. It knows no measurement.

use std::fmt::Write;

/// One group of bars: its label, and the value of each series.
pub(crate) struct Group {
    pub(crate) label: String,
    pub(crate) values: Vec<f64>,
}

const WIDTH: f64 = 860.0;
const LEFT: f64 = 130.0;
const BAR: f64 = 15.0;
const GAP: f64 = 16.0;
const TOP: f64 = 54.0;
/// Greys for the bare servers, colours for the target.
const COLOURS: [&str; 5] = ["#9aa3ad", "#7d8792", "#616b76", "#d9622b", "#e9a23b"];

/// Draws `groups` of bars, one bar for each of `series`, with `title` above.
pub(crate) fn draw(title: &str, series: &[&str], groups: &[Group]) -> String {
    let group_height = BAR * series.len() as f64 + GAP;
    let height = TOP + group_height * groups.len() as f64 + 10.0;
    let most = groups.iter().flat_map(|group| &group.values).fold(1.0, |most: f64, value| most.max(*value));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\" role=\"img\">\n<title>{title}</title>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"6\" fill=\"#ffffff\"/>\n\
         <text x=\"10\" y=\"20\" font-size=\"14\" fill=\"#222\">{title}</text>\n"
    );
    for (at, name) in series.iter().enumerate() {
        let x = 10.0 + 165.0 * at as f64;
        let colour = COLOURS[at % COLOURS.len()];
        let _ = writeln!(svg, "<rect x=\"{x}\" y=\"31\" width=\"11\" height=\"11\" fill=\"{colour}\"/>");
        let _ = writeln!(svg, "<text x=\"{}\" y=\"41\" fill=\"#222\">{name}</text>", x + 16.0);
    }
    for (number, group) in groups.iter().enumerate() {
        let top = TOP + group_height * number as f64;
        let middle = top + BAR * series.len() as f64 / 2.0 + 4.0;
        let label = &group.label;
        let _ = writeln!(svg, "<text x=\"10\" y=\"{middle}\" fill=\"#222\">{label}</text>");
        for (at, value) in group.values.iter().enumerate() {
            let y = top + BAR * at as f64;
            let length = (WIDTH - LEFT - 60.0) * value / most;
            let colour = COLOURS[at % COLOURS.len()];
            let _ = writeln!(
                svg,
                "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{length:.1}\" height=\"{}\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"{}\" fill=\"#222\">{:.0}</text>",
                BAR - 2.0,
                LEFT + length + 5.0,
                y + BAR - 4.0,
                value / 1000.0
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}
