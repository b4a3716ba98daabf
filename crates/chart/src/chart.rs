//! A picture as data: axes, series, marks. It keeps out how it is drawn, and what was measured.

use serde::{Deserialize, Serialize};

/// Chart with its texts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    /// Unique in its document; letters, digits and hyphens. It names the SVG file, and anchors in the page.
    pub id: String,
    /// Above it, where it stands alone or in a page.
    pub title: String,
    /// Statement of the chart, in one or two sentences.
    pub caption: String,
    /// From left to right.
    pub x: Axis,
    /// From below.
    pub y: Axis,
    /// Content between the axes.
    pub drawing: Drawing,
    /// Places that deserve a word, such as the knee of a curve.
    pub marks: Vec<Mark>,
}

/// Axis of a chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Quantity, without its unit: `p99 latency`.
    pub label: String,
    /// Unit of the numbers.
    pub unit: Unit,
    /// Layout of the numbers.
    pub scale: Scale,
}

/// Unit of the numbers of an axis or a column. It decides their format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Whole things: queues, jobs, commands.
    Count,
    /// Commands per second.
    Iops,
    /// In binary units: `4 KiB`.
    Bytes,
    /// In decimal units: `3.33 GB/s`.
    BytesPerSecond,
    /// A time, such as a latency.
    Nanoseconds,
    /// A time, such as a runtime.
    Seconds,
    /// A share.
    Percent,
    /// A factor, where 1 is equality.
    Ratio,
}

/// Layout of numbers on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// From 0.
    Linear,
    /// Powers of two are equally far apart; for what people double, such as queues.
    Log2,
    /// Powers of ten are equally far apart. Values of 0 or less have no place on it and are left out.
    Log10,
}

/// Content of a chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Drawing {
    /// Lines through points.
    Lines(Vec<Series>),
    /// A heat map.
    Heat(Heat),
}

/// A line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// `4 queues`. Empty for the only line of a picture.
    pub name: String,
    /// Style of the line.
    pub style: Style,
    /// In the order in which the line visits them; `x` need not ascend (a throughput/latency curve turns back).
    pub points: Vec<Point>,
}

/// Style of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Style {
    /// A line with a marker at each point.
    #[default]
    Solid,
    /// The same quantity seen another way: of the same colour as the solid line of the same name.
    Dashed,
    /// Points without a line between them.
    Dots,
    /// A line without markers, for more points than can be distinguished.
    Plain,
}

/// Measured value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Value on the x axis.
    pub x: f64,
    /// Value on the y axis.
    pub y: f64,
    /// The interval that holds the true `y` with 95 % confidence, where it was measured more than once.
    pub interval: Option<(f64, f64)>,
    /// Text shown on hovering, besides the values: `1 job x depth 32`.
    pub note: Option<String>,
}

impl Point {
    /// A value that was measured once.
    pub fn new(x: f64, y: f64) -> Point {
        Point { x, y, interval: None, note: None }
    }
}

/// Counts of commands in a grid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Heat {
    /// Ascending borders of the columns, one more than there are columns.
    pub x_edges: Vec<f64>,
    /// Ascending borders of the rows, from below.
    pub y_edges: Vec<f64>,
    /// By column, then by row from below.
    pub counts: Vec<Vec<u64>>,
}

/// A place in a picture, with a word.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// A vertical line without `y`, a horizontal one without `x`, a point with both.
    pub x: Option<f64>,
    /// See `x`.
    pub y: Option<f64>,
    /// As far as where a vertical line is a shaded band.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<f64>,
    /// The word.
    pub label: String,
}
