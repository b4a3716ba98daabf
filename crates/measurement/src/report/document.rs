//! A report as data: findings in words, pictures, tables, facts. It keeps out how it looks (HTML, Markdown, CSV), and
//! where the numbers come from.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use chart::{Chart, Unit};

/// A whole report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// `Sweep of nqn.2026-01.io.selvedge:target`.
    pub title: String,
    /// Line with the measured object and the time.
    pub subtitle: String,
    /// Answer to the title, where that is a question. It leads the report, with the first of `charts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Figures that stand large above all else.
    #[serde(default)]
    pub figures: Vec<LeadingFigure>,
    /// Findings, the most important first.
    pub findings: Vec<Finding>,
    pub charts: Vec<Chart>,
    pub tables: Vec<DataTable>,
    /// Environment: machine, system, target.
    pub facts: Vec<FactGroup>,
}

impl Document {
    /// The picture beside the answer, and the others.
    pub fn parted_charts(&self) -> (Option<&Chart>, &[Chart]) {
        match (&self.answer, self.charts.split_first()) {
            (Some(_), Some((first, others))) => (Some(first), others),
            _ => (None, &self.charts),
        }
    }

    /// The report for programs: the document itself, from which it can be made again, and `more` beside it. Where both
    /// have a name, the document's counts.
    pub fn with(&self, more: Value) -> Value {
        let (Value::Object(mut all), Ok(Value::Object(own))) = (more, serde_json::to_value(self)) else {
            return Value::Null;
        };
        all.extend(own);
        Value::Object(all)
    }
}

/// A figure that leads the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeadingFigure {
    /// `IOPS at most`.
    pub name: String,
    pub unit: Unit,
    pub value: f64,
    /// 95 % confidence, where it is known.
    pub interval: Option<(f64, f64)>,
    /// The point that it is of.
    pub note: String,
}

/// A finding in words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub kind: FindingKind,
    /// The statement: `Use -i 4`.
    pub title: String,
    /// Why, with the numbers.
    pub text: String,
    /// The picture that shows it.
    pub chart_id: Option<String>,
}

/// Kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// Recommended action.
    Advice,
    /// Observation.
    Observation,
    /// Restriction: points that are missing or not steady.
    Caution,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataTable {
    /// Unique in its document; letters, digits and hyphens. It names the CSV file.
    pub id: String,
    pub title: String,
    pub columns: Vec<Column>,
    /// Each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// For people: `p99`.
    pub name: String,
    /// For programs, with its unit at the end: `p99_ns`.
    pub key: String,
    /// `None` where its cells are texts.
    pub unit: Option<Unit>,
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
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
pub struct FactGroup {
    /// `Initiator`, `Target`, `Network`.
    pub title: String,
    /// Names and values, in the order in which they are shown.
    pub facts: Vec<(String, String)>,
}
