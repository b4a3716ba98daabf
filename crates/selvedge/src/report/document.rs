//! A report as data: findings in words, pictures, tables, facts. It keeps out how it looks (HTML, Markdown, CSV), and
//! where the numbers come from.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use chart::{Chart, Unit};

/// A whole report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Document {
    /// `Sweep of nqn.2026-01.io.selvedge:target`.
    pub(crate) title: String,
    /// Line with the measured object and the time.
    pub(crate) subtitle: String,
    /// Figures that stand large above all else.
    #[serde(default)]
    pub(crate) figures: Vec<LeadingFigure>,
    /// Findings, the most important first.
    pub(crate) findings: Vec<Finding>,
    pub(crate) charts: Vec<Chart>,
    pub(crate) tables: Vec<DataTable>,
    /// Environment: machine, system, target.
    pub(crate) facts: Vec<FactGroup>,
}

impl Document {
    /// The report for programs: the document itself, from which it can be made again, and `more` beside it. Where both
    /// have a name, the document's counts.
    pub(crate) fn with(&self, more: Value) -> Value {
        let (Value::Object(mut all), Ok(Value::Object(own))) = (more, serde_json::to_value(self)) else {
            return Value::Null;
        };
        all.extend(own);
        Value::Object(all)
    }
}

/// A figure that leads the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LeadingFigure {
    /// `IOPS at most`.
    pub(crate) name: String,
    pub(crate) unit: Unit,
    pub(crate) value: f64,
    /// 95 % confidence, where it is known.
    pub(crate) interval: Option<(f64, f64)>,
    /// The point that it is of.
    pub(crate) note: String,
}

/// A finding in words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Finding {
    pub(crate) kind: FindingKind,
    /// The statement: `Use -i 4`.
    pub(crate) title: String,
    /// Why, with the numbers.
    pub(crate) text: String,
    /// The picture that shows it.
    pub(crate) chart_id: Option<String>,
}

/// Kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FindingKind {
    /// Recommended action.
    Advice,
    /// Observation.
    Observation,
    /// Restriction: points that are missing or not steady.
    Caution,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DataTable {
    /// Unique in its document; letters, digits and hyphens. It names the CSV file.
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) columns: Vec<Column>,
    /// Each as long as `columns`.
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Column {
    /// For people: `p99`.
    pub(crate) name: String,
    /// For programs, with its unit at the end: `p99_ns`.
    pub(crate) key: String,
    /// `None` where its cells are texts.
    pub(crate) unit: Option<Unit>,
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Cell {
    Number {
        value: f64,
        /// 95 % confidence, where it is known.
        interval: Option<(f64, f64)>,
    },
    Text(String),
    /// No value: not measured, or without meaning here.
    Nothing,
}

/// Facts that belong together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FactGroup {
    /// `Initiator`, `Target`, `Network`.
    pub(crate) title: String,
    /// Names and values, in the order in which they are shown.
    pub(crate) facts: Vec<(String, String)>,
}
