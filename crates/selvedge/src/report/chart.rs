//! A picture as data: axes, series, marks. It keeps out how it is drawn, and what was measured.

use serde::{Deserialize, Serialize};

/// One picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Chart {
    /// Unique in its document; letters, digits and hyphens. It names the SVG file, and anchors in the page.
    pub(crate) id: String,
    pub(crate) title: String,
    /// What a reader should see in it, in one or two sentences.
    pub(crate) caption: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) drawing: Drawing,
    /// Places that deserve a word, such as the knee of a curve.
    pub(crate) marks: Vec<Mark>,
}

/// One direction of a picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Axis {
    /// What it shows, without its unit: `p99 latency`.
    pub(crate) label: String,
    pub(crate) unit: Unit,
    pub(crate) scale: Scale,
}

/// What the numbers of an axis or a column are; it decides how they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    /// Whole things: queues, jobs, commands.
    Count,
    /// Commands per second.
    Iops,
    Bytes,
    BytesPerSecond,
    Nanoseconds,
    Seconds,
    Percent,
    /// A factor, where 1 is equality.
    Ratio,
}

/// How numbers are laid out on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scale {
    /// From 0.
    Linear,
    /// Powers of two are equally far apart; for what people double, such as queues.
    Log2,
    /// Powers of ten are equally far apart. Values of 0 or less have no place on it and are left out.
    Log10,
}

/// What is drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Drawing {
    Lines(Vec<Series>),
    Heat(Heat),
}

/// A line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Series {
    /// `4 queues`. Empty for the only line of a picture.
    pub(crate) name: String,
    pub(crate) style: Style,
    /// In the order in which the line visits them; `x` need not ascend (a throughput/latency curve turns back).
    pub(crate) points: Vec<Point>,
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Style {
    #[default]
    Solid,
    /// The same quantity seen another way: of the same colour as the solid line of the same name.
    Dashed,
    /// Points without a line between them.
    Dots,
}

/// One measured value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// The interval that holds the true `y` with 95 % confidence, where it was measured more than once.
    pub(crate) interval: Option<(f64, f64)>,
    /// What else to say of it when somebody looks at it: `1 job x depth 32`.
    pub(crate) note: Option<String>,
}

/// Counts of commands in a grid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Heat {
    /// Ascending borders of the columns, one more than there are columns.
    pub(crate) x_edges: Vec<f64>,
    /// Ascending borders of the rows, from below.
    pub(crate) y_edges: Vec<f64>,
    /// By column, then by row from below.
    pub(crate) counts: Vec<Vec<u64>>,
}

/// A place in a picture, with a word.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// A vertical line without `y`, a horizontal one without `x`, a point with both.
    pub(crate) x: Option<f64>,
    pub(crate) y: Option<f64>,
    pub(crate) label: String,
}
